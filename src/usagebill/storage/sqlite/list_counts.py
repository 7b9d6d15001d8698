"""The audit of kept counts: those of lists compared with a recount, and made again.

A fault can only come from a write around usagebill, a damaged file or an error of ours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

from usagebill.storage.listings import CountFault, facets_name
from usagebill.storage.sqlite.counts import move_counts_sql, recount_sql
from usagebill.storage.sqlite.events.lists import event_count_faults, recount_events
from usagebill.storage.sqlite.items import add_items_sql, recount_items_sql
from usagebill.storage.sqlite.text_faults import text_faults
from usagebill.storage.tables import TABLES, Table

# Stands for absent values.
_ABSENT = b""


class SqliteListCounts:
    """See `storage.ports.KeptListCounts`. `flush` adds the transaction's records to the counts."""

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
                yield from text_faults(self._connection, table, self._organization_id)
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
        of_organization = (self._organization_id,)
        self._connection.execute(f'DELETE FROM "{table.name}_counts" WHERE organization_id = ?', of_organization)
        for statement in move_counts_sql(table, "t.organization_id = ?", ""):
            self._connection.execute(statement, of_organization)
        for column in () if table.listing is None else table.listing.items:
            # The counts last: deleting items changes them.
            for suffix in ("", "_counts"):
                name = f"{table.name}_{column}{suffix}"
                self._connection.execute(f'DELETE FROM "{name}" WHERE organization_id = ?', of_organization)
        for statement in add_items_sql(table, "t.organization_id = ?"):
            self._connection.execute(statement, of_organization)
        if table.listing is not None and table.listing.searched:
            # A worker counts common texts again from the start; searches look at records until then.
            self._connection.execute(f'DELETE FROM "{table.name}_common_upto"')

    def _faults_of(self, table: Table) -> Iterator[CountFault]:
        assert table.listing is not None
        facets = [f"f{place}" for place in range(len(table.listing.facets))]
        keys = ", ".join(("ranged", "slot", *facets))
        queries = list(recount_sql(table))
        rows = self._connection.execute(
            f"WITH recounted (organization_id, {keys}, n) AS ({' UNION ALL '.join(queries)})"
            f" {_differing_sql(f'{table.name}_counts', keys)}",
            [self._organization_id] * (len(queries) + 1),
        )
        for ranged, slot, *values, kept, counted in rows:
            yield CountFault(table.name, _count_name(table, ranged, slot, values), kept, counted)
        for column in table.listing.items:
            yield from self._item_faults(table, table.listing.keys, column)

    def _item_faults(self, table: Table, parents: tuple[str, ...], column: str) -> Iterator[CountFault]:
        """The counts of items that differ from those of the records, then the items kept that are too many or few."""
        name = f"{table.name}_{column}"
        by, query = recount_items_sql(table, column)
        of_any_value = "" if parents else " UNION ALL SELECT key, x'', COUNT(*) FROM item_rows GROUP BY key"
        for kept, number, total in ((f"{name}_counts", "n", of_any_value), (name, "1", "")):
            rows = self._connection.execute(
                f"WITH item_rows AS ({query}),"
                f" recounted ({by}, n) AS (SELECT {by}, COUNT(*) FROM item_rows GROUP BY {by}{total})"
                f" {_differing_sql(kept, by, number)}",
                (self._organization_id, self._organization_id),
            )
            for *ids, key, value, number_kept, counted in rows:
                of_parents = "".join(f", {parent}={id}" for parent, id in zip(parents, ids, strict=True))
                shown = "any value" if value == _ABSENT else value
                count = f"{column} {key}={shown}{of_parents}"
                yield CountFault(table.name, count if number == "n" else f"{count}, in order", number_kept, counted)


def _differing_sql(kept: str, keys: str, number: str = "n") -> str:
    """A query of the keys whose kept number is not that of `recounted`, with both numbers."""
    return (
        f"SELECT {keys}, SUM(kept), SUM(counted) FROM"
        f' (SELECT {keys}, {number} AS kept, 0 AS counted FROM "{kept}" WHERE organization_id = ?'
        f" UNION ALL SELECT {keys}, 0, n FROM recounted) GROUP BY {keys} HAVING SUM(kept) <> SUM(counted)"
    )


def _count_name(table: Table, ranged: str, slot: object, values: Sequence[object]) -> str:
    """The count in words: the part of the range, or the key, and the values of the facets."""
    assert table.listing is not None
    parts = [f"{ranged.partition('/')[0]}={slot}"] if ranged else []
    parts += [facets_name(table.listing.facets, values)] if values else []
    return ", ".join(parts) or "all"
