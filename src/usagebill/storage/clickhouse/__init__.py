"""ClickHouse for counting events, beside the database that accepts and keeps them.

The database rejects duplicates and makes events durable. `shipping` sends them on in the order in which they were
stored; `answers` counts them. `store` combines both with an engine.
"""

from usagebill.storage.clickhouse.comparing import (
    Difference as Difference,
    TooFarBehind as TooFarBehind,
    UsageDifference as UsageDifference,
    differences as differences,
    usage_differences as usage_differences,
)
from usagebill.storage.clickhouse.servers import (
    EventServers as EventServers,
    UnusableEventStore as UnusableEventStore,
    temporary_database as temporary_database,
)
from usagebill.storage.clickhouse.store import StoreWithEvents as StoreWithEvents
