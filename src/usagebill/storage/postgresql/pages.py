"""Pages of whole lists, with their total in the same query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from usagebill.storage.conditions import Condition, Order
from usagebill.storage.postgresql.counts import counted_sql
from usagebill.storage.postgresql.queries import order_sql, where_sql
from usagebill.storage.postgresql.rows import rows_of
from usagebill.storage.record_sql import quoted
from usagebill.storage.tables import table_of

__all__ = ["whole_list_sql"]


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
