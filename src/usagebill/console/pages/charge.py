"""A charge of a plan, made and changed in a form, with a price sheet that computes while one types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from starlette.responses import Response

from usagebill.browser.charts import Bar, bars
from usagebill.console.charge_terms import (
    TYPED_MODELS,
    form_of,
    furthest_of,
    properties_of,
    property_fields,
    range_fields,
    rows_of,
)
from usagebill.console.fields import Field, Kind, choices, text_of, values_of
from usagebill.console.pages.page import Page
from usagebill.console.rendering import money, number, segment
from usagebill.console.seat import Seat
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden, Invalid, NotFound
from usagebill.core.numbers import decimal_text, parse_decimal
from usagebill.core.pricing import MODELS
from usagebill.pricing import price_cents, price_steps

_MOST_METRICS = 100
_POINTS = 24
_MOST_UNITS = Decimal(10**15)

_METRIC = "metric"
_MODEL = Field("charge_model", "Charge model", Kind.CHOICE, choices(TYPED_MODELS))
_CODE = Field("code", "Code, unique in the plan", required=True)
_OPTIONS = (
    Field("invoice_display_name", "Name on invoices"),
    Field("min_amount_cents", "Minimum per period", Kind.MONEY),
    Field("pay_in_advance", "Billed at once, event by event", Kind.FLAG),
    Field("prorated", "Prorated by the days that units were there", Kind.FLAG),
)
_CASCADE = Field(
    "cascade_updates",
    "Also for subscriptions with prices of their own",
    Kind.FLAG,
    hint="Only those whose price is the former one change.",
)
_UNITS = Field("units", "Units", Kind.NUMBER)
_EVENTS = Field(
    "events", "Single events", Kind.LIST, hint="The units of each, apart by commas; without them, all are one"
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What units cost: the amount and of what, the steps to it, and a bar for each of several quantities; or why it is
    unknown.
    """

    amount: str = ""
    of: str = ""
    steps: Sequence[str] = ()
    curve: Sequence[Bar] = ()
    problem: str = ""


def sheet_of(model: str, form: Mapping[str, str], currency: str) -> Sheet:
    """The price sheet of a form as it was typed, computed as invoices are."""
    if MODELS[model].by_event_prices:
        return Sheet(problem="Events bring their own prices, so units alone have none.")
    try:
        properties = properties_of(model, form)
        asked = values_of((_UNITS, _EVENTS), form)
        units, events = asked.get("units"), asked.get("events")
        furthest = parse_decimal(str(units or furthest_of(properties)))
        if furthest is None or not 0 <= furthest <= _MOST_UNITS:
            return Sheet(problem=f"Units: write a number from 0 to {number(_MOST_UNITS)}.")
        properties.pop("pricing_group_keys", None)
        given: dict[str, Any] = {"currency": currency}
        if MODELS[model].by_percentage and isinstance(events, list):
            return Sheet(
                money(price_cents(model, properties, events=events, **given), currency),
                f"{len(events)} events",
                price_steps(model, properties, events=events, **given),
            )
        points = [round(furthest * place / _POINTS, 2) for place in range(1, _POINTS)] + [furthest]
        costs = [(point, price_cents(model, properties, point, **given)) for point in points]
        return Sheet(
            money(price_cents(model, properties, furthest, **given), currency),
            f"{number(decimal_text(furthest))} units",
            price_steps(model, properties, furthest, **given),
            bars((f"{number(decimal_text(point))} units", cents, money(cents, currency)) for point, cents in costs),
        )
    except Invalid as refusal:
        return Sheet(problem=refusal.message or refusal.code)


def _plan(visit: Visit) -> Any:
    visit.seat.require("plans.create_charge")
    return visit.seat.ask("plans.get", visit.request.query_params.get("plan", ""))


def _asked(
    visit: Visit, plan: Any, charge: Any, form: Mapping[str, str], problem: str = "", status: int = 200
) -> Response:
    model = form.get(_MODEL.name, "")
    model = model if model in TYPED_MODELS else TYPED_MODELS[0]
    metrics = visit.seat.listed("billable_metrics.list", per_page=_MOST_METRICS)
    currency = plan["amount_currency"]
    return visit.page(
        "charge.html",
        status,
        plan=plan,
        charge=charge,
        metric=_metric_field(metrics.items),
        model=_MODEL,
        chosen=model,
        code=_CODE,
        properties=property_fields(model),
        columns=range_fields(model),
        ranges=rows_of(model, form),
        options=(*_OPTIONS, _CASCADE) if charge else _OPTIONS,
        asked=(_UNITS, _EVENTS) if MODELS[model].by_percentage else (_UNITS,),
        sheet=sheet_of(model, form, currency),
        form={**form, _MODEL.name: model},
        problem=problem,
    )


def _metric_field(metrics: Sequence[Any]) -> Field:
    listed = tuple((metric["code"], metric["name"]) for metric in metrics)
    return Field(_METRIC, "Billable metric", Kind.SUGGESTED, listed, required=True)


def _written(seat: Seat, plan: Any, form: Mapping[str, str]) -> dict[str, object]:
    """The arguments of a charge that were typed. Raises `Invalid`, and `NotFound` for the metric."""
    model = form.get(_MODEL.name, "")
    if model not in TYPED_MODELS:
        raise Invalid(charge_model="value_is_invalid")
    options = values_of(_OPTIONS, form, plan["amount_currency"], blanks=True)
    options["min_amount_cents"] = options["min_amount_cents"] or 0
    return {
        "billable_metric_code": form.get(_METRIC, "").strip(),
        "charge_model": model,
        "code": form.get("code", "").strip(),
        "properties": properties_of(model, form),
        **options,
    }


def _new(visit: Visit) -> Response:
    plan = _plan(visit)
    form = visit.form or {name: value for name, value in visit.asked().items() if name != "plan"}
    if visit.form.get("step") != "save":
        return _asked(visit, plan, None, form or form_of(TYPED_MODELS[0], {}))
    try:
        visit.seat.ask("plans.create_charge", plan["code"], **_written(visit.seat, plan, form))
    except (Invalid, NotFound) as refusal:
        return _asked(visit, plan, None, form, refusal.message or refusal.code, refusal.status)
    return visit.to(f"/plans/{segment(plan['code'])}")


def _change(visit: Visit) -> Response:
    plan, code = _plan(visit), visit.named("key")
    charge = visit.seat.ask("plans.get_charge", plan["code"], code)
    form = visit.form or _filled(charge, plan["amount_currency"])
    if visit.form.get("step") != "save":
        return _asked(visit, plan, charge, form)
    try:
        sent = _written(visit.seat, plan, form)
        cascade = values_of((_CASCADE,), form)
        visit.seat.ask("plans.update_charge", plan["code"], code, **sent, **cascade)
    except BillingError as refusal:
        if isinstance(refusal, Forbidden):
            raise
        return _asked(visit, plan, charge, form, refusal.message or refusal.code, refusal.status)
    return visit.to(f"/plans/{segment(plan['code'])}")


def _filled(charge: Any, currency: str) -> dict[str, str]:
    """A charge as the texts of its form."""
    model = charge["charge_model"]
    options = {field.name: text_of(field, charge.get(field.name), currency) for field in _OPTIONS}
    own = {_METRIC: charge["billable_metric_code"], _MODEL.name: model, "code": charge["code"]}
    return {**options, **own, **form_of(model, charge["properties"]), "units": ""}


PAGES = (
    Page("/new/charges", _new),
    Page("/new/charges", _new, "POST"),
    Page("/change/charges/{key:path}", _change),
    Page("/change/charges/{key:path}", _change, "POST"),
)
