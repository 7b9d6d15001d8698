"""What makes lists fast in a file, beside the counters of `storage.sql.listed`.

For a table whose records are listed (`storage.listings`):

- `<table>_listed` has the listed records in list order, with the columns that filters name; `<table>_facets` has them
  by the facets that the record itself decides; `<table>_ranged_<column>` and `<table>_having_<column>` by one column.
- `<table>_documents` has the texts of each record that searches look at, case-folded, with those of the record that it
  is searched with. `<table>_search` indexes every three letters of a document.
- `<table>_values` has the items of each listed record (its metadata), and its texts that are compared in any case.

`list_writes` keeps them up to date, and `storage.sql.lists` reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from usagebill.storage.conditions import Compare, Condition, Item, SameText, Within
from usagebill.storage.listings import Facet, Flag, Joined
from usagebill.storage.record_sql import can_be_deleted, is_nullable, quoted
from usagebill.storage.sql.listed import (
    ListsDialect,
    Sql,
    TextSearch,
    add_counts_sql,
    count_sql,
    counter_tests,
    facet_column,
    facet_columns,
    facet_sql,
    own_facets,
    shown_columns,
    shown_sql,
)
from usagebill.storage.sql.lists import LETTERS, REPLACED, SEPARATOR
from usagebill.storage.sqlite.queries import RECORD_SQL
from usagebill.storage.sqlite.rows import codec_of, sql_value
from usagebill.storage.tables import Table, table_of

# How many pieces of a long text are looked up.
_PIECES = 30
# The records of a JSON list of ids.
_NAMED = "t.id IN (SELECT value FROM json_each(?))"


def folded_document(*texts: object) -> str:
    """The document of a record with these texts; None are left out."""
    document = SEPARATOR.join(str(text).casefold() for text in texts if text is not None)
    # The tokenizer stops at NUL.
    return document.replace("\0", REPLACED)


class SqliteLists(ListsDialect):
    """See `storage.sql.listed.ListsDialect`. The planner is told each index: it is shown no statistics."""

    few = 50_000
    joins = "CROSS JOIN"
    records = RECORD_SQL

    def shown(self, kind: type, condition: Condition) -> str:
        """Value by value: for a list of values, SQLite would build a table for every row written.

        The pluses rule out other partial indexes, for which SQLite looks at bound values and recompiles the statement
        each time.
        """
        match condition:
            case Compare(column, "=", value):
                values: tuple[object, ...] = (value,)
            case Within(column, values):
                pass
            case _:
                raise TypeError(condition)
        texts = sorted(str(sql_value(value)) for value in values)
        return "(" + " OR ".join(f"+t.{quoted(column)} = '{text}'" for text in texts) + ")"

    def flag(self, test: str) -> str:
        return f"coalesce({test}, 0)"

    def count_key(self, table: Table) -> str:
        # That of its only unique index.
        return ""

    def along(self, table: Table) -> str:
        return f'{quoted(table.name)} t INDEXED BY "{table.name}_listed"'

    def by_facets(self, table: Table, filters: Sequence[Condition], organization_id: str) -> Sql:
        """Those with the facets of a row of counts that meets the filters, by their index."""
        values: list[Any] = [organization_id]
        tests = counter_tests(self, table, filters, values)
        facets = own_facets(table)
        names = ", ".join(("c.organization_id", *(f"c.{quoted(facet_column(facet))}" for facet in facets)))
        joined = ["t.organization_id = c.organization_id"]
        for facet in facets:
            equals = "IS" if isinstance(facet, str) and is_nullable(table.kind, facet) else "="
            joined.append(f"{facet_sql(self, table, facet, 't')} {equals} c.{quoted(facet_column(facet))}")
        counts = f'"{table.name}_counts" c WHERE c.organization_id = ? AND c.n > 0 AND {tests}'
        return (
            f"(SELECT DISTINCT {names} FROM {counts}) c"
            f' CROSS JOIN {quoted(table.name)} t INDEXED BY "{table.name}_facets" ON {" AND ".join(joined)}'
        ), values

    def by_range(self, table: Table, column: str) -> str:
        assert table.listing is not None
        index = "listed" if column == table.listing.order[0].column else f"ranged_{column}"
        return f'{quoted(table.name)} t INDEXED BY "{table.name}_{index}"'

    def by_ids(self, table: Table, ids: Sequence[str]) -> Sql:
        return f"json_each(?) lead CROSS JOIN {quoted(table.name)} t ON t.id = lead.value", [json.dumps(ids)]

    def ids_by_value(self, table: Table, condition: Condition, organization_id: str) -> Sql | None:
        assert table.listing is not None
        match condition:
            case SameText(column, text) if column in table.listing.folded:
                value = {"field": column, "value": text.casefold()}
            case Item(column, (("key", str(key)),)) if column in table.listing.items:
                value = {"field": column, "key": key}
            case Item(column, (("key", str(key)), ("value", str(text)))) if column in table.listing.items:
                value = {"field": column, "key": key, "value": text}
            case _:
                return None
        tests = "".join(f" AND v.{column} = ?" for column in value)
        query = f'SELECT DISTINCT v.id FROM "{table.name}_values" v WHERE v.organization_id = ?{tests}'
        return query, [organization_id, *value.values()]

    def ids_by_text(self, search: TextSearch, organization_id: str) -> Sql:
        documents, index = f'"{search.table.name}_documents"', f'"{search.table.name}_search"'
        tests = "d.organization_id = ? AND instr(d.document, ?) > 0"
        source, values = f"{documents} d WHERE {tests}", [organization_id, search.text]
        if len(search.text) >= LETTERS:
            starts = range(len(search.text) - LETTERS + 1)
            pieces = list(dict.fromkeys(search.text[start : start + LETTERS] for start in starts))[:_PIECES]
            asked = " AND ".join('"{}"'.format(piece.replace('"', '""')) for piece in pieces)
            source = f"{index} s CROSS JOIN {documents} d ON d.sequence = s.rowid WHERE {index} MATCH ? AND {tests}"
            values.insert(0, asked)
        if search.id is None:
            return f"SELECT d.id FROM {source}", values
        return f"SELECT ? AS id UNION SELECT d.id FROM {source}", [search.id, *values]

    def text_test(self, search: TextSearch, values: list[Any]) -> str | None:
        if not search.is_whole:
            return None
        values.append(search.text)
        test = f'SELECT 1 FROM "{search.table.name}_documents" d WHERE d.id = t.id AND instr(d.document, ?) > 0'
        if search.id is None:
            return f"EXISTS ({test})"
        values.append(search.id)
        return f"(EXISTS ({test}) OR t.id = ?)"


DIALECT: Final = SqliteLists()


# The schema


def index_definitions(table: Table) -> Iterator[tuple[str, str]]:
    """Name and statement of the indexes of lists."""
    listing = table.listing
    if listing is None:
        return
    order = RECORD_SQL.order_terms(table.kind, listing.order)
    sorted_by = {"id", *(item.column for item in listing.order)}
    named = [*facet_columns(table), *listing.ranges, *listing.narrow, *shown_columns(table)]
    more = [quoted(column) for column in dict.fromkeys(named) if column not in {*sorted_by, "deleted_at"}]
    # A partial index has no deleted records, but SQLite tests the column: without it here, it would read the records.
    deleted = ['"deleted_at"'] if can_be_deleted(table.kind) else []
    shown = shown_sql(DIALECT, table, "")
    yield _index(table, "listed", [*order, *more], shown)
    for column in listing.narrow:
        yield _index(table, f"having_{column}", [quoted(column), *order, *more, *deleted], shown)
    if facets := [facet_sql(DIALECT, table, facet, "") for facet in own_facets(table)]:
        yield _index(table, "facets", [*facets, *order], shown)
    for column in listing.ranges:
        if column != listing.order[0].column:
            present = f" AND {quoted(column)} IS NOT NULL" if is_nullable(table.kind, column) else ""
            yield _index(table, f"ranged_{column}", [quoted(column), *order, *deleted], shown + present)


def _index(table: Table, suffix: str, columns: Sequence[str], shown: str) -> tuple[str, str]:
    name = f"{table.name}_{suffix}"
    where = "" if shown == "1" else f" WHERE {shown}"
    return name, f'CREATE INDEX "{name}" ON "{table.name}" ("organization_id", {", ".join(columns)}){where}'


def count_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """Type, name and statement of the counters of a table, in order of creation."""
    if table.listing is None:
        return
    name = f"{table.name}_counts"
    declared = "".join(f", {quoted(facet_column(facet))}{_type(table, facet)}" for facet in table.listing.facets)
    # Absent values are equal here, and no value equals them.
    keys = "".join(f", ifnull({quoted(facet_column(facet))}, x'')" for facet in table.listing.facets)
    yield "table", name, f'CREATE TABLE "{name}" (organization_id TEXT NOT NULL{declared}, n INTEGER NOT NULL)'
    yield "index", f"{name}_key", f'CREATE UNIQUE INDEX "{name}_key" ON "{name}" (organization_id{keys})'


def _type(table: Table, facet: Facet) -> str:
    match facet:
        case Flag():
            # Expressions have none: with one, the index of facets would not be used for it.
            return ""
        case Joined(kind, _, inner):
            return _type(table_of(kind), inner)
        case str():
            types = {column.name: column.sql_type for column in codec_of(table.kind).columns}
            return " INTEGER" if types[facet] is int else " TEXT"


def document_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """The same for the documents of a table, if it has any."""
    assert table.listing is not None
    if not table.listing.searched:
        return
    documents, search = f"{table.name}_documents", f"{table.name}_search"
    yield (
        "table",
        documents,
        (
            f'CREATE TABLE "{documents}" (sequence INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,'
            " organization_id TEXT NOT NULL, document TEXT NOT NULL)"
        ),
    )
    # Without the places of letters: the documents found are compared with the whole text anyway.
    yield (
        "table",
        search,
        (
            f'CREATE VIRTUAL TABLE "{search}" USING fts5(document, content="{documents}", content_rowid="sequence",'
            ' tokenize="trigram case_sensitive 1", detail="none", columnsize=0)'
        ),
    )
    add = f'INSERT INTO "{search}" (rowid, document) VALUES (new.sequence, new.document);'
    remove = f"""INSERT INTO "{search}" ("{search}", rowid, document) VALUES ('delete', old.sequence, old.document);"""
    for event, actions in (("insert", add), ("update", f"{remove} {add}"), ("delete", remove)):
        trigger = f"{documents}_{event}"
        statement = f'CREATE TRIGGER "{trigger}" AFTER {event.upper()} ON "{documents}" BEGIN {actions} END'
        yield "trigger", trigger, statement


def value_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """The same for the values of a table, if it has any."""
    assert table.listing is not None
    if not table.listing.items and not table.listing.folded:
        return
    name = f"{table.name}_values"
    yield (
        "table",
        name,
        (
            f'CREATE TABLE "{name}" (organization_id TEXT NOT NULL, field TEXT NOT NULL, key TEXT NOT NULL,'
            " value TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (organization_id, field, key, value, id))"
            " WITHOUT ROWID"
        ),
    )
    yield "index", f"{name}_id", f'CREATE INDEX "{name}_id" ON "{name}" (id)'


# Statements that keep them up to date


def counts_sql(table: Table, tests: str, *, number: str = "COUNT(*)", source: str | None = None) -> str:
    """The statement that adds the records, as `t`, that meet `tests` to the counts, or subtracts them with a minus."""
    return add_counts_sql(DIALECT, table, count_sql(DIALECT, table, tests, number=number, source=source))


def documents_sql(table: Table, tests: str) -> str:
    """A query of the documents of the records, as `t`, that meet `tests`."""
    assert table.listing is not None
    texts = [f"t.{quoted(column)}" for column in table.listing.searched]
    join = ""
    if (party := table.listing.searched_with) is not None:
        texts += [f"p.{quoted(column)}" for column in party.columns]
        join = (
            f" LEFT JOIN {quoted(table_of(party.kind).name)} p ON p.id = t.{quoted(party.column)}"
            " AND p.organization_id = t.organization_id"
        )
    return (
        f"SELECT t.id, t.organization_id, folded_document({', '.join(texts)}) AS document"
        f" FROM {quoted(table.name)} t{join} WHERE {tests}"
    )


def add_documents_sql(table: Table, tests: str = _NAMED) -> str:
    """The statement that writes these documents."""
    return (
        f'INSERT INTO "{table.name}_documents" (id, organization_id, document) {documents_sql(table, tests)}'
        " ON CONFLICT (id) DO UPDATE SET document = excluded.document WHERE document <> excluded.document"
    )


def values_sql(table: Table, tests: str = _NAMED) -> Iterator[str]:
    """Queries of the values of the listed records, as `t`, that meet `tests`: rows as they are stored."""
    assert table.listing is not None
    shown = shown_sql(DIALECT, table, "t")
    for column in table.listing.items:
        key, value = (f"json_extract(item.value, '$.{name}')" for name in ("key", "value"))
        yield (
            f"SELECT t.organization_id, '{column}', {key}, {value}, t.id FROM {quoted(table.name)} t,"
            f" json_each(coalesce(t.{quoted(column)}, '[]')) item WHERE {tests} AND {shown}"
        )
    for column in table.listing.folded:
        yield (
            f"SELECT t.organization_id, '{column}', '', casefold(t.{quoted(column)}), t.id"
            f" FROM {quoted(table.name)} t WHERE {tests} AND {shown} AND t.{quoted(column)} IS NOT NULL"
        )


def add_values_sql(table: Table, tests: str = _NAMED) -> Iterator[str]:
    """The statements that add these values."""
    for query in values_sql(table, tests):
        yield f'INSERT INTO "{table.name}_values" {query} ON CONFLICT DO NOTHING'


def add_sql(table: Table) -> list[str]:
    """The statements that add the records in a JSON list of ids."""
    assert table.listing is not None
    documents = [add_documents_sql(table)] if table.listing.searched else []
    return [counts_sql(table, _NAMED), *documents, *add_values_sql(table)]


def subtract_sql(table: Table) -> list[str]:
    """The statements that remove the counts and values of the record with an id."""
    assert table.listing is not None
    values = [f'DELETE FROM "{table.name}_values" WHERE id = ?'] if table.listing.items or table.listing.folded else []
    return [counts_sql(table, "t.id = ?", number="-COUNT(*)"), *values]


def forget_sql(table: Table) -> list[str]:
    """The statements that remove the document of the record with an id."""
    assert table.listing is not None
    return [f'DELETE FROM "{table.name}_documents" WHERE id = ?'] if table.listing.searched else []


def written_columns(table: Table) -> frozenset[str]:
    """The record's own columns that its counts, document and values depend on."""
    listing = table.listing
    assert listing is not None
    party = [listing.searched_with.column] if listing.searched_with else []
    columns = (*shown_columns(table), *facet_columns(table), *listing.searched, *party)
    return frozenset((*columns, *listing.items, *listing.folded))
