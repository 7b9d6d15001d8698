"""How a page of a list is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from usagebill.storage.conditions import Compare, Condition, Order, Related, Within
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.counts import counted_sql
from usagebill.storage.postgresql.facet_indexes import MANY, page_clauses, where_by_index
from usagebill.storage.postgresql.memory import Memory
from usagebill.storage.postgresql.queries import order_sql, where_sql
from usagebill.storage.postgresql.rows import rows_of
from usagebill.storage.record_sql import quoted
from usagebill.storage.tables import table_of

# Up to so many ids are looked up first.
_FEW_IDS: Final = 10
# If many records match, a page that ends no later than at this place is found soon.
_NEAR: Final = 1_000


def whole_list_sql(
    kind: type, conditions: Sequence[Condition], order: Sequence[Order], organization_id: str | None
) -> tuple[str, list[Any]] | None:
    """The query for a page of a list that is not filtered, up to the values of its LIMIT and OFFSET; the number of all
    records is in the last column. None if the list is filtered, or no number of its records is kept.
    """
    listing = table_of(kind).listing
    if listing is None or any(condition != listing.shown for condition in conditions):
        return None
    counted = counted_sql(kind, conditions, organization_id)
    if counted is None:
        return None
    count, values = counted
    where, bound = where_sql(kind, conditions, organization_id, False)
    return (
        f"SELECT {rows_of(kind).selected},({count})::bigint FROM {quoted(table_of(kind).name)} t{where}"
        f"{order_sql(kind, order)} LIMIT ? OFFSET ?",
        [*values, *bound],
    )


def page_sql(
    connection: Connection,
    kind: type,
    conditions: Sequence[Condition],
    order: Sequence[Order],
    bounds: tuple[int, int] | None,
    total: int | None,
    organization_id: str | None,
    deleted: bool,
) -> tuple[str, list[Any], bool]:
    """What follows FROM in the query for a page within these `bounds` (LIMIT and OFFSET; None: all records), the values
    that it binds, and whether it goes by the index of facets and items. `total` is how many records match, if known.
    """
    if bounds is not None and total is not None and total < MANY:
        few = where_by_index(connection, kind, conditions, organization_id, deleted)
        if few is not None:
            where, values = few
            return f"{page_clauses(kind, where, order)})) {order_sql(kind, order)}", [*values, *bounds], True
    singly = bounds is not None and is_near(sum(bounds), total)
    where, values = where_sql(kind, conditions, organization_id, deleted, singly=singly)
    clauses = where + order_sql(kind, order)
    return (clauses, values, False) if bounds is None else (f"{clauses} LIMIT ? OFFSET ?", [*values, *bounds], False)


def is_near(end: int, total: int | None) -> bool:
    """Whether a page of so many matching records, up to this place, is found soon if the list is read in its order."""
    return total is not None and total >= MANY and end <= _NEAR


def resolved(
    connection: Connection, memory: Memory, conditions: Sequence[Condition], organization_id: str | None
) -> Sequence[Condition]:
    """The conditions, with those on other records that have a certain code replaced by the ids of these, if they are
    few: an index may lead from them, and statistics say how many records refer to them.
    """
    if organization_id is None or not any(type(condition) is Related for condition in conditions):
        return conditions
    conditions_on_ids: list[Condition] = []
    for condition in conditions:
        ids = _ids(connection, memory, condition, organization_id) if type(condition) is Related else None
        conditions_on_ids.append(
            condition if ids is None or type(condition) is not Related else Within(condition.column, ids)
        )
    return conditions if conditions_on_ids == list(conditions) else conditions_on_ids


def _ids(connection: Connection, memory: Memory, condition: Related, organization_id: str) -> tuple[str, ...] | None:
    """The ids of the records that meet the inner conditions; None if these are not few."""
    if condition in memory.ids:
        return memory.ids[condition]
    rules = table_of(condition.kind).unique
    if not any(
        isinstance(inner, (Compare, Within)) and (inner.column,) in rules and getattr(inner, "operator", "=") == "="
        for inner in condition.conditions
    ):
        return None
    # Deleted records keep their codes.
    where, values = where_sql(condition.kind, condition.conditions, organization_id, True)
    rows = connection.execute(
        f"SELECT t.id FROM {quoted(table_of(condition.kind).name)} t{where} LIMIT {_FEW_IDS + 1}", values
    ).fetchall()
    memory.ids[condition] = None if len(rows) > _FEW_IDS else tuple(sorted(row[0] for row in rows))
    return memory.ids[condition]
