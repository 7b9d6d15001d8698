"""Sets of the records with a value of a facet, and with an item of metadata that many records have (`record_sets`).

A worker keeps them with those of common texts (`counted_texts`). An item gets a set once a worker counts a record with
it and at least 2,000 records have it; fewer are read from the index of items. The set holds counted records only; those
with the item that have changed since they were counted are added when they are counted again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

import msgspec

from usagebill.storage.sqlite.counts import Counted, own_facet_values
from usagebill.storage.sqlite.items import ItemQuery
from usagebill.storage.sqlite.range_sets import range_bits
from usagebill.storage.sqlite.record_sets import bits_of, flip, members, numbered, records_bits, value_set
from usagebill.storage.tables import Table

# An item of fewer records is read from the index of items.
_LEAST = 2_000
# The most items with sets, of a kind.
_MOST = 200
# Stands for all values of a key: no text equals it.
_ANY = b""

# An organization, the key of a facet or item in `<table>_sets`, and the value.
Value = tuple[str, str, object]


def _facet_key(place: int) -> str:
    return f"facet {place}"


def _item_key(column: str, key: str) -> str:
    return f"{column} {key}"


# Facets


def facets_of_codes(connection: sqlite3.Connection, table: Table, codes: Iterable[int]) -> dict[int, list[int]]:
    """The numbers of the facet values of each combination; assigned if missing."""
    numbers: dict[Value, int] = {}
    of_codes: dict[int, list[int]] = {}
    for code, facets in facets_in(connection, table, "code IN (SELECT value FROM json_each(?))", json.dumps([*codes])):
        for facet in facets:
            if facet not in numbers:
                numbers[facet] = numbered(connection, table, facet)
            of_codes.setdefault(code, []).append(numbers[facet])
    return of_codes


def facets_in(
    connection: sqlite3.Connection, table: Table, tests: str, value: object
) -> Iterator[tuple[int, list[Value]]]:
    """The codes of the combinations of facets that meet `tests` of one value, with the facets in each."""
    places = [place for place, _ in own_facet_values(table, "t")]
    columns = "".join(f", f{place}" for place in places)
    rows = connection.execute(
        f'SELECT code, organization_id{columns} FROM "{table.name}_profiles" WHERE {tests}', (value,)
    ).fetchall()
    for code, organization_id, *values in rows:
        yield code, [(organization_id, _facet_key(place), item) for place, item in zip(places, values, strict=True)]


def is_facet(key: str) -> bool:
    """Whether a key of `<table>_sets` is that of a facet."""
    return key.startswith("facet ")


def is_item(table: Table, key: str) -> bool:
    """Whether a key of `<table>_sets` is that of an item."""
    return table.listing is not None and key.partition(" ")[0] in table.listing.items


@dataclass(frozen=True, slots=True)
class _Combination:
    """A combination of facets that occurs, by the places of the facets, and whether it matches."""

    values: dict[int, object]
    matches: bool


class _Facets:
    """The sets of facet values of an organization, each read once."""

    def __init__(self, connection: sqlite3.Connection, table: Table, organization_id: str, up_to: int) -> None:
        self._connection = connection
        self._table = table
        self._up_to = up_to
        self._numbers: dict[tuple[str, object], int] = {
            (key, value): number
            for number, key, value in connection.execute(
                f'SELECT id, ranged, slot FROM "{table.name}_sets" WHERE organization_id = ?'
                " AND ranged >= 'facet ' AND ranged < 'facet!'",
                (organization_id,),
            )
        }
        self._bits: dict[tuple[int, object], int] = {}

    def having(self, place: int, value: object) -> int:
        """The records with a value of the facet at this place."""
        if (place, value) not in self._bits:
            number = self._numbers.get((_facet_key(place), value))
            numbers = [] if number is None else [value_set(number)]
            self._bits[place, value] = bits_of(self._connection, self._table, numbers, self._up_to)
        return self._bits[place, value]

    def matching(self, bits: int, combinations: Sequence[_Combination]) -> int:
        """The subset of `bits` with a combination that matches, among those that they can have.

        The combinations are split by one facet after another, until all of a part match or none.
        """
        if all(combination.matches for combination in combinations):
            return bits
        # Combinations differ, so at least one facet divides them.
        divided = ((place, _parts(combinations, place)) for place in combinations[0].values)
        place, parts = min(
            ((place, parts) for place, parts in divided if len(parts) > 1),
            key=lambda division: [sum(_is_mixed(part) for part in division[1].values()), len(division[1])],
        )
        united = 0
        for value, part in parts.items():
            if any(combination.matches for combination in part):
                united |= self.matching(bits & self.having(place, value), part)
        return united


def _parts(combinations: Sequence[_Combination], place: int) -> dict[object, list[_Combination]]:
    parts: dict[object, list[_Combination]] = {}
    for combination in combinations:
        parts.setdefault(combination.values[place], []).append(combination)
    return parts


def _is_mixed(combinations: Sequence[_Combination]) -> bool:
    return len({combination.matches for combination in combinations}) > 1


def facet_bits(
    connection: sqlite3.Connection, table: Table, counts: Counted, organization_id: str, up_to: int, bits: int
) -> int:
    """The subset of records that are listed by the organization and have the facets of `counts`."""
    places = [place for place, _ in own_facet_values(table, "t")]
    rows = connection.execute(
        f'SELECT {counts.facets}{"".join(f", c.f{place}" for place in places)} FROM "{table.name}_profiles" c'
        " WHERE c.organization_id = ?",
        (*counts.values, organization_id),
    ).fetchall()
    combinations = [_Combination(dict(zip(places, values, strict=True)), bool(matches)) for matches, *values in rows]
    if not any(combination.matches for combination in combinations):
        return 0
    facets = _Facets(connection, table, organization_id, up_to)
    if not all(combination.matches for combination in combinations):
        return facets.matching(bits, combinations)
    assert table.listing is not None
    if not places:
        # The sets of the list's order are those of the organization's records too.
        return bits & range_bits(connection, table, table.listing.order[0].column, (), organization_id, up_to)[0]
    # All of the organization, whose records each have one value of any facet.
    place = min(places, key=lambda place: len(_parts(combinations, place)))
    listed = 0
    for value in _parts(combinations, place):
        listed |= facets.having(place, value)
    return bits & listed


# Items


def item_bits(connection: sqlite3.Connection, item: ItemQuery, organization_id: str, up_to: int) -> int:
    """The records with the item: from its set, or from the index of items, with new and changed ones."""
    table, value = item.table, _ANY if item.value is None else item.value
    row = connection.execute(
        f'SELECT id FROM "{table.name}_sets" WHERE organization_id = ? AND ranged = ? AND slot = ?',
        (organization_id, _item_key(item.column, item.key), value),
    ).fetchone()
    if row is None:
        return records_bits(connection, *item.places_sql(organization_id))
    return bits_of(connection, table, [value_set(row[0])], up_to)


def items_moved(
    connection: sqlite3.Connection,
    table: Table,
    gone: Sequence[int],
    counted: Sequence[tuple[int, str, Sequence[str | None]]],
    up_to: int,
) -> dict[int, list[int]]:
    """The sets of items that a batch changes, with the records to flip in each.

    `gone` are counted records that have changed. `counted` are the ones counted now: sequence number, organization and
    columns of items. Before the batch, records were counted `up_to` a sequence number.
    """
    assert table.listing is not None
    columns = table.listing.items
    if not columns:
        return {}
    having: dict[Value, list[int]] = {}
    for sequence, organization_id, values in counted:
        for column, stored in zip(columns, values, strict=True):
            for key, value in _items_in(stored):
                having.setdefault((organization_id, _item_key(column, key), value), []).append(sequence)
    numbers: dict[Value, int] = {}
    for column in columns:
        rows = connection.execute(
            f'SELECT id, organization_id, ranged, slot FROM "{table.name}_sets" WHERE ranged >= ? AND ranged < ?',
            (f"{column} ", f"{column}!"),
        )
        numbers.update(((organization_id, key, value), number) for number, organization_id, key, value in rows)
    moved = members(connection, table, map(value_set, numbers.values()), gone)
    batch = {*gone, *(sequence for sequence, _, _ in counted)}
    for item, sequences in having.items():
        if item not in numbers and len(numbers) < _MOST and _is_common(connection, table, item):
            numbers[item] = _add_item(connection, table, item, up_to, batch)
        if item in numbers:
            moved.setdefault(value_set(numbers[item]), []).extend(sequences)
    return moved


def _items_in(stored: str | None) -> Iterator[tuple[str, str | bytes]]:
    """The keys with their values, and with the one that stands for all; of a key that occurs twice, the first."""
    if stored is None or stored == "[]":
        return
    first: dict[str, str] = {}
    for item in msgspec.json.decode(stored):
        first.setdefault(item["key"], item["value"])
    for key, value in first.items():
        yield key, value
        yield key, _ANY


def _is_common(connection: sqlite3.Connection, table: Table, item: Value) -> bool:
    organization_id, named, value = item
    column, _, key = named.partition(" ")
    row = connection.execute(
        f'SELECT n FROM "{table.name}_{column}_counts" WHERE organization_id = ? AND key = ? AND value = ?',
        (organization_id, key, value),
    ).fetchone()
    return row is not None and row[0] >= _LEAST


def _add_item(connection: sqlite3.Connection, table: Table, item: Value, up_to: int, without: Set[int]) -> int:
    """Number an item and make the set of its records that were counted and have not changed, `without` some."""
    number = numbered(connection, table, item)
    sequences = [sequence for sequence in unchanged_with(connection, table, item, up_to) if sequence not in without]
    flip(connection, table, {value_set(number): sorted(sequences)})
    return number


def unchanged_with(connection: sqlite3.Connection, table: Table, item: Value, up_to: int) -> list[int]:
    """The records with an item that were counted and have not changed."""
    organization_id, named, value = item
    column, _, key = named.partition(" ")
    of_value, values = ("", ()) if value == _ANY else (" AND x.value = ?", (value,))
    rows = connection.execute(
        f'SELECT x.place FROM "{table.name}_{column}" x WHERE x.organization_id = ? AND x.key = ?{of_value}'
        f' AND x.place <= ? AND NOT EXISTS (SELECT 1 FROM "{table.name}_common_changed" h WHERE h.sequence = x.place)',
        (organization_id, key, *values, up_to),
    )
    return [sequence for (sequence,) in rows]


def add_common_items(connection: sqlite3.Connection, table: Table, up_to: int) -> None:
    """Make the sets of the most common items, of records counted up to a sequence number."""
    assert table.listing is not None
    for column in table.listing.items:
        rows = connection.execute(
            f'SELECT organization_id, key, value FROM "{table.name}_{column}_counts" WHERE n >= ?'
            " ORDER BY n DESC LIMIT ?",
            (_LEAST, _MOST),
        ).fetchall()
        for organization_id, key, value in rows:
            _add_item(connection, table, (organization_id, _item_key(column, key), value), up_to, frozenset())
