"""Aggregations from running states: whole slices as stored, and the events of partial slices one by one.

A slice is used as stored if all its events belong to the query: they are within the bounds, were received by
`known_at`, and none is in a second that two subscriptions share. Events of other slices are read, as are those that are
not rolled up yet. If states cannot answer the query, or would save nothing, the result is None and the events are
counted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any, Final, assert_never

from usagebill.core.aggregation import AggregateResult
from usagebill.core.filters import FilterIndex
from usagebill.core.numbers import ZERO, add
from usagebill.storage.event_queries import CountedAs, EventQuery, Group
from usagebill.storage.sqlite.events.answers import BILLION, MILLION, Selection, from_millionths, places_sql
from usagebill.storage.sqlite.events.bucket_answers import Cell, Place, Spread, fill_in_latest
from usagebill.storage.sqlite.events.lists import EventLists
from usagebill.storage.sqlite.events.states import FORM, rolled_up_to, slices_of
from usagebill.storage.usage_series import (
    COUNT,
    DAY,
    MAX_STRETCHES,
    NO_FILTERS,
    PRICED_NUMBERS,
    READY,
    TOO_MANY_READ,
    VALUES,
    WEIGHTED_NUMBERS,
    WORTH_A_SERIES,
    Bounds,
    MissingSeries,
    Shape,
    growing_stretches,
    min_events,
    shape_of,
    stretches_of,
)

# If more slices of a width than this need narrower ones, all of them use narrower ones.
_OPENED_AT_MOST: Final = 20
# Slices wider than this are only used for periods of at least their width.
_WIDE: Final = DAY

_Series = tuple[int, int]  # its id, and the width of its slices


class StateAnswers:
    """Queries over the states of one organization."""

    def __init__(self, connection: sqlite3.Connection, organization_id: str, missing: MissingSeries | None) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._missing_series = missing
        # Subscriptions without any series: if one is started meanwhile, counting their events is still correct.
        self._without: set[str] = set()

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult] | None:
        """See `storage.ports.EventLog.tallies`; None if the events are to be counted."""
        shape = shape_of(question)
        cells = None if shape is None else self._cells(question, NO_FILTERS, shape)
        if cells is None:
            return None
        tallies = {group: cell.result() for (_, group), cell in cells.items()}
        return tallies or {(None,) * len(question.group_keys): AggregateResult()}

    def tallies_by_bucket(
        self, question: EventQuery, filters: FilterIndex
    ) -> dict[int, dict[Group, AggregateResult]] | None:
        """See `storage.ports.EventLog.tallies_by_bucket`; None if the events are to be counted."""
        shape = shape_of(question, filters, by_positions=True)
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
        shape = None if self._missing_series is None else shape_of(question, filters, by_positions=True)
        if shape is None or self._missing_series is None:
            return
        if shape.kind == VALUES:
            # The estimate is of values, not of events.
            is_worth_it = _is_large(self._connection, self._organization_id, question.external_subscription_id)
        else:
            is_worth_it = events >= min_events(shape, WORTH_A_SERIES)
        if is_worth_it:
            self._missing_series.note(self._organization_id, question.external_subscription_id, question.code, shape)

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
        try:
            return self._added_cells(series, question, filters, shape, _columns_of(question))
        except _LongNumbers:
            every = (*_columns_of(question), *_LONG[question.aggregation_type])
            return self._added_cells(series, question, filters, shape, every)

    def _added_cells(
        self, series: _Series, question: EventQuery, filters: FilterIndex, shape: Shape, columns: tuple[str, ...]
    ) -> dict[Place, Cell] | None:
        """The aggregates of sums and extremes, from these columns of states.

        Raises `_LongNumbers` if these columns do not hold all numbers.
        """
        selection = Selection(self._connection, self._organization_id, question)
        whole_slots = self._whole_slots(series, shape, Bounds(question), selection)
        if whole_slots is None:
            return None
        slots, stretches = whole_slots
        self._note_narrower(series, question, shape, stretches)
        if question.group_keys:
            columns = (*columns, *_FIRST_EVENT)
        spread = Spread(selection, question, filters, shape.filters)
        states = " UNION ALL ".join(f"SELECT dims, {', '.join(columns)} FROM usage_states WHERE {at}" for at in slots)
        merged = ", ".join(f"{_MERGED[name]} AS {name}" for name in columns)
        kept = f"(SELECT dims, {merged} FROM ({states}) GROUP BY dims) AS s"
        whole = Spread(_among_states(selection, kept, shape), question, filters, shape.filters)
        parts = [_listed(whole, columns, whole.rows(_of_states(columns)))]
        read = self._read(selection, stretches)
        parts.extend(_each_event(Spread(events, question, filters, shape.filters), shape, columns) for events in read)
        sums = [_MERGED[name] if name in columns else "0" if name == "longs" else "NULL" for name in _SUMS]
        has_long = set(columns).issuperset(_LONG[question.aggregation_type])
        counted_as = CountedAs(question.aggregation_type)
        cells: dict[Place, Cell] = {}
        last_at: dict[Place, int] = {}
        for places, row in spread.ask(_grouped(spread.names, sums, parts, in_order=bool(question.group_keys))):
            n, longs, at = row[0], row[4], row[-1]
            if not n and not longs:
                continue
            if longs and not has_long:
                raise _LongNumbers
            for place in places:
                _add(cells, place, counted_as, row)
                if at is not None:
                    last_at[place] = max(at, last_at.get(place, at))
        if question.aggregation_type == CountedAs.LATEST:
            fill_in_latest(spread, cells, last_at)
        return cells

    def _whole_slots(
        self, series: _Series, shape: Shape, bounds: Bounds, selection: Selection
    ) -> tuple[list[str], list[tuple[int, int]]] | None:
        """The conditions for states of whole slices, and the stretches of time to read event by event; None if there
        are too many.

        The widest slices come first; partial ones are replaced by narrower ones.
        """
        id, width = series
        slices = [
            (number, wider)
            for number, wider in slices_of(id, width, shape)
            if wider <= max(_WIDE, bounds.latest - bounds.earliest)
        ]
        slots: list[str] = []
        ranges = [(bounds.earliest, bounds.latest)]
        stretches: list[tuple[int, int]] = []
        for number, wide in reversed(slices):
            partial = self._partial(number, wide, bounds) if ranges else {}
            opened = stretches_of(
                [
                    slot
                    for slot, reaches_in in partial.items()
                    if reaches_in and any(start // wide <= slot <= end // wide for start, end in ranges)
                ]
            )
            if number != id and sum(last - first + 1 for first, last in opened) > _OPENED_AT_MOST:
                continue
            # Range by range: given a list of hours, SQLite would scan a whole month for those of a day.
            slots += [
                _slots(selection, number, f"slot BETWEEN {start // wide} AND {end // wide}", partial)
                for start, end in ranges
            ]
            ranges = [
                (max(first * wide, bounds.earliest), min((last + 1) * wide - 1, bounds.latest))
                for first, last in opened
            ]
            stretches = opened
        if len(stretches) > MAX_STRETCHES:
            return None
        return slots, [(first * width, (last + 1) * width - 1) for first, last in stretches]

    def _note_narrower(
        self, series: _Series, question: EventQuery, shape: Shape, stretches: Sequence[tuple[int, int]]
    ) -> None:
        """Note that narrower slices would have answered the query without reading many events of these stretches."""
        (id, width), bounds = series, Bounds(question)
        if self._missing_series is None or not stretches or width <= bounds.narrowest:
            return
        slots = " OR ".join(f"slot BETWEEN {first // width} AND {last // width}" for first, last in stretches)
        (events,) = self._connection.execute(
            f"SELECT coalesce(SUM(n), 0) FROM usage_slots WHERE series = {id} AND ({slots})"
            f" AND received_at <= {bounds.known_at}"
        ).fetchone()
        if events >= TOO_MANY_READ:
            self._missing_series.note(
                self._organization_id,
                question.external_subscription_id,
                question.code,
                shape,
                narrower=bounds.narrowest,
            )

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
        is_in_order = True
        if any(first_at < bounds.earliest for _, first_at, *_ in slots):
            # The value occurred before and after; whether within is not known.
            unclear = f"{kept} AND first_at < {bounds.earliest} AND last_at > {bounds.latest} LIMIT 1"
            if self._connection.execute(unclear).fetchone():
                return None
            # When it first occurred within is not known either.
            is_in_order = not question.group_keys
        selection = Selection(self._connection, self._organization_id, question)
        spread = Spread(selection, question, filters, shape.filters)
        whole = Spread(_among_states(selection, f"({kept}) AS s", shape), question, filters, shape.filters)
        parts = [_listed(whole, _OF_VALUES, whole.rows({**_of_states(_OF_VALUES), "spoken": "0"}))]
        parts.extend(
            _each_value(Spread(events, question, filters, shape.filters)) for events in self._read(selection, [])
        )
        parts = [f"{part} WHERE value IS NOT NULL" for part in parts]
        counts: dict[Place, int] = {}
        # Rows by positions are of different places unless filters overlap.
        is_apart = not len(filters) or shape.filters is not None
        if is_apart:
            distinct = ("COUNT(DISTINCT value)", "MAX(spoken)")
            for places, (count, has_operations) in spread.ask(_grouped(spread.names, distinct, parts, in_order=True)):
                if has_operations:
                    return None
                is_apart = is_apart and counts.keys().isdisjoint(places)
                counts |= dict.fromkeys(places, count) if count else {}
        if not is_apart:
            values: dict[Place, set[str]] = {}
            by_value = _grouped([*spread.names, "value"], ["MAX(spoken)"], parts, in_order=True)
            for places, (text, has_operations) in spread.ask(by_value):
                if has_operations:
                    return None
                for place in places:
                    values.setdefault(place, set()).add(text)
            counts = {place: len(texts) for place, texts in values.items()}
        if not is_in_order:
            counts = _by_first_event(counts, spread, filters, shape, bounds)
        return {place: Cell(millionths=count * MILLION, events=count) for place, count in counts.items()}

    def _read(self, selection: Selection, stretches: list[tuple[int, int]]) -> list[Selection]:
        """The events that are read one by one: those in partial slots, and all that are not rolled up."""
        done = rolled_up_to(self._connection)
        parts = [
            selection.among_events(
                "events INDEXED BY events_usage", f"timestamp BETWEEN {first} AND {last} AND +sequence <= {done}"
            )
            for first, last in stretches
        ]
        return [*parts, selection.among_events("events NOT INDEXED", f"sequence > {done}")]


def _is_large(connection: sqlite3.Connection, organization_id: str, external_subscription_id: str) -> bool:
    """Whether the subscription has many events of any code."""
    return EventLists(connection, organization_id).has_counts(external_subscription_id)


def _slots(selection: Selection, series: int, among: str, without: Collection[int]) -> str:
    """The condition for the states of a series in some of its slots, `without` others."""
    left_out = f" AND slot NOT IN {selection.query.listed_numbers(list(without))}" if without else ""
    return f"series = {series} AND {among}{left_out}"


_SUMS: Final = ("n", "low", "high", "top", "longs", "rest", "long_top", "moment", "paid", "last_at")
_OF_VALUES: Final = ("spoken", "value", "first_at", "first_sequence")
_FIRST_EVENT: Final = ("first_at", "first_sequence")
# How columns of states are merged.
_MERGED: Final[Mapping[str, str]] = {
    "n": "SUM(n)",
    "low": "SUM(low)",
    "high": "SUM(high)",
    "top": "MAX(top)",
    "longs": "SUM(longs)",
    "rest": "exact_sum(rest) FILTER (WHERE rest IS NOT NULL)",
    "long_top": "exact_max(long_top) FILTER (WHERE long_top IS NOT NULL)",
    "first_at": "MIN(first_at)",
    "first_sequence": "MIN(first_sequence)",
    "last_at": "MAX(last_at)",
    "moment": "exact_sum(moment) FILTER (WHERE moment IS NOT NULL)",
    "paid": "exact_sum(paid) FILTER (WHERE paid IS NOT NULL)",
}
# The columns that an aggregation needs; columns of long numbers are separate, since they cost more than all others and
# are rarely used.
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    CountedAs.COUNT: ("n",),
    CountedAs.SUM: ("n", "low", "high", "longs"),
    CountedAs.MAX: ("n", "top", "longs"),
    CountedAs.LATEST: ("n", "longs", "last_at"),
    CountedAs.WEIGHTED_SUM: ("n", "longs", "rest", "moment", "last_at"),
}
_LONG: Final[Mapping[str, tuple[str, ...]]] = {
    CountedAs.COUNT: (),
    CountedAs.SUM: ("rest",),
    CountedAs.MAX: ("long_top",),
    CountedAs.LATEST: (),
    CountedAs.WEIGHTED_SUM: (),
}


def _columns_of(question: EventQuery) -> tuple[str, ...]:
    columns = _COLUMNS[question.aggregation_type]
    return (*columns, "paid") if question.amounts else columns


class _LongNumbers(Exception):
    """Some numbers have more digits than the requested columns hold."""


def _among_states(selection: Selection, states: str, shape: Shape) -> Selection:
    """The query over states of this shape."""
    has_positions = shape.filters is not None
    columns = {key: f"(s.dims ->> '$[{place}]')" for place, key in enumerate(shape.keys, int(has_positions))}
    return selection.among_rows(states, columns, "(s.dims ->> '$[0]')" if has_positions else None)


def _of_states(names: Sequence[str]) -> dict[str, str]:
    """Columns of states, by name."""
    return {name: f"s.{name}" for name in names}


def _listed(spread: Spread, columns: Sequence[str], rows: str) -> str:
    """The places of each row, and its `columns`."""
    return f"SELECT {', '.join((*spread.names, *columns))} FROM ({rows})"


def _grouped(names: Sequence[str], columns: Sequence[str], parts: Sequence[str], *, in_order: bool) -> str:
    """Aggregates of all rows of the parts that have the same `names`; `in_order` of their first events."""
    chosen = ", ".join((*names, *columns))
    by = f" GROUP BY {places_sql(len(names))}" if names else ""
    order = " ORDER BY MIN(first_at), MIN(first_sequence)" if in_order else ""
    return f"SELECT {chosen} FROM ({' UNION ALL '.join(parts)}){by}{order}"


def _each_event(spread: Spread, shape: Shape, columns: Sequence[str]) -> str:
    """One row per event, with these columns of states."""
    short, long = spread.selection.numbers(shape.field)
    read = {"timestamp": "timestamp", "sequence": "sequence"}
    if shape.kind == WEIGHTED_NUMBERS:
        short, long = "NULL", spread.selection.query.number(shape.field)
        read["held_at"] = spread.selection.held_at
    elif shape.kind == PRICED_NUMBERS:
        read["price"] = "precise_total_amount_cents"
    read |= {"short": short, "long": long}
    is_number = shape.kind != COUNT
    states = {
        "n": "short IS NOT NULL" if is_number else "1",
        "low": f"short % {BILLION}",
        "high": f"short / {BILLION}",
        "top": "short",
        "longs": "long IS NOT NULL",
        "rest": "long",
        "long_top": "long",
        "first_at": "timestamp",
        "first_sequence": "sequence",
        "last_at": "timestamp",
        "moment": "exact_product(long, held_at)",
        "paid": "price",
    }
    counting = "short IS NOT NULL OR long IS NOT NULL" if is_number else "1"
    return f"{_listed(spread, [f'{states[name]} AS {name}' for name in columns], spread.rows(read))} WHERE {counting}"


def _each_value(spread: Spread) -> str:
    """One row per event: its value, and whether it has an operation type."""
    rows = {
        "spoken": "instr(properties, '\"operation_type\"') > 0",
        "value": f"({spread.selection.query.text(spread.question.field_name or '')})",
        "first_at": "timestamp",
        "first_sequence": "sequence",
    }
    return _listed(spread, _OF_VALUES, spread.rows(rows))


def _by_first_event(
    counts: Mapping[Place, int], spread: Spread, filters: FilterIndex, shape: Shape, bounds: Bounds
) -> dict[Place, int]:
    """The counts in the order of the places' first events, which are read from the earliest until all have one."""
    ordered: dict[Place, int] = {}
    for first, last in growing_stretches(bounds):
        if len(ordered) == len(counts):
            break
        events = spread.selection.among_events(
            "events INDEXED BY events_usage", f"timestamp BETWEEN {first} AND {last}"
        )
        values = f"{_each_value(Spread(events, spread.question, filters, shape.filters))} WHERE value IS NOT NULL"
        for places, _ in spread.ask(_grouped(spread.names, ("1",), [values], in_order=True)):
            ordered |= {place: counts[place] for place in places if place in counts and place not in ordered}
    return {**ordered, **counts}


def _add(cells: dict[Place, Cell], place: Place, counted_as: CountedAs, sums: tuple[Any, ...]) -> None:
    """Add a state's columns to the cell of a place."""
    n, low, high, top, longs, rest, long_top, moment, paid, last_at = sums
    cell = cells.get(place)
    is_new = cell is None
    if cell is None:
        cell = cells[place] = Cell()
    cell.events += n + longs
    cell.pay(paid)
    match counted_as:
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
        case CountedAs.WEIGHTED_SUM:
            cell.weigh(rest, moment, last_at)
        case CountedAs.LATEST:
            pass  # its events are read afterwards
        case CountedAs.UNIQUE_COUNT:
            raise ValueError("states of unique counts are values, which are not added up")
        case _:
            assert_never(counted_as)
