"""Exchange rates as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.exchange_rates import ExchangeRate
from usagebill.core.numbers import decimal_text
from usagebill.queries.billing_entities import find_entity
from usagebill.runtime.work import Reader
from usagebill.views.formats import Day, DecimalText, Id, Instant, instant_text


class ExchangeRateView(TypedDict):
    svc_id: Id
    billing_entity_code: str | None
    currency: str
    base_currency: str
    rate: DecimalText
    valid_from: Day
    created_at: Instant


def exchange_rate_view(reader: Reader, rate: ExchangeRate) -> ExchangeRateView:
    """The rate, with the code of its billing entity."""
    entity = find_entity(reader, rate.billing_entity_id)
    return {
        "svc_id": rate.id,
        "billing_entity_code": None if entity is None else entity.code,
        "currency": rate.currency,
        "base_currency": rate.base_currency,
        "rate": decimal_text(rate.rate),
        "valid_from": rate.valid_from.isoformat(),
        "created_at": instant_text(rate.created_at),
    }
