"""Usage counted by ClickHouse with the queries of `storage.sql.counting`, exact to the last digit, and the newest
events, which only the database has. With FINAL, duplicates count once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import Any, Final, cast

from usagebill.core.filters import FilterIndex
from usagebill.core.numbers import CONTEXT, ZERO, add
from usagebill.storage.clickhouse.servers import EventServers, Shard, literal
from usagebill.storage.event_queries import CountedAs, EventQuery
from usagebill.storage.every_engine import RecordedRows
from usagebill.storage.ports import EventLog
from usagebill.storage.sql.counting import VALUE, Buckets, Dialect, EventCounts, Part, merged
from usagebill.storage.sql.events import SqlEvents
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


class _Runner:
    """A server's queries, with literals in place of values."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> RecordedRows:
        literals = map(literal, values)
        rows = self._shard.rows(re.sub(r"\?", lambda _: next(literals), sql))
        return RecordedRows([tuple(map(_exact, row)) for row in rows])


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


def counted(
    servers: EventServers,
    organization_id: str,
    question: EventQuery,
    filters: FilterIndex | None,
    shipped_to: int,
    events: EventLog,
) -> Buckets:
    """The aggregates of the query's events: those up to `shipped_to` by one or two queries to their server, those after
    it by the database.

    Raises ValueError for an aggregation that is not in `ANSWERED`, and `Unreachable` if the server does not respond.
    """
    if question.aggregation_type not in ANSWERED:
        raise ValueError(f"no query answers {question.aggregation_type}")
    shard = servers.of(organization_id, question.external_subscription_id)
    server = EventCounts(_Runner(shard), ClickHouseDialect(shard), organization_id)
    database = cast(SqlEvents, events).counts
    shipped, newest = Part(stored_up_to=shipped_to), Part(stored_after=shipped_to)
    groups = len(question.group_keys)
    if question.aggregation_type == CountedAs.UNIQUE_COUNT:
        rows = database.active(question, filters, part=newest)
        parts = [shipped]
        if rows and filters is None:
            # Of a value with newer events, ClickHouse may not have the latest.
            values = sorted({row[groups + VALUE] for row in rows})
            parts = [replace(shipped, without=values), replace(shipped, values=values)]
        rows += (row for part in parts for row in server.active(question, filters, part=part))
    else:
        rows = [*server.rows(question, filters, part=shipped), *database.rows(question, filters, part=newest)]
    buckets = merged(question, filters, rows, groups)
    if question.aggregation_type == CountedAs.LATEST:
        server.fill_in_latest(question, filters, buckets, part=shipped)
        database.fill_in_latest(question, filters, buckets, part=newest)
    return buckets
