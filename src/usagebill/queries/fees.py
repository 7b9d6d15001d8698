"""Fees by id, by invoice, and before another invoice."""

from __future__ import annotations

from usagebill.core.errors import NotFound
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.queries.billing_periods import BillingContext
from usagebill.queries.invoices import place_of
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, asc, eq


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


def fees_before(reader: Reader, context: BillingContext, *conditions: Condition) -> list[Fee]:
    """The subscription's fees that were made before the invoice of `context`.

    Those of an invoice that was made again after it count as those of the voided one: they were billed before.
    """
    fees = reader.tx.find(Fee, eq("subscription_id", context.subscription.id), *conditions)
    return [
        fee
        for fee in fees
        if fee.invoice_id != context.invoice.id
        and (context.follows(fee.created_at, fee.invoice_id) or _took_place(reader, context, fee))
    ]


def _took_place(reader: Reader, context: BillingContext, fee: Fee) -> bool:
    """Whether the fee is on a regenerated invoice whose place is before that of the invoice of `context`."""
    invoice = None if fee.original_fee_id is None or fee.invoice_id is None else reader.tx.get(Invoice, fee.invoice_id)
    return invoice is not None and context.follows(*place_of(reader, invoice))
