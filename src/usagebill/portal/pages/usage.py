"""The usage of a subscription in its running period: what it costs, why, by day, and the events behind it."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from urllib.parse import quote

from starlette.responses import Response

from usagebill.browser.charts import Bar, bars
from usagebill.core.currencies import exponent, major_from_cents
from usagebill.core.days import local_date
from usagebill.core.documents.content import Row
from usagebill.core.documents.lines import Naming, fee_rows
from usagebill.core.documents.locales import date_text, money_text
from usagebill.core.documents.words import words_of
from usagebill.core.errors import Invalid
from usagebill.core.events import Event
from usagebill.core.formulas import escaped
from usagebill.core.numbers import decimal_text
from usagebill.operations.emails.usage_levels import can_be_told
from usagebill.operations.own_limits import has_limits
from usagebill.operations.portal import Place, RunningUsage, events_of, running_usage
from usagebill.operations.self_service import Offer, add_level, levels_of, offer_of, remove_level
from usagebill.portal.pages.page import Page
from usagebill.portal.visit import Visit
from usagebill.runtime.work import Reader

_MOST_EVENTS = 50


def _shown(visit: Visit, problem: bool = False) -> Response:
    external_id = visit.named("external_id")

    def read(reader: Reader, place: Place) -> tuple[RunningUsage, list[Event], Offer, Sequence[int] | None, bool]:
        running = running_usage(reader, place.customer, external_id)
        events = events_of(reader, running, at_most=_MOST_EVENTS)
        is_told = visit.billing._system.mailer is not None and can_be_told(reader, place.customer)
        levels = levels_of(reader, place.customer, external_id) if is_told else None
        offer = offer_of(reader, place.customer, external_id)
        return running, events, offer, levels, has_limits(reader, place, offer.subscription)

    place, (running, events, offer, levels, is_limited) = visit.reading(read)
    used, locale = running.usage, place.locale
    first, last = (local_date(at, place.zone) for at in (used.start, used.end))
    return visit.page(
        "usage.html",
        place,
        422 if problem else 200,
        problem=problem,
        levels=None if levels is None else [(cents, money_text(cents, used.currency, locale)) for cents in levels],
        currency=used.currency,
        name=running.subscription.name or running.plan.invoice_display_name or running.plan.name,
        external_id=external_id,
        has_offers=bool(offer.plans),
        has_limits=is_limited,
        amount=money_text(used.amount_cents, used.currency, locale),
        with_taxes=money_text(used.amount_cents + used.taxes_amount_cents, used.currency, locale)
        if used.taxes_amount_cents
        else "",
        held=money_text(used.held_amount_cents, used.currency, locale) if used.held_amount_cents else "",
        period=f"{date_text(first, locale)} – {date_text(last, locale)}",
        invoiced_on=date_text(last + timedelta(days=1), locale),
        rows=_rows(running, place),
        bars=_by_day(running, place, first, min(last, local_date(visit.billing.clock.now(), place.zone))),
        events=[_event(event, place) for event in events],
    )


def _rows(running: RunningUsage, place: Place) -> Sequence[Row]:
    naming = Naming(words=words_of(place.locale), locale=place.locale, zone=place.zone, subscription_names={}, plans={})
    return [row for line in running.lines for row in fee_rows(line, naming)]


def _by_day(running: RunningUsage, place: Place, first: date, last: date) -> Sequence[Bar]:
    cents: dict[date, int] = defaultdict(int)
    for row in running.amounts:
        cents[row.start] += row.amount_cents
    days = [first + timedelta(days=place) for place in range((last - first).days + 1)]
    currency = running.usage.currency
    return bars(
        (date_text(day, place.locale), cents[day], money_text(cents[day], currency, place.locale)) for day in days
    )


def _event(event: Event, place: Place) -> Mapping[str, object]:
    local = event.timestamp.astimezone(place.zone)
    return {
        "id": event.transaction_id,
        "at": f"{date_text(local.date(), place.locale)}, {local:%H:%M:%S}",
        "metric": event.code,
        "properties": ", ".join(f"{name}: {value}" for name, value in event.properties.items()),
    }


def _file(visit: Visit) -> Response:
    external_id = visit.named("external_id")
    _, running = visit.reading(lambda reader, place: running_usage(reader, place.customer, external_id))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["date", "metric", "units", "amount", "currency"])
    for row in running.amounts:
        if row.units or row.amount_cents:
            amount = f"{major_from_cents(row.amount_cents, row.currency):.{exponent(row.currency)}f}"
            writer.writerow([row.start, escaped(row.code), decimal_text(row.units), amount, row.currency])
    return Response(
        text.getvalue(),
        media_type="text/csv",
        headers={"content-disposition": 'attachment; filename="usage.csv"'},
    )


def _alerts_changed(visit: Visit) -> Response:
    place, _ = visit.reading(lambda reader, place: None)
    customer, external_id, form = place.customer, visit.named("external_id"), visit.form
    try:
        if "remove" in form:
            visit.writing(lambda work: remove_level(work, customer, external_id, form["remove"]))
        else:
            visit.writing(lambda work: add_level(work, customer, external_id, form.get("amount", "")))
    except Invalid:
        return _shown(visit, problem=True)
    return visit.to(f"/usage/{quote(external_id, safe='')}")


PAGES = (
    Page("/usage.csv/{external_id:path}", _file),
    Page("/usage/{external_id:path}", _shown),
    Page("/usage/{external_id:path}", _alerts_changed, "POST", writes=True),
)
