"""Charge filters: alternative prices for events by their properties, and which events fall to which of them.

A filter holds accepted values per key; an event matches it when its property (text form) is among them for every
key. `buckets` says, as data that an engine can turn into a query too, which events each filter of a charge prices.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from usagebill.core.events import Event, property_of

__all__ = [
    "ALL_FILTER_VALUES",
    "EventScope",
    "Filter",
    "Matches",
    "accepts",
    "buckets",
    "default_bucket",
    "display_name",
    "filter_of",
    "identity",
    "same_values",
    "trimmed_values",
    "undeclared_keys",
    "values_errors",
]

# As the only value of a key: any of the values that the metric declares for it (and no other).
ALL_FILTER_VALUES = "__ALL_FILTER_VALUES__"

Matches = Mapping[str, tuple[str, ...]]


class Filter(Protocol):
    """What a charge filter says of events, and its age."""

    @property
    def id(self) -> str: ...

    @property
    def values(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def created_at(self) -> datetime: ...


F = TypeVar("F", bound=Filter)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventScope:
    """The events whose properties are among `matches` for every key, and that none of `excludes` matches so.

    No key at all matches every event. Property values are compared in their text form; a missing one matches none.
    """

    matches: Matches
    excludes: tuple[Matches, ...] = ()


def accepts(bucket: EventScope, event: Event) -> bool:
    """Whether `event` falls into `bucket`."""
    return _matches(bucket.matches, event) and not any(_matches(exclude, event) for exclude in bucket.excludes)


def buckets(filters: Sequence[Filter], declared: Mapping[str, Sequence[str]]) -> list[EventScope]:
    """The bucket of each of a charge's `filters`, in their order; `declared` are the metric's values per key.

    The more specific filter takes the events: one with further keys, or with the same keys and a part of the values on
    each. Of equal ones the oldest takes them all. Filters of the same keys that share values without one holding the
    other, and filters of different keys, each price the events that match both.
    """
    expanded = [_expanded(one.values, declared) for one in filters]
    result = []
    for position, one in enumerate(filters):
        excludes = tuple(
            expanded[other_position]
            for other_position, other in enumerate(filters)
            if other_position != position
            and _takes_from(expanded[other_position], expanded[position], older=_age(other) < _age(one))
        )
        result.append(EventScope(matches=expanded[position], excludes=excludes))
    return result


def default_bucket(filters: Sequence[Filter], declared: Mapping[str, Sequence[str]]) -> EventScope:
    """The events that match none of a charge's `filters`: priced by the charge's own properties."""
    return EventScope(matches={}, excludes=tuple(_expanded(one.values, declared) for one in filters))


def filter_of(event: Event, filters: Iterable[F], declared: Mapping[str, Sequence[str]]) -> F | None:
    """The one filter that an event billed in advance is priced by: the one it matches that has the most keys.

    Of several the first in the order of `filters`; None for the charge's own properties.
    """
    matching = [one for one in filters if _matches(_expanded(one.values, declared), event)]
    return max(matching, key=lambda one: len(one.values), default=None)


def values_errors(values: Mapping[str, Sequence[str]], declared: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """What is wrong with the `values` of one filter, as field -> codes; empty where nothing is."""
    if not values or not all(values.values()):
        return {"values": ["value_is_mandatory"]}
    if not values.keys() <= declared.keys():
        return {"billable_metric_filter": ["relation_must_exist"], "values": ["value_is_invalid"]}
    for key, accepted in values.items():
        if list(accepted) != [ALL_FILTER_VALUES] and not all(value in declared[key] for value in accepted):
            return {"values": ["value_is_invalid"]}
    return {}


def display_name(values: Mapping[str, Sequence[str]]) -> str:
    """What a filter without a name of its own is called: its values, or the key for any value, joined by ", "."""
    names: list[str] = []
    for key, accepted in values.items():
        names.extend([key] if list(accepted) == [ALL_FILTER_VALUES] else accepted)
    return ", ".join(names)


def identity(values: Mapping[str, Sequence[str]]) -> Hashable:
    """What a sent filter and the stored one have in common: the same keys in any order, their values in theirs."""
    return frozenset((key, tuple(accepted)) for key, accepted in values.items())


def same_values(left: Mapping[str, Sequence[str]], right: Mapping[str, Sequence[str]]) -> bool:
    """Whether a sent filter is the stored one."""
    return identity(left) == identity(right)


def trimmed_values(values: Matches, declared: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]] | None:
    """The values of a charge filter after the metric has come to declare `declared`; None: the filter goes.

    Values that are no longer declared go, and so do keys without any left; any-value keys go with their key only.
    A filter that loses a key but keeps another matches more events than before.
    """
    kept: dict[str, tuple[str, ...]] = {}
    for key, accepted in values.items():
        if key not in declared:
            continue
        if accepted == (ALL_FILTER_VALUES,):
            kept[key] = accepted
        elif remaining := tuple(value for value in accepted if value in declared[key]):
            kept[key] = remaining
    return kept or None


def undeclared_keys(event: Event, declared: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The filter keys whose property `event` has with a value that the metric does not declare (hourly check)."""
    return tuple(
        key
        for key, values in declared.items()
        if (value := property_of(event, key)) is not None and value not in values
    )


def _matches(matches: Matches, event: Event) -> bool:
    return all(property_of(event, key) in accepted for key, accepted in matches.items())


def _expanded(values: Matches, declared: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {
        key: tuple(declared.get(key, ())) if accepted == (ALL_FILTER_VALUES,) else tuple(accepted)
        for key, accepted in values.items()
    }


def _age(one: Filter) -> tuple[datetime, str]:
    return (one.created_at, one.id)


def _takes_from(other: Matches, one: Matches, *, older: bool) -> bool:
    """Whether events that match both filters fall to `other`, which is `older` or not."""
    if not all(key in other and set(accepted) & set(other[key]) for key, accepted in one.items()):
        return False
    if len(other) > len(one):
        return True
    if all(set(other[key]) == set(accepted) for key, accepted in one.items()):
        return older
    return all(set(other[key]) <= set(accepted) for key, accepted in one.items())
