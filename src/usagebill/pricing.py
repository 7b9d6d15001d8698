"""Pricing without a database: the price of units under a charge model, in one call.

>>> from usagebill.pricing import price
>>> price("package", {"amount": "5", "package_size": 100, "free_units": 0}, 101)
Decimal('10')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from usagebill.core.aggregation import summed_totals
from usagebill.core.currencies import CURRENCIES, subunits
from usagebill.core.errors import Invalid
from usagebill.core.invoices.explanation import model_arithmetic
from usagebill.core.near_names import near_name
from usagebill.core.numbers import decimal_text, is_bounded, parse_decimal, total
from usagebill.core.pricing import (
    MODELS,
    Properties,
    PropertiesError,
    amount_details,
    parse_properties,
    price as price_of,
)
from usagebill.core.pricing.complaints import complaints
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.pricing.percentage import PercentageProperties
from usagebill.core.usage import Usage

Number: TypeAlias = int | Decimal | str

# The decimal properties of charge models (amounts, rates, quantities), which are stored as strings.
AMOUNT_KEYS = frozenset(
    {
        "amount",
        "fixed_amount",
        "flat_amount",
        "free_units_per_total_aggregation",
        "per_transaction_max_amount",
        "per_transaction_min_amount",
        "per_unit_amount",
        "rate",
    }
)
_GROUPING_KEYS = frozenset({"grouped_by", "presentation_group_keys", "pricing_group_keys"})


def price(
    charge_model: str,
    properties: Mapping[str, object],
    units: Number | None = None,
    *,
    events: Sequence[Number] | None = None,
    amount_cents: Number = 0,
    currency: str = "USD",
) -> Decimal:
    """The price of `units`, in major units of the currency, before rounding. `price_cents` returns the amount of a fee.

    `properties` are those of a charge: amounts as `int`, `Decimal` or text. `events` are the quantities of the single
    events, which free events, fixed amounts and bounds of a percentage price depend on; without them all units are one
    event, and with them `units` is by default their sum. `amount_cents` is the sum of the events' own prices, for
    `dynamic` and `custom`.

    Raises `Invalid` for a price list that is invalid for a charge, and `TypeError` for floats and unknown properties.
    """
    return price_of(charge_model, *_read(charge_model, properties, units, events, amount_cents, currency)).amount


def price_cents(
    charge_model: str,
    properties: Mapping[str, object],
    units: Number | None = None,
    *,
    events: Sequence[Number] | None = None,
    amount_cents: Number = 0,
    currency: str = "USD",
) -> int:
    """The amount of a fee for `units`, before taxes: cents of `currency`, rounded once, half away from zero.

    Arguments and errors are those of `price`.
    """
    terms, usage = _read(charge_model, properties, units, events, amount_cents, currency)
    return fee_amounts(price_of(charge_model, terms, usage), usage, currency).amount_cents


def price_steps(
    charge_model: str,
    properties: Mapping[str, object],
    units: Number | None = None,
    *,
    events: Sequence[Number] | None = None,
    amount_cents: Number = 0,
    currency: str = "USD",
) -> tuple[str, ...]:
    """The steps to the price of `units`, line by line, as the explanation of an invoice shows them.

    Arguments and errors are those of `price`.
    """
    terms, usage = _read(charge_model, properties, units, events, amount_cents, currency)
    lines = model_arithmetic(amount_details(charge_model, terms, usage), usage.units)
    unit_amount = price_of(charge_model, terms, usage).unit_amount
    return tuple(lines or [f"{decimal_text(usage.units)} units x {decimal_text(unit_amount)} each"])


def _read(
    charge_model: str,
    properties: Mapping[str, object],
    units: Number | None,
    events: Sequence[Number] | None,
    amount_cents: Number,
    currency: str,
) -> tuple[Properties, Usage]:
    model = MODELS.get(charge_model)
    if model is None:
        raise Invalid(charge_model="value_is_invalid")
    if currency not in CURRENCIES:
        raise Invalid(currency="value_is_invalid")
    _check_names(properties, {*model.keys, *_GROUPING_KEYS}, charge_model)
    texts = with_price_texts(properties)
    try:
        parsed = parse_properties(charge_model, texts, subunits=subunits(currency))
    except PropertiesError as problem:
        refusal = Invalid(properties=problem.codes)
        wrong = complaints(model, texts)
        refusal.message = "; ".join(f"properties.{item.place}: {item.text}" for item in wrong)
        raise refusal from problem
    return parsed, _usage(units, events, parsed, _decimal(amount_cents, "amount_cents"))


def _usage(units: Number | None, events: Sequence[Number] | None, terms: Properties, amount_cents: Decimal) -> Usage:
    if units is None and events is None:
        raise TypeError("units or events are missing")
    quantity = None if units is None else _decimal(units, "units")
    values: tuple[Decimal, ...] = (quantity,) if quantity else ()
    if events is not None:
        values = tuple(_decimal(value, f"events[{place}]") for place, value in enumerate(events))
    totals: tuple[Decimal, ...] = ()
    if isinstance(terms, PercentageProperties):
        totals = summed_totals(values, free_events=terms.free_events, free_units=terms.free_total)
    return Usage(
        units=total(values) if quantity is None else quantity,
        events_count=len(values),
        amount_cents=amount_cents,
        running_totals=totals,
        event_values=values,
    )


def _decimal(value: Number, name: str) -> Decimal:
    if isinstance(value, float):
        raise TypeError(_float_message(name, value))
    number = parse_decimal(value) if isinstance(value, str) else Decimal(value)
    if number is None or not is_bounded(number):
        raise ValueError(f"{name}: {value!r} is not a number that can be billed")
    return number


def _check_names(properties: Mapping[str, object], known: Iterable[str], charge_model: str) -> None:
    for name in properties:
        if name not in known:
            near = near_name(name, known)
            hint = f"; did you mean {near}?" if near else ""
            raise TypeError(f"{charge_model} has no property {name}{hint}")


def with_price_texts(properties: Mapping[str, object], place: str = "properties") -> dict[str, object]:
    """Properties of a charge with amounts as strings, as they are stored: `{"amount": Decimal("0.25")}` as "0.25".

    Raises `TypeError` for a float, which cannot hold decimal amounts exactly.
    """
    return {name: _with_text(name, value, f"{place}.{name}") for name, value in properties.items()}


def _with_text(name: str, value: object, place: str) -> object:
    if name.endswith("_ranges") and isinstance(value, list | tuple):
        return [
            with_price_texts(item, f"{place}[{position}]") if isinstance(item, Mapping) else item
            for position, item in enumerate(value)
        ]
    if name not in AMOUNT_KEYS or isinstance(value, bool):
        return value
    if isinstance(value, float):
        raise TypeError(_float_message(place, value))
    if isinstance(value, int | Decimal) and is_bounded(value):
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    return value


def _float_message(place: str, value: float) -> str:
    text = repr(str(value))
    return f"{place} is the float {value!r}, which holds no decimal exactly: write {text} or Decimal({text})"
