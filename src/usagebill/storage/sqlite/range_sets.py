"""The records within the bounds of a range, as bits: sets of wide slots, of narrower ones, or a wide one without some.

Only slots that a bound cuts in two have records of which the sets do not tell whether they are within the bounds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from usagebill.storage.conditions import Compare
from usagebill.storage.sqlite.record_sets import bits_of, slot_set
from usagebill.storage.sqlite.slots import counted_under, range_kind, set_levels, slot_within, wide_slot
from usagebill.storage.tables import Table

# The number of a slot, and the slot.
_Slot = tuple[int, Any]


def range_bits(
    connection: sqlite3.Connection,
    table: Table,
    column: str,
    bounds: Sequence[Compare],
    organization_id: str,
    up_to: int,
) -> tuple[int, int]:
    """The records of the organization that are surely within the bounds, and those that possibly are."""
    kind = range_kind(table, column)
    levels = set_levels(kind)
    slots = {level: slots_with_records(connection, table, column, level, organization_id) for level in levels}

    def united(several: Sequence[_Slot]) -> int:
        return bits_of(connection, table, [slot_set(number) for number, _ in several], up_to)

    def within(depth: int, several: Sequence[_Slot], whole: _Slot | None) -> tuple[int, int]:
        """Those of slots of one level, which are the parts of a whole one, if any."""
        level = levels[depth]
        inside: list[_Slot] = []
        outside: list[_Slot] = []
        cut: list[_Slot] = []
        for slot in several:
            holds = [slot_within(kind, slot[1], level, bound) for bound in bounds]
            (inside if all(holds) else outside if False in holds else cut).append(slot)
        if whole is not None and len(outside) + len(cut) < len(inside):
            surely = united([whole]) & ~united([*outside, *cut])
        else:
            surely = united(inside)
        possibly = surely
        for slot in cut:
            if depth + 1 == len(levels):
                possibly |= united([slot])
                continue
            parts = [part for part in slots[levels[depth + 1]] if wide_slot(kind, part[1], level) == slot[1]]
            surely_cut, possibly_cut = within(depth + 1, parts, slot)
            surely |= surely_cut
            possibly |= possibly_cut
        return surely, possibly

    return within(0, slots[levels[0]], None)


def slots_with_records(
    connection: sqlite3.Connection, table: Table, column: str, level: int, organization_id: str
) -> list[_Slot]:
    """The slots of a level that have had records, with their numbers."""
    return connection.execute(
        f'SELECT s.id, s.slot FROM "{table.name}_sets" s WHERE s.organization_id = ? AND s.ranged = ?',
        (organization_id, counted_under(column, level)),
    ).fetchall()
