"""How add-ons are shown."""

from __future__ import annotations

from usagebill.core.add_ons import AddOn
from usagebill.views.formats import instant_text
from usagebill.views.taxes import taxes_view
from usagebill.work import JsonObject, Work

__all__ = ["add_on_view"]


def add_on_view(work: Work, add_on: AddOn) -> JsonObject:
    return {
        "svc_id": add_on.id,
        "name": add_on.name,
        "invoice_display_name": add_on.invoice_display_name,
        "code": add_on.code,
        "amount_cents": add_on.amount_cents,
        "amount_currency": add_on.amount_currency,
        "description": add_on.description,
        "created_at": instant_text(add_on.created_at),
        "taxes": taxes_view(work, add_on.tax_ids),
    }
