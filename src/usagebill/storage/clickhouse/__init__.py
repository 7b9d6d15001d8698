"""ClickHouse as a store of events beside the database, which stays where events are accepted.

The database decides which events there are, and what it has acknowledged is durable there. `shipping` sends its events
on in the order of storing; `answers` counts them. Both are put in front of an engine by `store`.
"""

from usagebill.storage.clickhouse.comparing import Difference, differences
from usagebill.storage.clickhouse.servers import EventServers, UnusableEventStore, temporary_database
from usagebill.storage.clickhouse.store import StoreWithEvents

__all__ = ["Difference", "EventServers", "StoreWithEvents", "UnusableEventStore", "differences", "temporary_database"]
