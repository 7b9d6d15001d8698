"""Any form: a record is made, or changed, by what was typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from starlette.responses import Response

from usagebill.console.fields import Field, Kind, text_of, values_of, with_effective
from usagebill.console.forms import FORMS, Form
from usagebill.console.lists import BY_PATH
from usagebill.console.pages.page import Page
from usagebill.console.rendering import at, segment
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden, Invalid, NotFound
from usagebill.requests.refusals import word

_DAY = len("2024-01-31")


def _page(
    form: Form, visit: Visit, record: Any, texts: Mapping[str, str], problem: str = "", status: int = 200
) -> Response:
    visit.seat.require(form.create)
    fields = [*form.made_with, *form.fields] if record is None else [*form.fields, *form.changed_with]
    chosen = ""
    if form.chooser is not None:
        chosen = texts.get(form.chooser.name, "") if record is None else record[form.chooser.name]
        fields = [field for field in fields if not field.only_for or chosen in field.only_for]
    return visit.page(
        "form.html",
        status,
        form=form,
        list=BY_PATH[form.path],
        record=record,
        fields=fields,
        chosen=chosen,
        texts=texts,
        problem=problem,
    )


def _new(form: Form, visit: Visit) -> Response:
    if not visit.form:
        return _page(form, visit, None, {**form.filled, **visit.asked()})
    try:
        every = (*form.made_with, *form.fields, *((form.chooser,) if form.chooser else ()))
        sent = _placed(every, _typed(every, form, visit.form))
        if form.is_upsert and _exists(form, visit, sent.get(form.key)):
            raise Invalid({form.key: ["value_already_exist"]})
        made = visit.seat.ask(form.create, **sent)
    except BillingError as refusal:
        return _again(form, visit, None, refusal)
    return _shown(form, visit, made)


def _exists(form: Form, visit: Visit, key: object) -> bool:
    try:
        return bool(key) and bool(visit.seat.ask(BY_PATH[form.path].get, str(key)))
    except NotFound:
        return False


def _change(form: Form, visit: Visit) -> Response:
    record = visit.seat.ask(BY_PATH[form.path].get, visit.named("key"))
    currency = record.get(form.currency) or "USD"
    if not visit.form:
        texts = {field.name: _text(field, record, currency) for field in form.fields}
        return _page(form, visit, record, texts)
    try:
        sent = changes_typed(form, visit.form)
        if form.is_upsert:
            made = visit.seat.ask(form.create, **{form.key: record[form.key]}, **sent)
        else:
            made = visit.seat.ask(form.update, record[form.key], **sent)
    except BillingError as refusal:
        return _again(form, visit, record, refusal)
    return _shown(form, visit, made)


def changes_typed(form: Form, typed: Mapping[str, str]) -> dict[str, object]:
    """The arguments of a change that were typed; what was emptied is taken away. Raises `Invalid`."""
    emptied: dict[str, object] = {
        field.name: [] if field.kind in (Kind.LIST, Kind.LINES) else None
        for field in form.fields
        if field.kind not in (Kind.FLAG, Kind.CHOICE, Kind.SECRET) or field.is_optional_choice
    }
    every = (*form.fields, *form.changed_with)
    return with_effective(_placed(every, emptied | _typed(every, form, typed)))


def _again(form: Form, visit: Visit, record: Any, refusal: BillingError) -> Response:
    word(refusal)
    if isinstance(refusal, Forbidden) and not visit.seat.may(form.create):
        raise refusal
    return _page(form, visit, record, visit.form, refusal.message or refusal.code, refusal.status)


def _shown(form: Form, visit: Visit, made: Any) -> Response:
    address = f"/{form.path}"
    return visit.to(f"{address}/{segment(made[form.key])}" if BY_PATH[form.path].get else address)


def _typed(fields: Sequence[Field], form: Form, typed: Mapping[str, str]) -> dict[str, object]:
    return values_of(fields, typed, typed.get(form.currency, "").strip().upper())


def _placed(fields: Sequence[Field], values: Mapping[str, object]) -> dict[str, object]:
    """The values, those that belong to an object in it."""
    placed: dict[str, Any] = {}
    for field in fields:
        if field.name in values:
            owner = placed.setdefault(field.within, {}) if field.within else placed
            owner[field.name] = values[field.name]
    return placed


def _text(field: Field, record: Mapping[str, Any], currency: str) -> str:
    value = at(record, f"{field.within}.{field.name}") if field.within in record else record.get(field.name)
    if field.name == "tax_codes":
        value = [tax["code"] for tax in record.get("taxes") or ()]
    text = text_of(field, value, currency)
    return text[:_DAY] if field.kind == Kind.DATE else text


PAGES = tuple(
    Page(f"/{place}", partial(act, form), method)
    for form in FORMS
    for place, act, exists in (
        (f"new/{form.path}", _new, True),
        (f"change/{form.path}/{{key:path}}", _change, form.update or form.is_upsert),
    )
    if exists
    for method in ("GET", "POST")
)
