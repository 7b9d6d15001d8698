"""Lists: the records of a page and the total count, by the cheapest plan.

The counts (`counts`) tell beforehand how many records match. If few do, an index gathers them and they are sorted; if
many do, a walk through the index in list order soon fills a page. Either way, only ids are read until the records of
the page are known.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from usagebill.storage.conditions import (
    AllOf,
    Compare,
    Condition,
    Negate,
    Order,
    Related,
    Within,
)
from usagebill.storage.record_sql import bounded, kinds_in, quoted
from usagebill.storage.sqlite.counts import (
    UNFILTERED,
    Counted,
    counted,
    has_facets,
    whole_range,
)
from usagebill.storage.sqlite.items import ItemQuery, item_query
from usagebill.storage.sqlite.list_conditions import (
    by_facets,
    by_range,
    driven_where,
    first_in_list_order,
    in_list_order,
    index_in_order,
    is_skewed,
    item_within,
    leads_past_text,
    merged_facets,
    merged_values,
    partial_index_sql,
    resolved,
)
from usagebill.storage.sqlite.list_costs import (
    FEW,
    Page,
    Size,
    gathers,
    guides,
    is_common,
    is_nothing,
    most_parts,
    slot_tests,
    walks,
)
from usagebill.storage.sqlite.queries import is_narrowed, looks_up, order_sql, where_sql
from usagebill.storage.sqlite.range_plans import RangePlan, range_plan
from usagebill.storage.sqlite.searches import Found, TextSearch, find, page_of, search_of
from usagebill.storage.sqlite.slots import Span, slot_bounds, span_parts
from usagebill.storage.sqlite.text_counts import common_place, count_common_text, count_common_within, count_text
from usagebill.storage.sqlite.texts import is_broad, searches_broadly
from usagebill.storage.sqlite.value_counts import count_value, days_of_value, has_pattern, with_values
from usagebill.storage.tables import table_of

# Up to this many slots are walked one by one.
_PARTS = 20
# Up to this many entries are walked if the text of each is read.
_SOON_TESTED = 1_000


class Lists:
    """The lists of one organization, on a connection."""

    def __init__(
        self, connection: sqlite3.Connection, organization_id: str, flush: Callable[[Iterable[type]], None]
    ) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._flush = flush
        self._counted: dict[tuple[object, type, tuple[Condition, ...]], int] = {}
        self._found_sets: dict[tuple[object, type, str | None, tuple[Condition, ...]], Found | None] = {}
        self._counted_texts: dict[tuple[object, type, Condition], int | None] = {}
        self._matched_values: dict[tuple[object, type, tuple[Condition, ...]], list[Condition]] = {}

    def count(self, kind: type, conditions: Sequence[Condition]) -> int:
        """The number of live records that match."""
        # A snapshot never changes, so a page and its count share the result.
        key = getattr(self._connection, "total_changes", None), kind, tuple(conditions)
        if key[0] is None or not looks_up(conditions):
            return self._count(kind, conditions)
        if key not in self._counted:
            self._counted[key] = self._count(kind, conditions)
        return self._counted[key]

    def _count(self, kind: type, conditions: Sequence[Condition]) -> int:
        conditions, part = self._counted_part(kind, conditions)
        if part is None:
            return self._counted_one_by_one(kind, self._resolved(conditions))
        counts, remaining = part
        if not remaining:
            return self._size(kind, counts).matching
        if (within := item_within(kind, conditions, counts, remaining)) is not None:
            return within.count(self._connection, self._organization_id)
        number = self._number_of_item(kind, counts, remaining)
        if number is not None:
            return number
        searched = search_of(kind, counts, remaining)
        number = None if searched is None else self._number_of_search(kind, counts, remaining, searched)
        if number is not None:
            return number
        if len(remaining) == 1 and counts.span is None:
            size = self._size(kind, counts)
            having = self._found(kind, remaining[0]) if size.matching == size.all else None
            if having is not None:
                return having
            beside = self._counted_beside_text(kind, counts, remaining[0], size)
            if beside is not None:
                return beside
        if (plan := self._of_ranges(kind, conditions, counts, remaining)) is not None:
            return plan.count(self._connection)
        if self._leads_past_text_by_range(kind, counts, remaining):
            source, values = self._by_range(kind, conditions, counts)
            return int(self._connection.execute(f"SELECT COUNT(*) FROM {source}", values).fetchone()[0])
        if len(remaining) == 1 and isinstance(remaining[0], Negate) and counts.span is None:
            without = self._counted_one_by_one(kind, [*counts.conditions, remaining[0].condition])
            return self._size(kind, counts).matching - without
        return self._counted_one_by_one(kind, self._resolved(conditions))

    def ids(
        self, kind: type, conditions: Sequence[Condition], order: Sequence[Order], limit: int, offset: int
    ) -> list[str] | None:
        """The ids of one page; None if the kind has no list in this order."""
        table = table_of(kind)
        if table.listing is None or tuple(order) not in (table.listing.order, (*table.listing.order, Order("id"))):
            return None
        page = Page(tuple(order), limit, offset)
        conditions, part = self._counted_part(kind, conditions)
        if part is None:
            return self._gathered(kind, self._resolved(conditions), page)
        counts, remaining = part
        if (within := item_within(kind, conditions, counts, remaining)) is not None:
            return within.ids(self._connection, self._organization_id, limit, offset)
        if remaining:
            item = item_query(kind, remaining[0]) if len(remaining) == 1 and counts.span is None else None
            ids = None
            if item is None or item.value is None or self._number_of_item(kind, counts, remaining) is None:
                ids = self._of_sets(kind, conditions, counts, remaining, page)
            if ids is not None:
                return ids
            if item is not None and item.value is not None:
                return self._of_item(kind, item, counts, page)
            if len(remaining) == 1 and counts.span is None:
                ids = self._of_search(kind, remaining[0], conditions, counts, page)
                if ids is not None:
                    return ids
            if is_narrowed(kind, conditions):
                return self._gathered(kind, self._resolved(conditions), page)
            if (plan := self._of_ranges(kind, conditions, counts, remaining)) is not None:
                return self._page(plan.source, plan.values, kind, page) if plan.size else []
            if looks_up(remaining):
                return self._of_texts(kind, conditions, counts, remaining, page)
            if is_broad(self._connection, kind, remaining, FEW):
                return self._walked(kind, conditions, page)
            return self._gathered(kind, self._resolved(conditions), page)
        size = self._size(kind, counts)
        if size.matching <= offset:
            return []
        if counts.span is not None and counts.span.column in table.listing.keys:
            return self._of_key(kind, conditions, counts, size, page)
        if size.matching == size.all:
            # The whole list: there are no further conditions.
            conditions = ()
        entries = page.entries(size)
        if counts.value is not None and size.matching < size.all:
            return self._of_value(kind, conditions, counts, size, page)
        if size.matching < size.all and gathers(size.matching, entries):
            if counts.span is not None:
                if counts.own and has_facets(table) and counts.span.column == page.order[0].column:
                    having = self._size(kind, replace(counts, span=None, bounds=())).matching
                    if gathers(having, entries):
                        # The index of facets has the list's order too.
                        return self._of_facets(kind, counts, page, AllOf(counts.bounds))
                in_order = counts.span.column == page.order[0].column
                index = "" if in_order else f"{table.name}_ranged_{counts.span.column}"
                return self._gathered(kind, self._resolved(conditions), page, index)
            if counts.own and has_facets(table):
                return self._of_facets(kind, counts, page)
            return self._gathered(kind, self._resolved(conditions), page)
        if size.matching < size.all and is_skewed(kind, counts.bounds):
            ids = self._of_sets(kind, conditions, counts, (), page)
            if ids is not None:
                return ids
        if size.matching < size.all and counts.span is None and counts.own and has_facets(table):
            ids = self._merged(kind, (), counts, page, most_parts(page, entries, size.matching, size.matching))
            if ids is not None:
                return ids
        if guides(size, entries):
            return self._guided(kind, conditions, counts, page)
        return self._walked(kind, conditions, page)

    def _counted_part(
        self, kind: type, conditions: Sequence[Condition]
    ) -> tuple[Sequence[Condition], tuple[Counted, list[Condition]] | None]:
        """The conditions, resolved if that helps; and the part that counts can answer, with the remaining ones."""
        part = counted(kind, conditions)
        if part is not None or looks_up(conditions):
            self._flush((kind, *(related for condition in conditions for related in kinds_in(condition))))
        listing = table_of(kind).listing
        if part is None or listing is None:
            return conditions, part
        if any(isinstance(condition, Related) and condition.column in listing.keys for condition in part[1]):
            conditions = self._resolved(conditions)
            part = counted(kind, conditions)
        elif has_pattern(kind, part[1]):
            conditions = self._with_values(kind, conditions)
            part = counted(kind, conditions)
        return conditions, part

    def _with_values(self, kind: type, conditions: Sequence[Condition]) -> list[Condition]:
        key = getattr(self._connection, "total_changes", None), kind, tuple(conditions)
        if key[0] is None or key not in self._matched_values:
            self._matched_values[key] = with_values(self._connection, kind, conditions, self._organization_id)
        return self._matched_values[key]

    # Counting

    def _counts_sql(self, kind: type) -> str:
        return f'"{table_of(kind).name}_counts" c WHERE c.organization_id = ? AND c.ranged = ?'

    def _size(self, kind: type, counts: Counted) -> Size:
        span = counts.span
        matching, all_shown = self._connection.execute(
            f"SELECT coalesce(SUM(n) FILTER (WHERE {counts.facets}), 0), coalesce(SUM(n), 0)"
            f" FROM {self._counts_sql(kind)}",
            (*counts.values, self._organization_id, whole_range(table_of(kind))),
        ).fetchone()
        if counts.value is not None:
            facets = counts.facets, counts.values
            whole = count_value(self._connection, table_of(kind), counts.value, span, facets, self._organization_id)
            return Size(whole if span is None else whole + self._counted_in_cuts(kind, counts, span), all_shown)
        if span is None:
            return Size(matching, all_shown)
        within = 0
        for ranged, slots in span_parts(table_of(kind), span):
            tests, values = slot_tests(slots)
            within += self._connection.execute(
                f"SELECT coalesce(SUM(n), 0) FROM {self._counts_sql(kind)}{tests} AND {counts.facets}",
                (self._organization_id, ranged, *values, *counts.values),
            ).fetchone()[0]
        return Size(within + self._counted_in_cuts(kind, counts, span), all_shown)

    def _counted_one_by_one(self, kind: type, conditions: Sequence[Condition]) -> int:
        if is_nothing(conditions):
            return 0
        where, values = driven_where(self._connection, kind, conditions, self._organization_id)
        where += partial_index_sql(kind, conditions)
        counted = self._connection.execute(f"SELECT COUNT(*) FROM {quoted(table_of(kind).name)} t{where}", values)
        return int(counted.fetchone()[0])

    def _counted_beside_text(self, kind: type, counts: Counted, search: Condition, size: Size) -> int | None:
        """The number of records that match a filter and contain an uncounted text; None if it is cheaper to test the
        records with the text, which are fewer than those with the filter and those without.
        """
        if not leads_past_text(self._connection, kind, counts, search, size):
            return None
        if size.matching * 2 <= size.all:
            return self._counted_by_facets(kind, counts, search)
        having = self._found(kind, search)
        return None if having is None else having - self._counted_by_facets(kind, counts, search, "NOT ")

    def _number_of_item(self, kind: type, counts: Counted, remaining: Sequence[Condition]) -> int | None:
        """The number of listed records that have an item, or lack it; None if there are other conditions."""
        if len(remaining) > 1 or counts.span is not None:
            return None
        condition = remaining[0]
        item = item_query(kind, condition.condition if isinstance(condition, Negate) else condition)
        size = None if item is None else self._size(kind, counts)
        if item is None or size is None or size.matching != size.all:
            return None
        having = item.count(self._connection, self._organization_id)
        return size.all - having if isinstance(condition, Negate) else having

    def _number_of_search(
        self, kind: type, counts: Counted, remaining: Sequence[Condition], searched: TextSearch
    ) -> int | None:
        """The number of records that a search with other filters finds; None if unknown."""
        connection, organization_id = self._connection, self._organization_id
        if len(remaining) == 1 and not searched.bounds:
            number = count_common_text(connection, kind, remaining[0], counts, organization_id)
            if number is not None:
                return number
        elif len(remaining) == 1 and counts.span is not None:
            size = self._size(kind, replace(counts, span=None, bounds=()))
            if size.matching == size.all:
                whole = count_common_within(connection, kind, remaining[0], counts, organization_id)
                if whole is not None:
                    return whole + self._counted_in_cuts(kind, counts, counts.span, remaining[0])
        sets = self._sets(kind, searched)
        return None if sets is None else sets.number

    def _counted_in_cuts(self, kind: type, counts: Counted, span: Span, *more: Condition) -> int:
        """The number of matching records in the slots that the bounds of the range cut."""
        conditions = (*counts.conditions, *more)
        if not span.cuts or is_nothing(conditions):
            return 0
        number = 0
        source, values = self._by_range(kind, conditions, counts)
        for cut in span.cuts:
            sql = f"SELECT COUNT(*) FROM {source}" + "".join(f" AND t.{quoted(span.column)} {test}" for test, _ in cut)
            number += self._connection.execute(sql, (*values, *(value for _, value in cut))).fetchone()[0]
        return number

    def _sets(self, kind: type, searched: TextSearch) -> Found | None:
        key = getattr(self._connection, "total_changes", None), kind, searched.text, searched.conditions
        if key not in self._found_sets:
            self._found_sets[key] = find(self._connection, kind, searched, self._organization_id)
        return self._found_sets[key]

    def _of_ranges(
        self, kind: type, conditions: Sequence[Condition], counts: Counted, remaining: Sequence[Condition]
    ) -> RangePlan | None:
        return range_plan(
            kind, conditions, counts, remaining, self._organization_id, lambda part: self._size(kind, part).matching
        )

    def _leads_past_text_by_range(self, kind: type, counts: Counted, remaining: Sequence[Condition]) -> bool:
        """Whether more records contain the text than are in the query's range of dates or amounts."""
        table = table_of(kind)
        if counts.span is None or table.listing is None or counts.span.column in table.listing.keys:
            return False
        if len(remaining) != 1 or not looks_up(remaining):
            return False
        return searches_broadly(self._connection, kind, remaining[0], self._size(kind, counts).matching)

    def _counted_by_facets(self, kind: type, counts: Counted, search: Condition, sign: str = "") -> int:
        source, values = by_facets(kind, counts, self._organization_id, search, sign)
        return int(self._connection.execute(f"SELECT COUNT(*) FROM {source}", values).fetchone()[0])

    def _found(self, kind: type, condition: Condition) -> int | None:
        """The number of listed records that contain the text of the condition; None without an index."""
        # A snapshot never changes, so a page and its count share the result.
        key = getattr(self._connection, "total_changes", None), kind, condition
        if key[0] is None or key not in self._counted_texts:
            self._counted_texts[key] = count_text(self._connection, kind, condition, self._organization_id)
        return self._counted_texts[key]

    # Pages

    def _gathered(self, kind: type, conditions: Sequence[Condition], page: Page, index: str = "") -> list[str]:
        if is_nothing(conditions):
            return []
        table = table_of(kind)
        where, values = driven_where(self._connection, kind, conditions, self._organization_id)
        where += partial_index_sql(kind, conditions)
        # The planner does not know how few records are within a range, or how many another record has.
        forced = f' INDEXED BY "{index}"' if index else ""
        return self._page(f"{quoted(table.name)} t{forced}{where}", values, kind, page)

    def _of_item(self, kind: type, item: ItemQuery, counts: Counted, page: Page) -> list[str]:
        size = self._size(kind, counts)
        if size.matching == size.all:
            return item.ids(self._connection, self._organization_id, page.limit, page.offset)
        where, values = where_sql(kind, counts.conditions, self._organization_id, False, gathered=False)
        where = where.replace(" WHERE ", " AND ", 1)
        return item.ids(self._connection, self._organization_id, page.limit, page.offset, where, values)

    def _of_search(
        self, kind: type, search: Condition, conditions: Sequence[Condition], counts: Counted, page: Page
    ) -> list[str] | None:
        """The page of a search by text alone; None if there are other conditions, or no index."""
        size = self._size(kind, counts)
        matching = self._found(kind, search) if size.matching == size.all else None
        if matching is None:
            return None
        if matching <= page.offset:
            return []
        if gathers(matching, page.entries(Size(matching, size.all))):
            return self._gathered(kind, conditions, page)
        ids = self._soon(kind, conditions, page, matching, _SOON_TESTED)
        searched = search_of(kind, counts, [search]) if ids is None else None
        if searched is not None and searched.text is not None:
            # All matches may be old, far down the list. Only a common text has a set that is quickly read.
            is_kept = common_place(self._connection, table_of(kind), searched.text) is not None
            sets = self._sets(kind, searched) if is_kept else None
            if sets is not None:
                ids = page_of(
                    self._connection, kind, searched, sets, page.order, self._organization_id, page.limit, page.offset
                )
        return self._walked(kind, conditions, page) if ids is None else ids

    def _of_texts(
        self,
        kind: type,
        conditions: Sequence[Condition],
        counts: Counted,
        remaining: Sequence[Condition],
        page: Page,
    ) -> list[str]:
        """The page of a search by texts or items with other conditions. A list needs its total anyway, so this counts
        first.
        """
        matching = self.count(kind, conditions)
        if matching <= page.offset:
            return []
        size = self._size(kind, counts)
        entries = page.entries(Size(matching, size.all))
        if gathers(matching, entries) and not walks(matching, entries, size):
            if (
                len(remaining) == 1
                and size.matching * 2 <= size.all
                and leads_past_text(self._connection, kind, counts, remaining[0], size)
            ):
                return self._of_facets(kind, counts, page, remaining[0])
            if self._leads_past_text_by_range(kind, counts, remaining):
                return self._page(*self._by_range(kind, conditions, counts), kind, page)
            return self._gathered(kind, self._resolved(conditions), page)
        return self._walked(kind, conditions, page)

    def _of_sets(
        self, kind: type, conditions: Sequence[Condition], counts: Counted, remaining: Sequence[Condition], page: Page
    ) -> list[str] | None:
        """The page of a search with other filters; None if so many records match that a walk soon fills it."""
        searched = search_of(kind, counts, remaining)
        matching = 0 if searched is None else self.count(kind, conditions)
        if searched is None:
            return None
        if not is_skewed(kind, searched.bounds) and is_common(matching, self._size(kind, UNFILTERED).all):
            # A walk that tests no texts or items is fast anyway.
            return None if looks_up(remaining) else self._walked(kind, conditions, page)
        if not is_skewed(kind, searched.bounds) and not looks_up(remaining):
            ids = self._soon(kind, conditions, page, matching)
            if ids is not None:
                return ids
        sets = self._sets(kind, searched) if matching > page.offset else Found(0, ())
        if sets is None:
            return None
        return page_of(
            self._connection, kind, searched, sets, page.order, self._organization_id, page.limit, page.offset
        )

    def _of_key(
        self, kind: type, conditions: Sequence[Condition], counts: Counted, size: Size, page: Page
    ) -> list[str]:
        """The page of the records of another record, whose index is in list order but has no facets."""
        if counts.facets != "1" and counts.own and counts.span is not None:
            keyed = self._size(kind, replace(counts, facets="1", values=())).matching
            having = self._size(kind, replace(counts, span=None)).matching
            entries = page.entries(Size(size.matching, keyed))
            ids = self._merged(kind, conditions, counts, page, most_parts(page, entries, having, size.matching))
            if ids is not None:
                return ids
            if keyed > FEW:
                return self._gathered(kind, conditions, page, index_in_order(kind, counts.span.column))
        return self._gathered(kind, conditions, page)

    def _merged(
        self, kind: type, conditions: Sequence[Condition], counts: Counted, page: Page, most: int
    ) -> list[str] | None:
        """The page by the first records of each combination of facets; None if there are too many combinations."""
        merged = merged_facets(
            self._connection, kind, conditions, counts, self._organization_id, page, min(_PARTS, most)
        )
        return None if merged is None else self._page(*merged, kind, page)

    def _of_value(
        self, kind: type, conditions: Sequence[Condition], counts: Counted, size: Size, page: Page
    ) -> list[str]:
        """The page of the records with some values of a column, each of which has an index in list order."""
        entries = page.entries(size)
        is_alone = counts.facets == "1" and isinstance(counts.value, Compare)
        read = self._size(kind, replace(counts, facets="1", values=(), span=None, bounds=())).matching
        having = self._size(kind, replace(counts, value=None, span=None, bounds=())).matching
        if counts.own and counts.value is not None and having <= min(read, FEW) and not is_alone:
            return self._of_facets(kind, counts, page, AllOf((counts.value, *counts.bounds)))
        if isinstance(counts.value, Within) and len(counts.value.values) <= most_parts(
            page, entries, read, size.matching
        ):
            merged = merged_values(kind, conditions, counts.value, self._organization_id, page)
            return self._page(*merged, kind, page)
        if is_alone or gathers(read, entries):
            return self._gathered(kind, conditions, page)
        if guides(size, entries):
            return self._guided(kind, conditions, counts, page)
        return self._walked(kind, conditions, page)

    def _of_facets(self, kind: type, counts: Counted, page: Page, search: Condition | None = None) -> list[str]:
        source, values = by_facets(kind, counts, self._organization_id, search)
        return self._page(source, values, kind, page)

    def _walked(
        self,
        kind: type,
        conditions: Sequence[Condition],
        page: Page,
        guide: Sequence[tuple[str, object]] = (),
    ) -> list[str]:
        source, values = in_list_order(kind, conditions, self._organization_id, guide)
        return self._page(source, values, kind, page)

    def _soon(
        self, kind: type, conditions: Sequence[Condition], page: Page, matching: int, most: int = FEW
    ) -> list[str] | None:
        """The page by a walk through the list, if that likely takes at most so many entries; None if it is not full by
        twice as many as are likely.
        """
        entries = page.entries(Size(max(1, matching), self._size(kind, UNFILTERED).all))
        if entries > most:
            return None
        source, values = first_in_list_order(kind, conditions, self._organization_id, 2 * entries)
        rows = self._connection.execute(
            f"SELECT e.id FROM {source} LIMIT ? OFFSET ?", (*values, bounded(page.limit), bounded(page.offset))
        ).fetchall()
        return [id for (id,) in rows] if len(rows) == page.limit else None

    def _guided(self, kind: type, conditions: Sequence[Condition], counts: Counted, page: Page) -> list[str]:
        """The page by a walk through slots, skipping those without a match."""
        first = page.order[0]
        span = counts.span
        listing = table_of(kind).listing
        if listing is None or first.column not in listing.ranges:
            return self._walked(kind, conditions, page)
        if span is not None and span.column != first.column and not page.offset:
            return self._guided_past(kind, conditions, counts, page)
        if span is not None and (span.column != first.column or span.cuts):
            return self._walked(kind, conditions, page)
        facets = counts.facets, counts.values
        slots: Iterable[tuple[Any, int]]
        if counts.value is not None:
            slots = days_of_value(self._connection, table_of(kind), counts.value, span, facets, self._organization_id)
        else:
            tests, values = slot_tests(() if span is None else span.slots)
            slots = self._connection.execute(
                f"SELECT slot, SUM(n) FROM {self._counts_sql(kind)}{tests} AND {counts.facets}"
                f" GROUP BY slot HAVING SUM(n) > 0 ORDER BY slot{' DESC' if first.descending else ''}",
                (self._organization_id, first.column, *values, *counts.values),
            )
        reached, offset = 0, page.offset
        matching: list[object] = []
        for slot, number in slots:
            if not matching and number <= offset:
                offset -= number
                continue
            matching.append(slot)
            reached += number
            if reached >= offset + page.limit:
                break
        if not matching:
            return []
        parts = [(matching[0], matching[-1])]
        if span is None and len(matching) <= _PARTS:
            # Slot by slot, since gaps may be long. With another bound, SQLite would not stop at the end of a slot.
            parts = [(slot, slot) for slot in matching]
        ids: list[str] = []
        for begins, ends in parts:
            lowest, highest = (ends, begins) if first.descending else (begins, ends)
            guide = slot_bounds(table_of(kind), first.column, lowest, highest)
            ids += self._walked(
                kind, conditions, replace(page, limit=page.limit - len(ids), offset=0 if ids else offset), guide
            )
        return ids

    def _guided_past(self, kind: type, conditions: Sequence[Condition], counts: Counted, page: Page) -> list[str]:
        """The first page with a range that is not in list order, by a walk that skips slots without a match."""
        first = page.order[0]
        slots = self._connection.execute(
            f"SELECT DISTINCT slot FROM {self._counts_sql(kind)} AND c.n > 0 AND {counts.facets}"
            f" ORDER BY slot{' DESC' if first.descending else ''} LIMIT ?",
            (self._organization_id, first.column, *counts.values, _PARTS),
        ).fetchall()
        ids: list[str] = []
        for (slot,) in slots:
            guide = slot_bounds(table_of(kind), first.column, slot, slot)
            ids += self._walked(kind, conditions, replace(page, limit=page.limit - len(ids)), guide)
            if len(ids) == page.limit:
                return ids
        if len(slots) < _PARTS:
            return ids
        return self._walked(kind, conditions, page)

    def _page(self, source: str, values: Sequence[Any], kind: type, page: Page) -> list[str]:
        rows = self._connection.execute(
            f"SELECT t.id FROM {source}{order_sql(kind, page.order)} LIMIT ? OFFSET ?",
            (*values, bounded(page.limit), bounded(page.offset)),
        )
        return [row[0] for row in rows]

    # Conditions

    def _resolved(self, conditions: Sequence[Condition]) -> list[Condition]:
        return resolved(self._connection, conditions, self._organization_id)

    def _by_range(self, kind: type, conditions: Sequence[Condition], counts: Counted) -> tuple[str, list[Any]]:
        return by_range(kind, conditions, counts, self._organization_id)
