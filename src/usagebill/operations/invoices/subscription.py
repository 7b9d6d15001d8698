"""Subscription invoices: what one or more subscriptions of a customer owe, at a start, a run, a change or an end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from zoneinfo import ZoneInfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer, dating_settings, timezone
from usagebill.core.dates import Occasion, dates_at_creation
from usagebill.core.days import local_date
from usagebill.core.error_details import GENERATION_ERROR, without
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.jobs import Job
from usagebill.core.periods import (
    Boundaries,
    Cycle,
    billed_through,
    billing_boundaries,
    day_before_next,
    day_end,
    ended_on_boundary_day,
)
from usagebill.core.plans import FixedCharge
from usagebill.core.subscriptions import Subscription
from usagebill.operations.credit_notes.drafts import follow
from usagebill.operations.invoices.adjustments import with_adjustments
from usagebill.operations.invoices.issue import draft, issue, redated
from usagebill.operations.invoices.numbering import draft_number
from usagebill.operations.invoices.record import keep_levels
from usagebill.operations.invoices.sections import with_sections
from usagebill.operations.invoices.standalone_fees import keep_standalone
from usagebill.operations.invoices.totals import settle
from usagebill.queries.billing_periods import (
    IN_ADVANCE,
    STARTING,
    BillingContext,
    billed_of,
    billing_period,
    continued,
    cycle_at_end,
    last_run,
)
from usagebill.queries.customers import customer_of, entity_of
from usagebill.queries.subscriptions import cycle, issuer_of, plan_of
from usagebill.rating.fees.charges import RatedUsage
from usagebill.rating.fees.commitments import commitment_fee
from usagebill.rating.fees.fixed_charges import added_units_fee, fixed_charge_fees
from usagebill.rating.fees.renewals import renewal_fees, standalone_renewals
from usagebill.rating.fees.subscription import subscription_fee
from usagebill.rating.fees.usage import period_usage
from usagebill.storage.conditions import asc, eq, related, within
from usagebill.work import Work

__all__ = [
    "Entry",
    "bill",
    "bill_added_units",
    "billed_day",
    "compute",
    "finalize",
    "finalize_due",
    "opened",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A subscription to be billed, and why (an `invoicing_reason`)."""

    subscription: Subscription
    reason: str


def bill(
    work: Work, entries: Sequence[Entry], *, at: datetime, occasion: Occasion, skip_charges: bool = False
) -> Invoice | None:
    """Invoice `entries` (of one customer, currency and billing entity) with billing timestamp `at`.

    The invoice is a draft while the customer's grace period lasts, and is issued at once without one. None where a run
    has billed one of the subscriptions for the very same periods already.
    """
    invoice, customer = opened(work, entries[0].subscription, at=at, occasion=occasion, skip_charges=skip_charges)
    periods = [_period(work, invoice, entry, at) for entry in entries]
    if any(period.recurring and _billed_before(work, period) for period in periods):
        return None
    work.tx.insert(invoice, *periods)
    drafted = dating_settings(customer, entity_of(work, customer)).grace_period > 0
    invoice = compute(work, invoice, finalizing=not drafted)
    for period in periods:
        for fee in standalone_renewals(work, billed_of(work, invoice, period)):
            keep_standalone(work, fee)
    return draft(work, invoice) if drafted else issue(work, invoice)


def bill_added_units(
    work: Work, subscription: Subscription, charges: Sequence[FixedCharge], *, at: datetime
) -> Invoice:
    """Invoice at once what `charges` (fixed ones, paid in advance) have more units of than was billed for the period.

    `at` is the instant of the change, or of the start. The invoice is never a draft.
    """
    invoice, _ = opened(work, subscription, at=at, occasion=Occasion.IMMEDIATE)
    period = _period(work, invoice, Entry(subscription=subscription, reason=IN_ADVANCE), at)
    work.tx.insert(invoice, period)
    billed = billed_of(work, invoice, period)
    fees = [added_units_fee(work, billed, charge, at) for charge in charges]
    invoice, fees = settle(work, invoice, fees, finalizing=True)
    work.tx.insert(*fees)
    work.tx.replace(invoice)
    return issue(work, with_sections(work, invoice))


def opened(
    work: Work, subscription: Subscription, *, at: datetime, occasion: Occasion, skip_charges: bool = False
) -> tuple[Invoice, Customer]:
    """An empty invoice of the subscription's customer, dated for billing timestamp `at`, not stored yet."""
    customer = customer_of(work, subscription)
    issuer: BillingEntity = issuer_of(work, subscription, customer)
    settings = dating_settings(customer, entity_of(work, customer))
    zone = timezone(customer, entity_of(work, customer))
    dates = dates_at_creation(occasion, settings, at, ZoneInfo(zone))
    invoice = Invoice(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=customer.id,
        billing_entity_id=issuer.id,
        invoice_type="subscription",
        status="generating",
        currency=plan_of(work, subscription).amount_currency,
        number=draft_number(issuer),
        issuing_date=dates.issuing,
        payment_due_date=dates.payment_due,
        expected_finalization_date=dates.expected_finalization,
        net_payment_term=settings.net_payment_term,
        timezone=zone,
        purchase_order_number=subscription.purchase_order_number,
        skip_charges=skip_charges,
        self_billed=customer.account_type == "partner",
        created_at=work.now,
        updated_at=work.now,
    )
    return invoice, customer


def _period(work: Work, invoice: Invoice, entry: Entry, at: datetime) -> BillingPeriod:
    boundaries = _boundaries(work, entry.subscription, at)
    return billing_period(work, invoice, entry.subscription, boundaries, entry.reason)


def _boundaries(work: Work, subscription: Subscription, at: datetime) -> Boundaries:
    periods: Cycle = cycle_at_end(work, subscription)
    billed = ended_on_boundary_day(periods) and _closed_period_is_billed(work, subscription, periods)
    fresh = billing_boundaries(periods, at, period_billed=billed)
    return continued(work, subscription, periods, fresh)


def _closed_period_is_billed(work: Work, subscription: Subscription, periods: Cycle) -> bool:
    """Whether a run has billed the period that closed right before the day on which the subscription ended."""
    billed, ended = billed_day(work, subscription, periods), periods.terminated_at
    return billed is not None and ended is not None and billed >= local_date(ended, periods.tz)


def billed_day(work: Work, subscription: Subscription, periods: Cycle) -> date | None:
    """The local date by `periods` up to which runs have billed the subscription, None before the first.

    A start that was billed in advance in another time zone leaves nothing to bill before its first period ends: a
    month where the plan bills a part of itself monthly.
    """
    last = last_run(work, subscription)
    if last is not None:
        return billed_through(periods, run_at=last.timestamp, run_tz=ZoneInfo(last.timezone))
    started = None
    if plan_of(work, subscription).pay_in_advance:
        started = work.tx.first(BillingPeriod, eq("subscription_id", subscription.id), eq("invoicing_reason", STARTING))
    if started is None or ZoneInfo(started.timezone) == periods.tz:
        return None
    before = cycle(work, subscription, tz=ZoneInfo(started.timezone))
    first = before.period(local_date(started.timestamp, before.tz), before.billing_interval)
    return day_before_next(periods, day_end(first.end, before.tz))


def _billed_before(work: Work, period: BillingPeriod) -> bool:
    """Whether a run has billed the same windows of the subscription."""
    return (
        work.tx.first(
            BillingPeriod,
            eq("subscription_id", period.subscription_id),
            eq("recurring", True),
            eq("subscription_from_datetime", period.subscription_from_datetime),
            eq("subscription_to_datetime", period.subscription_to_datetime),
            eq("charges_from_datetime", period.charges_from_datetime),
            eq("charges_to_datetime", period.charges_to_datetime),
            eq("fixed_charges_from_datetime", period.fixed_charges_from_datetime),
            eq("fixed_charges_to_datetime", period.fixed_charges_to_datetime),
            related(
                Invoice, "invoice_id", within("status", ("draft", "open", "pending", "failed", "finalized", "closed"))
            ),
        )
        is not None
    )


def compute(work: Work, invoice: Invoice, *, finalizing: bool) -> Invoice:
    """The invoice with fees and totals made anew from what is known now, and stored.

    Its billing periods stay as they are: what came in late lies in them. Coupons and credits are used while
    `finalizing` only, so that the total of a draft is an estimate.
    """
    # An invoice that is being made has none yet.
    drafted = invoice.status != "generating"
    before = work.tx.find(Fee, eq("invoice_id", invoice.id), deleted=True) if drafted else []
    work.tx.delete(*before)
    fees: list[Fee] = []
    for period in work.tx.find(BillingPeriod, eq("invoice_id", invoice.id), order=[asc("id")]):
        rated = rated_period(work, billed_of(work, invoice, period))
        keep_levels(work, rated.levels)
        fees += rated.fees
    invoice, fees = settle(work, invoice, fees, finalizing=finalizing)
    work.tx.insert(*fees)
    invoice = replace(with_sections(work, invoice), updated_at=work.now, refresh_wanted=False)
    work.tx.replace(invoice)
    follow(work, invoice, before)
    return invoice


def rated_period(work: Work, billed: BillingContext) -> RatedUsage:
    """The fees of one billing period, in the order in which the invoice lists them, and the levels to keep."""
    fee = subscription_fee(work, billed)
    usage = period_usage(work, billed)
    fees = [] if fee is None else [fee]
    fees += usage.fees
    fees += renewal_fees(work, billed)
    fees += fixed_charge_fees(work, billed)
    fees = with_adjustments(work, billed, fees)
    commitment = commitment_fee(work, billed, fees)
    return replace(usage, fees=tuple(fees) if commitment is None else (*fees, commitment))


def finalize(work: Work, invoice: Invoice) -> Invoice:
    """Finalize a draft now: with everything known by now, dated today unless it keeps its anchor."""
    work.tx.jobs.cancel(f"finalize_invoice:{invoice.id}")
    invoice = compute(work, invoice, finalizing=True)
    invoice = replace(invoice, error_details=without(invoice.error_details, GENERATION_ERROR))
    return issue(work, redated(work, invoice))


def finalize_due(work: Work, job: Job) -> None:
    """Job: the grace period of a draft is over."""
    invoice = work.tx.get(Invoice, str(job.payload["invoice_id"]))
    if invoice is not None and invoice.status == "draft":
        finalize(work, invoice)
