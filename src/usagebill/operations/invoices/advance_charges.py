"""Invoices of type advance_charges: fees without invoice that have been paid one by one, put together afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from usagebill.core.dates import Occasion
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import CHARGES_PAID_IN_ADVANCE
from usagebill.core.periods import Boundaries, billing_boundaries
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import summed_fee_taxes
from usagebill.operations.invoices.issue import issue
from usagebill.operations.invoices.subscription import opened
from usagebill.operations.payment_status import payment_of
from usagebill.queries.billing_periods import billing_period
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import cycle
from usagebill.storage.conditions import Condition, asc, at_most, eq, missing, within
from usagebill.work import Work

__all__ = ["IN_ADVANCE_PERIODIC", "regroup"]

IN_ADVANCE_PERIODIC = "in_advance_charge_periodic"


def regroup(work: Work, subscriptions: Sequence[Subscription], at: datetime, *, renewing: bool) -> list[Invoice]:
    """Invoice the fees of `subscriptions` that were paid before `at` and that no invoice holds.

    The subscriptions are of one customer. With them go the earlier ones of the same external ids; one plan at least, of
    all these, asks for it: what is paid after a change of plan is invoiced too, whatever the new plan charges. At a
    renewal (`renewing`) fees of the period that has just begun wait for the next one. One invoice for each purchase
    order; nothing is computed anew, nor paid again.
    """
    newest = max(subscriptions, key=lambda subscription: (subscription.started_at or at, subscription.id))
    known = work.tx.find(
        Subscription,
        eq("customer_id", newest.customer_id),
        within("external_id", sorted({subscription.external_id for subscription in subscriptions})),
        within("status", ("active", "terminated")),
        order=[asc("started_at"), asc("id")],
    )
    if not any(_asks(work, subscription) for subscription in {one.plan_id: one for one in known}.values()):
        return []
    owners = {subscription.id: subscription for subscription in known}
    groups: dict[tuple[str | None, str], list[Fee]] = {}
    for fee in _paid(work, list(owners), at, renewing=renewing):
        order = owners[fee.subscription_id or ""].purchase_order_number
        groups.setdefault((order, fee.currency), []).append(fee)
    boundaries = billing_boundaries(cycle(work, newest), at)
    return [
        _invoice(work, newest, owners, boundaries, fees, at=at, order=order, currency=currency)
        for (order, currency), fees in groups.items()
    ]


def _asks(work: Work, subscription: Subscription) -> bool:
    return any(
        charge.pay_in_advance and not charge.invoiceable and charge.regroup_paid_fees == "invoice"
        for charge in plan_definition(work, subscription.plan_id).charges
    )


def _paid(work: Work, subscription_ids: Sequence[str], at: datetime, *, renewing: bool) -> list[Fee]:
    conditions: list[Condition] = [
        within("subscription_id", subscription_ids),
        eq("fee_type", "charge"),
        missing("invoice_id"),
        eq("payment_status", "succeeded"),
        at_most("succeeded_at", at),
    ]
    if renewing:
        conditions.append(at_most("charges_to_datetime", at))
    return work.tx.find(Fee, *conditions, order=[asc("created_at"), asc("id")])


def _invoice(
    work: Work,
    newest: Subscription,
    owners: dict[str, Subscription],
    boundaries: Boundaries,
    fees: Sequence[Fee],
    *,
    at: datetime,
    order: str | None,
    currency: str,
) -> Invoice:
    empty, _ = opened(work, newest, at=at, occasion=Occasion.IMMEDIATE, skip_charges=True)
    taxes = summed_fee_taxes(fees, currency, work.now, work.new_id)
    amount = sum(fee.amount_cents for fee in fees)
    whole = amount + taxes.amount_cents
    invoice = replace(
        empty,
        invoice_type="advance_charges",
        currency=currency,
        purchase_order_number=order,
        fees_amount_cents=amount,
        sub_total_excluding_taxes_amount_cents=amount,
        taxes_amount_cents=taxes.amount_cents,
        taxes_rate=taxes.rate,
        applied_taxes=taxes.lines,
        sub_total_including_taxes_amount_cents=whole,
        total_amount_cents=whole,
        payment_status="succeeded",
        total_paid_amount_cents=whole,
    )
    held = dict.fromkeys(fee.subscription_id or "" for fee in fees)
    work.tx.insert(
        invoice, *(billing_period(work, invoice, owners[id], boundaries, IN_ADVANCE_PERIODIC) for id in held)
    )
    for fee in fees:
        work.tx.replace(replace(fee, invoice_id=invoice.id, self_billed=invoice.self_billed, updated_at=work.now))
    work.tx.insert(payment_of(work, invoice, whole, CHARGES_PAID_IN_ADVANCE, work.now))
    return issue(work, invoice)
