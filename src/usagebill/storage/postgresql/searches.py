"""Searches by an index of trigrams (the extension `pg_trgm`), if the server has it.

A table's searched texts are indexed together, case-folded, with a separator between them. A search first looks up the
ids of the records that contain the text, or whose customer does. If these are few, the list is narrowed to them;
otherwise, and without the index, the list is walked in its order until the page is full.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from usagebill.storage.conditions import AnyOf, Compare, Condition, Related, Search, Within
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.memory import Memory
from usagebill.storage.postgresql.queries import condition_sql, folded_column, pattern_of
from usagebill.storage.record_sql import quoted
from usagebill.storage.tables import TABLES, Table, table_of

# If a search finds more records than this, the list is walked instead.
_FEW: Final = 5_000
# The index only has trigrams of words, so shorter texts cannot use it.
_WORD: Final = re.compile(r"[^\W_]{3}")


def _searched(table: Table) -> tuple[str, ...]:
    return () if table.listing is None else table.listing.searched


def _texts_sql(table: Table, row: str) -> str:
    """All searched texts of a `row` as one."""
    return " || chr(31) || ".join(f"coalesce({folded_column(table.kind, row, name)}, '')" for name in _searched(table))


def text_indexes() -> list[str]:
    """The statements for the indexes."""
    return [
        f'CREATE INDEX IF NOT EXISTS "{table.name}_searched" ON "{table.name}" USING gin'
        f" (({_texts_sql(table, quoted(table.name)).replace(f'{quoted(table.name)}.', '')}) gin_trgm_ops)"
        for table in TABLES
        if _searched(table)
    ]


def make_text_indexes(connection: Connection) -> None:
    """Make the indexes, if the server has the extension and lets us use it."""
    connection.execute("SAVEPOINT text_indexes")
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):
        # Not installed, or this user may not create it: searches read the texts one by one.
        connection.execute("ROLLBACK TO text_indexes")
    else:
        for statement in text_indexes():
            connection.execute(statement)
    connection.execute("RELEASE text_indexes")


def has_text_indexes(connection: Connection) -> bool:
    """Whether searches have an index."""
    row = connection.execute("SELECT to_regclass('customers_searched') IS NOT NULL").fetchone()
    return row is not None and bool(row[0])


def narrowed(
    connection: Connection, memory: Memory, kind: type, conditions: Sequence[Condition], organization_id: str | None
) -> Sequence[Condition]:
    """The conditions with a search replaced by the ids it finds, if these are few."""
    # With row security, the server checks a row's organization first, so it uses no index for patterns.
    if not memory.has_text_indexes or organization_id is None or connection.scope is not None:
        return conditions
    for place, condition in enumerate(conditions):
        if (type(condition) is Search or type(condition) is AnyOf) and condition not in memory.common:
            finds = _finds(kind, condition, organization_id)
            if finds is None:
                continue
            rows = connection.execute(f"{finds.sql} LIMIT {_FEW + 1}", finds.values).fetchall()
            if len(rows) <= _FEW:
                ids = sorted({row[0] for row in rows})
                return [*conditions[:place], Within("id", tuple(ids)), *conditions[place + 1 :]]
    return conditions


@dataclass(frozen=True, slots=True)
class _Finds:
    """A query for ids and its values."""

    sql: str
    values: list[Any]


def _finds(kind: type, condition: Condition, organization_id: str) -> _Finds | None:
    """The query for the ids that meet a condition, if the index helps."""
    options = condition.conditions if isinstance(condition, AnyOf) else (condition,)
    values: list[Any] = []
    parts = []
    name = quoted(table_of(kind).name)
    for option in options:
        match option:
            case Search():
                test = contains_sql(kind, "t", option, values, organization_id)
                part = f"SELECT t.id FROM {name} t WHERE {test}"
            case Related(other, column, (Search() as search,)):
                test = contains_sql(other, "o", search, values, organization_id)
                part = (
                    f"SELECT t.id FROM {quoted(table_of(other).name)} o JOIN {name} t ON t.{quoted(column)} = o.id"
                    f" AND t.organization_id = o.organization_id WHERE {test}"
                )
            case Compare("id", "=", str(id)):
                test, part = "", "SELECT ?::text"
                values.append(id)
            case _:
                return None
        if test is None:
            return None
        parts.append(part)
    if not any(isinstance(option, (Search, Related)) for option in options):
        return None
    return _Finds(" UNION ALL ".join(parts), values)


def contains_sql(kind: type, row: str, search: Search, values: list[Any], organization_id: str) -> str | None:
    """The test whether a `row` contains the text, by the index; None if the index cannot answer."""
    table = table_of(kind)
    if not _WORD.search(search.text) or not set(search.columns) <= set(_searched(table)):
        return None
    values.append(pattern_of(search.text))
    # The joined texts contain it; now test each. The organization is not looked up by an index, as the server would do
    # if it took the text for a common one.
    exact = condition_sql(kind, search, row, values)
    values.append(organization_id)
    return f"{_texts_sql(table, row)} LIKE ? AND {exact} AND {row}.organization_id || '' = ?"
