"""Numbers of invoices: taken when an invoice is finalized, in the same transaction, so that none is lost or repeated.

Two sequences are counted for every invoice, whichever of them its number shows: one for each customer and billing
entity, one for each billing entity (which leaves out self-billed invoices). Switching the numbering therefore never
loses count.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.copies import replace
from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice
from usagebill.work import Work

__all__ = ["customer_series", "entity_series", "numbered"]


def customer_series(entity_id: str, customer_id: str) -> str:
    """The name of the sequence that counts a billing entity's invoices for one customer."""
    return f"invoices of {entity_id} for {customer_id}"


def entity_series(entity_id: str) -> str:
    """The name of the sequence that counts a billing entity's invoices, self-billed ones left out."""
    return f"invoices of {entity_id}"


def numbered(work: Work, invoice: Invoice, customer: Customer, entity: BillingEntity) -> Invoice:
    """The invoice with the next number of its customer or of its billing entity."""
    of_customer = work.tx.next_number(customer_series(entity.id, customer.id))
    of_entity = None if invoice.self_billed else work.tx.next_number(entity_series(entity.id))
    prefix = entity.document_number_prefix
    if of_entity is None or entity.document_numbering == "per_customer":
        number = f"{prefix}-{customer.sequential_id:03d}-{of_customer:03d}"
        return replace(invoice, sequential_id=of_customer, entity_sequential_id=of_entity, number=number)
    month = work.now.astimezone(ZoneInfo(entity.timezone))
    number = f"{prefix}-{month:%Y%m}-{of_entity:03d}"
    return replace(invoice, sequential_id=of_customer, entity_sequential_id=of_entity, number=number)
