"""Payment requests by id and by invoice, and their invoices."""

from __future__ import annotations

from dataclasses import dataclass

from usagebill.core.collection import Collectable
from usagebill.core.errors import NotFound
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.core.payments import LIVE, Payment, PaymentPage, is_under_way
from usagebill.core.provider_requests import OUTCOME_UNKNOWN, PayableType
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, any_of, asc, eq, missing, more, present, within


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


@dataclass(frozen=True, slots=True)
class Debt:
    """Everything that asks for the same money: invoices, and the payment requests with one of them, by id."""

    invoice_ids: frozenset[str]
    request_ids: frozenset[str]

    @property
    def payables(self) -> Condition:
        """The condition of payments and payment pages for one of them."""
        return any_of(within("invoice_id", self.invoice_ids), within("payment_request_id", self.request_ids))


def debt_of(reader: Reader, payable_type: PayableType, payable_id: str) -> Debt:
    """The invoice or the invoices of the payment request, and all requests with one of these."""
    if payable_type is PayableType.INVOICE:
        invoice_ids = frozenset({payable_id})
    else:
        invoice_ids = frozenset(part.invoice_id for part in parts_of_request(reader, request_of(reader, payable_id)))
    requests = {request.id for id in invoice_ids for request in requests_of_invoice(reader, id)}
    return Debt(invoice_ids, frozenset(requests))


def charges_under_way(reader: Reader, payable_type: PayableType, payable_id: str) -> list[Payment]:
    """The charges that may be moving money for the same debt, whatever they were made for."""
    debt = debt_of(reader, payable_type, payable_id)
    live = reader.tx.find(Payment, debt.payables, present("connection_id"), within("payment_status", LIVE))
    return [payment for payment in live if is_under_way(payment)]


def charge_beside(reader: Reader, payable_type: PayableType, payable_id: str) -> Payment | None:
    """A charge under way for another payable that covers the same debt: a request with the same invoice, or one of the
    invoices of this request.
    """
    under_way = charges_under_way(reader, payable_type, payable_id)
    return next((payment for payment in under_way if payment.payable_id != payable_id), None)


def is_outcome_unknown(reader: Reader, collectable: Collectable) -> bool:
    """Whether a charge for the same debt ended without a word from its provider, and nobody has said since what became
    of it: it may have taken the money, so nothing else asks for that.
    """
    if collectable.is_ready:
        return False
    debt = debt_of(reader, collectable.type, collectable.id)
    return reader.tx.first(Payment, debt.payables, eq("error_code", OUTCOME_UNKNOWN)) is not None


def open_pages(reader: Reader, payable_type: PayableType, payable_id: str) -> list[PaymentPage]:
    """The payment pages on which the same debt can be paid now, whatever they were made for."""
    debt = debt_of(reader, payable_type, payable_id)
    return reader.tx.find(PaymentPage, debt.payables, missing("ended_at"), more("expires_at", reader.now))


def ended_pages(reader: Reader, payable_type: PayableType, payable_id: str) -> list[PaymentPage]:
    """The payment pages for the same debt that were ended here before their time."""
    debt = debt_of(reader, payable_type, payable_id)
    return reader.tx.find(PaymentPage, debt.payables, present("ended_at"), more("expires_at", reader.now))


def requests_of_invoice(reader: Reader, invoice_id: str) -> list[PaymentRequest]:
    """The requests that ask for an invoice, oldest first."""
    ids = [part.payment_request_id for part in reader.tx.find(RequestedInvoice, eq("invoice_id", invoice_id))]
    return reader.tx.find(PaymentRequest, within("id", ids), order=[asc("created_at"), asc("id")])
