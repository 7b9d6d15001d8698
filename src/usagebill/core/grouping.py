"""Grouping: usage priced separately by the values of some properties (`pricing_group_keys`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias, TypeVar

from usagebill.core.events import Event, property_of

TARGET_WALLET_KEY = "target_wallet_code"

_Instant = TypeVar("_Instant")

# One value per key, in the order of the keys; None if the property is missing, null or empty.
Group: TypeAlias = tuple[str | None, ...]
# Units by the values of presentation keys, one row for each combination.
Breakdown: TypeAlias = tuple[tuple[Mapping[str, str | None], Decimal], ...]


def charge_group_keys(pricing_group_keys: Iterable[str], *, accepts_target_wallet: bool = False) -> tuple[str, ...]:
    """The properties by which the usage of a charge or one of its filters is grouped, without repetitions.

    A charge that accepts a target wallet is grouped by `target_wallet_code` too.
    """
    wallet_key = (TARGET_WALLET_KEY,) if accepts_target_wallet else ()
    return tuple(dict.fromkeys((*pricing_group_keys, *wallet_key)))


def group_of(event: Event, keys: Sequence[str]) -> Group:
    """The group of `event`: the text forms of its `keys`."""
    return tuple(property_of(event, key) or None for key in keys)


def grouped(events: Iterable[Event], keys: Sequence[str]) -> dict[Group, list[Event]]:
    """`events` by group, groups in the order of `place_of`; without events, a single group of Nones."""
    groups: dict[Group, list[Event]] = {}
    for event in sorted(events, key=lambda event: event.order):
        groups.setdefault(group_of(event, keys), []).append(event)
    ordered = sorted(groups.items(), key=lambda item: place_of(item[1][0].timestamp, item[0]))
    return dict(ordered) or {(None,) * len(keys): []}


def place_of(first_at: _Instant, group: Group) -> tuple[_Instant, tuple[tuple[bool, str], ...]]:
    """The place of a group among others: by the instant of its first event, for the same instant by its values, those
    without last.
    """
    return first_at, tuple((value is None, value or "") for value in group)


def target_wallet_code(group: Mapping[str, str | None]) -> str:
    """The code of the only wallet that may pay for this group; empty if any wallet may."""
    return group.get(TARGET_WALLET_KEY) or ""


def grouped_by(keys: Sequence[str], group: Group) -> dict[str, str | None]:
    """`group` as fees show it: key -> value or null."""
    return dict(zip(keys, group, strict=True))
