"""The runs of one change of a caller: it is rolled back if it wants a long result, and run again with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from usagebill.core.organizations import Organization
from usagebill.process.settings import Settings
from usagebill.runtime.ahead import Ahead, Wanted, versions_behind
from usagebill.runtime.work import Answers, Reader
from usagebill.storage.ports import Snapshot, Store, Transaction
from usagebill.storage.versions import Versions, versions_of

T = TypeVar("T")

# The number of instants at which a change is run before it computes everything under the lock.
_MOST_INSTANTS = 4


def compute(
    store: Store, organization: Organization, settings: Settings, ahead: Ahead, wanted: Wanted, answers: Answers
) -> None:
    """Compute on a snapshot what a change wants."""

    def look(tx: Snapshot) -> None:
        ahead.compute(
            tx,
            wanted,
            lambda counting: Reader(
                tx,
                organization,
                wanted.now,
                settings,
                answers=answers,
                counting=counting,
                known_at=wanted.known_at,
            ),
        )

    store.read(organization.id, look)


class Runs:
    """Each run acts as of the instant of the first one, as a late job acts as of the instant it was due, unless the
    customers whose results it waits for have changed since. Then it starts over, as of now.
    """

    def __init__(self, store: Store, settings: Settings, organization: Organization) -> None:
        self._store = store
        self._settings = settings
        self._organization = organization
        # In memory, nothing is written during a count.
        self.ahead = Ahead() if store.reads_beside_writes else None
        self._at: datetime | None = None
        self._versions: dict[str, Versions] = {}
        self._instants = 0

    def begin(self, tx: Transaction, now: datetime) -> datetime:
        """The instant that the next run acts as of."""
        if self._at is None or any(versions_of(tx, id) != known for id, known in self._versions.items()):
            self._at, self._versions = now, {}
            self._instants += 1
            if self.ahead is not None and self._instants > 1:
                self.ahead = Ahead()
                self.ahead.is_patient = self._instants <= _MOST_INSTANTS
        if self.ahead is not None:
            self.ahead.begin()
        return self._at

    def note(self, tx: Transaction, wanted: Wanted) -> None:
        """Note whose records must stay the same until the change runs again."""
        self._versions = versions_behind(tx, wanted.customer_id, wanted.queries) | self._versions

    def repeated(self, run: Callable[[], T], answers: Answers) -> T:
        """The result of `run`, one run of the change, repeated with the results that it wants."""
        while True:
            try:
                return run()
            except Wanted as problem:
                wanted = problem
            # Outside the transaction, which has been rolled back by now.
            assert self.ahead is not None
            compute(self._store, self._organization, self._settings, self.ahead, wanted, answers)
