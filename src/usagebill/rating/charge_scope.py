"""What a count of a charge's usage is about: the subscription, and the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from usagebill.core.aggregation import Window
from usagebill.core.periods import Succession, Window as Span
from usagebill.core.subscriptions import Subscription
from usagebill.rating.handover import Neighbours
from usagebill.storage.event_queries import Arrival


def usage_window(charges: Span, tz: tzinfo, subscription: Subscription, *, ends: bool = False) -> Window:
    """The usage window for a billing record's `charges` window, with days in the customer's time zone.

    `ends`: its end is billed. The day of an upgrade belongs to the new plan, but not one that closed before it.
    """
    ended = subscription.terminated_at if ends and subscription.succession == Succession.UPGRADE else None
    begun = subscription.billed_from or subscription.started_at
    return Window(
        start=charges.start,
        end=charges.end,
        period_days=charges.duration,
        tz=tz,
        ended_by_upgrade=ended is not None and charges.end >= ended,
        begun_by_upgrade=charges.start == begun and subscription.origin == Succession.UPGRADE,
        days_start=charges.days_start,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeScope:
    """The subscription and window whose usage is counted, and how.

    `currency` is the plan's. `known_at` leaves out events received later, so that an invoice made late is the one that
    was due; `billed_at` is the instant at which the subscription's end is being billed, None if it is not. `current`
    counts usage so far instead of billed usage. `counted_until` is the last instant that counts, by default the end of
    the window. `only` keeps events by property (key -> values) and takes these keys out of the grouping; `ungrouped`
    takes all keys out. `presented` are the presentation keys that split the displayed units, None for all.
    `neighbours` are looked up unless passed.
    """

    subscription: Subscription
    currency: str
    window: Window
    known_at: datetime | None = None
    billed_at: Arrival | None = None
    current: bool = False
    counted_until: datetime | None = None
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ungrouped: bool = False
    presented: tuple[str, ...] | None = None
    neighbours: Neighbours | None = None
