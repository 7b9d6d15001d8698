"""Taxes as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TypedDict

from usagebill.core.taxes import Tax
from usagebill.queries.billing_entities import default_entity, entities_with_tax
from usagebill.queries.taxes import live_taxes
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text, rate_number


class TaxView(TypedDict):
    svc_id: Id
    name: str
    code: str
    rate: Decimal
    description: str | None
    applied_to_organization: bool
    add_ons_count: int
    charges_count: int
    commitments_count: int
    customers_count: int
    plans_count: int
    created_at: Instant


class TaxDetails(TaxView):
    applied_to_billing_entities_codes: list[str]


def tax_view(reader: Reader, tax: Tax) -> TaxView:
    """The tax within other objects. `applied_to_organization`: whether the default billing entity applies it."""
    entity = default_entity(reader)
    return {
        "svc_id": tax.id,
        "name": tax.name,
        "code": tax.code,
        "rate": rate_number(tax.rate),
        "description": tax.description,
        "applied_to_organization": entity is not None and tax.id in entity.tax_ids,
        "add_ons_count": 0,
        "charges_count": 0,
        "commitments_count": 0,
        "customers_count": 0,
        "plans_count": 0,
        "created_at": instant_text(tax.created_at),
    }


def tax_details(reader: Reader, tax: Tax) -> TaxDetails:
    """The tax as a single-record response shows it, with the billing entities that apply it."""
    codes = sorted(entity.code for entity in entities_with_tax(reader, tax))
    return {**tax_view(reader, tax), "applied_to_billing_entities_codes": codes}


def taxes_view(reader: Reader, ids: Iterable[str]) -> list[TaxView]:
    """The live taxes among `ids`, in that order."""
    return [tax_view(reader, tax) for tax in live_taxes(reader, ids)]
