"""Payment methods: the default one, others, and where one is added."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from starlette.responses import Response

from usagebill.core.documents.locales import date_text
from usagebill.core.documents.words.portal import portal_words_of
from usagebill.core.errors import BillingError, NotFound
from usagebill.core.payments import PaymentMethod
from usagebill.core.provider_requests import MethodDetails
from usagebill.operations.payment_methods import delete, set_as_default
from usagebill.operations.payment_pages import checkout_url
from usagebill.operations.portal import Place
from usagebill.operations.self_service import way_to_pay
from usagebill.portal.pages.page import Page
from usagebill.portal.visit import Visit
from usagebill.process.logs import Log

_log = Log("usagebill.portal")
_DECEMBER = 12


def _shown(visit: Visit, problem: bool = False) -> Response:
    place, found = visit.reading(lambda reader, place: way_to_pay(reader, place.customer))
    return visit.page(
        "payment_methods.html",
        place,
        422 if problem else 200,
        problem=problem,
        can_add=found.can_add,
        methods=[_method(method, place) for method in found.methods],
    )


def _method(method: PaymentMethod, place: Place) -> Mapping[str, object]:
    words = portal_words_of(place.locale)
    details = method.details or MethodDetails(provider_method_id=method.provider_method_id)
    name = " ".join(part for part in ((details.brand or details.type or "").replace("_", " "), details.issuer) if part)
    valid_until = ""
    if details.expiration_month is not None and details.expiration_year is not None:
        last = _last_day(details.expiration_year, details.expiration_month)
        valid_until = "" if last is None else words.valid_until.format(date=date_text(last, place.locale))
    return {
        "id": method.id,
        "name": f"{name or words.method}{f' •••• {details.last4}' if details.last4 else ''}",
        "valid_until": valid_until,
        "is_default": method.is_default,
        "is_usable": method.is_usable,
    }


def _last_day(year: int, month: int) -> date | None:
    try:
        following = date(year + 1, 1, 1) if month == _DECEMBER else date(year, month + 1, 1)
    except ValueError:
        return None
    return following - timedelta(days=1)


def _changed(visit: Visit) -> Response:
    place, _ = visit.reading(lambda reader, place: None)
    owner, id = place.customer.external_id, visit.form.get("method", "")
    acts = {"default": set_as_default, "remove": delete}
    act = acts.get(visit.form.get("act", ""))
    if act is None:
        raise NotFound("page")
    try:
        visit.writing(lambda work: act(work, owner, id))
    except NotFound:
        raise
    except BillingError as problem:
        return _refused(visit, problem)
    return visit.to("/payment-methods")


def _added(visit: Visit) -> Response:
    place, _ = visit.reading(lambda reader, place: None)
    try:
        return visit.away(visit.writing(lambda work: checkout_url(work, place.customer.external_id)).url)
    except BillingError as problem:
        return _refused(visit, problem)


def _refused(visit: Visit, problem: BillingError) -> Response:
    _log.warning("payment_method_refused", customer_id=visit.customer_id, code=problem.code)
    return _shown(visit, problem=True)


PAGES = (
    Page("/payment-methods", _shown),
    Page("/payment-methods", _changed, "POST", writes=True),
    Page("/payment-methods/new", _added, "POST", writes=True),
)
