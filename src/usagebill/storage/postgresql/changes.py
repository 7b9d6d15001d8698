"""The change log: the rows that each transaction wrote, so that results computed on an earlier snapshot can be checked.

Before such a result is stored, the log is read under the organization's lock: one statement instead of repeating every
statement that the result is based on. The log keeps the last transactions of an organization; beyond them, all
statements are repeated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.record_sql import tables_in
from usagebill.storage.tables import TABLES

# Most queries select rows by these columns: the log has their values in the rows that were written.
TRACKED = ("id", "customer_id", "subscription_id", "invoice_id")
# The sequence that numbers an organization's transactions that wrote records.
SEQUENCE = "changes"
# The number of transactions that the log keeps, and how often it drops older ones.
_KEPT = 1_000
_FORGETS_EVERY = 100
# If there are more rows than this, the log only says that some were written.
_MOST_IDS = 5_000

_FROM_ONE = re.compile(r'SELECT [^?]*? FROM "?(\w+)"? t')
_EQUAL = re.compile(r't\."?(\w+)"? = (?:\?|ANY\(\?::text\[\]\))')
_BY_ID = re.compile(r'EXISTS \(SELECT 1 FROM "?(\w+)"? (\w+) WHERE \2\.id = t\."\w+"')
_TAILS = (" ORDER BY ", " LIMIT ", " GROUP BY ")


@dataclass(frozen=True, slots=True)
class _Shape:
    """The rows that a statement reads: those of `table` with tracked columns equal to the bound values at `places`,
    those that they refer to by id in the tables `referred`, and any rows of `other_tables`.
    """

    table: str | None
    places: tuple[int, ...]
    referred: tuple[str, ...]
    other_tables: tuple[str, ...]


@cache
def _recorded() -> frozenset[str]:
    return frozenset(table.name for table in TABLES)


def _split(text: str, joint: str) -> Iterator[str]:
    """The text split at each `joint` outside brackets."""
    depth = start = 0
    for place, letter in enumerate(text):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
        elif depth == 0 and text.startswith(joint, place) and place >= start:
            yield text[start:place]
            start = place + len(joint)
    yield text[start:]


@cache
def _shape(sql: str) -> _Shape:
    tables = tables_in(sql)
    unknown = _Shape(None, (), (), tables)
    head, *conditions = _split(sql, " WHERE ")
    first = _FROM_ONE.fullmatch(head)
    if first is None or len(conditions) != 1:
        return unknown
    where = conditions[0]
    for tail in _TAILS:
        where = next(_split(where, tail))
    if len(list(_split(where, " OR "))) > 1:
        return unknown
    places, referred, other_tables, place = [], [], [], 0
    for term in _split(where, " AND "):
        equal = _EQUAL.fullmatch(term)
        if equal and equal[1] in TRACKED:
            places.append(place)
        place += term.count("?")
        inside = list(tables_in(term))
        if inside and _BY_ID.match(term):
            referred.append(inside.pop(0))
        other_tables += inside
    return _Shape(first[1], tuple(places), tuple(referred), tuple(other_tables))


class Touched:
    """The values of tracked columns in the rows that were written, before and after, by table."""

    def __init__(self) -> None:
        # None: any rows.
        self._ids: dict[str, set[str] | None] = {}
        # Tables with changed or deleted rows, not only new ones.
        self._changed: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._ids)

    def note(self, table: str, ids: Iterable[str] | None, *, is_new: bool) -> None:
        """Rows with these values were written; None: rows with any values."""
        noted = self._ids.setdefault(table, set())
        if ids is None:
            self._ids[table] = None
        elif noted is not None:
            noted.update(ids)
        if not is_new:
            self._changed.add(table)

    def items(self) -> Iterator[tuple[str, Collection[str] | None, bool]]:
        """Each table, the values in its rows, and whether all rows were new."""
        for table, ids in self._ids.items():
            yield table, None if ids is None or len(ids) > _MOST_IDS else ids, table not in self._changed

    def bears_on(self, sql: str, values: tuple[Any, ...]) -> bool:
        """Whether the statement's result may have changed because of these rows."""
        shape = _shape(sql)
        if not self._ids.keys().isdisjoint(shape.other_tables) or not self._changed.isdisjoint(shape.referred):
            return True
        # No earlier row refers to a new one.
        if shape.table not in self._ids:
            return False
        ids = self._ids[shape.table]
        return ids is None or all(_is_among(values[place], ids) for place in shape.places)


def _is_among(value: Any, ids: set[str]) -> bool:
    """Whether the value, or one of several, was written."""
    if value is None or isinstance(value, str):
        return value in ids
    return not ids.isdisjoint(value)


def is_logged(sql: str) -> bool:
    """Whether the statement only reads records, whose writes the log has."""
    return _recorded().issuperset(tables_in(sql))


def latest_change(connection: Connection, organization_id: str) -> int:
    """The number of the last transaction that wrote records of the organization, 0 before the first."""
    row = connection.execute(
        "SELECT value FROM sequences WHERE organization_id = ? AND name = ?", (organization_id, SEQUENCE)
    ).fetchone()
    return 0 if row is None else int(row[0])


def touched_since(connection: Connection, organization_id: str, number: int) -> Touched | None:
    """The rows written to the organization after that transaction; None if the log no longer reaches back that far."""
    rows = connection.execute(
        "SELECT sequence, kind, ids, is_new FROM changes WHERE organization_id = ? AND sequence > ? ORDER BY sequence",
        (organization_id, number),
    ).fetchall()
    touched = Touched()
    if rows and rows[0][0] != number + 1:
        return None
    for _, table, ids, is_new in rows:
        touched.note(table, ids, is_new=is_new)
    return touched


def log_changes(connection: Connection, touched: Mapping[str, Touched]) -> None:
    """Log the rows that this transaction has written, by organization, before it commits."""
    for organization_id, written in touched.items():
        rows = list(written.items())
        listed = ",".join(["(?::text,?::text[],?::boolean)"] * len(rows))
        values = [value for table, ids, is_new in rows for value in (table, None if ids is None else list(ids), is_new)]
        (number,) = connection.execute(
            "WITH next AS (INSERT INTO sequences (organization_id, name, value) VALUES (?, ?, 1)"
            " ON CONFLICT (organization_id, name) DO UPDATE SET value = sequences.value + 1 RETURNING value)"
            " INSERT INTO changes (organization_id, sequence, kind, ids, is_new)"
            f" SELECT ?, next.value, v.* FROM next, (VALUES {listed}) v RETURNING sequence",
            (organization_id, SEQUENCE, organization_id, *values),
        ).fetchall()[0]
        if number % _FORGETS_EVERY == 0:
            connection.execute(
                "DELETE FROM changes WHERE organization_id = ? AND sequence <= ?", (organization_id, number - _KEPT)
            )
