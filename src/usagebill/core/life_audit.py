"""The audit of periods: until when a subscription, and its fee, must have been billed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from usagebill.core.audit import Life
from usagebill.core.days import local_date
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.periods import Cycle, Succession, day_start, ended_on_boundary_day
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription, TerminationInvoice

__all__ = ["fee_until", "life_of"]

_INSTANT = timedelta(microseconds=1)


def life_of(subscription: Subscription, cycle: Cycle) -> Life:
    """From its start until its end; of one that started in the past only from where it was told of.

    `cycle` has its days begin and end where its last invoice saw them.
    """
    begins, ends = cycle.started_at, subscription.terminated_at
    if subscription.succession is None and subscription.on_termination_invoice == TerminationInvoice.SKIP:
        ends = None
    elif ends is not None and (cycle.succession is Succession.DOWNGRADE or ended_on_boundary_day(cycle)):
        # What the run of that day billed, or would have billed, is all: the day itself is the successor's, or free.
        opened = cycle.period(local_date(ends, cycle.tz), cycle.billing_interval).start
        ends = day_start(opened, cycle.tz) - _INSTANT
    return Life(
        subscription_id=subscription.id,
        external_id=subscription.external_id,
        billed_from=max(begins, subscription.created_at),
        billed_until=None if ends is None or ends <= begins else ends,
    )


def fee_until(subscription: Subscription, plan: Plan, periods: Iterable[BillingPeriod]) -> datetime | None:
    """Until when fees must have been billed: the end of the last period whose invoice carries one, None if none does.

    While a trial goes on, none has to; nor for the periods that it covers.
    """
    free_until = subscription.trial_ended_at
    if plan.trial_period and free_until is None:
        return None
    ends = [
        period.subscription_to_datetime
        for period in periods
        if period.subscription_to_datetime is not None
        and (free_until is None or period.timestamp > free_until)
        and (
            (period.recurring and period.opens_interval)
            or (period.invoicing_reason == InvoicingReason.TERMINATING and not plan.pay_in_advance)
        )
    ]
    return max(ends, default=None)
