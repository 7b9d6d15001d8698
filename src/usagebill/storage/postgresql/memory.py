"""A transaction's cache of its reads and writes."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Any

from usagebill.storage.conditions import Condition, Related
from usagebill.storage.postgresql.changes import Touched
from usagebill.storage.postgresql.jobs import Claims
from usagebill.storage.postgresql.observing import Answer, Statement
from usagebill.storage.postgresql.siblings import Siblings
from usagebill.storage.sql.usage_totals import KnownSeries, MissingSeries

# Lists whose total is remembered.
_MOST_TOTALS = 1_000


class Totals:
    """How many records of a list matched when it was last read, by this process: whether they are few or many decides
    how a page is read, which is then asked for together with its total.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: OrderedDict[Hashable, int] = OrderedDict()

    def of(self, listed: Hashable) -> int | None:
        """The last total; None if it is not remembered."""
        with self._lock:
            return self._totals.get(listed)

    def note(self, listed: Hashable, total: int) -> None:
        """Remember a total."""
        with self._lock:
            self._totals[listed] = total
            self._totals.move_to_end(listed)
            while len(self._totals) > _MOST_TOTALS:
                self._totals.popitem(last=False)


Question = tuple[type, str, tuple[Any, ...]]


class Memory:
    """Cached reads of a transaction: records by id, and results of queries.

    A result is valid until a record of a kind that it depends on is written: `writes` counts these, and each result is
    stored with the count.
    """

    def __init__(
        self,
        missing_series: MissingSeries | None = None,
        totals: Totals | None = None,
        *,
        has_text_indexes: bool = False,
    ) -> None:
        self.has_text_indexes = has_text_indexes
        self.totals = Totals() if totals is None else totals
        self.states = KnownSeries(missing_series)
        self.records: dict[tuple[type, str], Any] = {}
        self.answers: dict[Question, tuple[int, list[Any]]] = {}
        self.writes: Counter[type] = Counter()
        # Answers of a snapshot, shared by its observations, and answers that a writer has repeated.
        self.answered: dict[Statement, Answer] = {}
        self.shared: dict[Question, list[Any]] = {}
        self.decoded: dict[Question, list[Any]] | None = None
        self.repeated: dict[Statement, tuple[int, ...]] = {}
        # The organizations whose entitlements may have changed.
        self.entitling: set[str] = set()
        # The rows that this transaction has written, by organization; and those that other transactions have written
        # since a change number.
        self.touched: dict[str, Touched] = {}
        self.since: dict[tuple[str, int], Touched | None] = {}
        # The number of the last change to an organization that a snapshot shows.
        self.change: dict[str, int] = {}
        self.claims = Claims()
        # Senders of events since a sequence number, as far as queried; and an organization's last sequence number in a
        # snapshot.
        self.senders: dict[tuple[str, int], set[str | None]] = {}
        self.latest: dict[str, int] = {}
        self.siblings = Siblings()
        # In a snapshot: searches that most records match; and the few ids of records that meet a condition on them
        # (None: they are many).
        self.common: set[Condition] = set()
        self.ids: dict[Related, tuple[str, ...] | None] = {}
        # Records of logged tables, before and after.
        self.changes: dict[tuple[type, str], tuple[Any, Any]] = {}

    def clear(self) -> None:
        self.records.clear()
        self.answers.clear()
        self.repeated.clear()
