"""Pricing units: the seller's own currencies, such as credits, in which charges may be priced.

A unit always has a hundred subunits; each charge sets its rate in the plan's currency.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

_LONGEST_SHORT_NAME = 3
_LONGEST_DESCRIPTION = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class PricingUnit:
    """A currency of the seller's own with a hundred subunits; each charge has its own conversion rate."""

    id: str
    organization_id: str
    name: str
    code: str
    short_name: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None


def pricing_unit_definition_errors(unit: PricingUnit) -> dict[str, list[str]]:
    """Errors in the fields of a unit, as field -> codes. Whether its code is taken is checked by the operation."""
    errors: dict[str, list[str]] = {}
    for name in ("name", "code", "short_name"):
        if not str(getattr(unit, name)).strip():
            errors[name] = ["value_is_mandatory"]
    if len(unit.short_name) > _LONGEST_SHORT_NAME:
        errors["short_name"] = ["value_is_too_long"]
    if unit.description is not None and len(unit.description) > _LONGEST_DESCRIPTION:
        errors["description"] = ["value_is_too_long"]
    return errors
