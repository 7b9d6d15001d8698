"""The phases of a subscription: which plan follows which on what day, entered, changed and removed in one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from starlette.responses import Response

from usagebill.console.fields import Field, Kind, in_row, rows_of, text_of, values_of
from usagebill.console.pages.page import Page
from usagebill.console.rendering import segment
from usagebill.console.visits import Visit
from usagebill.core.errors import Invalid
from usagebill.core.subscriptions import SubscriptionStatus

_MOST_LISTED = 100


def _fields(plans: Sequence[tuple[str, str]]) -> Sequence[Field]:
    return (
        Field("from", "From this day on", Kind.DATE),
        Field("plan_code", "Plan", Kind.SUGGESTED, plans),
        Field("amount_cents", "Fee, if another than the plan's", Kind.MONEY),
    )


def _found(visit: Visit) -> Any:
    """The subscription that is active, or starts later. Raises `NotFound`."""
    id = visit.named("key")
    listed = visit.seat.listed("subscriptions.list", external_id=id, status=[SubscriptionStatus.ACTIVE], per_page=1)
    status = SubscriptionStatus.ACTIVE if listed.total else SubscriptionStatus.PENDING
    return visit.seat.ask("subscriptions.get", id, status=status)


def _filled(subscription: Any, fields: Sequence[Field]) -> Mapping[str, str]:
    """The phases to come as the texts of their rows."""
    texts: dict[str, str] = {}
    phases = subscription["phases"]
    for place, (before, phase) in enumerate(pairwise(phases)):
        row = {
            "from": before["until"],
            "plan_code": phase["plan_code"],
            "amount_cents": (phase["plan_overrides"] or {}).get("amount_cents"),
        }
        texts |= {in_row(place, name): _text(fields, name, row[name], subscription) for name in row}
    return texts


def _text(fields: Sequence[Field], name: str, value: object, subscription: Any) -> str:
    (field,) = (field for field in fields if field.name == name)
    return text_of(field, value, subscription["plan_amount_currency"])


def _sent(subscription: Any, fields: Sequence[Field], form: Mapping[str, str]) -> list[Mapping[str, object]]:
    """The phases that were typed, each with what else it changes about its plan. Raises `Invalid`."""
    currency = subscription["plan_amount_currency"]
    known = {
        (before["until"], phase["plan_code"]): phase["plan_overrides"] or {}
        for before, phase in pairwise(subscription["phases"])
    }
    phases: list[dict[str, object]] = [{}]
    for row in rows_of(fields, form):
        typed = values_of(fields, row.texts, currency)
        if not typed:
            continue
        if "from" not in typed:
            reason = f"row {row.place + 1} has no day"
            raise Invalid({"phases": ["value_is_mandatory"]}, reasons={"phases": reason})
        code = typed.get("plan_code", subscription["plan_code"])
        kept = {name: value for name, value in known.get((typed["from"], code), {}).items() if name != "amount_cents"}
        overrides = {**kept, **({"amount_cents": typed["amount_cents"]} if "amount_cents" in typed else {})}
        phases[-1]["until"] = typed["from"]
        phases.append({"plan_code": code, **({"plan_overrides": overrides} if overrides else {})})
    return [*phases] if len(phases) > 1 else []


def _shown(visit: Visit, problem: str = "", status: int = 200) -> Response:
    seat = visit.seat
    seat.require("subscriptions.update")
    subscription = _found(visit)
    fields = _fields([(plan["code"], plan["name"]) for plan in seat.listed("plans.list", per_page=_MOST_LISTED).items])
    form = visit.form or _filled(subscription, fields)
    return visit.page(
        "phases.html",
        status,
        subscription=subscription,
        columns=fields,
        rows=rows_of(fields, form),
        problem=problem,
    )


def _changed(visit: Visit) -> Response:
    if visit.form.get("step") not in ("save", "remove"):
        return _shown(visit)
    subscription = _found(visit)
    id = subscription["external_id"]
    phases = _sent(subscription, _fields(()), visit.form) if visit.form["step"] == "save" else []
    visit.seat.ask("subscriptions.update", id, status=subscription["status"], phases=phases)
    return visit.to(f"/subscriptions/{segment(id)}")


PAGES = (
    Page("/subscriptions/{key:path}/phases", _shown),
    Page("/subscriptions/{key:path}/phases", _changed, "POST", _shown),
)
