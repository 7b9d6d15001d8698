"""Rules of running states that every engine follows: the shapes and slices of series, and when a series pays off.

A series keeps partial aggregates by slices of time for one external subscription and code. Its shape says what they
keep: a count, the numbers of a field (also weighted by their instants, or with the prices sent with events), or the
values of a field, each by the texts of some properties, or by the filters of a charge that price the events.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from usagebill.core.filters import FilterIndex
from usagebill.storage.event_queries import CountedAs, EventQuery
from usagebill.storage.event_rows import microseconds

# The kinds of series.
COUNT: Final = "count"
NUMBERS: Final = "numbers"
VALUES: Final = "values"
WEIGHTED_NUMBERS: Final = "weighted numbers"
PRICED_NUMBERS: Final = "priced numbers"
# The stages of a series: its older events are being added; it answers queries; it does not pay off.
BUILDING, READY, USELESS = 0, 1, 2

# Slices, in microseconds.
HOUR: Final = 3_600_000_000
DAY: Final = 24 * HOUR
QUARTER: Final = HOUR // 4
# More whole days than have passed since the year 1: slots are shifted by it, because SQL's `/` rounds towards zero.
AGES: Final = 1_000_000 * DAY

# Fewer events of a code are counted fast enough without a series.
DENSE: Final = 10_000
# A plain count only reads an index. Counting by filters or groups takes several times as long, so fewer events suffice.
_DENSE_BY_KEYS: Final = 3_000
# Counting this many events for one query is worth a series.
WORTH_A_SERIES: Final = 10_000
# Most series of one subscription and code.
MAX_SERIES: Final = 16
# Most properties by which states are keyed.
_MAX_KEYS: Final = 8
# Longest definition of filters that is stored with a series, in characters, and most keys in these filters.
_MAX_DEFINITION: Final = 20_000
_MAX_FILTER_KEYS: Final = 50
# A series needs at least this many events per state to pay off; fewer if it is keyed by properties.
EVENTS_PER_STATE: Final = 4
EVENTS_PER_KEYED_STATE: Final = 2
# A series that was given up is tried again at this many times the events.
MANY_MORE: Final = 2

# Events rolled up per transaction, so that no writer waits long.
AT_ONCE: Final = 5_000
# With this many waiting, the writer that stores events rolls them up itself.
MAX_WAITING: Final = 10_000
# Fewer waiting events are not worth a transaction.
MIN_WAITING: Final = 1_000
# Replaces the position after events were edited by hand.
EDITED: Final = -1

# Up to this many stretches of time are read event by event; with more, everything is.
MAX_STRETCHES: Final = 20
# Reading this many events at the edges of a query is worth narrower slices.
TOO_MANY_READ: Final = 250

NO_FILTERS: Final = FilterIndex([], {})

Pair: TypeAlias = tuple[str, str, str]  # organization, external subscription and code


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a series: a kind, the aggregated field, and the properties by which its states are keyed.

    With `filters`, the definition of a `FilterIndex`, states are keyed by the positions of these filters first.
    """

    kind: str
    field: str | None
    keys: tuple[str, ...]
    filters: str | None = None

    @property
    def columns(self) -> tuple[str, str, str]:
        """The columns `kind`, `field` and `keys`."""
        keys = json.dumps(self.keys)
        by = keys if self.filters is None else f'{{"keys":{keys},"filters":{self.filters}}}'
        return self.kind, json.dumps(self.field), by

    @staticmethod
    def of_columns(kind: str, field: str, keys: str) -> Shape:
        """The shape with these `columns`."""
        by = json.loads(keys)
        if isinstance(by, list):
            return Shape(kind, json.loads(field), tuple(by))
        filters = json.dumps(by["filters"], separators=(",", ":"))
        return Shape(kind, json.loads(field), tuple(by["keys"]), filters)

    @property
    def is_keyed(self) -> bool:
        """Whether states keep events with different properties apart."""
        return bool(self.keys) or self.filters is not None

    @property
    def by_properties(self) -> Shape:
        """The shape that is keyed by the properties that the filters name, and not by their positions."""
        if self.filters is None:
            return self
        named = FilterIndex.of_definition(self.filters).keys
        return Shape(self.kind, self.field, tuple(sorted({*self.keys, *named})))


_KINDS: Final[Mapping[str, str]] = {
    CountedAs.COUNT: COUNT,
    CountedAs.SUM: NUMBERS,
    CountedAs.MAX: NUMBERS,
    CountedAs.LATEST: NUMBERS,
    CountedAs.UNIQUE_COUNT: VALUES,
    CountedAs.WEIGHTED_SUM: WEIGHTED_NUMBERS,
}
# If prices sent with events are added up too.
_PRICED_KINDS: Final[Mapping[str, str]] = {CountedAs.SUM: PRICED_NUMBERS}


def shape_of(question: EventQuery, filters: FilterIndex | None = None, *, by_positions: bool = False) -> Shape | None:
    """The shape of the series that can answer a query; None if none can.

    Its states are keyed by the positions of the filters if `by_positions`, unless there are very many of these.
    """
    kind = (_PRICED_KINDS if question.amounts else _KINDS).get(question.aggregation_type)
    if kind is None or (kind != COUNT and question.field_name is None):
        return None
    if question.stored_after is not None:
        return None
    scopes = (question.bucket.matches, *question.bucket.excludes, question.only)
    keys = {*question.group_keys, *(key for scope in scopes for key in scope)}
    definition = None
    if filters is not None and filters.keys:
        if by_positions and len(filters.keys) <= _MAX_FILTER_KEYS and len(filters.definition) <= _MAX_DEFINITION:
            definition = filters.definition
        else:
            keys.update(filters.keys)
    if len(keys) > _MAX_KEYS:
        return None
    return Shape(kind, None if kind == COUNT else question.field_name, tuple(sorted(keys)), definition)


def counts_by_keys(shape: Shape) -> bool:
    """Whether a series of the shape only counts, but keeps events with different properties apart."""
    return shape.kind == COUNT and shape.is_keyed


def min_events(shape: Shape, dense: int) -> int:
    """The number of events that a series of the shape needs to pay off; `dense` are enough for any shape."""
    return min(dense, _DENSE_BY_KEYS) if counts_by_keys(shape) else dense


def days_of(series_id: int) -> int:
    """The number of the days of a series by narrower slices, which are in the same tables."""
    return -series_id


def narrower_than(present: int, width: int) -> list[int]:
    """The widths of slices below that of the present ones, down to `width`, narrowest first."""
    return [narrower for narrower in (QUARTER, HOUR) if width <= narrower < present]


def stretches_of(slots: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last slots of each run of consecutive slots."""
    stretches: list[tuple[int, int]] = []
    for slot in slots:
        if stretches and stretches[-1][1] == slot - 1:
            stretches[-1] = (stretches[-1][0], slot)
        else:
            stretches.append((slot, slot))
    return stretches


class Bounds:
    """The instants, both inclusive, between which events of a query may count, and those between which all do.

    All are in microseconds, and so is `known_at`, the latest instant at which the events were received.
    """

    def __init__(self, question: EventQuery) -> None:
        self.earliest = _or(question.earliest, -(2**62))
        self.latest = _or(question.latest_timestamp, _LAST)
        self.known_at = _or(question.known_at, _LAST)
        self.whole_from = self.earliest
        if question.after is not None and question.first_end is not None:
            self.whole_from = max(self.earliest, microseconds(question.first_end))
        if question.held_from is not None:
            # Events before count from there on.
            self.whole_from = max(self.whole_from, microseconds(question.held_from))
        # At these instants only some events count.
        split = [event.timestamp for event in (question.up_to, question.before) if event is not None]
        split += [] if question.last_start is None else [question.last_start]
        self.whole_to = min([self.latest, *(microseconds(instant) - 1 for instant in split)])

    @property
    def narrowest(self) -> int:
        """The width of slices of which there is one between each two of these instants, or nearly: quarters of an hour
        if any is off the hour, as in time zones such as India's.
        """
        edges = [at for at in (self.whole_from, self.whole_to + 1) if abs(at) < _LAST]
        return HOUR if all(at % HOUR == 0 for at in edges) else QUARTER


_LAST: Final = 2**62
_MOST_MISSING: Final = 100_000
_FIRST_STRETCH: Final = 60_000_000


def growing_stretches(bounds: Bounds) -> Iterator[tuple[int, int]]:
    """The time from the earliest to the latest instant in stretches, each four times as long as the one before: what
    is near the start is found in the first, without reading all.
    """
    first, length = bounds.earliest, _FIRST_STRETCH
    while first <= bounds.latest:
        yield first, min(first + length - 1, bounds.latest)
        first, length = first + length, 4 * length


def _or(instant: datetime | None, otherwise: int) -> int:
    return otherwise if instant is None else microseconds(instant)


class MissingSeries:
    """The series that queries lacked, or found too coarse, since this process started or last created series.

    If there are very many, which only a process that creates none can note, further ones are not: their next query
    notes them again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._missing: dict[tuple[Pair, Shape], int | None] = {}

    def __bool__(self) -> bool:
        return bool(self._missing)

    def note(
        self,
        organization_id: str,
        external_subscription_id: str,
        code: str,
        shape: Shape,
        *,
        narrower: int | None = None,
    ) -> None:
        """A series of the shape would have answered a query about this pair; or, if `narrower`, one with slices of this
        width would have answered it faster than the present one.
        """
        with self._lock:
            if len(self._missing) < _MOST_MISSING:
                self._missing[(organization_id, external_subscription_id, code), shape] = narrower

    def take(self, organization_id: str | None = None) -> list[tuple[Pair, Shape, int | None]]:
        """Remove and return all of them, or an organization's, as they were noted; the next query notes them again."""
        with self._lock:
            taken = [(*item, width) for item, width in self._missing.items() if organization_id in (None, item[0][0])]
            for pair, shape, _ in taken:
                del self._missing[pair, shape]
        return taken

    def organizations(self) -> list[str]:
        """Their organizations."""
        with self._lock:
            return list(dict.fromkeys(pair[0] for pair, _ in self._missing))
