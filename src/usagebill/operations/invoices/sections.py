"""Custom sections of invoices: the texts that an invoice gets a copy of when it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from usagebill.core.invoice_custom_sections import (
    InvoiceCustomSection,
    Selection,
    customer_section_ids,
    invoice_section_ids,
)
from usagebill.core.invoices.records import AppliedCustomSection, BillingPeriod, Invoice
from usagebill.core.subscriptions import Subscription
from usagebill.operations.invoices.issue import customer_and_entity
from usagebill.storage.conditions import asc, eq, within
from usagebill.work import Work

__all__ = ["with_sections"]


def with_sections(work: Work, invoice: Invoice, ids: Sequence[str] | None = None) -> Invoice:
    """The invoice with copies of the sections that its subscriptions select, or its customer, as they are now.

    `ids` are those of the sections to show instead.
    """
    ids = _selected(work, invoice) if ids is None else ids
    if not ids:
        return replace(invoice, applied_custom_sections=())
    sections = work.tx.find(InvoiceCustomSection, within("id", ids))
    return replace(
        invoice,
        applied_custom_sections=tuple(
            AppliedCustomSection(
                id=work.new_id(),
                code=section.code,
                name=section.name,
                details=section.details,
                display_name=section.display_name,
                created_at=work.now,
            )
            for section in sorted(sections, key=lambda one: (one.name, one.id))
        ),
    )


def _selected(work: Work, invoice: Invoice) -> tuple[str, ...]:
    customer, entity = customer_and_entity(work, invoice)
    periods = work.tx.find(BillingPeriod, eq("invoice_id", invoice.id), order=[asc("id")])
    found = (work.tx.get(Subscription, period.subscription_id) for period in periods)
    selections = [
        Selection(skip=one.skip_invoice_custom_sections, section_ids=one.invoice_custom_section_ids)
        for one in found
        if one is not None
    ]
    return invoice_section_ids(selections, customer_section_ids(customer, entity))
