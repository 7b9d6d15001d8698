"""Limits of a subscription: what bounds its usage, what is held, and the limits that the customer sets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from urllib.parse import quote

from starlette.responses import Response

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.currencies import exponent, major_from_cents
from usagebill.core.documents.locales import date_text, money_text, units_text
from usagebill.core.documents.words.portal import PortalWords, portal_words_of
from usagebill.core.errors import Invalid
from usagebill.core.holds import Hold
from usagebill.core.numbers import round_cents
from usagebill.core.spend_limits import LimitInterval, Measure, OnReached, SetBy, SpendLimit, Standing
from usagebill.operations.own_limits import limited, remove_limit, set_limit
from usagebill.operations.portal import Place
from usagebill.portal.pages.page import Page
from usagebill.portal.visit import Visit


def _shown(visit: Visit, *, problem: bool = False) -> Response:
    external_id = visit.named("external_id")
    place, _ = visit.reading(lambda reader, place: None)
    found = visit.writing(lambda work: limited(work, place, external_id))
    words = portal_words_of(place.locale)
    intervals = _intervals(words)
    return visit.page(
        "limits.html",
        place,
        422 if problem else 200,
        problem=problem,
        address=f"/limits/{quote(external_id, safe='')}",
        usage=f"/usage/{quote(external_id, safe='')}",
        name=found.subscription.name or external_id,
        currency=found.currency,
        standings=[
            _standing(standing, standing.limit, metric, place, found.currency)
            for standing, metric in found.standings
            if standing.limit is not None
        ],
        holds=[_hold(hold, metric, place) for hold, metric in found.holds],
        own=[
            (interval, intervals[interval], _typed(limit, found.currency))
            for interval, limit in sorted(found.own.items(), key=lambda one: list(LimitInterval).index(one[0]))
        ],
        others=[(interval, text) for interval, text in intervals.items() if interval not in found.own],
        may_set=found.may_set,
    )


def _intervals(words: PortalWords) -> Mapping[LimitInterval, str]:
    return {
        LimitInterval.BILLING_PERIOD: words.of_period,
        LimitInterval.DAY: words.of_day,
        LimitInterval.MONTH: words.of_month,
        LimitInterval.LIFETIME: words.of_lifetime,
    }


def _standing(
    standing: Standing, limit: SpendLimit, metric: BillableMetric | None, place: Place, currency: str
) -> Mapping[str, object]:
    words = portal_words_of(place.locale)

    def text(amount: Decimal) -> str:
        if standing.measure is Measure.UNITS:
            return units_text(amount, place.locale)
        return money_text(round_cents(amount), currency, place.locale)

    notes = [_intervals(words)[limit.interval]]
    if limit.group:
        notes.append(", ".join(f"{name}: {', '.join(values)}" for name, values in limit.group.items()))
    if limit.is_customers:
        notes.append(words.all_subscriptions)
    if standing.on_reached is OnReached.ALERT:
        notes.append(words.only_told)
    if limit.set_by is SetBy.CUSTOMER:
        notes.append(words.own_limit)
    return {
        "name": words.all_usage if metric is None else metric.name,
        "notes": notes,
        "most": text(standing.most),
        "used": text(standing.used),
        "held": text(standing.held),
        "left": text(standing.remaining),
        "resets": words.never if standing.resets_at is None else _instant(standing.resets_at, place),
    }


def _hold(hold: Hold, metric: BillableMetric | None, place: Place) -> Mapping[str, str]:
    words = portal_words_of(place.locale)
    return {
        "name": words.all_usage if metric is None else metric.name,
        "units": "" if hold.is_amount else units_text(hold.units, place.locale),
        "amount": money_text(round_cents(hold.amount_cents), hold.currency, place.locale),
        "until": _instant(hold.expires_at, place),
    }


def _instant(at: datetime, place: Place) -> str:
    local = at.astimezone(place.zone)
    return f"{date_text(local.date(), place.locale)}, {local:%H:%M}"


def _typed(limit: SpendLimit, currency: str) -> str:
    return f"{major_from_cents(limit.amount_cents or 0, currency):.{exponent(currency)}f}"


def _changed(visit: Visit) -> Response:
    external_id, form = visit.named("external_id"), visit.form
    place, _ = visit.reading(lambda reader, place: None)
    interval = form.get("interval", "")
    try:
        if "remove" in form:
            visit.writing(lambda work: remove_limit(work, place, external_id, interval))
        else:
            visit.writing(lambda work: set_limit(work, place, external_id, interval, form.get("amount", "")))
    except Invalid:
        return _shown(visit, problem=True)
    return visit.to(f"/limits/{quote(external_id, safe='')}")


PAGES = (
    Page("/limits/{external_id:path}", _shown, writes=True),
    Page("/limits/{external_id:path}", _changed, "POST", writes=True),
)
