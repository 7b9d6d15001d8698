"""Taxes: rates, which of them a fee is taxed with, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

__all__ = ["AppliedTax", "Tax"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tax:
    """`rate` is in percent: 20 means 20 %."""

    id: str
    organization_id: str
    name: str
    code: str
    rate: Decimal
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTax:
    """A tax as it was when it was applied. `base_amount_cents` is what it was applied to: the fees of an invoice
    (whole cents), the fee itself, or the items of a credit note."""

    id: str
    tax_id: str
    name: str
    code: str
    rate: Decimal
    description: str | None
    amount_cents: int
    amount_currency: str
    created_at: datetime
    base_amount_cents: int = 0
    precise_amount_cents: Decimal = Decimal(0)
