"""Custom sections of invoices: texts copied onto an invoice when it is made."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.contracts import Contract, Parties
from usagebill.core.copies import replace
from usagebill.core.invoice_custom_sections import Selection, customer_section_ids, invoice_section_ids
from usagebill.core.invoices.records import AppliedCustomSection, Invoice
from usagebill.queries.invoice_custom_sections import live_sections
from usagebill.runtime.work import Reader


def with_sections(
    reader: Reader,
    invoice: Invoice,
    parties: Parties,
    contracts: Sequence[Contract],
    ids: Sequence[str] | None = None,
) -> Invoice:
    """The invoice with copies of the sections that its subscriptions, or else its customer, now select.

    `contracts` are those it bills; with `ids`, these sections are shown instead.
    """
    sections = live_sections(reader, _selected(parties, contracts) if ids is None else ids)
    return replace(
        invoice,
        applied_custom_sections=tuple(
            AppliedCustomSection(
                id=reader.new_id(),
                code=section.code,
                name=section.name,
                details=section.details,
                display_name=section.display_name,
                created_at=reader.now,
            )
            for section in sections
        ),
    )


def _selected(parties: Parties, contracts: Sequence[Contract]) -> tuple[str, ...]:
    subscriptions = [contract.subscription for contract in contracts]
    selections = [
        Selection(skip=subscription.skip_invoice_custom_sections, section_ids=subscription.invoice_custom_section_ids)
        for subscription in subscriptions
    ]
    return invoice_section_ids(selections, customer_section_ids(parties.customer, parties.issuer))
