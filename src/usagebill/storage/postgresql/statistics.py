"""Planner statistics: the server's estimates of the rows of a table and of an organization.

The server plans by samples (ANALYZE). It assumes a single row for an organization added since the last one, so it takes
any index, and a bill reads all events of the organization. It takes a table that has doubled since for as small as it
was: the first billing run of a database would read all its invoices again for each group of customers.
"""

from __future__ import annotations

from time import monotonic

from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.schema import GROWING

# With fewer events, any plan is fast enough; so it is with fewer changes of a table.
_MANY_EVENTS = 1_000
_MANY_CHANGES = 1_000
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

# Tables with more rows changed since the last ANALYZE than there were then.
_OUTGROWN = """
SELECT relname::text FROM pg_stat_user_tables
WHERE schemaname = current_schema() AND relname = ANY (?::text[]) AND n_mod_since_analyze >= ?
AND n_mod_since_analyze * 2 > n_live_tup
"""


class Statistics:
    """Runs ANALYZE when the server's statistics miss an organization with many events, or most rows of a table."""

    def __init__(self) -> None:
        # The number of events of an organization at the last ANALYZE for it.
        self._events: dict[str, int] = {}
        self._asked_at: float | None = None

    @property
    def is_time(self) -> bool:
        """Whether it is time to check again."""
        return self._asked_at is None or monotonic() - self._asked_at >= _LEAST_SECONDS

    def stale_tables(self, connection: Connection) -> list[str]:
        """The tables whose statistics are to be renewed."""
        self._asked_at = monotonic()
        unknown = {
            id: events
            for id, events in connection.execute(_UNKNOWN, (_MANY_EVENTS,)).fetchall()
            if events >= self._events.get(id, 0) * _GROWN
        }
        self._events |= unknown
        if unknown:
            return list(GROWING)
        return [name for (name,) in connection.execute(_OUTGROWN, (list(GROWING), _MANY_CHANGES)).fetchall()]

    @staticmethod
    def renew(connection: Connection, tables: list[str]) -> None:
        """Analyze these tables. The server skips tables of other users."""
        connection.execute(f"ANALYZE {', '.join(tables)}")
