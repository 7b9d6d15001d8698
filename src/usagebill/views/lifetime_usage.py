"""Lifetime usage as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NotRequired, TypedDict

from usagebill.core.numbers import round_to
from usagebill.core.progressive_billing import Completion, LifetimeUsage
from usagebill.core.subscriptions import Subscription
from usagebill.views.formats import Id, Instant, instant_text, rate_number


class CompletionView(TypedDict):
    amount_cents: int
    completion_ratio: Decimal
    reached_at: Instant | None


class LifetimeUsageView(TypedDict):
    svc_id: Id
    svc_subscription_id: Id
    external_subscription_id: str
    external_historical_usage_amount_cents: int
    invoiced_usage_amount_cents: int
    current_usage_amount_cents: int
    from_datetime: Instant
    to_datetime: Instant
    usage_thresholds: NotRequired[list[CompletionView]]


_RATIO_DECIMALS = 5


def lifetime_usage_object(
    record: LifetimeUsage,
    subscription: Subscription,
    *,
    invoiced_cents: int,
    current_cents: int,
    at: datetime,
    completions: Sequence[Completion] | None,
) -> LifetimeUsageView:
    """Lifetime usage in cents; `usage_thresholds` only if thresholds apply."""
    shown: LifetimeUsageView = {
        "svc_id": record.id,
        "svc_subscription_id": subscription.id,
        "external_subscription_id": subscription.external_id,
        "external_historical_usage_amount_cents": record.external_historical_usage_amount_cents,
        "invoiced_usage_amount_cents": invoiced_cents,
        "current_usage_amount_cents": current_cents,
        "from_datetime": instant_text(subscription.subscription_at),
        "to_datetime": instant_text(at),
    }
    if completions is not None:
        shown["usage_thresholds"] = [
            {
                "amount_cents": completion.amount_cents,
                "completion_ratio": rate_number(round_to(completion.ratio, _RATIO_DECIMALS)),
                "reached_at": instant_text(completion.reached_at),
            }
            for completion in completions
        ]
    return shown
