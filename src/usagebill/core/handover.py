"""The second in which one subscription follows another with the same external id: it lies in both periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.events import cut_to_seconds, share_second
from usagebill.core.subscriptions import Subscription, begins_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The subscriptions that share the first and the last second of a subscription's usage.

    Usage counts from `earliest` on (inclusive; None: without bound). `predecessors` ended in that very second, which
    they have billed in part. With `is_followed`, another one started in the second of `latest`, and bills a part of
    that second.
    """

    earliest: datetime | None
    predecessors: tuple[Subscription, ...] = ()
    is_followed: bool = False


def handover(
    subscription: Subscription,
    siblings: Sequence[Subscription],
    *,
    recurring: bool,
    earliest: datetime | None,
    latest: datetime | None,
) -> Handover:
    """The handover between `subscription` and those of its `siblings` that share a second with its usage.

    `siblings` have the same external id; usage counts from `earliest` to `latest`. Recurring usage counts on both
    sides, unless it was another customer's.
    """
    if recurring:
        since = own_since(subscription, siblings)
        siblings = [sibling for sibling in siblings if sibling.customer_id != subscription.customer_id]
        earliest = max((at for at in (earliest, since) if at is not None), default=None)
    predecessors: tuple[Subscription, ...] = ()
    if earliest is not None:
        second = earliest = cut_to_seconds(earliest)
        predecessors = tuple(
            sibling
            for sibling in _ended_before(subscription, siblings)
            if sibling.terminated_at is not None and cut_to_seconds(sibling.terminated_at) == second
        )
    ended = subscription.terminated_at
    is_followed = (
        ended is not None and latest == ended and any(share_second(ended, begins_at(sibling)) for sibling in siblings)
    )
    return Handover(earliest=earliest, predecessors=predecessors, is_followed=is_followed)


def own_since(subscription: Subscription, siblings: Sequence[Subscription]) -> datetime | None:
    """When the external id stopped being another customer's; None if it never was."""
    return max(
        (
            sibling.terminated_at
            for sibling in _ended_before(subscription, siblings)
            if sibling.terminated_at and sibling.customer_id != subscription.customer_id
        ),
        default=None,
    )


def _ended_before(subscription: Subscription, siblings: Sequence[Subscription]) -> list[Subscription]:
    """Those of `siblings` that had ended when the subscription started."""
    started = begins_at(subscription)
    if started is None:
        return []
    # A subscription that ended at the instant of the start comes first if it was created first.
    ended = [sibling for sibling in siblings if sibling.terminated_at is not None and sibling.terminated_at <= started]
    return [sibling for sibling in ended if begins_at(sibling) != started or sibling.id < subscription.id]
