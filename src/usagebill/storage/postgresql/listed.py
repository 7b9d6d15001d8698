"""What makes lists fast on a server, beside the counters of `storage.sql.listed`.

For a table whose records are listed (`storage.listings`):

- `<table>_listed` is an index of the listed records in list order, with the columns that filters name;
  `<table>_listed_by_<key>` is the same of one record's. `<table>_facet_<facet>` and `<table>_ranged_<column>` lead to
  the few records with a value. The server plans by its statistics; so that it never walks a list for few records, these
  are gathered behind `OFFSET 0`.
- `<table>_searched` indexes every three letters of a record's case-folded texts, if the server has `pg_trgm`. A search
  that covers the customers of invoices joins these.
- `<table>_items` indexes the keys and values of metadata.
- `<table>_counts` is written by triggers, whoever writes the records: COPY, or a person.

`storage.sql.lists` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from decimal import Decimal
from itertools import chain
from typing import Any, Final

import psycopg

from usagebill.storage.conditions import Condition, Item, SameText
from usagebill.storage.listings import Facet, Flag, Joined
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.locks import lock_key
from usagebill.storage.postgresql.queries import RECORD_SQL, folded_column, pattern_of
from usagebill.storage.postgresql.rows import escaped, folded_name, rows_of
from usagebill.storage.record_sql import is_nullable, quoted
from usagebill.storage.sql.list_counts import CounterAudit
from usagebill.storage.sql.listed import (
    ListsDialect,
    Sql,
    TextSearch,
    add_counts_sql,
    count_sql,
    facet_column,
    facet_columns,
    joined_columns,
    of_row,
    own_facets,
    shown_columns,
    shown_sql,
)
from usagebill.storage.sql.queries import literal
from usagebill.storage.tables import TABLES, Table, table_of

TEXT: Final = 'text COLLATE "C"'
TYPES: Final = {int: "bigint", str: TEXT, bytes: "bytea", Decimal: "numeric"}

# Entries of an index have a maximum size: keys of items are cut to this length, and longer ones not looked up.
_LONGEST: Final = 200
# Stands for NUL, which the server cannot read in JSON.
_NUL: Final = "\ue000"
# The lengths keep keys apart: {"key": "a", "value": "b=c"} is not {"key": "a=b", "value": "c"}.
ITEM_KEYS: Final = f"""
CREATE OR REPLACE FUNCTION item_keys(organization_id text, list text, items text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(DISTINCT left(k.key, {_LONGEST})), ARRAY[]::text[])
    FROM json_array_elements(
        replace(replace(items, '\\\\', '\\u005c'), '\\u0000', '{_NUL}')::json) item,
    LATERAL (SELECT organization_id || '/' || list || ':' || length(item ->> 'key') || ':' || (item ->> 'key')) name(n),
    LATERAL (VALUES (name.n), (name.n || '=' || (item ->> 'value'))) k(key) WHERE k.key IS NOT NULL
$$
"""
# The index of items is searched fast only while few additions wait to be merged into it: kB.
_WAITING: Final = 256


class PostgresLists(ListsDialect):
    """See `storage.sql.listed.ListsDialect`."""

    few = 5_000
    joins = "JOIN"
    records = RECORD_SQL

    def shown(self, kind: type, condition: Condition) -> str:
        return self.records.literal(kind, condition)

    def flag(self, test: str) -> str:
        return f"CASE WHEN {test} THEN 1 ELSE 0 END"

    def count_key(self, table: Table) -> str:
        return f"({', '.join(_count_columns(table))})"

    def along(self, table: Table) -> str:
        return f"{quoted(table.name)} t"

    def by_facets(self, table: Table, filters: Sequence[Condition], organization_id: str) -> Sql:
        values: list[Any] = [organization_id]
        tests = ["t.organization_id = ?", shown_sql(self, table, "t")]
        tests += [self.records.condition(table.kind, condition, "t", values, True) for condition in filters]
        return f"(SELECT t.* FROM {quoted(table.name)} t WHERE {' AND '.join(tests)} OFFSET 0) t", values

    def by_range(self, table: Table, column: str) -> str:
        return f"{quoted(table.name)} t"

    def by_ids(self, table: Table, ids: Sequence[str]) -> Sql:
        return f"unnest(?::text[]) lead(id) JOIN {quoted(table.name)} t ON t.id = lead.id", [list(ids)]

    def ids_by_value(self, table: Table, condition: Condition, organization_id: str) -> Sql | None:
        listing, ids = table.listing, f"SELECT t.id FROM {quoted(table.name)} t WHERE"
        assert listing is not None
        shown = shown_sql(self, table, "t")
        match condition:
            case SameText(column, text) if column in listing.folded:
                test = f"t.organization_id = ? AND t.{quoted(folded_name(column))} = ?"
                return f"{ids} {test} AND {shown}", [organization_id, escaped(text.casefold())]
            case Item(column, (("key", str(key)),)) if column in listing.items:
                item = f"{organization_id}/{column}:{len(key)}:{key}"
            case Item(column, (("key", str(key)), ("value", str(value)))) if column in listing.items:
                item = f"{organization_id}/{column}:{len(key)}:{key}={value}"
            case _:
                return None
        if len(item) >= _LONGEST or not {"\0", _NUL}.isdisjoint(item):
            return None
        return f"{ids} {_item_keys_sql(column, 't.')} @> ARRAY[?]::text[] AND {_items_sql(table, column, 't')}", [item]

    def ids_by_text(self, search: TextSearch, organization_id: str) -> Sql:
        # The organization is not looked up by an index, as the server would do if it took the text for a common one.
        table, pattern = search.table, pattern_of(search.text)
        assert table.listing is not None
        name, own = quoted(table.name), f"{_texts_sql(table, 't')} LIKE ?"
        parts = [f"SELECT t.id FROM {name} t WHERE t.organization_id || '' = ? AND {own}"]
        values: list[list[Any]] = [[organization_id, pattern]]
        if (party := table.listing.searched_with) is not None:
            other = table_of(party.kind)
            parts.append(
                f"SELECT t.id FROM {quoted(other.name)} o JOIN {name} t ON t.{quoted(party.column)} = o.id"
                f" AND t.organization_id = o.organization_id WHERE o.organization_id || '' = ?"
                f" AND {_texts_sql(other, 'o')} LIKE ? AND NOT {own}"
            )
            values.append([organization_id, pattern, pattern])
        if search.id is not None:
            parts = [f"{part} AND t.id <> ?" for part in parts]
            values = [[search.id], *([*bound, search.id] for bound in values)]
            parts.insert(0, "SELECT ?::text AS id")
        return " UNION ALL ".join(parts), list(chain.from_iterable(values))

    def text_test(self, search: TextSearch, values: list[Any]) -> str | None:
        return None


DIALECT: Final = PostgresLists()


class PostgresListCounts(CounterAudit):
    """See `storage.ports.KeptListCounts`. No numbers of events are kept: each list counts them."""

    dialect = DIALECT


def _listed() -> list[Table]:
    return [table for table in TABLES if table.listing is not None]


def _texts_sql(table: Table, row: str) -> str:
    """All searched texts of a `row` as one; of the table of an index if that is empty."""
    assert table.listing is not None
    columns = (folded_column(table.kind, "t", column) for column in table.listing.searched)
    texts = " || chr(31) || ".join(f"coalesce({column}, '')" for column in columns)
    return of_row(f"({texts})", row)


def _item_keys_sql(column: str, prefix: str = "") -> str:
    return f"item_keys({prefix}organization_id, {literal(column)}, {prefix}{quoted(column)})"


def _items_sql(table: Table, column: str, row: str) -> str:
    """Whether a `row` is listed and has items: the condition of their index."""
    name = f"{row}.{quoted(column)}" if row else quoted(column)
    return f"{name} <> '[]' AND {shown_sql(DIALECT, table, row)}"


# Indexes


def index_definitions(table: Table) -> Iterator[tuple[str, str]]:
    """Name and statement of the indexes of a list, but that of texts. Their names end with a digest of the statement,
    so one that has changed is made anew.
    """
    listing = table.listing
    if listing is None:
        return
    order = RECORD_SQL.order_terms(table.kind, listing.order)
    shown = shown_sql(DIALECT, table, "")
    sorted_by = {"id", "deleted_at", *(item.column for item in listing.order)}
    included = ", ".join(quoted(column) for column in _short_columns(table) if column not in sorted_by)
    yield _index(table, "listed", order, shown, f" INCLUDE ({included})" if included else "")
    for key in listing.keys:
        yield _index(table, f"listed_by_{key}", [quoted(key), *order], shown)
    leading = {index[0].split(" ")[0] for index in table.indexes} | {listing.order[0].column}
    for facet in own_facets(table):
        if isinstance(facet, Flag):
            test = of_row(RECORD_SQL.literal(table.kind, facet.condition), "")
            yield _index(table, f"facet_{facet.name}", [], f"{shown} AND {test}")
        elif isinstance(facet, str) and facet not in leading:
            yield _index(table, f"facet_{facet}", [quoted(facet)], shown)
    for column in listing.ranges:
        if column not in leading:
            present = f" AND {quoted(column)} IS NOT NULL" if is_nullable(table.kind, column) else ""
            yield _index(table, f"ranged_{column}", [quoted(column)], shown + present)
    for column in listing.folded:
        yield _index(table, f"folded_{column}", [quoted(folded_name(column))], shown)
    for column in listing.items:
        using = f'"{table.name}" USING gin ({_item_keys_sql(column)}) WITH (gin_pending_list_limit = {_WAITING})'
        yield _named(table, f"items_{column}", f"ON {using} WHERE {_items_sql(table, column, '')}")


def _short_columns(table: Table) -> list[str]:
    """The columns that filters name, but those with texts of any length, which an index may not take."""
    assert table.listing is not None
    facets = {facet for facet in table.listing.facets if isinstance(facet, str)}
    types = {item.name: str(item.type) for item in fields(table.kind)}
    named = dict.fromkeys((*facet_columns(table), *table.listing.ranges, *shown_columns(table)))
    return [
        column
        for column in named
        if column in facets or column.endswith("_id") or types[column].removesuffix(" | None") != "str"
    ]


def _index(table: Table, suffix: str, columns: Sequence[str], shown: str, included: str = "") -> tuple[str, str]:
    listed = ", ".join(("organization_id", *columns))
    return _named(table, suffix, f'ON "{table.name}" ({listed}){included} WHERE {shown}')


def _named(table: Table, suffix: str, definition: str) -> tuple[str, str]:
    name = f"{table.name}_{suffix}_{lock_key(definition) & 0xFFFFFFFF:08x}"
    return name, f'CREATE INDEX IF NOT EXISTS "{name}" {definition}'


def text_indexes() -> list[tuple[str, str]]:
    """Name and statement of the indexes of texts, which the extension is needed for."""
    return [
        _named(table, "searched", f'ON "{table.name}" USING gin ({_texts_sql(table, "")} gin_trgm_ops)')
        for table in _listed()
        if table.listing is not None and table.listing.searched
    ]


def make_text_indexes(connection: Connection) -> None:
    """Make the indexes of texts, if the server has the extension and lets us use it."""
    connection.execute("SAVEPOINT text_indexes")
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):
        # Not installed, or this user may not create it: searches read the texts one by one.
        connection.execute("ROLLBACK TO text_indexes")
    else:
        # It may be in a schema in which we find nothing else.
        [(schema,)] = connection.execute(
            "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'pg_trgm'"
        ).fetchall()
        for _, statement in text_indexes():
            connection.execute(statement.replace("gin_trgm_ops", f"{schema}.gin_trgm_ops"))
    connection.execute("RELEASE text_indexes")


# Counters


def _count_columns(table: Table) -> list[str]:
    assert table.listing is not None
    return ["organization_id", *(quoted(facet_column(facet)) for facet in table.listing.facets)]


def count_table(table: Table) -> str:
    """The statement that creates the counts of a table."""
    assert table.listing is not None
    declared = "".join(f", {quoted(facet_column(facet))} {_type(table, facet)}" for facet in table.listing.facets)
    key = f"UNIQUE NULLS NOT DISTINCT ({', '.join(_count_columns(table))})"
    return (
        f'CREATE TABLE "{table.name}_counts" (organization_id {TEXT} NOT NULL{declared}, n bigint NOT NULL, {key})'
        " WITH (fillfactor = 50)"
    )


def _type(table: Table, facet: Facet) -> str:
    match facet:
        case Flag():
            return "bigint"
        case Joined(kind, _, inner):
            return _type(table_of(kind), inner)
        case str():
            return next(TYPES[column.sql_type] for column in rows_of(table.kind).codec.columns if column.name == facet)


def count_triggers() -> Iterator[str]:
    """The statements that keep all counts."""
    for table in _listed():
        yield from _triggers_of(table)
    for table in TABLES:
        yield from _triggers_of_referred(table.kind)


def _triggers_of(table: Table) -> Iterator[str]:
    name, function = quoted(table.name), f"count_{table.name}"
    added, subtracted, moved = (
        add_counts_sql(DIALECT, table, count_sql(DIALECT, table, "TRUE", number=number, source=source))
        for number, source in (
            ("COUNT(*)", "changed t"),
            ("-COUNT(*)", "changed t"),
            ("SUM(t.sign)", "(SELECT OLD.*, -1 AS sign UNION ALL SELECT NEW.*, 1) t"),
        )
    )
    yield _function(
        function,
        f"IF TG_OP = 'INSERT' THEN {added}; ELSIF TG_OP = 'DELETE' THEN {subtracted};"
        f" ELSIF TG_OP = 'UPDATE' THEN {moved}; ELSE DELETE FROM \"{table.name}_counts\"; END IF; RETURN NULL;",
    )
    differs = _differs_sql(["organization_id", *shown_columns(table), *facet_columns(table)])
    for event, fires in (
        ("insert", f"AFTER INSERT ON {name} REFERENCING NEW TABLE AS changed FOR EACH STATEMENT"),
        ("delete", f"AFTER DELETE ON {name} REFERENCING OLD TABLE AS changed FOR EACH STATEMENT"),
        ("update", f"AFTER UPDATE ON {name} FOR EACH ROW WHEN ({differs})"),
        ("truncate", f"AFTER TRUNCATE ON {name} FOR EACH STATEMENT"),
    ):
        yield f'CREATE TRIGGER "count_{event}" {fires} EXECUTE FUNCTION "{function}"()'


def _triggers_of_referred(kind: type) -> Iterator[str]:
    """Those of records from which others take facets: these are subtracted before a change, and added afterwards."""
    watched: set[str] = set()
    before: list[str] = []
    after: list[str] = []
    for table in _listed():
        for (referred, column), inner in joined_columns(table).items():
            if referred is kind:
                watched |= inner
                tests = f"t.{quoted(column)} = NEW.id AND t.organization_id = NEW.organization_id"
                for statements, number in ((before, "-COUNT(*)"), (after, "COUNT(*)")):
                    counted = count_sql(DIALECT, table, tests, number=number)
                    statements.append(f"{add_counts_sql(DIALECT, table, counted)};")
    if not watched:
        return
    name = table_of(kind).name
    yield _function(
        f"count_by_{name}",
        f"IF TG_WHEN = 'BEFORE' THEN {' '.join(before)} RETURN NEW; END IF; {' '.join(after)} RETURN NULL;",
    )
    for when in ("before", "after"):
        yield (
            f'CREATE TRIGGER "count_{when}" {when.upper()} UPDATE ON {quoted(name)} FOR EACH ROW'
            f' WHEN ({_differs_sql(sorted(watched))}) EXECUTE FUNCTION "count_by_{name}"()'
        )


def _differs_sql(columns: Sequence[str]) -> str:
    """Whether a trigger's row has changed in one of the columns."""
    return " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in map(quoted, dict.fromkeys(columns)))


def _function(name: str, body: str) -> str:
    """A trigger's function, which finds our tables in any schema."""
    return (
        f'CREATE FUNCTION "{name}"() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT'
        f" AS $$ BEGIN {body} END $$"
    )


def drop_former(connection: Connection) -> None:
    """Drop what an earlier version needed for its lists: counts with their triggers, and indexes."""
    for (function,) in connection.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
        " AND prorettype = 'trigger'::regtype AND proname LIKE 'count\\_%'"
    ).fetchall():
        connection.execute(f'DROP FUNCTION "{function}" CASCADE')
    connection.execute("DROP TABLE IF EXISTS list_counts")
    for table in _listed():
        connection.execute(f'DROP TABLE IF EXISTS "{table.name}_counts"')
        for column in () if table.listing is None else table.listing.folded:
            connection.execute(f'DROP INDEX IF EXISTS "{table.name}_{column}"')
    names = {name for table in _listed() for name, _ in index_definitions(table)}
    names |= {name for name, _ in text_indexes()}
    for (name,) in connection.execute(
        "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = ANY(?::text[])"
        " AND indexname ~ '_(listed|facet|faceted|ranged|folded|items|searched)(_|$)'",
        ([table.name for table in _listed()],),
    ).fetchall():
        if name not in names:
            connection.execute(f'DROP INDEX "{name}"')


def count_all(connection: Connection) -> None:
    """Make the counts and their triggers, and count all records."""
    for table in _listed():
        connection.execute(count_table(table))
        connection.execute(add_counts_sql(DIALECT, table, count_sql(DIALECT, table, "TRUE")))
    for statement in count_triggers():
        connection.execute(statement)
