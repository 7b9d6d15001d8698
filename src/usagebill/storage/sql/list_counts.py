"""The audit of what makes lists fast: compared with the records, and made again.

A fault can only come from a write around usagebill, damaged storage or an error of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from usagebill.storage.listings import CountFault
from usagebill.storage.record_sql import quoted
from usagebill.storage.sql.listed import ListsDialect, add_counts_sql, count_sql, facet_column
from usagebill.storage.sql.lists import Ask
from usagebill.storage.sql.statements import Runner
from usagebill.storage.tables import TABLES, Table

OWN = "t.organization_id = ?"


class CounterAudit:
    """See `storage.ports.KeptListCounts`. `ask` runs a query, once all changes are counted."""

    dialect: ClassVar[ListsDialect]

    def __init__(self, connection: Runner, ask: Ask, organization_id: str | None) -> None:
        self._connection = connection
        self._ask = ask
        self._organization_id = organization_id

    def faults(self) -> Iterator[CountFault]:
        if self._organization_id is not None:
            for table in TABLES:
                if table.listing is not None:
                    yield from self._faults_of(table)

    def recount(self) -> list[str]:
        differing = list(dict.fromkeys(fault.listed for fault in self.faults()))
        for table in TABLES:
            if table.name in differing:
                self._recount(table)
        return differing

    def _recount(self, table: Table) -> None:
        self._remake(f"{table.name}_counts", [add_counts_sql(self.dialect, table, count_sql(self.dialect, table, OWN))])

    def _remake(self, stored: str, statements: Sequence[str]) -> None:
        for statement in (f"DELETE FROM {quoted(stored)} WHERE organization_id = ?", *statements):
            self._connection.execute(statement, (self._organization_id,))

    def _faults_of(self, table: Table) -> Iterator[CountFault]:
        assert table.listing is not None
        facets = [facet_column(facet) for facet in table.listing.facets]
        query = count_sql(self.dialect, table, OWN)
        for values, kept, counted in self._differing(f"{table.name}_counts", facets, [query], "n"):
            shown = (f"{name}={'none' if value is None else value}" for name, value in zip(facets, values, strict=True))
            yield CountFault(table.name, ", ".join(shown) or "all", kept, counted)

    def _differing(
        self, stored: str, columns: Sequence[str], queries: Sequence[str], number: str = "1"
    ) -> Iterator[tuple[list[object], int, int]]:
        """The values of `columns` whose stored number is not that of the queries, with both numbers."""
        if not queries:
            return
        names = ", ".join(map(quoted, ("organization_id", *columns)))
        rows = self._ask(
            f"WITH recounted ({names}, n) AS ({' UNION ALL '.join(queries)})"
            f" SELECT {names}, SUM(kept), SUM(counted) FROM"
            f" (SELECT {names}, {number} AS kept, 0 AS counted FROM {quoted(stored)} WHERE organization_id = ?"
            f" UNION ALL SELECT {names}, 0, n FROM recounted) q GROUP BY {names} HAVING SUM(kept) <> SUM(counted)",
            [self._organization_id] * (len(queries) + 1),
        )
        for _, *values, kept, counted in rows:
            yield values, int(kept), int(counted)
