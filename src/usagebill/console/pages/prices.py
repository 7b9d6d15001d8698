"""The parts of a plan that have prices (charges, their filters, fixed charges), made, changed and removed in one form
with a price sheet that computes while one types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
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
    ranges_of,
    untyped,
)
from usagebill.console.fields import EFFECTIVE, Field, Kind, choices, text_of, values_of, with_effective
from usagebill.console.pages.page import Page
from usagebill.console.rendering import money, number, segment
from usagebill.console.seat import Seat
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden, Invalid
from usagebill.core.numbers import decimal_text, parse_decimal
from usagebill.core.pricing import MODELS
from usagebill.core.pricing.charges import REGROUPED
from usagebill.core.subscriptions import SubscriptionStatus
from usagebill.pricing import price_cents, price_steps

_MOST_LISTED = 100
_POINTS = 24
_MOST_UNITS = Decimal(10**15)
_MODEL = "charge_model"
_CODE = Field("code", "Code, unique in the plan", required=True)
_NAME = Field("invoice_display_name", "Name on invoices")
_TAXES = Field("tax_codes", "Taxes", Kind.LIST, hint="Codes, apart by commas; without any, those of the plan")
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
_METRIC = "metric"
_INVOICED = Field(
    "invoiced",
    "If billed at once, each fee is",
    Kind.CHOICE,
    (
        ("", "on an invoice of its own"),
        (REGROUPED, "put on one invoice a period, once paid"),
        ("never", "on no invoice"),
    ),
)
_OF_FILTER = "of-"

_Values = dict[str, object]


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a plan: `part` is None if it is new; `charge` is that of a filter. `used` plans have had
    subscriptions, which keep their terms.
    """

    plan: Any
    used: bool
    charge: Any = None
    part: Any = None

    @property
    def path(self) -> Sequence[str]:
        """What operations on it are called with before its own code."""
        return [self.plan["code"]] if self.charge is None else [self.plan["code"], self.charge["code"]]


@dataclass(frozen=True, slots=True)
class Priced:
    """A kind of part: `operation` completes the names of its operations (`plans.create_charge`).

    `named` are the fields before the prices, `options` those after them. Once subscriptions have been on the plan, the
    fields `settled` are no longer asked for; `lasting` ones never after the part was made. `sent` turns what was typed
    into arguments, `shown` a part into texts.
    """

    path: str
    noun: str
    operation: str
    key: str
    models: Sequence[str]
    named: Callable[[Seat, Place], Sequence[Field]]
    options: Sequence[Field]
    sent: Callable[[Seat, Place, _Values], Mapping[str, object]]
    shown: Callable[[Seat, Any], Mapping[str, object]]
    settled: frozenset[str] = frozenset()
    lasting: frozenset[str] = frozenset()

    def fields(self, fields: Sequence[Field], place: Place) -> Sequence[Field]:
        """Those of the fields that can still be chosen."""
        fixed = (self.lasting if place.part else frozenset()) | (self.settled if place.used and place.part else set())
        return [field for field in fields if field.name not in fixed]

    def model(self, place: Place, form: Mapping[str, str]) -> str:
        """The chosen charge model. Raises `Invalid`."""
        if place.charge is not None:
            return str(place.charge[_MODEL])
        if place.part and place.used:
            return str(place.part[_MODEL])
        return form.get(_MODEL) or self.models[0]


def _charge_fields(seat: Seat, place: Place) -> Sequence[Field]:
    metrics = seat.listed("billable_metrics.list", per_page=_MOST_LISTED).items
    listed = tuple((metric["code"], metric["name"]) for metric in metrics)
    return (Field(_METRIC, "Billable metric", Kind.SUGGESTED, listed, required=True), _CODE)


def _charge_sent(seat: Seat, place: Place, values: _Values) -> Mapping[str, object]:
    if _METRIC in values:
        values["billable_metric_code"] = values.pop(_METRIC)
    if _INVOICED.name in values:
        invoiced = values.pop(_INVOICED.name)
        values |= {"invoiceable": not invoiced, "regroup_paid_fees": REGROUPED if invoiced == REGROUPED else None}
    return values


def _charge_shown(seat: Seat, charge: Any) -> Mapping[str, object]:
    invoiced = "" if charge["invoiceable"] else charge["regroup_paid_fees"] or "never"
    return {_METRIC: charge["billable_metric_code"], _INVOICED.name: invoiced}


def _filter_fields(seat: Seat, place: Place) -> Sequence[Field]:
    if place.part is not None:
        return ()
    metric = seat.ask("billable_metrics.get", place.charge["billable_metric_code"])
    return [
        Field(f"{_OF_FILTER}{of['key']}", of["key"], Kind.LIST, hint=f"Of {', '.join(of['values'])}; empty: any")
        for of in metric["filters"]
    ]


def _filter_sent(seat: Seat, place: Place, values: _Values) -> Mapping[str, object]:
    matched = {name.removeprefix(_OF_FILTER): value for name, value in values.items() if name.startswith(_OF_FILTER)}
    sent = {name: value for name, value in values.items() if not name.startswith(_OF_FILTER)}
    if place.part is None:
        sent["values"] = {key: value for key, value in matched.items() if value}
    return sent


def _fixed_charge_fields(seat: Seat, place: Place) -> Sequence[Field]:
    add_ons = seat.listed("add_ons.list", per_page=_MOST_LISTED).items
    listed = tuple((add_on["code"], add_on["name"]) for add_on in add_ons)
    return (
        Field("add_on_code", "Add-on", Kind.SUGGESTED, listed, required=True),
        _CODE,
        Field("units", "Units of a subscription", Kind.NUMBER, required=True),
    )


def _fixed_charge_shown(seat: Seat, charge: Any) -> Mapping[str, object]:
    # Without a name of its own it shows that of its add-on.
    add_on = seat.ask("add_ons.get", charge["add_on_code"])
    own = charge[_NAME.name]
    return {_NAME.name: None if own in (add_on["invoice_display_name"], add_on["name"]) else own}


PRICED: Sequence[Priced] = (
    Priced(
        "charges",
        "charge",
        "charge",
        "code",
        TYPED_MODELS,
        _charge_fields,
        (
            _NAME,
            Field("min_amount_cents", "Minimum per period", Kind.MONEY),
            Field("pay_in_advance", "Billed at once, event by event", Kind.FLAG),
            _INVOICED,
            Field("prorated", "Prorated by the days that units were there", Kind.FLAG),
            _TAXES,
        ),
        _charge_sent,
        _charge_shown,
        settled=frozenset({_METRIC, "code", "min_amount_cents", "pay_in_advance", "invoiced", "prorated"}),
    ),
    Priced(
        "filters",
        "filter",
        "filter",
        "svc_id",
        TYPED_MODELS,
        _filter_fields,
        (_NAME,),
        _filter_sent,
        lambda _, __: {},
    ),
    Priced(
        "fixed-charges",
        "fixed charge",
        "fixed_charge",
        "code",
        tuple(name for name in TYPED_MODELS if MODELS[name].of_fixed_charges),
        _fixed_charge_fields,
        (
            _NAME,
            Field("apply_units_immediately", "Changed units count at once, not from the next period", Kind.FLAG),
            Field("pay_in_advance", "Paid at the start of each period", Kind.FLAG),
            Field("prorated", "Prorated for part of a period", Kind.FLAG),
            _TAXES,
        ),
        lambda _, __, values: values,
        _fixed_charge_shown,
        settled=frozenset({"code"}),
        lasting=frozenset({"add_on_code", "pay_in_advance", "prorated"}),
    ),
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


def _place(priced: Priced, visit: Visit, key: str | None) -> Place:
    """Raises `Forbidden`, and `NotFound` for the plan, the charge or the part."""
    seat, sent = visit.seat, visit.request.query_params
    seat.require(f"plans.create_{priced.operation}")
    plan = seat.ask("plans.get", sent.get("plan", ""))
    charge = None
    if priced.operation == "filter":
        charge = seat.ask("plans.get_charge", plan["code"], sent.get("charge", ""))
    every = [status.value for status in SubscriptionStatus]
    used = seat.listed("subscriptions.list", plan_code=plan["code"], status=every, per_page=1).total > 0
    place = Place(plan, used, charge)
    if key is None:
        return place
    return Place(plan, used, charge, seat.ask(f"plans.get_{priced.operation}", *place.path, key))


def _asked(
    priced: Priced, visit: Visit, place: Place, form: Mapping[str, str], problem: str = "", status: int = 200
) -> Response:
    model = priced.model(place, form)
    known = model if model in MODELS and not MODELS[model].by_program else priced.models[0]
    is_chosen = priced.operation != "filter" and not (place.part and place.used)
    unit = (place.charge or place.part or {}).get("applied_pricing_unit")
    named = priced.fields(priced.named(visit.seat, place), place)
    return visit.page(
        "prices.html",
        status,
        priced=priced,
        place=place,
        named=named,
        model=Field(_MODEL, "Charge model", Kind.CHOICE, choices(priced.models)) if is_chosen else None,
        chosen=known,
        properties=property_fields(known, by_group=priced.operation != "fixed_charge"),
        columns=range_fields(known),
        ranges=ranges_of(known, form),
        options=priced.fields(priced.options, place),
        changed_with=(_CASCADE, *EFFECTIVE),
        asked=(_UNITS, _EVENTS) if MODELS[known].by_percentage else (_UNITS,),
        # The units of a fixed charge are asked for above.
        asks_units=not any(field.name == _UNITS.name for field in named),
        sheet=Sheet(
            problem=f"The prices are in your unit {unit['code']}, at {unit['conversion_rate']} of the currency."
        )
        if unit
        else sheet_of(known, form, place.plan["amount_currency"]),
        form={**form, _MODEL: known},
        problem=problem,
    )


def _typed(priced: Priced, seat: Seat, place: Place, form: Mapping[str, str]) -> Mapping[str, object]:
    """The arguments that were typed. Raises `Invalid`, and `NotFound` for a metric or an add-on."""
    model = priced.model(place, form)
    if model not in TYPED_MODELS:
        raise Invalid(charge_model="value_is_invalid")
    fields = [*priced.fields(priced.named(seat, place), place), *priced.fields(priced.options, place)]
    values = values_of(fields, form, place.plan["amount_currency"], blanks=True)
    if "min_amount_cents" in values:
        values["min_amount_cents"] = values["min_amount_cents"] or 0
    if _TAXES.name in values:
        values[_TAXES.name] = values[_TAXES.name] or []
    before = place.part if place.part and (place.charge or place.part)[_MODEL] == model else {"properties": {}}
    values["properties"] = {**untyped(model, before["properties"]), **properties_of(model, form)}
    if priced.operation != "filter":
        values[_MODEL] = model
    changed_with = with_effective(values_of((_CASCADE, *EFFECTIVE), form)) if place.part else {}
    return {**priced.sent(seat, place, values), **changed_with}


def _shown(priced: Priced, seat: Seat, place: Place) -> dict[str, str]:
    """A part as the texts of its form."""
    part, currency = place.part, place.plan["amount_currency"]
    model = (place.charge or part)[_MODEL]
    taxes = {_TAXES.name: [tax["code"] for tax in part.get("taxes") or ()]}
    record = {**part, **taxes, **priced.shown(seat, part)}
    fields = [*priced.fields(priced.named(seat, place), place), *priced.options]
    texts = {field.name: text_of(field, record.get(field.name), currency) for field in fields}
    return {**texts, **form_of(model, part["properties"]), _MODEL: model}


def _new(priced: Priced, visit: Visit) -> Response:
    place = _place(priced, visit, None)
    form = visit.form or {name: text for name, text in visit.asked().items() if name not in ("plan", "charge")}
    return _answered(priced, visit, place, form or form_of(priced.model(place, {}), {}))


def _change(priced: Priced, visit: Visit) -> Response:
    place = _place(priced, visit, visit.named("key"))
    return _answered(priced, visit, place, visit.form or _shown(priced, visit.seat, place))


def _answered(priced: Priced, visit: Visit, place: Place, form: Mapping[str, str]) -> Response:
    """The form; or its plan, once what it says is done."""
    seat, step = visit.seat, visit.form.get("step", "")
    own = [] if place.part is None else [place.part[priced.key]]
    try:
        if step == "save":
            verb = "update" if own else "create"
            seat.ask(f"plans.{verb}_{priced.operation}", *place.path, *own, **_typed(priced, seat, place, form))
        elif step == "remove" and own:
            cascade = values_of((_CASCADE,), form)
            seat.ask(f"plans.delete_{priced.operation}", *place.path, *own, **cascade)
        else:
            return _asked(priced, visit, place, form)
    except Forbidden:
        raise
    except BillingError as refusal:
        return _asked(priced, visit, place, form, refusal.message or refusal.code, refusal.status)
    return visit.to(f"/plans/{segment(place.plan['code'])}")


PAGES = tuple(
    Page(path, partial(act, priced), method)
    for priced in PRICED
    for path, act in ((f"/new/{priced.path}", _new), (f"/change/{priced.path}/{{key:path}}", _change))
    for method in ("GET", "POST")
)
