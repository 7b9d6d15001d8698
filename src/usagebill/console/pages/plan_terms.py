"""The minimum commitment of a plan, and the usage at which it is billed ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from usagebill.console.fields import EFFECTIVE, Field, Kind, in_row, rows_of, text_of, values_of, with_effective
from usagebill.console.pages.page import Page
from usagebill.console.rendering import segment
from usagebill.console.visits import Visit

_COMMITMENT = (
    Field("amount_cents", "At least, each period", Kind.MONEY, hint="What is missing is billed. Empty: no minimum"),
    Field("invoice_display_name", "Name on invoices"),
    Field("tax_codes", "Taxes", Kind.LIST, hint="Codes, apart by commas; without any, those of the plan"),
)
_THRESHOLD = (
    Field("amount_cents", "Usage of", Kind.MONEY),
    Field("threshold_display_name", "Name on invoices"),
    Field("recurring", "Again and again", Kind.FLAG),
)


def _sent(plan: Any, form: Mapping[str, str]) -> Mapping[str, object]:
    """The fields of the plan that were typed. Raises `Invalid`."""
    currency = plan["amount_currency"]
    commitment = values_of(_COMMITMENT, form, currency, blanks=True)
    commitment["tax_codes"] = commitment["tax_codes"] or []
    thresholds = [
        values_of(_THRESHOLD, row.texts, currency) for row in rows_of(_THRESHOLD, form) if any(row.texts.values())
    ]
    # These belong together: a plan that is sent without an interval bills by its interval alone.
    kept = {name: plan[name] for name in ("interval", "bill_charges_monthly", "bill_fixed_charges_monthly")}
    return {
        **kept,
        **with_effective(values_of(EFFECTIVE, form)),
        # An empty one is none.
        "minimum_commitment": {} if commitment["amount_cents"] is None else commitment,
        "usage_thresholds": thresholds,
    }


def _filled(plan: Any) -> Mapping[str, str]:
    currency, commitment = plan["amount_currency"], plan.get("minimum_commitment") or {}
    record = {**commitment, "tax_codes": [tax["code"] for tax in commitment.get("taxes") or ()]}
    texts = {field.name: text_of(field, record.get(field.name), currency) for field in _COMMITMENT}
    thresholds: Sequence[Mapping[str, Any]] = plan["usage_thresholds"]
    for place, threshold in enumerate(thresholds):
        texts |= {in_row(place, field.name): text_of(field, threshold[field.name], currency) for field in _THRESHOLD}
    return texts


def _shown(visit: Visit, problem: str = "", status: int = 200) -> Response:
    visit.seat.require("plans.update")
    plan = visit.seat.ask("plans.get", visit.named("key"))
    form = visit.form or _filled(plan)
    return visit.page(
        "plan_terms.html",
        status,
        plan=plan,
        commitment=_COMMITMENT,
        columns=_THRESHOLD,
        effective=EFFECTIVE,
        thresholds=rows_of(_THRESHOLD, form),
        form=form,
        problem=problem,
    )


def _changed(visit: Visit) -> Response:
    if visit.form.get("step") != "save":
        return _shown(visit)
    code = visit.named("key")
    visit.seat.ask("plans.update", code, **_sent(visit.seat.ask("plans.get", code), visit.form))
    return visit.to(f"/plans/{segment(code)}")


PAGES = (Page("/plans/{key}/terms", _shown), Page("/plans/{key}/terms", _changed, "POST", _shown))
