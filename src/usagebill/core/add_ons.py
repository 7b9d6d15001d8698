"""Add-ons: named one-time prices, for one-off invoices and fixed charges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from usagebill.core.currencies import CURRENCIES
from usagebill.core.limits import ADD_ON_PRICE


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOn:
    """Something sold per unit: `amount_cents` is the price of one, before taxes."""

    id: str
    organization_id: str
    name: str
    code: str
    amount_cents: int
    amount_currency: str
    created_at: datetime
    updated_at: datetime
    invoice_display_name: str | None = None
    description: str | None = None
    tax_ids: tuple[str, ...] = ()
    deleted_at: datetime | None = None


def definition_errors(add_on: AddOn) -> dict[str, list[str]]:
    """Errors in the fields of an add-on, as field -> codes; empty if there are none."""
    errors: dict[str, list[str]] = {}
    if not add_on.name:
        errors["name"] = ["value_is_mandatory"]
    if not add_on.code:
        errors["code"] = ["value_is_mandatory"]
    if not ADD_ON_PRICE.holds(add_on.amount_cents):
        errors["amount_cents"] = ["value_is_out_of_range"]
    if add_on.amount_currency not in CURRENCIES:
        errors["amount_currency"] = ["value_is_invalid"]
    return errors
