"""Billing details: what invoices say of the customer, which the customer may correct."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from usagebill.core.documents.words.portal import portal_words_of
from usagebill.core.errors import Invalid
from usagebill.operations import customers
from usagebill.operations.customers import CustomerInput
from usagebill.operations.portal import Place
from usagebill.portal.pages.page import Page
from usagebill.portal.visit import Visit
from usagebill.printing.countries import country_names

# The fields of a customer, each with its word.
_FIELDS: Mapping[str, str] = {
    "legal_name": "legal_name",
    "name": "name",
    "email": "email",
    "tax_identification_number": "tax_number",
    "address_line1": "address",
    "address_line2": "address_more",
    "zipcode": "zipcode",
    "city": "city",
    "state": "state",
    "country": "country",
}


def _shown(visit: Visit) -> Response:
    place, _ = visit.reading(lambda reader, place: None)
    return _page(visit, place, {name: getattr(place.customer, name) or "" for name in _FIELDS})


def _page(visit: Visit, place: Place, values: Mapping[str, str], refused: frozenset[str] = frozenset()) -> Response:
    words = portal_words_of(place.locale)
    return visit.page(
        "details.html",
        place,
        422 if refused else 200,
        fields=[(name, getattr(words, word), values[name], name in refused) for name, word in _FIELDS.items()],
        countries=sorted(country_names(place.locale).items(), key=lambda country: country[1]),
        refused=[getattr(words, _FIELDS[name]) for name in _FIELDS if name in refused],
        saved="saved" in visit.request.query_params and not refused,
    )


def _saved(visit: Visit) -> Response:
    place, _ = visit.reading(lambda reader, place: None)
    sent = {name: visit.form.get(name, "").strip() for name in _FIELDS}
    changed: dict[str, Any] = {
        name: text or None for name, text in sent.items() if text != (getattr(place.customer, name) or "")
    }
    try:
        visit.writing(
            lambda work: customers.upsert(work, CustomerInput(external_id=place.customer.external_id, **changed))
        )
    except Invalid as problem:
        named = frozenset(problem.details) & _FIELDS.keys()
        if not named:
            raise
        return _page(visit, place, sent, frozenset(named))
    return visit.to("/details?saved")


PAGES = (
    Page("/details", _shown),
    Page("/details", _saved, "POST", writes=True),
)
