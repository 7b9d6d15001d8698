"""How taxes are shown."""

from __future__ import annotations

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.taxes import Tax
from usagebill.storage.conditions import asc, missing
from usagebill.views.formats import instant_text, rate_number
from usagebill.work import JsonObject, Work

__all__ = ["tax_view"]


def tax_view(work: Work, tax: Tax) -> JsonObject:
    """`applied_to_organization`: whether the default billing entity, the oldest active one, applies the tax."""
    entity = work.remember(
        "default billing entity",
        lambda: work.tx.first(BillingEntity, missing("archived_at"), order=[asc("created_at")]),
    )
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
