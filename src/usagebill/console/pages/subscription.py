"""A subscription: its usage by day, and what it costs so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from starlette.responses import Response

from usagebill.browser.charts import Bar, bars
from usagebill.console.pages.customer import running_bills
from usagebill.console.pages.page import Page
from usagebill.console.rendering import day, money, number
from usagebill.console.seat import Listed, Seat
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, NotFound
from usagebill.core.subscriptions import SubscriptionStatus

_DAYS = 30
_LATEST = 8


def _found(seat: Seat, id: str) -> Any:
    """The subscription with this id: the active one, or else the latest. Raises `NotFound`."""
    every = [status.value for status in SubscriptionStatus]
    found = seat.listed("subscriptions.list", external_id=id, status=every, per_page=20).items
    active = [item for item in found if item["status"] == SubscriptionStatus.ACTIVE]
    if not found:
        raise NotFound("subscription", id)
    chosen = (active or found)[0]
    return seat.ask("subscriptions.get", id, status=chosen["status"])


def _by_day(seat: Seat, id: str, today: date) -> Sequence[tuple[str, str, str, Sequence[Bar]]]:
    """By metric: its units and what they cost, and a bar for each of the last thirty days."""
    first = today - timedelta(days=_DAYS - 1)
    rows: list[Any] = seat.ask(
        "analytics.usage", external_subscription_id=id, from_date=first.isoformat(), to_date=today.isoformat()
    )
    units: dict[tuple[str, str], dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    cents: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        of = row["billable_metric_code"], row["amount_currency"]
        units[of][row["start_of_period_dt"]] += Decimal(str(row["units"]))
        cents[of] += row["amount_cents"]
    days = [(first + timedelta(days=place)).isoformat() for place in range(_DAYS)]
    return [
        (
            code,
            number(sum(by_day.values())),
            money(cents[code, currency], currency),
            bars((day(name), by_day[name], number(by_day[name])) for name in days),
        )
        for (code, currency), by_day in sorted(units.items())
    ]


def _shown(visit: Visit) -> Response:
    seat, id = visit.seat, visit.named("key")
    subscription = _found(seat, id)
    problem = ""
    customer = seat.ask("customers.get", subscription["external_customer_id"])
    usage: Sequence[tuple[str, str, str, Sequence[Bar]]] = ()
    today = datetime.date(visit.billing.clock.now())
    if seat.may("analytics.usage"):
        try:
            usage = _by_day(seat, id, today)
        except BillingError as refusal:
            problem = refusal.message or refusal.code
    one = Listed([subscription], 1, 1, 1, True)
    return visit.page(
        "subscription.html",
        subscription=subscription,
        customer=customer,
        bills=list(running_bills(seat, customer, one)),
        usage=usage,
        problem=problem,
        events=seat.listed("events.list", external_subscription_id=id, per_page=_LATEST)
        if seat.may("events.list")
        else None,
        activities=seat.listed("activity_logs.list", external_subscription_id=id, per_page=_LATEST)
        if seat.may("activity_logs.list")
        else None,
    )


PAGES = (Page("/subscriptions/{key:path}", _shown),)
