"""Pricing units as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.pricing_units import PricingUnit
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class PricingUnitView(TypedDict):
    svc_id: Id
    name: str
    code: str
    short_name: str
    description: str | None
    created_at: Instant


def pricing_unit_view(_: Reader, unit: PricingUnit) -> PricingUnitView:
    """A pricing unit: a currency of the seller's own."""
    return {
        "svc_id": unit.id,
        "name": unit.name,
        "code": unit.code,
        "short_name": unit.short_name,
        "description": unit.description,
        "created_at": instant_text(unit.created_at),
    }
