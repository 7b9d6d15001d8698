"""Invoices of type advance_charges: fees without an invoice that were paid one by one, grouped afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.records import Invoice
from usagebill.core.periods import billing_boundaries
from usagebill.core.plans import Charge
from usagebill.core.pricing.charges import REGROUPED
from usagebill.core.sharing import sharing_fees
from usagebill.core.statuses import PaymentStatus
from usagebill.core.subscriptions import ACTIVATED, Subscription
from usagebill.operations.invoices.record import record
from usagebill.queries.contracts import contract_of
from usagebill.rating.invoice import regrouped_bill
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, at_most, eq, missing, within


def regroup(work: Work, subscriptions: Sequence[Subscription], at: datetime, *, renewing: bool) -> list[Invoice]:
    """Invoice the fees of `subscriptions` (of one customer) that were paid before `at` and are on no invoice.

    Earlier subscriptions of the same external ids are included. At least one of the plans must ask for it; fees paid
    after a plan change are invoiced whatever the new plan charges. At a renewal (`renewing`) fees of the period that
    has just begun wait for the next one. There is one invoice per purchase order; nothing is recomputed or charged
    again.
    """
    newest = max(subscriptions, key=lambda subscription: (subscription.started_at or at, subscription.id))
    known = work.tx.find(
        Subscription,
        eq("customer_id", newest.customer_id),
        within("external_id", sorted({subscription.external_id for subscription in subscriptions})),
        within("status", ACTIVATED),
        order=[asc("started_at"), asc("id")],
    )
    if not _asks(work, {subscription.plan_id for subscription in known}):
        return []
    owners = {subscription.id: subscription for subscription in known}
    contract = contract_of(work, newest)
    boundaries = billing_boundaries(contract.cycle(), at)
    return [
        record(work, regrouped_bill(work, contract, owners, boundaries, fees, at=at, order=order, currency=currency))
        for (order, currency), fees in sharing_fees(_paid(work, list(owners), at, renewing=renewing), owners).items()
    ]


def _asks(reader: Reader, plan_ids: Iterable[str]) -> bool:
    """Whether any of the plans has fees that were paid one by one invoiced together."""
    asking = reader.tx.first(
        Charge,
        within("plan_id", sorted(plan_ids)),
        eq("pay_in_advance", True),
        eq("invoiceable", False),
        eq("regroup_paid_fees", REGROUPED),
    )
    return asking is not None


def _paid(reader: Reader, subscription_ids: Sequence[str], at: datetime, *, renewing: bool) -> list[Fee]:
    conditions: list[Condition] = [
        within("subscription_id", subscription_ids),
        eq("fee_type", FeeType.CHARGE),
        missing("invoice_id"),
        eq("payment_status", PaymentStatus.SUCCEEDED),
        at_most("succeeded_at", at),
    ]
    if renewing:
        conditions.append(at_most("charges_to_datetime", at))
    return reader.tx.find(Fee, *conditions, order=[asc("created_at"), asc("id")])
