"""Payment receipts: confirmations to customers of money received, one per successful payment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.customers import AccountType, Customer
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import GIVEN_BACK, Payment
from usagebill.core.statuses import ChargeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentReceipt:
    """The receipt of a payment; `sequential_id` counts those of its customer from 1.

    `remaining_cents` is the amount still due after the payment: on its invoice, or on its payment request. Customer and
    billing entity are shown as they were when the receipt was issued.
    """

    id: str
    organization_id: str
    customer_id: str
    billing_entity_id: str
    payment_id: str
    sequential_id: int
    number: str
    remaining_cents: int
    created_at: datetime
    updated_at: datetime
    customer_snapshot: Mapping[str, object] | None = None
    # The billing entity at the time of issue (a `BillingEntityVersion`).
    issuer_version_id: str | None = None
    # Its documents.
    pdf_id: str | None = None
    xml_id: str | None = None


def receipt_number(slug: str, position: int) -> str:
    """The number of a customer's receipt at this position, from 1: `ACM-9F3A-001-RCPT-000001`."""
    return f"{slug}-RCPT-{position:06d}"


def is_receipted(payment: Payment, customer: Customer) -> bool:
    """Whether the payment gets a receipt: it succeeded, and the customer is not a partner, who issues our invoices.

    Money that is given back gets none.
    """
    is_kept = payment.payment_status == ChargeStatus.SUCCEEDED and payment.status not in GIVEN_BACK
    return is_kept and customer.account_type != AccountType.PARTNER


def remaining_cents(payment: Payment, invoices: Sequence[Invoice], requested_cents: int | None) -> int:
    """The amount still due according to a payment's receipt, in cents: of the requested amount, or on the invoices it
    paid.
    """
    if requested_cents is not None:
        return requested_cents - payment.amount_cents
    return sum(invoice.due_cents for invoice in invoices)
