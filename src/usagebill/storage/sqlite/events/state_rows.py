"""States as rows, from the events to the tables.

SQL aggregates events, of which there are many; their few states are merged and widened here, and stored with one
statement for all series. As SQL, each series would take two statements per width, which cost more than the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import add
from typing import Any, Final, TypeAlias

from usagebill.storage.sqlite.events.answers import exact_added, exact_larger
from usagebill.storage.sqlite.events.state_sql import STATE_COLUMNS

# `STATE_COLUMNS`, then when the last event was received, and whether any has an operation type.
Row: TypeAlias = tuple[Any, ...]


def merged(rows: Iterable[Row]) -> list[Row]:
    """The rows, with those of the same state merged into one."""
    states: dict[Row, Row] = {}
    for row in rows:
        name = row[:4]
        known = states.get(name)
        states[name] = row if known is None else _both(known, row)
    return list(states.values())


def widened(rows: Iterable[Row], number: int, width: int, wider: int) -> list[Row]:
    """The states of slices of width `wider`, kept under `number`, from those of slices of `width`."""
    return merged((number, row[1] * width // wider, *row[2:]) for row in rows)


def of_counts(rows: Iterable[Row], ids: Mapping[int, int]) -> list[Row]:
    """The states of counts, from those of numbers `with_uncounted`; `ids` has the count of each series that has one."""
    return merged(
        (ids[row[0]], *row[1:4], row[18], 0, 0, None, 0, None, None, *row[11:14], None, None, *row[16:18])
        for row in rows
        if row[0] in ids
    )


def _larger(number: int | None, other: int | None) -> int | None:
    if number is None or other is None:
        return other if number is None else number
    return max(number, other)


# How the columns after a state's name are merged, in their order.
_MERGES: Final[Sequence[Callable[[Any, Any], Any]]] = (
    *(add, add, add, _larger, add, exact_added, exact_larger),  # n, low, high, top, longs, rest, long_top
    *(min, min, max, exact_added, exact_added),  # first_at, first_sequence, last_at, moment, paid
    *(max, max),  # received_at, spoken
)


def _both(row: Row, other: Row) -> Row:
    return (*row[:4], *(merge(*pair) for merge, *pair in zip(_MERGES, row[4:], other[4:], strict=True)))


def slots_of(rows: Iterable[Row]) -> Mapping[tuple[int, int], Sequence[int]]:
    """The slots of the states: how many events, the first and last instant, the last arrival, and whether any has an
    operation type.
    """
    slots: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        slot = slots.get(row[:2])
        if slot is None:
            slots[row[:2]] = [row[4] + row[8], row[11], row[13], row[16], row[17]]
            continue
        slot[0] += row[4] + row[8]
        # Every state of a window comes through here, and calls of `min` would cost more than all else.
        if row[11] < slot[1]:
            slot[1] = row[11]
        if row[13] > slot[2]:
            slot[2] = row[13]
        if row[16] > slot[3]:
            slot[3] = row[16]
        if row[17] > slot[4]:
            slot[4] = row[17]
    return slots


def _merged_sql(column: str, function: str) -> str:
    """The assignment that merges a column of texts; the function is in Python, and most states have no such text."""
    return (
        f"{column} = CASE WHEN excluded.{column} IS NULL THEN {column} ELSE {function}({column}, excluded.{column}) END"
    )


_MERGED_TEXTS: Final = ", ".join(
    [
        _merged_sql("rest", "exact_added"),
        _merged_sql("long_top", "exact_larger"),
        _merged_sql("moment", "exact_added"),
        _merged_sql("paid", "exact_added"),
    ]
)
_ADD_STATES: Final = (
    f"INSERT INTO usage_states ({STATE_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET"
    " n = n + excluded.n, low = low + excluded.low, high = high + excluded.high,"
    " top = coalesce(max(top, excluded.top), top, excluded.top), longs = longs + excluded.longs,"
    f" {_MERGED_TEXTS},"
    " first_at = min(first_at, excluded.first_at), first_sequence = min(first_sequence, excluded.first_sequence),"
    " last_at = max(last_at, excluded.last_at)"
)
_ADD_SLOTS: Final = (
    "INSERT INTO usage_slots VALUES (?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n,"
    " first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at),"
    " received_at = max(received_at, excluded.received_at), spoken = max(spoken, excluded.spoken)"
)


# Of states that only count, as those of values do, of which a window may have thousands.
_ADD_COUNTS: Final = (
    "INSERT INTO usage_states (series, slot, dims, value, n, low, high, longs, first_at, first_sequence, last_at)"
    " VALUES (?,?,?,?,?,0,0,0,?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n,"
    " first_at = min(first_at, excluded.first_at), first_sequence = min(first_sequence, excluded.first_sequence),"
    " last_at = max(last_at, excluded.last_at)"
)


def _only_counts(row: Row) -> bool:
    return row[7] is None and not row[8]  # neither `top` nor `longs`


def add_rows(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Merge states into the stored ones, and their slots."""
    connection.executemany(_ADD_COUNTS, ((*row[:5], *row[11:14]) for row in rows if _only_counts(row)))
    connection.executemany(_ADD_STATES, (row[:16] for row in rows if not _only_counts(row)))
    connection.executemany(_ADD_SLOTS, ((*name, *slot) for name, slot in slots_of(rows).items()))
