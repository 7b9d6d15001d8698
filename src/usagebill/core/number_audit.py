"""The audit of numbers: an issued invoice's number names its position, and the last of a series has the last number."""

from __future__ import annotations

from collections.abc import Iterator

from usagebill.core.audit import Finding, Numbered
from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice


def audited_number(customer: Customer, invoice: Invoice) -> Iterator[Finding]:
    """The number names the invoice's position in one of its two series; a self-billed one has only the customer's."""
    of_customer, of_entity = invoice.sequential_id, invoice.entity_sequential_id
    endings = []
    if of_customer is not None:
        endings.append(f"-{customer.sequential_id:03d}-{of_customer:03d}")
    if of_entity is not None:
        endings.append(f"-{of_entity:03d}")
    is_missing = of_customer is None or (of_entity is None and not invoice.self_billed)
    if is_missing or not invoice.number.endswith(tuple(endings)):
        yield Finding(
            check="number",
            subject=f"invoice {invoice.number}",
            subject_id=invoice.id,
            detail="number",
            expected=" or ".join(f"…{ending}" for ending in endings) or "a position in its series",
            found=invoice.number,
        )


def audited_last_number(last: Numbered, given: int) -> Iterator[Finding]:
    """The last invoice of a series has the number that was assigned last."""
    if given != last.position:
        yield Finding(
            check="number_gap" if given > last.position else "number_repeated",
            subject=f"invoice {last.number}",
            subject_id=last.id,
            detail=f"last position in the series of {last.series}",
            expected=str(given),
            found=str(last.position),
        )
