"""Holds as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.holds import Hold
from usagebill.core.numbers import decimal_text, round_cents
from usagebill.queries.customers import customer_of
from usagebill.queries.holds import metric_of_hold
from usagebill.runtime.work import Reader
from usagebill.views.formats import DecimalText, Id, Instant, millisecond_text


class HoldView(TypedDict):
    svc_id: Id
    status: str
    external_customer_id: str
    external_subscription_id: str
    billable_metric_code: str | None
    properties: Mapping[str, object]
    amount_cents: int
    precise_amount_cents: DecimalText
    currency: str
    units: DecimalText
    expires_at: Instant
    created_at: Instant
    ended_at: Instant | None
    transaction_id: str | None
    captured_amount_cents: int | None
    exceeds_hold: bool


def hold_view(reader: Reader, hold: Hold) -> HoldView:
    """The hold as of now."""
    metric = metric_of_hold(reader, hold)
    return {
        "svc_id": hold.id,
        "status": hold.status_at(reader.now),
        "external_customer_id": customer_of(reader, hold).external_id,
        "external_subscription_id": hold.external_subscription_id,
        "billable_metric_code": None if metric is None else metric.code,
        "properties": hold.properties,
        "amount_cents": round_cents(hold.amount_cents),
        "precise_amount_cents": decimal_text(hold.amount_cents),
        "currency": hold.currency,
        "units": decimal_text(hold.units),
        "expires_at": millisecond_text(hold.expires_at),
        "created_at": millisecond_text(hold.created_at),
        "ended_at": millisecond_text(hold.ended_at),
        "transaction_id": hold.transaction_id,
        "captured_amount_cents": None
        if hold.captured_amount_cents is None
        else round_cents(hold.captured_amount_cents),
        "exceeds_hold": hold.exceeds,
    }
