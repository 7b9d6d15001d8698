"""Payments, their invoices and their receipts."""

from __future__ import annotations

from usagebill.core.errors import NotFound
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import RequestedInvoice
from usagebill.core.payments import GIVEN_BACK, SURPLUS_BACK, Payment, RefundAttempt, TakenBack
from usagebill.core.provider_requests import OUTCOME_UNKNOWN
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.queries.payment_requests import request_of, requested_invoices, requests_of_invoice
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import any_of, asc, eq, missing, ne, within

# Refunds that were made, are being made, or may have been made.
MAYBE_REFUNDED = any_of(ne("refund_status", PaymentStatus.FAILED), eq("error_code", OUTCOME_UNKNOWN))


def paid_invoices(reader: Reader, payment: Payment) -> list[Invoice]:
    """The invoices that a payment pays: its own, or those of its payment request."""
    if payment.payment_request_id is not None:
        return requested_invoices(reader, request_of(reader, payment.payment_request_id))
    invoice = reader.tx.get(Invoice, payment.invoice_id or "")
    if invoice is None:
        raise LookupError(f"payment {payment.id} has lost its invoice")
    return [invoice]


def paid_cents(reader: Reader, invoice_id: str) -> int:
    """Cents paid of an invoice, by its own payments and by those of payment requests with it, less what of them was
    given back without a credit note.
    """
    succeeded = eq("payment_status", ChargeStatus.SUCCEEDED)
    alone = reader.tx.total(Payment, "amount_cents", eq("invoice_id", invoice_id), succeeded)
    requested = reader.tx.total(RequestedInvoice, "paid_cents", eq("invoice_id", invoice_id))
    return alone + requested - given_back_cents(reader, invoice_id, PaymentStatus.SUCCEEDED)


def given_back_cents(reader: Reader, invoice_id: str, status: PaymentStatus) -> int:
    """Cents paid for an invoice that go back without a credit note, by refunds with this status."""
    without_note = eq("invoice_id", invoice_id), missing("credit_note_id")
    return reader.tx.total(RefundAttempt, "amount_cents", *without_note, eq("refund_status", status))


def left_cents(reader: Reader, payment: Payment, invoice_id: str) -> int:
    """Cents that a payment brought for an invoice and that are not refunded, nor being refunded, as far as is known."""
    of_payment = eq("payment_id", payment.id), MAYBE_REFUNDED
    left = payment.amount_cents - reader.tx.total(RefundAttempt, "amount_cents", *of_payment)
    if payment.payment_request_id is None:
        return left
    of_invoice = eq("invoice_id", invoice_id)
    asked = eq("payment_request_id", payment.payment_request_id)
    brought = reader.tx.total(RequestedInvoice, "paid_cents", asked, of_invoice)
    return min(left, brought - reader.tx.total(RefundAttempt, "amount_cents", *of_payment, of_invoice))


def paid_and_kept_cents(reader: Reader, invoice_id: str) -> int:
    """Cents paid of an invoice, without payments that came after it was voided and so are given back as such."""
    succeeded = eq("payment_status", ChargeStatus.SUCCEEDED)
    own = reader.tx.find(Payment, eq("invoice_id", invoice_id), succeeded)
    kept = 0
    for payment in own:
        if payment.status not in (*GIVEN_BACK, TakenBack.DISPUTED):
            surplus = (
                eq("payment_id", payment.id),
                missing("credit_note_id"),
                eq("refund_status", PaymentStatus.SUCCEEDED),
            )
            kept += payment.amount_cents - reader.tx.total(RefundAttempt, "amount_cents", *surplus)
    for part in reader.tx.find(RequestedInvoice, eq("invoice_id", invoice_id)):
        payments = reader.tx.find(Payment, eq("payment_request_id", part.payment_request_id), succeeded)
        if not any(payment.status in (*GIVEN_BACK, *SURPLUS_BACK) for payment in payments):
            kept += part.paid_cents
    return kept


def payment_of_receipt(reader: Reader, receipt: PaymentReceipt) -> Payment:
    """The payment that a receipt acknowledges."""
    payment = reader.tx.get(Payment, receipt.payment_id)
    if payment is None:
        raise LookupError(f"receipt {receipt.number} has lost its payment")
    return payment


def receipt_by_id(reader: Reader, payment_receipt_id: str) -> PaymentReceipt:
    """The payment receipt with this id. Raises `NotFound`."""
    receipt = reader.tx.get(PaymentReceipt, payment_receipt_id)
    if receipt is None:
        raise NotFound("payment_receipt", payment_receipt_id)
    return receipt


def payments_of_invoice(reader: Reader, invoice_id: str) -> list[Payment]:
    """All payments, of any status, for the invoice or for a payment request with it, oldest first."""
    requests = [request.id for request in requests_of_invoice(reader, invoice_id)]
    of_either = any_of(eq("invoice_id", invoice_id), within("payment_request_id", requests))
    return reader.tx.find(Payment, of_either, order=[asc("created_at"), asc("id")])
