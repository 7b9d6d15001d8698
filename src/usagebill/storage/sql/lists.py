"""Lists: the page of a list, and how many records it has.

The total is the sum of counters (`listed`) if they cover the filters. A page is read in one of four ways, and the
engine's planner does the rest:

1. a filter names a record, as of one customer: by that column's index;
2. few records have the facets asked for: by their facets;
3. one of the filters, alone, leads to few records: their ids are looked up first (`_leads`);
4. otherwise many records match, or nothing leads to them: along the list in its order, until the page is full.

All conditions are tested in each way, so a page never depends on the way that is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Item,
    Negate,
    Order,
    Related,
    Search,
    Within,
    eq,
)
from usagebill.storage.listings import Flag, Listing, SearchedWith, Total
from usagebill.storage.record_sql import bounded, implies, is_narrowed, is_selective, quoted
from usagebill.storage.sql.listed import (
    ListsDialect,
    Sql,
    TextSearch,
    columns_of,
    counter_tests,
    facet_column,
    on_counts,
    own_facets,
    shown_sql,
)
from usagebill.storage.tables import Table, table_of

# Counting stops there, for searches and for several filters that no counter covers.
MOST_COUNTED = 10_000
# The ids of so many other records stand for the condition on them, so that an index may give the order of the list.
_IDS = 10
# Documents are indexed by so many letters: shorter texts are looked for in each of them.
LETTERS = 3
# Between the texts of a document; no text that is searched for has it, nor the letters that stand for it.
SEPARATOR = "\x1f"
REPLACED = "\N{REPLACEMENT CHARACTER}"
_UNSEARCHED = frozenset({"\0", SEPARATOR, REPLACED})


Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


class Lists:
    """The lists of one organization. `ask` runs a query, once the counts and documents of all changes are written."""

    def __init__(self, ask: Ask, dialect: ListsDialect, organization_id: str) -> None:
        self._ask = ask
        self._dialect = dialect
        self._organization_id = organization_id

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
        filters = [condition for condition in _flat(listing, conditions) if condition != listing.shown]
        counted = self._counted(table, filters)
        if counted is not None and counted <= offset:
            return [], Total(counted)
        along_list: Sql = self._dialect.along(table), []
        if not is_narrowed(kind, filters):
            if not filters or (counted or 0) > self._dialect.few:
                return self._page(table, along_list, filters, limit, offset, counted)
            by_facets = None if counted is None else self._by_facets(table, filters)
            if by_facets is not None:
                return self._page(table, by_facets, filters, limit, offset, counted)
            filters = self._resolved(filters)
        if is_narrowed(kind, filters):
            by_column: Sql = f"{quoted(table.name)} t", []
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
        return self._counted(table, filters)

    # Totals

    def _counted(self, table: Table, filters: Sequence[Condition]) -> int | None:
        """The number of records by the counters; None if they do not cover a filter."""
        values: list[Any] = [self._organization_id]
        tests = counter_tests(self._dialect, table, filters, values)
        if tests is None:
            return None
        query = f'SELECT coalesce(SUM(c.n), 0) FROM "{table.name}_counts" c WHERE c.organization_id = ? AND {tests}'
        return int(self._ask(query, values)[0][0])

    def _total(self, table: Table, source: Sql, filters: Sequence[Condition], *, stops: bool) -> Total:
        """The number of records of a source. It stops at `MOST_COUNTED` for searches, and for several filters if it
        `stops` for these.
        """
        several = len(set(map(_filtered_by, filters))) > 1
        searches = [search for condition in filters if (search := _text_search(table, condition)) is not None]
        stops = (several and stops) or bool(searches)
        if searches and not several:
            # Of a text alone, the first documents that have it are enough.
            query, asked = self._dialect.ids_by_text(searches[0], self._organization_id)
            source = f"({query}) lead {self._dialect.joins} {quoted(table.name)} t ON t.id = lead.id", asked
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
        return int(self._ask(f"SELECT COUNT(*) FROM ({query}) q", values)[0][0])

    # Ways

    def _by_facets(self, table: Table, filters: Sequence[Condition]) -> Sql | None:
        """The records with the facets that filters name, if they are few."""
        assert table.listing is not None
        own = {facet_column(facet) for facet in own_facets(table)}
        deciding = [
            condition
            for condition in filters
            if (counter := on_counts(table.listing, condition)) is not None and own.issuperset(columns_of(counter))
        ]
        reached = self._counted(table, deciding) if deciding else None
        if reached is None or reached > self._dialect.few:
            return None
        return self._dialect.by_facets(table, deciding, self._organization_id)

    def _few_ids(self, table: Table, filters: Sequence[Condition]) -> Sql | None:
        """The few records that may match, by the first filter that leads to few; None if none does."""
        few = self._dialect.few
        for query, values in self._leads(table, filters):
            rows = self._ask(f"{query} LIMIT {few + 1}", values)
            if len(rows) <= few:
                return self._dialect.by_ids(table, list(dict.fromkeys(id for (id,) in rows)))
        return None

    def _leads(self, table: Table, filters: Sequence[Condition]) -> Iterator[Sql]:
        """Queries of the ids of records that fulfil a filter, where an index leads to them; those of texts may have
        more, of which short ones, for which all documents are looked at, come last.
        """
        assert table.listing is not None
        dialect, organization = self._dialect, self._organization_id
        name, shown = quoted(table.name), shown_sql(dialect, table, "t")
        for condition in filters:
            if (by_value := dialect.ids_by_value(table, condition, organization)) is not None:
                yield by_value
        searches = [search for condition in filters if (search := _text_search(table, condition)) is not None]
        for search in searches:
            if len(search.text) >= LETTERS:
                yield dialect.ids_by_text(search, organization)
        if (by_facets := self._by_facets(table, filters)) is not None:
            yield f"SELECT t.id FROM {by_facets[0]} WHERE {shown}", by_facets[1]
        for column in table.listing.ranges:
            bounds = [
                condition for condition in filters if isinstance(condition, Compare) and condition.column == column
            ]
            if bounds:
                values: list[Any] = [organization]
                tests = " AND ".join(
                    dialect.records.condition(table.kind, bound, "t", values, False) for bound in bounds
                )
                source = dialect.by_range(table, column)
                yield f"SELECT t.id FROM {source} WHERE t.organization_id = ? AND {tests} AND {shown}", values
        for condition in filters:
            if isinstance(condition, Related) and is_selective(table.kind, [condition]):
                values = [organization]
                test = dialect.records.condition(table.kind, condition, "t", values, True)
                yield f"SELECT t.id FROM {name} t WHERE t.organization_id = ? AND {test} AND {shown}", values
        for search in searches:
            if len(search.text) < LETTERS:
                yield dialect.ids_by_text(search, organization)

    def _resolved(self, filters: Sequence[Condition]) -> list[Condition]:
        """The filters, with those on other records replaced by their ids if these are few."""
        resolved: list[Condition] = []
        for condition in filters:
            resolved.append(condition)
            if not isinstance(condition, Related) or not is_selective(condition.kind, condition.conditions):
                continue
            where, values = self._dialect.records.where(
                condition.kind, condition.conditions, self._organization_id, True
            )
            rows = self._ask(
                f"SELECT t.id FROM {quoted(table_of(condition.kind).name)} t{where} LIMIT {_IDS + 1}", values
            )
            if len(rows) <= _IDS:
                ids = tuple(id for (id,) in rows)
                resolved[-1] = eq(condition.column, ids[0]) if len(ids) == 1 else Within(condition.column, ids)
        return resolved

    # Pages

    def _page(
        self,
        table: Table,
        source: Sql,
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
        self, table: Table, source: Sql, filters: Sequence[Condition], limit: int | None = None, offset: int = 0
    ) -> list[str]:
        assert table.listing is not None
        tests, values = self._tests(table, filters)
        page = "" if limit is None else f" LIMIT {bounded(limit)} OFFSET {bounded(offset)}"
        order = self._dialect.records.order(table.kind, table.listing.order)
        rows = self._ask(f"SELECT t.id FROM {source[0]} WHERE {tests}{order}{page}", [*source[1], *values])
        return [id for (id,) in rows]

    def _tests(self, table: Table, filters: Sequence[Condition]) -> Sql:
        """All that makes a record, as `t`, one of the list."""
        values: list[Any] = [self._organization_id]
        tests = ["t.organization_id = ?", shown_sql(self._dialect, table, "t")]
        # Texts last: they are in another table.
        for condition in sorted(filters, key=lambda condition: _text_search(table, condition) is not None):
            search = _text_search(table, condition)
            by_document = None if search is None else self._dialect.text_test(search, values)
            tests.append(by_document or self._dialect.records.condition(table.kind, condition, "t", values, False))
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


def _text_search(table: Table, condition: Condition) -> TextSearch | None:
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
    if not set(columns) <= set(listing.searched) or not folded or not _UNSEARCHED.isdisjoint(folded):
        return None
    is_whole = set(columns) == set(listing.searched) and party == listing.searched_with
    match others:
        case []:
            return TextSearch(table, folded, is_whole, None)
        case [Compare("id", "=", str(id))]:
            return TextSearch(table, folded, is_whole, id)
    return None
