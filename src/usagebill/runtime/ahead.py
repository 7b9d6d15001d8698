"""Long results of a change, computed on a snapshot while others write, not under the write lock.

A change that has to count many events, or to bill many subscriptions, ends with `Wanted` and is rolled back. What it
wanted is computed on a snapshot, and the change is run again with it. A count holds until another of its events
arrives, and is then made again: a bill knows only the events received before its instant, so hardly any arrives, and
running totals leave little but the new ones to be counted. A result that also reads records holds while the versions of
its customer are the same (`storage.versions`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from usagebill.core.subscriptions import Subscription
from usagebill.process.ids import Ids
from usagebill.storage.conditions import within
from usagebill.storage.event_queries import EventQuery, concerns
from usagebill.storage.ports import EventLog, Snapshot, Transaction
from usagebill.storage.versions import Versions, versions_of

T = TypeVar("T")
Count = Callable[[EventLog], T]

# Limits on one run of a change under the lock: the events it may count, and the subscriptions of a bill it may compute.
# Both take some milliseconds.
_FEW = 1000
_FEW_BILLED = 3
# How often a change is run again before it computes everything under the lock.
_MOST_RUNS = 50


class Wanted(Exception):
    """The change needs a result that takes too long for the write lock. It is rolled back, and this is no failure.

    `make` computes it for a reader at `now` that knows the events received up to `known_at`. `key` and `inputs` say
    which result it is; without a key, `make` only counts. `queries` are those of the count that was too long.
    """

    def __init__(
        self,
        make: Callable[[Any], Any],
        *,
        now: datetime,
        known_at: datetime,
        key: Hashable = None,
        inputs: object = None,
        customer_id: str | None = None,
        queries: Sequence[EventQuery] = (),
    ) -> None:
        super().__init__("a long result is to be computed first")
        self.make = make
        self.now = now
        self.known_at = known_at
        self.key = key
        self.inputs = inputs
        self.customer_id = customer_id
        self.queries = queries


class Asking(Protocol):
    """The unit of work that asks for a result."""

    now: datetime
    known_at: datetime

    @property
    def tx(self) -> Transaction: ...


class Counting(Protocol):
    """Counts events for a reader."""

    def of(self, tx: Snapshot, queries: Sequence[EventQuery], make: Count[T], *, inputs: object) -> T:
        """The result of `make`, which depends only on `inputs` and on the events of `queries`."""


@dataclass(slots=True)
class _Known:
    """A result, the last event that its snapshot shows, the queries of all its counts, and the versions of the customer
    whose records it depends on, if any.
    """

    inputs: object
    latest: int
    result: Any = None
    queries: list[EventQuery] = field(default_factory=list)
    customer_id: str | None = None
    versions: dict[str, Versions] = field(default_factory=dict)

    def holds(self, tx: Transaction, inputs: object) -> bool:
        """Whether the result would be the same now."""
        if self.inputs != inputs:
            return False
        if self.customer_id is not None:
            versions = versions_behind(tx, self.customer_id, self.queries)
            if versions != self.versions or any(map(tx.has_written_for, versions)):
                return False
        ids = sorted({query.external_subscription_id for query in self.queries})
        return not ids or not any(
            concerns(query, event)
            for _, event in tx.events.stored_since(self.latest, external_ids=ids)
            for query in self.queries
        )


def versions_behind(tx: Snapshot, customer_id: str | None, queries: Sequence[EventQuery]) -> dict[str, Versions]:
    """The versions of the customer and of everybody whose events the queries may count, by customer.

    A subscription that follows another one, also of another customer, shares the usage of a second with it.
    """
    names = {query.external_subscription_id for query in queries}
    subscriptions = tx.find(Subscription, within("external_id", sorted(names)), deleted=True) if names else []
    ids = {subscription.customer_id for subscription in subscriptions} | ({customer_id} if customer_id else set())
    return {id: versions_of(tx, id) for id in ids}


class Ahead:
    """The results computed for a change so far, and what one run of it may still count under the lock."""

    def __init__(self) -> None:
        self.ids = Ids()
        self.is_patient = True
        self._counts: list[_Known] = []
        self._results: dict[Hashable, _Known] = {}
        self._left = _FEW
        self._runs = 0

    def begin(self) -> None:
        """Another run of the change begins."""
        self.ids.begin()
        self._left = _FEW
        self._runs += 1

    def count(self, work: Asking, queries: Sequence[EventQuery], make: Count[T], *, inputs: object) -> T:
        """The result of `make`, which depends only on `inputs` and on the events of `queries`.

        Raises `Wanted` for more than a few events.
        """
        for known in self._counts:
            if known.holds(work.tx, inputs):
                result: T = known.result
                return result
        if self._may_want():
            for query in queries:
                self._left -= work.tx.events.size(query, at_most=self._left + 1)
                if self._left < 0:
                    raise Wanted(
                        lambda reader: reader.counted(queries, make, inputs=inputs),
                        now=work.now,
                        known_at=work.known_at,
                        queries=queries,
                    )
        return make(work.tx.events)

    def result(
        self,
        work: Asking,
        key: Hashable,
        make: Callable[[Any], T],
        *,
        inputs: object,
        customer_id: str,
        subscriptions: Callable[[], int],
    ) -> T:
        """The result of `make` as of the unit of work's instant, which depends on `inputs`, on records of the customer
        and on those that all share.

        Raises `Wanted` if it bills many `subscriptions`, or counts many events.
        """
        inputs = inputs, work.now, work.known_at
        known = self._results.get(key)
        if known is not None and known.holds(work.tx, inputs):
            result: T = known.result
            return result
        wanted = Wanted(make, now=work.now, known_at=work.known_at, key=key, inputs=inputs, customer_id=customer_id)
        if work.tx.has_written_for(customer_id):
            # What this transaction has written is in no snapshot: only its counts can be made there.
            return make(work)
        if self._may_want() and subscriptions() > _FEW_BILLED:
            raise wanted
        try:
            return make(work)
        except Wanted as count:
            # The other counts of the same result are made on the same snapshot.
            wanted.queries = count.queries
            raise wanted from None

    def estimate(self, work: Asking, key: Hashable, make: Callable[[Any], T], *, inputs: object) -> T:
        """The result of `make` for these `inputs` on a snapshot, whatever has been written since.

        Raises `Wanted` until it is there.
        """
        known = self._results.get(key)
        if known is not None and known.inputs == inputs:
            result: T = known.result
            return result
        if self._may_want():
            raise Wanted(make, now=work.now, known_at=work.known_at, key=key, inputs=inputs)
        return make(work)

    def compute(self, snapshot: Snapshot, wanted: Wanted, reader: Callable[[Counting], Any]) -> None:
        """Compute on a snapshot what the last run wanted, with a reader of it that counts in the given way."""
        known = _Known(wanted.inputs, snapshot.events.latest(), customer_id=wanted.customer_id)
        try:
            known.result = wanted.make(reader(_Keeping(self, known)))
            if known.customer_id is not None:
                known.versions = versions_behind(snapshot, known.customer_id, known.queries)
        except Exception:
            # The change will raise it under the lock, where it counts.
            self.is_patient = False
            return
        if wanted.key is not None:
            self._results[wanted.key] = known

    def keep(self, count: _Known) -> None:
        """Keep a count made on a snapshot."""
        self._counts.append(count)

    def _may_want(self) -> bool:
        return self.is_patient and self._runs <= _MOST_RUNS


class _Keeping:
    """Counts on a snapshot whatever is asked for, and keeps it for the following runs."""

    def __init__(self, ahead: Ahead, of: _Known) -> None:
        self._ahead = ahead
        self._of = of

    def of(self, tx: Snapshot, queries: Sequence[EventQuery], make: Count[T], *, inputs: object) -> T:
        """See `Counting`."""
        result = make(tx.events)
        self._of.queries += queries
        self._ahead.keep(_Known(inputs, self._of.latest, result, list(queries)))
        return result
