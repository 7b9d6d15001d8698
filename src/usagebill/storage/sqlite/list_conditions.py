"""Conditions of lists as SQL, driven by the index that reads the fewest records."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from usagebill.storage.conditions import Compare, Condition, Item, Related, Search, Within, eq
from usagebill.storage.record_sql import quoted
from usagebill.storage.sqlite.counts import (
    Counted,
    counted,
    facet_names,
    has_facets,
    joined_facets,
    shown_sql,
    whole_range,
)
from usagebill.storage.sqlite.items import ItemQuery, item_query
from usagebill.storage.sqlite.list_costs import FEW, Page, Size
from usagebill.storage.sqlite.queries import condition_sql, is_narrowed, is_selective, looks_up, order_sql, where_sql
from usagebill.storage.sqlite.slots import range_kind
from usagebill.storage.sqlite.texts import is_broad, searches_broadly
from usagebill.storage.tables import Table, table_of

# Up to this many ids of other records are looked up first, so that an index can give the order of the list.
_IDS = 10


def resolved(connection: sqlite3.Connection, conditions: Sequence[Condition], organization_id: str) -> list[Condition]:
    """The conditions, with those on other records replaced by their few ids."""
    conditions_on_ids: list[Condition] = []
    for condition in conditions:
        conditions_on_ids.append(condition)
        if not isinstance(condition, Related) or not is_selective(condition.kind, condition.conditions):
            continue
        where, values = where_sql(condition.kind, condition.conditions, organization_id, True)
        rows = connection.execute(
            f"SELECT t.id FROM {quoted(table_of(condition.kind).name)} t{where} LIMIT ?", (*values, _IDS + 1)
        ).fetchall()
        if len(rows) <= _IDS:
            ids = tuple(row[0] for row in rows)
            conditions_on_ids[-1] = eq(condition.column, ids[0]) if len(ids) == 1 else Within(condition.column, ids)
    return conditions_on_ids


def driven_where(
    connection: sqlite3.Connection, kind: type, conditions: Sequence[Condition], organization_id: str
) -> tuple[str, list[Any]]:
    """The WHERE clause for all matches, driven by one index of texts or items."""
    items = [item for condition in conditions if (item := item_query(kind, condition)) is not None]
    lookups = [condition for condition in conditions if looks_up([condition]) and type(condition) is not Item]
    if is_narrowed(kind, conditions) or len(lookups) + bool(items) < 2:
        gathered = not is_narrowed(kind, conditions)
        return where_sql(kind, conditions, organization_id, False, gathered=gathered)
    fewest = min((item.count(connection, organization_id) for item in items), default=FEW)
    # Pieces of text first: whole texts, like countries, may have many records.
    lookups.sort(key=lambda condition: type(condition) is not Search)
    leader = next((condition for condition in lookups if not is_broad(connection, kind, [condition], fewest)), None)
    if leader is None:
        leader = next((c for c in conditions if item_query(kind, c) is not None), lookups[0])
    followers = [condition for condition in conditions if condition is not leader]
    where, values = where_sql(kind, followers, organization_id, False, gathered=False)
    return f"{where} AND {condition_sql(kind, leader, 't', values, True)}", values


def by_range(
    kind: type, conditions: Sequence[Condition], counts: Counted, organization_id: str
) -> tuple[str, list[Any]]:
    """The records within a range, by an index that the planner would not choose, and the values."""
    table = table_of(kind)
    assert counts.span is not None
    assert table.listing is not None
    in_order = counts.span.column == table.listing.order[0].column
    index = f"{table.name}_listed" if in_order else f"{table.name}_ranged_{counts.span.column}"
    where, values = where_sql(kind, conditions, organization_id, False, gathered=False)
    return f'{quoted(table.name)} t INDEXED BY "{index}"{where} AND {shown_sql(table, "t")}', values


def by_facets(
    kind: type, counts: Counted, organization_id: str, search: Condition | None = None, sign: str = ""
) -> tuple[str, list[Any]]:
    """The records with matching facets ("NOT ": with others) that fulfil another condition too, and the values."""
    table = table_of(kind)
    groups, values = _combinations(table, counts, organization_id, sign)
    source = (
        f'({groups}) c CROSS JOIN {quoted(table.name)} t INDEXED BY "{table.name}_facets"'
        f" ON {joined_facets(table)} AND {shown_sql(table, 't')}"
    )
    if search is not None:
        source += f" AND {condition_sql(kind, search, 't', values, False)}"
    return source, values


def _combinations(table: Table, counts: Counted, organization_id: str, sign: str = "") -> tuple[str, list[Any]]:
    """The combinations of the record's own facets that match, which lead to all its records, and the values."""
    sql = (
        f'SELECT DISTINCT {facet_names(table)} FROM "{table.name}_counts" c'
        f" WHERE c.organization_id = ? AND c.ranged = ? AND c.n > 0 AND {sign}({counts.facets})"
    )
    return sql, [organization_id, whole_range(table), *counts.values]


def merged_facets(
    connection: sqlite3.Connection,
    kind: type,
    conditions: Sequence[Condition],
    counts: Counted,
    organization_id: str,
    page: Page,
    most: int,
) -> tuple[str, list[Any]] | None:
    """The first records of each combination of facets that meet the conditions, by the index of facets, which has
    each combination in list order; as many as the page and those before it need. None if there are more than `most`
    combinations.
    """
    table = table_of(kind)
    groups, values = _combinations(table, counts, organization_id)
    combinations = connection.execute(f"{groups} LIMIT ?", (*values, most + 1)).fetchall()
    if not 0 < len(combinations) <= most:
        return None
    bound: list[Any] = []
    tests = "".join(f" AND {condition_sql(kind, condition, 't', bound, False)}" for condition in conditions)
    where = f" WHERE {joined_facets(table, bound=True)} AND {shown_sql(table, 't')}{tests}"
    return _merged(kind, f"{table.name}_facets", page, [(where, [*group, *bound]) for group in combinations])


def merged_values(
    kind: type, conditions: Sequence[Condition], several: Within, organization_id: str, page: Page
) -> tuple[str, list[Any]]:
    """The first records of each of the values of a column that meet the conditions, by the column's index in list
    order, as many as the page and those before it need.
    """
    others = [condition for condition in conditions if condition != several]
    parts = [
        where_sql(kind, [eq(several.column, value), *others], organization_id, False, gathered=False)
        for value in dict.fromkeys(several.values)
    ]
    return _merged(kind, index_in_order(kind, several.column), page, parts)


def _merged(kind: type, index: str, page: Page, parts: Sequence[tuple[str, Sequence[Any]]]) -> tuple[str, list[Any]]:
    """The first records of each part, which the index has in list order, and the values."""
    columns = ", ".join(f"t.{quoted(column)}" for column in dict.fromkeys(("id", *(by.column for by in page.order))))
    forced = f' INDEXED BY "{index}"' if index else ""
    sources: list[str] = []
    values: list[Any] = []
    for where, bound in parts:
        first = f"SELECT {columns} FROM {quoted(table_of(kind).name)} t{forced}{where}{order_sql(kind, page.order)}"
        sources.append(f"SELECT * FROM ({first} LIMIT ?)")
        values += (*bound, page.offset + page.limit)
    return f"({' UNION ALL '.join(sources)}) t", values


def in_list_order(
    kind: type, conditions: Sequence[Condition], organization_id: str, guide: Sequence[tuple[str, object]] = ()
) -> tuple[str, list[Any]]:
    """The records that match, by the index in list order, and the values. `guide` has tests of the first column."""
    table = table_of(kind)
    assert table.listing is not None
    where, values = where_sql(kind, conditions, organization_id, False, gathered=False)
    for test, value in guide:
        where += f" AND t.{quoted(table.listing.order[0].column)} {test}"
        values.append(value)
    lead = table.listing.lead
    leads = lead is not None and any(
        isinstance(condition, Compare) and condition.column == lead and condition.operator == "="
        for condition in conditions
    )
    index = f"{table.name}_listed" + ("_by_lead" if leads else "")
    return f'{quoted(table.name)} t INDEXED BY "{index}"{where} AND {shown_sql(table, "t")}', values


def first_in_list_order(
    kind: type, conditions: Sequence[Condition], organization_id: str, entries: int
) -> tuple[str, list[Any]]:
    """Those that match of the first entries of the list from the bounds of its order on, and the values."""
    table = table_of(kind)
    assert table.listing is not None
    first = table.listing.order[0].column
    bounds = [item for item in conditions if isinstance(item, Compare) and item.column == first]
    values: list[Any] = []
    tests = [condition_sql(kind, item, "t", values, False) for item in conditions if item not in bounds]
    source, others = in_list_order(kind, bounds, organization_id)
    matches = " AND ".join(tests) or "1"
    sql = f"(SELECT t.id, {matches} AS matches FROM {source}{order_sql(kind, table.listing.order)} LIMIT ?)"
    return f"{sql} e WHERE e.matches", [*values, *others, entries]


def index_in_order(kind: type, column: str) -> str:
    """The index with the records of each value of a column in list order; empty without."""
    table = table_of(kind)
    assert table.listing is not None
    columns = (column, *(by.column for by in table.listing.order), "id")
    is_kept = any(tuple(part.split(" ")[0] for part in index) == columns for index in table.indexes)
    return f"{table.name}_{'_'.join(columns)}" if is_kept else ""


def is_skewed(kind: type, bounds: Sequence[Compare]) -> bool:
    """Whether the matching records may all be old, far down the list: other dates than its own follow its order."""
    table = table_of(kind)
    assert table.listing is not None
    column = table.listing.order[0].column
    return any(bound.column != column and range_kind(table, bound.column) != "cents" for bound in bounds)


def partial_index_sql(kind: type, conditions: Sequence[Condition]) -> str:
    """The condition of a partial index, repeated literally so that SQLite uses the index."""
    table = table_of(kind)
    if table.listing is None or counted(kind, conditions) is None:
        return ""
    return f" AND {shown_sql(table, 't')}"


def item_within(
    kind: type, conditions: Sequence[Condition], counts: Counted, remaining: Sequence[Condition]
) -> ItemQuery | None:
    """The query for a value of an item among the records of another one; None if there are other conditions."""
    parents = [condition for condition in conditions if condition not in remaining]
    if len(remaining) != 1 or counts.facets != "1" or counts.span is None or len(parents) != 1:
        return None
    parent_id = parents[0].value if isinstance(parents[0], Compare) else None
    query = item_query(kind, remaining[0], parent_id) if isinstance(parent_id, str) else None
    return None if query is None or query.value is None or counts.bounds else query


def leads_past_text(connection: sqlite3.Connection, kind: type, counts: Counted, search: Condition, size: Size) -> bool:
    """Whether more records contain the text than match the filter, or than do not."""
    if not counts.own or not has_facets(table_of(kind)) or counts.span is not None:
        return False
    return searches_broadly(connection, kind, search, min(size.matching, size.all - size.matching))
