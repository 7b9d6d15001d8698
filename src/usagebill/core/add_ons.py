"""Add-ons: named one-time prices, for one-off invoices and fixed charges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["AddOn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOn:
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
