"""Counts of common texts: the number of records with a text that many records contain, by facets.

The text index (`text_index`) counts matches one by one: 45 ms per three letters of a text in 1,000,000 records. So
common texts are counted in advance. For a kind that is searched

- `<table>_common` has the texts that at least 5% of its records contain, with the shorter common texts in each;
- `<table>_profiles` has the combinations of facets of listed records, `<table>_profiled` the combination of each record
  and its place in the ranges and in the order of lists;
- `<table>_common_counts` has the counts of all these texts for each combination, packed: a record has about a hundred
  of them, which would be that many rows to write;
- `<table>_common_slots` has the counts for each slot of each range (`slots`), regardless of facets;
- `<table>_set_bits` has which records these are (`record_sets`);
- `<table>_common_upto` says how far records are counted (by sequence number), and how many there were when the texts
  were chosen;
- `<table>_common_changed` has the counted records that have changed since, with the texts they were counted by.

Writing a record touches none of these tables, except that changing a counted one adds a row to the last. A worker
counts new and changed records in batches; until then, searches test them one by one (`text_counts`), so totals are
always exact. Common texts are estimated from a sample: a text that it misses takes longer to count, but is counted
correctly.
"""

from __future__ import annotations

import json
import random
import sqlite3
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from usagebill.storage.sqlite.counts import own_facet_values, shown_sql
from usagebill.storage.sqlite.packed_counts import NUMBER, WIDTH
from usagebill.storage.sqlite.record_sets import flip, numbered, place_set, set_definitions, slot_set, value_set
from usagebill.storage.sqlite.slots import WIDEST, Span, counted_under, range_kind, set_levels, slot_sql, span_parts
from usagebill.storage.sqlite.value_sets import facets_of_codes, items_moved
from usagebill.storage.tables import TABLES, Table, table_of

# With fewer records of a kind, any text is counted fast enough.
_LEAST = 20_000
# Size of the sample for common texts, and how many of its records must contain one.
_SAMPLE = 1_000
_SHARE = 0.05
# With more common texts than this, the longest are left out.
_MOST_TEXTS = 3_000
# Records per batch: holds the write lock for some 10 ms.
_AT_ONCE = 250
# Fewer waiting records are not worth a transaction.
_WORTHWHILE = 500
# Common texts are chosen again when there are this many times as many records.
_GROWN = 2


def common_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """Type, name and statement of every schema object for the common texts of a table, in order of creation."""
    if table.listing is None or not table.listing.searched:
        return
    name, texts, changed = table.name, f"{table.name}_texts", f"{table.name}_common_changed"
    facets = own_facet_values(table, "t")
    declared = "".join(f", f{place} NOT NULL" for place, _ in facets)
    places = "".join(f", f{place}" for place, _ in facets)
    # Bounds compare as with the record's own column.
    within = "".join(
        f", {value_in(table, column)} {'INTEGER' if range_kind(table, column) == 'cents' else 'TEXT'}"
        for column in profiled_columns(table)
    )
    for suffix, columns in {
        "common": "(place INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
        "common_counts": "(code INTEGER PRIMARY KEY, numbers BLOB NOT NULL)",
        "common_slots": (
            "(id INTEGER PRIMARY KEY, organization_id TEXT NOT NULL, ranged TEXT NOT NULL, slot NOT NULL,"
            " numbers BLOB NOT NULL, UNIQUE (organization_id, ranged, slot))"
        ),
        "common_upto": "(id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL, records INTEGER NOT NULL)",
        "common_changed": "(sequence INTEGER PRIMARY KEY, texts TEXT NOT NULL)",
        "profiles": (
            f"(code INTEGER PRIMARY KEY, organization_id TEXT NOT NULL{declared}, UNIQUE (organization_id{places}))"
        ),
        "profiled": f"(sequence INTEGER PRIMARY KEY, code INTEGER NOT NULL{within})",
    }.items():
        yield "table", f"{name}_{suffix}", f'CREATE TABLE "{name}_{suffix}" {columns}'
    yield from set_definitions(table)
    counted = f'<= (SELECT u.sequence FROM "{name}_common_upto" u)'
    joined = table.listing.searched_with
    watched = ["shown", *table.listing.searched, *(["party"] if joined else [])]
    differs = " OR ".join(f'old."{column}" IS NOT new."{column}"' for column in watched)
    source = f" FROM (SELECT 1){texts_join(table, 'old')}"
    # A trigger inherits conflict handling from the statement that fires it, so it must not cause any.
    unless = f'AND NOT EXISTS (SELECT 1 FROM "{changed}" h WHERE h.sequence ='
    old = (
        f'INSERT INTO "{changed}" SELECT old.sequence, {_texts_json(table, "old", "c")}{source}'
        f" WHERE old.sequence {counted} {unless} old.sequence);"
    )
    # The number of a deleted text may be reused.
    again = (
        f"""INSERT INTO "{changed}" SELECT new.sequence, '[]' WHERE new.sequence {counted} {unless} new.sequence);"""
    )
    for event, when, action in (("insert", "", again), ("delete", "", old), ("update", f" WHEN {differs}", old)):
        trigger = f"{name}_common_{event}"
        yield (
            "trigger",
            trigger,
            f'CREATE TRIGGER "{trigger}" AFTER {event.upper()} ON "{texts}"{when} BEGIN {action} END',
        )
    if joined is None:
        return
    # A change of a party's texts affects all records that are searched with it. Adding or deleting one changes `party`.
    party = table_of(joined.kind).name
    differs = " OR ".join(f'old."{column}" IS NOT new."{column}"' for column in joined.columns)
    trigger = f"{name}_common_of_{party}"
    yield (
        "trigger",
        trigger,
        (
            f'CREATE TRIGGER "{trigger}" AFTER UPDATE ON "{party}_texts" WHEN {differs} BEGIN'
            f' INSERT INTO "{changed}" SELECT x.sequence, {_texts_json(table, "x", "old")}'
            f' FROM "{texts}" x WHERE x.party = old.sequence AND x.sequence {counted} {unless} x.sequence); END'
        ),
    )


def texts_join(table: Table, row: str) -> str:
    """A join of the texts, as `c`, of the record that a row of texts is searched with."""
    assert table.listing is not None
    joined = table.listing.searched_with
    return "" if joined is None else f' LEFT JOIN "{table_of(joined.kind).name}_texts" c ON c.sequence = {row}.party'


def searched_texts(table: Table, row: str, party: str) -> list[str]:
    """All searched texts of a record, as SQL; NULLs for a missing party."""
    assert table.listing is not None
    joined = table.listing.searched_with
    texts = [f'{row}."{column}"' for column in table.listing.searched]
    return texts + [f'{party}."{column}"' for column in (joined.columns if joined else ())]


def _texts_json(table: Table, row: str, party: str) -> str:
    return f"json_array({', '.join(searched_texts(table, row, party))})"


def note_change_sql(table: Table) -> Iterator[str]:
    """Statements to run before facets of the record with an id change."""
    if table.listing is None or not table.listing.searched:
        return
    name = table.name
    yield (
        f'INSERT OR IGNORE INTO "{name}_common_changed" SELECT x.sequence, {_texts_json(table, "x", "c")}'
        f' FROM "{name}_texts" x{texts_join(table, "x")} WHERE x.id = ?'
        f' AND x.sequence <= (SELECT u.sequence FROM "{name}_common_upto" u)'
    )


# Finding common texts


def common_pieces(records: Sequence[Iterable[str | None]], least: int, most: int = _MOST_TEXTS) -> list[str]:
    """The texts that at least `least` of the records contain, shortest first: all of a length, or none.

    Every part of such a text is one too, so longer ones are only built from shorter ones.
    """
    texts = [[text for text in record if text] for record in records]
    pieces: list[str] = []
    length = 0
    common: set[str] = set()
    while True:
        length += 1
        numbers: Counter[str] = Counter()
        for record in texts:
            numbers.update(_longer(record, length, common))
        common = {piece for piece, number in numbers.items() if number >= least}
        if not common or len(pieces) + len(common) > most:
            return pieces
        pieces += sorted(common)


def _longer(record: Iterable[str], length: int, common: Collection[str]) -> set[str]:
    if length == 1:
        return {letter for text in record for letter in text}
    return {
        text[start : start + length]
        for text in record
        for start in range(len(text) - length + 1)
        if text[start : start + length - 1] in common and text[start + 1 : start + length] in common
    }


class CommonTexts:
    """Finds the common texts in a record, by their places."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._places = {piece: place for place, piece in enumerate(pieces)}
        self._within: dict[str, frozenset[int]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def held(self, texts: Iterable[str | None]) -> set[int]:
        """The places of the common texts in any of the texts."""
        places, held = self._places, set[int]()
        for text in texts:
            if not text:
                continue
            last, end = len(text), 0
            for start in range(last):
                # Every part of a common text is common. So the longest one from here ends no earlier than the one from
                # the letter before, and adds nothing if it ends there too.
                reached = end
                end = max(end, start)
                while end < last and text[start : end + 1] in places:
                    end += 1
                if end > reached and end > start:
                    held |= self._in(text[start:end])
                if end == last:
                    break
        return held

    def _in(self, piece: str) -> frozenset[int]:
        within = self._within.get(piece)
        if within is None:
            last = len(piece)
            within = frozenset(
                self._places[piece[start:end]] for start in range(last) for end in range(start + 1, last + 1)
            )
            self._within[piece] = within
        return within


@lru_cache(maxsize=8)
def _common_texts(pieces: tuple[str, ...]) -> CommonTexts:
    return CommonTexts(pieces)


# Counting


def _searched() -> Iterator[Table]:
    return (table for table in TABLES if table.listing is not None and table.listing.searched)


def is_counting_behind(connection: sqlite3.Connection) -> bool:
    """Whether `count_common` has enough to do to be worth a transaction."""
    return any(_is_behind(connection, table) for table in _searched())


def _last(connection: sqlite3.Connection, table: Table) -> int:
    return int(connection.execute(f'SELECT coalesce(MAX(sequence), 0) FROM "{table.name}_texts"').fetchone()[0])


def _counted_up_to(connection: sqlite3.Connection, table: Table) -> tuple[int, int] | None:
    row = connection.execute(f'SELECT sequence, records FROM "{table.name}_common_upto"').fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


def _is_behind(connection: sqlite3.Connection, table: Table) -> bool:
    last, counted = _last(connection, table), _counted_up_to(connection, table)
    if counted is None or last > _GROWN * counted[1]:
        return last >= _LEAST
    changed = connection.execute(
        f'SELECT COUNT(*) FROM (SELECT 1 FROM "{table.name}_common_changed" LIMIT ?)', (_WORTHWHILE,)
    ).fetchone()[0]
    return bool(changed + max(0, last - counted[0]) >= _WORTHWHILE)


def count_common(connection: sqlite3.Connection, at_once: int | None = None) -> None:
    """Count a batch of `at_once` new and changed records, of the first kind that has enough of them."""
    for table in _searched():
        if _is_behind(connection, table):
            counted = _counted_up_to(connection, table)
            if counted is None or _last(connection, table) > _GROWN * counted[1]:
                _choose(connection, table)
            else:
                _count_some(connection, table, counted[0], at_once or _AT_ONCE)
            return


def _choose(connection: sqlite3.Connection, table: Table) -> None:
    """Choose the common texts and restart counting."""
    name, last = table.name, _last(connection, table)
    places = random.Random(last)
    texts = ", ".join(searched_texts(table, "x", "c"))
    records = [
        connection.execute(
            f'SELECT {texts} FROM "{name}_texts" x{texts_join(table, "x")} WHERE x.sequence >= ?'
            " ORDER BY x.sequence LIMIT 1",
            (places.randint(1, last),),
        ).fetchone()
        for _ in range(_SAMPLE)
    ]
    for suffix in (
        "common",
        "common_counts",
        "common_slots",
        "common_upto",
        "common_changed",
        "profiles",
        "profiled",
        "set_bits",
        "sets",
    ):
        connection.execute(f'DELETE FROM "{name}_{suffix}"')
    pieces = common_pieces(records, int(_SAMPLE * _SHARE))
    connection.executemany(f'INSERT INTO "{name}_common" VALUES (?, ?)', list(enumerate(pieces)))
    connection.execute(f'INSERT INTO "{name}_common_upto" VALUES (1, 0, ?)', (last,))


def profiled_columns(table: Table) -> list[str]:
    """The columns whose values `<table>_profiled` has: those of ranges, and the first that lists are sorted by."""
    assert table.listing is not None
    return list(dict.fromkeys((*table.listing.ranges, table.listing.order[0].column)))


def value_in(table: Table, column: str) -> str:
    """The column of `<table>_profiled` with the value of a column of the record."""
    return f"r{profiled_columns(table).index(column)}"


def range_slots(table: Table) -> list[tuple[str, str]]:
    """The range keys under which a record of `<table>_profiled`, as `p`, is counted, with the slot as SQL."""
    assert table.listing is not None
    return [
        (
            counted_under(column, level),
            slot_sql(range_kind(table, column), f"p.{value_in(table, column)}", level),
        )
        for column in table.listing.ranges
        for level in range(WIDEST + 1)
    ]


def records_sql(table: Table, tests: str) -> str:
    """The facets, ranges, columns of items and texts of listed records."""
    assert table.listing is not None
    facets = [value for _, value in own_facet_values(table, "t")]
    ranges = [f't."{column}"' for column in profiled_columns(table)]
    items = [f't."{column}"' for column in table.listing.items]
    columns = ["x.sequence", "x.organization_id", *facets, *ranges, *items, *searched_texts(table, "x", "c")]
    return (
        f'SELECT {", ".join(columns)} FROM "{table.name}_texts" x CROSS JOIN "{table.name}" t ON t.id = x.id'
        f"{texts_join(table, 'x')} WHERE {tests} AND x.shown = 1 AND {shown_sql(table, 't')}"
    )


def _count_some(connection: sqlite3.Connection, table: Table, up_to: int, at_once: int) -> None:
    name = table.name
    pieces = connection.execute(f'SELECT text FROM "{name}_common" ORDER BY place').fetchall()
    common = _common_texts(tuple(text for (text,) in pieces))
    moved: dict[int, Counter[int]] = {}
    having: list[list[int]] = [[] for _ in range(len(common))]
    by_code: dict[int, list[int]] = {}
    # Before the new ones, which are counted in their current state.
    changed = connection.execute(
        f'SELECT h.sequence, h.texts, p.code FROM "{name}_common_changed" h'
        f' LEFT JOIN "{name}_profiled" p ON p.sequence = h.sequence LIMIT ?',
        (at_once,),
    ).fetchall()
    held: dict[int, set[int]] = {}
    for sequence, texts, code in changed:
        if code is not None:
            held[sequence] = common.held(json.loads(texts))
            moved.setdefault(code, Counter()).subtract(held[sequence])
            by_code.setdefault(code, []).append(sequence)
            for place in held[sequence]:
                having[place].append(sequence)
    in_slots: dict[Slot, Counter[int]] = {}
    for slot, sequence in slots_of(connection, table, range_slots(table), held):
        in_slots.setdefault(slot, Counter()).subtract(held[sequence])
    wide: dict[Slot, list[int]] = {}
    for slot, sequence in slots_of(connection, table, set_slots(table), held):
        wide.setdefault(slot, []).append(sequence)
    sequences = [(sequence,) for sequence, _, _ in changed]
    gone = list(held)
    connection.executemany(f'DELETE FROM "{name}_profiled" WHERE sequence = ?', sequences)
    connection.executemany(f'DELETE FROM "{name}_common_changed" WHERE sequence = ?', sequences)
    again = json.dumps([sequence for (sequence,) in sequences])
    rows = connection.execute(records_sql(table, "x.sequence IN (SELECT value FROM json_each(?))"), (again,)).fetchall()
    last = up_to
    if len(changed) < at_once:
        last = connection.execute(
            f'SELECT coalesce(MAX(sequence), ?) FROM (SELECT sequence FROM "{name}_texts" WHERE sequence > ?'
            " ORDER BY sequence LIMIT ?)",
            (up_to, up_to, at_once),
        ).fetchone()[0]
        rows += connection.execute(records_sql(table, "x.sequence > ? AND x.sequence <= ?"), (up_to, last)).fetchall()
    assert table.listing is not None
    width = 2 + len(own_facet_values(table, "t"))
    ranges = len(profiled_columns(table))
    texts_from = width + ranges + len(table.listing.items)
    codes = _codes(connection, table, {row[1:width] for row in rows})
    held = {}
    for row in rows:
        held[row[0]] = common.held(row[texts_from:])
        moved.setdefault(codes[row[1:width]], Counter()).update(held[row[0]])
        by_code.setdefault(codes[row[1:width]], []).append(row[0])
        for place in held[row[0]]:
            having[place].append(row[0])
    marks = ", ".join("?" * (2 + ranges))
    connection.executemany(
        f'INSERT INTO "{name}_profiled" VALUES ({marks})',
        [(row[0], codes[row[1:width]], *row[width : width + ranges]) for row in rows],
    )
    for slot, sequence in slots_of(connection, table, range_slots(table), held):
        in_slots.setdefault(slot, Counter()).update(held[sequence])
    for slot, sequence in slots_of(connection, table, set_slots(table), held):
        wide.setdefault(slot, []).append(sequence)
    for code, numbers in moved.items():
        _move(connection, f"{name}_common_counts", {"code": code}, numbers, len(common))
    for slot, numbers in in_slots.items():
        key = dict(zip(("organization_id", "ranged", "slot"), slot, strict=True))
        _move(connection, f"{name}_common_slots", key, numbers, len(common))
    sets = {slot_set(numbered(connection, table, slot)): in_slot for slot, in_slot in wide.items()}
    sets.update((place_set(place), sequences) for place, sequences in enumerate(having) if sequences)
    for code, numbers_of_code in facets_of_codes(connection, table, by_code).items():
        for number in numbers_of_code:
            sets.setdefault(value_set(number), []).extend(by_code[code])
    items = [(row[0], row[1], row[width + ranges : texts_from]) for row in rows]
    sets.update(items_moved(connection, table, gone, items, up_to))
    flip(connection, table, sets)
    connection.execute(f'UPDATE "{name}_common_upto" SET sequence = ?', (last,))


# An organization, the range key of its records, and the slot.
Slot = tuple[str, str, object]


def set_slots(table: Table) -> list[tuple[str, str]]:
    """The same for stored sets, of ranges and of the list's order."""
    return [
        (
            counted_under(column, level),
            slot_sql(range_kind(table, column), f"p.{value_in(table, column)}", level),
        )
        for column in profiled_columns(table)
        for level in set_levels(range_kind(table, column))
    ]


def slots_of(
    connection: sqlite3.Connection, table: Table, slots: Sequence[tuple[str, str]], sequences: Iterable[int]
) -> Iterator[tuple[Slot, int]]:
    """The slots of records, with their sequence numbers."""
    if not slots:
        return
    rows = connection.execute(
        f"SELECT p.sequence, c.organization_id, {', '.join(slot for _, slot in slots)}"
        f' FROM "{table.name}_profiled" p JOIN "{table.name}_profiles" c ON c.code = p.code'
        " WHERE p.sequence IN (SELECT value FROM json_each(?))",
        (json.dumps(list(sequences)),),
    ).fetchall()
    for sequence, organization_id, *values in rows:
        for (ranged, _), value in zip(slots, values, strict=True):
            if value is not None:
                yield (organization_id, ranged, value), sequence


def _move(connection: sqlite3.Connection, table: str, key: dict[str, object], moved: Counter[int], length: int) -> None:
    """Add to the numbers under a key."""
    tests, values = " AND ".join(f"{name} = ?" for name in key), tuple(key.values())
    row = connection.execute(f'SELECT numbers FROM "{table}" WHERE {tests}', values).fetchone()
    numbers = array(NUMBER, bytes(WIDTH * length) if row is None else row[0])
    for place, number in moved.items():
        numbers[place] += number
    if row is None:
        names, marks = ", ".join(key), ", ".join("?" * len(key))
        sql = f'INSERT INTO "{table}" (numbers, {names}) VALUES (?, {marks})'
    else:
        sql = f'UPDATE "{table}" SET numbers = ? WHERE {tests}'
    connection.execute(sql, (numbers.tobytes(), *values))


def number_of(connection: sqlite3.Connection, table: Table, place: int, codes: str, values: Sequence[object]) -> int:
    """The number of counted records with the common text at this place, and one of the codes that the query returns."""
    return _number(connection, f'"{table.name}_common_counts" n WHERE n.code IN ({codes})', place, values)


def number_within(connection: sqlite3.Connection, table: Table, place: int, organization_id: str, span: Span) -> int:
    """The number of counted records of an organization with the common text at this place, in the slots of a span."""
    return sum(
        _number(
            connection,
            f'"{table.name}_common_slots" n WHERE n.organization_id = ? AND n.ranged = ?'
            + "".join(f" AND n.{test}" for test, _ in slots),
            place,
            [organization_id, ranged, *(value for _, value in slots)],
        )
        for ranged, slots in span_parts(table, span)
    )


def _number(connection: sqlite3.Connection, source: str, place: int, values: Sequence[object]) -> int:
    rows = connection.execute(f"SELECT substr(n.numbers, ?, ?) FROM {source}", (place * WIDTH + 1, WIDTH, *values))
    return sum(array(NUMBER, row[0])[0] for row in rows)


def _codes(connection: sqlite3.Connection, table: Table, profiles: set[tuple[object, ...]]) -> dict[object, int]:
    """The code of each combination of an organization and facets; assigned if missing."""
    facets = own_facet_values(table, "t")
    tests = "".join(f" AND f{place} = ?" for place, _ in facets)
    codes: dict[object, int] = {}
    for profile in profiles:
        row = connection.execute(
            f'SELECT code FROM "{table.name}_profiles" WHERE organization_id = ?{tests}', profile
        ).fetchone()
        if row is None:
            marks = ", ".join("?" * len(profile))
            row = connection.execute(
                f'INSERT INTO "{table.name}_profiles" VALUES (NULL, {marks}) RETURNING code', profile
            ).fetchone()
        codes[profile] = int(row[0])
    return codes
