"""Event queries, as values that every engine translates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from usagebill.core.events import Event, EventOrder, cut_to_seconds, property_of
from usagebill.core.filters import EventScope, accepts
from usagebill.core.grouping import Group as Group

ALL_EVENTS: Final = EventScope(matches={})


class Lacking(StrEnum):
    """What an event lacks to be billed. The last two are of events that their metric can count."""

    COUNTABLE_PROPERTY = "countable_property"  # it is marked
    AMOUNT = "amount"
    READABLE_AMOUNT = "readable_amount"


class CountedAs(StrEnum):
    """The aggregations that engines compute; for others they return the events.

    Of a weighted sum they compute the changes and their moments (`core.aggregation.Changes`).
    """

    COUNT = "count_agg"
    SUM = "sum_agg"
    MAX = "max_agg"
    LATEST = "latest_agg"
    UNIQUE_COUNT = "unique_count_agg"
    WEIGHTED_SUM = "weighted_sum_agg"


COUNTED: Final = frozenset(CountedAs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """When something arrived; at the same instant, the smaller id arrived first."""

    at: datetime
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The events counted so far: those up to `order` in time, among the first `sequence` stored."""

    order: EventOrder
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFault:
    """Running totals of an external subscription and a code that differ from a count of its events.

    `kind` says what they keep: a count, numbers, weighted or priced numbers, or values; `differing` how many of them
    differ.
    """

    external_subscription_id: str
    code: str
    kind: str
    differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Events from `start` (None: any) to before `end` that arrived no later than `received_to`: somebody else's."""

    start: datetime | None = None
    end: datetime
    received_to: Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """A query for the events of one external subscription id and code, grouped and aggregated.

    `earliest` and `latest` bound the timestamp, both inclusive (None: no bound); `up_to` excludes events later in time
    (`Event.order`) than that one, and `before` excludes it too. `known_at` excludes events received after that instant.
    Those of `excluded` do not count; events in the second of `latest` only if received no later than `until`. Events
    are in `bucket`; the text forms of properties in `only` are limited to the values there, None meaning missing, null
    or empty. The result has one entry per group of values of `group_keys`. `field_name` is the aggregated property.
    Prices sent with events (dynamic charges) are added up only if `amounts` is set. A weighted sum counts events before
    `held_from` as if they were at that instant.
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
    excluded: tuple[Exclusion, ...] = ()
    until: Arrival | None = None
    bucket: EventScope = ALL_EVENTS
    only: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    group_keys: tuple[str, ...] = ()
    amounts: bool = False
    held_from: datetime | None = None

    @property
    def latest_timestamp(self) -> datetime | None:
        """The latest timestamp of the query's events, inclusive; None: any."""
        ends = [end.timestamp for end in (self.up_to, self.before) if end is not None]
        return min(ends if self.latest is None else [self.latest, *ends], default=None)

    @property
    def last_start(self) -> datetime | None:
        """The start of the second of `latest`, if `until` limits its events; otherwise None."""
        return None if self.until is None or self.latest is None else cut_to_seconds(self.latest)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Filters of a list of events, all optional; both instants are inclusive."""

    code: str | None = None
    external_subscription_id: str | None = None
    timestamp_from: datetime | None = None
    timestamp_to: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRange:
    """The events of one external subscription id (None: events without one) and code between two instants, inclusive.

    `received_from` (inclusive) and `received_before` (exclusive) bound the instant of receipt. With `lacking`, only
    events that lack that.
    """

    external_subscription_id: str | None
    code: str
    earliest: datetime | None = None
    latest: datetime | None = None
    received_from: datetime | None = None
    received_before: datetime | None = None
    lacking: Lacking | None = None
    event_id: str | None = None


def _holds(exclusion: Exclusion, event: Event) -> bool:
    received_to = exclusion.received_to
    return (
        (exclusion.start is None or exclusion.start <= event.timestamp)
        and event.timestamp < exclusion.end
        and (event.created_at, event.id) <= (received_to.at, received_to.id)
    )


def concerns(question: EventQuery, event: Event) -> bool:
    """Whether `event` matches `question`, wherever it is stored: the definition that engines are tested against."""
    return (
        event.code == question.code
        and event.external_subscription_id == question.external_subscription_id
        and (question.earliest is None or question.earliest <= event.timestamp)
        and (question.latest is None or event.timestamp <= question.latest)
        and (question.up_to is None or event.order <= question.up_to.order)
        and (question.before is None or event.order < question.before.order)
        and (question.known_at is None or event.created_at <= question.known_at)
        and not any(_holds(exclusion, event) for exclusion in question.excluded)
        and (
            question.until is None
            or question.last_start is None
            or event.timestamp < question.last_start
            or (event.created_at, event.id) <= (question.until.at, question.until.id)
        )
        and accepts(question.bucket, event)
        and all((property_of(event, key) or None) in values for key, values in question.only.items())
    )
