"""The second in which one subscription follows another of the same external id: it lies in both periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.events import cut_to_seconds, share_second
from usagebill.core.subscriptions import Subscription

__all__ = ["Handover", "handover", "own_since"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Which subscriptions share the first and the last second of a subscription's usage.

    Usage counts from `earliest` on (inclusive; None: from ever). `predecessors` ended in that very second, which they
    have billed in part. With `is_followed`, another one started in the second of `latest`, and bills a part of that.
    """

    earliest: datetime | None
    predecessors: tuple[Subscription, ...] = ()
    is_followed: bool = False


def handover(
    subscription: Subscription,
    others: Sequence[Subscription],
    *,
    recurring: bool,
    earliest: datetime | None,
    latest: datetime | None,
) -> Handover:
    """Which of `others`, of the same external id, share a second with usage from `earliest` to `latest`.

    Recurring usage counts on both sides, unless it was another customer's.
    """
    if recurring:
        since = own_since(subscription, others)
        others = [other for other in others if other.customer_id != subscription.customer_id]
        earliest = max((at for at in (earliest, since) if at is not None), default=None)
    predecessors: tuple[Subscription, ...] = ()
    if earliest is not None:
        second = earliest = cut_to_seconds(earliest)
        predecessors = tuple(
            other
            for other in _ended_before(subscription, others)
            if other.terminated_at is not None and cut_to_seconds(other.terminated_at) == second
        )
    ended = subscription.terminated_at
    is_followed = (
        ended is not None and latest == ended and any(share_second(ended, other.started_at) for other in others)
    )
    return Handover(earliest=earliest, predecessors=predecessors, is_followed=is_followed)


def own_since(subscription: Subscription, others: Sequence[Subscription]) -> datetime | None:
    """When the external id stopped being another customer's; None if it never was."""
    return max(
        (
            other.terminated_at
            for other in _ended_before(subscription, others)
            if other.terminated_at and other.customer_id != subscription.customer_id
        ),
        default=None,
    )


def _ended_before(subscription: Subscription, others: Sequence[Subscription]) -> list[Subscription]:
    """Those of `others` that had ended when the subscription started."""
    started = subscription.started_at
    if started is None:
        return []
    # One that ended at the instant it started comes first if it was created first.
    ended = [other for other in others if other.terminated_at is not None and other.terminated_at <= started]
    return [other for other in ended if other.started_at != started or other.id < subscription.id]
