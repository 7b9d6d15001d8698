"""A transaction's cache of its reads and writes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from usagebill.storage.postgresql.changes import Touched
from usagebill.storage.postgresql.jobs import Claims
from usagebill.storage.postgresql.observing import Answer, Statement
from usagebill.storage.postgresql.siblings import Siblings
from usagebill.storage.sql.usage_totals import KnownSeries, MissingSeries

Question = tuple[type, str, tuple[Any, ...]]


class Memory:
    """Cached reads of a transaction: records by id, and results of queries.

    A result is valid until a record of a kind that it depends on is written: `writes` counts these, and each result is
    stored with the count.
    """

    def __init__(
        self,
        missing_series: MissingSeries | None = None,
    ) -> None:
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
        # Records of logged tables, before and after.
        self.changes: dict[tuple[type, str], tuple[Any, Any]] = {}

    def clear(self) -> None:
        self.records.clear()
        self.answers.clear()
        self.repeated.clear()
