"""The parts of SQL queries about events: conditions, properties, numbers, rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from usagebill.core.events import EventOrder
from usagebill.core.filters import EventScope
from usagebill.storage.event_queries import Arrival, Counted, EventQuery
from usagebill.storage.event_rows import microseconds

# Most combinations of values of an excluded filter that are looked up together.
_FEW = 20


class Sql:
    """The text of a statement and its bound values, built in the same order.

    Rows that are no events have the text forms of properties in `columns`.
    """

    def __init__(self) -> None:
        self.text = ""
        self.values: list[Any] = []
        self.columns: Mapping[str, str] | None = None

    def add(self, text: str, *values: Any) -> Sql:
        self.text += text
        self.values += values
        return self


def text_sql(sql: Sql, key: str) -> Sql:
    """The text form of the property `key` (`core.events.property_text`), NULL if it has none."""
    if sql.columns is not None:
        return sql.add(sql.columns[key])
    return sql.add("(coalesce(texts, properties) ->> ?::text)", key)


def number_sql(sql: Sql, field: str | None) -> Sql:
    """The property as a number, NULL if it is not one."""
    return sql.add("NULL::numeric") if field is None else sql.add("(numbers ->> ?::text)::numeric", field)


def amount_sql(question: EventQuery) -> str:
    """The price sent with an event, if the query needs it."""
    return "precise_total_amount_cents::numeric" if question.amounts else "NULL::numeric"


def _among(sql: Sql, key: str, accepted: Sequence[str]) -> None:
    text_sql(sql, key).add(" = ANY(?::text[])", list(accepted))


def _matches(sql: Sql, accepted_by_key: Mapping[str, Sequence[str]]) -> None:
    sql.add("(TRUE")
    for key, accepted in accepted_by_key.items():
        _among(sql.add(" AND "), key, accepted)
    sql.add(")")


def _order(sql: Sql, order: EventOrder) -> None:
    timestamp, created_at, id = order
    sql.add("(?::bigint, ?::bigint, ?)", microseconds(timestamp), microseconds(created_at), id)


def _arrival(sql: Sql, arrival: Arrival) -> None:
    sql.add("(?::bigint, ?)", microseconds(arrival.at), arrival.id)


def _bucket(sql: Sql, bucket: EventScope) -> None:
    for key, accepted in bucket.matches.items():
        _among(sql.add(" AND "), key, accepted)
    # Exclusions with the same keys are looked up together, by all combinations of their values.
    combined: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    for exclude in bucket.excludes:
        if exclude and prod(len(accepted) for accepted in exclude.values()) <= _FEW:
            keys = tuple(sorted(exclude))
            combined.setdefault(keys, {}).update(dict.fromkeys(product(*(exclude[key] for key in keys))))
        else:
            sql.add(" AND ")
            _matches(sql, exclude)
            sql.add(" IS NOT TRUE")
    for keys, combinations in combined.items():
        sql.add(" AND ((")
        for place, key in enumerate(keys):
            text_sql(sql.add(", " if place else ""), key)
        columns = [[combination[place] for combination in combinations] for place in range(len(keys))]
        listed = ", ".join(["?::text[]"] * len(keys))
        sql.add(f") IN (SELECT * FROM unnest({listed}))) IS NOT TRUE", *columns)


def where_sql(sql: Sql, question: EventQuery, organization_id: str, external_ids: Sequence[str] | None = None) -> Sql:
    """The WHERE clause for the events of `question`, or of the same question about each of the subscriptions."""
    sql.add(" WHERE organization_id = ?", organization_id)
    if external_ids is None:
        sql.add(" AND external_subscription_id = ?", question.external_subscription_id)
    else:
        sql.add(" AND external_subscription_id = ANY(?::text[])", list(external_ids))
    sql.add(" AND code = ?", question.code)
    if question.earliest is not None:
        sql.add(" AND timestamp >= ?::bigint", microseconds(question.earliest))
    if (latest := question.latest_timestamp) is not None:
        sql.add(" AND timestamp <= ?::bigint", microseconds(latest))
    if question.up_to is not None:
        _order(sql.add(" AND (timestamp, created_at, id) <= "), question.up_to.order)
    if question.before is not None:
        _order(sql.add(" AND (timestamp, created_at, id) < "), question.before.order)
    if question.stored_after is not None:
        sql.add(" AND sequence > ?::bigint", question.stored_after)
    if question.known_at is not None:
        sql.add(" AND created_at <= ?::bigint", microseconds(question.known_at))
    if question.after is not None and question.first_end is not None:
        sql.add(" AND (timestamp >= ?::bigint OR (created_at, id) > ", microseconds(question.first_end))
        _arrival(sql, question.after)
        sql.add(")")
    if question.until is not None and question.last_start is not None:
        sql.add(" AND (timestamp < ?::bigint OR (created_at, id) <= ", microseconds(question.last_start))
        _arrival(sql, question.until)
        sql.add(")")
    return properties_sql(sql, question)


def properties_sql(sql: Sql, question: EventQuery) -> Sql:
    """The question's conditions on properties."""
    _bucket(sql, question.bucket)
    for key, values in question.only.items():
        present = [value for value in values if value is not None]
        text_sql(sql.add(" AND (nullif("), key).add(", '') = ANY(?::text[])", present)
        if len(present) < len(values):
            text_sql(sql.add(" OR coalesce("), key).add(", '') = ''")
        sql.add(")")
    return sql


def rows_sql(columns: str, organization_id: str, question: EventQuery) -> Sql:
    """The query for `columns` of the events of `question`, in order of time."""
    sql = where_sql(Sql().add(f"SELECT {columns} FROM events"), question, organization_id)
    return sql.add(" ORDER BY timestamp, created_at, id")


def changes_sql(
    columns: str, organization_id: str, question: EventQuery, since: Counted | None, order: EventOrder, at_most: int
) -> Sql:
    """The query behind `storage.ports.EventLog.changes`."""
    sql = Sql().add(f"SELECT {columns} FROM events")
    if since is None:
        where_sql(sql, question, organization_id)
        _order(
            sql.add(" AND timestamp <= ?::bigint AND (timestamp, created_at, id) <= ", microseconds(order[0])), order
        )
        return sql
    low, high = sorted((since.order, order))

    def until_high() -> None:
        _order(sql.add(" AND timestamp <= ?::bigint AND (timestamp, created_at, id) <= ", microseconds(high[0])), high)

    where_sql(sql, question, organization_id).add(" AND in_advance AND sequence > ?", since.sequence)
    until_high()
    earliest = low[0] if question.earliest is None else max(question.earliest, low[0])
    sql.add(f" UNION ALL SELECT {columns} FROM events")
    where_sql(sql, replace(question, earliest=earliest), organization_id).add(" AND sequence <= ?", since.sequence)
    _order(sql.add(" AND (timestamp, created_at, id) > "), low)
    until_high()
    return sql.add(" LIMIT ?", at_most)
