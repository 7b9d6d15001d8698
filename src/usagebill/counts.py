"""Counts of many events for a change: made on a snapshot while others write, not under the write lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import EventLog, Observation, Snapshot, Transaction
from usagebill.storage.rehearsal import RunEnds

T = TypeVar("T")
Count = Callable[[EventLog], T]

# Limits on one run of a change under the lock: the events it may count, and the subscriptions of a bill it may compute.
# Both take some milliseconds.
_FEW = 1000
_FEW_BILLED = 3


class CountWanted(RunEnds):
    """The change needs a count of too many events for the write lock: it is made while no transaction is open."""

    def __init__(self, queries: Sequence[EventQuery], make: Count[Any], inputs: object) -> None:
        super().__init__("many events are to be counted")
        self.queries = queries
        self.make = make
        self.inputs = inputs


class BillWanted(RunEnds):
    """The change needs a bill that takes long to compute: that is done while no transaction is open."""

    def __init__(self) -> None:
        super().__init__("a bill of many subscriptions is to be worked out")


class Counting(Protocol):
    """Counts events for a reader."""

    def of(self, tx: Snapshot, queries: Sequence[EventQuery], make: Count[T], *, inputs: object) -> T:
        """The result of `make`, which depends only on `inputs` and on the events of `queries`."""


@dataclass(frozen=True, slots=True)
class _Known:
    inputs: object
    result: Any
    observation: Observation


class Counts:
    """The counts made for a change so far, and what one run of it may still count under the lock."""

    def __init__(self) -> None:
        self._known: list[_Known] = []
        self._left = _FEW
        self.is_patient = True
        # Whether bills may still be computed before the lock is taken.
        self.bills_ahead = False

    def begin(self) -> None:
        """Another run of the change begins."""
        self._left = _FEW

    def of(self, tx: Transaction, queries: Sequence[EventQuery], make: Count[T], *, inputs: object) -> T:
        """See `Counting`. Raises `CountWanted` for more than a few events, unless it may count under the lock."""
        for known in self._known:
            if known.inputs == inputs and tx.still_holds(known.observation):
                result: T = known.result
                return result
        if self.is_patient:
            for query in queries:
                self._left -= tx.events.size(query, at_most=self._left + 1)
                if self._left < 0:
                    raise CountWanted(queries, make, inputs)
        return make(tx.events)

    def check_bill(self, subscriptions: int) -> None:
        """Raises `BillWanted` if a bill of this many subscriptions must not be computed under the lock."""
        if self.bills_ahead and self.is_patient and subscriptions > _FEW_BILLED:
            raise BillWanted

    def count(self, snapshot: Snapshot, wanted: CountWanted) -> None:
        """Make a wanted count on a snapshot, unless it is known already."""
        if all(known.inputs != wanted.inputs for known in self._known):
            self.keep(snapshot, wanted.queries, wanted.make(snapshot.events), inputs=wanted.inputs)

    def keep(self, snapshot: Snapshot, queries: Sequence[EventQuery], result: object, *, inputs: object) -> None:
        """Keep a count made on a snapshot; it holds until another event of the queries arrives."""
        self._known.append(_Known(inputs, result, snapshot.watching(queries)))

    def forget(self) -> None:
        """Drop all counts: the change will be run as of another instant."""
        self._known.clear()


class CountsAhead:
    """Counts on a snapshot whatever is requested, and keeps it for the following runs.

    It never uses a kept count: an observed reader would then not be recorded as depending on the events.
    """

    def __init__(self, counts: Counts, snapshot: Snapshot) -> None:
        self._counts = counts
        self._snapshot = snapshot

    def of(self, tx: Snapshot, queries: Sequence[EventQuery], make: Count[T], *, inputs: object) -> T:
        """See `Counting`."""
        result = make(tx.events)
        self._counts.keep(self._snapshot, queries, result, inputs=inputs)
        return result
