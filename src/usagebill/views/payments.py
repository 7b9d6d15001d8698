"""Payments as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.payment_methods import PaidBy
from usagebill.core.payments import Payment
from usagebill.queries.customers import customer_of
from usagebill.queries.payments import paid_invoices
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class PaymentMethodView(TypedDict):
    """A payment method choice: `payment_method_type` is provider or manual."""

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
    reference: str | None
    payment_provider_code: str | None
    payment_provider_type: str | None
    external_payment_id: str | None
    provider_payment_id: str | None
    provider_customer_id: str | None
    payment_method_id: Id | None
    next_action: Mapping[str, object]
    error_code: str | None
    provider_fee_amount_cents: int | None
    provider_fee_currency: str | None
    created_at: Instant


class PaymentAnswer(PaymentView):
    """The payment's fields, and the same nested under its name: clients read either form."""

    payment: PaymentView


def payment_answer(reader: Reader, payment: Payment) -> PaymentAnswer:
    """The payment as a single-record response shows it."""
    shown = payment_view(reader, payment)
    return {**shown, "payment": shown}


def payment_view(reader: Reader, payment: Payment) -> PaymentView:
    """The payment with its invoice and customer; fields of providers are null for a manual one."""
    customer = customer_of(reader, payment)
    invoices = paid_invoices(reader, payment)
    return {
        "svc_id": payment.id,
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "invoice_ids": [invoice.id for invoice in invoices],
        "invoice_numbers": [invoice.number for invoice in invoices],
        "svc_payable_id": payment.payable_id,
        "payable_type": payment.payable_type,
        "amount_cents": payment.amount_cents,
        "amount_currency": payment.amount_currency,
        "status": payment.status,
        "payment_status": payment.payment_status,
        "type": PaidBy.HAND if payment.is_manual else PaidBy.PROVIDER,
        "reference": payment.reference,
        "payment_provider_code": payment.payment_provider_code,
        "payment_provider_type": payment.payment_provider_type,
        "external_payment_id": payment.provider_payment_id,
        "provider_payment_id": payment.provider_payment_id,
        "provider_customer_id": payment.provider_customer_id,
        "payment_method_id": payment.payment_method_id,
        "next_action": payment.next_action,
        "error_code": payment.error_code,
        "provider_fee_amount_cents": payment.provider_fee_amount_cents,
        "provider_fee_currency": payment.provider_fee_currency,
        "created_at": instant_text(payment.created_at),
    }
