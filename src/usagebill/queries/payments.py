"""Payments: what each was for."""

from __future__ import annotations

from usagebill.core.errors import NotFound
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payments import Payment
from usagebill.storage.conditions import asc, eq
from usagebill.work import Reader

__all__ = ["paid_invoices", "payment_of_receipt", "payments_of_invoice", "receipt_by_id"]


def paid_invoices(reader: Reader, payment: Payment) -> list[Invoice]:
    """The invoices that a payment is for."""
    invoice = reader.tx.get(Invoice, payment.invoice_id or "")
    if invoice is None:
        raise LookupError(f"payment {payment.id} has lost its invoice")
    return [invoice]


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
        raise NotFound("payment_receipt")
    return receipt


def payments_of_invoice(reader: Reader, invoice_id: str) -> list[Payment]:
    """Every payment that was, or is to be, for the invoice, oldest first."""
    return reader.tx.find(Payment, eq("invoice_id", invoice_id), order=[asc("created_at"), asc("id")])
