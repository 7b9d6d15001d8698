"""Invoices: by id, and what they bill."""

from __future__ import annotations

from usagebill.core.dates import Occasion
from usagebill.core.errors import NotFound
from usagebill.core.invoices.records import VISIBLE_STATUSES, BillingPeriod, Invoice
from usagebill.storage.conditions import asc, eq
from usagebill.work import Reader

__all__ = ["find_invoice", "occasion_of", "periods_of", "visible_invoice"]


def find_invoice(reader: Reader, invoice_id: str) -> Invoice | None:
    """The invoice with this id, whatever its status."""
    return reader.tx.get(Invoice, invoice_id)


def periods_of(reader: Reader, invoice: Invoice) -> list[BillingPeriod]:
    """What the invoice bills: its billing periods, the oldest first."""
    return reader.tx.find(BillingPeriod, eq("invoice_id", invoice.id), order=[asc("created_at")])


def occasion_of(reader: Reader, invoice: Invoice) -> Occasion:
    """What the invoice was made for, as far as its dates go."""
    if invoice.invoice_type != "subscription":
        return Occasion.IMMEDIATE
    reasons = {period.invoicing_reason for period in reader.tx.find(BillingPeriod, eq("invoice_id", invoice.id))}
    if "in_advance_charge" in reasons:
        return Occasion.IMMEDIATE
    return Occasion.PERIODIC if "subscription_periodic" in reasons else Occasion.SUBSCRIPTION


def visible_invoice(reader: Reader, invoice_id: str) -> Invoice:
    """The invoice with this id. Raises `NotFound` for one that no caller may see."""
    found = reader.tx.get(Invoice, invoice_id)
    if found is None or found.status not in VISIBLE_STATUSES:
        raise NotFound("invoice")
    return found
