"""What the server knows of its tables: how many rows an organization has.

It plans by samples that it takes now and then (ANALYZE). An organization that came after the last one counts as one
with a single row, and whatever index comes first is taken to find that: a bill of many events reads all of them.
"""

from __future__ import annotations

from time import monotonic

from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.schema import GROWING

__all__ = ["Statistics"]

# An organization with fewer events than this is billed soon enough, whatever the server thinks.
_MANY_EVENTS = 1_000
# One that is looked at, and is not among those that the server notes, is looked at again when it has grown so much.
_GROWN = 10
_LEAST_SECONDS = 5.0

# Organizations with many events that are not among those that the server knows to have many.
_UNKNOWN = """
SELECT o.id, s.value FROM organizations o JOIN sequences s ON s.organization_id = o.id AND s.name = 'events'
WHERE s.value >= ? AND NOT EXISTS (
    SELECT 1 FROM pg_stats p WHERE p.schemaname = current_schema() AND p.tablename = 'events'
    AND p.attname = 'organization_id' AND o.id = ANY (p.most_common_vals::text::text[]))
"""


class Statistics:
    """Has the server look at its tables when an organization has come to many events that it does not know of."""

    def __init__(self) -> None:
        # How many events an organization had when the tables were looked at for it.
        self._events: dict[str, int] = {}
        self._asked_at: float | None = None

    @property
    def is_time(self) -> bool:
        """Whether it is worth asking again."""
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
        """Have the server look at the tables that grow. It skips what belongs to another user."""
        connection.execute(f"ANALYZE {', '.join(GROWING)}")
