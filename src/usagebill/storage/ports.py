"""Ports: what operations need from a storage engine, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from usagebill.core.activity_logs import Change
from usagebill.core.aggregation import AggregateResult
from usagebill.core.events import Event, EventOrder
from usagebill.core.filters import FilterIndex
from usagebill.core.jobs import Job, QueueState
from usagebill.core.processes import Process
from usagebill.storage.conditions import Condition, Order
from usagebill.storage.event_queries import (
    Counted,
    EventFilter,
    EventQuery,
    EventRange,
    Group,
    StateFault,
)
from usagebill.storage.failures import Reachability
from usagebill.storage.listings import CountFault, Total
from usagebill.storage.sums import GroupKey, Sums

R = TypeVar("R")
T = TypeVar("T")


class Duplicate(Exception):
    """An insert or replace broke a unique rule of the table; `columns` names the rule's columns."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        super().__init__(", ".join(columns))
        self.columns = columns


class UnusableServer(Exception):
    """The database server cannot be used: a driver is missing, or the server is too old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What opening a database may do to it: make a new system where there is none; bring an older schema to this
    version's, also `beside_others`, which are then refused until they are restarted; open a file again that was moved
    into another database (`takes_back`).
    """

    creates: bool = True
    upgrades: bool = True
    beside_others: bool = False
    takes_back: bool = False


AS_NEEDED: Final = Opening()


class UnusableTransaction(RuntimeError):
    """The caller's transaction cannot be used; the text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The connections of a process to its database server: in use, idle, and how many there may be. `waiting` is the
    number of threads that wait for one.
    """

    used: int
    idle: int
    most: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[R]):
    """One page of a list. `page` and `per_page` are those requested; `total_count` counts all matches. There are more
    than that unless it is exact.
    """

    items: Sequence[R]
    page: int
    per_page: int
    total_count: int
    total_count_is_exact: bool = True


class StoredEvent(NamedTuple):
    """An event with its sequence number and marks (`EventStore.append`)."""

    sequence: int
    event: Event
    in_advance: bool
    uncounted: bool


class WaitingJobs(Protocol):
    """The waiting jobs, read only."""

    def every(self) -> list[Job]:
        """All jobs of the organization, those that have failed too, in the order of writing."""

    def lanes(self, prefix: str = "") -> dict[str, datetime]:
        """Each lane with waiting jobs whose name begins with `prefix`, and their earliest `run_at`."""

    def earliest(self, lanes: Sequence[str]) -> dict[str, datetime]:
        """The earliest `run_at` of each of these lanes; lanes without waiting jobs are left out."""

    def next_due(self, *, leased: bool | None = None) -> datetime | None:
        """The earliest `run_at` of all waiting jobs (or only of those with a lane, or without), or None."""

    def overdue(
        self,
        subject_ids: Collection[str] | None,
        now: datetime,
        *,
        but_of: Collection[str] = (),
    ) -> Job | None:
        """The subjects' first job without a lane, in order of `due_at`, that is due by `now`, whether or not it has
        failed; of any subject if None. Those of subjects in `but_of` do not count.
        """

    def overdue_of(self, kinds: Collection[str], now: datetime) -> list[Job]:
        """All jobs of these kinds that are due by `now`, in order of `due_at`, whether or not they have failed."""

    def ready(self, now: datetime, at_most: int) -> list[Job]:
        """The first jobs without a lane that are ready to run, in order of `due_at`."""

    def waiting(self, kind: str, subject_id: str) -> Job | None:
        """The first job of this kind for the subject in order of `due_at`, whether or not it failed."""

    def get(self, key: str) -> Job | None:
        """The job with this key."""

    def failures(self, *, job_id: str | None = None, at_most: int | None = None, skipped: int = 0) -> list[Job]:
        """The jobs that have failed at least once and are not done yet, in order of `due_at`: all, the one with this
        id, or `at_most` so many after the first `skipped`.
        """

    def count_failures(self) -> int:
        """The number of jobs that have failed at least once and are not done yet."""

    def to_come(self, *, subject_id: str | None, at_most: int, skipped: int = 0) -> list[Job]:
        """The jobs that have not failed and are not done yet, in order of `due_at`: `at_most` so many after the first
        `skipped`, of one subject or of all.
        """

    def count_to_come(self, *, subject_id: str | None, at_most: int) -> int:
        """The number of jobs that have not failed and are not done yet; no more than `at_most` are counted."""

    def next_of(self, kind: str, now: datetime) -> tuple[datetime, int] | None:
        """When the next jobs of a kind without a lane are due after `now`, and how many at that very instant; None if
        none is.
        """

    def state(self, now: datetime) -> QueueState:
        """The state of the queue at `now`, across organizations; leased jobs count as running."""


class JobQueue(WaitingJobs, Protocol):
    """Due jobs. Everything here is part of the transaction it belongs to."""

    def add(self, *jobs: Job) -> bool:
        """Write the jobs; False if a key already exists: the existing job is left unchanged."""

    def claim(self, now: datetime, *, immediate: bool = False) -> Job | None:
        """The first job without a lane whose `run_at` has come, in order of `due_at`; of the immediate ones only, if
        requested. It stays in the queue until it is completed.
        """

    def lease(
        self, lane: str, now: datetime, until: datetime, *, at_most: int = 1, immediate: bool = False
    ) -> list[Job]:
        """The first jobs of a lane whose `run_at` has come, in order of `due_at`.

        Their `run_at` becomes `until`, which hides them from other workers until then.
        """

    def give_back(self, jobs: Sequence[Job]) -> None:
        """Make leased jobs ready again without running them; a job that has been leased again since is left alone."""

    def complete(self, *jobs: Job) -> None:
        """Remove jobs that are done."""

    def cancel(self, key: str) -> None:
        """Remove the job with this key, if there is one."""

    def postpone(self, job: Job, run_at: datetime, error: str, *, failed: bool = False, counts: bool = True) -> None:
        """Record a failed attempt, if it `counts`: the job is retried at `run_at`, or never once it has `failed`."""

    def release(self, error: str) -> None:
        """Make the jobs of the organization ready again that were put off with this error, and forget it."""

    def retry(self, id: str, run_at: datetime) -> bool:
        """Give the job a fresh set of attempts from `run_at`; False if there is no such job."""


class EventLog(Protocol):
    """Events and the queries of aggregations, within one organization."""

    def get(self, transaction_id: str) -> Event | None:
        """The event with this transaction id; if several subscriptions have one, the first received."""

    def named(self, external_subscription_id: str, transaction_ids: Sequence[str]) -> list[Event]:
        """The events of one external subscription id with these transaction ids, in order of time."""

    def find(self, event_filter: EventFilter, *, limit: int | None = None, offset: int = 0) -> list[Event]:
        """The events that match, by timestamp descending, then by transaction id ascending."""

    def count(self, event_filter: EventFilter, *, at_most: int = ...) -> int:
        """The number of events that match; no more than `at_most` are counted."""

    def stored(self) -> int:
        """The number of events stored so far, in all organizations."""

    def latest(self) -> int:
        """The sequence number of the newest event, which may be another organization's."""

    def stored_since(
        self,
        sequence: int,
        *,
        up_to: int = ...,
        external_ids: Sequence[str] | None = None,
        at_most: int = ...,
    ) -> list[tuple[int, Event]]:
        """The first events with a sequence number above `sequence` and at most `up_to`, each with its number; those of
        some external subscription ids only, if requested.
        """

    def exported(self, sequence: int, at_most: int) -> list[StoredEvent]:
        """The first events with a sequence number above this one."""

    def received(self, start: datetime, end: datetime) -> Iterator[Event]:
        """The events with `start <= created_at < end`, in no order, one by one."""

    def scan(self, question: EventQuery) -> Iterator[Event]:
        """The events that match the query, streamed in order of time. Grouping is left to the caller."""

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult]:
        """The query's aggregate of each group, in the order of `core.grouping.place_of`.

        Events that do not count for the aggregation (`core.aggregation.counts`) belong to no group; if none counts,
        there is one group of Nones. Results equal the folds of `core.aggregation`, to the last digit. ValueError for an
        aggregation that is not in `event_queries.COUNTED`.
        """

    def tallies_by_bucket(self, question: EventQuery, filters: FilterIndex) -> dict[int, dict[Group, AggregateResult]]:
        """The result of `tallies` for each bucket of `filters`, by position, in one pass over the events.

        The query's own bucket is all events. Buckets in which no event counts are left out.
        """

    def changes(
        self, question: EventQuery, since: Counted | None, order: EventOrder, *, at_most: int = 0
    ) -> Iterator[tuple[int, Event]]:
        """The query's events by which a result up to `order` (in time) may differ from the one counted up to `since`.

        In no order, each with its sequence number: events stored since, up to the later of the two points in time, if
        they were appended `in_advance`; and all events between the two points. At most `at_most` are returned. If
        nothing was counted yet, these are all of the query's events up to `order`, however many and however appended.
        """

    def size(self, question: EventQuery, *, at_most: int) -> int:
        """An estimate of the number of events that match, by code, subscription id and time alone; at most `at_most`
        are read.
        """

    def senders(
        self, *, external_subscription_id: str | None = None, code: str | None = None, uncounted: bool = False
    ) -> Iterator[tuple[str | None, str]]:
        """The distinct pairs of external subscription id and code among events, or among those marked `uncounted`.

        Both ids narrow the result. The cost depends on the number of pairs, not of events.
        """

    def in_ranges(self, ranges: Sequence[EventRange], *, limit: int, offset: int = 0) -> list[tuple[int, Event]]:
        """The events in any of the disjoint ranges, ordered as by `find`, each with the position of its range."""

    def count_in_ranges(self, ranges: Sequence[EventRange], *, received_from: datetime | None = None) -> list[int]:
        """The number of events in each range that were received at `received_from` or later."""

    def latest_ahead(
        self, external_subscription_id: str, code: str, earliest: datetime, latest: datetime, received_before: datetime
    ) -> datetime | None:
        """The latest timestamp, from `earliest` to `latest`, of events received before an instant that lay ahead of the
        clock then; None if there are none. Only events that lay ahead are read.
        """

    def known_up_to(self, question: EventQuery, sequence: int) -> int:
        """The sequence number up to which all events were received by the query's `known_at`; at least `sequence`.

        Only events of the query's code and subscription id that were stored after `sequence` are read.
        """

    def state_faults(self) -> Iterator[StateFault]:
        """Running totals that differ from a full count of their events."""


class EventStore(EventLog, Protocol):
    """Events that can be appended, as part of the transaction."""

    def append(
        self,
        events: Sequence[Event],
        *,
        in_advance: Collection[str] = (),
        uncounted: Collection[str] = (),
    ) -> list[int]:
        """Store `events`; if any (subscription, transaction id) already exists, return their positions and store none.

        Events with the codes `in_advance` are billed in advance: `changes` and `known_up_to` only need these. Events
        with the ids `uncounted` are marked, since their metric cannot count them.
        """

    def restore(self, events: Iterable[StoredEvent]) -> None:
        """Store all events of an organization that has none yet, in order, with the sequence numbers and marks that
        they had in another database.
        """

    def rewrite(self, events: Sequence[Event]) -> None:
        """Store the properties of these events in place of those that they have. Running totals end with that, until
        `rebuild_states`.
        """

    def remove(self, external_subscription_id: str, transaction_ids: Sequence[str]) -> None:
        """Remove the events of one external subscription id with these transaction ids. Running totals end with that,
        until `rebuild_states`. The newest event of all stays, or its number would be given again.
        """

    def rebuild_states(self) -> int:
        """Drop all running totals, which `Store.roll_up_usage` then rebuilds from the events; returns the number of
        series.
        """

    def mark(self, code: str, is_uncounted: Callable[[Event], bool]) -> None:
        """Mark exactly those events of the code that its metric, which is new or was changed, cannot count."""


class Snapshot(Protocol):
    """Reads within one organization (or across all, if opened for none).

    Records whose table has `deleted_at` are left out once deleted, unless `deleted=True`.
    """

    @property
    def jobs(self) -> WaitingJobs: ...
    @property
    def events(self) -> EventLog: ...

    def scoped(self, organization_id: str) -> Snapshot:
        """The same snapshot, within one organization."""

    def is_shared(self) -> bool:
        """Whether the store holds more than one organization."""

    def preload(
        self,
        kind: type[Any],
        column: str,
        values: Sequence[object],
        *conditions: Condition,
        at_most: int | None = None,
    ) -> None:
        """Read all records that meet the conditions and have one of the values in `column`, deleted ones too. From now
        on it answers questions about one of these values from memory, as far as the conditions are among
        the question's. Nothing is kept if there are more than `at_most` records for each value.
        """

    @property
    def organization_id(self) -> str | None:
        """The organization it is within; None: all of them."""

    @property
    def price_version(self) -> int:
        """The newest price version, 0 before the first; that of `as_of`."""

    def as_of(self, price_version: int) -> Snapshot:
        """The same snapshot with all definitions (`core.price_versions`) as they stood in that price version, looked up
        by id or by what never changes about them, such as the plan of a charge.
        """

    def get(self, kind: type[R], id: str, *, deleted: bool = False) -> R | None:
        """The record with this id."""

    def first(
        self, kind: type[R], *conditions: Condition, order: Sequence[Order] = (), deleted: bool = False
    ) -> R | None:
        """The first record that satisfies all conditions."""

    def find(
        self,
        kind: type[R],
        *conditions: Condition,
        order: Sequence[Order] = (),
        limit: int | None = None,
        offset: int = 0,
        deleted: bool = False,
    ) -> list[R]:
        """The records that satisfy all conditions, in this order and then by id."""

    def page(
        self,
        kind: type[R],
        *conditions: Condition,
        order: Sequence[Order] = (),
        limit: int,
        offset: int = 0,
        deleted: bool = False,
    ) -> tuple[list[R], Total]:
        """What `find` returns for this limit and offset, and how many records there are. An engine may stop counting
        at 10,000 where it would have to read more records than that.
        """

    def each(
        self, kind: type[R], *conditions: Condition, order: Sequence[Order] = (), deleted: bool = False
    ) -> Iterator[R]:
        """The matching records, streamed one by one. Nothing may be written while the stream is open."""

    def count(self, kind: type[Any], *conditions: Condition, deleted: bool = False) -> int:
        """The number of records that satisfy all conditions."""

    def total(self, kind: type[Any], column: str, *conditions: Condition, deleted: bool = False) -> int:
        """The sum of an integer column over the records that match; 0 if none does."""

    def grouped(
        self, kind: type[Any], by: Sequence[GroupKey], columns: Sequence[str], *conditions: Condition
    ) -> list[Sums]:
        """The exact sums of columns of cents or decimals over the live records that match, for each group, in no order.

        A record whose `via` leads nowhere is in the group of None.
        """

    def last_numbers(self, *names: str) -> list[int]:
        """The last number given by `next_number` in each of these sequences; 0 before the first."""

    def numbers(self) -> dict[str, int]:
        """The last number of each of the organization's sequences (`next_number`) by name."""

    def list_faults(self) -> Iterator[CountFault]:
        """The kept numbers of records that lists show as totals, where they differ from a recount of the records."""

    def newest_instant(self) -> datetime | None:
        """The latest clock reading recorded by a write; None if there is none."""

    def processes(self) -> tuple[Process, ...]:
        """The processes that have or had the database open, the last seen first."""

    def last_backup(self) -> datetime | None:
        """When the last backup was made that is known of."""


class Transaction(Snapshot, Protocol):
    """Reads and writes: everything a snapshot can read, plus changes."""

    @property
    def jobs(self) -> JobQueue: ...
    @property
    def events(self) -> EventStore: ...

    def note_backup(self, made_at: datetime) -> None:
        """Record when the last backup was made."""

    def note_instant(self, instant: datetime, *, even_if_earlier: bool = False) -> None:
        """Record `instant` as the latest clock reading if it is later, or regardless with `even_if_earlier`."""

    def note_process(self, process: Process) -> None:
        """Record what a process says of itself; those not seen for a week are forgotten."""

    def forget_process(self, id: str) -> None:
        """Remove a process that leaves nothing to know."""

    def scoped(self, organization_id: str) -> Transaction:
        """The same transaction, within one organization."""

    def has_written_for(self, customer_id: str) -> bool:
        """Whether this transaction has written what raises one of the customer's versions."""

    def savepoint(self, change: Callable[[], T]) -> T:
        """Run `change`; if it raises, only its effects are undone, and the exception propagates."""

    def unchecked(self, change: Callable[[], T]) -> T:
        """Run `change`, assuming that its writes break no rule and its jobs are new: they may be stored later in the
        transaction, in bulk. If they do break a rule, the store's whole write is undone and rerun, and the error is
        raised at its cause.
        """

    @property
    def unsent_seconds(self) -> float:
        """The estimated time to store what was written unchecked and is not stored yet."""

    def insert(self, *records: object) -> None:
        """Write the records. Raises `Duplicate` if a unique rule is broken."""

    def replace(self, record: object, *, former: object | None = None) -> None:
        """Write the record in place of the one with its id. LookupError if there is none.

        `former` is the stored record, if known for certain; otherwise it is read.
        """

    def delete(self, *records: object) -> None:
        """Remove the rows for good; to set `deleted_at`, use `replace`."""

    def take_changes(self) -> list[Change]:
        """The net change of each record of a logged table since the last call, in the order of first changes."""

    def take_redefined(self) -> list[Change]:
        """The net change of each definition since the last call, in the order of first changes."""

    def recount_lists(self) -> list[str]:
        """Make the counts of the lists with faults again; returns their tables."""

    def restore_numbers(self, numbers: Mapping[str, int]) -> None:
        """Let sequences go on after these numbers, by name; for an organization that has none yet."""

    def remove_organization(self) -> None:
        """Remove every row of the organization, whatever its table, for good."""

    def count_up(self, organization_id: str, name: str, window: datetime, by: int = 1) -> int:
        """Add to the number of an organization's `name` within the window that begins at `window`, and return it. A
        number is of one window: it begins at 0 with each new one.
        """

    def next_number(self, name: str, start: int = 1) -> int:
        """The next number of a gapless sequence: it commits, and rolls back, with this transaction."""


class Store(Protocol):
    """A storage engine. A thread has one transaction open at a time: RuntimeError if it opens a second."""

    def read(self, organization_id: str | None, question: Callable[[Transaction], T]) -> T:
        """Answer from one consistent snapshot. Attempts to write raise an error of the engine."""

    def write(self, organization_id: str | None, change: Callable[[Transaction], T]) -> T:
        """Run `change` and make it durable before returning; an exception undoes all of it."""

    @property
    def reachability(self) -> Reachability:
        """Whether the database works now, as this process has seen."""

    def look(self) -> None:
        """Ask the database for a sign of life, beside everything else that it is asked; for one thread at a time.

        Raises `DatabaseFailed`, or OSError where its file is gone.
        """

    @property
    def free_bytes(self) -> int | None:
        """The room left on the database's disk; None if that is unknown here."""

    @property
    def now(self) -> Callable[[], datetime] | None:
        """The clock shared by all writers of the store; None: the clock of their machine."""

    @property
    def identity(self) -> str | None:
        """An identity that no copy of the database shares; None if the engine has none."""

    @property
    def reads_beside_writes(self) -> bool:
        """Whether writes can go on during a read."""

    @property
    def schema(self) -> int:
        """The newest schema of records that this process knows."""

    @property
    def connections(self) -> Connections | None:
        """The connections of this process to a database server; None if the engine has none."""

    def is_awaited(self) -> bool:
        """Whether other threads of this process are waiting for the current write to end; called within a write."""

    def entitling_commits(self, organization_id: str) -> int:
        """The number of commits of this process, through any store of the database, that changed the organization's
        `storage.versions.entitlements_version`. It is up to date once `write` returns, and does not access the
        database.
        """

    def roll_up_usage(self) -> bool:
        """Roll up some of the events that are in no running total yet, of all organizations; False if there is nothing
        to do.

        `EventLog.tallies` uses these states when there are many events. They never change a result.
        """

    def ship_events(self) -> bool:
        """Forward some stored events to the event store next to the database; False if there is none, if it has them
        all, or if it cannot be reached, which is logged. Results do not depend on it.
        """

    @property
    def contention(self) -> float:
        """The fraction (0 to 1) of recent writes that had to wait for another process; the latest weigh most."""

    def close(self) -> None:
        """Close the store."""


class CallersTransaction(Protocol):
    """A transaction that the caller began, and will commit or roll back."""

    def is_open(self) -> bool:
        """Whether it has begun and not yet ended."""

    def run(self, organization_id: str, change: Callable[[Transaction], T]) -> T:
        """Run `change` in it; if it raises, only its effects are undone. Raises `UnusableTransaction`."""
