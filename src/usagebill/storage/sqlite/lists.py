"""Lists: the page of a list, and how many records it has.

The total is the sum of counters (`listed`) if they cover the filters. A page is read in one of four ways, and SQLite's
planner does the rest:

1. a filter names a record, as of one customer: by that column's index;
2. few records (`FEW`) have the facets asked for: by the index of facets;
3. one of the filters, alone, leads to few records: their ids are looked up first (`_leads`);
4. otherwise many records match, or nothing leads to them: along the list in its order, until the page is full.

All conditions are tested in each way, so a page never depends on the way that is taken.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Item,
    Negate,
    Null,
    Order,
    Related,
    SameText,
    Search,
    Within,
    eq,
)
from usagebill.storage.listings import Flag, Joined, Listing, SearchedWith, Total
from usagebill.storage.record_sql import bounded, implies, quoted
from usagebill.storage.sqlite.listed import (
    by_facets_sql,
    columns_of,
    facet_column,
    is_searchable,
    own_facets,
    range_index,
    shown_sql,
)
from usagebill.storage.sqlite.queries import condition_sql, is_narrowed, is_selective, order_sql, where_sql
from usagebill.storage.tables import Table, table_of

# So many records are gathered and sorted; if there are more, the list is walked, which soon fills a page.
FEW = 50_000
# Counting stops there, for searches and for several filters that no counter covers.
MOST_COUNTED = 10_000
# The ids of so many other records stand for the condition on them, so that an index may give the order of the list.
_IDS = 10
# The tokenizer's letters, and how many pieces of a long text are looked up.
_LETTERS = 3
_PIECES = 30

# SQL, and the values it binds.
_Sql = tuple[str, list[Any]]


class Lists:
    """The lists of one organization, on a connection. `flush` writes what lists of this transaction's records need."""

    def __init__(self, connection: sqlite3.Connection, organization_id: str, flush: Callable[[], None]) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._flush = flush

    def page(
        self, kind: type, conditions: Sequence[Condition], order: Sequence[Order], limit: int, offset: int
    ) -> tuple[list[str], Total] | None:
        """The ids of one page and the total; None if the kind has no list in this order."""
        table = table_of(kind)
        listing = table.listing
        if listing is None or tuple(order) not in (listing.order, (*listing.order, Order("id"))):
            return None
        if not implies(conditions, listing.shown):
            return None
        self._flush()
        filters = [condition for condition in _flat(listing, conditions) if condition != listing.shown]
        counted = self._counted(table, filters)
        if counted is not None and counted <= offset:
            return [], Total(counted)
        along_list: _Sql = f'{quoted(table.name)} t INDEXED BY "{table.name}_listed"', []
        if not is_narrowed(kind, filters):
            if not filters or (counted or 0) > FEW:
                return self._page(table, along_list, filters, limit, offset, counted)
            by_facets = None if counted is None else self._by_facets(table, filters)
            if by_facets is not None:
                return self._page(table, by_facets, filters, limit, offset, counted)
            filters = self._resolved(filters)
        if is_narrowed(kind, filters):
            by_column: _Sql = f"{quoted(table.name)} t", []
            return self._page(table, by_column, filters, limit, offset, counted, stops=False)
        lead = self._few_ids(table, filters)
        if lead is None:
            return self._page(table, along_list, filters, limit, offset, counted)
        ids = self._ids(table, lead, filters)
        return ids[offset : offset + limit], Total(len(ids) if counted is None else counted)

    def count(self, kind: type, conditions: Sequence[Condition]) -> int | None:
        """The exact number of live records that match; None if counters do not cover the conditions."""
        table = table_of(kind)
        if table.listing is None or not implies(conditions, table.listing.shown):
            return None
        filters = [condition for condition in _flat(table.listing, conditions) if condition != table.listing.shown]
        if any(on_counts(table.listing, condition) is None for condition in filters):
            return None
        self._flush()
        return self._counted(table, filters)

    # Totals

    def _counted(self, table: Table, filters: Sequence[Condition]) -> int | None:
        """The number of records by the counters; None if they do not cover a filter."""
        assert table.listing is not None
        values: list[Any] = [self._organization_id]
        tests = self._counter_tests(table, filters, values)
        if tests is None:
            return None
        row = self._connection.execute(
            f'SELECT coalesce(SUM(c.n), 0) FROM "{table.name}_counts" c WHERE c.organization_id = ? AND {tests}', values
        ).fetchone()
        return int(row[0])

    def _counter_tests(self, table: Table, filters: Sequence[Condition], values: list[Any]) -> str | None:
        assert table.listing is not None
        tests = ["1"]
        for condition in filters:
            counter = on_counts(table.listing, condition)
            if counter is None:
                return None
            tests.append(condition_sql(table.kind, counter, "c", values, True))
        return " AND ".join(tests)

    def _total(self, table: Table, source: _Sql, filters: Sequence[Condition], *, stops: bool) -> Total:
        """The number of records of a source. It stops at `MOST_COUNTED` for searches, and for several filters if it
        `stops` for these.
        """
        several = len(set(map(_filtered_by, filters))) > 1
        searches = [search for condition in filters if (search := _text_search(table, condition)) is not None]
        stops = (several and stops) or bool(searches)
        if searches and not several:
            # Of a text alone, the first documents that have it are enough.
            query, asked = searches[0].documents(self._organization_id)
            source = f"({query}) lead CROSS JOIN {quoted(table.name)} t ON t.id = lead.id", asked
        if not several and not stops and (count := self._counted_by_lead(table, filters)) is not None:
            return Total(count)
        tests, values = self._tests(table, filters)
        count = self._number(
            f"SELECT 1 FROM {source[0]} WHERE {tests}{f' LIMIT {MOST_COUNTED + 1}' if stops else ''}",
            [*source[1], *values],
        )
        return Total(MOST_COUNTED, is_exact=False) if stops and count > MOST_COUNTED else Total(count)

    def _counted_by_lead(self, table: Table, filters: Sequence[Condition]) -> int | None:
        """The number of records for the only filter (with two bounds, if it is a range), by what leads to them."""
        if len(filters) == 1 and isinstance(filters[0], Negate) and isinstance(filters[0].condition, Item):
            lead = next(self._leads(table, [filters[0].condition]), None)
            listed = self._counted(table, ())
            return None if lead is None or listed is None else listed - self._number(*lead)
        lead = next(self._leads(table, filters), None)
        return None if lead is None else self._number(*lead)

    def _number(self, query: str, values: Sequence[Any]) -> int:
        return int(self._connection.execute(f"SELECT COUNT(*) FROM ({query})", values).fetchone()[0])

    # Ways

    def _by_facets(self, table: Table, filters: Sequence[Condition]) -> _Sql | None:
        """The records with the facets that filters name, if they are few."""
        assert table.listing is not None
        own = {facet_column(facet) for facet in own_facets(table)}
        deciding = [
            condition
            for condition in filters
            if (counter := on_counts(table.listing, condition)) is not None and own.issuperset(columns_of(counter))
        ]
        reached = self._counted(table, deciding) if deciding else None
        if reached is None or reached > FEW:
            return None
        values: list[Any] = [self._organization_id]
        tests = self._counter_tests(table, deciding, values)
        assert tests is not None
        return by_facets_sql(table, tests), values

    def _few_ids(self, table: Table, filters: Sequence[Condition]) -> _Sql | None:
        """The few records that may match, by the first filter that leads to few; None if none does."""
        for query, values in self._leads(table, filters):
            rows = self._connection.execute(f"{query} LIMIT {FEW + 1}", values).fetchall()
            if len(rows) <= FEW:
                ids = json.dumps(list(dict.fromkeys(id for (id,) in rows)))
                return f"json_each(?) lead CROSS JOIN {quoted(table.name)} t ON t.id = lead.value", [ids]
        return None

    def _leads(self, table: Table, filters: Sequence[Condition]) -> Iterator[_Sql]:
        """Queries of the ids of records that fulfil a filter, where an index leads to them; those of texts may have
        more, of which short ones, for which all documents are looked at, come last.
        """
        assert table.listing is not None
        listing, organization = table.listing, self._organization_id
        name, shown = quoted(table.name), shown_sql(table, "t")
        for condition in filters:
            if (value := _value_query(listing, condition)) is not None:
                tests = "".join(f" AND v.{column} = ?" for column in value)
                source = f'SELECT DISTINCT v.id FROM "{table.name}_values" v WHERE v.organization_id = ?'
                yield source + tests, [organization, *value.values()]
        searches = [search for condition in filters if (search := _text_search(table, condition)) is not None]
        for search in searches:
            if len(search.text) >= _LETTERS:
                yield search.documents(organization)
        if (by_facets := self._by_facets(table, filters)) is not None:
            yield f"SELECT t.id FROM {by_facets[0]} WHERE {shown}", by_facets[1]
        for column in listing.ranges:
            bounds = [
                condition for condition in filters if isinstance(condition, Compare) and condition.column == column
            ]
            if bounds:
                values: list[Any] = [organization]
                tests = " AND ".join(condition_sql(table.kind, bound, "t", values, False) for bound in bounds)
                index = f'{name} t INDEXED BY "{range_index(table, column)}"'
                yield f"SELECT t.id FROM {index} WHERE t.organization_id = ? AND {tests} AND {shown}", values
        for condition in filters:
            if isinstance(condition, Related) and is_selective(table.kind, [condition]):
                values = [organization]
                test = condition_sql(table.kind, condition, "t", values, True)
                yield f"SELECT t.id FROM {name} t WHERE t.organization_id = ? AND {test} AND {shown}", values
        for search in searches:
            if len(search.text) < _LETTERS:
                yield search.documents(organization)

    def _resolved(self, filters: Sequence[Condition]) -> list[Condition]:
        """The filters, with those on other records replaced by their ids if these are few."""
        resolved: list[Condition] = []
        for condition in filters:
            resolved.append(condition)
            if not isinstance(condition, Related) or not is_selective(condition.kind, condition.conditions):
                continue
            where, values = where_sql(condition.kind, condition.conditions, self._organization_id, True)
            rows = self._connection.execute(
                f"SELECT t.id FROM {quoted(table_of(condition.kind).name)} t{where} LIMIT {_IDS + 1}", values
            ).fetchall()
            if len(rows) <= _IDS:
                ids = tuple(id for (id,) in rows)
                resolved[-1] = eq(condition.column, ids[0]) if len(ids) == 1 else Within(condition.column, ids)
        return resolved

    # Pages

    def _page(
        self,
        table: Table,
        source: _Sql,
        filters: Sequence[Condition],
        limit: int,
        offset: int,
        counted: int | None,
        *,
        stops: bool = True,
    ) -> tuple[list[str], Total]:
        """A page of a source; its total is counted now, unless counters have it or the page is the last one."""
        ids = self._ids(table, source, filters, limit, offset)
        if counted is not None:
            return ids, Total(counted)
        if len(ids) < limit and (ids or not offset):
            return ids, Total(offset + len(ids))
        return ids, self._total(table, source, filters, stops=stops)

    def _ids(
        self, table: Table, source: _Sql, filters: Sequence[Condition], limit: int | None = None, offset: int = 0
    ) -> list[str]:
        assert table.listing is not None
        tests, values = self._tests(table, filters)
        page = "" if limit is None else f" LIMIT {bounded(limit)} OFFSET {bounded(offset)}"
        order = order_sql(table.kind, table.listing.order)
        rows = self._connection.execute(
            f"SELECT t.id FROM {source[0]} WHERE {tests}{order}{page}", [*source[1], *values]
        )
        return [id for (id,) in rows.fetchall()]

    def _tests(self, table: Table, filters: Sequence[Condition]) -> _Sql:
        """All that makes a record, as `t`, one of the list."""
        values: list[Any] = [self._organization_id]
        tests = ["t.organization_id = ?", shown_sql(table, "t")]
        # Texts last: they are in another table.
        for condition in sorted(filters, key=lambda condition: _text_search(table, condition) is not None):
            search = _text_search(table, condition)
            if search is None or not search.is_whole:
                tests.append(condition_sql(table.kind, condition, "t", values, False))
            else:
                tests.append(search.test(values))
        return " AND ".join(tests), values


def _flat(listing: Listing, conditions: Sequence[Condition]) -> Iterator[Condition]:
    flags = [facet.condition for facet in listing.facets if isinstance(facet, Flag)]
    for condition in conditions:
        if isinstance(condition, AllOf) and condition not in flags:
            yield from _flat(listing, condition.conditions)
        else:
            yield condition


def _filtered_by(condition: Condition) -> object:
    """What the condition filters by: the column of both bounds of a range."""
    return condition.column if isinstance(condition, Compare) else condition


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


def _value_query(listing: Listing, condition: Condition) -> dict[str, str] | None:
    """The columns of `<table>_values` that the condition asks for; None if it asks for something else."""
    match condition:
        case SameText(column, text) if column in listing.folded:
            return {"field": column, "value": text.casefold()}
        case Item(column, (("key", str(key)),)) if column in listing.items:
            return {"field": column, "key": key}
        case Item(column, (("key", str(key)), ("value", str(value)))) if column in listing.items:
            return {"field": column, "key": key, "value": value}
    return None


@dataclass(frozen=True, slots=True)
class _TextSearch:
    """A search for a case-folded text in documents, or for a record's own id. If it `is_whole`, a record matches if
    its document has the text; otherwise it only may.
    """

    table: Table
    text: str
    is_whole: bool
    id: str | None

    def test(self, values: list[Any]) -> str:
        """Whether a record, as `t`, matches."""
        values.append(self.text)
        documents = f'"{self.table.name}_documents" d WHERE d.id = t.id AND instr(d.document, ?) > 0'
        if self.id is None:
            return f"EXISTS (SELECT 1 FROM {documents})"
        values.append(self.id)
        return f"(EXISTS (SELECT 1 FROM {documents}) OR t.id = ?)"

    def documents(self, organization_id: str) -> _Sql:
        """The ids of the organization's records that match, listed or not."""
        documents, search = f'"{self.table.name}_documents"', f'"{self.table.name}_search"'
        tests = "d.organization_id = ? AND instr(d.document, ?) > 0"
        source, values = f"{documents} d WHERE {tests}", [organization_id, self.text]
        if len(self.text) >= _LETTERS:
            starts = range(len(self.text) - _LETTERS + 1)
            pieces = list(dict.fromkeys(self.text[start : start + _LETTERS] for start in starts))[:_PIECES]
            asked = " AND ".join('"{}"'.format(piece.replace('"', '""')) for piece in pieces)
            source = f"{search} s CROSS JOIN {documents} d ON d.sequence = s.rowid WHERE {search} MATCH ? AND {tests}"
            values.insert(0, asked)
        if self.id is None:
            return f"SELECT d.id FROM {source}", values
        return f"SELECT ? AS id UNION SELECT d.id FROM {source}", [self.id, *values]


def _text_search(table: Table, condition: Condition) -> _TextSearch | None:
    """The search of documents that the condition is, or that leads to all that fulfil it."""
    listing = table.listing
    options = condition.conditions if isinstance(condition, AnyOf) else (condition,)
    if listing is None or not listing.searched:
        return None
    party: SearchedWith | None = None
    match options:
        case (Search(columns, text), Related(kind, column, (Search(party_columns, same),)), *others) if text == same:
            party = SearchedWith(kind, column, party_columns)
            if party != listing.searched_with:
                return None
        case (Search(columns, text), *others):
            pass
        case _:
            return None
    folded = text.casefold()
    if not set(columns) <= set(listing.searched) or not is_searchable(folded):
        return None
    is_whole = set(columns) == set(listing.searched) and party == listing.searched_with
    match others:
        case []:
            return _TextSearch(table, folded, is_whole, None)
        case [Compare("id", "=", str(id))]:
            return _TextSearch(table, folded, is_whole, id)
    return None
