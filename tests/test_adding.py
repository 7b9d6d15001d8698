"""A new aggregation and a new charge model are added as docs/design.md says, and bill, explain and print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from typing import Any, cast

import pytest
from pypdf import PdfReader

from tests.api_shapes import ShapeChecker
from tests.scenarios import Scenario, charge_on, plan_fields
from usagebill.core.aggregation import (
    AGGREGATIONS,
    Accumulation,
    AggregateResult,
    AggregationType,
    EventEffect,
    FieldUse,
    Question,
    RunningTotals,
)
from usagebill.core.aggregation.lists import numbers
from usagebill.core.events import Event, numeric_value
from usagebill.core.numbers import ZERO, multiply
from usagebill.core.pricing import MODELS
from usagebill.core.pricing.model import Price
from usagebill.core.pricing.standard import STANDARD, StandardProperties
from usagebill.core.usage import Usage
from usagebill.requests.inputs import Field
from usagebill.requests.reference.fields import FIELDS

pytestmark = [pytest.mark.now("2024-03-01T00:00:00Z"), pytest.mark.beyond_reference]


def smallest(question: Question, events: Iterable[Event]) -> AggregateResult:
    values = [value for event in events if (value := numeric_value(event, question.field_name)) is not None]
    return AggregateResult(units=min(values, default=ZERO), events_count=len(values))


SMALLEST = AggregationType(
    fold=smallest,
    field=FieldUse.NEEDED,
    numeric=True,
    may_recur=False,
    in_advance=False,
    by_percentage=True,
    accumulation=Accumulation.NOTHING,
    effect=EventEffect.UNKNOWN,
    running_totals=RunningTotals.NONE,
    event_values=numbers,
    sums_event_prices=False,
    is_program=False,
    words="smallest {field} of {events} events: {units}",
)


def squared(properties: StandardProperties, usage: Usage) -> Price:
    return Price(amount=multiply(multiply(usage.units, usage.units), properties.amount), divisor=usage.shown_units)


SQUARED = replace(STANDARD, name="squared", price=squared, is_linear=False, instant_price=None, of_fixed_charges=False)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch, shape_checkers: list[ShapeChecker]) -> Iterator[None]:
    monkeypatch.setitem(cast(dict[str, AggregationType], AGGREGATIONS), "smallest_agg", SMALLEST)
    monkeypatch.setitem(cast(dict[str, Any], MODELS), "squared", SQUARED)
    # The description lists what there was when it was loaded.
    fields = cast(dict[str, Field], FIELDS)
    for name, values in (("aggregation_type", tuple(AGGREGATIONS)), ("charge_model", tuple(MODELS))):
        monkeypatch.setitem(fields, name, replace(fields[name], values=values))
    usual, shape_checkers[0] = shape_checkers[0], ShapeChecker.of_description_now()
    yield
    shape_checkers[0] = usual


def invoiced(box: Scenario, charge: dict[str, object], *values: str) -> Any:
    """The invoice of March for a charge on the smallest value sent."""
    box.customer()
    box.plan({"billable_metric_id": box.metric("level", "smallest_agg"), **charge})
    box.subscribe()
    for value in values:
        box.event("level", value=value)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    return invoice


def test_a_new_aggregation_and_a_new_charge_model_come_to_an_invoice_an_explanation_and_a_pdf(box: Scenario) -> None:
    invoice = invoiced(box, {"charge_model": "squared", "properties": {"amount": "2"}}, "7", "3", "5")
    (fee,) = [fee for fee in invoice["fees"] if fee["item"]["type"] == "charge"]
    assert (Decimal(fee["units"]), fee["events_count"], fee["amount_cents"]) == (3, 3, 100 * 2 * 3**2)
    explained = str(box.billing.invoices.explain(invoice["svc_id"]))
    assert "smallest value of 3 events: 3" in explained
    pdf = box.billing.invoices.pdf(invoice["svc_id"])
    text = " ".join(page.extract_text() for page in PdfReader(BytesIO(pdf)).pages)
    assert "Level" in text
    assert "18.00" in text


def test_a_percentage_with_bounds_prices_the_single_events_of_a_new_aggregation(box: Scenario) -> None:
    terms = {"rate": "10", "per_transaction_min_amount": "1"}
    invoice = invoiced(box, {"charge_model": "percentage", "properties": terms}, "7", "30", "5")
    (fee,) = [fee for fee in invoice["fees"] if fee["item"]["type"] == "charge"]
    assert fee["amount_cents"] == 100 + 300 + 100


def test_bounds_on_single_events_are_refused_where_an_aggregation_has_no_values_of_them(
    box: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        cast(dict[str, AggregationType], AGGREGATIONS), "smallest_agg", replace(SMALLEST, event_values=None)
    )
    metric_id = box.metric("level", "smallest_agg")
    charge = charge_on(metric_id, "percentage", rate="10", per_transaction_min_amount="1")
    refused = box.post("/plans", status=422, plan=plan_fields(charge))
    assert refused["error_details"] == {"properties": ["invalid_value"]}
