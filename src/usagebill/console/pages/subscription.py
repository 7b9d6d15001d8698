"""A subscription: its usage by day, and what it costs so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import Response

from usagebill.browser.charts import Bar, Mark, Share, bars, marked, shares
from usagebill.console.pages.customer import running_bills
from usagebill.console.pages.limits import standings
from usagebill.console.pages.page import Page
from usagebill.console.rendering import day, money, number
from usagebill.console.seat import Listed, Seat
from usagebill.console.visits import Visit
from usagebill.core.alerts import AlertType
from usagebill.core.errors import BillingError, NotFound
from usagebill.core.subscriptions import SubscriptionStatus

_DAYS = 30
_LATEST = 8
# The most groups of a charge that are drawn; what is beyond them is one row.
_MOST_GROUPS = 12
_ACTIVITIES = 20


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


@dataclass(frozen=True, slots=True)
class RunningCost:
    """What the running period costs up to each of its days, with the levels at which alerts are sent; `projected` is
    what it will come to at this pace, if that can be told, and `thresholds` are (level, share reached, in percent).
    """

    bars: Sequence[Bar]
    marks: Sequence[Mark]
    projected: str
    thresholds: Sequence[tuple[str, str]]


def _running_cost(
    seat: Seat, customer: Mapping[str, Any], id: str, usage: Mapping[str, Any], now: datetime
) -> RunningCost:
    currency, zone = usage["currency"], ZoneInfo(customer["applicable_timezone"])
    first, last = (
        min(datetime.fromisoformat(text), now).astimezone(zone).date()
        for text in (usage["from_datetime"], usage["to_datetime"])
    )
    rows: list[Any] = seat.ask(
        "analytics.usage", external_subscription_id=id, from_date=first.isoformat(), to_date=last.isoformat()
    )
    cents: dict[str, int] = defaultdict(int)
    for row in rows:
        cents[row["start_of_period_dt"]] += row["amount_cents"]
    days = [first + timedelta(days=place) for place in range((last - first).days + 1)]
    so_far = list(accumulate(cents[name.isoformat()] for name in days))
    drawn, marks = marked(
        ((day(name.isoformat()), cents, money(cents, currency)) for name, cents in zip(days, so_far, strict=True)),
        _levels(seat, id, currency),
    )
    return RunningCost(drawn, marks, _projected(seat, customer, id), _thresholds(seat, id, currency))


def _by_group(usage: Mapping[str, Any]) -> Sequence[tuple[str, Sequence[Share]]]:
    """By charge that has groups or filters: what each of them costs so far, the dearest first."""
    currency, charts = usage["currency"], []
    for charge in usage["charges_usage"]:
        lines = sorted(
            charge["grouped_usage"] or charge["filters"], key=lambda line: line["amount_cents"], reverse=True
        )
        if len(lines) < 2:
            continue
        rows = [(_group_name(line), line["amount_cents"], line["units"]) for line in lines[:_MOST_GROUPS]]
        if others := lines[_MOST_GROUPS:]:
            cents = sum(line["amount_cents"] for line in others)
            units = sum((Decimal(line["units"]) for line in others), Decimal())
            rows.append((f"{number(len(others))} others", cents, units))
        name = charge["charge"]["invoice_display_name"] or charge["billable_metric"]["name"]
        drawn = shares((label, cents, (number(units), money(cents, currency))) for label, cents, units in rows)
        charts.append((name, drawn))
    return charts


def _group_name(line: Mapping[str, Any]) -> str:
    if "grouped_by" in line:
        return ", ".join(f"{key}: {value or 'none'}" for key, value in line["grouped_by"].items())
    values = "; ".join(f"{key}: {', '.join(accepted)}" for key, accepted in (line["values"] or {}).items())
    return line["invoice_display_name"] or values or "Everything else"


def _levels(seat: Seat, id: str, currency: str) -> Sequence[tuple[Decimal, str]]:
    """The amounts at which alerts on this subscription's running usage are sent."""
    if not seat.may("alerts.list"):
        return ()
    return [
        (
            Decimal(threshold["value"]),
            f"{alert['name'] or alert['code']}: {money(int(Decimal(threshold['value'])), currency)}",
        )
        for alert in seat.listed("alerts.list", id).items
        if alert["alert_type"] == AlertType.CURRENT_USAGE_AMOUNT
        for threshold in alert["thresholds"]
        if not threshold["recurring"]
    ]


def _projected(seat: Seat, customer: Mapping[str, Any], id: str) -> str:
    try:
        usage = seat.ask("usage.projected", customer["external_id"], external_subscription_id=id)
    except BillingError:
        # Not every charge can be projected.
        return ""
    return money(usage["projected_amount_cents"], usage["currency"])


def _thresholds(seat: Seat, id: str, currency: str) -> Sequence[tuple[str, str]]:
    usage = seat.ask("subscriptions.lifetime_usage", id)
    return [
        (money(threshold["amount_cents"], currency), number(Decimal(threshold["completion_ratio"]) * 100))
        for threshold in usage.get("usage_thresholds") or ()
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
    bills = list(running_bills(seat, customer, Listed([subscription], 1, 1, 1, True)))
    cost = None
    if bills and bills[0]["usage"] is not None and seat.may("analytics.usage"):
        cost = _running_cost(seat, customer, id, bills[0]["usage"], visit.billing.clock.now())
    holds = seat.listed("holds.list", external_subscription_id=id, per_page=_LATEST) if seat.may("holds.list") else None
    return visit.page(
        "subscription.html",
        subscription=subscription,
        customer=customer,
        bills=bills,
        cost=cost,
        groups=_by_group(bills[0]["usage"]) if bills and bills[0]["usage"] is not None else (),
        usage=usage,
        limits=standings(seat, subscription) if subscription["status"] == SubscriptionStatus.ACTIVE else (),
        holds=holds if holds is not None and holds.total else None,
        problem=problem,
        events=seat.listed("events.list", external_subscription_id=id, per_page=_LATEST)
        if seat.may("events.list")
        else None,
        activities=seat.listed("activity_logs.list", external_subscription_id=id, per_page=_ACTIVITIES)
        if seat.may("activity_logs.list")
        else None,
    )


PAGES = (Page("/subscriptions/{key:path}", _shown),)
