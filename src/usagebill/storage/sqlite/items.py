"""Items: the metadata of records in list order, and counts of records by key and value.

For a kind with metadata filters, `<table>_metadata` has a row for each item of each listed record, sorted by key, value
and list order, so that a page is one read, with the record's place in the text index. `<table>_metadata_counts` has the
number of records for each key and value, and for each key. Both are written with the records (`kept`). If the kind has
a key, such as the wallet of transactions, both are kept for each of its values, and no number for a key of metadata.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from usagebill.storage.conditions import Condition, Item
from usagebill.storage.record_sql import bounded, quoted
from usagebill.storage.sqlite.counts import shown_columns, shown_sql
from usagebill.storage.tables import Table, table_of

# Stands for all values of a key: no text equals it.
_ANY = "x''"


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """A query for listed records with a metadata key, and a value unless None."""

    table: Table
    column: str
    key: str
    value: str | None
    # The record whose items they are, if the kind has a key.
    parent_id: str | None = None

    def count(self, connection: sqlite3.Connection, organization_id: str) -> int:
        """The number of records."""
        test, values = (_ANY, ()) if self.value is None else ("?", (self.value,))
        row = connection.execute(
            f'SELECT n FROM "{self.table.name}_{self.column}_counts"'
            f" WHERE {self._scope_sql()}key = ? AND value = {test}",
            (*self._scope(organization_id), self.key, *values),
        ).fetchone()
        return 0 if row is None else int(row[0])

    def places_sql(self, organization_id: str) -> tuple[str, list[Any]]:
        """A query of their sequence numbers in the text index, with its values."""
        test, values = ("", ()) if self.value is None else (" AND x.value = ?", (self.value,))
        return (
            f'SELECT x.place AS sequence FROM "{self.table.name}_{self.column}" x'
            f" WHERE {self._scope_sql('x.')}x.key = ?{test}",
            [*self._scope(organization_id), self.key, *values],
        )

    def ids(
        self,
        connection: sqlite3.Connection,
        organization_id: str,
        limit: int,
        offset: int,
        where: str = "",
        values: Sequence[Any] = (),
    ) -> list[str]:
        """The ids of one page of the records, in list order; the query has a value.

        `where` are further tests of the records, as `t`, with their `values`.
        """
        name = f"{self.table.name}_{self.column}"
        source = f'"{name}" x'
        if where:
            source += f" CROSS JOIN {quoted(self.table.name)} t ON t.id = x.id"
        order = ", ".join([*(f"x.{term}" for term in _order(self.table)), "x.id"])
        rows = connection.execute(
            f"SELECT x.id FROM {source} WHERE {self._scope_sql('x.')}x.key = ? AND x.value = ?{where}"
            f" ORDER BY {order} LIMIT ? OFFSET ?",
            (*self._scope(organization_id), self.key, self.value, *values, bounded(limit), bounded(offset)),
        )
        return [row[0] for row in rows]

    def _scope_sql(self, row: str = "") -> str:
        return "".join(f"{row}{column} = ? AND " for column in ("organization_id", *_parents(self.table)))

    def _scope(self, organization_id: str) -> list[str | None]:
        return [organization_id, *(self.parent_id for _ in _parents(self.table))]


def item_query(kind: type, condition: Condition, parent_id: str | None = None) -> ItemQuery | None:
    """The query for the item in the condition, among the records of a parent if the kind has a key; None without an
    index for it.
    """
    table = table_of(kind)
    if table.listing is None or bool(table.listing.keys) is (parent_id is None):
        return None
    if not isinstance(condition, Item) or condition.column not in table.listing.items:
        return None
    if isinstance(condition.members, str):
        return None
    members = dict(condition.members)
    key, value = members.get("key"), members.get("value")
    if members.keys() - {"key", "value"} or not isinstance(key, str):
        return None
    if "value" in members and not isinstance(value, str):
        return None
    return ItemQuery(table, condition.column, key, value if isinstance(value, str) else None, parent_id)


def item_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """Type, name and statement of all schema objects for the items of a table, in order of creation."""
    for column in () if table.listing is None else table.listing.items:
        name = f"{table.name}_{column}"
        declared = "".join(f", {item} TEXT NOT NULL" for item in _columns(table))
        order = "".join(f", {term}" for term in _order(table))
        parents = "".join(f", {parent}" for parent in _parents(table))
        scoped = "".join(f", {parent} TEXT NOT NULL" for parent in _parents(table))
        place = ", place INTEGER NOT NULL" if _place(table) else ""
        yield (
            "table",
            name,
            (
                f'CREATE TABLE "{name}" (organization_id TEXT NOT NULL{scoped}, key TEXT NOT NULL, value TEXT NOT NULL'
                f"{declared}, id TEXT NOT NULL{place}, PRIMARY KEY (organization_id{parents}, key, value{order}, id))"
                " WITHOUT ROWID"
            ),
        )
        counts = f"{name}_counts"
        yield (
            "table",
            counts,
            (
                f'CREATE TABLE "{counts}" (organization_id TEXT NOT NULL{scoped}, key TEXT NOT NULL, value NOT NULL,'
                f" n INTEGER NOT NULL, PRIMARY KEY (organization_id{parents}, key, value)) WITHOUT ROWID"
            ),
        )
        new_parents = "".join(f", new.{parent}" for parent in _parents(table))
        of_key = "" if new_parents else f", (new.organization_id, new.key, {_ANY}, 1)"
        add = (
            f'INSERT INTO "{counts}" VALUES (new.organization_id{new_parents}, new.key, new.value, 1){of_key}'
            " ON CONFLICT DO UPDATE SET n = n + 1;"
        )
        of_parent = "".join(f" AND {parent} = old.{parent}" for parent in _parents(table))
        of_old = f"organization_id = old.organization_id{of_parent} AND key = old.key AND value IN (old.value, {_ANY})"
        remove = f'UPDATE "{counts}" SET n = n - 1 WHERE {of_old}; DELETE FROM "{counts}" WHERE {of_old} AND n = 0;'
        for event, actions in (("insert", add), ("delete", remove)):
            trigger = f"{name}_{event}"
            yield (
                "trigger",
                trigger,
                f'CREATE TRIGGER "{trigger}" AFTER {event.upper()} ON "{name}" BEGIN {actions} END',
            )


def item_columns(table: Table) -> list[str]:
    """The columns that items depend on."""
    if table.listing is None or not table.listing.items:
        return []
    return [
        *table.listing.items,
        *table.listing.keys,
        *(item.column for item in table.listing.order),
        *shown_columns(table),
    ]


def remove_items_sql(table: Table) -> Iterator[str]:
    """Statements that remove the items of the record with an id."""
    for column in () if table.listing is None else table.listing.items:
        names = ", ".join(("organization_id", *_parents(table), "key", "value", *_columns(table), "id"))
        yield (
            f'DELETE FROM "{table.name}_{column}" WHERE ({names}) IN'
            f' (SELECT {_values(table)} FROM "{table.name}" t, {_elements(column)} WHERE t.id = ?)'
        )


def add_items_sql(table: Table, tests: str = "t.id IN (SELECT value FROM json_each(?))") -> Iterator[str]:
    """Statements that add the items of the records in a JSON list of ids that meet `tests`."""
    for column in () if table.listing is None else table.listing.items:
        yield (
            f'INSERT INTO "{table.name}_{column}" SELECT {_values(table)}{_place(table)} FROM "{table.name}" t,'
            f" {_elements(column)} WHERE {tests} AND {_kept_sql(table, column)} ON CONFLICT DO NOTHING"
        )


def recount_items_sql(table: Table, column: str) -> tuple[str, str]:
    """The columns that items are counted by, and a query of the items that the records of the organization bound have,
    each with these columns and its record's `id`.
    """
    by = ", ".join((*_parents(table), "key", "value"))
    names = ", ".join(("organization_id", *_parents(table), "key", "value", *_columns(table), "id"))
    return by, (
        f'WITH item_rows ({names}) AS (SELECT DISTINCT {_values(table)} FROM "{table.name}" t, {_elements(column)}'
        f" WHERE t.organization_id = ? AND {_kept_sql(table, column)}) SELECT {by}, id FROM item_rows"
    )


def _kept_sql(table: Table, column: str) -> str:
    """Whether an item of a record is kept. A key that occurs twice counts once, unless filters name values only."""
    if _parents(table):
        return shown_sql(table, "t")
    return (
        f"{shown_sql(table, 't')} AND NOT EXISTS (SELECT 1 FROM {_elements(column, 'earlier')}"
        " WHERE earlier.key < item.key"
        " AND json_extract(earlier.value, '$.key') = json_extract(item.value, '$.key'))"
    )


def _parents(table: Table) -> list[str]:
    """The columns with the record that items belong to: none, or the kind's key."""
    assert table.listing is not None
    return [quoted(column) for column in table.listing.keys]


def _columns(table: Table) -> list[str]:
    assert table.listing is not None
    return [quoted(item.column) for item in table.listing.order if item.column != "id"]


def _order(table: Table) -> list[str]:
    assert table.listing is not None
    order = [item for item in table.listing.order if item.column != "id"]
    # Absent values are stored as the smallest text, which is last only in descending order.
    assert all(item.descending for item in order)
    return [f"{quoted(item.column)} DESC" for item in order]


def _values(table: Table) -> str:
    order = "".join(f", coalesce(t.{column}, '')" for column in _columns(table))
    key, value = "json_extract(item.value, '$.key')", "json_extract(item.value, '$.value')"
    parents = "".join(f", t.{parent}" for parent in _parents(table))
    return f"t.organization_id{parents}, {key}, {value}{order}, t.id"


def _place(table: Table) -> str:
    assert table.listing is not None
    return f', (SELECT x.sequence FROM "{table.name}_texts" x WHERE x.id = t.id)' if table.listing.searched else ""


def _elements(column: str, name: str = "item") -> str:
    return f"""json_each(coalesce(t."{column}", '[]')) {name}"""
