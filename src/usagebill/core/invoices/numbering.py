"""Numbers of invoices: the sequences that count an invoice, and the format of its number.

Every invoice is counted in two sequences, whichever its number shows: one per customer and billing entity, one per
billing entity (without self-billed invoices). So switching the numbering never loses count.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.copies import replace
from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice


def customer_series(entity_id: str, customer_id: str) -> str:
    """The name of the sequence that counts a billing entity's invoices for one customer."""
    return f"invoices of {entity_id} for {customer_id}"


def entity_series(entity_id: str) -> str:
    """The name of the sequence that counts a billing entity's invoices, except self-billed ones."""
    return f"invoices of {entity_id}"


def series_of(invoice: Invoice, customer: Customer, entity: BillingEntity) -> tuple[str, ...]:
    """The names of the sequences that count the invoice, its customer's first."""
    of_customer = customer_series(entity.id, customer.id)
    return (of_customer,) if invoice.self_billed else (of_customer, entity_series(entity.id))


def with_numbers(
    invoice: Invoice, numbers: Sequence[int], *, customer: Customer, entity: BillingEntity, month: datetime
) -> Invoice:
    """The invoice with its positions in its sequences. `month` is the instant of issue in the entity's zone."""
    of_customer, of_entity = numbers[0], numbers[1] if len(numbers) > 1 else None
    if of_entity is None or entity.document_numbering == "per_customer":
        number = f"{entity.document_number_prefix}-{customer.sequential_id:03d}-{of_customer:03d}"
    else:
        number = f"{entity.document_number_prefix}-{month:%Y%m}-{of_entity:03d}"
    return replace(invoice, sequential_id=of_customer, entity_sequential_id=of_entity, number=number)
