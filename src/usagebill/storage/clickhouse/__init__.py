"""ClickHouse for counting events, beside the database that accepts and keeps them.

The database rejects duplicates and makes events durable. `shipping` sends them on in the order in which they were
stored; `answers` counts them. `store` combines both with an engine.
"""

from usagebill.storage.clickhouse.comparing import (
    Difference,
    TooFarBehind,
    UsageDifference,
    differences,
    usage_differences,
)
from usagebill.storage.clickhouse.servers import EventServers, UnusableEventStore, temporary_database
from usagebill.storage.clickhouse.store import StoreWithEvents

__all__ = [
    "Difference",
    "EventServers",
    "StoreWithEvents",
    "TooFarBehind",
    "UnusableEventStore",
    "UsageDifference",
    "differences",
    "temporary_database",
    "usage_differences",
]
