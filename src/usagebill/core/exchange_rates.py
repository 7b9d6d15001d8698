"""Exchange rates: what one unit of a currency is worth in that of a billing entity's books, from a day on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from usagebill.core.currencies import CURRENCIES, cents_from_major, major_from_cents
from usagebill.core.limits import EXCHANGE_RATE
from usagebill.core.numbers import multiply, round_cents, total
from usagebill.core.taxes import lines_in_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRate:
    """One unit of `currency` is `rate` units of `base_currency`, the billing entity's, on `valid_from` and after it,
    until the next rate.
    """

    id: str
    organization_id: str
    billing_entity_id: str
    currency: str
    base_currency: str
    rate: Decimal
    valid_from: date
    created_at: datetime
    updated_at: datetime


def rate_errors(currency: str | None, base_currency: str, rate: Decimal | None) -> dict[str, list[str]]:
    """Errors in the fields of a rate, as field -> codes; empty if there are none."""
    errors: dict[str, list[str]] = {}
    if not currency:
        errors["currency"] = ["value_is_mandatory"]
    elif currency not in CURRENCIES or currency == base_currency:
        errors["currency"] = ["value_is_invalid"]
    if rate is None:
        errors["rate"] = ["value_is_mandatory"]
    elif not EXCHANGE_RATE.holds(rate):
        errors["rate"] = ["value_is_out_of_range"]
    return errors


def converted(cents: Sequence[int], rate: ExchangeRate) -> list[int]:
    """Cents of the rate's currency as cents of its base currency, each rounded so that their sum is right too: to
    a cent, and to zero if they sum to zero.
    """
    exact = [
        cents_from_major(multiply(major_from_cents(part, rate.currency), rate.rate), rate.base_currency)
        for part in cents
    ]
    return lines_in_cents(exact, round_cents(total(exact)))
