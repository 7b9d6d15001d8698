"""Answers over buckets: one query for all filters of a charge, whose rows are told apart by what they hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

import msgspec

from usagebill.core.aggregation import AggregateResult
from usagebill.core.filters import FilterIndex
from usagebill.core.numbers import ZERO, add
from usagebill.storage.event_queries import EventQuery, Group
from usagebill.storage.sqlite.events.answers import (
    BILLION,
    MILLION,
    Asked,
    from_millionths,
    places_sql,
)

__all__ = ["answer_by_bucket"]

# So many combinations of properties are remembered with where they belong.
_PLACES_AT_MOST: Final = 100_000


def answer_by_bucket(
    connection: sqlite3.Connection, organization_id: str, question: EventQuery, filters: FilterIndex
) -> dict[int, dict[Group, AggregateResult]]:
    """See `storage.ports.EventStore.tallies_by_bucket`."""
    spread = _Spread(Asked(connection, organization_id, question), question, filters)
    match question.aggregation_type:
        case "latest_agg":
            cells = _latest_cells(spread)
        case "unique_count_agg":
            cells = _unique_cells(spread)
        case _:
            cells = _added_cells(spread)
    buckets: dict[int, dict[Group, AggregateResult]] = {}
    for (position, group), cell in cells.items():
        buckets.setdefault(position, {})[group] = cell.result()
    return buckets


_Place: TypeAlias = tuple[int, Group]


@dataclass(slots=True)
class _Cell:
    """What one group of one bucket comes to so far: whole millionths and longer numbers apart."""

    millionths: int = 0
    rest: Decimal = ZERO
    events: int = 0
    amount: Decimal = ZERO

    def result(self) -> AggregateResult:
        units = from_millionths(self.millionths)
        return AggregateResult(
            units=units if self.rest.is_zero() else add(units, self.rest),
            events_count=self.events,
            amount_cents=self.amount,
        )

    def pay(self, amount: str | None) -> None:
        if amount is not None:
            self.amount = add(self.amount, Decimal(amount))


class _Spread:
    """The events of one question over the buckets of filters: rows begin with what says where each belongs."""

    def __init__(self, asked: Asked, question: EventQuery, filters: FilterIndex) -> None:
        self.asked = asked
        self.question = question
        self._filters = filters
        self._keys = filters.keys
        self._groups = len(question.group_keys)
        texts = [asked.query.text(key) for key in self._keys]
        decides = filters.deciding_key() if len(self._keys) > 1 else None
        # If one key decides, the others are looked up where they matter; else each once, before it is looked at.
        self._texts = [] if decides else texts
        names = texts if decides else [f"v{place}" for place in range(len(texts))]
        # What no filter accepts is told apart by none: few combinations are left of however many values.
        accepted = [
            f"CASE WHEN {name} IN {asked.query.listed(filters.accepted_values(key))} THEN {name} END"
            for key, name in zip(self._keys, names, strict=True)
        ]
        # Several are sorted as one text, which takes less time.
        packed = [f"json_array({', '.join(accepted)})"] if len(accepted) > 1 else accepted
        if decides:
            matters = asked.query.among(decides, filters.accepted_values(decides))
            packed = [f"CASE WHEN {matters} THEN {packed[0]} END"]
        # Without any key all events belong to what no filter takes.
        self._columns = packed or ["NULL"]
        self._count = self._groups + len(self._columns)
        self._places: dict[tuple[str | None, ...], tuple[_Place, ...]] = {}

    def places(self, key: tuple[str | None, ...]) -> tuple[_Place, ...]:
        """The buckets and groups of the events whose columns are `key`."""
        known = self._places.get(key)
        if known is None:
            group, texts = key[: self._groups], key[self._groups :]
            if len(self._keys) > 1:
                texts = (None,) * len(self._keys) if texts[0] is None else tuple(msgspec.json.decode(texts[0]))
            elif not self._keys:
                texts = ()
            known = tuple((position, group) for position in self._filters.of_values(texts))
            if len(self._places) < _PLACES_AT_MOST:
                self._places[key] = known
        return known

    def grouped(
        self, *columns: str, counting: str, field: str | None = None
    ) -> Iterator[tuple[tuple[_Place, ...], tuple[Any, ...]]]:
        """The aggregates `columns` of all that belongs together; groups come in the order of their first events.

        `columns` and `counting` call the number in `field` `short` and `long` (`Asked.numbers`).
        """
        short, long = self.asked.numbers(field)
        names = ", ".join(f"k{place}" for place in range(self._count))
        counted, in_order = "", ""
        if self._groups:
            counted, in_order = f" WHERE {counting}", " ORDER BY MIN(timestamp), MIN(sequence)"
        others = {"short": short, "long": long}
        others |= {name: name for name in ("precise_total_amount_cents", "timestamp", "sequence")}
        sql = (
            f"SELECT {names}, {', '.join(columns)} FROM ({self._rows(others)}){counted}"
            f" GROUP BY {places_sql(self._count)}{in_order}"
        )
        for row in self.asked.each(sql):
            yield self.places(row[: self._count]), row[self._count :]

    def events(self, *columns: str, condition: str = "1") -> Iterator[tuple[tuple[_Place, ...], tuple[Any, ...]]]:
        """`columns` of each event that meets the condition, in order of time."""
        names = [*(f"k{place}" for place in range(self._count)), *(f"c{place}" for place in range(len(columns)))]
        others = {f"c{place}": column for place, column in enumerate(columns)}
        order = "timestamp, created_at, id"
        others |= {name: name for name in order.split(", ")}
        sql = f"SELECT {', '.join(names)} FROM ({self._rows(others, condition)}) ORDER BY {order}"
        for row in self.asked.each(sql):
            yield self.places(row[: self._count]), row[self._count :]

    def distinct(self, *columns: str) -> Iterator[tuple[tuple[_Place, ...], tuple[Any, ...]]]:
        """`columns` of the events, what is the same only once, in no order."""
        others = {f"c{place}": column for place, column in enumerate(columns)}
        for row in self.asked.each(f"SELECT DISTINCT * FROM ({self._rows(others)})"):
            yield self.places(row[: self._count]), row[self._count :]

    def _rows(self, others: Mapping[str, str], condition: str = "1") -> str:
        """A row an event: `k0` and so on, where it belongs, and `others`, SQL by name.

        The limits keep these queries apart from what is made of them: each value is looked up once an event.
        """
        groups = [f"{key} AS k{place}" for place, key in enumerate(self.asked.keys)]
        columns = [f"{column} AS k{self._groups + place}" for place, column in enumerate(self._columns)]
        named = [f"{column} AS {name}" for name, column in others.items()]
        where = f"{self.asked.where} AND {condition}"
        if not self._texts:
            return f"SELECT {', '.join((*groups, *columns, *named))} FROM events{where} LIMIT -1"
        texts = [f"{text} AS v{place}" for place, text in enumerate(self._texts)]
        events = f"SELECT {', '.join((*groups, *texts, *named))} FROM events{where} LIMIT -1"
        keys = [f"k{place}" for place in range(self._groups)]
        return f"SELECT {', '.join((*keys, *columns, *others))} FROM ({events}) LIMIT -1"

    @property
    def amount(self) -> str:
        return "precise_total_amount_cents" if self.question.amounts else "NULL"


def _added_cells(spread: _Spread) -> dict[_Place, _Cell]:
    """Counts, sums and maxima: aggregated by the database as far as events belong together, then put together."""
    asked, question = spread.asked, spread.question
    if question.aggregation_type == "count_agg":
        cells: dict[_Place, _Cell] = {}
        for places, (count, amount) in spread.grouped("COUNT(*)", asked.amounts(), counting="1"):
            for place in places:
                cell = cells.setdefault(place, _Cell())
                cell.events += count
                cell.millionths += count * MILLION
                cell.pay(amount)
        return cells
    counting = "(short IS NOT NULL OR long IS NOT NULL)"
    columns = ("COUNT(short)", "COUNT(long)", asked.amounts(counting))
    field = question.field_name
    if question.aggregation_type == "max_agg":
        largest = "exact_max(long) FILTER (WHERE long IS NOT NULL)"
        return _largest(spread.grouped(*columns, "MAX(short)", largest, counting=counting, field=field))
    rest = "exact_sum(long) FILTER (WHERE long IS NOT NULL)"
    try:
        return _summed(spread.grouped(*columns, rest, "SUM(short)", "0", counting=counting, field=field))
    except sqlite3.OperationalError as problem:
        if "overflow" not in str(problem):
            raise
        halves = (f"SUM(short % {BILLION})", f"SUM(short / {BILLION})")
        return _summed(spread.grouped(*columns, rest, *halves, counting=counting, field=field))


def _summed(rows: Iterator[tuple[tuple[_Place, ...], tuple[Any, ...]]]) -> dict[_Place, _Cell]:
    cells: dict[_Place, _Cell] = {}
    for places, (count, long_count, amount, rest, low, high) in rows:
        if not count and not long_count:
            continue
        for place in places:
            cell = cells.get(place)
            if cell is None:
                cell = cells[place] = _Cell()
            cell.events += count + long_count
            cell.millionths += (low or 0) + (high or 0) * BILLION
            if rest is not None:
                cell.rest = add(cell.rest, Decimal(rest))
            cell.pay(amount)
    return cells


def _largest(rows: Iterator[tuple[tuple[_Place, ...], tuple[Any, ...]]]) -> dict[_Place, _Cell]:
    cells: dict[_Place, _Cell] = {}
    values: dict[_Place, Decimal] = {}
    for places, (count, long_count, amount, largest, longest) in rows:
        if not count and not long_count:
            continue
        found = ([from_millionths(largest)] if count else []) + ([Decimal(longest)] if long_count else [])
        for place in places:
            cell = cells.setdefault(place, _Cell())
            cell.events += count + long_count
            values[place] = max((*found, values[place]) if place in values else found)
            cell.pay(amount)
    for place, value in values.items():
        cells[place].rest = value
    return cells


def _latest_cells(spread: _Spread) -> dict[_Place, _Cell]:
    """The latest values: their instants first, with the counts, and then the few events of these."""
    question, asked = spread.question, spread.asked
    counting = "(short IS NOT NULL OR long IS NOT NULL)"
    cells: dict[_Place, _Cell] = {}
    last_at: dict[_Place, int] = {}
    latest = f"MAX(timestamp) FILTER (WHERE {counting})"
    columns = (f"COUNT(*) FILTER (WHERE {counting})", asked.amounts(counting), latest)
    for places, (count, amount, at) in spread.grouped(*columns, counting=counting, field=question.field_name):
        if not count:
            continue
        for place in places:
            cell = cells.setdefault(place, _Cell())
            cell.events += count
            cell.pay(amount)
            last_at[place] = max(at, last_at.get(place, at))
    instants = asked.query.listed_numbers(sorted(set(last_at.values())))
    for places, (at, short, long) in spread.events(
        "timestamp", *asked.numbers(question.field_name), condition=f"timestamp IN {instants}"
    ):
        if short is None and long is None:
            continue
        for place in places:
            if at == last_at[place]:
                cells[place].rest = max(from_millionths(short) if long is None else Decimal(long), ZERO)
    return cells


def _unique_cells(spread: _Spread) -> dict[_Place, _Cell]:
    query, field = spread.asked.query, spread.question.field_name
    value = "NULL" if field is None else query.text(field)
    # Hardly any event says what it does to its value, and then it adds it.
    says = "instr(properties, '\"operation_type\"')"
    operation = f"CASE WHEN {says} THEN coalesce({query.text('operation_type')}, 'add') ELSE 'add' END"
    if not spread.question.group_keys and not spread.question.amounts:
        added: dict[_Place, set[str]] = {}
        for places, (text, done) in spread.distinct(value, operation):
            if done == "remove":
                break
            if text is not None and done == "add":
                for place in places:
                    added.setdefault(place, set()).add(text)
        else:
            return {place: _counted(len(values)) for place, values in added.items()}
    # Each value counts where its latest event adds it.
    active: dict[_Place, dict[str, bool]] = {}
    amounts: dict[_Place, Decimal] = {}
    for places, (text, done, amount) in spread.events(value, operation, spread.amount):
        if text is None or done not in ("add", "remove"):
            continue
        for place in places:
            active.setdefault(place, {})[text] = done == "add"
            if amount is not None:
                amounts[place] = add(amounts.get(place, ZERO), Decimal(amount))
    cells = {place: _counted(sum(values.values())) for place, values in active.items()}
    for place, amount in amounts.items():
        cells[place].amount = amount
    return cells


def _counted(units: int) -> _Cell:
    return _Cell(millionths=units * MILLION, events=units)
