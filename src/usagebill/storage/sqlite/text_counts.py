"""Counts of records with a common text that match a filter or a range, from the counts (`counted_texts`).

New and changed records are tested one by one. If these are too many, or for other queries, the result is None:
`searches` finds the records themselves, or lists count in other ways.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from usagebill.storage.conditions import Condition, Search
from usagebill.storage.sqlite.counted_texts import (
    number_of,
    number_within,
    searched_texts,
    texts_join,
    value_in,
)
from usagebill.storage.sqlite.counts import UNFILTERED, Counted
from usagebill.storage.sqlite.queries import where_sql
from usagebill.storage.sqlite.slots import Span, range_kind, slot_sql
from usagebill.storage.sqlite.texts import (
    count_found,
    count_together,
    is_all,
    search_source,
    searched_together,
    short_query,
)
from usagebill.storage.tables import Table, table_of

# With more new and changed records, testing them takes too long.
_FEW = 5_000


def searched_text(kind: type, condition: Condition) -> str | None:
    """The text, if the condition searches all searched columns of the kind."""
    text = searched_together(kind, condition)
    if text is None and isinstance(condition, Search) and is_all(kind, condition.columns, condition.text):
        text = condition.text
    return (text or "").casefold() or None


def count_text(connection: sqlite3.Connection, kind: type, condition: Condition, organization_id: str) -> int | None:
    """The number of listed records that contain the text of the condition; None without an index."""
    common = count_common_text(connection, kind, condition, UNFILTERED, organization_id)
    if common is not None:
        return common
    if isinstance(condition, Search):
        return count_found(connection, kind, condition.columns, condition.text, organization_id)
    text = searched_together(kind, condition)
    return None if text is None else count_together(connection, kind, text, organization_id)


def count_common_text(
    connection: sqlite3.Connection, kind: type, condition: Condition, counts: Counted, organization_id: str
) -> int | None:
    """The number of listed records that contain the common text of the condition and match the filter of `counts`; None
    if unknown.
    """
    text = searched_text(kind, condition)
    up_to = None if text is None else counted_up_to(connection, table_of(kind))
    if text is None or up_to is None:
        return None
    place = common_place(connection, table_of(kind), text)
    if place is None:
        return None
    codes, values = codes_sql(kind, counts, organization_id)
    number = number_of(connection, table_of(kind), place, codes, values)
    changed = _changed(connection, table_of(kind), text, f"p.code IN ({codes})", values)
    return number - changed + _looked_at(connection, kind, text, counts.conditions, organization_id, up_to)


def _changed(connection: sqlite3.Connection, table: Table, text: str, tests: str, values: Sequence[Any]) -> int:
    """The number of records changed since that were counted as containing the text."""
    row = connection.execute(
        f'SELECT COUNT(*) FROM "{table.name}_common_changed" h'
        f' CROSS JOIN "{table.name}_profiled" p ON p.sequence = h.sequence'
        f" WHERE {tests} AND EXISTS (SELECT 1 FROM json_each(h.texts) j WHERE instr(j.value, ?) > 0)",
        (*values, text),
    ).fetchone()
    return int(row[0])


def count_common_within(
    connection: sqlite3.Connection, kind: type, condition: Condition, counts: Counted, organization_id: str
) -> int | None:
    """The number of listed records that contain the common text and are in slots wholly within the range of `counts`;
    None if unknown. All listed records must have the facets of `counts`.
    """
    text = searched_text(kind, condition)
    table, span = table_of(kind), counts.span
    up_to = None if text is None else counted_up_to(connection, table)
    if text is None or up_to is None or span is None:
        return None
    place = common_place(connection, table, text)
    if place is None:
        return None
    number = number_within(connection, table, place, organization_id, span)
    then, bound = _in_slots(table, span, f"p.{value_in(table, span.column)}")
    of_organization = f'p.code IN (SELECT c.code FROM "{table.name}_profiles" c WHERE c.organization_id = ?)'
    changed = _changed(connection, table, text, of_organization + then, [organization_id, *bound])
    now = _in_slots(table, span, f't."{span.column}"')
    return number - changed + _looked_at(connection, kind, text, counts.conditions, organization_id, up_to, now)


def _in_slots(table: Table, span: Span, value: str) -> tuple[str, list[Any]]:
    """Tests that a value of a range is in the slots of a span."""
    slot = slot_sql(range_kind(table, span.column), value, 0)
    tests = (test.replace("slot", slot, 1) for test, _ in span.slots)
    return "".join(f" AND {test}" for test in tests), [bound for _, bound in span.slots]


_Source = tuple[str, list[Any]]


def text_sources(
    connection: sqlite3.Connection, table: Table, text: str, organization_id: str
) -> tuple[_Source, _Source | None]:
    """The records with the text, and those searched with a record that has it, if one index does not cover both: tables
    of `sequence`, each with its values.
    """
    assert table.listing is not None
    name, joined = table.name, table.listing.searched_with
    if (query := short_query(text, organization_id)) is not None:
        return (f'(SELECT s.rowid AS sequence FROM "{name}_short" s WHERE "{name}_short" MATCH ?)', [query]), None
    of_own = search_source(connection, table.kind, table.listing.searched, text)
    if joined is None:
        return of_own, None
    parties, values = search_source(connection, joined.kind, joined.columns, text)
    belonging = (
        f'(SELECT x.sequence FROM {parties} s CROSS JOIN "{name}_texts" x INDEXED BY "{name}_texts_party"'
        " ON x.party = s.sequence AND x.shown = 1)"
    )
    return of_own, (belonging, values)


def common_place(connection: sqlite3.Connection, table: Table, text: str) -> int | None:
    """The place of a common text; None for another one."""
    row = connection.execute(f'SELECT place FROM "{table.name}_common" WHERE text = ?', (text,)).fetchone()
    return None if row is None else int(row[0])


def counted_up_to(connection: sqlite3.Connection, table: Table) -> int | None:
    """The sequence number up to which texts are counted; None if too many records are uncounted or have changed."""
    if table.listing is None or not table.listing.searched or not hasattr(connection, "total_changes"):
        # Observations must depend on the records themselves.
        return None
    row = connection.execute(f'SELECT sequence FROM "{table.name}_common_upto"').fetchone()
    if row is None:
        return None
    left = connection.execute(
        f'SELECT (SELECT coalesce(MAX(sequence), 0) FROM "{table.name}_texts")'
        f' + (SELECT COUNT(*) FROM (SELECT 1 FROM "{table.name}_common_changed" LIMIT {_FEW + 1}))'
    ).fetchone()[0]
    return int(row[0]) if left - row[0] <= _FEW else None


def codes_sql(kind: type, counts: Counted, organization_id: str) -> tuple[str, list[Any]]:
    codes = f'SELECT c.code FROM "{table_of(kind).name}_profiles" c WHERE c.organization_id = ? AND {counts.facets}'
    return codes, [organization_id, *counts.values]


def _looked_at(
    connection: sqlite3.Connection,
    kind: type,
    text: str,
    conditions: Sequence[Condition],
    organization_id: str,
    up_to: int,
    more: tuple[str, Sequence[Any]] = ("", ()),
) -> int:
    """The number of new and changed records that match and pass `more` tests."""
    return sum(
        connection.execute(f"SELECT COUNT(*) {sql}{more[0]}", (*values, *more[1])).fetchone()[0]
        for sql, values in looked_at_sql(kind, text, conditions, organization_id, up_to)
    )


def looked_at_sql(
    kind: type, text: str | None, conditions: Sequence[Condition], organization_id: str, up_to: int
) -> Iterator[tuple[str, list[Any]]]:
    """The new and changed records that match, and contain the text, if any, as `x`: sources with their values. Separate
    queries, because for a union SQLite builds a table and reads all texts to join it.
    """
    table = table_of(kind)
    name = table.name
    where, values = where_sql(kind, conditions, organization_id, False, gathered=False)
    tests = "1" if text is None else contained(searched_texts(table, "x", "c"), text, values)
    joins = f'{texts_join(table, "x")} CROSS JOIN "{name}" t ON t.id = x.id{where} AND x.shown = 1 AND ({tests})'
    yield f'FROM "{name}_common_changed" h CROSS JOIN "{name}_texts" x ON x.sequence = h.sequence{joins}', values
    yield f'FROM "{name}_texts" x{joins} AND x.sequence > ?', [*values, up_to]


def contained(texts: Sequence[str], text: str, values: list[Any]) -> str:
    values.extend([text] * len(texts))
    return " OR ".join(f"instr({name}, ?) > 0" for name in texts)
