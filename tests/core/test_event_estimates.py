"""Which charges bill an event at once, and with which value, in tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from tests.core.test_event_batches import CALLS, SPENT, TOKENS, event

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.errors import Invalid
from usagebill.core.event_estimates import evaluated, instant_units, is_instant
from usagebill.core.events import JsonValue
from usagebill.core.plans import Charge

NOW = datetime(2024, 3, 5, tzinfo=UTC)
CHARGE = Charge(
    id="charge",
    organization_id="o",
    plan_id="plan",
    billable_metric_id="tokens",
    code="tokens",
    charge_model="standard",
    properties={"amount": "1"},
    pay_in_advance=True,
    created_at=NOW,
    updated_at=NOW,
)
LEVEL = replace(TOKENS, aggregation_type="weighted_sum_agg")


@pytest.mark.parametrize(
    ("charge_model", "pay_in_advance", "expected"),
    [
        ("standard", True, True),
        ("percentage", True, True),
        ("standard", False, False),
        ("graduated", True, False),
        ("package", True, False),
        ("volume", True, False),
    ],
)
def test_which_charges_price_an_event_by_itself(charge_model: str, pay_in_advance: bool, expected: bool) -> None:
    assert is_instant(replace(CHARGE, charge_model=charge_model, pay_in_advance=pay_in_advance)) is expected


@pytest.mark.parametrize(
    ("metric", "properties", "is_refused"),
    [
        (TOKENS, {"total": "7"}, False),
        (TOKENS, {}, False),
        (TOKENS, {"total": "many"}, True),
        (CALLS, {"total": "many"}, False),
        (LEVEL, {"total": "many"}, False),
    ],
)
def test_values_that_are_no_numbers(metric: BillableMetric, properties: dict[str, JsonValue], is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(Invalid) as refused:
            evaluated(event("e", properties=properties), metric)
        assert refused.value.details == {"properties": ["value_is_not_valid_number"]}
    else:
        assert evaluated(event("e", properties=properties), metric) == event("e", properties=properties)


def test_an_expression_is_evaluated_before_the_event_is_priced() -> None:
    assert Decimal(str(evaluated(event("e", "spent", {"input": 3, "output": 4}), SPENT).properties["total"])) == 3 + 4
    assert evaluated(event("e", properties={"total": 1}), TOKENS) == event("e", properties={"total": 1})
    assert (
        evaluated(event("e", "spent", {"input": 3, "output": 4, "total": "many"}), SPENT).properties["total"] == "7.0"
    )
    with pytest.raises(Invalid):
        evaluated(event("e", "spent", {"input": 3}), SPENT)


@pytest.mark.parametrize(
    ("metric", "properties", "units"),
    [
        (CALLS, {}, 1),
        (TOKENS, {"total": "7.5"}, Decimal("7.5")),
        (TOKENS, {}, 0),
        (replace(TOKENS, rounding_function="ceil"), {"total": "7.5"}, 8),
    ],
)
def test_units_of_one_event(metric: BillableMetric, properties: dict[str, JsonValue], units: Decimal) -> None:
    assert instant_units(event("e", properties=properties), metric) == units
