"""How many units of a metric were used in a window, by filter and group."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from usagebill.simulation.oracle.days import local_day
from usagebill.simulation.oracle.prices import ZERO, Used, ceiled, rounded_to
from usagebill.simulation.oracle.story import Event, bucket_terms
from usagebill.simulation.oracle.verdicts import Unsure

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_EVERY = "__ALL_FILTER_VALUES__"
Group = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Window:
    """From `opens` to before `closes`, in a period of `length` days; `first` to `last` are the days that count."""

    opens: datetime
    closes: datetime
    first: date
    last: date
    length: int
    zone: ZoneInfo

    @property
    def days(self) -> int:
        return max((self.last - self.first).days + 1, 0)


def text(value: Any) -> str | None:
    """A property as text; None if it is not there."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def number(event: Event) -> Fraction | None:
    """The value of an event, if it is a number."""
    value = event.properties.get("value")
    written = text(value)
    if written is None or isinstance(value, bool) or not _NUMBER.fullmatch(written):
        return None
    return Fraction(written)


def buckets(
    charge: Mapping[str, Any], metric: Mapping[str, Any], events: Sequence[Event]
) -> list[tuple[Mapping[str, Any] | None, Mapping[str, Any], list[Event]]]:
    """The events of each filter of a charge, and of none: its values, its prices, its events."""
    declared = {one["key"]: one["values"] for one in metric.get("filters", ())}
    wanted = {
        place: {key: set(declared[key] if _EVERY in values else values) for key, values in one["values"].items()}
        for place, one in enumerate(charge.get("filters", ()))
    }

    def matches(event: Event, place: int) -> bool:
        return all(text(event.properties.get(key)) in values for key, values in wanted[place].items())

    def narrower(other: int, than: int) -> bool:
        """Whether the other filter takes away what both match: it says more, on top of what this one says."""
        mine, its = wanted[than], wanted[other]
        if not all(key in its and its[key] & values for key, values in mine.items()):
            return False
        if len(its) == len(mine) and its != mine and not all(its[key] <= mine[key] for key in mine):
            raise Unsure("filters that overlap in part")
        if its == mine:
            return other < than
        return True

    found: list[tuple[Mapping[str, Any] | None, Mapping[str, Any], list[Event]]] = []
    for place, (values, terms) in enumerate(bucket_terms(charge)):
        if values is None:
            own = [event for event in events if not any(matches(event, other) for other in wanted)]
        else:
            taken = [other for other in wanted if other != place and narrower(other, place)]
            own = [
                event for event in events if matches(event, place) and not any(matches(event, other) for other in taken)
            ]
        found.append((values, terms, own))
    return found


def groups(terms: Mapping[str, Any], events: Sequence[Event]) -> dict[Group, list[Event]]:
    """The events by the values of the keys that the price is grouped by; without events, one group of nothing."""
    keys = terms.get("pricing_group_keys") or ()
    found: dict[Group, list[Event]] = defaultdict(list)
    for event in events:
        found[tuple((key, text(event.properties.get(key)) or None) for key in keys)].append(event)
    return dict(found) or {tuple((key, None) for key in keys): []}


def used(metric: Mapping[str, Any], prorated: bool, events: Sequence[Event], window: Window) -> Used:
    """What the events come to; for a metric that is carried over they are all since the first start."""
    events = sorted(events, key=lambda event: (event.at, event.place))
    kind = metric["aggregation_type"]
    if kind == "count_agg":
        found = Used(Fraction(len(events)), values=[Fraction(1)] * len(events))
    elif kind == "unique_count_agg":
        found = _unique(metric, prorated, events, window)
    else:
        counted = [(event, value) for event in events if (value := number(event)) is not None]
        found = _numbers(metric, prorated, counted, window)
    return _rounded(metric, found)


def _rounded(metric: Mapping[str, Any], found: Used) -> Used:
    how = metric.get("rounding_function")
    if how is None:
        return found
    digits = metric.get("rounding_precision") or 0

    def turn(units: Fraction) -> Fraction:
        if how == "floor":
            return -ceiled(-units, digits)
        return ceiled(units, digits) if how == "ceil" else rounded_to(units, digits)

    return Used(turn(found.units), turn(found.full), found.values, found.cents, found.parts)


def _numbers(
    metric: Mapping[str, Any], prorated: bool, counted: Sequence[tuple[Event, Fraction]], window: Window
) -> Used:
    kind, values = metric["aggregation_type"], [value for _, value in counted]
    if kind == "max_agg":
        most = max(values, default=ZERO)
        first = values.index(most) if values else 0
        return Used(most, values=[most if place == first else ZERO for place in range(len(values))])
    if kind == "latest_agg":
        return Used(max(values[-1], ZERO) if values else ZERO, values=values)
    if kind == "weighted_sum_agg":
        return _weighted(counted, window)
    cents = sum((event.cents for event, _ in counted), ZERO)
    total = sum(values, ZERO)
    if not prorated:
        return Used(total, values=values, cents=cents)
    before = sum((value for event, value in counted if event.at < window.opens), ZERO)
    parts = [(before, before * Fraction(window.days, window.length))] if before else []
    for event, value in counted:
        if event.at >= window.opens:
            days = max((window.last - local_day(event.at, window.zone)).days + 1, 0)
            parts.append((value, value * Fraction(days, window.length)))
    units = ceiled(sum((share for _, share in parts), ZERO), 5)
    return Used(units, total, values, cents, parts)


def _weighted(counted: Sequence[tuple[Event, Fraction]], window: Window) -> Used:
    second = timedelta(microseconds=1)
    area, level, since = ZERO, ZERO, window.opens
    for event, value in counted:
        at = max(event.at, window.opens)
        area += level * ((at - since) // second)
        level, since = level + value, at
    area += level * ((window.closes - since) // second)
    inside = [value for event, value in counted if event.at >= window.opens]
    return Used(area / (window.length * 86_400_000_000), values=inside)


def _unique(metric: Mapping[str, Any], prorated: bool, events: Sequence[Event], window: Window) -> Used:
    states: dict[str, list[tuple[datetime, bool]]] = defaultdict(list)
    known = []
    for event in events:
        value, operation = text(event.properties.get("value")), event.properties.get("operation_type") or "add"
        if value is None or operation not in ("add", "remove"):
            continue
        known.append(event)
        states[value].append((event.at, operation == "add"))
    active = sum(_is_on(changes) for changes in states.values())
    if not prorated:
        return Used(Fraction(active), values=[Fraction(1)] * len(known))
    parts: list[tuple[datetime, str, Fraction, Fraction]] = []
    for value, changes in states.items():
        for since, until in _stretches(changes, window.zone):
            start = max(local_day(since, window.zone), window.first)
            if until is None:
                stop = window.last
            elif until < window.opens:
                continue
            else:
                stop = min(local_day(until, window.zone), window.last)
            days = max((stop - start).days + 1, 0)
            parts.append((since, value, Fraction(1), Fraction(days, window.length)))
            if until is not None:
                parts.append((until, value, Fraction(-1), ZERO))
    units = ceiled(sum((share for *_, share in parts), ZERO), 5)
    ordered = sorted(parts, key=lambda part: (part[0], part[1]))
    return Used(units, Fraction(active), parts=[(full, ceiled(share, 5)) for _, _, full, share in ordered])


def _is_on(changes: Sequence[tuple[datetime, bool]]) -> bool:
    return changes[-1][1]


def _stretches(changes: Sequence[tuple[datetime, bool]], zone: ZoneInfo) -> list[tuple[datetime, datetime | None]]:
    """From when to when a value was there. What is removed and added again on one day was there all day."""
    kept = [
        (at, on)
        for place, (at, on) in enumerate(changes)
        if on or not any(later and local_day(when, zone) == local_day(at, zone) for when, later in changes[place + 1 :])
    ]
    found: list[tuple[datetime, datetime | None]] = []
    since: datetime | None = None
    for at, on in kept:
        if on and since is None:
            since = at
        elif not on and since is not None:
            found.append((since, at))
            since = None
    if since is not None:
        found.append((since, None))
    return found
