"""Usage counted by ClickHouse with the queries of `storage.sql.counting`, exact to the last digit, and the newest
events, which only the database has. With FINAL, duplicates count once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from usagebill.core.aggregation import Operation, counts, operation_of
from usagebill.core.events import Event, EventOrder, numeric_value, property_of
from usagebill.core.filters import FilterIndex
from usagebill.core.numbers import CONTEXT, ZERO, add
from usagebill.storage.clickhouse.servers import EventServers, Shard, literal
from usagebill.storage.event_queries import CountedAs, EventQuery, Group
from usagebill.storage.event_rows import microseconds
from usagebill.storage.sql.counting import Buckets, Dialect, EventCounts, Part, Row, merged
from usagebill.storage.sql.statements import Statement

# The database answers weighted sums, from running totals.
ANSWERED: Final = frozenset(CountedAs) - {CountedAs.WEIGHTED_SUM}


class ClickHouseDialect(Dialect):
    """See `storage.sql.counting.Dialect`. Numbers are in the columns that `rows` describes; their sum or largest comes
    as a tuple: what is computed, that of the first two columns, and all of the third.
    """

    apart = ""
    further_tests = ("has_subscription",)
    sequence = "sequence"
    no_number = no_text = "NULL"
    texts_in = "(SELECT arrayJoin(JSONExtract({}, 'Array(String)')) AS value)"
    price = "amount"
    is_number = "(short IS NOT NULL OR wide IS NOT NULL OR long IS NOT NULL)"
    number = "number"
    total = "tuple('sum', toString(sum(toInt256(short))), toString(sum(wide)), groupArray(long))"
    largest = "tuple('max', toString(max(short)), toString(max(wide)), groupArray(long))"

    def __init__(self, shard: Shard) -> None:
        self.by_time = f"{shard.table('events')} FINAL"

    def text(self, statement: Statement, key: str) -> str:
        return _member("texts", statement.bind(key))

    def numbers(self, statement: Statement, key: str) -> Mapping[str, str]:
        columns = {"short": "millionths", "wide": "wide", "long": "long", "number": "texts"}
        return {name: _member(column, statement.bind(key)) for name, column in columns.items()}

    def weighted(self, statement: Statement, key: str) -> str:
        raise ValueError("no query answers weighted sums")

    def is_one_of(self, statement: Statement, column: str, numbers: Sequence[int]) -> str:
        return f"{column} IN ({', '.join(map(statement.bind, numbers))})"

    def is_one_of_rows(self, statement: Statement, texts: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        listed = ", ".join(f"({', '.join(map(statement.bind, row))})" for row in rows)
        present = " AND ".join(f"{text} IS NOT NULL" for text in texts)
        known = ", ".join(f"coalesce({text}, '')" for text in texts)
        return f"({present} AND ({known}) IN ({listed}))"

    def ranked(self, events: str, names: Sequence[str]) -> str:
        return events

    def of_latest(self, column: str) -> str:
        return f"argMax({column}, (timestamp, created_at, id))"

    def sum_of(self, column: str) -> str:
        return f"sum({column})"

    def largest_of(self, column: str) -> str:
        return f"max({column})"


def _member(column: str, key: str) -> str:
    return f"if(mapContains({column}, {key}), {column}[{key}], NULL)"


class _Answer(list[Row]):
    """The rows of a query."""

    def fetchone(self) -> Row | None:
        return self[0] if self else None

    def fetchall(self) -> list[Row]:
        return self


class _Runner:
    """A server's queries, with literals in place of values."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> _Answer:
        literals = map(literal, values)
        rows = self._shard.rows(re.sub(r"\?", lambda _: next(literals), sql))
        return _Answer(tuple(map(_exact, row)) for row in rows)


def _exact(value: Any) -> Any:
    """A cell of an answer, with numbers as they were sent."""
    if isinstance(value, Decimal):
        return CONTEXT.normalize(value)
    if not isinstance(value, tuple):
        return value
    function, millionths, wide, long = value
    numbers = [*map(Decimal, long)]
    numbers += [] if millionths is None else [CONTEXT.scaleb(Decimal(millionths), -6)]
    numbers += [] if wide is None else [Decimal(wide)]
    exact = max(numbers, default=ZERO) if function == "max" else reduce(add, numbers, ZERO)
    return Decimal(f"{CONTEXT.normalize(exact):f}")


# Later than any event.
LAST: Final[EventOrder] = (datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), "\U0010ffff")


def newer(question: EventQuery, shipped_to: int) -> EventQuery:
    """The same query for the events that only the database has."""
    return replace(question, stored_after=max(shipped_to, question.stored_after or 0))


def counted(
    servers: EventServers,
    organization_id: str,
    question: EventQuery,
    filters: FilterIndex | None,
    shipped_to: int,
    newest: Iterable[tuple[int, Event]],
) -> Buckets:
    """The aggregates of the query's events, by one or two queries to their server.

    `newest` are those after `shipped_to`, each with its sequence number. Raises ValueError for an aggregation that is
    not in `ANSWERED`, and `Unreachable` if the server does not respond.
    """
    if question.aggregation_type not in ANSWERED:
        raise ValueError(f"no query answers {question.aggregation_type}")
    shard = servers.of(organization_id, question.external_subscription_id)
    server = EventCounts(_Runner(shard), ClickHouseDialect(shard), organization_id)
    newest = [pair for pair in newest if counts(question.aggregation_type, question.field_name, pair[1])]
    shipped = Part(stored_up_to=shipped_to)
    if question.aggregation_type == CountedAs.UNIQUE_COUNT:
        # Of a value with newer events, ClickHouse may not have the latest.
        values = sorted({property_of(event, question.field_name) or "" for _, event in newest})
        parts = [shipped]
        if values and filters is None:
            parts = [replace(shipped, without=values), replace(shipped, values=values)]
        rows = [row for part in parts for row in server.active(question, filters, part=part)]
    else:
        rows = server.rows(question, filters, part=shipped)
    keys = () if filters is None else filters.keys
    rows += (_row(question, keys, sequence, event) for sequence, event in newest)
    buckets = merged(question, filters, rows, len(question.group_keys))
    if question.aggregation_type == CountedAs.LATEST:
        server.fill_in_latest(question, filters, buckets, part=shipped)
        for _, event in newest:
            for position in (0,) if filters is None else filters.of_event(event):
                partial = buckets[position][_group(question, event)]
                partial.came(_place(event), numeric_value(event, question.field_name) or ZERO)
    return buckets


def _place(event: Event) -> tuple[int, int, str]:
    return microseconds(event.timestamp), microseconds(event.created_at), event.id


def _group(question: EventQuery, event: Event) -> Group:
    return tuple(property_of(event, key) or None for key in question.group_keys)


def _row(question: EventQuery, keys: Sequence[str], sequence: int, event: Event) -> Row:
    """A row of one event for `merged`; `keys` decide on the filter."""
    number, at = numeric_value(event, question.field_name), microseconds(event.timestamp)
    columns: Mapping[str, Row] = {
        CountedAs.SUM: (number,),
        CountedAs.MAX: (number,),
        CountedAs.LATEST: (at,),
        CountedAs.UNIQUE_COUNT: (
            operation_of(event) is Operation.ADD,
            property_of(event, question.field_name),
            *_place(event),
        ),
    }
    return (
        *_group(question, event),
        *(property_of(event, key) for key in keys),
        *(at, sequence, 1, event.precise_total_amount_cents if question.amounts else None),
        *columns.get(question.aggregation_type, ()),
    )
