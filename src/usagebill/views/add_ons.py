"""Add-ons as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.add_ons import AddOn
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.views.taxes import TaxView, taxes_view


class AddOnView(TypedDict):
    svc_id: Id
    name: str
    invoice_display_name: str | None
    code: str
    amount_cents: int
    amount_currency: str
    description: str | None
    created_at: Instant
    taxes: list[TaxView]


def add_on_view(reader: Reader, add_on: AddOn) -> AddOnView:
    """The add-on with its taxes."""
    return {
        "svc_id": add_on.id,
        "name": add_on.name,
        "invoice_display_name": add_on.invoice_display_name,
        "code": add_on.code,
        "amount_cents": add_on.amount_cents,
        "amount_currency": add_on.amount_currency,
        "description": add_on.description,
        "created_at": instant_text(add_on.created_at),
        "taxes": taxes_view(reader, add_on.tax_ids),
    }
