"""Another plan: those that the seller offers, what a change comes to, and the change."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from starlette.responses import Response

from usagebill.core.documents.lines import interval_word
from usagebill.core.documents.locales import date_text, money_text
from usagebill.core.documents.words import words_of
from usagebill.core.documents.words.portal import portal_words_of
from usagebill.core.errors import BillingError, NotFound
from usagebill.core.plans import Plan
from usagebill.operations.portal import Place
from usagebill.operations.self_service import PlanChange, change_plan, offer_of, previewed_change
from usagebill.portal.pages.page import Page
from usagebill.portal.visit import Visit
from usagebill.process.logs import Log

_log = Log("usagebill.portal")


def _shown(visit: Visit) -> Response:
    code = visit.request.query_params.get("plan", "")
    if not code:
        return _page(visit)
    external_id = visit.named("external_id")
    place, _ = visit.reading(lambda reader, place: None)
    try:
        change = visit.writing(lambda work: previewed_change(work, place.customer, external_id, code))
    except NotFound:
        raise
    except BillingError as problem:
        return _refused(visit, problem)
    return _page(visit, change=change)


def _page(visit: Visit, *, change: PlanChange | None = None, problem: bool = False) -> Response:
    external_id = visit.named("external_id")
    place, offer = visit.reading(lambda reader, place: offer_of(reader, place.customer, external_id))
    words = portal_words_of(place.locale)
    coming = ""
    if offer.next_plan is not None and offer.changes_on is not None:
        day = date_text(offer.changes_on, place.locale)
        coming = words.changes_to.format(plan=_name(offer.next_plan), date=day)
    effect = ""
    if change is not None:
        day = "" if change.effective_on is None else date_text(change.effective_on, place.locale)
        effect = words.change_on.format(date=day) if day else words.change_now
    return visit.page(
        "plan.html",
        place,
        422 if problem else 200,
        problem=problem,
        name=offer.subscription.name or _name(offer.plan),
        address=f"/plans/{quote(external_id, safe='')}",
        usage=f"/usage/{quote(external_id, safe='')}",
        present=_plan(offer.plan, place),
        coming=coming,
        plans=[_plan(plan, place) for plan in offer.plans],
        chosen=None if change is None else _plan(change.plan, place),
        effect=effect,
        invoice=None if change is None else change.invoice,
        done="changed" in visit.request.query_params and not problem,
    )


def _plan(plan: Plan, place: Place) -> Mapping[str, str]:
    words = words_of(place.locale)
    return {
        "code": plan.code,
        "name": _name(plan),
        "about": plan.description or "",
        "fee": money_text(plan.amount_cents, plan.amount_currency, place.locale),
        "title": words.subscription.format(interval=interval_word(plan.interval, words), plan=_name(plan)),
    }


def _name(plan: Plan) -> str:
    return plan.invoice_display_name or plan.name


def _changed(visit: Visit) -> Response:
    external_id = visit.named("external_id")
    place, _ = visit.reading(lambda reader, place: None)
    try:
        visit.writing(lambda work: change_plan(work, place.customer, external_id, visit.form.get("plan", "")))
    except NotFound:
        raise
    except BillingError as problem:
        return _refused(visit, problem)
    return visit.to(f"/plans/{quote(external_id, safe='')}?changed")


def _refused(visit: Visit, problem: BillingError) -> Response:
    _log.warning("plan_change_refused", external_subscription_id=visit.named("external_id"), code=problem.code)
    return _page(visit, problem=True)


PAGES = (
    Page("/plans/{external_id:path}", _shown, writes=True),
    Page("/plans/{external_id:path}", _changed, "POST", writes=True),
)
