"""What lists are made of, in the SQL of both engines: which records are listed, and counters of their facets.

`<table>_counts` has the number of listed records (`storage.listings`) for each combination of facets, in columns of the
table's own names, so the condition of a filter reads the same on both.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Columns,
    Compare,
    Condition,
    Has,
    Negate,
    Null,
    Related,
    Search,
    Within,
    eq,
)
from usagebill.storage.listings import Facet, Flag, Joined, Listing
from usagebill.storage.record_sql import can_be_deleted, quoted
from usagebill.storage.sql.queries import RecordSql
from usagebill.storage.tables import Table, table_of

# SQL, and the values it binds.
Sql = tuple[str, list[Any]]


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A search for a case-folded text in documents, or for a record's own id. If it `is_whole`, a record matches if
    its document has the text; otherwise it only may.
    """

    table: Table
    text: str
    is_whole: bool
    id: str | None


class ListsDialect(ABC):
    """How an engine lists. Records are aliased `t`, rows of counts `c`. A source is what follows FROM."""

    # So many records are gathered and sorted; if there are more, the list is walked, which soon fills a page.
    few: ClassVar[int]
    # Joins two sources; the first one leads.
    joins: ClassVar[str]
    records: ClassVar[RecordSql]

    @abstractmethod
    def shown(self, kind: type, condition: Condition) -> str:
        """The same of the condition for a record to be listed, as partial indexes have it."""

    @abstractmethod
    def flag(self, test: str) -> str:
        """1 if the test is true, otherwise 0."""

    @abstractmethod
    def count_key(self, table: Table) -> str:
        """What rows of counts differ by, as ON CONFLICT names it."""

    @abstractmethod
    def along(self, table: Table) -> str:
        """The source of a list in its order."""

    @abstractmethod
    def by_facets(self, table: Table, filters: Sequence[Condition], organization_id: str) -> Sql:
        """The source of the listed records that fulfil filters by their own facets, if they are few."""

    @abstractmethod
    def by_range(self, table: Table, column: str) -> str:
        """The source of listed records by the column of a range."""

    @abstractmethod
    def by_ids(self, table: Table, ids: Sequence[str]) -> Sql:
        """The source of the records with these ids, without repetition."""

    @abstractmethod
    def ids_by_value(self, table: Table, condition: Condition, organization_id: str) -> Sql | None:
        """A query of the ids of listed records with an item, or a text in any case; None for other conditions."""

    @abstractmethod
    def ids_by_text(self, search: TextSearch, organization_id: str) -> Sql:
        """A query of the ids of the records whose documents have the text, listed or not, and that with the id."""

    @abstractmethod
    def text_test(self, search: TextSearch, values: list[Any]) -> str | None:
        """Whether the record matches, by its document; None if that does not decide it."""


# Which records are listed


def shown_sql(dialect: ListsDialect, table: Table, row: str) -> str:
    """The condition for a `row` to be listed: that of partial indexes, which queries repeat to use them. If `row` is
    empty, it is that of the table of an index.
    """
    assert table.listing is not None
    tests = ["t.deleted_at IS NULL"] if can_be_deleted(table.kind) else []
    if table.listing.shown is not None:
        tests.append(dialect.shown(table.kind, table.listing.shown))
    return of_row(" AND ".join(tests) or dialect.records.true, row)


def of_row(sql: str, row: str) -> str:
    """SQL about `t` as SQL about `row`; if that is empty, about the table of an index."""
    return re.sub(r"\bt\.", f"{row}." if row else "", sql)


def shown_columns(table: Table) -> list[str]:
    """The columns that decide whether a record is listed."""
    assert table.listing is not None
    columns = ["deleted_at"] if can_be_deleted(table.kind) else []
    return columns if table.listing.shown is None else [*columns, *columns_of(table.listing.shown)]


def columns_of(condition: Condition) -> list[str]:
    """The record's own columns that the condition depends on."""
    match condition:
        case Columns(left, _, right):
            return [left, *right]
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
    """The facets that the record's own columns decide."""
    assert table.listing is not None
    return [
        facet
        for facet in table.listing.facets
        if isinstance(facet, str) or (isinstance(facet, Flag) and not isinstance(facet.condition, Related))
    ]


def facet_sql(dialect: ListsDialect, table: Table, facet: Facet, row: str) -> str:
    """The facet of a `row`; of the table of an index if that is empty."""
    match facet:
        case str():
            return f"{row}.{quoted(facet)}" if row else quoted(facet)
        case Joined(kind, column, inner):
            other = quoted(table_of(kind).name)
            return f"(SELECT o.{quoted(inner)} FROM {other} o WHERE o.id = {row}.{quoted(column)})"
        case Flag(_, condition):
            return dialect.flag(of_row(dialect.records.literal(table.kind, condition), row))


def facet_columns(table: Table) -> list[str]:
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


# Counters


def count_sql(
    dialect: ListsDialect, table: Table, tests: str, *, number: str = "COUNT(*)", source: str | None = None
) -> str:
    """The listed records, as `t`, that meet `tests`, counted as the rows of counts are."""
    assert table.listing is not None
    values = ["t.organization_id", *(facet_sql(dialect, table, facet, "t") for facet in table.listing.facets)]
    places = ", ".join(str(place) for place in range(1, len(values) + 1))
    return (
        f"SELECT {', '.join(values)}, {number} FROM {source or f'{quoted(table.name)} t'}"
        f" WHERE {tests} AND {shown_sql(dialect, table, 't')} GROUP BY {places}"
    )


def add_counts_sql(dialect: ListsDialect, table: Table, counted: str) -> str:
    """The statement that adds the rows of a query, such as `count_sql`, to the counts."""
    name = quoted(f"{table.name}_counts")
    return (
        f"INSERT INTO {name} {counted} ON CONFLICT {dialect.count_key(table)} DO UPDATE SET n = {name}.n + excluded.n"
    )


def counter_tests(dialect: ListsDialect, table: Table, filters: Sequence[Condition], values: list[Any]) -> str | None:
    """The filters as tests of a row of counts; None if they do not decide one of them."""
    assert table.listing is not None
    tests = [dialect.records.true]
    for condition in filters:
        counter = on_counts(table.listing, condition)
        if counter is None:
            return None
        tests.append(dialect.records.condition(table.kind, counter, "c", values, True))
    return " AND ".join(tests)


def on_counts(listing: Listing, condition: Condition) -> Condition | None:
    """The condition on the columns of counts; None if they do not decide it."""
    facets = listing.facets
    for facet in facets:
        if isinstance(facet, Flag):
            if condition == facet.condition:
                return eq(facet.name, 1)
            match condition, facet.condition:
                case Null(column, present), Null(same, other) if column == same and present != other:
                    return eq(facet.name, 0)
    match condition:
        case Compare(column) | Within(column) | Null(column):
            return condition if column in facets else None
        case AnyOf(several) | AllOf(several):
            parts = [on_counts(listing, part) for part in several]
            known = tuple(part for part in parts if part is not None)
            return type(condition)(known) if len(known) == len(parts) else None
        case Negate(inner):
            part = on_counts(listing, inner)
            return None if part is None else Negate(part)
        case Related(kind, column, several):
            if column in facets:
                return condition
            joined = [(Joined(kind, column, getattr(part, "column", "")), part) for part in several]
            if not joined or any(facet not in facets for facet, _ in joined):
                return None
            renamed = [_renamed(part, facet_column(facet)) for facet, part in joined]
            return None if None in renamed else AllOf(tuple(part for part in renamed if part is not None))
    return None


def _renamed(condition: Condition, column: str) -> Condition | None:
    """The condition on a column of another name."""
    match condition:
        case Compare(_, operator, value):
            return Compare(column, operator, value)
        case Within(_, values):
            return Within(column, values)
        case Null(_, present):
            return Null(column, present)
    return None
