"""Fees by id and by invoice."""

from __future__ import annotations

from usagebill.core.errors import NotFound
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq


def find_fee(reader: Reader, fee_id: str) -> Fee | None:
    """The fee with this id, deleted or not."""
    return reader.tx.get(Fee, fee_id, deleted=True)


def fees_of_invoice(reader: Reader, invoice: Invoice) -> list[Fee]:
    """The fees of the invoice, oldest first."""
    return reader.tx.find(Fee, eq("invoice_id", invoice.id), order=[asc("created_at")])


def fee_by_id(reader: Reader, fee_id: str) -> Fee:
    """The fee with this id, on an invoice or on none. Raises `NotFound`."""
    fee = reader.tx.get(Fee, fee_id)
    if fee is None:
        raise NotFound("fee", fee_id)
    return fee
