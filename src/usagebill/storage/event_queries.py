"""Questions: what is asked of events, as values that every engine answers in its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias

from usagebill.core.events import Event, EventOrder, cut_to_seconds, property_of
from usagebill.core.filters import EventScope, accepts
from usagebill.core.grouping import Group

__all__ = [
    "ALL_EVENTS",
    "COUNTED",
    "NOTHING_DECLARED",
    "Arrival",
    "Counted",
    "CountedAs",
    "Declared",
    "EventFilter",
    "EventQuery",
    "EventRange",
    "Group",
    "StateFault",
    "concerns",
]

ALL_EVENTS: Final = EventScope(matches={})

# Codes of events, and for each the values that its metric declares, by filter key.
Declared: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
NOTHING_DECLARED: Final[Declared] = {}


class CountedAs(StrEnum):
    """The aggregations that an engine answers by itself; of the others it is asked for the events."""

    COUNT = "count_agg"
    SUM = "sum_agg"
    MAX = "max_agg"
    LATEST = "latest_agg"
    UNIQUE_COUNT = "unique_count_agg"


COUNTED: Final = frozenset(CountedAs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """When something came in; of two things at one instant, the one with the smaller id came first."""

    at: datetime
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What has been counted already: the events up to `order` in time, among the first `sequence` that were stored."""

    order: EventOrder
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFault:
    """Running states of an external subscription and a code that are not what its events come to.

    `kind` says what they keep: a count, numbers or values; `differing` how many of them differ.
    """

    external_subscription_id: str
    code: str
    kind: str
    differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Which events of one external subscription id and code are meant, how they are grouped and aggregated.

    `earliest` and `latest` bound the timestamp, both inclusive (None: no bound); `up_to` leaves out what stands after
    that event in time (`Event.order`), and `before` that event itself too. `known_at` leaves out what was received
    after that instant. Of what lies before `first_end`, only what was received later than `after` counts; of what lies
    in the second of `latest`, only what was not received later than `until`. Events lie in `bucket`; where `only` names
    a property, its text form is among the values given there, None standing for missing, null or empty. The answer has
    one entry a group of the values of `group_keys`. `field_name` is the property that is aggregated. The events' own
    prices (dynamic charges) are added up only where `amounts` is set. Events in the first `stored_after` places of the
    order of storing are left out: somebody else has counted them.
    """

    code: str
    external_subscription_id: str
    aggregation_type: str = CountedAs.COUNT
    field_name: str | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    up_to: Event | None = None
    before: Event | None = None
    known_at: datetime | None = None
    after: Arrival | None = None
    first_end: datetime | None = None
    until: Arrival | None = None
    bucket: EventScope = ALL_EVENTS
    only: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    group_keys: tuple[str, ...] = ()
    amounts: bool = False
    stored_after: int | None = None

    @property
    def latest_timestamp(self) -> datetime | None:
        """The latest timestamp that an event of the question can have, inclusive; None: any."""
        ends = [end.timestamp for end in (self.up_to, self.before) if end is not None]
        return min(ends if self.latest is None else [self.latest, *ends], default=None)

    @property
    def last_start(self) -> datetime | None:
        """Where the last second starts, if `until` picks its events."""
        return None if self.until is None or self.latest is None else cut_to_seconds(self.latest)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events a list shows: all that match whatever is given; both instants are inclusive."""

    code: str | None = None
    external_subscription_id: str | None = None
    timestamp_from: datetime | None = None
    timestamp_to: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRange:
    """The events of one external subscription id (None: that name none) and code between two instants, inclusive.

    If `received_from` or `received_before` is set, only those received from then on, or before; with `uncounted`, only
    those marked as such.
    """

    external_subscription_id: str | None
    code: str
    earliest: datetime | None = None
    latest: datetime | None = None
    received_from: datetime | None = None
    received_before: datetime | None = None
    uncounted: bool = False


def concerns(question: EventQuery, event: Event) -> bool:
    """Whether `event` is one that `question` asks about, wherever it is stored: what engines are tested against."""
    return (
        event.code == question.code
        and event.external_subscription_id == question.external_subscription_id
        and (question.earliest is None or question.earliest <= event.timestamp)
        and (question.latest is None or event.timestamp <= question.latest)
        and (question.up_to is None or event.order <= question.up_to.order)
        and (question.before is None or event.order < question.before.order)
        and (question.known_at is None or event.created_at <= question.known_at)
        and (
            question.after is None
            or question.first_end is None
            or event.timestamp >= question.first_end
            or (event.created_at, event.id) > (question.after.at, question.after.id)
        )
        and (
            question.until is None
            or question.last_start is None
            or event.timestamp < question.last_start
            or (event.created_at, event.id) <= (question.until.at, question.until.id)
        )
        and accepts(question.bucket, event)
        and all((property_of(event, key) or None) in values for key, values in question.only.items())
    )
