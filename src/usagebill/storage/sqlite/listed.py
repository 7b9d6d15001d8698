"""What makes lists fast: an index in list order, counters, documents to search, and values to look up.

For a table whose records are listed (`storage.listings`):

- `<table>_listed` has the listed records in list order, with the columns that filters name; `<table>_facets` has them
  by the facets that the record itself decides; `<table>_ranged_<column>` and `<table>_having_<column>` by one column.
- `<table>_counts` has the number of listed records for each combination of facets, in columns of the table's own
  names, so the condition of a filter reads the same on both.
- `<table>_documents` has the texts of each record that searches look at, case-folded, with those of the record that it
  is searched with. `<table>_search` indexes every three letters of a document.
- `<table>_values` has the items of each listed record (its metadata), and its texts that are compared in any case.

`list_writes` keeps them up to date, and `lists` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Columns,
    Compare,
    Condition,
    Has,
    Negate,
    Related,
    Search,
    Within,
)
from usagebill.storage.listings import Facet, Flag, Joined
from usagebill.storage.record_sql import can_be_deleted, is_nullable, quoted
from usagebill.storage.sqlite.queries import literal_sql, order_terms
from usagebill.storage.sqlite.rows import codec_of, sql_value
from usagebill.storage.tables import Table, table_of

# Between the texts of a document; no text that is searched for has it, nor the letters that stand for it.
SEPARATOR = "\x1f"
_REPLACED = "\N{REPLACEMENT CHARACTER}"
_UNSEARCHED = frozenset({"\0", SEPARATOR, _REPLACED})
# The records of a JSON list of ids.
_NAMED = "t.id IN (SELECT value FROM json_each(?))"


def folded_document(*texts: object) -> str:
    """The document of a record with these texts; None are left out."""
    document = SEPARATOR.join(str(text).casefold() for text in texts if text is not None)
    # The tokenizer stops at NUL.
    return document.replace("\0", _REPLACED)


def is_searchable(folded: str) -> bool:
    """Whether documents decide a search for this case-folded text."""
    return bool(folded) and _UNSEARCHED.isdisjoint(folded)


# Which records are listed


def shown_sql(table: Table, row: str) -> str:
    """The condition for a `row` to be listed: that of partial indexes, which queries repeat to use them."""
    assert table.listing is not None
    tests = ["t.deleted_at IS NULL"] if can_be_deleted(table.kind) else []
    if table.listing.shown is not None:
        tests.append(_shown_sql(table.listing.shown))
    return _of_row(" AND ".join(tests) or "1", row)


def _shown_sql(shown: Condition) -> str:
    """The condition on `t`, value by value: for a list of values, SQLite would build a table for every row written.

    The pluses rule out other partial indexes, for which SQLite looks at bound values and recompiles the statement each
    time.
    """
    match shown:
        case Compare(column, "=", value):
            values: tuple[object, ...] = (value,)
        case Within(column, values):
            pass
        case _:
            raise TypeError(shown)
    texts = sorted(str(sql_value(value)) for value in values)
    return "(" + " OR ".join(f"+t.{quoted(column)} = '{text}'" for text in texts) + ")"


def _of_row(sql: str, row: str) -> str:
    """SQL about `t` as SQL about `row`; if that is empty, about the table of an index."""
    return re.sub(r"\bt\.", f"{row}." if row else "", sql)


def _shown_columns(table: Table) -> list[str]:
    assert table.listing is not None
    columns = ["deleted_at"] if can_be_deleted(table.kind) else []
    return columns if table.listing.shown is None else [*columns, *columns_of(table.listing.shown)]


def columns_of(condition: Condition) -> list[str]:
    """The record's own columns that the condition depends on."""
    match condition:
        case Columns(left, _, right):
            return [left, right]
        case AnyOf(several) | AllOf(several):
            return [column for inner in several for column in columns_of(inner)]
        case Negate(inner):
            return columns_of(inner)
        case Search(columns, _):
            return list(columns)
        case Has():
            raise TypeError("a condition on records that refer to this one depends on no column")
        case _:
            return [condition.column]


# Facets


def facet_column(facet: Facet) -> str:
    """The column of counts that has the facet."""
    match facet:
        case str():
            return facet
        case Joined(_, column, inner):
            return f"{column.removesuffix('_id')}_{inner}"
        case Flag(name, _):
            return name


def own_facets(table: Table) -> list[Facet]:
    """The facets that the record's own columns decide, by which `<table>_facets` is sorted."""
    assert table.listing is not None
    return [
        facet
        for facet in table.listing.facets
        if isinstance(facet, str) or (isinstance(facet, Flag) and not isinstance(facet.condition, Related))
    ]


def _facet_sql(table: Table, facet: Facet, row: str) -> str:
    """The facet of a `row`; of the table of an index if that is empty."""
    match facet:
        case str():
            return f"{row}.{quoted(facet)}" if row else quoted(facet)
        case Joined(kind, column, inner):
            other = quoted(table_of(kind).name)
            return f"(SELECT o.{quoted(inner)} FROM {other} o WHERE o.id = {row}.{quoted(column)})"
        case Flag(_, condition):
            return f"coalesce({_of_row(literal_sql(table.kind, condition, 't'), row)}, 0)"


def by_facets_sql(table: Table, tests: str) -> str:
    """The listed records, as `t`, whose own facets have a row of counts that meets `tests` on `c`, by their index."""
    facets = own_facets(table)
    names = ", ".join(("c.organization_id", *(f"c.{quoted(facet_column(facet))}" for facet in facets)))
    joined = ["t.organization_id = c.organization_id"]
    for facet in facets:
        equals = "IS" if isinstance(facet, str) and is_nullable(table.kind, facet) else "="
        joined.append(f"{_facet_sql(table, facet, 't')} {equals} c.{quoted(facet_column(facet))}")
    return (
        f'(SELECT DISTINCT {names} FROM "{table.name}_counts" c WHERE c.organization_id = ? AND c.n > 0 AND {tests}) c'
        f' CROSS JOIN {quoted(table.name)} t INDEXED BY "{table.name}_facets" ON {" AND ".join(joined)}'
    )


# The schema


def index_definitions(table: Table) -> Iterator[tuple[str, str]]:
    """Name and statement of the indexes of lists."""
    listing = table.listing
    if listing is None:
        return
    order = order_terms(table.kind, listing.order)
    sorted_by = {"id", *(item.column for item in listing.order)}
    named = [*_facet_columns(table), *listing.ranges, *listing.narrow, *_shown_columns(table)]
    more = [quoted(column) for column in dict.fromkeys(named) if column not in {*sorted_by, "deleted_at"}]
    # A partial index has no deleted records, but SQLite tests the column: without it here, it would read the records.
    deleted = ['"deleted_at"'] if can_be_deleted(table.kind) else []
    shown = shown_sql(table, "")
    yield _index(table, "listed", [*order, *more], shown)
    for column in listing.narrow:
        yield _index(table, f"having_{column}", [quoted(column), *order, *more, *deleted], shown)
    if facets := [_facet_sql(table, facet, "") for facet in own_facets(table)]:
        yield _index(table, "facets", [*facets, *order], shown)
    for column in listing.ranges:
        if column != listing.order[0].column:
            present = f" AND {quoted(column)} IS NOT NULL" if is_nullable(table.kind, column) else ""
            yield _index(table, f"ranged_{column}", [quoted(column), *order, *deleted], shown + present)


def range_index(table: Table, column: str) -> str:
    """The index that has the listed records by the column of a range."""
    assert table.listing is not None
    return f"{table.name}_listed" if column == table.listing.order[0].column else f"{table.name}_ranged_{column}"


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


def move_counts_sql(table: Table, tests: str, sign: str, source: str = "") -> str:
    """The statement that adds the records, as `t`, that meet `tests` to the counts, or subtracts them with a minus."""
    return (
        f'INSERT INTO "{table.name}_counts" {count_sql(table, tests, sign, source)}'
        " ON CONFLICT DO UPDATE SET n = n + excluded.n"
    )


def count_sql(table: Table, tests: str, sign: str = "", source: str = "") -> str:
    """The listed records, as `t`, that meet `tests`, counted as the rows of counts are."""
    assert table.listing is not None
    values = ["t.organization_id", *(_facet_sql(table, facet, "t") for facet in table.listing.facets)]
    places = ", ".join(str(place) for place in range(1, len(values) + 1))
    return (
        f"SELECT {', '.join(values)}, {sign}COUNT(*) FROM {source} {quoted(table.name)} t"
        f" WHERE {tests} AND {shown_sql(table, 't')} GROUP BY {places}"
    )


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
    shown = shown_sql(table, "t")
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
    return [move_counts_sql(table, _NAMED, ""), *documents, *add_values_sql(table)]


def subtract_sql(table: Table) -> list[str]:
    """The statements that remove the counts and values of the record with an id."""
    assert table.listing is not None
    values = [f'DELETE FROM "{table.name}_values" WHERE id = ?'] if table.listing.items or table.listing.folded else []
    return [move_counts_sql(table, "t.id = ?", "-"), *values]


def forget_sql(table: Table) -> list[str]:
    """The statements that remove the document of the record with an id."""
    assert table.listing is not None
    return [f'DELETE FROM "{table.name}_documents" WHERE id = ?'] if table.listing.searched else []


def _facet_columns(table: Table) -> list[str]:
    """The record's own columns that facets depend on."""
    assert table.listing is not None
    columns: list[str] = []
    for facet in table.listing.facets:
        match facet:
            case str():
                columns.append(facet)
            case Joined(_, column, _):
                columns.append(column)
            case Flag(_, condition):
                columns += columns_of(condition)
    return columns


def written_columns(table: Table) -> frozenset[str]:
    """The record's own columns that its counts, document and values depend on."""
    listing = table.listing
    assert listing is not None
    party = [listing.searched_with.column] if listing.searched_with else []
    columns = (*_shown_columns(table), *_facet_columns(table), *listing.searched, *party)
    return frozenset((*columns, *listing.items, *listing.folded))


def joined_columns(table: Table) -> dict[tuple[type, str], set[str]]:
    """The columns of other records that the table's counts depend on, by their kind and the column with their id."""
    columns: dict[tuple[type, str], set[str]] = {}
    for facet in () if table.listing is None else table.listing.facets:
        match facet:
            case Joined(kind, column, inner):
                columns.setdefault((kind, column), set()).add(inner)
            case Flag(_, Related(kind, column, conditions)):
                columns.setdefault((kind, column), set()).update(
                    name for condition in conditions for name in columns_of(condition)
                )
    return columns
