"""Exchange rates of billing entities: the ledger converts by them what is in another currency."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

from usagebill.core import limits
from usagebill.core.days import local_date
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.exchange_rates import ExchangeRate, rate_errors
from usagebill.core.numbers import ZERO
from usagebill.operations.backlog import after_backlog, of_everyone
from usagebill.operations.billing_entities import get as entity_by_code
from usagebill.queries.billing_entities import default_entity
from usagebill.queries.filters import named_entities
from usagebill.queries.ledger import closed_until
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, desc, eq, within
from usagebill.storage.ports import Page


@Input
class ExchangeRateInput:
    currency: Maybe[str] = described("The currency that is converted.", example="GBP", required="always")
    rate: Maybe[Annotated[Decimal, limits.EXCHANGE_RATE]] = described(
        "What one unit of it is worth in the billing entity's default currency.", example="1.1712", required="always"
    )
    valid_from: Maybe[str] = described(
        "The first day of the rate; it holds until that of the next.", default="today", example="2024-03-01"
    )
    billing_entity_code: Maybe[str] = described("The billing entity whose books they are.", default="the default one")


@Input
class ExchangeRateFilters:
    currency: Maybe[str] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT


def list_all(reader: Reader, options: ExchangeRateFilters, paging: Paging) -> Page[ExchangeRate]:
    """Rates, the latest day first. Raises `NotFound` for an unknown billing entity."""
    conditions: list[Condition] = []
    if options.currency:
        conditions.append(eq("currency", options.currency))
    if options.billing_entity_code:
        conditions.append(within("billing_entity_id", named_entities(reader, [options.billing_entity_code])))
    return reader.page(ExchangeRate, *conditions, paging=paging, order=(desc("valid_from"),))


@after_backlog(of_everyone)
def create(work: Work, request: ExchangeRateInput) -> ExchangeRate:
    """Set the rate of a currency from a day on, instead of one that was set for the same day. Movements of the ledger
    that were posted before stay as they are.

    Raises `Invalid`, `NotFound` for an unknown billing entity, and `NotAllowed` for a rate of a closed month.
    """
    code = value_or(request.billing_entity_code, None)
    entity = default_entity(work) if code is None else entity_by_code(work, code)
    if entity is None:
        raise NotFound("billing_entity", "")
    currency, rate = value_or(request.currency, None) or "", value_or(request.rate, None)
    errors = rate_errors(currency, entity.default_currency, rate)
    if errors:
        raise Invalid(errors)
    text = value_or(request.valid_from, None)
    try:
        day = local_date(work.now, ZoneInfo(entity.timezone)) if text is None else date.fromisoformat(text)
    except ValueError as problem:
        raise Invalid(valid_from="invalid_date") from problem
    of_day = {"billing_entity_id": entity.id, "currency": currency, "base_currency": entity.default_currency}
    known = work.tx.first(ExchangeRate, *(eq(name, value) for name, value in of_day.items()), eq("valid_from", day))
    if known is not None:
        _check_open(work, known)
        changed = replace(known, rate=rate or ZERO, updated_at=work.now)
        work.tx.replace(changed)
        return changed
    made = ExchangeRate(
        id=work.new_id(),
        organization_id=work.organization.id,
        rate=rate or ZERO,
        valid_from=day,
        created_at=work.now,
        updated_at=work.now,
        **of_day,
    )
    work.tx.insert(made)
    return made


@after_backlog(of_everyone)
def delete(work: Work, exchange_rate_id: str) -> ExchangeRate:
    """Delete a rate: from its day on that of an earlier day holds again. Movements of the ledger that were posted
    before stay as they are.

    Raises `NotFound`, and `NotAllowed` for a rate of a closed month.
    """
    rate = work.tx.get(ExchangeRate, exchange_rate_id)
    if rate is None:
        raise NotFound("exchange_rate", exchange_rate_id)
    _check_open(work, rate)
    work.tx.delete(rate)
    return rate


def _check_open(reader: Reader, rate: ExchangeRate) -> None:
    closed = closed_until(reader)
    if closed is not None and rate.valid_from <= closed:
        raise NotAllowed("month_is_closed")
