"""A transaction's cache of its reads and writes."""

from __future__ import annotations

from usagebill.storage.postgresql.siblings import Siblings
from usagebill.storage.sql import transaction
from usagebill.storage.sql.usage_totals import KnownSeries, MissingSeries


class Memory(transaction.Memory):
    """See `storage.sql.transaction.Memory`."""

    def __init__(self, missing_series: MissingSeries | None = None) -> None:
        super().__init__()
        self.states = KnownSeries(missing_series)
        self.siblings = Siblings()
