"""The audit of receipts and payment requests: every payment has its receipt, and every request adds up."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from usagebill.core.audit import Finding, Numbered, audited_numbers
from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt, is_receipted, receipt_number
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice, dues
from usagebill.core.payments import GIVEN_BACK, Payment, TakenBack
from usagebill.core.statuses import ChargeStatus, PaymentStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptBook:
    """A customer's payments and receipts, the latter in the order of their numbers. `last` is the last number assigned.

    `must_have` are the payments that need a receipt: those recorded since receipts are issued.
    """

    customer: Customer
    payments: Sequence[Payment]
    receipts: Sequence[PaymentReceipt]
    last: int
    must_have: Sequence[Payment]


def _finding(check: str, subject: str, id: str, detail: str, expected: object, actual: object) -> Finding:
    return Finding(
        check=check, subject=subject, subject_id=id, detail=detail, expected=str(expected), found=str(actual)
    )


def audited_receipts(book: ReceiptBook) -> Iterator[Finding]:
    """Receipts are numbered without gaps, each belongs to a successful payment of its customer, and none is missing."""
    payments = {payment.id: payment for payment in book.payments}
    series = f"receipts of customer {book.customer.external_id}"
    yield from audited_numbers(
        Numbered(id=receipt.id, number=receipt.number, series=series, position=receipt.sequential_id)
        for receipt in book.receipts
    )
    last = book.receipts[-1].sequential_id if book.receipts else 0
    if last != book.last:
        subject = f"customer {book.customer.external_id}"
        yield _finding("receipt", subject, book.customer.id, "last receipt", book.last, last)
    for receipt in book.receipts:
        subject = f"receipt {receipt.number}"
        number = receipt_number(book.customer.slug, receipt.sequential_id)
        if receipt.number != number:
            yield _finding("receipt", subject, receipt.id, "number", number, receipt.number)
        payment = payments.get(receipt.payment_id)
        if payment is None:
            yield _finding("receipt", subject, receipt.id, "payment", "one of its customer's", receipt.payment_id)
        elif payment.payment_status != ChargeStatus.SUCCEEDED and payment.status != TakenBack.RETURNED:
            status = payment.payment_status
            yield _finding("receipt", subject, receipt.id, "payment_status", ChargeStatus.SUCCEEDED, status)
    receipted = {receipt.payment_id for receipt in book.receipts}
    for payment in book.must_have:
        if is_receipted(payment, book.customer) and payment.id not in receipted:
            yield _finding("receipt", f"payment {payment.id}", payment.id, "receipts", 1, 0)


def audited_request(
    request: PaymentRequest,
    parts: Sequence[RequestedInvoice],
    invoices: Sequence[Invoice],
    payments: Sequence[Payment],
    reopened: Collection[str] = (),
) -> Iterator[Finding]:
    """The amounts requested for its invoices add up to the request's. All invoices have its customer and currency.
    Payments of the request are recorded on them to the cent, and the request has succeeded if a payment of it has.
    `reopened` are the ids of invoices of which a payment was returned.
    """
    subject = f"payment request {request.id}"
    requested_cents = sum(part.amount_cents for part in parts)
    if request.amount_cents != requested_cents:
        yield _finding("payment_request", subject, request.id, "amount_cents", requested_cents, request.amount_cents)
    of_whom = (request.customer_id, request.currency, request.billing_entity_id)
    for invoice in invoices:
        actual = (invoice.customer_id, invoice.currency, invoice.billing_entity_id)
        if actual != of_whom:
            detail = f"customer, currency and billing entity of invoice {invoice.number}"
            yield _finding("payment_request", subject, request.id, detail, of_whom, actual)
    if len(invoices) != len(parts):
        yield _finding("payment_request", subject, request.id, "invoices", len(parts), len(invoices))
    paid = [payment.amount_cents for payment in payments if payment.payment_status == ChargeStatus.SUCCEEDED]
    noted = sum(part.paid_cents for part in parts)
    if noted != sum(paid):
        yield _finding("payment_request", subject, request.id, "paid of its invoices", sum(paid), noted)
    kept = [payment for payment in payments if payment.status not in GIVEN_BACK]
    paid_for_good = sum(payment.amount_cents for payment in kept if payment.payment_status == ChargeStatus.SUCCEEDED)
    if paid_for_good >= requested_cents > 0 and request.payment_status != PaymentStatus.SUCCEEDED:
        status = request.payment_status
        yield _finding("payment_request", subject, request.id, "payment_status", PaymentStatus.SUCCEEDED, status)
    # What another request, or another payment, has paid is not to be paid for this one.
    left = dues(invoice for invoice in invoices if invoice.id not in reopened)
    if request.payment_status == PaymentStatus.SUCCEEDED and not paid and any(left):
        yield _finding("payment_request", subject, request.id, "payments", "one that succeeded", "none")
