"""Aggregations by bucket: one query for all filters of a charge."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias, assert_never

from usagebill.core.aggregation import AggregateResult, Operation
from usagebill.core.copies import maker
from usagebill.core.filters import FilterIndex
from usagebill.core.numbers import ZERO, add
from usagebill.storage.event_queries import CountedAs, EventQuery, Group
from usagebill.storage.event_rows import instant
from usagebill.storage.sqlite.events.answers import (
    BILLION,
    MILLION,
    Selection,
    from_millionths,
    places_sql,
    weights_sql,
)
from usagebill.storage.sqlite.events.filter_positions import positions_of, positions_sql
from usagebill.storage.sqlite.events.filter_values import counts_of

# Most cached combinations of properties.
_PLACES_AT_MOST: Final = 100_000
# SQLite joins 64 tables at most; the values of further keys are compared as text.
_JOINED_AT_MOST: Final = 40
# SQLite's whole numbers are below 2 ** 63.
_NUMBERS_AT_MOST: Final = 2**62

_ADD, _REMOVE = Operation.ADD.value, Operation.REMOVE.value


def answer_by_bucket(
    connection: sqlite3.Connection, organization_id: str, question: EventQuery, filters: FilterIndex
) -> dict[int, dict[Group, AggregateResult]]:
    """See `storage.ports.EventStore.tallies_by_bucket`."""
    counts = counts_of(connection, organization_id, question, filters)
    selection = Selection(connection, organization_id, question)
    if counts is not None and counts.uncounted is not None:
        selection = selection.among_events("events INDEXED BY events_usage", counts.uncounted)
    spread = Spread(selection, question, filters)
    counted_as = CountedAs(question.aggregation_type)
    match counted_as:
        case CountedAs.LATEST:
            cells = _latest_cells(spread)
        case CountedAs.UNIQUE_COUNT:
            cells = _unique_cells(spread)
        case CountedAs.WEIGHTED_SUM:
            cells = _weighted_cells(spread)
        case CountedAs.COUNT if counts is not None:
            cells = _count_cells(spread) if counts.uncounted is not None else {}
            for positions, count in counts.by_positions.items():
                for position in positions:
                    cells.setdefault((position, ()), Cell()).count(count)
        case CountedAs.COUNT:
            cells = _count_cells(spread)
        case CountedAs.SUM:
            cells = _sum_cells(spread)
        case CountedAs.MAX:
            cells = _max_cells(spread)
        case _:
            assert_never(counted_as)
    buckets: dict[int, dict[Group, AggregateResult]] = {}
    for (position, group), cell in cells.items():
        buckets.setdefault(position, {})[group] = cell.result()
    return buckets


Place: TypeAlias = tuple[int, Group]
_made_result: Final = maker(AggregateResult)


@dataclass(slots=True)
class Cell:
    """The running aggregate of one group of one bucket; whole millionths and longer numbers separately."""

    millionths: int = 0
    rest: Decimal = ZERO
    events: int = 0
    amount: Decimal = ZERO
    moment: Decimal = ZERO
    last_at: int | None = None

    def result(self) -> AggregateResult:
        units = from_millionths(self.millionths)
        # A weighted sum shows as many decimals as its longest number, even if it is zero.
        units = units if self.rest is ZERO else add(units, self.rest)
        last_at = None if self.last_at is None else instant(self.last_at)
        # In the order of its fields.
        made: AggregateResult = _made_result(units, self.events, self.amount, None, last_at, self.moment)
        return made

    def weigh(self, change: str, moment: str, last_at: int) -> None:
        """Add changes of a weighted sum, `last_at` in microseconds."""
        self.rest, self.moment = add(self.rest, Decimal(change)), add(self.moment, Decimal(moment))
        self.last_at = last_at if self.last_at is None else max(self.last_at, last_at)

    def count(self, events: int) -> None:
        self.events += events
        self.millionths += events * MILLION

    def pay(self, amount: str | None) -> None:
        if amount is not None:
            self.amount = add(self.amount, Decimal(amount))


class Spread:
    """The events of one query over the buckets of filters; each row begins with the columns that decide its bucket.

    With the filters' `definition` that is the text of their positions, otherwise the values of their keys.
    """

    def __init__(
        self, selection: Selection, question: EventQuery, filters: FilterIndex, definition: str | None = None
    ) -> None:
        self.selection = selection
        self.question = question
        self.filters = filters
        self._groups = len(question.group_keys)
        self.definition = definition
        self._accepted: list[Sequence[str]] = []
        self._packed: list[list[int]] = []
        self._columns: list[str] = []
        self._with = self._joins = ""
        if definition is None:
            self._join_values()
        else:
            texts = [] if selection.positions else [selection.query.text(key) for key in filters.keys]
            self._columns.append(selection.positions or positions_sql(selection.query, filters, texts))
        self._count = self._groups + len(self._columns)
        self._places: dict[tuple[Any, ...], tuple[Place, ...]] = {}

    def _join_values(self) -> None:
        filters, selection = self.filters, self.selection
        # Values that no filter accepts count as one, so few combinations remain however many values there are.
        self._accepted = [filters.accepted_values(key) for key in filters.keys]
        self._numbered = min(len(filters.keys), _JOINED_AT_MOST)
        lists = [f"a{place}" for place in range(self._numbered)]
        self._with = ", ".join(
            f"{name} (value, n) AS MATERIALIZED (SELECT value, key + 1 FROM json_each({selection.query.json(values)}))"
            for name, values in zip(lists, self._accepted, strict=False)
        )
        self._joins = self._joined(lists)
        # A combination is encoded in as few whole numbers as possible: they sort faster than texts.
        most = _NUMBERS_AT_MOST
        for name, values in zip(lists, self._accepted, strict=False):
            number, size = f"coalesce({name}.n, 0)", len(values) + 1
            most *= size
            if most < _NUMBERS_AT_MOST:
                self._columns[-1] = f"({self._columns[-1]}) * {size} + {number}"
                self._packed[-1].append(size)
            else:
                most = size
                self._columns.append(number)
                self._packed.append([size])
        for key, values in list(zip(filters.keys, self._accepted, strict=True))[self._numbered :]:
            text = selection.query.text(key)
            self._columns.append(f"CASE WHEN {text} IN {selection.query.listed(values)} THEN {text} END")

    def places(self, key: tuple[Any, ...]) -> tuple[Place, ...]:
        """The buckets and groups of events with these deciding columns."""
        known = self._places.get(key)
        if known is None:
            group, columns = key[: self._groups], key[self._groups :]
            if self.definition is None:
                positions = self.filters.of_values(self._texts(columns))
            else:
                positions = positions_of(columns[0])
            known = tuple([(position, group) for position in positions])
            if len(self._places) < _PLACES_AT_MOST:
                self._places[key] = known
        return known

    def _joined(self, lists: Sequence[str]) -> str:
        keys = self.filters.keys
        decides = self.filters.deciding_key() if len(keys) > 1 else None
        first = keys.index(decides) if decides in keys[: len(lists)] else None
        joins = ""
        for place in sorted(range(len(lists)), key=lambda place: place != first):
            text = self.selection.query.text(keys[place])
            if first not in (None, place):
                # Properties that do not matter are not looked up.
                text = f"CASE WHEN a{first}.n THEN {text} END"
            joins += f" LEFT JOIN {lists[place]} ON {lists[place]}.value = {text}"
        return joins

    def _texts(self, columns: tuple[Any, ...]) -> list[str | None]:
        """The accepted values that the columns encode, one per key."""
        numbers: list[int] = []
        for packed, sizes in zip(columns, self._packed, strict=False):
            unpacked = []
            for size in reversed(sizes[1:]):
                packed, number = divmod(packed, size)
                unpacked.append(number)
            numbers += packed, *reversed(unpacked)
        texts = [
            values[number - 1] if number else None for values, number in zip(self._accepted, numbers, strict=False)
        ]
        return [*texts, *columns[len(self._packed) :]]

    def grouped(
        self, *columns: str, counting: str, field: str | None = None, condition: str = "1"
    ) -> Iterator[tuple[tuple[Place, ...], tuple[Any, ...]]]:
        """The aggregates `columns` per bucket and group, in order of the groups' first events.

        In `columns` and `counting`, the number in `field` is named `short` and `long` (`Selection.numbers`), or
        `number` as text; the instant from which it counts is `held_at`.
        """
        short, long = self.selection.numbers(field)
        counted = f" WHERE {counting}" if self._groups else ""
        in_order = " ORDER BY MIN(timestamp), MIN(sequence)" if self._groups else ""
        columns_by_name = {"short": short, "long": long}
        columns_by_name |= {"number": self.selection.query.number(field), "held_at": self.selection.held_at}
        columns_by_name |= {name: name for name in ("precise_total_amount_cents", "timestamp", "sequence")}
        # Unnamed columns would still be read for every event. A query needs a column, and the sequence is free.
        named = " ".join((*columns, counted, in_order, "sequence"))
        yield from self._rows(
            {name: column for name, column in columns_by_name.items() if name in named},
            lambda names, rows: (
                f"SELECT {', '.join((*names, *columns))} FROM ({rows}){counted}"
                f"{f' GROUP BY {places_sql(len(names))}' if names else ''}{in_order}"
            ),
            condition,
        )

    def events(self, *columns: str, condition: str = "1") -> Iterator[tuple[tuple[Place, ...], tuple[Any, ...]]]:
        """`columns` of each event that meets the condition, in order of time."""
        columns_by_name = {f"c{place}": column for place, column in enumerate(columns)}
        shown = ", ".join(columns_by_name)
        order = "timestamp, created_at, id"
        columns_by_name |= {name: name for name in order.split(", ")}
        yield from self._rows(
            columns_by_name,
            lambda names, rows: f"SELECT {', '.join((*names, shown))} FROM ({rows}) ORDER BY {order}",
            condition,
        )

    def distinct(self, *columns: str) -> Iterator[tuple[tuple[Place, ...], tuple[Any, ...]]]:
        """Distinct `columns` of the events, in no order."""
        columns_by_name = {f"c{place}": column for place, column in enumerate(columns)}
        yield from self._rows(columns_by_name, lambda names, rows: f"SELECT DISTINCT * FROM ({rows})")

    @property
    def names(self) -> list[str]:
        """The columns of `rows` that determine the bucket and group; `places` takes their values."""
        return [f"k{place}" for place in range(self._count)]

    def rows(self, columns_by_name: Mapping[str, str], condition: str = "1") -> str:
        """The query for a row per event: `names`, and `columns_by_name` (SQL by name). The limit keeps SQLite from
        merging it into the outer query, so that each value is computed once per event.
        """
        keys = [f"{key} AS k{place}" for place, key in enumerate(self.selection.keys)]
        keys += [f"{column} AS k{self._groups + place}" for place, column in enumerate(self._columns)]
        named = [f"{column} AS {name}" for name, column in columns_by_name.items()]
        return (
            f"SELECT {', '.join((*keys, *named))} FROM {self.selection.source}{self._joins}{self.selection.where}"
            f" AND {condition} LIMIT -1"
        )

    def ask(self, sql: str) -> Iterator[tuple[tuple[Place, ...], tuple[Any, ...]]]:
        """The places of each row of `sql`, which begins with `names`, and its other columns."""
        for row in self.selection.each(f"WITH {self._with} {sql}" if self._with else sql):
            yield self.places(row[: self._count]), row[self._count :]

    def _rows(
        self, columns_by_name: Mapping[str, str], asks: Callable[[Sequence[str], str], str], condition: str = "1"
    ) -> Iterator[tuple[tuple[Place, ...], tuple[Any, ...]]]:
        """The rows of the query that `asks` makes from `names` and `rows`."""
        yield from self.ask(asks(self.names, self.rows(columns_by_name, condition)))

    @property
    def amount(self) -> str:
        return "precise_total_amount_cents" if self.question.amounts else "NULL"


_COUNTING: Final = "(short IS NOT NULL OR long IS NOT NULL)"


def _count_cells(spread: Spread) -> dict[Place, Cell]:
    """Counts: pre-aggregated by the database, then merged, as are maxima and sums."""
    cells: dict[Place, Cell] = {}
    for places, (count, amount) in spread.grouped("COUNT(*)", spread.selection.amounts(), counting="1"):
        for place in places:
            cell = cells.setdefault(place, Cell())
            cell.count(count)
            cell.pay(amount)
    return cells


def _max_cells(spread: Spread) -> dict[Place, Cell]:
    field = spread.question.field_name
    columns = ("COUNT(short)", "COUNT(long)", spread.selection.amounts(_COUNTING))
    largest = "exact_max(long) FILTER (WHERE long IS NOT NULL)"
    return _largest(spread.grouped(*columns, "MAX(short)", largest, counting=_COUNTING, field=field))


def _sum_cells(spread: Spread) -> dict[Place, Cell]:
    """Sums, in two halves if one would overflow the integers of SQLite."""
    field, counting = spread.question.field_name, _COUNTING
    columns = ("COUNT(short)", "COUNT(long)", spread.selection.amounts(counting))
    rest = "exact_sum(long) FILTER (WHERE long IS NOT NULL)"
    try:
        return _summed(spread.grouped(*columns, rest, "SUM(short)", "0", counting=counting, field=field))
    except sqlite3.OperationalError as problem:
        if "overflow" not in str(problem):
            raise
        halves = (f"SUM(short % {BILLION})", f"SUM(short / {BILLION})")
        return _summed(spread.grouped(*columns, rest, *halves, counting=counting, field=field))


def _summed(rows: Iterator[tuple[tuple[Place, ...], tuple[Any, ...]]]) -> dict[Place, Cell]:
    cells: dict[Place, Cell] = {}
    for places, (count, long_count, amount, rest, low, high) in rows:
        if not count and not long_count:
            continue
        for place in places:
            cell = cells.get(place)
            if cell is None:
                cell = cells[place] = Cell()
            cell.events += count + long_count
            cell.millionths += (low or 0) + (high or 0) * BILLION
            if rest is not None:
                cell.rest = add(cell.rest, Decimal(rest))
            cell.pay(amount)
    return cells


def _largest(rows: Iterator[tuple[tuple[Place, ...], tuple[Any, ...]]]) -> dict[Place, Cell]:
    cells: dict[Place, Cell] = {}
    values: dict[Place, Decimal] = {}
    for places, (count, long_count, amount, largest, longest) in rows:
        if not count and not long_count:
            continue
        largest_values = ([from_millionths(largest)] if count else []) + ([Decimal(longest)] if long_count else [])
        for place in places:
            cell = cells.setdefault(place, Cell())
            cell.events += count + long_count
            values[place] = max((*largest_values, values[place]) if place in values else largest_values)
            cell.pay(amount)
    for place, value in values.items():
        cells[place].rest = value
    return cells


def _latest_cells(spread: Spread) -> dict[Place, Cell]:
    """Latest values: first their instants, with the counts, then the few events at these instants."""
    question, selection = spread.question, spread.selection
    cells: dict[Place, Cell] = {}
    last_at: dict[Place, int] = {}
    columns = ("COUNT(*)", selection.amounts(), "MAX(timestamp)")
    is_number = selection.query.is_number(question.field_name)
    for places, (count, amount, at) in spread.grouped(*columns, counting="1", condition=is_number):
        if not count:
            continue
        for place in places:
            cell = cells.setdefault(place, Cell())
            cell.events += count
            cell.pay(amount)
            last_at[place] = max(at, last_at.get(place, at))
    fill_in_latest(spread, cells, last_at)
    return cells


def fill_in_latest(spread: Spread, cells: Mapping[Place, Cell], last_at: Mapping[Place, int]) -> None:
    """Set the latest value of each cell, from an event at the instant `last_at`."""
    places_at: dict[int, list[Place]] = {}
    for place, at in last_at.items():
        places_at.setdefault(at, []).append(place)
    events = _at_instants(spread.selection, places_at)
    short, long = spread.selection.numbers(spread.question.field_name)
    values: dict[int, list[Decimal]] = {at: [] for at in places_at}
    for at, *number in events.rows(f"SELECT timestamp, {short}, {long} FROM {events.source}{events.where}"):
        values[at] += _latest_values(*number)
    several = []
    for at, at_instant in values.items():
        if len(at_instant) > 1:
            several.append(at)
            continue
        # A single event is the latest of all of them.
        for value in at_instant:
            for place in places_at[at]:
                cells[place].rest = value
    if not several:
        return
    few = Spread(_at_instants(spread.selection, several), spread.question, spread.filters, spread.definition)
    for places, (at, *number) in few.events("timestamp", short, long):
        for value in _latest_values(*number):
            for place in places:
                if at == last_at[place]:
                    cells[place].rest = value


def _at_instants(selection: Selection, instants: Iterable[int]) -> Selection:
    """The query over the events at some instants, in microseconds."""
    values = selection.query.json(sorted(instants))
    # Joined, so that each instant is looked up in the index: as a condition it would be tested on every event.
    joined = f"(SELECT value AS instant FROM json_each({values})) CROSS JOIN events INDEXED BY events_usage"
    return selection.among_events(joined, "timestamp = instant")


def _latest_values(short: int | None, long: str | None) -> list[Decimal]:
    """The value that an event's number counts as; none if it has no number."""
    if short is None and long is None:
        return []
    return [max(from_millionths(short) if long is None else Decimal(long), ZERO)]


def _weighted_cells(spread: Spread) -> dict[Place, Cell]:
    cells: dict[Place, Cell] = {}
    columns = ("COUNT(*)", spread.selection.amounts(), *weights_sql("exact_weights(number, held_at)"))
    field = spread.question.field_name
    rows = spread.grouped(
        *columns, "MAX(timestamp)", counting="1", field=field, condition=spread.selection.query.is_number(field)
    )
    for places, (count, amount, change, moment, last_at) in rows:
        if not count:
            continue
        for place in places:
            cell = cells.setdefault(place, Cell())
            cell.events += count
            cell.pay(amount)
            cell.weigh(change, moment, last_at)
    return cells


def _unique_cells(spread: Spread) -> dict[Place, Cell]:
    query, field = spread.selection.query, spread.question.field_name
    value = "NULL" if field is None else query.text(field)
    # Few events have an operation type; others add their value.
    says = "instr(properties, '\"operation_type\"')"
    operation = f"CASE WHEN {says} THEN coalesce({query.text('operation_type')}, 'add') ELSE 'add' END"
    if not spread.question.group_keys and not spread.question.amounts:
        added: dict[Place, set[str]] = {}
        for places, (text, done) in spread.distinct(value, operation):
            if done == _REMOVE:
                break
            if text is not None and done == _ADD:
                for place in places:
                    added.setdefault(place, set()).add(text)
        else:
            return {place: _counted(len(values)) for place, values in added.items()}
    # A value counts in the places in which its latest event adds it.
    active: dict[Place, dict[str, bool]] = {}
    amounts: dict[Place, Decimal] = {}
    for places, (text, done, amount) in spread.events(value, operation, spread.amount):
        if text is None or done not in (_ADD, _REMOVE):
            continue
        for place in places:
            active.setdefault(place, {})[text] = done == _ADD
            if amount is not None:
                amounts[place] = add(amounts.get(place, ZERO), Decimal(amount))
    cells = {place: _counted(sum(values.values())) for place, values in active.items()}
    for place, amount in amounts.items():
        cells[place].amount = amount
    return cells


def _counted(units: int) -> Cell:
    return Cell(millionths=units * MILLION, events=units)
