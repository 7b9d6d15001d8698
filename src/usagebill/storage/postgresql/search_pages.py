"""Pages of searches, with their total in the same query.

The total of a search takes reading all matches, so the page is taken from them. Only if most records match, the list
is read in its order instead, and the matches are counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from usagebill.storage.conditions import AnyOf, Compare, Condition, Order, Related, Search
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.facet_indexes import where_by_index
from usagebill.storage.postgresql.memory import Memory
from usagebill.storage.postgresql.queries import condition_sql, order_sql, where_sql
from usagebill.storage.postgresql.rows import rows_of
from usagebill.storage.postgresql.searches import contains_sql
from usagebill.storage.record_sql import quoted
from usagebill.storage.tables import table_of

# If fewer records have the facets that are searched as well, the text is looked for in each of them.
_FEW_TO_READ: Final = 10_000
# So many matches are gathered before the list's first records show whether most match.
_FEW: Final = 300
# How many of the first records are looked at.
_FIRST: Final = 100

Rows = list[tuple[Any, ...]]


def page_of_search(
    connection: Connection,
    memory: Memory,
    kind: type,
    conditions: Sequence[Condition],
    order: Sequence[Order],
    bounds: tuple[int, int],
    organization_id: str | None,
) -> tuple[Rows, int] | None:
    """The rows of a page within these `bounds` (LIMIT and OFFSET), with more columns at the end, and the total; None if
    this is no search, the index of texts does not help, or most records match.
    """
    # With row security, the server checks a row's organization first, so it uses no index for patterns.
    if not memory.has_text_indexes or organization_id is None or connection.scope is not None:
        return None
    places = [place for place, condition in enumerate(conditions) if _is_search(condition)]
    if not places:
        return None
    few = where_by_index(connection, kind, conditions, organization_id, False, _FEW_TO_READ)
    if few is not None:
        where, values = few
        by_facets = f"SELECT {_columns(order)} FROM {quoted(table_of(kind).name)} t{where}", values
        return _page(connection, kind, [by_facets], order, bounds)
    condition = conditions[places[0]]
    others = [*conditions[: places[0]], *conditions[places[0] + 1 :]]
    parts = _parts(kind, condition, others, order, organization_id)
    if parts is None:
        return None
    page = _page(connection, kind, parts, order, bounds, _FEW)
    if page is not None:
        return page
    if _matches_most(connection, kind, condition, order, organization_id):
        memory.common.add(condition)
        return None
    return _page(connection, kind, parts, order, bounds)


def _page(
    connection: Connection,
    kind: type,
    parts: Sequence[tuple[str, list[Any]]],
    order: Sequence[Order],
    bounds: tuple[int, int],
    at_most: int | None = None,
) -> tuple[Rows, int] | None:
    """The page of the records that the queries `parts` find; None if they find more than `at_most`, or if the list ends
    before it.
    """
    limit = "" if at_most is None else f" LIMIT {at_most + 1}"
    ordered = order_sql(kind, order)
    rows = connection.execute(
        f"WITH found AS MATERIALIZED ({' UNION ALL '.join(sql for sql, _ in parts)}{limit}),"
        " matches AS MATERIALIZED (SELECT DISTINCT * FROM found)"
        f" SELECT {rows_of(kind).selected},(SELECT COUNT(*) FROM found),(SELECT COUNT(*) FROM matches)"
        f" FROM {quoted(table_of(kind).name)} t"
        f" WHERE t.id = ANY(ARRAY(SELECT t.id FROM matches t{ordered} LIMIT ? OFFSET ?)){ordered}",
        [*(value for _, values in parts for value in values), *bounds],
        anew=True,
    ).fetchall()
    if not rows:
        return ([], 0) if bounds[1] == 0 and bounds[0] > 0 else None
    *_, gathered, total = rows[0]
    return (rows, total) if at_most is None or gathered <= at_most else None


def _is_search(condition: Condition) -> bool:
    if isinstance(condition, AnyOf):
        return any(map(_is_search, condition.conditions))
    return isinstance(condition, Search) or (
        isinstance(condition, Related) and any(map(_is_search, condition.conditions))
    )


def _columns(order: Sequence[Order]) -> str:
    return ", ".join(dict.fromkeys(['t."id"', *(f"t.{quoted(item.column)}" for item in order)]))


def _parts(
    kind: type, condition: Condition, others: Sequence[Condition], order: Sequence[Order], organization_id: str
) -> list[tuple[str, list[Any]]] | None:
    """The queries that together find the records that meet a search and the other conditions; None if the index does
    not help.
    """
    options = condition.conditions if isinstance(condition, AnyOf) else (condition,)
    columns, name = _columns(order), quoted(table_of(kind).name)
    # The organization is in the test of the text.
    where, bound = where_sql(kind, others, None, False, singly=True)
    rest = where.replace(" WHERE ", " AND ", 1)
    parts = []
    for option in options:
        values: list[Any] = []
        match option:
            case Search():
                test = contains_sql(kind, "t", option, values, organization_id)
                source = f"{name} t"
            case Related(other, column, (Search() as search,)):
                test = contains_sql(other, "o", search, values, organization_id)
                source = (
                    f"{quoted(table_of(other).name)} o JOIN {name} t ON t.{quoted(column)} = o.id"
                    " AND t.organization_id = o.organization_id"
                )
            case Compare("id", "=", str(id)):
                test, source = "t.id = ? AND t.organization_id = ?", f"{name} t"
                values += [id, organization_id]
            case _:
                return None
        if test is None:
            return None
        parts.append((f"SELECT {columns} FROM {source} WHERE {test}{rest}", [*values, *bound]))
    return parts if any(isinstance(option, (Search, Related)) for option in options) else None


def _matches_most(
    connection: Connection, kind: type, condition: Condition, order: Sequence[Order], organization_id: str
) -> bool:
    """Whether most of the list's first records meet the condition."""
    scope, values = where_sql(kind, (), organization_id, False)
    first = f"SELECT * FROM {quoted(table_of(kind).name)} t{scope}{order_sql(kind, order)} LIMIT {_FIRST}"
    test = condition_sql(kind, condition, "t", values, singly=True)
    rows = connection.execute(f"SELECT COUNT(*) FROM ({first}) t WHERE {test}", values).fetchall()
    return int(rows[0][0]) * 2 >= _FIRST
