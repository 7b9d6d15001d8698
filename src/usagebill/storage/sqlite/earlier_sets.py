"""Sets of records (`record_sets`) for files whose records were counted by an earlier version.

Before version 46 there were sets of combinations of facets instead of single values, and none of items and ten days.
Texts are not counted again: the values follow from what is kept of each counted record.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator

from usagebill.storage.sqlite.counted_texts import common_definitions, set_slots
from usagebill.storage.sqlite.items import item_definitions
from usagebill.storage.sqlite.record_sets import flip, numbered, remove_value_sets, slot_set, value_set
from usagebill.storage.sqlite.value_sets import add_common_items, facets_of_codes
from usagebill.storage.tables import TABLES, Table


def add_missing_sets(connection: sqlite3.Connection) -> None:
    """Replace the sets of combinations of facets, and add those of items and of slots that have none."""
    for table in TABLES:
        # Other tables are made and counted anew.
        if table.listing is None or not table.listing.searched or not _is_kept(connection, table):
            continue
        counted = connection.execute(f'SELECT sequence FROM "{table.name}_common_upto"').fetchone()
        if counted is None:
            continue
        remove_value_sets(connection, table)
        _add_facets(connection, table)
        _add_slots(connection, table)
        add_common_items(connection, table, counted[0])


def _is_kept(connection: sqlite3.Connection, table: Table) -> bool:
    definitions = [*common_definitions(table), *item_definitions(table)]
    return all(
        connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ? AND sql = ?", (name, statement)).fetchone()
        for _, name, statement in definitions
    )


def _add_facets(connection: sqlite3.Connection, table: Table) -> None:
    having: dict[int, list[int]] = {}
    rows = connection.execute(
        f'SELECT code, json_group_array(sequence) FROM "{table.name}_profiled" GROUP BY code'
    ).fetchall()
    by_code = {code: json.loads(sequences) for code, sequences in rows}
    for code, numbers in facets_of_codes(connection, table, by_code).items():
        for number in numbers:
            having.setdefault(number, []).extend(by_code[code])
    for number, sequences in having.items():
        flip(connection, table, {value_set(number): sorted(sequences)})


def _add_slots(connection: sqlite3.Connection, table: Table) -> None:
    for ranged, slot in set_slots(table):
        if connection.execute(f'SELECT 1 FROM "{table.name}_sets" WHERE ranged = ? LIMIT 1', (ranged,)).fetchone():
            continue
        for organization_id, value, sequences in _records_in_slots(connection, table, slot):
            number = slot_set(numbered(connection, table, (organization_id, ranged, value)))
            flip(connection, table, {number: sequences})


def _records_in_slots(
    connection: sqlite3.Connection, table: Table, slot: str
) -> Iterator[tuple[str, object, list[int]]]:
    rows = connection.execute(
        f'SELECT c.organization_id, {slot} AS slot, json_group_array(p.sequence) FROM "{table.name}_profiled" p'
        f' JOIN "{table.name}_profiles" c ON c.code = p.code GROUP BY 1, 2 HAVING slot IS NOT NULL'
    ).fetchall()
    for organization_id, value, sequences in rows:
        yield organization_id, value, sorted(json.loads(sequences))
