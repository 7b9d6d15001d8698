"""The dates of invoices, from the settings that apply to a customer, and when a draft is finalized."""

from __future__ import annotations

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import (
    Customer,
    grace_period,
    issuing_date_adjustment,
    issuing_date_anchor,
    net_payment_term,
)
from usagebill.core.dates import DatingSettings, IssuingDateAdjustment, IssuingDateAnchor, Occasion
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.periods.schedule import draft_finalization_at
from usagebill.storage.conditions import eq
from usagebill.work import Work

__all__ = ["dating_settings", "occasion_of", "watch_draft"]


def dating_settings(customer: Customer, entity: BillingEntity) -> DatingSettings:
    """What decides the dates of the customer's invoices: its own values, else its billing entity's."""
    return DatingSettings(
        grace_period=grace_period(customer, entity),
        net_payment_term=net_payment_term(customer, entity),
        anchor=IssuingDateAnchor(issuing_date_anchor(customer, entity)),
        adjustment=IssuingDateAdjustment(issuing_date_adjustment(customer, entity)),
    )


def watch_draft(work: Work, invoice: Invoice) -> None:
    """Have the draft finalized on its expected date, instead of when it was to be before."""
    key = f"finalize_invoice:{invoice.id}"
    work.tx.jobs.cancel(key)
    day = invoice.expected_finalization_date or invoice.issuing_date
    work.schedule(
        "finalize_invoice",
        invoice.customer_id,
        max(draft_finalization_at(day), work.now),
        key=key,
        payload={"invoice_id": invoice.id},
    )


def occasion_of(work: Work, invoice: Invoice) -> Occasion:
    """What the invoice was made for, as far as its dates go."""
    if invoice.invoice_type != "subscription":
        return Occasion.IMMEDIATE
    reasons = {period.invoicing_reason for period in work.tx.find(BillingPeriod, eq("invoice_id", invoice.id))}
    if "in_advance_charge" in reasons:
        return Occasion.IMMEDIATE
    return Occasion.PERIODIC if "subscription_periodic" in reasons else Occasion.SUBSCRIPTION
