"""The words of a billing entity's e-mails: which are its own, and a form with a preview for each kind and language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from usagebill.console.fields import Field, Kind
from usagebill.console.pages.page import Page
from usagebill.console.rendering import segment
from usagebill.console.visits import Visit
from usagebill.core.contacts import LOCALES
from usagebill.core.email_texts import PLACEHOLDERS, EmailText
from usagebill.core.errors import BillingError, Forbidden, NotFound
from usagebill.operations import billing_entities
from usagebill.operations.emails.samples import sample_email
from usagebill.requests.refusals import word

_UPDATE = "billing_entities.update"
_FIELDS = (
    Field("subject", "Subject"),
    Field("intro", "Comes first", Kind.LONG, hint="An empty line begins a paragraph"),
    Field("closing", "Comes last", Kind.LONG),
)


def _listed(visit: Visit) -> Response:
    visit.seat.require(_UPDATE)
    entity = visit.seat.ask("billing_entities.get", visit.named("key"))
    own = {(text["kind"], text["locale"]) for text in entity["email_texts"]}
    return visit.page("email_texts.html", entity=entity, kinds=tuple(PLACEHOLDERS), locales=LOCALES, own=own)


def _shown(visit: Visit, problem: str = "", status: int = 200) -> Response:
    visit.seat.require(_UPDATE)
    entity, (kind, locale) = visit.seat.ask("billing_entities.get", visit.named("key")), _place(visit)
    before = next((text for text in entity["email_texts"] if (text["kind"], text["locale"]) == (kind, locale)), None)
    texts = {field.name: (before or {}).get(field.name) or "" for field in _FIELDS} | dict(visit.form)
    subject, body = "", ""
    try:
        subject, body = visit.billing.reading(
            lambda reader: sample_email(
                reader, billing_entities.get(reader, entity["code"]), _typed(kind, locale, texts)
            ),
            visit.seat.who.organization,
        )
    except BillingError as refusal:
        word(refusal)
        problem, status = problem or refusal.message or refusal.code, refusal.status
    return visit.page(
        "email_text.html",
        status,
        entity=entity,
        kind=kind,
        locale=locale,
        fields=_FIELDS,
        texts=texts,
        names=PLACEHOLDERS[kind],
        is_own=before is not None,
        title_of=subject,
        body=body,
        problem=problem,
    )


def _changed(visit: Visit) -> Response:
    step = visit.form.get("step")
    if step not in ("save", "reset"):
        return _shown(visit)
    code, (kind, locale) = visit.named("key"), _place(visit)
    entity = visit.seat.ask("billing_entities.get", code)
    others = [text for text in entity["email_texts"] if (text["kind"], text["locale"]) != (kind, locale)]
    typed = {field.name: visit.form.get(field.name) for field in _FIELDS} if step == "save" else {}
    try:
        sent = [*others, {"kind": kind, "locale": locale, **typed}]
        visit.seat.ask(_UPDATE, code, email_texts=sent)
    except Forbidden:
        raise
    except BillingError as refusal:
        word(refusal)
        return _shown(visit, refusal.message or refusal.code, refusal.status)
    return visit.to(f"/entities/{segment(code)}/emails")


def _place(visit: Visit) -> tuple[str, str]:
    """The kind and the language of the path. Raises `NotFound`."""
    kind, locale = visit.named("kind"), visit.named("locale")
    if kind not in PLACEHOLDERS or locale not in LOCALES:
        raise NotFound("page")
    return kind, locale


def _typed(kind: str, locale: str, texts: Mapping[str, Any]) -> EmailText:
    parts = {field.name: texts[field.name].replace("\r\n", "\n").strip() or None for field in _FIELDS}
    return EmailText(kind=kind, locale=locale, **parts)


PAGES = (
    Page("/entities/{key}/emails", _listed),
    Page("/entities/{key}/emails/{kind}/{locale}", _shown),
    Page("/entities/{key}/emails/{kind}/{locale}", _changed, "POST"),
)
