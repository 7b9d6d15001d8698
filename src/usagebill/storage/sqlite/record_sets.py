"""Sets of records as bits, which a search with other filters intersects.

For a kind that is searched, `<table>_set_bits` has the set of records with each common text, with each value of a facet
and each common item (`value_sets`), and in each slot of a range except the narrowest. A row has the bits of 8,192
sequence numbers; rows of these numbers for all sets are adjacent, so that records written together change few pages.
`<table>_sets` numbers the values, items and slots.

Like counts of common texts (`counted_texts`), sets hold records as they were when a worker counted them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from usagebill.storage.tables import Table

# Records per row: 2^13, in a kilobyte.
_SHIFT = 13
BLOCK = 1 << _SHIFT
_BYTES = 1 << _SHIFT >> 3
_WITHIN = (1 << _SHIFT) - 1
# A set with more than one in this many records is written digit by digit, which is faster than setting bits.
_DENSE = 40
_ONE = ord("1")
# The key of a row: the block of records, then the number of the set.
_KEY = 40


def set_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """Type, name and statement of the tables of sets."""
    name = table.name
    for suffix, columns in {
        "set_bits": "(id INTEGER PRIMARY KEY, bits BLOB NOT NULL)",
        "sets": (
            "(id INTEGER PRIMARY KEY, organization_id TEXT NOT NULL, ranged TEXT NOT NULL, slot NOT NULL,"
            " UNIQUE (organization_id, ranged, slot))"
        ),
    }.items():
        yield "table", f"{name}_{suffix}", f'CREATE TABLE "{name}_{suffix}" {columns}'


def place_set(place: int) -> int:
    """The set of the records with a common text."""
    return place * 3


def value_set(number: int) -> int:
    """The set of the records with a value of a facet, or with an item."""
    return number * 3 + 1


def slot_set(number: int) -> int:
    """The set of the records in a slot."""
    return number * 3 + 2


def numbered(connection: sqlite3.Connection, table: Table, slot: tuple[str, str, object]) -> int:
    """The number in `<table>_sets` of an organization, a key and a slot or value; assigned if missing."""
    row = connection.execute(
        f'SELECT id FROM "{table.name}_sets" WHERE organization_id = ? AND ranged = ? AND slot = ?', slot
    ).fetchone()
    if row is None:
        row = connection.execute(
            f'INSERT INTO "{table.name}_sets" VALUES (NULL, ?, ?, ?) RETURNING id', slot
        ).fetchone()
    return int(row[0])


def flip(connection: sqlite3.Connection, table: Table, moved: Mapping[int, Iterable[int]]) -> None:
    """Add records, by sequence number, to sets that they are not in, and remove them from those that they are in. One
    named twice is unchanged.
    """
    masks: dict[int, bytearray] = {}
    for number, sequences in moved.items():
        part, mask = -1, bytearray()
        for sequence in sequences:
            if sequence >> _SHIFT != part:
                part = sequence >> _SHIFT
                mask = masks.setdefault(part << _KEY | number, bytearray(_BYTES))
            mask[(sequence & _WITHIN) >> 3] ^= 1 << (sequence & 7)
    keys = [key for key, mask in masks.items() if any(mask)]
    rows = connection.execute(
        f'SELECT b.id, b.bits FROM json_each(?) j CROSS JOIN "{table.name}_set_bits" b ON b.id = j.value',
        (json.dumps(keys),),
    )
    before = dict(rows.fetchall())
    connection.executemany(
        f'INSERT INTO "{table.name}_set_bits" VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET bits = excluded.bits',
        [(key, _flipped(before.get(key), masks[key])) for key in sorted(keys)],
    )


def _flipped(bits: bytes | None, mask: bytearray) -> bytes:
    if bits is None:
        return bytes(mask)
    return (int.from_bytes(bits, "little") ^ int.from_bytes(mask, "little")).to_bytes(_BYTES, "little")


def remove_value_sets(connection: sqlite3.Connection, table: Table) -> None:
    """Remove all sets of values."""
    connection.execute(f'DELETE FROM "{table.name}_set_bits" WHERE (id & {(1 << _KEY) - 1}) % 3 = {value_set(0)}')


def bits_of(connection: sqlite3.Connection, table: Table, numbers: Iterable[int], up_to: int) -> int:
    """The union of the sets, up to a sequence number; bits are at the places of sequence numbers."""
    parts = list(range((up_to >> _SHIFT) + 1))
    nothing = bytes(_BYTES)
    # Nested loops in this order, as no join here can be turned round: the rows need no keys.
    rows = connection.execute(
        "SELECT b.bits FROM json_each(?) n CROSS JOIN json_each(?) p"
        f' LEFT JOIN "{table.name}_set_bits" b ON b.id = (p.value << {_KEY}) | n.value',
        (json.dumps(list(numbers)), json.dumps(parts)),
    ).fetchall()
    united = 0
    # A number is made of a whole set, since making one takes longer than uniting two.
    for start in range(0, len(rows), len(parts)):
        of_set = b"".join([bits or nothing for (bits,) in rows[start : start + len(parts)]])
        united |= int.from_bytes(of_set, "little")
    return united


def bits_of_block(connection: sqlite3.Connection, table: Table, block: int, numbers: Iterable[int]) -> dict[int, int]:
    """The records of a block that each of the sets has, as bits from the block's first sequence number on."""
    rows = connection.execute(
        f'SELECT n.value, b.bits FROM json_each(?) n CROSS JOIN "{table.name}_set_bits" b'
        f" ON b.id = ((? << {_KEY}) | n.value)",
        (json.dumps(list(numbers)), block),
    )
    return {number: int.from_bytes(bits, "little") for number, bits in rows}


def members(
    connection: sqlite3.Connection, table: Table, numbers: Iterable[int], sequences: Sequence[int]
) -> dict[int, list[int]]:
    """The records among these that are in each of the sets, by sequence number."""
    by_part: dict[int, list[int]] = {}
    for sequence in sequences:
        by_part.setdefault(sequence >> _SHIFT, []).append(sequence)
    rows = connection.execute(
        "SELECT p.value, n.value, b.bits FROM json_each(?) p CROSS JOIN json_each(?) n"
        f' CROSS JOIN "{table.name}_set_bits" b ON b.id = (p.value << {_KEY}) | n.value',
        (json.dumps(list(by_part)), json.dumps(list(numbers))),
    )
    inside: dict[int, list[int]] = {}
    for part, number, bits in rows:
        for sequence in by_part[part]:
            if bits[(sequence & _WITHIN) >> 3] >> (sequence & 7) & 1:
                inside.setdefault(number, []).append(sequence)
    return inside


def records_bits(connection: sqlite3.Connection, query: str, values: Sequence[object]) -> int:
    """The set of the records with the sequence numbers that a query returns as `sequence`."""
    # Reading them as one list takes a third of the time of a row for each.
    listed = connection.execute(f"SELECT json_group_array(sequence) FROM ({query})", values).fetchone()
    return record_bits(msgspec.json.decode(listed[0]))


def record_bits(sequences: Sequence[int]) -> int:
    """The set of these records."""
    last = max(sequences, default=0)
    if len(sequences) * _DENSE > last:
        digits = bytearray(b"0") * (last + 1)
        for sequence in sequences:
            digits[sequence] = _ONE
        digits.reverse()
        return int(digits, 2)
    bits = bytearray((last >> 3) + 1)
    for sequence in sequences:
        bits[sequence >> 3] |= 1 << (sequence & 7)
    return int.from_bytes(bits, "little")


def places_in(bits: int) -> list[int]:
    """The sequence numbers of the records in a set."""
    # Most words of a set of few records are zero; a text of all binary digits takes three times as long.
    words = memoryview(bits.to_bytes((bits.bit_length() + 63 >> 6) << 3, "little")).cast("Q")
    places = []
    for index, word in enumerate(words):
        while word:
            lowest = word & -word
            places.append((index << 6) + lowest.bit_length() - 1)
            word ^= lowest
    return places
