"""What billing periods counted, as it was kept with them."""

from __future__ import annotations

from datetime import datetime

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.counted_usage import CountedUsage, counted_usage
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import WHOLE_REASONS, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.plans import Charge
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, desc, eq, within

_COUNTING = (*WHOLE_REASONS, InvoicingReason.PROGRESSIVE_BILLING)


def counted_by(reader: Reader, period: BillingPeriod, invoice: Invoice) -> CountedUsage:
    """What the period counted. For one that was billed before this was kept: the charges that its plan had then, as far
    as they are still known.
    """
    if period.counted is not None:
        return period.counted
    at = _counted_at(reader, invoice)
    charges = reader.cached(
        ("charges with those that are gone", period.plan_id),
        lambda: reader.tx.find(Charge, eq("plan_id", period.plan_id), order=[asc("created_at")], deleted=True),
    )
    there = [
        charge
        for charge in charges
        if charge.created_at <= at and (charge.deleted_at is None or charge.deleted_at > at)
    ]
    ids = {charge.billable_metric_id for charge in there}
    metrics = reader.tx.find(BillableMetric, within("id", sorted(ids)), deleted=True) if ids else []
    return counted_usage(there, {metric.id: metric for metric in metrics}, at)


def _counted_at(reader: Reader, invoice: Invoice) -> datetime:
    """The instant by which the events that the invoice counts had been received."""
    if invoice.tax_status is not None:
        # It waited for its taxes after it had been counted.
        fee = reader.tx.first(Fee, eq("invoice_id", invoice.id), order=[desc("created_at")], deleted=True)
        if fee is not None:
            return fee.created_at
    return invoice.finalized_at or invoice.updated_at


def period_of_fee(reader: Reader, fee: Fee) -> BillingPeriod | None:
    """The billing period that counted a usage fee; None if there is none.

    For a line of an invoice that takes the place of a void one, that is the void one's.
    """
    of_subscription = eq("subscription_id", fee.subscription_id)
    original = reader.tx.get(Fee, fee.original_fee_id, deleted=True) if fee.original_fee_id else fee
    invoice_id = fee.invoice_id if original is None else original.invoice_id
    if invoice_id is not None:
        period = reader.tx.first(BillingPeriod, eq("invoice_id", invoice_id), of_subscription, order=[asc("id")])
        if period is not None and period.invoicing_reason in _COUNTING:
            return period
    return reader.tx.first(
        BillingPeriod,
        of_subscription,
        eq("charges_from_datetime", fee.charges_from_datetime),
        eq("charges_to_datetime", fee.charges_to_datetime),
        within("invoicing_reason", WHOLE_REASONS),
        order=[asc("created_at"), asc("id")],
    )
