"""Payment requests by id and by invoice, and their invoices."""

from __future__ import annotations

from usagebill.core.errors import NotFound
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.core.payments import LIVE, Payment, is_under_way
from usagebill.core.provider_requests import PayableType
from usagebill.storage.conditions import any_of, asc, eq, present, within
from usagebill.work import Reader


def request_by_id(reader: Reader, payment_request_id: str) -> PaymentRequest:
    """The payment request with this id. Raises `NotFound`."""
    request = reader.tx.get(PaymentRequest, payment_request_id)
    if request is None:
        raise NotFound("payment_request", payment_request_id)
    return request


def request_of(reader: Reader, payment_request_id: str) -> PaymentRequest:
    """The payment request that another record refers to."""
    request = reader.tx.get(PaymentRequest, payment_request_id)
    if request is None:
        raise LookupError(f"no payment request {payment_request_id}")
    return request


def parts_of_request(reader: Reader, request: PaymentRequest) -> list[RequestedInvoice]:
    """The request's amounts per invoice, in the order of the request."""
    return reader.tx.find(RequestedInvoice, eq("payment_request_id", request.id), order=[asc("created_at"), asc("id")])


def requested_invoices(reader: Reader, request: PaymentRequest) -> list[Invoice]:
    """The invoices of a request, in its order."""
    ids = [part.invoice_id for part in parts_of_request(reader, request)]
    invoices = {invoice.id: invoice for invoice in reader.tx.find(Invoice, within("id", ids))}
    return [invoices[id] for id in ids if id in invoices]


def charge_beside(reader: Reader, payable_type: PayableType, payable_id: str) -> Payment | None:
    """A charge under way for another payable that covers the same debt: a request with the same invoice, or one of the
    invoices of this request.
    """
    if payable_type is PayableType.INVOICE:
        invoice_ids = [payable_id]
    else:
        invoice_ids = [part.invoice_id for part in parts_of_request(reader, request_of(reader, payable_id))]
    requests = {request.id for id in invoice_ids for request in requests_of_invoice(reader, id)} - {payable_id}
    invoices = set(invoice_ids) - {payable_id}
    if not requests and not invoices:
        return None
    either = any_of(within("invoice_id", invoices), within("payment_request_id", requests))
    live = reader.tx.find(Payment, either, present("connection_id"), within("payment_status", LIVE))
    return next((payment for payment in live if is_under_way(payment)), None)


def requests_of_invoice(reader: Reader, invoice_id: str) -> list[PaymentRequest]:
    """The requests that ask for an invoice, oldest first."""
    ids = [part.payment_request_id for part in reader.tx.find(RequestedInvoice, eq("invoice_id", invoice_id))]
    return reader.tx.find(PaymentRequest, within("id", ids), order=[asc("created_at"), asc("id")])
