"""Numbering: numbers are taken in the transaction that finalizes an invoice, so that none is lost or repeated."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.invoices.numbering import series_of, with_numbers
from usagebill.core.invoices.records import Invoice
from usagebill.runtime.work import Work


def numbered(work: Work, invoice: Invoice, customer: Customer, entity: BillingEntity) -> Invoice:
    """The invoice with the next number of its customer or of its billing entity."""
    series = series_of(invoice, customer, entity)
    month = work.now.astimezone(ZoneInfo(entity.timezone))
    numbers = [work.tx.next_number(name) for name in series]
    return with_numbers(invoice, numbers, customer=customer, entity=entity, month=month)
