"""Charge filters: alternative prices by properties of events, and the events that each filter prices.

A filter holds accepted values per key; an event matches it if its property (text form) is among them for every key.
`buckets` describes the events of each filter as data, which an engine can also turn into a query.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from usagebill.core.events import Event, property_of
from usagebill.core.near_names import near_name

# As the only value of a key: any value that the metric declares for it, and no other.
ALL_FILTER_VALUES = "__ALL_FILTER_VALUES__"

Matches = Mapping[str, tuple[str, ...]]

# The most combinations of values whose positions are cached.
_POSITIONS_AT_MOST = 1_000


class Filter(Protocol):
    """The values that a charge filter matches, and its age."""

    @property
    def id(self) -> str: ...

    @property
    def values(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def created_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EventScope:
    """The events whose properties are among `matches` for every key, without those that match one of `excludes`.

    Without keys, it matches every event. Property values are compared in their text form; a missing one matches none.
    """

    matches: Matches
    excludes: tuple[Matches, ...] = ()


def accepts(bucket: EventScope, event: Event) -> bool:
    """Whether `event` falls into `bucket`."""
    return _matches(bucket.matches, event) and not any(_matches(exclude, event) for exclude in bucket.excludes)


def accepts_values(bucket: EventScope, values: Mapping[str, str | None]) -> bool:
    """Whether events with these values (text forms) of all keys of `bucket` fall into it."""

    def match(matches: Matches) -> bool:
        return all(values.get(key) in accepted for key, accepted in matches.items())

    return match(bucket.matches) and not any(match(exclude) for exclude in bucket.excludes)


class FilterIndex:
    """An index of a charge's filters, to look up which of them price an event; `declared` are the metric's values per
    key.

    Of two filters that match an event, the more specific one takes it: the one with additional keys, or with the same
    keys and a subset of the values of each. Of equal filters, the oldest takes all. Two filters with the same keys and
    overlapping values, neither a subset of the other, each price the events that match both, and so do filters with
    different keys.

    Positions are those of the filters in order; the one after the last is for events that match none. Building it is
    linear in the accepted values, a look-up in the matching filters.
    """

    def __init__(self, filters: Sequence[Filter], declared: Mapping[str, Sequence[str]]) -> None:
        any_value = {key: _Accepted(tuple(values)) for key, values in declared.items()}
        self._filters = filters
        self._accepted = [
            {
                key: any_value.get(key, _NOTHING) if values == (ALL_FILTER_VALUES,) else _Accepted(tuple(values))
                for key, values in charge_filter.values.items()
            }
            for charge_filter in filters
        ]
        self.keys = tuple(dict.fromkeys(key for accepted in self._accepted for key in accepted))
        # The number of filters that name each value. Filters are indexed by their most selective key.
        self._named = Counter(
            (key, value)
            for accepted in self._accepted
            for key, its in accepted.items()
            if its is not any_value.get(key)
            for value in its.distinct
        )
        self._any_value = any_value
        self._by_value: dict[tuple[str, str], list[int]] = {}
        self._by_any: dict[str, tuple[_Accepted, list[int]]] = {}
        self._always: list[int] = []
        for position, accepted in enumerate(self._accepted):
            if not accepted:
                self._always.append(position)
                continue
            key = min(accepted, key=lambda key: self._crowd(key, accepted[key]))
            if accepted[key] is any_value.get(key):
                self._by_any.setdefault(key, (accepted[key], []))[1].append(position)
            else:
                for value in accepted[key].distinct:
                    self._by_value.setdefault((key, value), []).append(position)
        self._sharing: dict[tuple[str, str], list[int]] | None = None
        self._accepted_together: dict[str, list[str]] = {}
        self._positions: dict[tuple[str | None, ...], tuple[int, ...]] = {}
        self._definition: str | None = None

    @classmethod
    def of_definition(cls, definition: str) -> FilterIndex:
        """An index with the same keys and positions as the one that has this definition."""
        filters = [
            _Defined(id=f"{rank:09}", values={key: tuple(accepted) for key, accepted in values.items()})
            for rank, values in json.loads(definition)
        ]
        # All values are listed, so that this text is one of them if it occurs.
        return cls(filters, {key: (ALL_FILTER_VALUES,) for its in filters for key in its.values})

    @property
    def definition(self) -> str:
        """JSON of all that decides on positions: the values that each filter accepts, and which of two is older."""
        if self._definition is None:
            ranks = {its: rank for rank, its in enumerate(sorted({age(its) for its in self._filters}))}
            self._definition = json.dumps(
                [
                    [ranks[age(its)], {key: values.values for key, values in accepted.items()}]
                    for its, accepted in zip(self._filters, self._accepted, strict=True)
                ],
                separators=(",", ":"),
            )
        return self._definition

    def __len__(self) -> int:
        return len(self._filters)

    def of_event(self, event: Event) -> tuple[int, ...]:
        """The positions whose buckets contain `event`: several only if filters do not exclude each other."""
        return self.of_values([property_of(event, key) for key in self.keys])

    def of_values(self, values: Sequence[str | None]) -> tuple[int, ...]:
        """The positions whose buckets contain an event with these `values` of `keys` (text forms)."""
        texts = tuple(values)
        positions = self._positions.get(texts)
        if positions is None:
            positions = self._looked_up(texts)
            if len(self._positions) < _POSITIONS_AT_MOST:
                self._positions[texts] = positions
        return positions

    def _looked_up(self, values: tuple[str | None, ...]) -> tuple[int, ...]:
        by_key = dict(zip(self.keys, values, strict=True))
        accepted = self._accepted
        # A filter is a candidate by its value of one key: a match already, if it names no other key.
        matching = [
            position
            for position in self._candidates(by_key)
            if len(accepted[position]) <= 1 or self._matches(position, by_key)
        ]
        if not matching:
            return (len(self._filters),)
        if len(matching) == 1:
            return (matching[0],)
        return tuple(position for position in sorted(matching) if not any(self._gives(position, to) for to in matching))

    def accepted_values(self, key: str) -> Sequence[str]:
        """The values that the filters together accept for a key; all other values are the same to them."""
        together = self._accepted_together.get(key)
        if together is None:
            accepted = (its[key].values for its in self._accepted if key in its)
            together = list(dict.fromkeys(value for values in accepted for value in values))
            self._accepted_together[key] = together
        return together

    def bucket(self, position: int) -> EventScope:
        """The bucket at a position, as data."""
        if position == len(self._filters):
            return EventScope(matches={}, excludes=tuple(_matches_of(accepted) for accepted in self._accepted))
        return EventScope(
            matches=_matches_of(self._accepted[position]),
            excludes=tuple(
                _matches_of(self._accepted[other])
                for other in self._overlapping(position)
                if self._gives(position, other)
            ),
        )

    def _crowd(self, key: str, accepted: _Accepted) -> int:
        """The most filters to look at for an event whose value of `key` is accepted."""
        if accepted is self._any_value.get(key):
            return len(self._filters)
        return max((self._named[key, value] for value in accepted.distinct), default=0)

    def _candidates(self, by_key: Mapping[str, str | None]) -> list[int]:
        candidates = list(self._always)
        for key, value in by_key.items():
            if value is None:
                continue
            candidates += self._by_value.get((key, value), ())
            shared = self._by_any.get(key)
            if shared is not None and value in shared[0].distinct:
                candidates += shared[1]
        return candidates

    def _matches(self, position: int, by_key: Mapping[str, str | None]) -> bool:
        return all(by_key[key] in accepted.distinct for key, accepted in self._accepted[position].items())

    def _overlapping(self, position: int) -> Sequence[int]:
        """The filters, in order, that may share values with one on its most selective key."""
        accepted = self._accepted[position]
        if not accepted:
            return range(len(self._filters))
        if self._sharing is None:
            # Threads share an index: the table becomes visible only when it is complete.
            sharing: dict[tuple[str, str], list[int]] = {}
            for other_position, its in enumerate(self._accepted):
                for key, values in its.items():
                    for value in values.distinct:
                        sharing.setdefault((key, value), []).append(other_position)
            self._sharing = sharing
        key = min(accepted, key=lambda key: self._crowd(key, accepted[key]) * len(accepted[key].distinct))
        return sorted(
            {
                other_position
                for value in accepted[key].distinct
                for other_position in self._sharing.get((key, value), ())
            }
        )

    def _gives(self, position: int, to: int) -> bool:
        """Whether events that match both filters go to the second one."""
        if position == to:
            return False
        older = age(self._filters[to]) < age(self._filters[position])
        return _takes_from(self._accepted[to], self._accepted[position], older=older)


def values_errors(values: Mapping[str, Sequence[str]], declared: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Errors in the `values` of one filter, as field -> codes; empty if there are none."""
    if not values or not all(values.values()):
        return {"values": ["value_is_mandatory"]}
    if not values.keys() <= declared.keys():
        return {"billable_metric_filter": ["relation_must_exist"], "values": ["value_is_invalid"]}
    for key, accepted in values.items():
        if list(accepted) != [ALL_FILTER_VALUES] and not all(value in declared[key] for value in accepted):
            return {"values": ["value_is_invalid"]}
    return {}


def values_reason(values: Mapping[str, Sequence[str]], declared: Mapping[str, Collection[str]]) -> str:
    """The error of `values_errors` in words: the first key or value that the metric does not declare."""
    for key, accepted in values.items():
        if key not in declared:
            listed = ", ".join(sorted(declared)) or "none"
            return (
                f"the metric declares no filter {key!r} (it declares: {listed}); declare it in the metric's `filters`"
            )
        unknown = next((value for value in accepted if value not in declared[key]), None)
        if unknown is not None and list(accepted) != [ALL_FILTER_VALUES]:
            near = near_name(unknown, declared[key])
            listed = ", ".join(sorted(declared[key])[:12])
            meant = (
                f"; did you mean {near!r}?"
                if near
                else f" (it declares: {listed}); declare it in the metric's `filters`"
            )
            return f"the metric declares no value {unknown!r} of {key!r}{meant}"
    return "a filter needs at least one value of each key that it names"


def display_name(values: Mapping[str, Sequence[str]]) -> str:
    """The name of a filter without one: its values, or the key for any value, joined by ", "."""
    names: list[str] = []
    for key, accepted in values.items():
        names.extend([key] if list(accepted) == [ALL_FILTER_VALUES] else accepted)
    return ", ".join(names)


def identity(values: Mapping[str, Sequence[str]]) -> Hashable:
    """The identity of a filter: its keys in any order, and the values of each in order."""
    return frozenset((key, tuple(accepted)) for key, accepted in values.items())


def same_values(left: Mapping[str, Sequence[str]], right: Mapping[str, Sequence[str]]) -> bool:
    """Whether two filters have the same identity."""
    return identity(left) == identity(right)


def trimmed_values(values: Matches, declared: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]] | None:
    """The values of a charge filter after the metric changed its declared values to `declared`; None if nothing is left
    of it.

    Values that are no longer declared are removed, and so are keys without values; any-value keys stay while declared.
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
    """The filter keys that `event` has with a value that the metric does not declare (hourly check)."""
    return tuple(
        key
        for key, values in declared.items()
        if (value := property_of(event, key)) is not None and value not in values
    )


def _matches(matches: Matches, event: Event) -> bool:
    return all(property_of(event, key) in accepted for key, accepted in matches.items())


def age(charge_filter: Filter) -> tuple[datetime, str]:
    """Sorts filters by age, oldest first: of two that accept the same, the older one takes the events."""
    return (charge_filter.created_at, charge_filter.id)


@dataclass(frozen=True, slots=True)
class _Accepted:
    """The values that a filter accepts for one key, in their order and as a set."""

    values: tuple[str, ...]
    distinct: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "distinct", frozenset(self.values))


_NOTHING = _Accepted(())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Defined:
    """A filter read from a definition; the id has its age."""

    id: str
    values: Matches
    created_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)


def _matches_of(accepted: Mapping[str, _Accepted]) -> Matches:
    return {key: its.values for key, its in accepted.items()}


def _takes_from(taker: Mapping[str, _Accepted], giver: Mapping[str, _Accepted], *, older: bool) -> bool:
    """Whether events that match both filters go to `taker`; `older` says whether it is the older one."""
    if not all(key in taker and not its.distinct.isdisjoint(taker[key].distinct) for key, its in giver.items()):
        return False
    if len(taker) > len(giver):
        return True
    if all(taker[key].distinct == its.distinct for key, its in giver.items()):
        return older
    return all(taker[key].distinct <= its.distinct for key, its in giver.items())
