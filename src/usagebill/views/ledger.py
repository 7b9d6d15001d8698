"""Movements of the ledger, and closed months, as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.ledger import ClosedMonth, Movement
from usagebill.core.numbers import decimal_text
from usagebill.queries.billing_entities import find_entity
from usagebill.queries.customers import find_customer
from usagebill.runtime.work import Reader
from usagebill.views.formats import Day, DecimalText, Id, Instant, instant_text


class MovementView(TypedDict):
    """A debit if `amount_cents` is positive, a credit if negative; those of a `group_id` sum to zero, in both
    currencies.
    """

    svc_id: Id
    group_id: Id
    posting_date: Day
    document_date: Day
    billing_entity_code: str | None
    svc_customer_id: Id
    external_customer_id: str | None
    document_type: str
    document_id: Id
    document_number: str | None
    svc_invoice_id: Id | None
    account: str
    tax_code: str | None
    tax_rate: DecimalText | None
    tax_country: str | None
    payment_provider_code: str | None
    amount_cents: int
    amount_currency: str
    base_amount_cents: int | None
    base_currency: str | None
    exchange_rate: DecimalText | None
    created_at: Instant


class ClosedMonthView(TypedDict):
    month: str
    last_day: Day
    created_at: Instant


def movement_view(reader: Reader, movement: Movement) -> MovementView:
    """The movement, with the codes of its billing entity and customer."""
    entity = find_entity(reader, movement.billing_entity_id)
    customer = find_customer(reader, movement.customer_id)
    return {
        "svc_id": movement.id,
        "group_id": movement.group_id,
        "posting_date": movement.posting_date.isoformat(),
        "document_date": movement.document_date.isoformat(),
        "billing_entity_code": None if entity is None else entity.code,
        "svc_customer_id": movement.customer_id,
        "external_customer_id": None if customer is None else customer.external_id,
        "document_type": movement.document_type,
        "document_id": movement.document_id,
        "document_number": movement.number,
        "svc_invoice_id": movement.invoice_id,
        "account": movement.account,
        "tax_code": movement.tax_code,
        "tax_rate": None if movement.tax_rate is None else decimal_text(movement.tax_rate),
        "tax_country": movement.country,
        "payment_provider_code": movement.provider,
        "amount_cents": movement.amount_cents,
        "amount_currency": movement.currency,
        "base_amount_cents": movement.base_amount_cents,
        "base_currency": movement.base_currency,
        "exchange_rate": None if movement.exchange_rate is None else decimal_text(movement.exchange_rate),
        "created_at": instant_text(movement.created_at),
    }


def closed_month_view(_: Reader, closed: ClosedMonth) -> ClosedMonthView:
    """The last closed month."""
    return {
        "month": f"{closed.last_day:%Y-%m}",
        "last_day": closed.last_day.isoformat(),
        "created_at": instant_text(closed.created_at),
    }
