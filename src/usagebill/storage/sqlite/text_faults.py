"""The audit of counts of common texts, and of sets of records (`counted_texts`, `record_sets`).

Both are compared with the records. Counted records that have changed since are compared as they were counted.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from usagebill.storage.listings import CountFault, facets_name
from usagebill.storage.sqlite.counted_texts import (
    CommonTexts,
    Slot,
    profiled_columns,
    range_slots,
    records_sql,
    searched_texts,
    set_slots,
    slots_of,
    texts_join,
    value_in,
)
from usagebill.storage.sqlite.counts import own_facet_values
from usagebill.storage.sqlite.packed_counts import NUMBER, WIDTH
from usagebill.storage.sqlite.record_sets import (
    BLOCK,
    bits_of,
    bits_of_block,
    place_set,
    record_bits,
    records_bits,
    slot_set,
    value_set,
)
from usagebill.storage.sqlite.value_sets import Value, facets_in, is_facet, is_item, unchanged_with
from usagebill.storage.tables import Table

K = TypeVar("K")


def text_faults(connection: sqlite3.Connection, table: Table, organization_id: str) -> Iterator[CountFault]:
    """The counts and sets of an organization's common texts that differ from its records."""
    if table.listing is None or not table.listing.searched:
        return
    row = connection.execute(f'SELECT sequence FROM "{table.name}_common_upto"').fetchone()
    if row is None:
        return
    up_to = int(row[0])
    differing = _differing_records(connection, table, organization_id, up_to)
    if differing:
        yield CountFault(table.name, "records that searches have under other filters or dates", differing, 0)
    yield from _Recount(connection, table, organization_id, up_to).faults()


def _differing_records(connection: sqlite3.Connection, table: Table, organization_id: str, up_to: int) -> int:
    """The number of unchanged records that are counted under other facets or ranges, or are not, or should not be."""
    name = table.name
    unchanged = f'NOT EXISTS (SELECT 1 FROM "{name}_common_changed" h WHERE h.sequence = {{}}.sequence)'
    listed = records_sql(table, f"x.organization_id = ? AND x.sequence <= ? AND {unchanged.format('x')}")
    facets = [f"f.f{place}" for place, _ in own_facet_values(table, "t")]
    columns = [*facets, *(f"p.{value_in(table, column)}" for column in profiled_columns(table))]
    profiled = (
        f'SELECT p.sequence, f.organization_id, {", ".join(columns)} FROM "{name}_profiled" p'
        f' JOIN "{name}_profiles" f ON f.code = p.code WHERE f.organization_id = ? AND {unchanged.format("p")}'
    )
    width = len(columns) + 2
    names = ", ".join(f"v{place}" for place in range(width))
    assert table.listing is not None
    more = len(table.listing.items) + len(searched_texts(table, "x", "c"))
    texts = "".join(f", w{place}" for place in range(more))
    row = connection.execute(
        f"WITH listed ({names}{texts}) AS ({listed}), profiled ({names}) AS ({profiled}),"
        f" differing AS (SELECT v0 FROM (SELECT {names} FROM listed UNION ALL SELECT * FROM profiled)"
        f" GROUP BY {names} HAVING COUNT(*) <> 2)"
        " SELECT COUNT(DISTINCT v0) FROM differing",
        (organization_id, up_to, organization_id),
    ).fetchone()
    return int(row[0])


class _Recount:
    """Counts of the records of an organization by common text, from the texts that they were counted by."""

    def __init__(self, connection: sqlite3.Connection, table: Table, organization_id: str, up_to: int) -> None:
        self._connection = connection
        self._table = table
        self._name = table.name
        self._organization_id = organization_id
        self._up_to = up_to
        rows = connection.execute(f'SELECT text FROM "{table.name}_common" ORDER BY place')
        self._pieces: list[str] = [text for (text,) in rows]
        self._common = CommonTexts(self._pieces)
        self._codes = _profiles(connection, table, organization_id)
        numbers: dict[Slot, int] = {
            (organization_id, ranged, slot): number
            for number, ranged, slot in connection.execute(
                f'SELECT id, ranged, slot FROM "{table.name}_sets" WHERE organization_id = ?', (organization_id,)
            )
        }
        self._facets = {key: number for key, number in numbers.items() if is_facet(key[1])}
        self._items = {key: number for key, number in numbers.items() if is_item(table, key[1])}
        self._slots = {key: number for key, number in numbers.items() if " " not in key[1]}
        self._of_codes = dict(facets_in(connection, table, "organization_id = ?", organization_id))
        # Packed: each has a number for every text.
        self._by_code: dict[int, array[int]] = defaultdict(self._zeros)
        self._by_slot: dict[Slot, array[int]] = defaultdict(self._zeros)
        # The sets that differ, and by how many records.
        self._differing: Counter[str] = Counter()

    def _zeros(self) -> array[int]:
        return array(NUMBER, bytes(WIDTH * len(self._pieces)))

    def faults(self) -> Iterator[CountFault]:
        for block in range(self._up_to // BLOCK + 1):
            self._count_block(block)
        self._compare_items()
        yield from self._count_faults()
        for name, number in self._differing.items():
            yield CountFault(self._name, f"records that the set of {name} has too many or lacks", number, 0)

    def _count_block(self, block: int) -> None:
        """Count the records of a block, and compare its part of each set."""
        held: dict[int, set[int]] = {}
        members: dict[int, list[int]] = defaultdict(list)
        by_code: dict[int, Counter[int]] = defaultdict(Counter)
        by_slot: dict[Slot, Counter[int]] = defaultdict(Counter)
        for sequence, code, places in self._records(block * BLOCK):
            held[sequence] = places
            by_code[code].update(places)
            for facet in self._of_codes[code]:
                if facet in self._facets:
                    members[value_set(self._facets[facet])].append(sequence)
                else:
                    self._differing[self._facet_name(facet)] += 1
            for place in places:
                members[place_set(place)].append(sequence)
        for slot, sequence in slots_of(self._connection, self._table, range_slots(self._table), held):
            by_slot[slot].update(held[sequence])
        _add_up(by_code, self._by_code)
        _add_up(by_slot, self._by_slot)
        for slot, sequence in slots_of(self._connection, self._table, set_slots(self._table), held):
            if slot in self._slots:
                members[slot_set(self._slots[slot])].append(sequence)
            else:
                self._differing[_slot_name(slot)] += 1
        sets = {value_set(number): self._facet_name(facet) for facet, number in self._facets.items()}
        sets.update((slot_set(number), _slot_name(slot)) for slot, number in self._slots.items())
        of_texts = {place_set(place): repr(text) for place, text in enumerate(self._pieces)} if held else {}
        kept = bits_of_block(self._connection, self._table, block, [*sets, *of_texts])
        # The sets of texts have records of all organizations.
        everyone = _bits(held, block)
        for number, name in (*sets.items(), *of_texts.items()):
            bits = kept.get(number, 0) & everyone if number in of_texts else kept.get(number, 0)
            if differing := (bits ^ _bits(members.get(number, ()), block)).bit_count():
                self._differing[name] += differing

    def _compare_items(self) -> None:
        """Compare the sets of items with the index of items, among records that have not changed."""
        changed = records_bits(self._connection, f'SELECT h.sequence FROM "{self._name}_common_changed" h', ())
        for item, number in self._items.items():
            having = record_bits(unchanged_with(self._connection, self._table, item, self._up_to))
            kept = bits_of(self._connection, self._table, [value_set(number)], self._up_to) & ~changed
            if differing := (kept ^ having).bit_count():
                column, _, key = item[1].partition(" ")
                self._differing[f"{column}[{key}]" + (f"={item[2]}" if item[2] else "")] += differing

    def _facet_name(self, facet: Value) -> str:
        assert self._table.listing is not None
        return facets_name([self._table.listing.facets[int(facet[1].partition(" ")[2])]], [facet[2]])

    def _records(self, first: int) -> Iterator[tuple[int, int, set[int]]]:
        """The sequence number, code and common texts of each counted record of the block from `first` on."""
        texts = searched_texts(self._table, "x", "c")
        rows = self._connection.execute(
            f'SELECT p.sequence, p.code, h.texts, {", ".join(texts)} FROM "{self._name}_profiled" p'
            f' LEFT JOIN "{self._name}_common_changed" h ON h.sequence = p.sequence'
            f' LEFT JOIN "{self._name}_texts" x ON x.sequence = p.sequence{texts_join(self._table, "x")}'
            " WHERE p.sequence >= ? AND p.sequence < ?",
            (first, first + BLOCK),
        ).fetchall()
        for sequence, code, changed, *current in rows:
            if code in self._codes:
                yield sequence, code, self._common.held(current if changed is None else json.loads(changed))

    def _count_faults(self) -> Iterator[CountFault]:
        for code, profile in self._codes.items():
            row = self._connection.execute(
                f'SELECT numbers FROM "{self._name}_common_counts" WHERE code = ?', (code,)
            ).fetchone()
            yield from self._differing_numbers(profile, row, self._by_code[code])
        rows = self._connection.execute(
            f'SELECT ranged, slot, numbers FROM "{self._name}_common_slots" WHERE organization_id = ?',
            (self._organization_id,),
        )
        kept: dict[Slot, tuple[bytes]] = {
            (self._organization_id, ranged, slot): (numbers,) for ranged, slot, numbers in rows
        }
        for slot in dict.fromkeys((*kept, *self._by_slot)):
            yield from self._differing_numbers(_slot_name(slot), kept.get(slot), self._by_slot[slot])

    def _differing_numbers(self, name: str, row: tuple[bytes] | None, recounted: array[int]) -> Iterator[CountFault]:
        numbers = self._zeros() if row is None else array(NUMBER, row[0])
        for place, number in enumerate(numbers):
            if number != recounted[place]:
                yield CountFault(self._name, f"with {self._pieces[place]!r}, {name}", number, recounted[place])


def _add_up(numbers: Mapping[K, Counter[int]], totals: dict[K, array[int]]) -> None:
    """Add the numbers of a block to the totals."""
    for key, by_place in numbers.items():
        total = totals[key]
        for place, number in by_place.items():
            total[place] += number


def _bits(sequences: Iterable[int], block: int) -> int:
    """The records of a block as bits from its first sequence number on."""
    return record_bits([sequence - block * BLOCK for sequence in sequences])


def _slot_name(slot: Slot) -> str:
    return f"{slot[1].partition('/')[0]}={slot[2]}"


def _profiles(connection: sqlite3.Connection, table: Table, organization_id: str) -> dict[int, str]:
    """The codes of the combinations of facets, and the combinations in words."""
    assert table.listing is not None
    places = [place for place, _ in own_facet_values(table, "t")]
    columns = "".join(f", f{place}" for place in places)
    rows = connection.execute(
        f'SELECT code{columns} FROM "{table.name}_profiles" WHERE organization_id = ?', (organization_id,)
    )
    facets = [table.listing.facets[place] for place in places]
    return {code: facets_name(facets, values) for code, *values in rows}
