"""Texts: the index in which searches look for pieces of text, and that of what metadata holds.

For a kind that is searched, `<table>_texts` holds the searched columns with their case folded (`folded`), and those of
which a whole text is asked for; `<table>_search` has the places of every three letters of the searched ones. For one
that is looked up by its metadata, `<table>_metadata` has a row for each item. All are written with the records
(`kept`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from usagebill.storage.tables import Table, table_of

__all__ = [
    "SHORTEST",
    "add_texts_sql",
    "broad_search",
    "fill_texts",
    "folded",
    "holds_items_sql",
    "holds_text_sql",
    "items_sql",
    "remove_items_sql",
    "remove_texts_sql",
    "same_text_sql",
    "text_columns",
    "text_definitions",
    "text_sql",
]

# Shorter texts are looked for in one row after another.
SHORTEST = 3
# The tokenizer stops at a NUL, which therefore stands as this in the index.
_REPLACED = "\N{REPLACEMENT CHARACTER}"


def folded(text: str | None) -> str:
    """What is searched of a text, whatever its case."""
    return "" if text is None else str(text).casefold().replace("\0", _REPLACED)


def _is_indexed(kind: type, columns: Sequence[str], text: str) -> bool:
    listing = table_of(kind).listing
    return (
        listing is not None
        and bool(listing.searched)
        and set(columns) <= set(listing.searched)
        and "\0" not in text
        and _REPLACED not in text
    )


def _phrase(columns: Sequence[str], text: str) -> str:
    quoted = text.replace('"', '""')
    return f'{{{" ".join(columns)}}} : "{quoted}"'


def text_sql(kind: type, columns: Sequence[str], text: str, table: str, values: list[Any]) -> str | None:
    """That a column of the record contains `text`, as one of the ids that the index gives; None without an index."""
    term = text.casefold()
    if not _is_indexed(kind, columns, text):
        return None
    name = table_of(kind).name
    if len(term) < SHORTEST:
        return f'{table}.id IN (SELECT x.id FROM "{name}_texts" x WHERE {_contained(columns, term, values)})'
    values.append(_phrase(columns, term))
    return (
        f'{table}.id IN (SELECT x.id FROM "{name}_search" s CROSS JOIN "{name}_texts" x ON x.sequence = s.rowid'
        f' WHERE "{name}_search" MATCH ?)'
    )


def holds_text_sql(kind: type, columns: Sequence[str], text: str, table: str, values: list[Any]) -> str | None:
    """The same, looked up for one record."""
    if not _is_indexed(kind, columns, text):
        return None
    tests = _contained(columns, text.casefold(), values)
    return f'EXISTS (SELECT 1 FROM "{table_of(kind).name}_texts" x WHERE x.id = {table}.id AND ({tests}))'


def same_text_sql(kind: type, column: str, text: str, table: str, values: list[Any], gathered: bool) -> str | None:
    """That the column is `text` in any case; None without an index."""
    listing = table_of(kind).listing
    if listing is None or column not in listing.folded or not text or "\0" in text or _REPLACED in text:
        return None
    values.append(text.casefold())
    tests = f'x."{column}" = ? AND x."{column}" != \'\''
    if gathered:
        return f'{table}.id IN (SELECT x.id FROM "{table_of(kind).name}_texts" x WHERE {tests})'
    return f'EXISTS (SELECT 1 FROM "{table_of(kind).name}_texts" x WHERE x.id = {table}.id AND {tests})'


def _contained(columns: Sequence[str], term: str, values: list[Any]) -> str:
    values.extend([term] * len(columns))
    return " OR ".join(f'instr(x."{column}", ?) > 0' for column in columns)


def broad_search(connection: sqlite3.Connection, kind: type, columns: Sequence[str], text: str, limit: int) -> bool:
    """Whether `text` is in more than `limit` records of the file."""
    term = text.casefold()
    if not _is_indexed(kind, columns, text):
        return False
    if len(term) < SHORTEST:
        return True
    name = table_of(kind).name
    counted = connection.execute(
        f'SELECT COUNT(*) FROM (SELECT 1 FROM "{name}_search" WHERE "{name}_search" MATCH ? LIMIT ?)',
        (_phrase(columns, term), limit + 1),
    )
    return bool(counted.fetchone()[0] > limit)


def _item_tests(
    kind: type, column: str, members: tuple[tuple[str, object], ...] | str, values: list[Any]
) -> tuple[str, str] | None:
    listing = table_of(kind).listing
    if listing is None or column not in listing.items or isinstance(members, str):
        return None
    asked = dict(members)
    if not asked.keys() <= {"key", "value"} or "key" not in asked:
        return None
    values.append(asked["key"])
    tests = "x.key = ?"
    if "value" in asked:
        values.append(asked["value"])
        tests += " AND x.value = ?"
    return f"{table_of(kind).name}_{column}", tests


def items_sql(
    kind: type, column: str, members: tuple[tuple[str, object], ...] | str, table: str, values: list[Any]
) -> str | None:
    """That a list of the record has the item, as one of the ids that an index gives; None without one."""
    indexed = _item_tests(kind, column, members, values)
    if indexed is None:
        return None
    name, tests = indexed
    return f'{table}.id IN (SELECT x.id FROM "{name}" x WHERE x.organization_id = {table}.organization_id AND {tests})'


def holds_items_sql(
    kind: type, column: str, members: tuple[tuple[str, object], ...] | str, table: str, values: list[Any]
) -> str | None:
    """The same, looked up for one record."""
    indexed = _item_tests(kind, column, members, values)
    if indexed is None:
        return None
    name, tests = indexed
    return (
        f'EXISTS (SELECT 1 FROM "{name}" x WHERE x.organization_id = {table}.organization_id AND {tests}'
        f" AND x.id = {table}.id)"
    )


def text_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """Type, name and statement of everything that the texts and items of a table need, in the order to make them."""
    listing = table.listing
    if listing is None:
        return
    if listing.searched:
        yield from _search_definitions(table)
    for column in listing.items:
        yield from _item_definitions(table, column)


def _search_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    assert table.listing is not None
    name, columns = table.name, table.listing.searched
    texts, search = f"{name}_texts", f"{name}_search"
    stored = _stored(table)
    declared = "".join(f', "{column}" TEXT NOT NULL' for column in stored)
    yield (
        "table",
        texts,
        f'CREATE TABLE "{texts}" (sequence INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE{declared})',
    )
    listed = ", ".join(f'"{column}"' for column in columns)
    yield (
        "table",
        search,
        f'CREATE VIRTUAL TABLE "{search}" USING fts5({listed}, content="{texts}", content_rowid="sequence",'
        ' tokenize="trigram case_sensitive 1")',
    )
    for column in table.listing.folded:
        index = f"{texts}_{column}"
        yield "index", index, f'CREATE INDEX "{index}" ON "{texts}" ("{column}") WHERE "{column}" != \'\''
    new = ", ".join(f'new."{column}"' for column in columns)
    old = ", ".join(f'old."{column}"' for column in columns)
    add = f'INSERT INTO "{search}" (rowid, {listed}) VALUES (new.sequence, {new});'
    remove = f'INSERT INTO "{search}" ("{search}", rowid, {listed}) VALUES (\'delete\', old.sequence, {old});'
    for event, actions in (("insert", add), ("delete", remove), ("update", f"{remove} {add}")):
        trigger = f"{texts}_{event}"
        yield "trigger", trigger, f'CREATE TRIGGER "{trigger}" AFTER {event.upper()} ON "{texts}" BEGIN {actions} END'


def _item_definitions(table: Table, column: str) -> Iterator[tuple[str, str, str]]:
    name = f"{table.name}_{column}"
    yield (
        "table",
        name,
        (
            f'CREATE TABLE "{name}" (organization_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,'
            " id TEXT NOT NULL, PRIMARY KEY (organization_id, key, value, id)) WITHOUT ROWID"
        ),
    )


def text_columns(table: Table) -> list[str]:
    """The columns whose change may change texts or items."""
    assert table.listing is not None
    return [*table.listing.searched, *table.listing.folded, *table.listing.items]


def remove_items_sql(table: Table) -> Iterator[str]:
    """Statements that take away the items of the record with one id."""
    assert table.listing is not None
    for column in table.listing.items:
        yield (
            f'DELETE FROM "{table.name}_{column}" WHERE (organization_id, key, value, id) IN'
            f' (SELECT {_items_of(column)} FROM "{table.name}" t, {_each(column)} WHERE t.id = ?)'
        )


def remove_texts_sql(table: Table) -> Iterator[str]:
    """Statements that take away the texts of the record with one id."""
    assert table.listing is not None
    if table.listing.searched:
        yield f'DELETE FROM "{table.name}_texts" WHERE id = ?'


def add_texts_sql(table: Table, tests: str = "t.id IN (SELECT value FROM json_each(?))") -> Iterator[str]:
    """Statements that add the texts and items of the records whose ids a JSON list has."""
    listing = table.listing
    assert listing is not None
    if listing.searched:
        stored = _stored(table)
        names = ", ".join(["id", *(f'"{column}"' for column in stored)])
        values = ", ".join(["t.id", *(f'folded(t."{column}")' for column in stored)])
        changed = ", ".join(f'"{column}" = excluded."{column}"' for column in stored)
        differs = " OR ".join(f'"{column}" IS NOT excluded."{column}"' for column in stored)
        yield (
            f'INSERT INTO "{table.name}_texts" ({names}) SELECT {values} FROM "{table.name}" t WHERE {tests}'
            f" ON CONFLICT (id) DO UPDATE SET {changed} WHERE {differs}"
        )
    for column in listing.items:
        yield (
            f'INSERT OR IGNORE INTO "{table.name}_{column}" SELECT {_items_of(column)}'
            f' FROM "{table.name}" t, {_each(column)} WHERE {tests}'
        )


def _stored(table: Table) -> list[str]:
    # The id is searched like any other column where it is listed, and stands for the record in any case.
    assert table.listing is not None
    return [column for column in (*table.listing.searched, *table.listing.folded) if column != "id"]


def _each(column: str) -> str:
    return f"""json_each(coalesce(t."{column}", '[]')) item"""


def _items_of(column: str) -> str:
    return "t.organization_id, json_extract(item.value, '$.key'), json_extract(item.value, '$.value'), t.id"


def fill_texts(connection: sqlite3.Connection, table: Table) -> None:
    """Index all records that the table holds, where its texts and items have just been made."""
    assert table.listing is not None
    trigger = f"{table.name}_texts_insert"
    made = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (trigger,)).fetchone()
    if made is not None:
        # All at once is quicker than row by row.
        connection.execute(f'DROP TRIGGER "{trigger}"')
    for statement in add_texts_sql(table, "1"):
        connection.execute(statement)
    if made is not None:
        search = f"{table.name}_search"
        connection.execute(f'INSERT INTO "{search}" ("{search}") VALUES (\'rebuild\')')
        connection.execute(made[0])
