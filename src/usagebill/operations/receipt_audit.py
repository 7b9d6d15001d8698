"""The audit of a customer's receipts and payment requests: the records looked up."""

from __future__ import annotations

from collections.abc import Iterator

from usagebill.core.audit import Finding
from usagebill.core.customers import Customer
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.payments import Payment
from usagebill.core.receipt_audit import ReceiptBook, audited_receipts, audited_request
from usagebill.operations.payment_receipts import receipt_series
from usagebill.queries.payment_requests import parts_of_request, requested_invoices
from usagebill.storage.conditions import asc, eq
from usagebill.work import Reader

__all__ = ["audited_payments"]


def audited_payments(reader: Reader, customer: Customer) -> Iterator[Finding]:
    """What does not agree between a customer's payments, receipts and payment requests."""
    payments = reader.tx.find(Payment, eq("customer_id", customer.id), order=[asc("created_at"), asc("id")])
    receipts = reader.tx.find(PaymentReceipt, eq("customer_id", customer.id), order=[asc("sequential_id"), asc("id")])
    first = reader.tx.first(PaymentReceipt, order=[asc("created_at"), asc("id")])
    # Payments of older versions have none. An id tells when it was made, `created_at` when it was paid.
    since = None if first is None else first.payment_id
    yield from audited_receipts(
        ReceiptBook(
            customer=customer,
            payments=payments,
            receipts=receipts,
            last=reader.tx.last_number(receipt_series(customer.id)),
            must_have=[payment for payment in payments if since is not None and payment.id >= since],
        )
    )
    for request in reader.tx.find(PaymentRequest, eq("customer_id", customer.id), order=[asc("created_at")]):
        yield from audited_request(
            request,
            parts_of_request(reader, request),
            requested_invoices(reader, request),
            [payment for payment in payments if payment.payment_request_id == request.id],
        )
