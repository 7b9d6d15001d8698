"""An engine with an event store beside it, which counts many events; newer events (the tail) are merged in.

The event store counts up to sequence number W and the database after it; W is read in the query's snapshot. So events
count as soon as they are acknowledged, late events need no special treatment, and results do not depend on how far
events have been shipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from usagebill.core.aggregation import AggregateResult
from usagebill.core.filters import FilterIndex
from usagebill.process.logs import Log
from usagebill.storage.clickhouse.answers import ANSWERED, counted
from usagebill.storage.clickhouse.servers import ASKED_FROM, EventServers, Unreachable
from usagebill.storage.clickhouse.shipping import Shipping, shipment_in
from usagebill.storage.event_queries import EventQuery, Group
from usagebill.storage.ports import Connections, Snapshot, Store, Transaction
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


class _Events:
    """Events of a transaction. The event store only counts; everything else is read from the database."""

    def __init__(self, tx: Snapshot, event_store: _EventStore) -> None:
        self._tx = tx
        self._event_store = event_store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx.events, name)

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult]:
        buckets = self._counted(question, None)
        return self._tx.events.tallies(question) if buckets is None else results_of_all(question, buckets)

    def tallies_by_bucket(self, question: EventQuery, filters: FilterIndex) -> dict[int, dict[Group, AggregateResult]]:
        buckets = self._counted(question, filters)
        if buckets is None:
            return self._tx.events.tallies_by_bucket(question, filters)
        return results(question, buckets)

    @cached_property
    def _shipped_to(self) -> int | None:
        """The sequence number up to which the event store counts in this snapshot; None if the database counts
        everything.
        """
        shipment = shipment_in(self._tx, self._event_store.servers.id)
        if shipment is None or not shipment.is_read or shipment.fault is not None:
            return None
        tail = self._tx.events.latest() - shipment.shipped_to
        if tail > _TAIL_AT_MOST:
            self._event_store.behind(self._tx.organization_id, tail)
            return None
        return shipment.shipped_to

    def _counted(self, question: EventQuery, filters: FilterIndex | None) -> Buckets | None:
        """The aggregates by bucket and group; None if the database counts, as it does if no server can be reached."""
        organization_id, store = self._tx.organization_id, self._event_store
        if organization_id is None or store.is_paused or question.aggregation_type not in ANSWERED:
            return None
        place = self._shipped_to
        if place is None or self._tx.events.size(question, at_most=store.asked_from) < store.asked_from:
            return None
        try:
            return counted(store.servers, organization_id, question, filters, place, self._tx.events)
        except Unreachable as problem:
            # Slower, with the same result.
            store.failed(problem)
            return None


class _WithEvents:
    """A transaction of the engine, with events counted by both."""

    def __init__(self, tx: Snapshot, event_store: _EventStore) -> None:
        self._tx = tx
        self._event_store = event_store
        self.events = _Events(tx, event_store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def scoped(self, organization_id: str) -> Transaction:
        return _wrapped(self._tx.scoped(organization_id), self._event_store)


def _wrapped(tx: Snapshot, event_store: _EventStore) -> Transaction:
    return cast(Transaction, _WithEvents(tx, event_store))


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
        # The rest is the engine's.
        self.now, self.identity, self.reachability = records.now, records.identity, records.reachability
        self.schema = records.schema
        self.reads_beside_writes, self.is_awaited = records.reads_beside_writes, records.is_awaited
        self.look, self.roll_up_usage = records.look, records.roll_up_usage
        self.entitling_commits = records.entitling_commits

    def read(self, organization_id: str | None, question: Callable[[Transaction], T]) -> T:
        return self.records.read(organization_id, lambda tx: question(_wrapped(tx, self._event_store)))

    def write(self, organization_id: str | None, change: Callable[[Transaction], T]) -> T:
        return self.records.write(organization_id, lambda tx: change(_wrapped(tx, self._event_store)))

    @property
    def connections(self) -> Connections | None:
        return self.records.connections

    @property
    def free_bytes(self) -> int | None:
        return self.records.free_bytes

    @property
    def contention(self) -> float:
        return self.records.contention

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

    def close(self) -> None:
        self.records.close()
        self.servers.close()
