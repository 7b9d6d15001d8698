"""Payment requests as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.provider_requests import ProviderFailure
from usagebill.queries.customers import customer_of
from usagebill.queries.payment_requests import requested_invoices
from usagebill.runtime.work import Reader
from usagebill.views.customers import CustomerSummary, customer_summary
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.views.invoices import InvoiceSummary, ProviderErrorView, invoice_summary


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
    """The request's fields, and the same nested under its name: clients read either form."""

    payment_request: PaymentRequestView


class PaymentRequestFailure(TypedDict):
    svc_payment_request_id: Id
    svc_invoice_ids: list[Id]
    svc_customer_id: Id
    external_customer_id: str
    provider_customer_id: str | None
    payment_provider: str | None
    payment_provider_code: str | None
    provider_error: ProviderErrorView


def payment_request_view(reader: Reader, request: PaymentRequest) -> PaymentRequestView:
    """The request with its current customer and invoices."""
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


def request_failure_view(reader: Reader, request: PaymentRequest, failure: ProviderFailure) -> PaymentRequestFailure:
    """The message about a request that could not be collected, with the reason."""
    customer = customer_of(reader, request)
    return {
        "svc_payment_request_id": request.id,
        "svc_invoice_ids": [invoice.id for invoice in requested_invoices(reader, request)],
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "provider_customer_id": customer.provider_customer_id,
        "payment_provider": customer.payment_provider,
        "payment_provider_code": customer.payment_provider_code,
        "provider_error": {"message": failure.message, "error_code": failure.code},
    }


def payment_request_details(reader: Reader, request: PaymentRequest) -> PaymentRequestDetails:
    """The request as a single-record response shows it."""
    shown = payment_request_view(reader, request)
    return {**shown, "payment_request": shown}
