"""Lists that some charge models need in addition to the units: the values of single events, and running totals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from usagebill.core.aggregation.unique_count import operation_of
from usagebill.core.events import Event, numeric_value, property_of
from usagebill.core.numbers import ONE, ZERO, add, ceil_to


def ones(events: Sequence[Event], _: str | None) -> tuple[Decimal, ...]:
    """1 for each event."""
    return (ONE,) * len(events)


def one_each_operation(events: Sequence[Event], field_name: str | None) -> tuple[Decimal, ...]:
    """1 for each event that adds or removes a value, including repeats."""
    operations = (event for event in events if property_of(event, field_name) is not None and operation_of(event))
    return tuple(ONE for _ in operations)


def numbers(events: Sequence[Event], field_name: str | None) -> tuple[Decimal, ...]:
    """The field of each event that has a number there."""
    return tuple(value for event in events if (value := numeric_value(event, field_name)) is not None)


def largest_only(events: Sequence[Event], field_name: str | None) -> tuple[Decimal, ...]:
    """The largest number, at the event that set it; 0 at all others."""
    values = numbers(events, field_name)
    return _only(values.index(max(values)), values) if values else ()


def last_only(events: Sequence[Event], field_name: str | None) -> tuple[Decimal, ...]:
    """The last number (at least 0), at the event that set it; 0 at all others."""
    values = [max(value, ZERO) for value in numbers(events, field_name)]
    return _only(len(values) - 1, values) if values else ()


def counted_totals(units: Decimal, *, free_events: int | None, free_units: Decimal | None) -> tuple[Decimal, ...]:
    """1, 2, ... up to `units`, cut after the second total that exceeds both limits."""
    if not free_events and not free_units:
        return ()
    furthest = max(free_events or 0, int(ceil_to(free_units or ZERO, 0))) + 2
    return tuple(Decimal(number) for number in range(1, min(int(units), furthest) + 1))


def summed_totals(
    values: Iterable[Decimal], *, free_events: int | None, free_units: Decimal | None
) -> tuple[Decimal, ...]:
    """Running totals of `values` (in order of time): those of the first `free_events`, or else up to and including the
    first above `free_units`.
    """
    totals: list[Decimal] = []
    running = ZERO
    if not free_events and not free_units:
        return ()
    for value in values:
        running = add(running, value)
        totals.append(running)
        if len(totals) == free_events or (not free_events and free_units is not None and running > free_units):
            break
    return tuple(totals)


def _only(position: int, values: Sequence[Decimal]) -> tuple[Decimal, ...]:
    return tuple(value if index == position else ZERO for index, value in enumerate(values))
