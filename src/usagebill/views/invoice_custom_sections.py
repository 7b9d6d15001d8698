"""Invoice custom sections as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from usagebill.core.invoice_custom_sections import InvoiceCustomSection
from usagebill.queries.billing_entities import default_entity
from usagebill.queries.invoice_custom_sections import live_sections
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class CustomSectionView(TypedDict):
    svc_id: Id
    code: str
    name: str
    description: str | None
    details: str | None
    display_name: str | None
    applied_to_organization: bool
    organization_id: Id
    created_at: Instant


class AppliedSectionView(TypedDict):
    svc_id: Id
    created_at: Instant
    invoice_custom_section: CustomSectionView
    invoice_custom_section_id: Id


def section_view(reader: Reader, section: InvoiceCustomSection) -> CustomSectionView:
    """`applied_to_organization`: whether the default billing entity selects it."""
    entity = default_entity(reader)
    return {
        "svc_id": section.id,
        "code": section.code,
        "name": section.name,
        "description": section.description,
        "details": section.details,
        "display_name": section.display_name,
        "applied_to_organization": entity is not None and section.id in entity.invoice_custom_section_ids,
        "organization_id": section.organization_id,
        "created_at": instant_text(section.created_at),
    }


def sections_view(reader: Reader, ids: Iterable[str]) -> list[CustomSectionView]:
    """The live sections among `ids`, by name."""
    return [section_view(reader, section) for section in live_sections(reader, ids)]


def applied_sections_view(reader: Reader, ids: Iterable[str]) -> list[AppliedSectionView]:
    """The live sections among `ids`, as the records that select them show them."""
    return [
        {
            "svc_id": section["svc_id"],
            "created_at": section["created_at"],
            "invoice_custom_section": section,
            "invoice_custom_section_id": section["svc_id"],
        }
        for section in sections_view(reader, ids)
    ]
