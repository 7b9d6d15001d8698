"""Counts by filters from an index alone: an event's values for its metric's filter keys are stored as one number beside
its time.

A numbering encodes the filter keys and values that a metric declared when an event was stored. An event's number has
one digit per key: the position of its value among those declared, or 0 for any other value or none. Numberings never
change or overlap, so a number identifies its numbering. Events are read one by one if a filter accepts values that
their numbering does not distinguish, or if they have no number: older events, those of metrics with too many values,
and edited ones (a trigger removes their number).
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from usagebill.core.events import Event, property_text
from usagebill.core.filters import FilterIndex
from usagebill.storage.event_queries import CountedAs, EventQuery
from usagebill.storage.sqlite.events.answers import Selection

# Most declared values; with more, a metric's events get no number.
_VALUES_AT_MOST: Final = 1_000
_NUMBERS_AT_MOST: Final = 2**40
# Each change of a metric's filters creates one with the next events: 2 ** 10 of 2 ** 40 numbers fit into 64 bits.
_NUMBERINGS_AT_MOST: Final = 1_000

FILTER_VALUE_TABLES: Final = """
CREATE TABLE IF NOT EXISTS event_filter_values (
    organization_id TEXT NOT NULL, base INTEGER NOT NULL, size INTEGER NOT NULL, declared TEXT NOT NULL,
    PRIMARY KEY (organization_id, base), UNIQUE (organization_id, declared)) WITHOUT ROWID;
"""
FILTER_VALUE_TRIGGER: Final = (
    "CREATE TRIGGER IF NOT EXISTS event_filter_values_edited AFTER UPDATE OF organization_id, properties, texts"
    " ON events WHEN NEW.filter_values IS NOT NULL"
    " BEGIN UPDATE events SET filter_values = NULL WHERE sequence = NEW.sequence; END"
)

_Keys = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Numbering:
    """Encodes the declared values of keys as one number, from 0 up to `size`, exclusive."""

    declared: _Keys
    size: int = field(init=False)
    _digits: tuple[tuple[str, Mapping[str, int], int], ...] = field(init=False)

    def __post_init__(self) -> None:
        places = tuple(
            (key, {value: place for place, value in enumerate(values, 1)}, len(values) + 1)
            for key, values in self.declared
        )
        object.__setattr__(self, "_digits", places)
        object.__setattr__(self, "size", math.prod(count for _, _, count in places))

    def numbers(self, base: int) -> Callable[[Event], int]:
        """A function that returns an event's number; called for every event, so it inlines the lookup of texts."""
        digits = self._digits

        def number_of(event: Event) -> int:
            properties, number = event.properties, 0
            for key, places, count in digits:
                value = properties.get(key)
                text = value if type(value) is str else property_text(value)
                number = number * count + (0 if text is None else places.get(text, 0))
            return base + number

        return number_of

    def texts(self, number: int) -> dict[str, str | None]:
        """The declared value of each key; None if the event has another one, or none."""
        texts: dict[str, str | None] = {}
        for key, values in reversed(self.declared):
            number, place = divmod(number, len(values) + 1)
            texts[key] = values[place - 1] if place else None
        return texts

    def tells_apart(self, filters: FilterIndex) -> bool:
        """Whether all values that the filters accept are declared."""
        places = {key: values for key, values, _ in self._digits}
        return all(places.get(key, {}).keys() >= set(filters.accepted_values(key)) for key in filters.keys)


@lru_cache(maxsize=64)
def _numbering(declared: str) -> _Numbering:
    """The numbering stored as this JSON."""
    return _Numbering(msgspec.json.decode(declared, type=_Keys))


def number_of(
    connection: sqlite3.Connection, organization_id: str, declared: Mapping[str, Sequence[str]]
) -> Callable[[Event], int | None]:
    """A function that returns the numbers of new events of a metric that declares these values by key."""
    sizes = [len(values) for values in declared.values()]
    if sum(sizes) > _VALUES_AT_MOST or math.prod(size + 1 for size in sizes) > _NUMBERS_AT_MOST:
        return lambda _: None
    text = msgspec.json.encode([[key, list(values)] for key, values in declared.items()]).decode()
    numbering = _numbering(text)
    row = connection.execute(
        "SELECT base FROM event_filter_values WHERE organization_id = ? AND declared = ?", (organization_id, text)
    ).fetchone()
    if row is None:
        count, base = connection.execute(
            "SELECT COUNT(*), coalesce(MAX(base + size), 0) FROM event_filter_values WHERE organization_id = ?",
            (organization_id,),
        ).fetchone()
        if count >= _NUMBERINGS_AT_MOST:
            return lambda _: None
        connection.execute(
            "INSERT INTO event_filter_values (organization_id, base, size, declared) VALUES (?,?,?,?)",
            (organization_id, base, numbering.size, text),
        )
    else:
        base = row[0]
    return numbering.numbers(base)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts by the positions from `FilterIndex.of_values`. `uncounted` is the SQL condition for events that must be
    read instead; None if there are none.
    """

    by_positions: Mapping[tuple[int, ...], int]
    uncounted: str | None


def counts_of(
    connection: sqlite3.Connection, organization_id: str, question: EventQuery, filters: FilterIndex
) -> Counts | None:
    """The counts of a query by filters; None if numbers cannot answer it."""
    if question.aggregation_type != CountedAs.COUNT or question.amounts or question.group_keys:
        return None
    if question.bucket.matches or question.bucket.excludes or question.only or question.stored_after is not None:
        return None
    has_any = "SELECT 1 FROM event_filter_values WHERE organization_id = ? LIMIT 1"
    if not filters.keys or connection.execute(has_any, (organization_id,)).fetchone() is None:
        return None
    selection = Selection(connection, organization_id, question)
    # All as one text: SQLite would sort them to group them, and fetching rows costs as much again.
    [(text,)] = selection.rows(
        f"SELECT json_group_array(filter_values) FROM events INDEXED BY events_usage{selection.where}"
    )
    numbers = Counter(msgspec.json.decode(text, type=list[int | None]))
    by_positions: dict[tuple[int, ...], int] = {}
    counted: list[tuple[int, int]] = []
    has_others = None in numbers
    waiting = sorted(number for number in numbers if number is not None)
    while waiting:
        row = connection.execute(
            "SELECT base, size, declared FROM event_filter_values WHERE organization_id = ? AND base <= ?"
            " ORDER BY base DESC LIMIT 1",
            (organization_id, waiting[-1]),
        ).fetchone()
        base, size, declared = (waiting[0], 0, "[]") if row is None else row
        numbering = _numbering(declared)
        is_known = row is not None and numbering.tells_apart(filters)
        if is_known:
            counted.append((base, base + size - 1))
        while waiting and waiting[-1] >= base:
            number = waiting.pop()
            if not is_known or number >= base + size:
                has_others = True
                continue
            texts = numbering.texts(number - base)
            positions = filters.of_values([texts.get(key) for key in filters.keys])
            by_positions[positions] = by_positions.get(positions, 0) + numbers[number]
    if not has_others:
        return Counts(by_positions, None)
    inside = "".join(f" OR filter_values BETWEEN {int(first)} AND {int(last)}" for first, last in counted)
    return Counts(by_positions, f"NOT coalesce(0{inside}, 0)")
