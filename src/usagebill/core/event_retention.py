"""Retention of events: which of a billed period no later bill can need, so that they can be removed."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.invoices.life_cycle import WHOLE_REASONS, InvoiceStatus, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.subscriptions import Subscription, SubscriptionStatus

# Periods of these count usage in arrears; those of others bill nothing of it, or single events, which are kept.
COUNTING = (InvoicingReason.PERIODIC, InvoicingReason.TERMINATING, InvoicingReason.PROGRESSIVE_BILLING)
# Invoices that nothing is counted for any more. A void one may be made again.
_SETTLED = (InvoiceStatus.FINALIZED, InvoiceStatus.CLOSED)
_ENDED = (SubscriptionStatus.TERMINATED, SubscriptionStatus.CANCELED)


@dataclass(frozen=True, slots=True)
class Billed:
    """A billing period, and the status of its invoice."""

    period: BillingPeriod
    status: InvoiceStatus


def settled_with(
    period: BillingPeriod, others: Iterable[Billed], subscriptions: Iterable[Subscription]
) -> tuple[BillingPeriod, ...]:
    """The periods that counted the window of `period`, itself among them; none if a bill may still count it.

    `others` are all billing periods of its external subscription id that count usage in arrears (`COUNTING`),
    `subscriptions` all that ever had this id.
    """
    start, end = period.charges_from_datetime, period.charges_to_datetime
    if start is None or end is None or period.last_day_from is not None:
        return ()
    counting: list[BillingPeriod] = []
    billed_to: dict[str, datetime] = {}
    for other in others:
        window = other.period.charges_from_datetime, other.period.charges_to_datetime
        if window[0] is None or window[1] is None:
            continue
        if window[0] <= end and window[1] >= start:
            is_alike = window == (start, end) and other.period.counted is not None
            if not is_alike or other.status not in _SETTLED or other.period.last_day_from is not None:
                return ()
            counting.append(other.period)
        if other.period.invoicing_reason in WHOLE_REASONS and other.status in _SETTLED:
            id = other.period.subscription_id
            billed_to[id] = max(window[1], billed_to.get(id, window[1]))
    for subscription in subscriptions:
        begun = subscription.started_at or subscription.subscription_at
        is_open = subscription.status not in _ENDED and begun <= end
        if is_open and billed_to.get(subscription.id, start) < end:
            return ()
    return tuple(counting) if any(other.invoicing_reason in WHOLE_REASONS for other in counting) else ()


def months_before(now: datetime, months: int) -> datetime:
    """The same day and time so many months earlier, or the last day of that month."""
    month = now.year * 12 + now.month - 1 - months
    year, month = month // 12, month % 12 + 1
    return now.replace(year=year, month=month, day=min(now.day, monthrange(year, month)[1]))


def removable_codes(periods: Sequence[BillingPeriod], needed: Collection[str]) -> tuple[str, ...]:
    """The codes of events that these periods counted, and nothing counts again: neither levels that go on, nor events
    that were paid in advance. `needed` are those of metrics that are recurring or billed in advance by now.
    """
    charges = [charge for period in periods if period.counted is not None for charge in period.counted.charges]
    kept = {charge.code for charge in charges if charge.recurring or charge.pay_in_advance} | set(needed)
    return tuple(sorted({charge.code for charge in charges} - kept))
