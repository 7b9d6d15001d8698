"""Regrouping: fees that were made without an invoice and have been paid are put on one afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from usagebill.core.dates import Occasion
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ZERO
from usagebill.core.periods import billing_boundaries
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import summed_fee_taxes
from usagebill.operations.invoices.billed import period_fields
from usagebill.operations.invoices.issue import issue
from usagebill.operations.invoices.sections import with_sections
from usagebill.operations.invoices.subscription import opened
from usagebill.operations.plans import definition
from usagebill.storage.conditions import asc, at_most, eq, missing, within
from usagebill.views.subscriptions import cycle
from usagebill.work import Work

__all__ = ["regroup_paid_fees"]

_REASON = "in_advance_charge_periodic"


def regroup_paid_fees(work: Work, subscriptions: Sequence[Subscription], *, at: datetime, renewal: bool) -> None:
    """Invoice what was paid up to `at` of the fees without invoice of `subscriptions` (of one customer and currency).

    Nothing unless one of their plans asks for it. At a renewal, fees of the period that begins wait for the next one.
    Amounts are those of the fees: nothing is taxed or credited again, and the invoice is paid.
    """
    asking = [one for one in subscriptions if _regroups(work, one)]
    orders = {one.purchase_order_number: None for one in asking}
    for number in orders:
        shared = [one for one in subscriptions if one.purchase_order_number == number]
        fees = _paid_fees(work, shared, at, renewal=renewal)
        if fees:
            _invoice(work, shared, fees, at)


def _regroups(work: Work, subscription: Subscription) -> bool:
    return any(
        charge.pay_in_advance and not charge.invoiceable and charge.regroup_paid_fees == "invoice"
        for charge in definition(work, subscription.plan_id).charges
    )


def _paid_fees(work: Work, subscriptions: Sequence[Subscription], at: datetime, *, renewal: bool) -> list[Fee]:
    paid = work.tx.find(
        Fee,
        eq("customer_id", subscriptions[0].customer_id),
        within("external_subscription_id", {one.external_id for one in subscriptions}),
        missing("invoice_id"),
        eq("payment_status", "succeeded"),
        at_most("succeeded_at", at),
        order=[asc("created_at"), asc("id")],
    )
    if not renewal:
        return paid
    return [fee for fee in paid if fee.charges_to_datetime is not None and fee.charges_to_datetime <= at]


def _invoice(work: Work, subscriptions: Sequence[Subscription], fees: Sequence[Fee], at: datetime) -> Invoice:
    invoice, _ = opened(work, subscriptions[0], at=at, occasion=Occasion.IMMEDIATE)
    newest = max(subscriptions, key=lambda one: (one.started_at or one.created_at, one.id))
    boundaries = billing_boundaries(cycle(work, newest), at)
    periods = [
        BillingPeriod(
            id=work.new_id(),
            organization_id=invoice.organization_id,
            invoice_id=invoice.id,
            subscription_id=one.id,
            external_subscription_id=one.external_id,
            plan_id=one.plan_id,
            invoicing_reason=_REASON,
            timezone=invoice.timezone,
            created_at=invoice.created_at,
            **period_fields(boundaries),  # type: ignore[arg-type]
        )
        for one in subscriptions
    ]
    taxes = summed_fee_taxes(fees, invoice.currency, work.now, work.new_id)
    amount = sum(fee.amount_cents for fee in fees)
    total = amount + taxes.amount_cents
    invoice = replace(
        invoice,
        invoice_type="advance_charges",
        fees_amount_cents=amount,
        sub_total_excluding_taxes_amount_cents=amount,
        taxes_amount_cents=taxes.amount_cents,
        taxes_rate=taxes.rate if amount else ZERO,
        applied_taxes=taxes.lines,
        sub_total_including_taxes_amount_cents=total,
        total_amount_cents=total,
        total_paid_amount_cents=total,
        payment_status="succeeded",
    )
    work.tx.insert(invoice, *periods)
    for fee in fees:
        work.tx.replace(replace(fee, invoice_id=invoice.id, updated_at=work.now))
    return issue(work, with_sections(work, invoice))
