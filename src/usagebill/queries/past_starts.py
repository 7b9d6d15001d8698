"""Starts in the past: from when on usage in advance was billed when the subscription was created."""

from __future__ import annotations

from datetime import datetime

from usagebill.core.events import cut_to_seconds
from usagebill.core.past_starts import open_since
from usagebill.core.subscriptions import BillFrom, Subscription
from usagebill.queries.billing_periods import cycle_at
from usagebill.queries.contracts import contract_of
from usagebill.runtime.work import Reader


def caught_up_from(reader: Reader, subscription: Subscription) -> datetime | None:
    """The first second whose events were billed in advance when a subscription with a start in the past was created."""
    if subscription.bill_from is BillFrom.NOW or subscription.started_at is None:
        return None
    begun = subscription.activated_at or subscription.created_at
    if subscription.bill_from is BillFrom.START:
        return cut_to_seconds(subscription.started_at)
    return cut_to_seconds(open_since(cycle_at(contract_of(reader, subscription), begun), begun))
