"""How payments are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.payments import Payment
from usagebill.queries.customers import customer_of
from usagebill.queries.invoices import find_invoice
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.work import Reader

__all__ = ["PaymentMethodView", "payment_view"]


class PaymentMethodView(TypedDict):
    """How to pay: `payment_method_type` provider or manual."""

    payment_method_type: str
    payment_method_id: Id | None


class PaymentView(TypedDict):
    svc_id: Id
    svc_customer_id: Id
    external_customer_id: str
    invoice_ids: list[Id]
    invoice_numbers: list[str]
    svc_payable_id: Id
    payable_type: str
    amount_cents: int
    amount_currency: str
    status: str
    payment_status: str
    type: str
    reference: str
    payment_provider_code: None
    payment_provider_type: None
    external_payment_id: None
    provider_payment_id: None
    provider_customer_id: None
    payment_method_id: None
    next_action: Mapping[str, object]
    created_at: Instant


def payment_view(reader: Reader, payment: Payment) -> PaymentView:
    """The payment with its invoice and customer; what only providers know is null."""
    customer = customer_of(reader, payment)
    invoice = find_invoice(reader, payment.invoice_id)
    if invoice is None:
        raise LookupError(f"payment {payment.id} has lost its invoice")
    return {
        "svc_id": payment.id,
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "invoice_ids": [invoice.id],
        "invoice_numbers": [invoice.number],
        "svc_payable_id": invoice.id,
        "payable_type": "Invoice",
        "amount_cents": payment.amount_cents,
        "amount_currency": payment.amount_currency,
        "status": payment.status,
        "payment_status": payment.payment_status,
        "type": "manual",
        "reference": payment.reference,
        "payment_provider_code": None,
        "payment_provider_type": None,
        "external_payment_id": None,
        "provider_payment_id": None,
        "provider_customer_id": None,
        "payment_method_id": None,
        "next_action": {},
        "created_at": instant_text(payment.created_at),
    }
