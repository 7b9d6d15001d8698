"""The exchange rate of a day."""

from __future__ import annotations

from datetime import date

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.exchange_rates import ExchangeRate
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import at_most, desc, eq


def rate_on(reader: Reader, entity: BillingEntity, currency: str, day: date) -> ExchangeRate | None:
    """The rate from a currency to the entity's on a day: the latest that was valid by then. None if none was given."""
    between = eq("currency", currency), eq("base_currency", entity.default_currency)
    return reader.tx.first(
        ExchangeRate,
        eq("billing_entity_id", entity.id),
        *between,
        at_most("valid_from", day),
        order=[desc("valid_from")],
    )
