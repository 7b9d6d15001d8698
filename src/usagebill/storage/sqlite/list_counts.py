"""The audit of what makes lists fast (`listed`): compared with the records, and made again.

A fault can only come from a write around usagebill, a damaged file or an error of ours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

from usagebill.storage.listings import CountFault
from usagebill.storage.record_sql import quoted
from usagebill.storage.sqlite.events.lists import event_count_faults, recount_events
from usagebill.storage.sqlite.listed import (
    add_documents_sql,
    add_values_sql,
    count_sql,
    documents_sql,
    facet_column,
    move_counts_sql,
    values_sql,
)
from usagebill.storage.tables import TABLES, Table

_OWN = "t.organization_id = ?"


class SqliteListCounts:
    """See `storage.ports.KeptListCounts`. `flush` writes what lists of the transaction's records need."""

    def __init__(self, connection: sqlite3.Connection, organization_id: str | None, flush: Callable[[], None]) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._flush = flush

    def faults(self, *, events: bool = True) -> Iterator[CountFault]:
        self._flush()
        if self._organization_id is None:
            return
        for table in TABLES:
            if table.listing is not None:
                yield from self._faults_of(table)
        if events:
            yield from event_count_faults(self._connection, self._organization_id)

    def recount(self) -> list[str]:
        differing = list(dict.fromkeys(fault.listed for fault in self.faults()))
        for table in TABLES:
            if table.name in differing:
                self._recount(table)
        if "events" in differing and self._organization_id is not None:
            recount_events(self._connection, self._organization_id)
        return differing

    def _recount(self, table: Table) -> None:
        assert table.listing is not None
        made = [("counts", [move_counts_sql(table, _OWN, "")])]
        if table.listing.searched:
            made.append(("documents", [add_documents_sql(table, _OWN)]))
        if table.listing.items or table.listing.folded:
            made.append(("values", list(add_values_sql(table, _OWN))))
        for name, statements in made:
            self._connection.execute(
                f'DELETE FROM "{table.name}_{name}" WHERE organization_id = ?', (self._organization_id,)
            )
            for statement in statements:
                self._connection.execute(statement, (self._organization_id,))

    def _faults_of(self, table: Table) -> Iterator[CountFault]:
        assert table.listing is not None
        facets = [facet_column(facet) for facet in table.listing.facets]
        for values, kept, counted in self._differing(f"{table.name}_counts", facets, [count_sql(table, _OWN)], "n"):
            shown = (f"{name}={'none' if value is None else value}" for name, value in zip(facets, values, strict=True))
            yield CountFault(table.name, ", ".join(shown) or "all", kept, counted)
        if table.listing.searched:
            query = f"SELECT organization_id, id, document, 1 FROM ({documents_sql(table, _OWN)})"
            for (id, _), kept, counted in self._differing(f"{table.name}_documents", ["id", "document"], [query]):
                yield CountFault(table.name, f"document of {id}", kept, counted)
        differing: dict[str, list[int]] = {}
        queries = [f"SELECT DISTINCT *, 1 FROM ({query})" for query in values_sql(table, _OWN)]
        columns = ["field", "key", "value", "id"]
        for (field, key, value, _), kept, counted in self._differing(f"{table.name}_values", columns, queries):
            sums = differing.setdefault(f"{field} {key}={value}" if key else f"{field}={value}", [0, 0])
            sums[0] += kept
            sums[1] += counted
        for name, (kept, counted) in differing.items():
            yield CountFault(table.name, name, kept, counted)

    def _differing(
        self, stored: str, columns: Sequence[str], queries: Sequence[str], number: str = "1"
    ) -> Iterator[tuple[list[object], int, int]]:
        """The values of `columns` whose stored number is not that of the queries, with both numbers."""
        if not queries:
            return
        names = ", ".join(map(quoted, ("organization_id", *columns)))
        rows = self._connection.execute(
            f"WITH recounted ({names}, n) AS ({' UNION ALL '.join(queries)})"
            f" SELECT {names}, SUM(kept), SUM(counted) FROM"
            f" (SELECT {names}, {number} AS kept, 0 AS counted FROM {quoted(stored)} WHERE organization_id = ?"
            f" UNION ALL SELECT {names}, 0, n FROM recounted) GROUP BY {names} HAVING SUM(kept) <> SUM(counted)",
            [self._organization_id] * (len(queries) + 1),
        )
        for _, *values, kept, counted in rows.fetchall():
            yield values, kept, counted
