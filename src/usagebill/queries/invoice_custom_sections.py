"""Live invoice custom sections by id."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.invoice_custom_sections import InvoiceCustomSection
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import within


def live_sections(reader: Reader, section_ids: Iterable[str]) -> list[InvoiceCustomSection]:
    """The sections with these ids that are not deleted, by name."""
    ids = tuple(section_ids)
    sections = reader.tx.find(InvoiceCustomSection, within("id", ids)) if ids else []
    return sorted(sections, key=lambda section: (section.name, section.id))
