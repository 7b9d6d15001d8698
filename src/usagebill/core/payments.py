"""Payments: money received for an invoice, recorded by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.statuses import PaymentStatus

__all__ = ["CHARGES_PAID_IN_ADVANCE", "LONGEST_REFERENCE", "Payment", "payment_errors"]

LONGEST_REFERENCE = 40

# The reference of the payment that an invoice of already paid fees is born with.
CHARGES_PAID_IN_ADVANCE = "Charges paid in advance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """A manual payment of an invoice, in cents of the invoice's currency. `created_at` is when it was paid."""

    id: str
    organization_id: str
    customer_id: str
    invoice_id: str
    amount_cents: int
    amount_currency: str
    reference: str
    created_at: datetime
    updated_at: datetime
    status: PaymentStatus = PaymentStatus.SUCCEEDED
    payment_status: PaymentStatus = PaymentStatus.SUCCEEDED


def payment_errors(invoice: Invoice, amount_cents: int, reference: str) -> dict[str, list[str]]:
    """Why an invoice cannot be paid so, as field -> codes; empty if it can."""
    errors: dict[str, list[str]] = {}
    if not reference:
        errors["reference"] = ["value_is_mandatory"]
    elif len(reference) > LONGEST_REFERENCE:
        errors["reference"] = ["value_is_too_long"]
    amount = []
    if invoice.invoice_type == InvoiceType.CREDIT and amount_cents != invoice.total_amount_cents:
        amount.append("invalid_amount")
    if amount_cents > invoice.due_cents:
        amount.append("value_is_out_of_range")
    if amount:
        errors["amount_cents"] = amount
    return errors
