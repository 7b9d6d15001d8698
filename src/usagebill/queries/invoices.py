"""Invoices: by id, and what they bill."""

from __future__ import annotations

from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.storage.conditions import asc, eq
from usagebill.work import Reader

__all__ = ["find_invoice", "periods_of"]


def find_invoice(reader: Reader, invoice_id: str) -> Invoice | None:
    """The invoice with this id, whatever its status."""
    return reader.tx.get(Invoice, invoice_id)


def periods_of(reader: Reader, invoice: Invoice) -> list[BillingPeriod]:
    """What the invoice bills: its billing periods, the oldest first."""
    return reader.tx.find(BillingPeriod, eq("invoice_id", invoice.id), order=[asc("created_at")])
