"""Numbers that no business has are refused when they are written, with the field and a code."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, get_args

import pytest
from tests.input_fields import put, types
from tests.sample_records import invoiced, path_of, valid_bodies, world
from tests.scenarios import Scenario

from usagebill.core import limits
from usagebill.core.limits import Range
from usagebill.http.app import endpoints
from usagebill.http.endpoints import Endpoint
from usagebill.http.openapi import document
from usagebill.requests.inputs import range_of

WRITING = [endpoint for endpoint in endpoints() if endpoint.body is not None]


def limit_of(hint: Any) -> Range | None:
    return next((limit for option in get_args(hint) if (limit := range_of(option)) is not None), None)


LIMITED = [
    pytest.param(endpoint, place, limit, id=f"{endpoint.method} {endpoint.path} {'.'.join(map(str, place))}")
    for endpoint in WRITING
    if endpoint.body is not None
    for place, hint in types(endpoint.body)
    if (limit := limit_of(hint)) is not None
]


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        yield box


@pytest.fixture(scope="module")
def known(box: Scenario) -> dict[str, str]:
    known = world(box)
    invoiced(box, known)
    return known


def refusal(box: Scenario, known: dict[str, str], endpoint: Endpoint, place: tuple[str | int, ...], value: Any) -> Any:
    """The refusal of `value` at `place` in an otherwise valid body."""
    assert endpoint.body is not None
    body = put(valid_bodies(known).get(endpoint.body.__name__, {}), place, value)
    path = path_of(endpoint, known, {})
    status, answer = box.request(endpoint.method, path, json=body if endpoint.root is None else {endpoint.root: body})
    assert status == 422, answer
    return answer["error_details"]


@pytest.mark.parametrize("body", dict.fromkeys(endpoint.body for endpoint in WRITING if endpoint.body is not None))
def test_every_number_that_is_read_has_a_range(body: type) -> None:
    bare = [place for place, hint in types(body) if {int, Decimal} & set(get_args(hint))]
    assert bare == []


@pytest.mark.parametrize(("endpoint", "place", "limit"), LIMITED)
def test_a_number_beyond_its_range_is_refused(
    box: Scenario, known: dict[str, str], endpoint: Endpoint, place: tuple[str | int, ...], limit: Range
) -> None:
    most = int(limit.most)
    for value in (most + 1, -most - 1, str(most + 1)):
        assert refusal(box, known, endpoint, place, value) == {str(place[-1]): ["value_is_out_of_range"]}
    # Integer fields truncate fractions, as they always did.
    if limit.decimals and limit is not limits.INVOICE_PART:
        tiny = f"0.{'0' * limit.decimals}1"
        assert refusal(box, known, endpoint, place, tiny) == {str(place[-1]): ["value_is_out_of_range"]}


AMOUNT = "10000000000000.01"
RANGE = {"from_value": 0, "to_value": None, "per_unit_amount": "1", "flat_amount": "1"}
PERCENT = {"from_value": 0, "to_value": None, "rate": "1", "flat_amount": "1"}


@pytest.mark.parametrize(
    ("model", "properties", "code"),
    [
        ("standard", {"amount": "1e9999"}, "invalid_amount"),
        ("standard", {"amount": AMOUNT}, "invalid_amount"),
        ("standard", {"amount": "0." + "0" * 30 + "1"}, "invalid_amount"),
        ("package", {"amount": AMOUNT, "package_size": 1, "free_units": 0}, "invalid_amount"),
        ("package", {"amount": "1", "package_size": 10**30 + 1, "free_units": 0}, "invalid_package_size"),
        ("package", {"amount": "1", "package_size": 1, "free_units": 10**30 + 1}, "invalid_free_units"),
        ("percentage", {"rate": "1000000.1"}, "invalid_rate"),
        ("percentage", {"rate": "1", "fixed_amount": AMOUNT}, "invalid_fixed_amount"),
        ("percentage", {"rate": "1", "free_units_per_events": 10**12 + 1}, "invalid_free_units_per_events"),
        (
            "percentage",
            {"rate": "1", "free_units_per_total_aggregation": "1e31"},
            "invalid_free_units_per_total_aggregation",
        ),
        ("percentage", {"rate": "1", "per_transaction_min_amount": AMOUNT}, "invalid_amount"),
        ("percentage", {"rate": "1", "per_transaction_max_amount": AMOUNT}, "invalid_amount"),
        ("graduated", {"graduated_ranges": [{**RANGE, "per_unit_amount": AMOUNT}]}, "invalid_amount"),
        ("graduated", {"graduated_ranges": [{**RANGE, "flat_amount": AMOUNT}]}, "invalid_amount"),
        (
            "graduated",
            {"graduated_ranges": [{**RANGE, "to_value": 10**30 + 1}, {**RANGE, "from_value": 10**30 + 2}]},
            "invalid_graduated_ranges",
        ),
        ("volume", {"volume_ranges": [{**RANGE, "per_unit_amount": AMOUNT}]}, "invalid_amount"),
        ("volume", {"volume_ranges": [{**RANGE, "flat_amount": AMOUNT}]}, "invalid_amount"),
        ("graduated_percentage", {"graduated_percentage_ranges": [{**PERCENT, "rate": "1000001"}]}, "invalid_rate"),
        (
            "graduated_percentage",
            {"graduated_percentage_ranges": [{**PERCENT, "flat_amount": AMOUNT}]},
            "invalid_amount",
        ),
    ],
)
def test_prices_beyond_their_range_are_refused(
    box: Scenario, known: dict[str, str], model: str, properties: dict[str, Any], code: str
) -> None:
    charge = {"billable_metric_id": known["metric"], "code": "odd", "charge_model": model, "properties": properties}
    status, answer = box.request("POST", "/api/v1/plans/unused/charges", json={"charge": charge})
    assert status == 422
    assert code in answer["error_details"]["properties"]


@pytest.mark.parametrize(
    ("path", "root", "fields", "field"),
    [
        ("/plans/unused", "plan", {"amount_cents": -1}, "amount_cents"),
        ("/plans/unused", "plan", {"amount_cents": 10**15 + 1}, "amount_cents"),
        ("/plans/unused", "plan", {"trial_period": -1}, "trial_period"),
        ("/taxes/vat", "tax", {"rate": -150}, "rate"),
        ("/taxes/vat", "tax", {"rate": "1000.1"}, "rate"),
        ("/coupons/half", "coupon", {"percentage_rate": "100.1"}, "percentage_rate"),
        ("/coupons/half", "coupon", {"percentage_rate": -1}, "percentage_rate"),
        ("/coupons/half", "coupon", {"frequency": "recurring", "frequency_duration": 0}, "frequency_duration"),
        ("/billing_entities/default", "billing_entity", {"net_payment_term": 1704067200}, "net_payment_term"),
        (
            "/billing_entities/default",
            "billing_entity",
            {"billing_configuration": {"invoice_grace_period": 1704067200}},
            "invoice_grace_period",
        ),
        ("/plans/unused/fixed_charges/seats", "fixed_charge", {"units": "1e31"}, "units"),
        ("/plans/unused/fixed_charges/seats", "fixed_charge", {"units": -1}, "units"),
    ],
)
def test_a_number_outside_its_range_changes_nothing(
    box: Scenario, known: dict[str, str], path: str, root: str, fields: dict[str, Any], field: str
) -> None:
    half = {"name": "Half", "code": "half", "coupon_type": "percentage", "percentage_rate": 50, "frequency": "once"}
    box.request("POST", "/api/v1/coupons", json={"coupon": {**half, "expiration": "no_expiration"}})
    before = box.request("GET", f"/api/v1{path}")
    assert before[0] == 200
    status, answer = box.request("PUT", f"/api/v1{path}", json={root: fields})
    assert (status, answer["error_details"]) == (422, {field: ["value_is_out_of_range"]})
    assert box.request("GET", f"/api/v1{path}") == before


def test_a_conversion_rate_beyond_its_range_is_refused(box: Scenario, known: dict[str, str]) -> None:
    box.billing.pricing_units.create(name="Credits", code="credits", short_name="CR")
    for rate in ("0", "-1", "1000000000000.1", "0." + "0" * 30 + "1"):
        unit = {"code": "credits", "conversion_rate": rate}
        charge = {"billable_metric_id": known["metric"], "code": "odd", "charge_model": "standard"}
        sent = {**charge, "properties": {"amount": "1"}, "applied_pricing_unit": unit}
        status, answer = box.request("POST", "/api/v1/plans/unused/charges", json={"charge": sent})
        assert (status, answer["error_details"]) == (422, {"conversion_rate": ["value_is_out_of_range"]})


def test_a_price_has_at_most_a_thousand_ranges(box: Scenario, known: dict[str, str]) -> None:
    def answer(count: int) -> tuple[int, Any]:
        tiers = [{**RANGE, "from_value": start, "to_value": start + 1} for start in range(0, 2 * count, 2)]
        tiers[-1]["to_value"] = None
        charge = {"billable_metric_id": known["metric"], "code": f"tiers{count}", "charge_model": "graduated"}
        return box.send(
            "POST", "/plans/unused/charges", {"charge": {**charge, "properties": {"graduated_ranges": tiers}}}
        )

    assert answer(1000)[0] == 200
    status, refused = answer(1001)
    assert (status, refused["error_details"]) == (422, {"properties": ["invalid_graduated_ranges"]})


def test_the_description_of_the_api_says_the_ranges() -> None:
    schemas: Any = document(endpoints())["components"]["schemas"]
    assert {name: schemas["TaxInput"]["properties"]["rate"][name] for name in ("minimum", "maximum")} == {
        "minimum": 0,
        "maximum": 1000,
    }
    fee = schemas["PlanUpdate"]["properties"]["amount_cents"]
    assert (fee["type"], fee["minimum"], fee["maximum"]) == (["integer", "null"], 0, 10**15)
