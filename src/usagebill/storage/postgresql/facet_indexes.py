"""An index of each list by facets and items, for filters that few records match.

Reading a list in its order until the page is full takes longest when few records match. One GIN index per list has, for
each record, a key for every facet that its own columns decide (`storage.listings`), and two for each item of its JSON
lists of metadata: one of the item's key and one of its key and value. Keys begin with the organization, so that one
organization's rare value is not mixed up with another's common one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from usagebill.storage.conditions import AnyOf, Compare, Condition, Item, Negate, Order, Related, Within
from usagebill.storage.listings import Flag, Joined, facets_name
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.counts import LONGEST, counted_sql, fixed_sql, literal
from usagebill.storage.postgresql.locks import lock_key
from usagebill.storage.postgresql.queries import order_sql, where_sql
from usagebill.storage.postgresql.rows import sql_value
from usagebill.storage.record_sql import quoted
from usagebill.storage.tables import TABLES, Table, table_of

# A WHERE clause and the values that it binds.
Clause = tuple[str, list[Any]]
# If so many records match, the list is read in its order instead.
MANY: Final = 3_000
# Follows the table's name in the name of its index, before a number for what is in it.
_FACETED: Final = "_faceted_"
# Stands for NUL, which the server cannot read in JSON.
_NUL: Final = "\ue000"
# The lengths keep keys apart: {"key": "a", "value": "b=c"} is not {"key": "a=b", "value": "c"}.
ITEM_KEYS: Final = f"""
CREATE OR REPLACE FUNCTION item_keys(organization_id text, list text, items text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(DISTINCT left(k.key, {LONGEST})), ARRAY[]::text[])
    FROM json_array_elements(
        replace(replace(items, '\\\\', '\\u005c'), '\\u0000', '{_NUL}')::json) item,
    LATERAL (SELECT organization_id || '/' || list || ':' || length(item ->> 'key') || ':' || (item ->> 'key')) name(n),
    LATERAL (VALUES (name.n), (name.n || '=' || (item ->> 'value'))) k(key) WHERE k.key IS NOT NULL
$$
"""
# Keys with these, or as long as the longest, are not looked up.
_IN_OTHER_WORDS: Final = {"\0", _NUL}
# The index is searched fast only while few additions wait to be merged into it: kB.
_WAITING: Final = 256


def _facets(table: Table) -> tuple[str | Condition, ...]:
    """The facets that a record's own columns decide."""
    assert table.listing is not None
    facets = (facet.condition if isinstance(facet, Flag) else facet for facet in table.listing.facets)
    return tuple(facet for facet in facets if not isinstance(facet, (Joined, Related)))


@cache
def _keys_sql(kind: type, row: str) -> str | None:
    """All keys of a `row` as an array; None if the list has no such index."""
    table = table_of(kind)
    if table.listing is None:
        return None
    parts = []
    for facet in _facets(table):
        if isinstance(facet, str):
            name = literal(f"/{facet}=")
            parts.append(f"left({row}organization_id || {name} || {row}{quoted(facet)}::text, {LONGEST})")
        else:
            test = fixed_sql(kind, facet, row.removesuffix(".") or quoted(table.name))
            test = test.replace(f"{quoted(table.name)}.", "") if not row else test
            parts.append(f"CASE WHEN {test} THEN left({row}organization_id || {literal(_flag(facet))}, {LONGEST}) END")
    if len(parts) < 2 and not table.listing.items:
        return None
    keys = f"array_remove(ARRAY[{', '.join(parts)}]::text[], NULL)"
    for column in table.listing.items:
        name = f"{row}{quoted(column)}"
        items = f"item_keys({row}organization_id, {literal(column)}, {name})"
        keys = f"array_cat({keys}, CASE WHEN coalesce({name}, '[]') <> '[]' THEN {items} END)"
    return keys


def _flag(facet: Condition) -> str:
    return "/" + facets_name((facet,), ("1",))


def facet_index(table: Table) -> tuple[str, str] | None:
    """Name and statement of the index of a list; None if it has none."""
    keys = _keys_sql(table.kind, "")
    if keys is None:
        return None
    # An index of other keys has another name.
    name = f"{table.name}{_FACETED}{lock_key(keys) & 0xFFFFFFFF:08x}"
    return name, (
        f'CREATE INDEX IF NOT EXISTS "{name}" ON {quoted(table.name)} USING gin (({keys}))'
        f" WITH (gin_pending_list_limit = {_WAITING})"
    )


def _keys(table: Table, condition: Condition, organization_id: str) -> list[str] | None:
    """The keys of which a record that meets the condition has one, and no other has; None if keys do not decide it."""
    assert table.listing is not None
    facets = _facets(table)
    keys: list[str] = []
    if condition in facets:
        keys = [_flag(condition)]
    else:
        match condition:
            case Compare(column, "=", value) if column in facets and value is not None:
                keys = [f"/{column}={sql_value(value)}"]
            case Within(column, options) if column in facets and condition != table.listing.shown:
                keys = [f"/{column}={sql_value(option)}" for option in options if option is not None]
            case Item(column, (("key", str(key)),)) if column in table.listing.items:
                keys = [f"/{column}:{len(key)}:{key}"]
            case Item(column, (("key", str(key)), ("value", str(value)))) if column in table.listing.items:
                keys = [f"/{column}:{len(key)}:{key}={value}"]
            case AnyOf(conditions):
                for part in conditions:
                    some = _keys(table, part, organization_id)
                    if some is None:
                        return None
                    keys += [key.removeprefix(organization_id) for key in some]
            case _:
                return None
    keys = [organization_id + key for key in keys]
    return keys if keys and all(len(key) < LONGEST and not _IN_OTHER_WORDS & set(key) for key in keys) else None


def has_items(conditions: Sequence[Condition]) -> bool:
    """Whether one of the conditions is about an item."""
    return any(type(condition) is Item for condition in conditions)


def split_negated(conditions: Sequence[Condition]) -> tuple[list[Condition], Condition] | None:
    """The other conditions, and the one on an item that is to be false; None if there is none."""
    for place, condition in enumerate(conditions):
        if isinstance(condition, Negate) and isinstance(condition.condition, Item):
            return [*conditions[:place], *conditions[place + 1 :]], condition.condition
    return None


def where_by_index(
    connection: Connection,
    kind: type,
    conditions: Sequence[Condition],
    organization_id: str | None,
    deleted: bool,
    many: int = MANY,
) -> Clause | None:
    """The WHERE clause of these conditions by the index, with its values; None if it would find so `many`."""
    keys_sql = _keys_sql(kind, "t.")
    # With row security, the server checks a row's organization first, so it uses no such index.
    if keys_sql is None or organization_id is None or connection.scope is not None:
        return None
    by_keys: list[tuple[Condition, list[str]]] = []
    others = []
    for condition in conditions:
        keys = _keys(table_of(kind), condition, organization_id)
        if keys is None:
            others.append(condition)
        else:
            by_keys.append((condition, keys))
    decided = [condition for condition, _ in by_keys]
    if not by_keys or not _are_few(connection, kind, decided, others, organization_id, many):
        return None
    where, values = where_sql(kind, others, organization_id, deleted, singly=True)
    for _, keys in by_keys:
        where += f" AND {keys_sql} && ?::text[]"
        values.append(keys)
    return where, values


def _are_few(
    connection: Connection,
    kind: type,
    by_keys: Sequence[Condition],
    others: Sequence[Condition],
    organization_id: str,
    many: int,
) -> bool:
    """Whether few records meet the conditions that keys decide, when few meet all."""
    listing = table_of(kind).listing
    assert listing is not None
    if has_items(by_keys) or all(condition == listing.shown for condition in others):
        return True
    shown = () if listing.shown is None else (listing.shown,)
    counted = counted_sql(kind, (*by_keys, *shown), organization_id)
    return counted is not None and connection.execute(*counted).fetchall()[0][0] < many


def page_clauses(kind: type, where: str, order: Sequence[Order]) -> str:
    """The clauses of a query for a page of the records that meet a WHERE clause, up to its LIMIT and what follows.

    They are all found before they are sorted: by an index in list order, the server might read the whole list.
    """
    name = quoted(table_of(kind).name)
    columns = ", ".join(dict.fromkeys(['t."id"', *(f"t.{quoted(item.column)}" for item in order)]))
    return (
        f" WHERE t.id = ANY(ARRAY(SELECT t.id FROM (SELECT {columns} FROM {name} t{where} OFFSET 0) t"
        f"{order_sql(kind, order)} LIMIT ? OFFSET ?"
    )


def drop_former(connection: Connection) -> None:
    """Drop the indexes of an earlier version, whose facets were others."""
    names = {index[0] for table in TABLES if (index := facet_index(table)) is not None}
    for (name,) in connection.execute(
        "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE ?",
        ("%" + _FACETED.replace("_", "\\_") + "%",),
    ).fetchall():
        if name not in names:
            connection.execute(f'DROP INDEX "{name}"')
