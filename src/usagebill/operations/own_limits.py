"""Limits in the customer portal: what bounds a subscription's usage, what is held, and limits that customers set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.holds import Hold
from usagebill.core.spend_limits import LimitInterval, SpendLimit, Standing, own_code
from usagebill.core.subscriptions import Subscription
from usagebill.operations.checks import standings_of
from usagebill.operations.portal import Place
from usagebill.operations.self_service import running_subscription, typed_cents
from usagebill.operations.spend_limits import own_limits, remove_own, set_own
from usagebill.queries.holds import metric_of_hold, open_holds
from usagebill.queries.spend_limits import limits_of_usage, metric_of_limit, quotas_of_usage
from usagebill.rating.spending import currency_of
from usagebill.runtime.work import Reader, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """What bounds a subscription's usage, and its open holds, oldest first, each with the metric that it is about, None
    for all. `own` are the limits of the customer's own; `may_set` says whether the seller lets customers set any.
    """

    subscription: Subscription
    currency: str
    standings: Sequence[tuple[Standing, BillableMetric | None]]
    holds: Sequence[tuple[Hold, BillableMetric | None]]
    own: Mapping[LimitInterval, SpendLimit]
    may_set: bool


def has_limits(reader: Reader, place: Place, subscription: Subscription) -> bool:
    """Whether there is anything to see or do about limits of the subscription."""
    return (
        place.entity.portal_spend_limits
        or bool(limits_of_usage(reader, subscription, place.customer))
        or bool(quotas_of_usage(reader, subscription, None))
    )


def limited(work: Work, place: Place, external_id: str) -> Limited:
    """What bounds the usage of the customer's subscription now. Raises `NotFound`, also for another customer's."""
    subscription = running_subscription(work, place.customer, external_id)
    standings = [standing for standing in standings_of(work, external_id) if standing.limit is not None]
    holds = [hold for hold in open_holds(work, place.customer) if hold.external_subscription_id == external_id]
    return Limited(
        subscription=subscription,
        currency=currency_of(work, subscription),
        standings=[
            (standing, None if standing.limit is None else metric_of_limit(work, standing.limit))
            for standing in standings
        ],
        holds=[(hold, metric_of_hold(work, hold)) for hold in holds],
        own=own_limits(work, subscription),
        may_set=place.entity.portal_spend_limits,
    )


def set_limit(work: Work, place: Place, external_id: str, interval: str, amount: str) -> SpendLimit:
    """Set the customer's own limit for an interval, or change it, to an amount as typed, in major units before taxes.

    Raises `NotFound` for a subscription that is not an active one of the customer's, and where the seller lets
    customers set no limits, and `Invalid` for what is no interval or no amount.
    """
    subscription = running_subscription(work, place.customer, external_id)
    if interval not in list(LimitInterval):
        raise Invalid(interval="value_is_invalid")
    chosen = LimitInterval(interval)
    if not place.entity.portal_spend_limits:
        raise NotFound("spend_limit", own_code(chosen))
    return set_own(work, subscription, chosen, typed_cents(amount, currency_of(work, subscription)))


def remove_limit(work: Work, place: Place, external_id: str, interval: str) -> SpendLimit:
    """Remove the customer's own limit for an interval. Raises `NotFound` if there is none."""
    subscription = running_subscription(work, place.customer, external_id)
    if interval not in list(LimitInterval):
        raise NotFound("spend_limit", interval)
    return remove_own(work, subscription, LimitInterval(interval))
