"""Counts of many events for a change: made on a snapshot while others write, not under the lock of the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import EventLog, Observation, Snapshot, Transaction
from usagebill.storage.rehearsal import RunEnds

__all__ = ["BillWanted", "Count", "CountWanted", "Counting", "Counts", "CountsAhead"]

T = TypeVar("T")
Count = Callable[[EventLog], T]

# How many events one run of a change may count under the lock, and of how many subscriptions one bill may be worked
# out there: some milliseconds.
_FEW = 1000
_FEW_BILLED = 3


class CountWanted(RunEnds):
    """The change needs more events counted than the lock may be held for: that is done while no transaction is open."""

    def __init__(self, queries: Sequence[EventQuery], make: Count[Any], given: object) -> None:
        super().__init__("many events are to be counted")
        self.queries = queries
        self.make = make
        self.given = given


class BillWanted(RunEnds):
    """The change needs a bill that takes long to work out: that is done while no transaction is open."""

    def __init__(self) -> None:
        super().__init__("a bill of many subscriptions is to be worked out")


class Counting(Protocol):
    """Who counts events for a reader."""

    def of(self, tx: Snapshot, queries: Sequence[EventQuery], make: Count[T], *, given: object) -> T:
        """The result of `make`, which follows from what it is `given` and from the events of `queries` alone."""


@dataclass(frozen=True, slots=True)
class _Known:
    given: object
    result: Any
    observation: Observation


class Counts:
    """What has been counted for a change so far, and what one run of it may still count under the lock."""

    def __init__(self) -> None:
        self._known: list[_Known] = []
        self._left = _FEW
        self.is_patient = True
        # Whether bills may still be worked out before the lock is taken.
        self.bills_ahead = False

    def begin(self) -> None:
        """Another run of the change begins."""
        self._left = _FEW

    def of(self, tx: Transaction, queries: Sequence[EventQuery], make: Count[T], *, given: object) -> T:
        """See `Counting`. Raises `CountWanted` for more than a few events, unless nobody waits for that any longer."""
        for known in self._known:
            if known.given == given and tx.still_holds(known.observation):
                result: T = known.result
                return result
        if self.is_patient:
            for query in queries:
                self._left -= tx.events.size(query, at_most=self._left + 1)
                if self._left < 0:
                    raise CountWanted(queries, make, given)
        return make(tx.events)

    def check_bill(self, subscriptions: int) -> None:
        """Raises `BillWanted` if a bill of so many subscriptions is not to be worked out under the lock."""
        if self.bills_ahead and self.is_patient and subscriptions > _FEW_BILLED:
            raise BillWanted

    def count(self, snapshot: Snapshot, wanted: CountWanted) -> None:
        """Count on a snapshot what was wanted, unless that is known already."""
        if all(known.given != wanted.given for known in self._known):
            self.keep(snapshot, wanted.queries, wanted.make(snapshot.events), given=wanted.given)

    def keep(self, snapshot: Snapshot, queries: Sequence[EventQuery], result: object, *, given: object) -> None:
        """Keep what was counted on a snapshot, for as long as no other event of the queries comes."""
        self._known.append(_Known(given, result, snapshot.watching(queries)))

    def forget(self) -> None:
        """Drop everything: the change will be run as of another instant."""
        self._known.clear()


class CountsAhead:
    """Counts on a snapshot whatever is asked for, and keeps it for the runs that follow.

    Nothing that is kept is used here: who asks may be observed, and would not be seen to depend on events.
    """

    def __init__(self, counts: Counts, snapshot: Snapshot) -> None:
        self._counts = counts
        self._snapshot = snapshot

    def of(self, tx: Snapshot, queries: Sequence[EventQuery], make: Count[T], *, given: object) -> T:
        """See `Counting`."""
        result = make(tx.events)
        self._counts.keep(self._snapshot, queries, result, given=given)
        return result
