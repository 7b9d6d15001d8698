"""Planner statistics: the server's estimates of the rows of an organization.

The server plans by samples (ANALYZE). It assumes a single row for an organization added since the last one, so it takes
any index, and a bill reads all events of the organization.
"""

from __future__ import annotations

from time import monotonic

from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.schema import GROWING

__all__ = ["Statistics"]

# With fewer events, any plan is fast enough.
_MANY_EVENTS = 1_000
# If statistics still lack an organization after ANALYZE, it is analyzed again when it has grown by this factor.
_GROWN = 10
_LEAST_SECONDS = 5.0

# Organizations with many events that the server's statistics do not list as frequent.
_UNKNOWN = """
SELECT o.id, s.value FROM organizations o JOIN sequences s ON s.organization_id = o.id AND s.name = 'events'
WHERE s.value >= ? AND NOT EXISTS (
    SELECT 1 FROM pg_stats p WHERE p.schemaname = current_schema() AND p.tablename = 'events'
    AND p.attname = 'organization_id' AND o.id = ANY (p.most_common_vals::text::text[]))
"""


class Statistics:
    """Runs ANALYZE when an organization has many events that the server's statistics miss."""

    def __init__(self) -> None:
        # The number of events of an organization at the last ANALYZE for it.
        self._events: dict[str, int] = {}
        self._asked_at: float | None = None

    @property
    def is_time(self) -> bool:
        """Whether it is time to check again."""
        return self._asked_at is None or monotonic() - self._asked_at >= _LEAST_SECONDS

    def are_behind(self, connection: Connection) -> bool:
        """Whether there is such an organization."""
        self._asked_at = monotonic()
        unknown = {
            id: events
            for id, events in connection.execute(_UNKNOWN, (_MANY_EVENTS,)).fetchall()
            if events >= self._events.get(id, 0) * _GROWN
        }
        self._events |= unknown
        return bool(unknown)

    @staticmethod
    def renew(connection: Connection) -> None:
        """Analyze the tables that grow. The server skips tables of other users."""
        connection.execute(f"ANALYZE {', '.join(GROWING)}")
