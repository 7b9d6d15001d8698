"""How payment requests are shown."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.payment_requests import PaymentRequest
from usagebill.queries.customers import customer_of
from usagebill.queries.payment_requests import requested_invoices
from usagebill.views.customers import CustomerSummary, customer_summary
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.views.invoices import InvoiceSummary, invoice_summary
from usagebill.work import Reader

__all__ = ["PaymentRequestDetails", "PaymentRequestView", "payment_request_details", "payment_request_view"]


class PaymentRequestView(TypedDict):
    svc_id: Id
    email: str | None
    amount_cents: int
    amount_currency: str
    payment_status: str
    created_at: Instant
    customer: CustomerSummary
    invoices: list[InvoiceSummary]


class PaymentRequestDetails(PaymentRequestView):
    """The request as its fields, and once more under its name: clients read it in either form."""

    payment_request: PaymentRequestView


def payment_request_view(reader: Reader, request: PaymentRequest) -> PaymentRequestView:
    """The request with its customer and its invoices as they are now."""
    return {
        "svc_id": request.id,
        "email": request.email,
        "amount_cents": request.amount_cents,
        "amount_currency": request.currency,
        "payment_status": request.payment_status,
        "created_at": instant_text(request.created_at),
        "customer": customer_summary(reader, customer_of(reader, request)),
        "invoices": [invoice_summary(reader, invoice) for invoice in requested_invoices(reader, request)],
    }


def payment_request_details(reader: Reader, request: PaymentRequest) -> PaymentRequestDetails:
    """The request as the answer about it alone shows it."""
    shown = payment_request_view(reader, request)
    return {**shown, "payment_request": shown}
