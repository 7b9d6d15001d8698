"""A transaction's cache of its reads and writes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from usagebill.storage.postgresql.siblings import Siblings
from usagebill.storage.preloaded import Preloaded
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
        # By organization.
        self.preloaded: dict[str | None, Preloaded] = {}
        # The versions to raise, by organization and sequence.
        self.raised: set[tuple[str, str]] = set()
        # The organizations whose entitlements may have changed.
        self.entitling: set[str] = set()
        self.siblings = Siblings()
        # Records of logged tables, before and after.
        self.changes: dict[tuple[type, str], tuple[Any, Any]] = {}

    def clear(self) -> None:
        self.records.clear()
        self.answers.clear()
        for preloaded in self.preloaded.values():
            preloaded.clear()
