"""Aggregations from running states: whole slices as stored, and the events of partial slices one by one.

A slice is used as stored if nothing in it can be outside the query: all its events are within the bounds, none was
received after `known_at`, none is in a second that two subscriptions share. Events of other slices are read, and so are
those that are not rolled up yet. If that saves nothing, or states cannot answer the query, the result is None and the
events are counted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence, Set
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from usagebill.core.aggregation import AggregateResult
from usagebill.core.filters import FilterIndex
from usagebill.core.numbers import ZERO, add
from usagebill.storage.event_queries import CountedAs, EventQuery, Group
from usagebill.storage.sqlite.events.answers import BILLION, MILLION, Asked, from_millionths, places_sql
from usagebill.storage.sqlite.events.bucket_answers import Cell, Place, Spread, fill_in_latest
from usagebill.storage.sqlite.events.lists import EventLists
from usagebill.storage.sqlite.events.rows import microseconds
from usagebill.storage.sqlite.events.states import (
    COUNT,
    DAY,
    FORM,
    HOUR,
    NUMBERS,
    READY,
    VALUES,
    Shape,
    Wants,
    days_of,
    least_events,
    rolled_up_to,
)

__all__ = ["Bounds", "StateAnswers", "shape_of", "stretches_of"]

_KINDS: Final[Mapping[str, str]] = {
    CountedAs.COUNT: COUNT,
    CountedAs.SUM: NUMBERS,
    CountedAs.MAX: NUMBERS,
    CountedAs.LATEST: NUMBERS,
    CountedAs.UNIQUE_COUNT: VALUES,
}
_NO_FILTERS: Final = FilterIndex([], {})
# Up to this many stretches of time are read event by event; with more, everything is.
_STRETCHES_AT_MOST: Final = 20
# If more days than this need hourly states, all days use them.
_DAYS_AT_MOST: Final = 20
# Most properties by which states are keyed.
_KEYS_AT_MOST: Final = 8
# Counting this many events is worth a series.
_WORTH_A_SERIES: Final = 10_000

_Series = tuple[int, int]  # its id, and the width of its slices


class StateAnswers:
    """Queries over the states of one organization."""

    def __init__(self, connection: sqlite3.Connection, organization_id: str, wants: Wants | None) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._wants = wants
        # Subscriptions without any series: if one is started meanwhile, counting their events is still correct.
        self._without: set[str] = set()

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult] | None:
        """See `storage.ports.EventLog.tallies`; None if the events are to be counted."""
        shape = shape_of(question, _NO_FILTERS)
        cells = None if shape is None else self._cells(question, _NO_FILTERS, shape)
        if cells is None:
            return None
        tallies = {group: cell.result() for (_, group), cell in cells.items()}
        return tallies or {(None,) * len(question.group_keys): AggregateResult()}

    def tallies_by_bucket(
        self, question: EventQuery, filters: FilterIndex
    ) -> dict[int, dict[Group, AggregateResult]] | None:
        """See `storage.ports.EventLog.tallies_by_bucket`; None if the events are to be counted."""
        shape = shape_of(question, filters)
        cells = None if shape is None else self._cells(question, filters, shape)
        if cells is None:
            return None
        tallies: dict[int, dict[Group, AggregateResult]] = {}
        for (position, group), cell in cells.items():
            tallies.setdefault(position, {})[group] = cell.result()
        return tallies

    def owners(self, external_ids: Sequence[str]) -> Set[str]:
        """Those of the subscriptions that have any series."""
        rows = self._connection.execute(
            "SELECT DISTINCT external_subscription_id FROM usage_series WHERE organization_id = ?"
            " AND external_subscription_id IN (SELECT value FROM json_each(?))",
            (self._organization_id, json.dumps(list(external_ids))),
        )
        return {row[0] for row in rows}

    def note(self, question: EventQuery, filters: FilterIndex | None, events: int) -> None:
        """Note that `events` were counted for a query that a series could have answered."""
        shape = None if self._wants is None else shape_of(question, filters or _NO_FILTERS)
        if shape is None or self._wants is None:
            return
        if shape.kind == VALUES:
            # The estimate is of values, not of events.
            is_worth_it = _is_large(self._connection, self._organization_id, question.external_subscription_id)
        else:
            is_worth_it = events >= least_events(shape, _WORTH_A_SERIES)
        if is_worth_it:
            self._wants.note(self._organization_id, question.external_subscription_id, question.code, shape)

    def _series(self, question: EventQuery, shape: Shape) -> _Series | None:
        if question.external_subscription_id in self._without:
            return None
        kind, field, keys = shape.columns
        row = self._connection.execute(
            "SELECT id, width FROM usage_series WHERE organization_id = ? AND external_subscription_id = ?"
            " AND code = ? AND kind = ? AND field = ? AND keys = ? AND stage = ? AND form = ?",
            (
                self._organization_id,
                question.external_subscription_id,
                question.code,
                kind,
                field,
                keys,
                READY,
                FORM,
            ),
        ).fetchone()
        if row is not None:
            return int(row[0]), int(row[1])
        of_subscription = self._organization_id, question.external_subscription_id
        any_series = "SELECT 1 FROM usage_series WHERE organization_id = ? AND external_subscription_id = ? LIMIT 1"
        if self._connection.execute(any_series, of_subscription).fetchone() is None:
            self._without.add(question.external_subscription_id)
        return None

    def _cells(self, question: EventQuery, filters: FilterIndex, shape: Shape) -> dict[Place, Cell] | None:
        series = self._series(question, shape)
        if series is None:
            return None
        if shape.kind == VALUES:
            return self._unique_cells(series, question, filters, shape)
        return self._added_cells(series, question, filters, shape)

    def _added_cells(
        self, series: _Series, question: EventQuery, filters: FilterIndex, shape: Shape
    ) -> dict[Place, Cell] | None:
        id, width = series
        bounds = Bounds(question)
        slots, first, last = [], bounds.earliest // width, bounds.latest // width
        ranges = [(first, last)]
        asked = Asked(self._connection, self._organization_id, question)
        # Partial days use hourly states; if there are many, all days do.
        days = self._partial(days_of(id), DAY, bounds) if width == HOUR else None
        if days is not None and sum(days.values()) <= _DAYS_AT_MOST:
            ranges = [
                (max(first, day * 24), min(last, day * 24 + 23)) for day, reaches_in in days.items() if reaches_in
            ]
            whole_days = f"slot BETWEEN {bounds.earliest // DAY} AND {bounds.latest // DAY}"
            slots.append(_slots(asked, days_of(id), whole_days, days))
        partial = self._partial(id, width, bounds) if ranges else {}
        stretches = stretches_of(
            [
                slot
                for slot, reaches_in in partial.items()
                if reaches_in and any(start <= slot <= end for start, end in ranges)
            ]
        )
        if len(stretches) > _STRETCHES_AT_MOST:
            return None
        spread = Spread(asked, question, filters)
        # Range by range: given a list of hours, SQLite would scan a whole month for those of a day.
        for start, end in ranges:
            slots.append(_slots(asked, id, f"slot BETWEEN {start} AND {end}", partial))
        states = " UNION ALL ".join(f"SELECT * FROM usage_states WHERE {condition}" for condition in slots)
        kept = (
            f"(SELECT dims, SUM(n) AS n, {_NO_NUMBERS if shape.kind == COUNT else _NUMBERS}, MIN(first_at) AS first_at,"
            " MIN(first_sequence) AS first_sequence, MAX(last_at) AS last_at"
            f" FROM ({states}) GROUP BY dims) AS s"
        )
        whole = Spread(asked.among_rows(kept, _dimensions(shape)), question, filters)
        read = self._read(asked, [(first * width, (last + 1) * width - 1) for first, last in stretches])
        parts = [_listed(whole, _SUMS, whole.rows(_of_states(_SUMS)))]
        parts.extend(_each_event(Spread(events, question, filters), shape) for events in read)
        sums = (
            "SUM(n), SUM(low), SUM(high), MAX(top), SUM(longs), exact_sum(rest) FILTER (WHERE rest IS NOT NULL),"
            " exact_max(long_top) FILTER (WHERE long_top IS NOT NULL), MAX(last_at)"
        )
        cells: dict[Place, Cell] = {}
        last_at: dict[Place, int] = {}
        for places, row in spread.ask(_grouped(spread.names, [sums], parts)):
            if not row[0] and not row[4]:
                continue
            for place in places:
                _add(cells, place, question.aggregation_type, row)
                last_at[place] = max(row[-1], last_at.get(place, row[-1]))
        if question.aggregation_type == CountedAs.LATEST:
            fill_in_latest(spread, cells, last_at)
        return cells

    def _partial(self, series: int, width: int, bounds: Bounds) -> dict[int, bool]:
        """The slots that cannot be used as stored, in order, and whether some of their events may count."""
        rows = self._connection.execute(
            f"SELECT slot, last_at >= {bounds.earliest} AND first_at <= {bounds.latest} FROM usage_slots"
            f" WHERE series = {series} AND slot BETWEEN {bounds.earliest // width} AND {bounds.latest // width}"
            f" AND NOT (first_at >= {bounds.whole_from} AND last_at <= {bounds.whole_to}"
            f" AND received_at <= {bounds.known_at}) ORDER BY slot"
        )
        return {slot: bool(reaches_in) for slot, reaches_in in rows.fetchall()}

    def _unique_cells(
        self, series: _Series, question: EventQuery, filters: FilterIndex, shape: Shape
    ) -> dict[Place, Cell] | None:
        id, _ = series
        bounds = Bounds(question)
        inside = f"last_at >= {bounds.earliest} AND first_at <= {bounds.latest}"
        slots = self._connection.execute(
            "SELECT slot, first_at, last_at, received_at, spoken FROM usage_slots"
            f" WHERE series = {id} AND {inside} ORDER BY slot"
        ).fetchall()
        for _, first_at, last_at, received_at, spoken in slots:
            if spoken or received_at > bounds.known_at:
                return None
            if bounds.earliest < bounds.whole_from > first_at or bounds.latest > bounds.whole_to < last_at:
                return None
        chosen = ", ".join(str(int(slot)) for slot, *_ in slots)
        kept = (
            "SELECT dims, value, first_at, first_sequence, last_at FROM usage_states"
            f" WHERE series = {id} AND slot IN ({chosen}) AND {inside}"
        )
        if any(first_at < bounds.earliest for _, first_at, *_ in slots):
            # The value occurred before; whether and when first within the slots is not known.
            unclear = "1" if question.group_keys else f"last_at > {bounds.latest}"
            if self._connection.execute(f"{kept} AND first_at < {bounds.earliest} AND {unclear} LIMIT 1").fetchone():
                return None
        asked = Asked(self._connection, self._organization_id, question)
        spread = Spread(asked, question, filters)
        columns = ("spoken", "value", "first_at", "first_sequence")
        whole = Spread(asked.among_rows(f"({kept}) AS s", _dimensions(shape)), question, filters)
        parts = [_listed(whole, columns, whole.rows({**_of_states(columns), "spoken": "0"}))]
        for events in self._read(asked, []):
            rows = {
                "spoken": "instr(properties, '\"operation_type\"') > 0",
                "value": f"({asked.query.text(question.field_name or '')})",
                "first_at": "timestamp",
                "first_sequence": "sequence",
            }
            parts.append(_listed(spread, columns, Spread(events, question, filters).rows(rows)))
        parts = [f"{part} WHERE value IS NOT NULL" for part in parts]
        names = [*spread.names, "value"] if len(filters) else spread.names
        value = [] if len(filters) else ["COUNT(DISTINCT value)"]
        counts: dict[Place, int] = {}
        texts: dict[Place, set[str]] = {}
        for places, row in spread.ask(_grouped(names, [*value, "MAX(spoken)"], parts)):
            if row[-1]:
                return None
            for place in places:
                if len(filters):
                    texts.setdefault(place, set()).add(row[0])
                elif row[0]:
                    counts[place] = counts.get(place, 0) + row[0]
        counts |= {place: len(values) for place, values in texts.items()}
        return {place: Cell(millionths=count * MILLION, events=count) for place, count in counts.items()}

    def _read(self, asked: Asked, stretches: list[tuple[int, int]]) -> list[Asked]:
        """The events that are read one by one: those in partial slots, and all that are not rolled up."""
        done = rolled_up_to(self._connection)
        parts = [
            asked.among_events(
                "events INDEXED BY events_usage", f"timestamp BETWEEN {first} AND {last} AND +sequence <= {done}"
            )
            for first, last in stretches
        ]
        return [*parts, asked.among_events("events NOT INDEXED", f"sequence > {done}")]


def _is_large(connection: sqlite3.Connection, organization_id: str, external_subscription_id: str) -> bool:
    """Whether the subscription has many events, of whatever code."""
    return EventLists(connection, organization_id).has_counts(external_subscription_id)


class Bounds:
    """The instants, both inclusive, between which events may count, and those between which all do.

    All are in microseconds, `known_at` too, by which they were received.
    """

    def __init__(self, question: EventQuery) -> None:
        self.earliest = _or(question.earliest, _FIRST)
        ends = [event.timestamp for event in (question.up_to, question.before) if event is not None]
        self.latest = min([_or(question.latest, _LAST), *map(microseconds, ends)])
        self.known_at = _or(question.known_at, _LAST)
        self.whole_from = self.earliest
        if question.after is not None and question.first_end is not None:
            self.whole_from = max(self.earliest, microseconds(question.first_end))
        strict = [*ends, *([] if question.last_start is None else [question.last_start])]
        self.whole_to = min([self.latest, *(microseconds(end) - 1 for end in strict)])


def _slots(asked: Asked, series: int, among: str, without: Collection[int]) -> str:
    """The condition for the states of a series in some of its slots, `without` others."""
    left_out = f" AND slot NOT IN {asked.query.listed_numbers(list(without))}" if without else ""
    return f"series = {series} AND {among}{left_out}"


_FIRST: Final = -(2**62)
_LAST: Final = 2**62
_NUMBERS: Final = (
    "SUM(low) AS low, SUM(high) AS high, MAX(top) AS top, SUM(longs) AS longs,"
    " exact_sum(rest) FILTER (WHERE rest IS NOT NULL) AS rest,"
    " exact_max(long_top) FILTER (WHERE long_top IS NOT NULL) AS long_top"
)
# The states of a count have none, of which there may be thousands.
_NO_NUMBERS: Final = "0 AS low, 0 AS high, NULL AS top, 0 AS longs, NULL AS rest, NULL AS long_top"
_SUMS: Final = ("n", "low", "high", "top", "longs", "rest", "long_top", "first_at", "first_sequence", "last_at")


def _or(instant: datetime | None, otherwise: int) -> int:
    return otherwise if instant is None else microseconds(instant)


def shape_of(question: EventQuery, filters: FilterIndex) -> Shape | None:
    """The shape of the series that can answer a query; None if none can."""
    kind = _KINDS.get(question.aggregation_type)
    if kind is None or question.amounts or (kind != COUNT and question.field_name is None):
        return None
    if question.stored_after is not None:
        return None
    scopes = (question.bucket.matches, *question.bucket.excludes, question.only)
    keys = {*question.group_keys, *filters.keys, *(key for scope in scopes for key in scope)}
    if len(keys) > _KEYS_AT_MOST:
        return None
    return Shape(kind, None if kind == COUNT else question.field_name, tuple(sorted(keys)))


def _dimensions(shape: Shape) -> Mapping[str, str]:
    return {key: f"(s.dims ->> '$[{place}]')" for place, key in enumerate(shape.keys)}


def _of_states(names: Sequence[str]) -> dict[str, str]:
    """Columns of states, by name."""
    return {name: f"s.{name}" for name in names}


def _listed(spread: Spread, columns: Sequence[str], rows: str) -> str:
    """The places of each row, and its `columns`."""
    return f"SELECT {', '.join((*spread.names, *columns))} FROM ({rows})"


def _grouped(names: Sequence[str], columns: Sequence[str], parts: Sequence[str]) -> str:
    """Aggregates of all rows of the parts that have the same `names`, in the order of their first events."""
    chosen = ", ".join((*names, *columns))
    by = f" GROUP BY {places_sql(len(names))}" if names else ""
    return f"SELECT {chosen} FROM ({' UNION ALL '.join(parts)}){by} ORDER BY MIN(first_at), MIN(first_sequence)"


def stretches_of(slots: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last slots of each run of consecutive slots."""
    stretches: list[tuple[int, int]] = []
    for slot in slots:
        if stretches and stretches[-1][1] == slot - 1:
            stretches[-1] = (stretches[-1][0], slot)
        else:
            stretches.append((slot, slot))
    return stretches


def _each_event(spread: Spread, shape: Shape) -> str:
    """One row per event, with the columns of states."""
    short, long = spread.asked.numbers(shape.field)
    columns = {"short": short, "long": long, "timestamp": "timestamp", "sequence": "sequence"}
    n, counting = "1", "1"
    if shape.kind == NUMBERS:
        n, counting = "short IS NOT NULL", "short IS NOT NULL OR long IS NOT NULL"
    sums = f"{n} AS n, short % {BILLION} AS low, short / {BILLION} AS high, short AS top, long IS NOT NULL AS longs"
    others = "long AS rest, long AS long_top, timestamp AS first_at, sequence AS first_sequence, timestamp AS last_at"
    return f"{_listed(spread, (sums, others), spread.rows(columns))} WHERE {counting}"


def _add(cells: dict[Place, Cell], place: Place, aggregation_type: str, sums: tuple[Any, ...]) -> None:
    """Add a state's columns to the cell of a place."""
    n, low, high, top, longs, rest, long_top, _ = sums
    cell = cells.get(place)
    is_new = cell is None
    if cell is None:
        cell = cells[place] = Cell()
    cell.events += n + longs
    match aggregation_type:
        case CountedAs.COUNT:
            cell.millionths += n * MILLION
        case CountedAs.SUM:
            cell.millionths += (low or 0) + (high or 0) * BILLION
            if rest is not None:
                cell.rest = add(cell.rest, Decimal(rest))
        case CountedAs.MAX:
            values = [] if top is None else [from_millionths(top)]
            values += [] if long_top is None else [Decimal(long_top)]
            cell.rest = max(values, default=ZERO) if is_new else max([cell.rest, *values])
