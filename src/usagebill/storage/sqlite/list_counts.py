"""The audit of counts, documents and values of lists (`listed`), and of the counts of events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from usagebill.storage.listings import CountFault
from usagebill.storage.sql.list_counts import OWN, CounterAudit
from usagebill.storage.sql.lists import Ask
from usagebill.storage.sqlite.events.lists import event_count_faults, recount_events
from usagebill.storage.sqlite.listed import DIALECT, add_documents_sql, add_values_sql, documents_sql, values_sql
from usagebill.storage.tables import Table


class SqliteListCounts(CounterAudit):
    """See `storage.ports.KeptListCounts`."""

    dialect = DIALECT

    def __init__(self, connection: sqlite3.Connection, ask: Ask, organization_id: str | None) -> None:
        super().__init__(connection, ask, organization_id)
        self._file = connection

    def faults(self, *, events: bool = True) -> Iterator[CountFault]:
        yield from super().faults()
        if events and self._organization_id is not None:
            yield from event_count_faults(self._file, self._organization_id)

    def recount(self) -> list[str]:
        differing = super().recount()
        if "events" in differing and self._organization_id is not None:
            recount_events(self._file, self._organization_id)
        return differing

    def _recount(self, table: Table) -> None:
        super()._recount(table)
        assert table.listing is not None
        if table.listing.searched:
            self._remake(f"{table.name}_documents", [add_documents_sql(table, OWN)])
        if table.listing.items or table.listing.folded:
            self._remake(f"{table.name}_values", list(add_values_sql(table, OWN)))

    def _faults_of(self, table: Table) -> Iterator[CountFault]:
        yield from super()._faults_of(table)
        assert table.listing is not None
        if table.listing.searched:
            query = f"SELECT organization_id, id, document, 1 FROM ({documents_sql(table, OWN)})"
            for (id, _), kept, counted in self._differing(f"{table.name}_documents", ["id", "document"], [query]):
                yield CountFault(table.name, f"document of {id}", kept, counted)
        differing: dict[str, list[int]] = {}
        queries = [f"SELECT DISTINCT *, 1 FROM ({query})" for query in values_sql(table, OWN)]
        columns = ["field", "key", "value", "id"]
        for (field, key, value, _), kept, counted in self._differing(f"{table.name}_values", columns, queries):
            sums = differing.setdefault(f"{field} {key}={value}" if key else f"{field}={value}", [0, 0])
            sums[0] += kept
            sums[1] += counted
        for name, (kept, counted) in differing.items():
            yield CountFault(table.name, name, kept, counted)
