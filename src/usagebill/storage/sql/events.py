"""Events: appended, never changed; read by subscription, code and time. What is the same for every engine."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from usagebill.core.aggregation import AggregateResult
from usagebill.core.events import Event, EventOrder
from usagebill.core.filters import FilterIndex
from usagebill.storage.event_queries import Counted, EventFilter, EventQuery, EventRange, Group, Lacking, StateFault
from usagebill.storage.event_rows import COLUMNS, event_of, filter_sql, instant, microseconds, size_sql
from usagebill.storage.ports import StoredEvent
from usagebill.storage.record_sql import MAX_ROWS, bounded
from usagebill.storage.sql.counting import EventCounts
from usagebill.storage.sql.statements import Runner, Statement
from usagebill.storage.sql.usage_totals import FIRST, LAST, KnownSeries, TotalsDialect, Usage, UsageTotals


class SqlEvents(ABC):
    """See `storage.ports.EventStore`. Opened for one organization; across all, only `stored` works."""

    def __init__(
        self, connection: Runner, dialect: TotalsDialect, organization_id: str | None, known: KnownSeries
    ) -> None:
        self._runner = connection
        self._dialect = dialect
        self._opened_for = organization_id
        self._known = known

    @property
    def _organization_id(self) -> str:
        if self._opened_for is None:
            raise PermissionError("events are read and written within one organization")
        return self._opened_for

    @abstractmethod
    def _totals(self) -> UsageTotals:
        """The running totals that are rolled up together."""

    @abstractmethod
    def latest(self) -> int:
        """See `storage.ports.EventLog`."""

    @abstractmethod
    def _streamed(self, sql: str, values: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        """The rows of a query, one by one."""

    def _number(self, sql: str, values: Sequence[Any]) -> int:
        row = self._runner.execute(sql, values).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    def _check(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.organization_id != self._organization_id:
                raise PermissionError(
                    f"an event of organization {event.organization_id} in a transaction of {self._organization_id}"
                )

    # Single events

    def get(self, transaction_id: str) -> Event | None:
        row = self._runner.execute(
            f"SELECT {COLUMNS} FROM events WHERE organization_id = ? AND transaction_id = ? ORDER BY sequence LIMIT 1",
            (self._organization_id, transaction_id),
        ).fetchone()
        return None if row is None else event_of(row)

    def stored_since(
        self,
        sequence: int,
        *,
        up_to: int = MAX_ROWS,
        external_ids: Sequence[str] | None = None,
        at_most: int = MAX_ROWS,
    ) -> list[tuple[int, Event]]:
        # The plus keeps SQLite from walking all events of the organization or a subscription for the few new ones.
        plus = "" if self._dialect.numbers_by_organization else "+"
        tests, values = f"{plus}organization_id = ? AND sequence > ? AND sequence <= ?", [sequence, up_to]
        if external_ids is not None:
            listed = self._dialect.texts_in.format("?")
            tests += f" AND {plus}external_subscription_id IN (SELECT value FROM {listed})"
        rows = self._runner.execute(
            f"SELECT sequence, {COLUMNS} FROM events WHERE {tests} ORDER BY sequence LIMIT ?",
            [
                self._organization_id,
                *values,
                *([] if external_ids is None else [json.dumps(list(external_ids))]),
                at_most,
            ],
        )
        return [(row[0], event_of(row[1:])) for row in rows]

    def exported(self, sequence: int, at_most: int) -> list[StoredEvent]:
        rows = self._runner.execute(
            f"SELECT sequence, in_advance, uncounted, {COLUMNS} FROM events WHERE organization_id = ? AND sequence > ?"
            " ORDER BY sequence LIMIT ?",
            [self._organization_id, sequence, at_most],
        )
        return [StoredEvent(row[0], event_of(row[3:]), bool(row[1]), bool(row[2])) for row in rows]

    # Lists

    def find(self, event_filter: EventFilter, *, limit: int | None = None, offset: int = 0) -> list[Event]:
        if limit is not None:
            # The instants of the page, and how many events come before them, are in the index: only those of the page
            # are read.
            source, values = self._listed(event_filter)
            instants = self._runner.execute(
                f"SELECT timestamp FROM {source} ORDER BY timestamp DESC LIMIT ? OFFSET ?",
                (*values, bounded(limit), bounded(offset)),
            ).fetchall()
            if not instants:
                return []
            (latest,), (earliest,) = instants[0], instants[-1]
            source, values = self._listed(replace(event_filter, timestamp_from=None))
            offset -= self._number(f"SELECT COUNT(*) FROM {source} AND timestamp > ?", (*values, latest))
            event_filter = replace(event_filter, timestamp_from=instant(earliest), timestamp_to=instant(latest))
        source, values = self._listed(event_filter)
        rows = self._runner.execute(
            f"SELECT {COLUMNS} FROM {source} ORDER BY timestamp DESC, transaction_id, sequence LIMIT ? OFFSET ?",
            (*values, MAX_ROWS if limit is None else bounded(limit), bounded(offset)),
        )
        return [event_of(row) for row in rows]

    def count(self, event_filter: EventFilter, *, at_most: int = MAX_ROWS) -> int:
        source, values = self._listed(event_filter)
        return self._number(f"SELECT COUNT(*) FROM (SELECT 1 FROM {source} LIMIT ?) c", (*values, at_most))

    def _listed(self, event_filter: EventFilter) -> tuple[str, list[Any]]:
        """The events of a list after FROM, and the values that this binds."""
        where, values = filter_sql(self._organization_id, event_filter)
        source = self._dialect.listed if event_filter.external_subscription_id is None else self._dialect.by_time
        return source + where, values

    # Queries

    def scan(self, question: EventQuery) -> Iterator[Event]:
        yield from map(event_of, self._streamed(*self.counts.scan(COLUMNS, question)))

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult]:
        return self._usage().tallies(question)

    def tallies_by_bucket(self, question: EventQuery, filters: FilterIndex) -> dict[int, dict[Group, AggregateResult]]:
        return self._usage().tallies_by_bucket(question, filters)

    def changes(
        self, question: EventQuery, since: Counted | None, order: EventOrder, *, at_most: int = 0
    ) -> Iterator[tuple[int, Event]]:
        query = self.counts.changes(f"{COLUMNS}, sequence", question, since, order, at_most)
        for row in self._streamed(*query):
            yield row[-1], event_of(row[:-1])

    def size(self, question: EventQuery, *, at_most: int) -> int:
        if at_most <= 0:
            return 0
        where, values = size_sql(self._organization_id, question)
        return self._number(f"SELECT COUNT(*) FROM (SELECT 1 FROM events{where} LIMIT ?) c", (*values, at_most))

    def _usage(self) -> Usage:
        return Usage(self._runner, self._dialect, self._organization_id, self._known)

    @property
    def counts(self) -> EventCounts:
        """The queries behind `tallies`, also of parts of the events."""
        return EventCounts(self._runner, self._dialect, self._organization_id)

    # Who sends events, and events in ranges of time

    def senders(
        self, *, external_subscription_id: str | None = None, code: str | None = None, uncounted: bool = False
    ) -> Iterator[tuple[str | None, str]]:
        # One look-up in the index for each pair.
        dialect = self._dialect
        source, marked = (dialect.marked, f" AND {dialect.is_marked}") if uncounted else (dialect.by_time, "")
        where = f"FROM {source} WHERE organization_id = ?{marked} AND "
        name, last = external_subscription_id, ""
        while name is None and (
            row := self._runner.execute(
                f"SELECT code {where} external_subscription_id IS NULL AND code > ? ORDER BY code LIMIT 1",
                (self._organization_id, last),
            ).fetchone()
        ):
            last = row[0]
            if code is None or last == code:
                yield None, last
        step = (
            "(external_subscription_id, code) > (?, ?)" if name is None else "external_subscription_id = ? AND code > ?"
        )
        place: tuple[str, str] = (name or "", "")
        while row := self._runner.execute(
            f"SELECT external_subscription_id, code {where} {step} ORDER BY external_subscription_id, code LIMIT 1",
            (self._organization_id, *place),
        ).fetchone():
            place = (row[0], row[1])
            if code is None or row[1] == code:
                yield place

    def in_ranges(self, ranges: Sequence[EventRange], *, limit: int, offset: int = 0) -> list[tuple[int, Event]]:
        parts: list[str] = []
        values: list[Any] = []
        for source, bound in self._of_ranges(ranges):
            parts.append(f"SELECT r.place, sequence, timestamp, transaction_id FROM {source}")
            values += bound
        if not parts:
            return []
        columns = ", ".join(f"events.{column.strip()}" for column in COLUMNS.split(","))
        rows = self._runner.execute(
            f"SELECT p.place, {columns} FROM (SELECT * FROM ({' UNION ALL '.join(parts)}) every"
            " ORDER BY timestamp DESC, transaction_id, sequence LIMIT ? OFFSET ?) p"
            " JOIN events ON events.sequence = p.sequence AND events.organization_id = ?"
            " ORDER BY events.timestamp DESC, events.transaction_id, events.sequence",
            (*values, bounded(limit), bounded(offset), self._organization_id),
        )
        return [(row[0], event_of(row[1:])) for row in rows]

    def count_in_ranges(self, ranges: Sequence[EventRange], *, received_from: datetime | None = None) -> list[int]:
        counted = [0] * len(ranges)
        since = FIRST if received_from is None else microseconds(received_from)
        for source, values in self._of_ranges(ranges):
            for place, number in self._runner.execute(
                f"SELECT r.place, COUNT(*) FROM {source} AND created_at >= ? GROUP BY r.place", (*values, since)
            ):
                counted[place] = number
        return counted

    def _of_ranges(self, ranges: Sequence[EventRange]) -> Iterator[tuple[str, list[Any]]]:
        """The ranges as `r` with their events, after FROM, and what this binds. What they lack, and whether they have a
        subscription, decides on the index; so each kind of range is by itself.
        """
        dialect = self._dialect
        kinds: dict[tuple[Lacking | None, bool], list[list[Any]]] = {}
        for place, wanted in enumerate(ranges):
            kind = wanted.lacking, wanted.external_subscription_id is None
            kinds.setdefault(kind, []).append(_range_row(place, wanted))
        listed = f"(SELECT {_RANGE_COLUMNS} FROM {dialect.rows_in.format('?')}{dialect.apart}) r"
        for (lacking, is_of_nobody), rows in kinds.items():
            source, lacks = dialect.by_time, _LACKS.get(lacking, "1 = 1")
            if lacking is Lacking.COUNTABLE_PROPERTY:
                source, lacks = dialect.marked, dialect.is_marked
            sender = "external_subscription_id IS NULL" if is_of_nobody else "external_subscription_id = r.name"
            yield (
                f"{listed} CROSS JOIN {source} WHERE organization_id = ? AND {sender} AND {_IN_RANGE} AND {lacks}",
                [json.dumps(rows), self._organization_id],
            )

    def mark(self, code: str, is_uncounted: Callable[[Event], bool]) -> None:
        for name, _ in list(self.senders(code=code)):
            sender = "IS NULL" if name is None else "= ?"
            rows = self._streamed(
                f"SELECT {COLUMNS}, sequence, uncounted FROM {self._dialect.by_time} WHERE organization_id = ?"
                f" AND code = ? AND external_subscription_id {sender}",
                (self._organization_id, code, *(() if name is None else (name,))),
            )
            changed: dict[bool, list[int]] = {True: [], False: []}
            for *columns, sequence, marked in rows:
                should_be_marked = is_uncounted(event_of(tuple(columns)))
                if should_be_marked != bool(marked):
                    changed[should_be_marked].append(sequence)
            for is_marked, sequences in changed.items():
                statement = Statement()
                tests = [
                    f"organization_id = {statement.bind(self._organization_id)}",
                    self._dialect.is_one_of(statement, "sequence", sequences),
                ]
                update = f"UPDATE events SET uncounted = {is_marked} WHERE {' AND '.join(tests)}"
                self._runner.execute(*statement.finished(update))

    def latest_ahead(
        self, external_subscription_id: str, code: str, earliest: datetime, latest: datetime, received_before: datetime
    ) -> datetime | None:
        row = self._runner.execute(
            f"SELECT timestamp FROM {self._dialect.ahead} WHERE organization_id = ? AND external_subscription_id = ?"
            " AND code = ? AND timestamp > created_at AND timestamp >= ? AND timestamp <= ? AND created_at < ?"
            " ORDER BY timestamp DESC LIMIT 1",
            (
                self._organization_id,
                external_subscription_id,
                code,
                *(microseconds(at) for at in (earliest, latest, received_before)),
            ),
        ).fetchone()
        return None if row is None else instant(row[0])

    def known_up_to(self, question: EventQuery, sequence: int) -> int:
        if question.known_at is not None:
            unknown = self._number(
                f"SELECT MIN(sequence) FROM {self._dialect.in_advance} WHERE organization_id = ?"
                f" AND external_subscription_id = ? AND code = ? AND {self._dialect.is_in_advance} AND sequence > ?"
                " AND created_at > ?",
                (
                    self._organization_id,
                    question.external_subscription_id,
                    question.code,
                    sequence,
                    microseconds(question.known_at),
                ),
            )
            if unknown:
                return unknown - 1
        return max(sequence, self.latest())

    def remove(self, external_subscription_id: str, transaction_ids: Sequence[str]) -> None:
        self._runner.execute(
            "DELETE FROM events WHERE organization_id = ? AND external_subscription_id = ?"
            f" AND transaction_id IN (SELECT value FROM {self._dialect.texts_in.format('?')})",
            (self._organization_id, external_subscription_id, json.dumps(list(transaction_ids))),
        )

    # Running totals

    def roll_up(self) -> None:
        """Do some of the work on running totals."""
        self._totals().roll_up()

    def rebuild_states(self) -> int:
        return self._totals().rebuild(self._organization_id)

    def state_faults(self) -> Iterator[StateFault]:
        return self._totals().faults(self._organization_id)


_RANGE_COLUMNS: Final = (
    "value ->> 0 AS name, value ->> 1 AS code, value ->> 2 AS event_id, CAST(value ->> 3 AS bigint) AS place,"
    " CAST(value ->> 4 AS bigint) AS earliest, CAST(value ->> 5 AS bigint) AS latest,"
    " CAST(value ->> 6 AS bigint) AS received_from, CAST(value ->> 7 AS bigint) AS received_before"
)
_IN_RANGE: Final = (
    "events.code = r.code AND timestamp >= r.earliest AND timestamp <= r.latest AND created_at >= r.received_from"
    " AND created_at < r.received_before AND (r.event_id IS NULL OR id = r.event_id)"
)
_UNPRICED: Final = "uncounted IS NOT TRUE AND precise_total_amount_cents IS NULL AND unread_amount IS"
_LACKS: Final[Mapping[Lacking | None, str]] = {
    Lacking.AMOUNT: f"{_UNPRICED} NULL",
    Lacking.READABLE_AMOUNT: f"{_UNPRICED} NOT NULL",
}


def _range_row(place: int, wanted: EventRange) -> list[Any]:
    """The values of `_RANGE_COLUMNS`."""
    instants = (
        (wanted.earliest, FIRST),
        (wanted.latest, LAST),
        (wanted.received_from, FIRST),
        (wanted.received_before, LAST),
    )
    return [
        *(wanted.external_subscription_id, wanted.code, wanted.event_id, place),
        *(otherwise if at is None else microseconds(at) for at, otherwise in instants),
    ]
