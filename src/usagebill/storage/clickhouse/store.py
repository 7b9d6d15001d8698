"""An engine with an event store beside it, which counts many events; newer events (the tail) are merged in.

The event store counts up to sequence number W and the database after it; W is read in the query's snapshot. So events
count as soon as they are acknowledged, late events need no special treatment, and results do not depend on how far
events have been shipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from usagebill.core.aggregation import AggregateResult
from usagebill.core.filters import FilterIndex
from usagebill.process.logs import Log
from usagebill.storage.clickhouse.answers import ANSWERED, LAST, counted, newer
from usagebill.storage.clickhouse.servers import ASKED_FROM, EventServers, Unreachable
from usagebill.storage.clickhouse.shipping import Shipping, shipment_in
from usagebill.storage.event_queries import EventQuery, Group
from usagebill.storage.failures import Reachability
from usagebill.storage.ports import EventLog, Snapshot, Store, Transaction
from usagebill.storage.sql.counting import Buckets, results, results_of_all

_log = Log("usagebill.events")
T = TypeVar("T")

# With a longer tail, which would be read event by event, the database counts everything.
_TAIL_AT_MOST: Final = 50_000
# Seconds without queries after a server failed.
_PAUSE_SECONDS: Final = 30.0
_SAID_AGAIN_SECONDS: Final = 60.0


class _EventStore:
    """The servers, and whether they respond; shared by all transactions of a store."""

    def __init__(self, servers: EventServers, asked_from: int) -> None:
        self.servers = servers
        self.asked_from = asked_from
        self._failed_at: float | None = None
        self._behind_at: float | None = None

    @property
    def is_paused(self) -> bool:
        return self._failed_at is not None and time.monotonic() - self._failed_at < _PAUSE_SECONDS

    def failed(self, problem: Unreachable) -> None:
        self._failed_at = time.monotonic()
        _log.warning("event_store_unreachable", error=str(problem), asked_again_after_seconds=_PAUSE_SECONDS)

    def behind(self, organization_id: str | None, waiting: int) -> None:
        """Log that the database counts, since the event store is too far behind."""
        now = time.monotonic()
        if self._behind_at is None or now - self._behind_at >= _SAID_AGAIN_SECONDS:
            self._behind_at = now
            _log.warning("event_store_behind", organization=organization_id, waiting=waiting, counted_by="database")

    def answered(self) -> None:
        self._failed_at = None


class _Shipped:
    """The sequence number up to which the event store counts within one snapshot, read on first use."""

    def __init__(self, tx: Snapshot, event_store: _EventStore) -> None:
        self._tx = tx
        self._event_store = event_store
        self._place: int | None = None
        self._is_known = False

    @property
    def events(self) -> EventLog:
        """The snapshot's own events."""
        return self._tx.events

    def place(self) -> int | None:
        """The sequence number; None if the database counts everything."""
        if not self._is_known:
            self._is_known = True
            shipment = shipment_in(self._tx, self._event_store.servers.id)
            if shipment is not None and shipment.is_read and shipment.fault is None:
                tail = self._tx.events.latest() - shipment.shipped_to
                if tail <= _TAIL_AT_MOST:
                    self._place = shipment.shipped_to
                else:
                    self._event_store.behind(self._tx.organization_id, tail)
        return self._place


class _Events:
    """Events of a transaction. The event store only counts; everything else is read from the database."""

    def __init__(
        self, events: EventLog, shipped: _Shipped, event_store: _EventStore, organization_id: str | None
    ) -> None:
        self._events = events
        self._shipped = shipped
        self._event_store = event_store
        self._organization_id = organization_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._events, name)

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult]:
        buckets = self._counted(question, None)
        return self._events.tallies(question) if buckets is None else results_of_all(question, buckets)

    def tallies_by_bucket(self, question: EventQuery, filters: FilterIndex) -> dict[int, dict[Group, AggregateResult]]:
        buckets = self._counted(question, filters)
        if buckets is None:
            return self._events.tallies_by_bucket(question, filters)
        return results(question, buckets)

    def _place(self, question: EventQuery) -> int | None:
        """The sequence number up to which the event store counts the query; None if the database counts."""
        if self._organization_id is None or self._event_store.is_paused or question.aggregation_type not in ANSWERED:
            return None
        place = self._shipped.place()
        least = self._event_store.asked_from
        return place if place is not None and self._shipped.events.size(question, at_most=least) >= least else None

    def _counted(self, question: EventQuery, filters: FilterIndex | None) -> Buckets | None:
        """The aggregates by bucket and group; None if the database counts, as it does if no server can be reached."""
        place = self._place(question)
        if place is None:
            return None
        newest = list(self._events.changes(newer(question, place), None, LAST))
        try:
            buckets = counted(self._event_store.servers, self._organization_id or "", question, filters, place, newest)
        except Unreachable as problem:
            # Slower, with the same result.
            self._event_store.failed(problem)
            return None
        self._event_store.answered()
        return buckets


class _WithEvents:
    """A transaction of the engine, with events counted by both."""

    def __init__(self, tx: Snapshot, event_store: _EventStore, shipped: _Shipped | None = None) -> None:
        self._tx = tx
        self._event_store = event_store
        self._shipped = shipped or _Shipped(tx, event_store)
        self.events = _Events(tx.events, self._shipped, event_store, tx.organization_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def scoped(self, organization_id: str) -> Transaction:
        return _wrapped(self._tx.scoped(organization_id), self._event_store)


def _wrapped(tx: Snapshot, event_store: _EventStore, shipped: _Shipped | None = None) -> Transaction:
    return cast(Transaction, _WithEvents(tx, event_store, shipped))


class StoreWithEvents:
    """See `storage.ports.Store`: `records` with an event store beside it.

    The event store is not used for fewer events than `asked_from`. While it cannot be reached the database counts,
    which takes longer. An outage is logged.
    """

    def __init__(self, records: Store, servers: EventServers, *, asked_from: int = ASKED_FROM) -> None:
        self.records = records
        self.servers = servers
        self.shipping = Shipping(records, servers)
        self._event_store = _EventStore(servers, asked_from)

    def read(self, organization_id: str | None, question: Callable[[Transaction], T]) -> T:
        return self.records.read(organization_id, lambda tx: question(_wrapped(tx, self._event_store)))

    def write(self, organization_id: str | None, change: Callable[[Transaction], T]) -> T:
        return self.records.write(organization_id, lambda tx: change(_wrapped(tx, self._event_store)))

    @property
    def reachability(self) -> Reachability:
        return self.records.reachability

    def look(self) -> None:
        self.records.look()

    @property
    def free_bytes(self) -> int | None:
        return self.records.free_bytes

    @property
    def now(self) -> Callable[[], datetime] | None:
        return self.records.now

    @property
    def identity(self) -> str | None:
        return self.records.identity

    @property
    def reads_beside_writes(self) -> bool:
        return self.records.reads_beside_writes

    def is_awaited(self) -> bool:
        return self.records.is_awaited()

    def entitling_commits(self, organization_id: str) -> int:
        return self.records.entitling_commits(organization_id)

    def roll_up_usage(self) -> bool:
        return self.records.roll_up_usage()

    def ship_events(self) -> bool:
        if self._event_store.is_paused:
            return False
        try:
            # Each organization has its turn: none waits for the others' backlog.
            shipped = [self.shipping.ship(id) for id in self.shipping.organizations()]
        except Unreachable as problem:
            self._event_store.failed(problem)
            return False
        return any(shipped)

    @property
    def contention(self) -> float:
        return self.records.contention

    def close(self) -> None:
        self.records.close()
        self.servers.close()
