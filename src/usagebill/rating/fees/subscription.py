"""The subscription fee: the plan's amount for the days of the period that are billed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from usagebill.core.copies import replace
from usagebill.core.currencies import major_from_cents
from usagebill.core.days import local_date
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoicingReason
from usagebill.core.invoices.opening import new_fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ONE, round_cents, round_to
from usagebill.core.periods import Succession, is_same_end
from usagebill.core.subscription_fees import FeeFacts, billed_days, fee_is_due, fee_rule, prorated
from usagebill.core.subscriptions import RUNNING, Subscription, billed_since
from usagebill.core.trials import trial_end, trial_start
from usagebill.queries.billing_periods import BillingContext
from usagebill.queries.fees import fees_before
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import at_least, at_most, eq, ne, related


def end_of_trial(reader: Reader, subscription: Subscription, trial_period: Decimal | None) -> datetime | None:
    """The end of a trial of `trial_period` days, None if there is none.

    It counts from the customer's first start under the same external id.
    """
    if not trial_period:
        return None
    subscriptions = reader.tx.find(
        Subscription,
        eq("customer_id", subscription.customer_id),
        eq("external_id", subscription.external_id),
    )
    start = trial_start((other.started_at for other in subscriptions), subscription.subscription_at)
    return trial_end(start, trial_period)


def subscription_item(
    context: BillingContext, kind: FeeType = FeeType.SUBSCRIPTION, name: str | None = None
) -> FeeItem:
    """The item that a subscription fee or commitment fee bills."""
    plan, subscription = context.plan, context.subscription
    return FeeItem(
        type=kind,
        item_type="Subscription",
        id=subscription.id,
        code=plan.code,
        name=plan.name,
        description=plan.description,
        invoice_display_name=name or subscription.name or plan.invoice_display_name or plan.name,
    )


def subscription_fee(reader: Reader, context: BillingContext) -> Fee | None:
    """The subscription fee of a billing period, None if the period carries none. In a free trial it is 0."""
    facts = fee_facts(reader, context)
    if not fee_is_due(facts):
        return None
    plan, subscription, invoice = context.plan, context.subscription, context.invoice
    window = context.boundaries.subscription
    days = billed_days(
        fee_rule(facts),
        window,
        context.cycle.tz,
        trial_end=facts.trial_end,
        upgraded=context.ended_by_upgrade,
    )
    precise = prorated(plan.amount_cents, days, window.duration)
    cents = round_cents(precise)
    line = new_fee(
        id=reader.new_id(),
        invoice=invoice,
        subscription=subscription,
        item=subscription_item(context),
        amount_cents=cents,
        precise_amount_cents=round_to(precise, 15),
        units=ONE,
        currency=invoice.currency,
        now=reader.now,
    )
    return replace(
        line,
        unit_amount_cents=cents,
        precise_unit_amount=major_from_cents(cents, invoice.currency),
        pay_in_advance=plan.pay_in_advance,
        from_datetime=window.start,
        to_datetime=window.end,
        amount_details={"plan_amount_cents": plan.amount_cents},
        basis={"days": days, "period_days": window.duration},
    )


def fee_facts(reader: Reader, context: BillingContext) -> FeeFacts:
    """The facts that decide whether the billing period carries a subscription fee, and for how many days."""
    subscription, cycle = context.subscription, context.cycle
    ends_at = end_of_trial(reader, subscription, context.plan.trial_period)
    earlier = _earlier_fees(reader, context)
    day = local_date(context.boundaries.timestamp, cycle.tz)
    return FeeFacts(
        cycle=cycle,
        boundaries=context.boundaries,
        billed_since=billed_since(subscription),
        active=subscription.status in RUNNING,
        predecessor=Succession(subscription.origin) if subscription.origin else None,
        first_invoice=_is_first(reader, context),
        fee_billed=bool(earlier),
        # A fee created today may belong to a period that, in a new time zone, was over before today.
        fee_billed_today=any(
            local_date(fee.created_at, cycle.tz) == day
            and (fee.to_datetime is None or is_same_end(cycle, context.boundaries.subscription, fee.to_datetime))
            for fee in earlier
        ),
        starting=context.period.invoicing_reason == InvoicingReason.STARTING,
        ended_after_invoice=context.ended_after_invoice,
        in_trial=ends_at is not None and context.boundaries.timestamp < ends_at,
        trial_end=ends_at,
    )


def _earlier_fees(reader: Reader, context: BillingContext) -> Sequence[Fee]:
    """The subscription's fees on other invoices that were not created later.

    Periods that were over before its billing began do not count: it waited for a payment then, and another plan was
    billed for those days.
    """
    began = context.subscription.billed_from
    return fees_before(
        reader,
        context,
        eq("fee_type", FeeType.SUBSCRIPTION),
        *(() if began is None else (at_least("to_datetime", began),)),
        related(Invoice, "invoice_id", ne("status", InvoiceStatus.DELETED)),
    )


def _is_first(reader: Reader, context: BillingContext) -> bool:
    """Whether no earlier invoice bills the subscription."""
    invoice, of_subscription = context.invoice, eq("subscription_id", context.subscription.id)
    others = reader.tx.count(
        BillingPeriod, of_subscription, ne("invoice_id", invoice.id), at_most("created_at", invoice.created_at)
    )
    if others == 0:
        return True
    at_once = reader.tx.find(BillingPeriod, of_subscription, eq("created_at", invoice.created_at))
    later = [
        period
        for period in at_once
        if period.invoice_id != invoice.id and not context.follows(period.created_at, period.invoice_id)
    ]
    return others == len(later)
