"""Answers: an aggregation over events as one SQL query, exact to the last digit. No event becomes a Python object.

All aggregations work alike: SQL groups events by group key, by the values that decide their bucket and, for unique
counts, by value; the rows are then merged by bucket. Sums are `numeric`, which keeps every digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias, assert_never

from usagebill.core.aggregation import AggregateResult, Operation
from usagebill.core.filters import FilterIndex
from usagebill.core.numbers import ZERO, add
from usagebill.storage.event_queries import COUNTED, CountedAs, EventQuery, Group
from usagebill.storage.event_rows import instant, microseconds
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.events.sql_texts import Sql, amount_sql, number_sql, text_sql, where_sql

# All values of a key that no filter accepts count as one if at most this many are accepted; otherwise they stay
# distinct.
_ACCEPTED_AT_MOST = 5_000
_LATEST = "timestamp DESC, created_at DESC, id DESC"


@dataclass(slots=True)
class PartialAggregate:
    """The aggregate of one group of one bucket; `first` is the place of its first event."""

    first: tuple[int, int]
    count: int = 0
    units: Decimal = ZERO
    amount: Decimal = ZERO
    # The place of the event that set `units`, for latest values.
    latest: tuple[int, int, str] | None = None
    largest: Decimal | None = None
    # Value -> the place of its latest event, and whether that event adds it.
    values: dict[str, tuple[tuple[int, int, str], bool]] = field(default_factory=dict)
    # The values that the server has found to be added last, if it has counted them.
    distinct: int = 0
    moment: Decimal = ZERO
    last_at: int | None = None


# By bucket and group.
Buckets: TypeAlias = dict[int, dict[Group, PartialAggregate]]


def answer(question: EventQuery, buckets: Buckets) -> dict[Group, AggregateResult]:
    """See `storage.ports.EventLog.tallies`."""
    return results(question, buckets).get(0) or {(None,) * len(question.group_keys): AggregateResult()}


def answer_of(question: EventQuery, buckets: Buckets, external_ids: Sequence[str]) -> dict[str, AggregateResult]:
    """See `storage.ports.EventLog.tallies_of`."""
    tallies = results(question, buckets).get(0, {})
    return {id: tallies.get((id,)) or AggregateResult() for id in external_ids}


def counted(
    connection: Connection,
    organization_id: str,
    question: EventQuery,
    filters: FilterIndex | None = None,
    external_ids: Sequence[str] | None = None,
) -> Buckets:
    """The aggregates of the events; with several subscriptions, each is a group."""
    if question.aggregation_type not in COUNTED:
        raise ValueError(f"no query answers {question.aggregation_type}")
    rows = _rows(connection, organization_id, question, filters, external_ids)
    return merged(question, filters, rows, len(question.group_keys) if external_ids is None else 1)


def latest_at(
    connection: Connection,
    organization_id: str,
    question: EventQuery,
    filters: FilterIndex | None,
    instants: Sequence[int],
) -> Buckets:
    """The aggregates of the events at any of these instants."""
    rows = _rows(connection, organization_id, question, filters, None, instants)
    return merged(question, filters, rows, len(question.group_keys))


def merged(question: EventQuery, filters: FilterIndex | None, rows: Iterable[tuple[Any, ...]], groups: int) -> Buckets:
    """Rows merged by bucket and group: the first `groups` columns are the group, the next the filters' deciding
    values."""
    aggregation = CountedAs(question.aggregation_type)
    keys = () if filters is None else filters.keys
    buckets: Buckets = {}
    positions: dict[tuple[str | None, ...], tuple[int, ...]] = {}
    for row in rows:
        group, decisive = row[:groups], row[groups : groups + len(keys)]
        timestamp, sequence, *columns = row[groups + len(keys) :]
        first = (timestamp, sequence)
        if decisive not in positions:
            positions[decisive] = (0,) if filters is None else filters.of_values(decisive)
        for position in positions[decisive]:
            bucket = buckets.setdefault(position, {})
            partial = bucket.get(group)
            if partial is None:
                partial = bucket[group] = PartialAggregate(first)
            elif first < partial.first:
                partial.first = first
            _merge(aggregation, partial, columns)
    return buckets


def results(question: EventQuery, buckets: Buckets) -> dict[int, dict[Group, AggregateResult]]:
    """The results by bucket, of groups in the order of their first events."""
    aggregation = CountedAs(question.aggregation_type)
    return {
        position: {
            group: _result(aggregation, partial)
            for group, partial in sorted(bucket.items(), key=lambda item: item[1].first)
        }
        for position, bucket in buckets.items()
    }


def _rows(
    connection: Connection,
    organization_id: str,
    question: EventQuery,
    filters: FilterIndex | None,
    external_ids: Sequence[str] | None,
    instants: Sequence[int] | None = None,
) -> Iterator[tuple[Any, ...]]:
    """Rows of group, deciding values, place of the first event, number of events, their prices, and the columns of the
    aggregation.
    """
    aggregation, field_name = CountedAs(question.aggregation_type), question.field_name
    sql = Sql().add("SELECT ")
    names = names_sql(sql, question, filters, external_ids)
    sql.add(f"{amount_sql(question)} AS amount, timestamp, created_at, id, sequence, ")
    counting = "TRUE"
    if aggregation == CountedAs.UNIQUE_COUNT:
        counting = "v IS NOT NULL AND operation IN ('add', 'remove')"
        if field_name is None:
            sql.add("NULL::text AS v, NULL::text AS operation")
        else:
            text_sql(sql, field_name).add(" AS v, ")
            text_sql(sql.add("coalesce("), "operation_type").add(", 'add') AS operation")
    elif aggregation == CountedAs.COUNT:
        sql.add("NULL::numeric AS v")
    else:
        number_sql(sql, field_name).add(" AS v")
        counting = "v IS NOT NULL"
    where_sql(sql.add(" FROM events"), question, organization_id, external_ids)
    if instants is not None:
        sql.add(" AND timestamp = ANY(?::bigint[])", list(instants))
    # Evaluated once per event, not at each use.
    source = f"(SELECT * FROM ({sql.text} OFFSET 0) e WHERE {counting}) e"
    chosen = "".join(f"{name}, " for name in names)
    common = "MIN(timestamp), MIN(sequence), COUNT(*), SUM(amount)"
    match aggregation:
        case CountedAs.COUNT:
            text = f"SELECT {chosen}{common} FROM {source}{grouped_by(names)} HAVING COUNT(*) > 0"
        case CountedAs.SUM:
            text = f"SELECT {chosen}{common}, SUM(v) FROM {source}{grouped_by(names)} HAVING COUNT(*) > 0"
        case CountedAs.MAX:
            text = f"SELECT {chosen}{common}, MAX(v) FROM {source}{grouped_by(names)} HAVING COUNT(*) > 0"
        case CountedAs.LATEST:
            text = _latest_sql(names, source, "v")
        case CountedAs.WEIGHTED_SUM:
            weighted = f"SUM(v), SUM(v * {held_at(question)}), MAX(timestamp)"
            text = f"SELECT {chosen}{common}, {weighted} FROM {source}{grouped_by(names)} HAVING COUNT(*) > 0"
        case CountedAs.UNIQUE_COUNT if filters is None:
            # All events of a value are in one bucket, so the server counts the values.
            of_value = ", ".join((*names, 'v COLLATE "C"'))
            text = (
                f"SELECT {chosen}{common}, COUNT(*) FILTER (WHERE place = 1 AND operation = 'add') FROM (SELECT e.*,"
                f" row_number() OVER (PARTITION BY {of_value} ORDER BY {_LATEST}) AS place FROM {source}) e"
                f"{grouped_by(names)} HAVING COUNT(*) > 0"
            )
        case CountedAs.UNIQUE_COUNT:
            text = _latest_sql([*names, "v"], source, "operation", among=names)
        case _:
            assert_never(aggregation)
    if aggregation == CountedAs.UNIQUE_COUNT and filters is not None:
        # A row for each value.
        return connection.stream(text, sql.values)
    return iter(connection.execute(text, sql.values))


def held_at(question: EventQuery) -> str:
    """The instant from which an event's change of a weighted sum counts, as SQL."""
    if question.held_from is None:
        return "timestamp"
    return f"greatest(timestamp, {microseconds(question.held_from)})"


def names_sql(
    sql: Sql, question: EventQuery, filters: FilterIndex | None, external_ids: Sequence[str] | None = None
) -> list[str]:
    """Add the columns that decide a row's bucket, each with a comma: the group, then the deciding values."""
    keys = question.group_keys if external_ids is None else ()
    names = [f"g{place}" for place in range(len(keys))]
    for name, key in zip(names, keys, strict=True):
        text_sql(sql.add("nullif("), key).add(f", '') AS {name}, ")
    if external_ids is not None:
        names = ["subscription"]
        sql.add("external_subscription_id AS subscription, ")
    for place, key in enumerate(() if filters is None else filters.keys):
        assert filters is not None
        names.append(f"f{place}")
        accepted = filters.accepted_values(key)
        if len(accepted) > _ACCEPTED_AT_MOST:
            text_sql(sql, key)
        else:
            text_sql(sql.add("CASE WHEN "), key).add(" = ANY(?::text[]) THEN ", accepted)
            text_sql(sql, key).add(" END")
        sql.add(f" AS f{place}, ")
    return names


def grouped_by(names: Sequence[str]) -> str:
    """The GROUP BY clause of these columns."""
    return f" GROUP BY {', '.join(names)}" if names else ""


def _latest_sql(names: Sequence[str], source: str, value: str, among: Sequence[str] | None = None) -> str:
    """The values of the latest events of the groups of `names`, with the common columns."""
    partition = f"PARTITION BY {', '.join(names)}" if names else ""
    chosen = "".join(f"{name}, " for name in (names if among is None else among))
    also = "" if among is None else ", v"
    return (
        f"SELECT {chosen}first_timestamp, first_sequence, n, amounts, timestamp, created_at, id, {value}{also} FROM ("
        f"SELECT e.*, row_number() OVER latest AS place, MIN(timestamp) OVER alike AS first_timestamp,"
        " MIN(sequence) OVER alike AS first_sequence, COUNT(*) OVER alike AS n, SUM(amount) OVER alike AS amounts"
        f" FROM {source} WINDOW alike AS ({partition}), latest AS ({partition} ORDER BY {_LATEST})) ranked"
        " WHERE place = 1"
    )


def _merge(aggregation: CountedAs, partial: PartialAggregate, columns: Sequence[Any]) -> None:
    count, amount, *values = columns
    partial.count += count
    if amount is not None:
        partial.amount = add(partial.amount, amount)
    match aggregation:
        case CountedAs.COUNT:
            pass  # the count is all
        case CountedAs.SUM:
            partial.units = add(partial.units, values[0])
        case CountedAs.WEIGHTED_SUM:
            change, moment, last_at = values
            partial.units, partial.moment = add(partial.units, change), add(partial.moment, moment)
            partial.last_at = last_at if partial.last_at is None else max(partial.last_at, last_at)
        case CountedAs.MAX:
            partial.largest = values[0] if partial.largest is None else max(partial.largest, values[0])
        case CountedAs.LATEST:
            timestamp, created_at, id, units = values
            if partial.latest is None or (timestamp, created_at, id) > partial.latest:
                partial.latest, partial.units = (timestamp, created_at, id), units
        case CountedAs.UNIQUE_COUNT if len(values) == 1:
            partial.distinct += values[0]
        case CountedAs.UNIQUE_COUNT:
            timestamp, created_at, id, operation, value = values
            place, latest = (timestamp, created_at, id), partial.values.get(value)
            if latest is None or place > latest[0]:
                partial.values[value] = place, operation == Operation.ADD.value
        case _:
            assert_never(aggregation)


def _result(aggregation: CountedAs, partial: PartialAggregate) -> AggregateResult:
    units, count = partial.units, partial.count
    match aggregation:
        case CountedAs.COUNT:
            units = Decimal(count)
        case CountedAs.MAX:
            units = ZERO if partial.largest is None else partial.largest
        case CountedAs.LATEST:
            units = max(units, ZERO)
        case CountedAs.UNIQUE_COUNT:
            count = partial.distinct + sum(adds for _, adds in partial.values.values())
            units = Decimal(count)
        case CountedAs.SUM | CountedAs.WEIGHTED_SUM:
            pass  # the units are merged already
        case _:
            assert_never(aggregation)
    return AggregateResult(
        units=units,
        events_count=count,
        amount_cents=partial.amount,
        last_at=None if partial.last_at is None else instant(partial.last_at),
        moment=partial.moment,
    )
