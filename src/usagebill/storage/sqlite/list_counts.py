"""The audit of counts, documents and values of lists (`listed`)."""

from __future__ import annotations

from collections.abc import Iterator

from usagebill.storage.listings import CountFault
from usagebill.storage.sql.list_counts import OWN, CounterAudit
from usagebill.storage.sqlite.listed import DIALECT, add_documents_sql, add_values_sql, documents_sql, values_sql
from usagebill.storage.tables import Table


class SqliteListCounts(CounterAudit):
    """See `storage.ports.KeptListCounts`."""

    dialect = DIALECT

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
