"""Texts: how searches ask the index in which pieces of text are looked for (`text_index`), and `items` of metadata."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from usagebill.storage.tables import table_of

__all__ = [
    "SHORTEST",
    "broad_search",
    "count_found",
    "folded",
    "found_sql",
    "holds_items_sql",
    "holds_text_sql",
    "items_sql",
    "same_text_sql",
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
    ids = found_sql(kind, columns, text, table, values)
    return None if ids is None else f"{table}.id IN ({ids})"


def found_sql(kind: type, columns: Sequence[str], text: str, table: str, values: list[Any]) -> str | None:
    """The ids of the records of the organization of `table` that contain `text`; None without an index."""
    term = text.casefold()
    if not _is_indexed(kind, columns, text):
        return None
    name = table_of(kind).name
    of_organization = f"x.organization_id = {table}.organization_id"
    if len(term) < SHORTEST:
        return f'SELECT x.id FROM "{name}_texts" x WHERE {of_organization} AND ({_contained(columns, term, values)})'
    values.append(_phrase(columns, term))
    return (
        f'SELECT x.id FROM "{name}_search" s CROSS JOIN "{name}_texts" x ON x.sequence = s.rowid'
        f' WHERE "{name}_search" MATCH ? AND {of_organization}'
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


def count_found(
    connection: sqlite3.Connection, kind: type, columns: Sequence[str], text: str, organization_id: str
) -> int | None:
    """How many records of lists contain the text; None without an index."""
    if not _is_indexed(kind, columns, text):
        return None
    name, term = table_of(kind).name, text.casefold()
    values: list[Any] = []
    if len(term) < SHORTEST:
        source, tests = f'"{name}_texts" x', f"({_contained(columns, term, values)})"
    elif _is_alone(connection, organization_id):
        hidden = f'SELECT x.sequence FROM "{name}_texts" x INDEXED BY "{name}_texts_hidden" WHERE x.shown = 0'
        shown = connection.execute(
            f'SELECT COUNT(*) FROM "{name}_search" s WHERE "{name}_search" MATCH ? AND s.rowid NOT IN ({hidden})',
            (_phrase(columns, term),),
        ).fetchone()
        return int(shown[0])
    else:
        source = f'"{name}_search" s CROSS JOIN "{name}_texts" x ON x.sequence = s.rowid'
        tests = f'"{name}_search" MATCH ?'
        values.append(_phrase(columns, term))
    row = connection.execute(
        f"SELECT COUNT(*) FROM {source} WHERE {tests} AND x.organization_id = ? AND x.shown = 1",
        (*values, organization_id),
    ).fetchone()
    return int(row[0])


def _is_alone(connection: sqlite3.Connection, organization_id: str) -> bool:
    """Whether the organization has the file to itself, so that nobody else's texts are to be left out."""
    return connection.execute("SELECT id FROM organizations LIMIT 2").fetchall() == [(organization_id,)]


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
    """The same, looked up in one record."""
    indexed = _item_tests(kind, column, members, values)
    if indexed is None:
        return None
    _, tests = indexed
    tests = tests.replace("x.key", "json_extract(x.value, '$.key')").replace(
        "x.value =", "json_extract(x.value, '$.value') ="
    )
    return f"""EXISTS (SELECT 1 FROM json_each(coalesce({table}."{column}", '[]')) x WHERE {tests})"""
