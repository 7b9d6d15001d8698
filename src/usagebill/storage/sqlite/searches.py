"""Text searches with other filters: matching records are computed by intersecting sets (`record_sets`).

A search may come with facets, ranges of dates and amounts, and items of metadata. Each filter that matches few records,
or has a stored set, becomes a number with a bit per record. Only slots that a bound cuts in two are read, from the
counted values of their records. New and changed records are tested one by one.

The page is then read from the slots of the list's order in which it lies.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from usagebill.storage.conditions import Compare, Condition, Negate, Order
from usagebill.storage.record_sql import bounded, quoted
from usagebill.storage.sqlite.counted_texts import searched_texts, texts_join, value_in
from usagebill.storage.sqlite.counts import Counted, shown_sql
from usagebill.storage.sqlite.items import ItemQuery, item_query
from usagebill.storage.sqlite.packed_counts import numbers_of
from usagebill.storage.sqlite.queries import order_sql, where_sql
from usagebill.storage.sqlite.range_sets import range_bits, slots_with_records
from usagebill.storage.sqlite.record_sets import (
    bits_of,
    place_set,
    places_in,
    record_bits,
    records_bits,
    slot_set,
)
from usagebill.storage.sqlite.rows import sql_value
from usagebill.storage.sqlite.slots import range_kind, set_levels, slot_within, wide_slot
from usagebill.storage.sqlite.text_counts import (
    codes_sql,
    common_place,
    contained,
    counted_up_to,
    looked_at_sql,
    searched_text,
    text_sources,
)
from usagebill.storage.sqlite.texts import SHORTEST
from usagebill.storage.sqlite.value_sets import facet_bits, item_bits
from usagebill.storage.tables import Table, table_of

# Up to this many records are read instead of intersecting the sets of facets and slots.
_READ = 3_000
# Up to this many are read instead of finding the slots of the page.
_NARROWED = 1_500
# Up to this many are sorted for a page.
_SORTED = 10_000
# If this many records more than a page share its dates, the list is walked there instead of reading them all.
_GATHERED = 400
# Steps of a walk: two cost as much as reading a record does.
_STEPS_EACH = 2
# The order of so many records is read in the time of one step.
_SORTED_EACH = 2
_STEPS = 20_000
# Most common texts within a text whose sets are intersected, and most records that are then compared with the text.
_PIECES = 8
_COMPARED = 2_000


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A search: the text, if any, the part of other conditions that counts can answer, the bounds of ranges, and items
    that must be present (or, if False, absent).
    """

    text: str | None
    counts: Counted
    bounds: tuple[Compare, ...]
    items: tuple[tuple[ItemQuery, bool], ...]
    # All conditions except the text.
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The records that match, by their sequence numbers in the text index: counted ones, and new or changed ones."""

    bits: int
    new: tuple[int, ...]

    @property
    def number(self) -> int:
        return self.bits.bit_count() + len(self.new)


def search_of(kind: type, counts: Counted, remaining: Sequence[Condition]) -> TextSearch | None:
    """The search with `counts` and the `remaining` conditions, with or without a text; None if they are something else,
    or no sets are kept of the kind.
    """
    if not counts.own or (counts.span is not None and not counts.bounds):
        return None
    listing = table_of(kind).listing
    if listing is None or not listing.searched:
        return None
    texts: list[str] = []
    bounds = list(counts.bounds)
    items: list[tuple[ItemQuery, bool]] = []
    conditions: list[Condition] = [*counts.conditions, *counts.bounds]
    for condition in remaining:
        text = searched_text(kind, condition)
        if text is not None:
            texts.append(text)
            continue
        conditions.append(condition)
        item = item_query(kind, condition.condition if isinstance(condition, Negate) else condition)
        if item is not None:
            items.append((item, not isinstance(condition, Negate)))
        elif (
            isinstance(condition, Compare) and condition.column in listing.ranges and condition.operator in (">=", "<=")
        ):
            bounds.append(condition)
        else:
            return None
    if len(texts) > 1:
        return None
    return TextSearch(texts[0] if texts else None, counts, tuple(bounds), tuple(items), tuple(conditions))


# Matching


def find(connection: sqlite3.Connection, kind: type, search: TextSearch, organization_id: str) -> Found | None:
    """The records that match; None if too many are not counted yet."""
    table = table_of(kind)
    up_to = counted_up_to(connection, table)
    if up_to is None:
        return None
    place = None if search.text is None else common_place(connection, table, search.text)
    if search.text is None:
        bits = (1 << up_to + 1) - 1
    elif place is not None:
        bits = bits_of(connection, table, [place_set(place)], up_to)
    else:
        bits = _with_text(connection, table, search.text, organization_id, up_to)
    for item, is_present in search.items:
        if bits:
            having = item_bits(connection, item, organization_id, up_to)
            bits &= having if is_present else ~having
    bits &= ~records_bits(connection, f'SELECT h.sequence FROM "{table.name}_common_changed" h', ())
    bits &= (1 << up_to + 1) - 1
    new = [
        sequence
        for sql, values in looked_at_sql(kind, search.text, search.conditions, organization_id, up_to)
        for (sequence,) in connection.execute(f"SELECT x.sequence {sql}", values)
    ]
    is_counted = place is not None or any(is_present for _, is_present in search.items)
    counted = _matching(connection, table, search, organization_id, up_to, bits, is_counted=is_counted)
    return Found(counted, tuple(new))


def _with_text(connection: sqlite3.Connection, table: Table, text: str, organization_id: str, up_to: int) -> int:
    """The records with a text that is not common. For a longer text, the sets of common texts in it are intersected
    first.
    """
    pieces = _common_in(connection, table, text)
    if len(pieces) > 1:
        bits = -1
        for place in pieces:
            bits &= bits_of(connection, table, [place_set(place)], up_to)
            if bits.bit_count() <= _COMPARED:
                values: list[Any] = [json.dumps(places_in(bits))]
                tests = contained(searched_texts(table, "x", "c"), text, values)
                sql = (
                    f'SELECT x.sequence FROM json_each(?) j CROSS JOIN "{table.name}_texts" x'
                    f" ON x.sequence = j.value{texts_join(table, 'x')} WHERE {tests}"
                )
                return records_bits(connection, sql, values)
    bits = 0
    for source in text_sources(connection, table, text, organization_id):
        if source is not None:
            bits |= records_bits(connection, f"SELECT s.sequence FROM {source[0]} s", source[1])
    return bits


def _common_in(connection: sqlite3.Connection, table: Table, text: str) -> list[int]:
    """The places of the longest common texts within a text, rarest first."""
    last = len(text)
    if last <= SHORTEST:
        return []
    parts = {text[start:end] for start in range(last) for end in range(start + 1, min(last, start + 40) + 1)}
    rows = connection.execute(
        f'SELECT n.text, n.place FROM "{table.name}_common" n WHERE n.text IN (SELECT value FROM json_each(?))',
        (json.dumps(sorted(parts)),),
    )
    places = dict(rows.fetchall())
    longest = [part for part in places if not any(part != longer and part in longer for longer in places)]
    numbers = numbers_of(connection, table.name, longest)
    return [places[part] for part in sorted(longest, key=lambda part: numbers[part])[:_PIECES]]


def _matching(
    connection: sqlite3.Connection,
    table: Table,
    search: TextSearch,
    organization_id: str,
    up_to: int,
    bits: int,
    *,
    is_counted: bool,
) -> int:
    """The subset of records that are listed and meet the facets and bounds."""
    sql, values = codes_sql(table.kind, search.counts, organization_id)
    codes = [code for (code,) in connection.execute(sql, values)]
    every = connection.execute(f'SELECT COUNT(*) FROM "{table.name}_profiles"').fetchone()[0] == len(codes)
    if every and is_counted and not search.bounds:
        return bits
    if bits.bit_count() <= _READ:
        return _read(connection, table, bits, search.bounds, codes)
    # Slots contain counted records only.
    if not every or not (is_counted or search.bounds):
        bits = facet_bits(connection, table, search.counts, organization_id, up_to, bits)
        if bits.bit_count() <= _READ:
            return _read(connection, table, bits, search.bounds, None)
    surely = possibly = bits
    for column in dict.fromkeys(bound.column for bound in search.bounds):
        several = [bound for bound in search.bounds if bound.column == column]
        inside, perhaps = range_bits(connection, table, column, several, organization_id, up_to)
        surely &= inside
        possibly &= perhaps
    return surely | _read(connection, table, possibly & ~surely, search.bounds, None)


def _read(
    connection: sqlite3.Connection, table: Table, bits: int, bounds: Sequence[Compare], codes: list[int] | None
) -> int:
    """The subset of records within the bounds by their counted values, with facets of one of the `codes`."""
    if not bits:
        return 0
    tests = "".join(f" AND p.{value_in(table, bound.column)} {bound.operator} ?" for bound in bounds)
    values = [json.dumps(places_in(bits)), *(sql_value(bound.value) for bound in bounds)]
    if codes is not None:
        tests += " AND p.code IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(codes))
    source = f'json_each(?) j CROSS JOIN "{table.name}_profiled" p ON p.sequence = j.value'
    return records_bits(connection, f"SELECT p.sequence FROM {source} WHERE 1{tests}", values)


# Pages


def page_of(
    connection: sqlite3.Connection,
    kind: type,
    search: TextSearch,
    found: Found,
    order: Sequence[Order],
    organization_id: str,
    limit: int,
    offset: int,
) -> list[str] | None:
    """The ids of a page of the records, in an order that starts with a column newest first; None if the slots of the
    page have too many records and a walk does not fill it soon.
    """
    table = table_of(kind)
    column = order[0].column
    up_to = counted_up_to(connection, table)
    if up_to is None or not order[0].descending or range_kind(table, column) == "cents":
        return None
    changed: list[tuple[str, int]] = connection.execute(
        f'SELECT t."{column}", x.sequence FROM json_each(?) j CROSS JOIN "{table.name}_texts" x'
        f' ON x.sequence = j.value CROSS JOIN "{table.name}" t ON t.id = x.id',
        (json.dumps(found.new),),
    ).fetchall()
    bits, new = found.bits, changed
    slots: tuple[str, str] | None = None
    for level in set_levels(range_kind(table, column)):
        if bits.bit_count() <= _NARROWED:
            break
        bits, new, offset, slots = _slots_of_page(
            connection, table, bits, new, column, level, organization_id, up_to, limit, offset, slots, search.bounds
        )
    among = bits | record_bits([place for _, place in new])
    number = bits.bit_count()
    if number > _NARROWED and slots is not None:
        # Many are of one day: a walk through it often fills the page sooner than reading the order of all.
        steps = _STEPS if number > _SORTED else number // _SORTED_EACH
        page = _walked(connection, kind, search, among, slots, order, organization_id, limit, offset, steps)
        if page is not None:
            return page
    if number > _SORTED:
        return None
    rows = connection.execute(
        f'SELECT p.{value_in(table, column)}, p.sequence FROM json_each(?) j CROSS JOIN "{table.name}_profiled" p'
        " ON p.sequence = j.value",
        (json.dumps(places_in(bits)),),
    ).fetchall()
    rows = sorted([*rows, *new], reverse=True)
    if len(rows) <= offset:
        return []
    first, last = rows[offset][0], rows[min(offset + limit, len(rows)) - 1][0]
    offset -= sum(when > first for when, _ in rows)
    places = [place for when, place in rows if last <= when <= first]
    if len(places) > limit + _GATHERED:
        steps = _STEPS_EACH * len(places)
        page = _walked(connection, kind, search, among, (last, first), order, organization_id, limit, offset, steps)
        if page is not None:
            return page
    gathered = connection.execute(
        f'SELECT t.id FROM json_each(?) j CROSS JOIN "{table.name}_texts" x ON x.sequence = j.value'
        f' CROSS JOIN "{table.name}" t ON t.id = x.id{order_sql(kind, order)} LIMIT ? OFFSET ?',
        (json.dumps(places), bounded(limit), bounded(offset)),
    )
    return [id for (id,) in gathered]


def _walked(
    connection: sqlite3.Connection,
    kind: type,
    search: TextSearch,
    among: int,
    within: tuple[str, str],
    order: Sequence[Order],
    organization_id: str,
    limit: int,
    offset: int,
    steps: int,
) -> list[str] | None:
    """The ids of a page of the records of a set, by a walk in list order between two values of the first column, from
    the later one down; None if it ends only after more than `steps` records that match everything but the text.
    """
    table = table_of(kind)
    conditions = (*search.counts.conditions, *search.bounds)
    where, values = where_sql(kind, conditions, organization_id, False, gathered=False)
    column = quoted(order[0].column)
    rows = connection.execute(
        f'SELECT t.id, x.sequence FROM "{table.name}" t INDEXED BY "{table.name}_listed"'
        f' CROSS JOIN "{table.name}_texts" x ON x.id = t.id{where} AND {shown_sql(table, "t")}'
        f" AND t.{column} >= ? AND t.{column} <= ?{order_sql(kind, order)}",
        (*values, *within),
    )
    members = among.to_bytes(among.bit_length() // 8 + 1, "little")
    ids: list[str] = []
    for step, (id, place) in enumerate(rows):
        if step == steps:
            return None
        if place >> 3 < len(members) and members[place >> 3] >> (place & 7) & 1:
            if offset:
                offset -= 1
                continue
            ids.append(id)
            if len(ids) == limit:
                break
    return ids


def _slots_of_page(
    connection: sqlite3.Connection,
    table: Table,
    bits: int,
    new: list[tuple[str, int]],
    column: str,
    level: int,
    organization_id: str,
    up_to: int,
    limit: int,
    offset: int,
    within: tuple[str, str] | None,
    bounds: Sequence[Compare],
) -> tuple[int, list[tuple[str, int]], int, tuple[str, str] | None]:
    """The records in the slots of a level in which a page lies, its remaining offset there, and the first and last
    values of these slots (None: no slots). All records are `within` the values of the wider slots.
    """
    kind = range_kind(table, column)
    numbers: dict[object, int | None] = {wide_slot(kind, when, level): None for when, _ in new}
    slots_there = slots_with_records(connection, table, column, level, organization_id)
    numbers.update((slot, number) for number, slot in slots_there)
    within_slots, kept, reached = 0, [], 0
    slots: list[str] = []
    left = bits
    for slot in sorted(map(str, numbers), reverse=True):
        if within is not None and not within[0] <= slot <= within[1]:
            continue
        if any(bound.column == column and slot_within(kind, slot, level, bound) is False for bound in bounds):
            continue
        number = numbers[slot]
        in_slot = 0 if number is None or not left else left & bits_of(connection, table, [slot_set(number)], up_to)
        left ^= in_slot
        new_here = [pair for pair in new if wide_slot(kind, pair[0], level) == slot]
        matching = in_slot.bit_count() + len(new_here)
        if not reached and matching <= offset:
            offset -= matching
            continue
        within_slots |= in_slot
        kept += new_here
        slots.append(slot)
        reached += matching
        if reached >= offset + limit:
            break
    # No character of a date or an instant sorts after the last one.
    return within_slots, kept, offset, (slots[-1], f"{slots[0]}~") if slots else None
