"""Records for the audit of a customer's payments, refunds, receipts and payment requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from usagebill.core.audit import Finding
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.payment_tasks import AskPaymentProvider, CollectPayment
from usagebill.core.payments import Payment, RefundAttempt, TakenBack
from usagebill.core.provider_requests import ProviderErrand
from usagebill.core.receipt_audit import ReceiptBook, audited_receipts, audited_request
from usagebill.core.refund_audit import RefundBook, audited_refunds
from usagebill.operations.payment_receipts import receipt_series
from usagebill.queries.payment_requests import parts_of_request, requested_invoices
from usagebill.queries.payments import paid_invoices
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, within


def audited_payments(reader: Reader, customer: Customer) -> Iterator[Finding]:
    """The findings about a customer's payments, refunds, receipts and payment requests."""
    payments = reader.tx.find(Payment, eq("customer_id", customer.id), order=[asc("created_at"), asc("id")])
    receipts = reader.tx.find(PaymentReceipt, eq("customer_id", customer.id), order=[asc("sequential_id"), asc("id")])
    first = reader.tx.first(PaymentReceipt, order=[asc("created_at"), asc("id")])
    # Payments of older versions have none. Ids are in order of creation; `created_at` is the instant of payment.
    since = None if first is None else first.payment_id
    yield from audited_receipts(
        ReceiptBook(
            customer=customer,
            payments=payments,
            receipts=receipts,
            last=reader.tx.last_numbers(receipt_series(customer.id))[0],
            must_have=[payment for payment in payments if since is not None and payment.id >= since],
        )
    )
    yield from audited_refunds(_refund_book(reader, customer, payments))
    returned = [payment for payment in payments if payment.status == TakenBack.RETURNED]
    reopened = {invoice.id for payment in returned for invoice in paid_invoices(reader, payment)}
    for request in reader.tx.find(PaymentRequest, eq("customer_id", customer.id), order=[asc("created_at")]):
        yield from audited_request(
            request,
            parts_of_request(reader, request),
            requested_invoices(reader, request),
            [payment for payment in payments if payment.payment_request_id == request.id],
            reopened,
        )


def _refund_book(reader: Reader, customer: Customer, payments: Sequence[Payment]) -> RefundBook:
    of_customer = eq("customer_id", customer.id)
    of_payments = within("payment_id", [payment.id for payment in payments])
    attempts = reader.tx.find(RefundAttempt, of_payments, order=[asc("created_at"), asc("id")])
    asking = {
        payment.payable_id: CollectPayment(payable_type=payment.payable_type, payable_id=payment.payable_id)
        for payment in payments
        if payment.unanswered
    }
    refunding = {
        attempt.id: AskPaymentProvider(errand=ProviderErrand.REFUND, subject_id=attempt.id) for attempt in attempts
    }
    return RefundBook(
        payments=payments,
        attempts=attempts,
        notes={note.id: note for note in reader.tx.find(CreditNote, of_customer)} if attempts else {},
        closed={invoice.id for invoice in reader.tx.find(Invoice, of_customer, eq("status", InvoiceStatus.CLOSED))},
        awaited={id for id, task in ({**asking, **refunding}).items() if reader.tx.jobs.get(task.key) is not None},
    )
