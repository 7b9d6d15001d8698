"""Running totals of usage: what is counted once is not counted again.

**What is kept.** A series belongs to an external subscription, a code and a `Shape`: what it keeps (how many events;
the numbers of a property; its numbers weighted by their instants; its values) and by which other properties. For each
hour and each day (UTC) and each combination of values of these properties it has one row in `usage_totals`: how many
events, their sum, their largest number, their prices, the first and the last instant, and when the last of them was
received. All of these can be merged in any order, and each is exact. Values are kept by calendar month, each with its
first and last event. Filters of a charge are no part of a series: they are resolved over the values of its keys when it
is read, as they are over those of events. So prices and filters may change, and an edit of either changes no total.
Processes of older versions beside this one read `first_sequence`, too.

**When.** A query that counts `WORTH_A_SERIES` events notes the series that would have answered it (`MissingSeries`),
and the worker (or the next writer of events) begins it. From then on the series takes part in rolling up; what was
stored before is added in chunks, in order of time, and until that is done it answers nothing. If it comes to hardly
fewer rows than events, it is dropped, and in this process not begun again until there are twice as many events.

**Rolling up.** Events are added to all series in the order in which they were stored, some thousand at a time, in one
transaction with the place that was reached (`usage_rolled_up`). So a crash neither loses nor repeats anything, and an
event that is late is simply added to its hour and its day.

**Reading.** All in one snapshot: whole days; of days that are cut, whole hours; of hours that are cut, the events; and
the events that are not rolled up yet. A row is whole if its first and last event are within the bounds of the query and
all of its events were received by `known_at`; a second that two subscriptions share is never within. A day or an hour
is cut if it has a row that is not whole, but may have events that count. With more than `MAX_STRETCHES` cut hours, and
for what no series covers, all events are counted.

**What no series covers.** Queries by more than `_MAX_KEYS` properties; more than `MAX_SERIES` of one subscription and
code; unique counts if an event names an operation, or if a value came before and after the period and may not have
within; prices of other than numbers; and whatever prices each event by itself, which never asks for totals.

**Edits.** Events are only ever appended. If one is changed or deleted by hand, triggers of the engine drop all series
(of the organization, on PostgreSQL) and set the place to `EDITED`: none is begun until `usagebill repair usage`, as
the places of deleted events may be taken again. Changes of totals themselves are found by `usagebill audit`, which
counts each series again (`UsageTotals.faults`).
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any, ClassVar, Final, TypeAlias

from usagebill.core.aggregation import AggregateResult
from usagebill.core.filters import FilterIndex
from usagebill.process.logs import Log
from usagebill.storage.event_queries import CountedAs, EventQuery, Group, StateFault
from usagebill.storage.event_rows import instant, microseconds
from usagebill.storage.sql.counting import (
    Buckets,
    Dialect,
    EventCounts,
    Part,
    PartialAggregate,
    Row,
    Scope,
    merged,
    results,
    results_of_all,
)
from usagebill.storage.sql.statements import Runner, Statement

_log = Log("usagebill.usage")

# What a series keeps.
COUNT: Final = "count"
NUMBERS: Final = "numbers"
WEIGHTED: Final = "weighted numbers"
VALUES: Final = "values"

# Widths of buckets, in microseconds; that of values stands for calendar months, which are numbered as 202401.
HOUR: Final = 3_600_000_000
DAY: Final = 24 * HOUR
MONTH: Final = 0
# A multiple of all widths, before the year 1: SQL's `/` rounds towards zero.
_AGES: Final = 1_000_000 * DAY

# Counting this many events for one query is worth a series.
WORTH_A_SERIES: Final = 5_000
# Most properties by which totals are kept, and most series of one subscription and code.
_MAX_KEYS: Final = 8
MAX_SERIES: Final = 16
# Events rolled up in one transaction, so that no writer waits long; with this many waiting, the writer that stores
# events rolls them up; fewer than these are not worth a transaction.
AT_ONCE: Final = 5_000
MAX_WAITING: Final = 10_000
MIN_WAITING: Final = 1_000
# A series has at least this many events for each of its rows. It is looked at once all is in it, or so many events.
EVENTS_PER_ROW: Final = 2
_SOON: Final = 100_000
_MOST_MISSING: Final = 100_000
# Up to this many stretches of time are read event by event; with more, everything is.
MAX_STRETCHES: Final = 20
# The place after events were edited by hand.
EDITED: Final = -1

# Before and after all instants.
FIRST, LAST = -(2**62), 2**62
_FIRST_STRETCH: Final = 60_000_000

Pair: TypeAlias = tuple[str, str, str]  # organization, external subscription and code
_OF_PAIR: Final = "organization_id = ? AND external_subscription_id = ? AND code = ?"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a series keeps: its kind, the aggregated property, and the properties by whose values it is kept."""

    kind: str
    field: str | None
    keys: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, str, str]:
        """The columns `kind`, `field` and `keys`."""
        return self.kind, json.dumps(self.field), json.dumps(self.keys)

    @staticmethod
    def of_columns(kind: str, field: str, keys: str) -> Shape:
        """The shape with these `columns`."""
        return Shape(kind, json.loads(field), tuple(json.loads(keys)))


_KINDS: Final[Mapping[str, str]] = {
    CountedAs.COUNT: COUNT,
    CountedAs.SUM: NUMBERS,
    CountedAs.MAX: NUMBERS,
    CountedAs.LATEST: NUMBERS,
    CountedAs.UNIQUE_COUNT: VALUES,
    CountedAs.WEIGHTED_SUM: WEIGHTED,
}


def shape_of(question: EventQuery, filters: FilterIndex | None) -> Shape | None:
    """The shape of the series that can answer a query; None if none can."""
    kind = _KINDS.get(question.aggregation_type)
    if kind is None:
        return None
    if (kind != COUNT and question.field_name is None) or (question.amounts and kind != NUMBERS):
        return None
    scopes = (question.bucket.matches, *question.bucket.excludes, question.only)
    keys = {*question.group_keys, *(key for scope in scopes for key in scope), *(filters.keys if filters else ())}
    if len(keys) > _MAX_KEYS:
        return None
    return Shape(kind, None if kind == COUNT else question.field_name, tuple(sorted(keys)))


class MissingSeries:
    """The series that queries lacked since this process started or last began series.

    If there are very many, which only a process that begins none can note, further ones are not: their next query notes
    them again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._missing: dict[tuple[Pair, Shape], None] = {}
        self._refused: dict[tuple[Pair, Shape], int] = {}

    def __bool__(self) -> bool:
        return bool(self._missing)

    def note(self, pair: Pair, shape: Shape, events: int) -> None:
        """A series of the shape would have spared a query from counting so many events of the pair."""
        with self._lock:
            if len(self._missing) < _MOST_MISSING and events >= self._refused.get((pair, shape), 0):
                self._missing[pair, shape] = None

    def refuse(self, pair: Pair, shape: Shape, events: int) -> None:
        """The series was not worth it: it is not begun again before there are twice as many events."""
        with self._lock:
            if len(self._refused) >= _MOST_MISSING:
                self._refused.clear()
            self._refused[pair, shape] = 2 * events

    def take(self, organization_id: str | None) -> list[tuple[Pair, Shape]]:
        """Remove and return all of them, or an organization's, as they were noted."""
        with self._lock:
            taken = [noted for noted in self._missing if organization_id in (None, noted[0][0])]
            for noted in taken:
                del self._missing[noted]
        return taken

    def organizations(self) -> list[str]:
        """Their organizations."""
        with self._lock:
            return list(dict.fromkeys(pair[0] for pair, _ in self._missing))


@dataclass(slots=True)
class KnownSeries:
    """What a transaction knows: the series that it lacked, and organizations without any."""

    missing: MissingSeries | None = None
    stateless: set[str] = field(default_factory=set)


class Bounds:
    """The instants, both inclusive, between which events of a query may count, and those between which all do.

    All are in microseconds, and so is `known_at`, the latest instant at which the events were received.
    """

    def __init__(self, question: EventQuery) -> None:
        self.earliest = _or(question.earliest, FIRST)
        self.latest = _or(question.latest_timestamp, LAST)
        self.known_at = _or(question.known_at, LAST)
        self.whole_from = max([self.earliest, *(microseconds(one.end) for one in question.excluded)])
        if question.held_from is not None:
            # Events before count from there on.
            self.whole_from = max(self.whole_from, microseconds(question.held_from))
        # At these instants only some events count.
        split = [event.timestamp for event in (question.up_to, question.before) if event is not None]
        split += [] if question.last_start is None else [question.last_start]
        self.whole_to = min([self.latest, *(microseconds(at) - 1 for at in split)])

    def reaches_in(self, statement: Statement) -> str:
        """SQL: whether a row may have events that count."""
        return f"last_at >= {statement.number(self.earliest)} AND first_at <= {statement.number(self.latest)}"

    def is_whole(self, statement: Statement) -> str:
        """SQL: whether all events of a row count."""
        return (
            f"first_at >= {statement.number(self.whole_from)} AND last_at <= {statement.number(self.whole_to)}"
            f" AND received_at <= {statement.number(self.known_at)}"
        )


def _or(at: datetime | None, otherwise: int) -> int:
    return otherwise if at is None else microseconds(at)


def _month_of(at: int) -> int:
    try:
        day = instant(at)
    except OverflowError:
        return 0 if at < 0 else 999_999
    return day.year * 100 + day.month


@dataclass(frozen=True, slots=True)
class _Ready:
    """A series that answers: its id, and the place of the last event in it."""

    id: int
    done: int


@dataclass(frozen=True, slots=True)
class _Whole:
    """Buckets of one width, both inclusive, whose whole rows count."""

    width: int
    first: int
    last: int


class TotalsDialect(Dialect):
    """What the SQL of an engine that keeps totals says otherwise."""

    # Events of all subscriptions by time; those that are marked, and the mark.
    listed: ClassVar[str]
    marked: ClassVar[str]
    # Those that lay ahead of the clock when they were received.
    ahead: ClassVar[str]
    is_marked: ClassVar[str]
    # The members of a JSON array as rows, in the column `value`.
    rows_in: ClassVar[str]
    # The key of `usage_totals`, and its columns that only this engine has, with what they are computed from.
    totals_key: ClassVar[str]
    further_totals: ClassVar[Mapping[str, str]]

    @abstractmethod
    def added(self, one: str, other: str) -> str:
        """The sum of two exact numbers; if either is NULL, the other."""

    @abstractmethod
    def larger(self, one: str, other: str) -> str:
        """The larger of two exact numbers; if either is NULL, the other."""


class Usage:
    """Aggregations of the events of one organization, from totals where there are some."""

    def __init__(self, connection: Runner, dialect: TotalsDialect, organization_id: str, known: KnownSeries) -> None:
        self._connection = connection
        self._dialect = dialect
        self._organization_id = organization_id
        self._known = known
        self._counts = EventCounts(connection, dialect, organization_id)

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult]:
        """See `storage.ports.EventLog.tallies`."""
        return results_of_all(question, self._aggregates(question, None))

    def tallies_by_bucket(self, question: EventQuery, filters: FilterIndex) -> dict[int, dict[Group, AggregateResult]]:
        """See `storage.ports.EventLog.tallies_by_bucket`."""
        return results(question, self._aggregates(question, filters))

    def _aggregates(self, question: EventQuery, filters: FilterIndex | None) -> Buckets:
        buckets = self._from_totals(question, filters)
        if buckets is None:
            buckets = self._counts.counted(question, filters)
            counted = sum(partial.count for bucket in buckets.values() for partial in bucket.values())
            self._note(question, filters, counted)
        return buckets

    def _note(self, question: EventQuery, filters: FilterIndex | None, events: int) -> None:
        missing, shape = self._known.missing, shape_of(question, filters)
        if missing is not None and shape is not None and events >= WORTH_A_SERIES:
            missing.note((self._organization_id, question.external_subscription_id, question.code), shape, events)

    def _has_none(self) -> bool:
        """Whether the organization has no series at all; one that is begun meanwhile is not needed yet."""
        if self._organization_id not in self._known.stateless:
            found = self._connection.execute(
                "SELECT 1 FROM usage_series WHERE organization_id = ? LIMIT 1", (self._organization_id,)
            ).fetchone()
            if found is None:
                self._known.stateless.add(self._organization_id)
        return self._organization_id in self._known.stateless

    def _series(self, question: EventQuery, shape: Shape) -> _Ready | None:
        if self._has_none():
            return None
        pair = self._organization_id, question.external_subscription_id, question.code
        row = self._connection.execute(
            "SELECT id, (SELECT sequence FROM usage_rolled_up WHERE organization_id = ?) FROM usage_series"
            f" WHERE {_OF_PAIR} AND kind = ? AND field = ? AND keys = ? AND built_to IS NULL",
            (_counter(self._dialect, self._organization_id), *pair, *shape.columns),
        ).fetchone()
        return None if row is None else _Ready(*row)

    def _from_totals(self, question: EventQuery, filters: FilterIndex | None) -> Buckets | None:
        """The aggregates from totals; None if the events are to be counted."""
        shape = shape_of(question, filters)
        series = None if shape is None else self._series(question, shape)
        if shape is None or series is None:
            return None
        bounds = Bounds(question)
        tail = Part(stored_after=series.done)
        groups = len(question.group_keys)
        if shape.kind == VALUES:
            return self._unique(series, question, filters, shape, bounds)
        whole, stretches = self._parts(series, bounds)
        if len(stretches) > MAX_STRETCHES:
            return None
        parts = [tail, *(Part(between=between, stored_up_to=series.done) for between in stretches)]
        rows = chain(
            self._whole_rows(series, question, filters, shape, bounds, whole),
            *(self._counts.rows(question, filters, part=part) for part in parts),
        )
        buckets = merged(question, filters, rows, groups)
        if question.aggregation_type == CountedAs.LATEST:
            self._counts.fill_in_latest(question, filters, buckets)
        return buckets

    def _parts(self, series: _Ready, bounds: Bounds) -> tuple[list[_Whole], list[tuple[int, int]]]:
        """The buckets whose whole rows count, and the stretches of time that are read event by event."""
        ranges = [(bounds.earliest // DAY, bounds.latest // DAY)]
        whole: list[_Whole] = []
        for width, narrower in ((DAY, HOUR), (HOUR, 1)):
            cut: list[int] = []
            for first, last in ranges:
                cut += self._cut(series, width, first, last, bounds)
                begins = first
                for bucket in (*(bucket for bucket in cut if first <= bucket <= last), last + 1):
                    whole += [_Whole(width, begins, bucket - 1)] if begins < bucket else []
                    begins = bucket + 1
            ranges = [(bucket * width // narrower, (bucket + 1) * width // narrower - 1) for bucket in cut]
        return whole, ranges

    def _cut(self, series: _Ready, width: int, first: int, last: int, bounds: Bounds) -> list[int]:
        """The buckets with a row of whose events only some may count, in order."""
        statement = Statement()
        rows = self._connection.execute(
            *statement.finished(
                f"SELECT DISTINCT bucket FROM usage_totals WHERE {_buckets(statement, series.id, width, first, last)}"
                f" AND {bounds.reaches_in(statement)} AND NOT ({bounds.is_whole(statement)}) ORDER BY bucket"
            )
        )
        return [row[0] for row in rows]

    def _whole_rows(
        self,
        series: _Ready,
        question: EventQuery,
        filters: FilterIndex | None,
        shape: Shape,
        bounds: Bounds,
        whole: Sequence[_Whole],
    ) -> list[Row]:
        """Rows for `counting.merged`."""
        if not whole:
            return []
        dialect, statement = self._dialect, Statement()
        scope = _scope(dialect, statement, question, filters, shape)
        deciding = scope.deciding()
        kept: Mapping[CountedAs, Sequence[str]] = {
            CountedAs.COUNT: (),
            CountedAs.SUM: (dialect.sum_of("total"),),
            CountedAs.MAX: (dialect.largest_of("top"),),
            CountedAs.LATEST: ("MAX(last_at)",),
            CountedAs.WEIGHTED_SUM: (dialect.sum_of("total"), dialect.sum_of("moment"), "MAX(last_at)"),
        }
        columns = [f"{sql} AS {name}" for name, sql in deciding.items()]
        columns += ["MIN(first_at)", "CAST(SUM(n) AS bigint)"]
        columns.append(dialect.sum_of("paid") if question.amounts else dialect.no_number)
        columns += kept[CountedAs(question.aggregation_type)]
        parts = " UNION ALL ".join(
            f"SELECT * FROM usage_totals WHERE {_buckets(statement, series.id, part.width, part.first, part.last)}"
            for part in whole
        )
        tests = " AND ".join([bounds.is_whole(statement), *scope.of_properties()])
        by = f" GROUP BY {', '.join(str(place + 1) for place in range(len(deciding)))}" if deciding else ""
        return self._connection.execute(
            *statement.finished(f"SELECT {', '.join(columns)} FROM ({parts}) s WHERE {tests}{by}")
        ).fetchall()

    def _unique(
        self, series: _Ready, question: EventQuery, filters: FilterIndex | None, shape: Shape, bounds: Bounds
    ) -> Buckets | None:
        """The numbers of values; None if an event names an operation, or if a value's events do not say whether it
        counts.
        """

        def kept(statement: Statement) -> str:
            months = _month_of(bounds.earliest), _month_of(bounds.latest)
            return f"{_buckets(statement, series.id, MONTH, *months)} AND {bounds.reaches_in(statement)}"

        statement = Statement()
        unclear = [f"received_at > {statement.number(bounds.known_at)}", "spoken > 0"]
        if bounds.earliest < bounds.whole_from:
            unclear.append(f"first_at < {statement.number(bounds.whole_from)}")
        if bounds.whole_to < bounds.latest:
            unclear.append(f"last_at > {statement.number(bounds.whole_to)}")
        # It came before and after; whether within is not known.
        came_before = f"first_at < {statement.number(bounds.earliest)}"
        unclear.append(f"{came_before} AND last_at > {statement.number(bounds.latest)}")
        is_unclear, has_before = self._connection.execute(
            *statement.finished(
                f"SELECT MAX(CASE WHEN {' OR '.join(unclear)} THEN 1 ELSE 0 END),"
                f" MAX(CASE WHEN {came_before} THEN 1 ELSE 0 END) FROM usage_totals WHERE {kept(statement)}"
            )
        ).fetchone()
        if is_unclear:
            return None

        def kept_values(statement: Statement) -> str:
            scope = _scope(self._dialect, statement, question, filters, shape)
            columns = "".join(f"{sql} AS {name}, " for name, sql in scope.deciding().items())
            tests = " AND ".join([kept(statement), *scope.of_properties()])
            return (
                f"SELECT {columns}value, first_at, {self._dialect.no_number} AS price, 0 AS spoken"
                f" FROM usage_totals s WHERE {tests}"
            )

        tail = Part(stored_after=series.done)
        rows, names_operations = self._counts.unique(question, filters, part=tail, also=kept_values)
        if names_operations:
            return None
        buckets = merged(question, filters, rows, len(question.group_keys))
        if has_before and question.group_keys:
            self._order_by_first_event(question, filters, buckets, bounds)
        return buckets

    def _order_by_first_event(
        self, question: EventQuery, filters: FilterIndex | None, buckets: Buckets, bounds: Bounds
    ) -> None:
        """Set the instants of the groups' first events, which are read from the earliest until all have one: each
        stretch of time is four times as long as the one before.
        """
        waiting = {
            (position, group): partial for position, bucket in buckets.items() for group, partial in bucket.items()
        }
        first, length = bounds.earliest, _FIRST_STRETCH
        while waiting and first <= bounds.latest:
            part = Part(between=(first, min(first + length - 1, bounds.latest)))
            rows, _ = self._counts.unique(question, filters, part=part)
            for position, bucket in merged(question, filters, rows, len(question.group_keys)).items():
                for group, seen in bucket.items():
                    partial: PartialAggregate | None = waiting.pop((position, group), None)
                    if partial is not None:
                        partial.first_at = seen.first_at
            first, length = first + length, 4 * length


def _buckets(statement: Statement, series: int, width: int, first: int, last: int) -> str:
    between = f"{statement.number(first)} AND {statement.number(last)}"
    return f"series = {statement.number(series)} AND width = {statement.number(width)} AND bucket BETWEEN {between}"


def _scope(
    dialect: Dialect, statement: Statement, question: EventQuery, filters: FilterIndex | None, shape: Shape
) -> Scope:
    """The query's conditions on the keys of totals."""
    return Scope(dialect, statement, question, filters, lambda key: f"(s.key ->> {shape.keys.index(key)})")


def _counter(dialect: Dialect, organization_id: str | None) -> str:
    """Whose events are numbered together: an organization's, or all ('')."""
    return organization_id or "" if dialect.numbers_by_organization else ""


# Keeping up


@dataclass(frozen=True, slots=True)
class _Series:
    id: int
    pair: Pair
    shape: Shape
    base: int
    built_to: int | None


_SERIES: Final = (
    "SELECT id, organization_id, external_subscription_id, code, kind, field, keys, base, built_to FROM usage_series"
)


def _series_of(row: Row) -> _Series:
    id, organization_id, external_subscription_id, code, *columns, base, built_to = row
    pair = organization_id, external_subscription_id, code
    return _Series(id, pair, Shape.of_columns(*columns), base, built_to)


_NUMBERED: Final = ("total", "top", "moment", "paid")
_COLUMNS: Final = (
    "series, width, bucket, key, value, n, total, top, moment, paid, first_at, first_sequence, last_at, received_at,"
    " spoken"
)


class UsageTotals:
    """The totals of one organization, or of all if it is None: in SQLite, events of all have one order.

    Whoever calls it holds the lock for writing.
    """

    def __init__(
        self, connection: Runner, dialect: TotalsDialect, organization_id: str | None, missing: MissingSeries
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._organization_id = organization_id
        self._counter = _counter(dialect, organization_id)
        self._missing = missing

    def keep_up(self, done: int | None, last: int) -> None:
        """Roll up within the transaction that stores events, if nobody else has for long: of events up to `last`, those
        up to `done` are rolled up (None: there never was a series).
        """
        if self._missing and self._organization_id in (None, *self._missing.organizations()):
            self._begin_missing()
        if done is not None and done != EDITED and last - done >= MAX_WAITING and self._has_any():
            self._roll_window(done, last)

    def is_behind(self) -> bool:
        """Whether `roll_up` has something to do that is worth a transaction."""
        if self._missing:
            return True
        is_building, has_any = self._row(
            f"SELECT MAX(CASE WHEN built_to IS NULL THEN 0 ELSE 1 END), COUNT(*) FROM usage_series{self._of_all}"
        )
        return bool(is_building) or (bool(has_any) and self._last() - (self.done() or 0) >= MIN_WAITING)

    def roll_up(self) -> None:
        """Do some of the work: begin series, add new events, and earlier events to a series that was begun."""
        self._begin_missing()
        if not self._has_any():
            return
        done, last = self.done() or 0, self._last()
        if last > done:
            self._roll_window(done, min(done + AT_ONCE, last))
        row = self._row(f"{_SERIES}{self._of_all or ' WHERE 1 = 1'} AND built_to IS NOT NULL ORDER BY id LIMIT 1")
        if row is not None:
            self._build_some(_series_of(row))

    def rebuild(self, organization_id: str) -> int:
        """Drop the totals of an organization and begin its series again; returns how many there are."""
        rows = self._connection.execute(
            f"{_SERIES} WHERE organization_id = ? ORDER BY id", (organization_id,)
        ).fetchall()
        if self.done() == EDITED or (self._dialect.numbers_by_organization and self.done() is not None):
            self._note(self._last())
        for series in map(_series_of, rows):
            self._drop(series)
        for series in map(_series_of, rows):
            self.begin(series.pair, series.shape)
        return len(rows)

    def faults(self, organization_id: str) -> Iterator[StateFault]:
        """The series of an organization whose totals differ from a full count of their events."""
        rows = self._connection.execute(
            f"{_SERIES} WHERE organization_id = ? AND built_to IS NULL ORDER BY id", (organization_id,)
        ).fetchall()
        for series in map(_series_of, rows):
            statement = Statement()
            tests = [_is_pair(statement, series.pair), f"+sequence <= {statement.number(self.done() or 0)}"]
            source = f"(SELECT * FROM {self._dialect.by_time} WHERE {' AND '.join(tests)}) e"
            fresh = self._fresh(statement, series.shape, f"{source} JOIN usage_series s ON s.id = {series.id}")
            counted = self._connection.execute(*statement.finished(f"{fresh} SELECT {_COLUMNS} FROM every")).fetchall()
            kept = self._connection.execute(f"SELECT {_COLUMNS} FROM usage_totals WHERE series = ?", (series.id,))
            differing = set(map(_comparable(series.shape), counted)) ^ set(map(_comparable(series.shape), kept))
            if differing:
                yield StateFault(
                    external_subscription_id=series.pair[1],
                    code=series.pair[2],
                    kind=series.shape.kind,
                    differing=len({row[:4] for row in differing}),
                )

    @property
    def _of_all(self) -> str:
        return "" if self._organization_id is None else " WHERE organization_id = ?"

    def _row(self, sql: str) -> Any:
        """The row of a query that ends with `_of_all`'s value, if any."""
        values = () if self._organization_id is None else (self._organization_id,)
        return self._connection.execute(sql, values).fetchone()

    def done(self) -> Any:
        """The place of the last event that is in all series; None if there never were any."""
        row = self._connection.execute(
            "SELECT sequence FROM usage_rolled_up WHERE organization_id = ?", (self._counter,)
        ).fetchone()
        return None if row is None else row[0]

    def _last(self) -> int:
        """The place of the last event."""
        return int(self._row(f"SELECT coalesce(MAX(sequence), 0) FROM events{self._of_all}")[0])

    def _has_any(self) -> bool:
        return self._row(f"SELECT 1 FROM usage_series{self._of_all} LIMIT 1") is not None

    def _note(self, sequence: int) -> None:
        self._connection.execute(
            "INSERT INTO usage_rolled_up (organization_id, sequence) VALUES (?, ?)"
            " ON CONFLICT (organization_id) DO UPDATE SET sequence = excluded.sequence",
            (self._counter, sequence),
        )

    # Series

    def _begin_missing(self) -> None:
        lacked = self._missing.take(self._organization_id)
        if lacked and self.done() == EDITED:
            _log.warning("usage_states_are_off", reason="events were edited", remedy="usagebill repair usage")
            return
        for pair, shape in lacked:
            (count,) = self._connection.execute(f"SELECT COUNT(*) FROM usage_series WHERE {_OF_PAIR}", pair).fetchone()
            if count < MAX_SERIES:
                self.begin(pair, shape)

    def begin(self, pair: Pair, shape: Shape) -> None:
        """Begin a series, unless there is one of the shape."""
        if not self._has_any():
            # The first series: nothing was rolled up before.
            self._note(self._last())
        self._connection.execute(
            "INSERT INTO usage_series (organization_id, external_subscription_id, code, kind, field, keys, base,"
            " built_to) SELECT ?, ?, ?, ?, ?, ?, sequence, CAST(? AS bigint) FROM usage_rolled_up"
            " WHERE organization_id = ? AND NOT EXISTS (SELECT 1 FROM usage_series"
            f" WHERE {_OF_PAIR} AND kind = ? AND field = ? AND keys = ?)",
            (*pair, *shape.columns, FIRST, self._counter, *pair, *shape.columns),
        )

    def _drop(self, series: _Series) -> None:
        self._connection.execute("DELETE FROM usage_totals WHERE series = ?", (series.id,))
        self._connection.execute("DELETE FROM usage_series WHERE id = ?", (series.id,))

    # Rolling up

    def _roll_window(self, done: int, top: int) -> None:
        """Add the events after `done`, up to `top`, to all series."""
        statement = Statement()
        window = self._window(statement, done, top)
        present = self._connection.execute(
            *statement.finished(
                "SELECT DISTINCT kind, field, keys FROM usage_series s JOIN (SELECT DISTINCT organization_id,"
                f" external_subscription_id, code FROM {window}) e ON {_JOINED}"
            )
        ).fetchall()
        for columns in present:
            statement = Statement()
            kind, name, keys = map(statement.bind, columns)
            source = (
                f"{self._window(statement, done, top)} JOIN usage_series s ON {_JOINED} AND s.kind = {kind}"
                f" AND s.field = {name} AND s.keys = {keys}"
            )
            self._add(statement, Shape.of_columns(*columns), source)
        self._note(top)

    def _window(self, statement: Statement, done: int, top: int) -> str:
        tests = [f"sequence > {statement.number(done)}", f"sequence <= {statement.number(top)}"]
        if self._organization_id is not None:
            tests.append(f"organization_id = {statement.bind(self._organization_id)}")
        return f"(SELECT * FROM {self._dialect.newest} WHERE {' AND '.join(tests)}{self._dialect.apart}) e"

    def _build_some(self, series: _Series) -> None:
        """Add some of the events that were stored before the series was begun."""
        row = self._connection.execute(
            f"SELECT timestamp FROM {self._dialect.by_time} WHERE {_OF_PAIR} AND timestamp > CAST(? AS bigint)"
            f" ORDER BY timestamp LIMIT 1 OFFSET {AT_ONCE}",
            (*series.pair, series.built_to),
        ).fetchone()
        end = LAST if row is None else row[0]
        statement = Statement()
        tests = [
            _is_pair(statement, series.pair),
            f"timestamp > {statement.number(series.built_to or FIRST)} AND timestamp <= {statement.number(end)}",
            f"+sequence <= {statement.number(series.base)}",
        ]
        source = f"(SELECT * FROM {self._dialect.by_time} WHERE {' AND '.join(tests)}) e"
        self._add(statement, series.shape, f"{source} JOIN usage_series s ON s.id = {series.id}")
        built_to = None if row is None else end
        self._connection.execute("UPDATE usage_series SET built_to = ? WHERE id = ?", (built_to, series.id))
        rows, events = self._connection.execute(
            "SELECT COUNT(*), CAST(coalesce(SUM(CASE WHEN width <> ? THEN n ELSE 0 END), 0) AS bigint)"
            " FROM usage_totals WHERE series = ?",
            (HOUR, series.id),
        ).fetchone()
        if (row is None or events >= _SOON) and rows * EVENTS_PER_ROW > events >= AT_ONCE:
            self._drop(series)
            self._missing.refuse(series.pair, series.shape, events)
            _log.info(
                "usage_is_counted",
                subscription=series.pair[1],
                code=series.pair[2],
                by=series.shape.keys,
                reason="there are nearly as many totals as events",
            )

    def _add(self, statement: Statement, shape: Shape, source: str) -> None:
        """Merge the totals of the events of `source` into those that are kept."""
        dialect = self._dialect
        merges = {"n": "usage_totals.n + excluded.n"}
        merges |= {name: dialect.added(f"usage_totals.{name}", f"excluded.{name}") for name in _NUMBERED}
        merges["top"] = dialect.larger("usage_totals.top", "excluded.top")
        for names, function in (
            (("first_at", "first_sequence"), dialect.least),
            (("last_at", "received_at", "spoken"), dialect.greatest),
        ):
            merges |= {name: f"{function}(usage_totals.{name}, excluded.{name})" for name in names}
        assigned = ", ".join(f"{name} = {sql}" for name, sql in merges.items())
        fresh = self._fresh(statement, shape, source)
        columns, named = _COLUMNS, _COLUMNS
        if self._organization_id is not None:
            columns += f", {statement.bind(self._organization_id)}"
            named += ", organization_id"
        for name, sql in dialect.further_totals.items():
            columns, named = f"{columns}, {sql}", f"{named}, {name}"
        self._connection.execute(
            *statement.finished(
                f"{fresh} INSERT INTO usage_totals ({named}) SELECT {columns} FROM every WHERE 1 = 1"
                f" ON CONFLICT ({dialect.totals_key}) DO UPDATE SET {assigned}"
            )
        )

    def _fresh(self, statement: Statement, shape: Shape, source: str) -> str:
        """The WITH clause of `every`: the totals of the events of `source` (`e`, joined with their series `s`)."""
        dialect, named = self._dialect, shape.field or ""
        columns = {f"k{place}": dialect.text(statement, key) for place, key in enumerate(shape.keys)}
        keys = ", ".join(columns)
        columns |= {name: name for name in ("timestamp", "sequence", "created_at")}
        columns["value"], columns["spoken"], columns["price"] = "''", "0", dialect.no_number
        counting, kept = "1 = 1", dict.fromkeys(_NUMBERED, dialect.no_number)
        if shape.kind == NUMBERS:
            columns |= {**dialect.numbers(statement, named), "price": dialect.price}
            counting = dialect.is_number
            kept |= {"total": dialect.total, "top": dialect.largest, "paid": dialect.sum_of("price")}
        elif shape.kind == WEIGHTED:
            columns |= {"weighted": dialect.weighted(statement, named), "held_at": "timestamp"}
            counting = "weighted IS NOT NULL"
            kept |= {"total": dialect.change, "moment": dialect.moment}
        elif shape.kind == VALUES:
            spoken = f"CASE WHEN {dialect.names_operation} THEN 1 ELSE 0 END"
            columns |= {"value": dialect.text(statement, named), "spoken": spoken}
            counting = "value IS NOT NULL"
        columns["bucket"] = dialect.month if shape.kind == VALUES else _bucket_of("timestamp", HOUR)
        width = MONTH if shape.kind == VALUES else HOUR
        listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        by = ", ".join(["series", "bucket", *(f"k{place}" for place in range(len(shape.keys))), "value"])
        numbered = ", ".join(f"{sql} AS {name}" for name, sql in kept.items())
        fresh = (
            f"SELECT series, CAST({width} AS bigint) AS width, bucket, {dialect.array}({keys}) AS key, value,"
            f" COUNT(*) AS n, {numbered}, MIN(timestamp) AS first_at, MIN(sequence) AS first_sequence,"
            " MAX(timestamp) AS last_at, MAX(created_at) AS received_at, MAX(spoken) AS spoken"
            f" FROM (SELECT s.id AS series, {listed} FROM {source}{dialect.apart}) f WHERE {counting} GROUP BY {by}"
        )
        if shape.kind == VALUES:
            return f"WITH every AS MATERIALIZED ({fresh})"
        summed = {name: dialect.sum_of(name) if name != "top" else dialect.largest_of(name) for name in _NUMBERED}
        by_day = (
            f"SELECT series, CAST({DAY} AS bigint), {_bucket_of(f'bucket * {HOUR}', DAY)}, key, value,"
            f" CAST(SUM(n) AS bigint), {', '.join(summed.values())}, MIN(first_at), MIN(first_sequence), MAX(last_at),"
            " MAX(received_at), MAX(spoken) FROM fresh GROUP BY 1, 3, key, value"
        )
        return f"WITH fresh AS MATERIALIZED ({fresh}), every AS MATERIALIZED (SELECT * FROM fresh UNION ALL {by_day})"


_JOINED: Final = (
    "s.organization_id = e.organization_id AND s.external_subscription_id = e.external_subscription_id"
    " AND s.code = e.code"
)


def _bucket_of(at: str, width: int) -> str:
    return f"({at} + {_AGES}) / {width} - {_AGES // width}"


def _is_pair(statement: Statement, pair: Pair) -> str:
    organization_id, external_subscription_id, code = map(statement.bind, pair)
    return (
        f"organization_id = {organization_id} AND external_subscription_id = {external_subscription_id}"
        f" AND code = {code}"
    )


def _comparable(shape: Shape) -> Any:
    """A function of a row of `_COLUMNS`: its name, then the rest, numbers by value; those that are weighted also by the
    decimals that they show.
    """

    def number(value: Any) -> object:
        exact = None if value is None else Decimal(value)
        return exact if exact is None or shape.kind != WEIGHTED else exact.as_tuple()

    def comparable(row: Row) -> Row:
        _, width, bucket, key, value, n, *rest = row
        return width, bucket, str(key), value, n, *map(number, rest[:4]), *map(int, rest[4:])

    return comparable
