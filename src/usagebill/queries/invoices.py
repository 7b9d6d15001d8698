"""Invoices by id, their billing periods and occasions."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.dates import Occasion
from usagebill.core.errors import NotFound
from usagebill.core.invoice_triggers import occasion_of_reasons
from usagebill.core.invoices.life_cycle import VISIBLE, InvoiceType
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.progressive_billing import Place
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq


def find_invoice(reader: Reader, invoice_id: str) -> Invoice | None:
    """The invoice with this id, whatever its status."""
    return reader.tx.get(Invoice, invoice_id)


def periods_of(reader: Reader, invoice: Invoice) -> list[BillingPeriod]:
    """The billing periods of the invoice, oldest first."""
    return reader.tx.find(BillingPeriod, eq("invoice_id", invoice.id), order=[asc("created_at")])


def place_of(reader: Reader, invoice: Invoice) -> Place:
    """The invoice's place in the order of creation; a regenerated one takes the place of the voided one."""
    while invoice.voided_invoice_id is not None:
        voided = reader.tx.get(Invoice, invoice.voided_invoice_id)
        if voided is None:
            break
        invoice = voided
    return invoice.created_at, invoice.id


def visible_invoice(reader: Reader, invoice_id: str) -> Invoice:
    """The invoice with this id. Raises `NotFound` if it is hidden from callers."""
    invoice = reader.tx.get(Invoice, invoice_id)
    if invoice is None or invoice.status not in VISIBLE:
        raise NotFound("invoice", invoice_id)
    return invoice


def occasion_of(reader: Reader, invoice: Invoice) -> Occasion:
    """The occasion of the invoice, which decides its dates."""
    if invoice.invoice_type != InvoiceType.SUBSCRIPTION:
        return Occasion.IMMEDIATE
    return occasion_among(invoice, reader.tx.find(BillingPeriod, eq("invoice_id", invoice.id)))


def occasion_among(invoice: Invoice, periods: Iterable[BillingPeriod]) -> Occasion:
    """The occasion of an invoice that bills these periods."""
    return occasion_of_reasons(invoice.invoice_type, {period.invoicing_reason for period in periods})
