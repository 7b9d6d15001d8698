"""Events in SQLite's SQL, exact to the last digit, and the tables of `storage.sql.usage_totals`.

Numbers are added up as whole millionths; the few that do not fit, by the aggregates below, which keep every digit.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import ClassVar, Final

from usagebill.core.numbers import CONTEXT, ZERO, add, multiply_add_exactly
from usagebill.storage.sql.statements import Statement
from usagebill.storage.sql.usage_totals import EDITED, TotalsDialect
from usagebill.storage.sqlite.events.rows import member_in

_BILLION: Final = 10**9


class _ExactSum:
    def __init__(self) -> None:
        self._sum = ZERO

    def step(self, text: object) -> None:
        self._sum = add(self._sum, Decimal(str(text)))

    def finalize(self) -> str:
        return str(self._sum)


class _ExactMax:
    def __init__(self) -> None:
        self._max: Decimal | None = None

    def step(self, text: object) -> None:
        value = Decimal(str(text))
        if self._max is None or value > self._max:
            self._max = value

    def finalize(self) -> str | None:
        return None if self._max is None else str(self._max)


class _ExactWeights:
    """The sum of numbers, and of each times its instant in microseconds: a JSON array of two texts."""

    def __init__(self) -> None:
        self._change = self._moment = ZERO

    def step(self, text: str, at: int) -> None:
        value = Decimal(text)
        self._change = add(self._change, value)
        self._moment = multiply_add_exactly(value, at, self._moment)

    def finalize(self) -> str:
        return f'["{self._change}","{self._moment}"]'


def _from_millionths(value: int) -> Decimal:
    whole, millionths = divmod(value, 1_000_000)
    return CONTEXT.normalize(CONTEXT.scaleb(Decimal(value), -6)) if millionths else Decimal(whole)


def _exact_total(low: int | None, high: int | None, rest: str | None) -> str | None:
    """Millionths in two halves, so that sums of them fit into 64 bits, and longer numbers as text."""
    if low is None:
        return rest
    short = _from_millionths(low + (high or 0) * _BILLION)
    return str(short if rest is None else add(short, Decimal(rest)))


def _exact_added(text: str | None, other: str | None) -> str | None:
    if text is None or other is None:
        return text or other
    return str(add(Decimal(text), Decimal(other)))


def _exact_larger(text: str | None, other: str | None) -> str | None:
    if text is None or other is None:
        return text or other
    return max(text, other, key=Decimal)


def prepare(connection: sqlite3.Connection) -> None:
    """Register the SQL functions of queries of events on `connection`."""
    # The types of `sqlite3` know aggregates of integers only.
    connection.create_aggregate("exact_sum", 1, _ExactSum)  # type: ignore[arg-type]
    connection.create_aggregate("exact_weights", 2, _ExactWeights)  # type: ignore[arg-type]
    connection.create_aggregate("exact_max", 1, _ExactMax)  # type: ignore[arg-type]
    connection.create_function("member_in", 2, member_in, deterministic=True)
    connection.create_function("exact_total", 3, _exact_total, deterministic=True)
    connection.create_function("exact_added", 2, _exact_added, deterministic=True)
    connection.create_function("exact_larger", 2, _exact_larger, deterministic=True)


def _if_any(aggregate: str, column: str) -> str:
    return f"{aggregate}({column}) FILTER (WHERE {column} IS NOT NULL)"


class SqliteDialect(TotalsDialect):
    """See `storage.sql.counting.Dialect` and `storage.sql.usage_totals.TotalsDialect`."""

    numbers_by_organization = False
    apart = " LIMIT -1"
    by_time = "events INDEXED BY events_usage"
    listed = "events INDEXED BY events_listed"
    marked = "events INDEXED BY events_uncounted"
    ahead = "events INDEXED BY events_ahead"
    is_marked = "uncounted = 1"
    rows_in = "json_each({})"
    in_advance = "events INDEXED BY events_stored"
    newest = "events NOT INDEXED"
    is_in_advance = "in_advance = 1"
    texts_in = "json_each({})"
    array = "json_array"
    least, greatest = "min", "max"
    price = "precise_total_amount_cents"
    is_number = "(short IS NOT NULL OR long IS NOT NULL)"
    number = f"exact_total(short % {_BILLION}, short / {_BILLION}, long)"
    total = f"exact_total(SUM(short % {_BILLION}), SUM(short / {_BILLION}), {_if_any('exact_sum', 'long')})"
    largest = (
        f"exact_larger(exact_total(MAX(short) % {_BILLION}, MAX(short) / {_BILLION}, NULL),"
        f" {_if_any('exact_max', 'long')})"
    )
    # SQLite computes the one aggregate of both once.
    change = "exact_weights(weighted, held_at) ->> 0"
    moment = "exact_weights(weighted, held_at) ->> 1"
    # In the properties as they were sent: hardly any event has one.
    names_operation = "instr(properties, '\"operation_type\"') > 0"
    month = (
        "CAST(strftime('%Y%m', (timestamp - (timestamp % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')"
        " AS INTEGER)"
    )
    totals_key = "series, width, bucket, key, value"
    further_totals: ClassVar[Mapping[str, str]] = {}

    def text(self, statement: Statement, key: str) -> str:
        return _member(statement, "coalesce(texts, properties)", key)

    def numbers(self, statement: Statement, key: str) -> Mapping[str, str]:
        return {"short": _member(statement, "millionths", key), "long": _member(statement, "long_numbers", key)}

    def weighted(self, statement: Statement, key: str) -> str:
        # Whether it is a number, without parsing it: the JSON names the property, first or after a comma.
        named = f"{json.dumps(key, ensure_ascii=False)}:"
        first, later = statement.bind("{" + named), statement.bind("," + named)
        tests = (
            f"instr({column}, {first}) = 1 OR instr({column}, {later}) > 0" for column in ("millionths", "long_numbers")
        )
        return f"CASE WHEN {' OR '.join(tests)} THEN {self.text(statement, key)} END"

    def is_one_of(self, statement: Statement, column: str, numbers: Sequence[int]) -> str:
        return f"{column} IN (SELECT value FROM json_each({statement.bind(json.dumps(numbers))}))"

    def is_one_of_rows(self, statement: Statement, texts: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        members = ", ".join(f"value ->> {place}" for place in range(len(texts)))
        listed = statement.bind(json.dumps(rows, ensure_ascii=False))
        return f"({', '.join(texts)}) IN (SELECT {members} FROM json_each({listed}))"

    def sum_of(self, column: str) -> str:
        return _if_any("exact_sum", column)

    def largest_of(self, column: str) -> str:
        return _if_any("exact_max", column)

    def added(self, one: str, other: str) -> str:
        return f"CASE WHEN {other} IS NULL THEN {one} ELSE exact_added({one}, {other}) END"

    def larger(self, one: str, other: str) -> str:
        return f"CASE WHEN {other} IS NULL THEN {one} ELSE exact_larger({one}, {other}) END"


def _member(statement: Statement, column: str, key: str) -> str:
    """The member `key` of the JSON object in `column`, a number or a text."""
    # SQLite's JSON paths know no quotes, escapes or control characters.
    if '"' in key or "\\" in key or not key.isprintable():
        return f"member_in({column}, {statement.bind(key)})"
    path = f'$."{key}"'
    return f"({column} ->> {statement.bind(path)})"


DIALECT: Final = SqliteDialect()

TABLES: Final = """
CREATE TABLE IF NOT EXISTS usage_series (
    id INTEGER PRIMARY KEY AUTOINCREMENT, organization_id TEXT NOT NULL, external_subscription_id TEXT NOT NULL,
    code TEXT NOT NULL, kind TEXT NOT NULL, field TEXT NOT NULL, keys TEXT NOT NULL, base INTEGER NOT NULL,
    built_to INTEGER, UNIQUE (organization_id, external_subscription_id, code, kind, field, keys));
CREATE TABLE IF NOT EXISTS usage_totals (
    series INTEGER NOT NULL, width INTEGER NOT NULL, bucket INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
    n INTEGER NOT NULL, total TEXT, top TEXT, moment TEXT, paid TEXT, first_at INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL, last_at INTEGER NOT NULL, received_at INTEGER NOT NULL, spoken INTEGER NOT NULL,
    PRIMARY KEY (series, width, bucket, key, value)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage_rolled_up (organization_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;
"""
_ROLLED_UP: Final = "(SELECT sequence FROM usage_rolled_up)"
_DROP: Final = (
    f"BEGIN DELETE FROM usage_totals; DELETE FROM usage_series; UPDATE usage_rolled_up SET sequence = {EDITED}; END"
)
# There is none for inserts, which would cost 3 % of ingestion: sequence numbers only become free once events are
# deleted. Marks do not affect counts.
_COUNTED_COLUMNS: Final = (
    "sequence, id, organization_id, transaction_id, code, external_subscription_id, timestamp, properties,"
    " precise_total_amount_cents, created_at, texts, millionths, long_numbers"
)
TRIGGERS: Final = (
    f"CREATE TRIGGER IF NOT EXISTS usage_event_deleted AFTER DELETE ON events WHEN OLD.sequence <= {_ROLLED_UP}"
    f" {_DROP}",
    f"CREATE TRIGGER IF NOT EXISTS usage_event_changed AFTER UPDATE OF {_COUNTED_COLUMNS} ON events"
    f" WHEN OLD.sequence <= {_ROLLED_UP} OR NEW.sequence <= {_ROLLED_UP} {_DROP}",
)
# Of the running states of versions before 55.
FORMER: Final = """
DROP TRIGGER IF EXISTS usage_event_deleted;
DROP TRIGGER IF EXISTS usage_event_changed;
DROP TRIGGER IF EXISTS event_filter_values_edited;
DROP TABLE IF EXISTS usage_states;
DROP TABLE IF EXISTS usage_slots;
DROP TABLE IF EXISTS usage_series;
DROP TABLE IF EXISTS usage_rolled_up;
DROP TABLE IF EXISTS event_filter_values;
DROP INDEX IF EXISTS events_usage;
"""
