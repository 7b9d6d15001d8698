"""Payment requests: by id, by invoice, and what they ask for."""

from __future__ import annotations

from usagebill.core.errors import NotFound
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.storage.conditions import asc, eq, within
from usagebill.work import Reader

__all__ = ["parts_of_request", "request_by_id", "request_of", "requested_invoices", "requests_of_invoice"]


def request_by_id(reader: Reader, payment_request_id: str) -> PaymentRequest:
    """The payment request with this id. Raises `NotFound`."""
    request = reader.tx.get(PaymentRequest, payment_request_id)
    if request is None:
        raise NotFound("payment_request")
    return request


def request_of(reader: Reader, payment_request_id: str) -> PaymentRequest:
    """The payment request that another record refers to."""
    request = reader.tx.get(PaymentRequest, payment_request_id)
    if request is None:
        raise LookupError(f"no payment request {payment_request_id}")
    return request


def parts_of_request(reader: Reader, request: PaymentRequest) -> list[RequestedInvoice]:
    """What is asked for each invoice of a request, in the order in which they were requested."""
    return reader.tx.find(RequestedInvoice, eq("payment_request_id", request.id), order=[asc("created_at"), asc("id")])


def requested_invoices(reader: Reader, request: PaymentRequest) -> list[Invoice]:
    """The invoices of a request, in the order in which they were requested."""
    ids = [part.invoice_id for part in parts_of_request(reader, request)]
    invoices = {invoice.id: invoice for invoice in reader.tx.find(Invoice, within("id", ids))}
    return [invoices[id] for id in ids if id in invoices]


def requests_of_invoice(reader: Reader, invoice_id: str) -> list[PaymentRequest]:
    """The requests that ask for an invoice, oldest first."""
    ids = [part.payment_request_id for part in reader.tx.find(RequestedInvoice, eq("invoice_id", invoice_id))]
    return reader.tx.find(PaymentRequest, within("id", ids), order=[asc("created_at"), asc("id")])
