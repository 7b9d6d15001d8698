"""What events would cost in advance, asked before they happen."""

from __future__ import annotations

from typing import Any

import pytest
from tests.money import percent, share
from tests.scenarios import Scenario, charge_in_advance_on, price_ranges

pytestmark = [pytest.mark.now("2025-09-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


def event_of(code: str, /, **fields: Any) -> dict[str, Any]:
    event_fields: dict[str, Any] = {
        key: fields.pop(key) for key in ("timestamp", "external_subscription_id") if key in fields
    }
    return {"code": code, "external_subscription_id": "sub", "properties": fields, **event_fields}


def estimated(box: Scenario, code: str, /, **fields: Any) -> list[dict[str, Any]]:
    return list(box.post("/events/estimate_fees", event=event_of(code, **fields))["fees"])


def instant(box: Scenario, code: str, /, **fields: Any) -> list[dict[str, Any]]:
    return list(box.post("/events/estimate_instant_fees", event=event_of(code, **fields))["fees"])


def refused(box: Scenario, path: str, **body: Any) -> tuple[int, Any]:
    status, answer = box.send("POST", f"/events/{path}", body)
    return status, answer.get("error_details", answer["code"])


def test_a_counted_event_always_costs_the_same(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("calls", "count_agg"), amount="10"))
    box.subscribe()
    for _ in range(2):
        (fee,) = estimated(box, "calls")
        assert (fee["amount_cents"], fee["units"]) == (1000, "1.0")
        box.event("calls")


def test_an_estimate_is_the_fee_without_ids(box: Scenario) -> None:
    box.tax()
    box.plan(charge_in_advance_on(box.metric("gb"), "percentage", rate="5", fixed_amount="1", free_units_per_events=1))
    box.subscribe()
    box.event("gb", value=8)
    (guess,) = estimated(box, "gb", value=3)
    box.event("gb", value=3)
    fee = box.get("/fees")["fees"][-1]
    (tax,) = fee["applied_taxes"]
    assert guess == {
        **fee,
        "svc_id": None,
        "created_at": None,
        "event_transaction_id": guess["event_transaction_id"],
        "applied_taxes": [{**tax, "svc_id": guess["applied_taxes"][0]["svc_id"], "svc_fee_id": None}],
    }
    fee_cents = percent(3_00, 5) + 1_00
    assert (guess["amount_cents"], guess["taxes_amount_cents"]) == (fee_cents, percent(fee_cents, 20))


def test_nothing_is_stored(box: Scenario) -> None:
    box.plan(
        charge_in_advance_on(box.metric("gb"), amount="10"),
        charge_in_advance_on(box.metric("calls", "count_agg"), amount="1"),
    )
    box.subscribe()
    estimated(box, "gb", value=4)
    instant(box, "calls")
    assert box.get("/fees")["fees"] == []
    assert box.get("/events")["events"] == []
    assert [message for message in box.webhooks if message["webhook_type"] == "fee.created"] == []


def test_the_least_of_a_transaction_counts_for_the_event_alone(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), "percentage", rate="0.5", per_transaction_min_amount="12"))
    box.subscribe()
    assert [fee["amount_cents"] for fee in estimated(box, "gb", value=4)] == [1200]
    box.event("gb", value=4)
    assert [fee["amount_cents"] for fee in estimated(box, "gb", value=20000)] == [percent(20_000_00, "0.5")]


def test_free_events_are_used_up_by_stored_ones(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), "percentage", rate="50", free_units_per_events=1))
    box.subscribe()
    assert [fee["amount_cents"] for fee in estimated(box, "gb", value=4)] == [0]
    box.event("gb", value=4)
    assert [fee["amount_cents"] for fee in estimated(box, "gb", value=4)] == [200]


def test_a_prorated_event_costs_the_days_that_are_left_from_now(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb", recurring=True), amount="10", prorated=True))
    box.subscribe()
    box.jump_to("2025-09-02T10:00:00Z")
    (fee,) = estimated(box, "gb", value=4, timestamp=0)
    assert (fee["amount_cents"], fee["units"]) == (share(4 * 1000, 29, 30), "4.0")
    box.event("gb", value=4)
    box.jump_to("2025-09-04T10:00:00Z")
    assert [fee["amount_cents"] for fee in estimated(box, "gb", value=4)] == [share(4 * 1000, 27, 30)]


def test_a_unique_value_costs_once(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("seats", "unique_count_agg"), amount="10"))
    box.subscribe()
    assert [fee["amount_cents"] for fee in estimated(box, "seats", value="a")] == [1000]
    box.event("seats", value="a")
    for operation in ("add", "remove"):
        (fee,) = estimated(box, "seats", value="a", operation_type=operation)
        assert (fee["amount_cents"], fee["units"]) == (0, "0.0")


def test_what_cannot_be_estimated(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="10"))
    box.metric("other")
    box.metric("made", expression="event.properties.a * 2")
    assert refused(box, "estimate_fees", event=event_of("gb")) == (404, "subscription_not_found")
    box.subscribe()
    details: dict[str, tuple[dict[str, Any], Any]] = {
        "gb": ({"value": "x"}, (422, {"properties": ["value_is_not_valid_number"]})),
        "other": ({"value": 1}, (422, {"code": ["does_not_match_an_instant_charge"]})),
        "made": ({}, (422, "expression_evaluation_failed: Variable: a not found")),
        "nothing": ({}, (404, "billable_metric_not_found")),
    }
    for code, (properties, expected) in details.items():
        assert refused(box, "estimate_fees", event=event_of(code, **properties)) == expected
    late = event_of("nothing", timestamp="2025-09-01")
    assert refused(box, "estimate_fees", event=late) == (422, {"timestamp": ["invalid_format"]})
    for blank in ({"external_subscription_id": ""}, {"external_subscription_id": "nobody"}):
        assert refused(box, "estimate_fees", event=event_of("gb", **blank)) == (404, "subscription_not_found")


@pytest.mark.beyond_reference
@pytest.mark.parametrize(
    ("unread", "expected"),
    [
        ({"properties": {"value": "12,50"}}, {"properties": ["value_is_not_valid_number"]}),
        ({"timestamp": "2025-09-01"}, {"timestamp": ["invalid_format"]}),
        (
            {"properties": {"value": 1}, "precise_total_amount_cents": "$1250"},
            {"precise_total_amount_cents": ["value_is_not_valid_number"]},
        ),
    ],
)
def test_what_cannot_be_read_is_not_estimated_as_something_else(
    box: Scenario, unread: dict[str, Any], expected: dict[str, list[str]]
) -> None:
    metric = box.metric("gb")
    box.plan(charge_in_advance_on(metric, amount="10"), charge_in_advance_on(metric, "dynamic"))
    box.subscribe()
    sent = {**event_of("gb", value=1), **unread}
    for path in ("estimate_fees", "estimate_instant_fees"):
        assert refused(box, path, event=sent) == (422, expected)
    status, answer = box.send("POST", "/events/batch_estimate_instant_fees", {"events": [event_of("gb"), sent]})
    assert (status, answer["error_details"]) == (422, expected)
    assert answer["message"].startswith("events[1]")


@pytest.mark.parametrize(
    ("model", "properties", "value", "amount", "units"),
    [
        ("percentage", {"rate": "0.1"}, 400, 40, "400.0"),
        ("percentage", {"rate": "10", "fixed_amount": "1", "per_transaction_max_amount": "2"}, 400, 200, "400.0"),
        ("percentage", {"rate": "10", "per_transaction_min_amount": "3"}, 1, 300, "1.0"),
        ("standard", {"amount": "10"}, 500, 500_000, "500.0"),
        ("standard", {"amount": "0.0001"}, "7", 0, "7.0"),
        ("standard", {"amount": "10"}, -5, 0, "-5.0"),
        ("standard", {"amount": "10"}, None, 0, "0.0"),
    ],
)
def test_an_event_by_itself(
    box: Scenario, model: str, properties: dict[str, Any], value: object, amount: int, units: str
) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), model, **properties))
    box.subscribe()
    box.event("gb", value=1000)
    (fee,) = instant(box, "gb", value=value)
    assert (fee["amount_cents"], fee["total_amount_cents"], fee["units"]) == (amount, amount, units)
    assert (fee["taxes_amount_cents"], fee["taxes_rate"], fee["svc_id"]) == (0, 0, None)


def test_an_instant_estimate_in_every_field(box: Scenario) -> None:
    metric = box.metric(
        "gb",
        rounding_function="ceil",
        filters=[{"key": "cloud", "values": ["aws"]}],
        expression="event.properties.test * 2",
    )
    filters = [{"values": {"cloud": ["aws"]}, "properties": {"amount": "0.0033"}}]
    plan = box.plan(charge_in_advance_on(metric, amount="1", filters=filters))
    subscription = box.subscribe()
    (fee,) = instant(box, "gb", test="199.9", cloud="aws")
    (charge,) = plan["charges"]
    assert fee["svc_charge_id"] == charge["svc_id"]
    assert fee["svc_charge_filter_id"] is not None
    assert fee["svc_subscription_id"] == subscription["svc_id"]
    assert fee["item"]["filters"] == {"cloud": ["aws"]}
    assert fee["item"]["filter_invoice_display_name"] == "aws"
    assert (fee["units"], fee["amount_cents"]) == ("400.0", 132)
    assert (fee["precise_amount"], fee["precise_unit_amount"]) == ("1.32", "0.33")
    assert fee["events_count"] == 1


def test_only_charges_of_single_events_are_estimated_at_once(box: Scenario) -> None:
    metric = box.metric("gb")
    graduated = price_ranges((0, None, "1", "0"))
    box.plan(
        charge_in_advance_on(metric, "graduated", graduated_ranges=graduated),
        {**charge_in_advance_on(metric, amount="2"), "pay_in_advance": False, "invoiceable": True},
    )
    box.subscribe()
    expected = (422, {"code": ["does_not_match_an_instant_charge"]})
    assert refused(box, "estimate_instant_fees", event=event_of("gb", value=1)) == expected
    assert refused(box, "batch_estimate_instant_fees", events=[event_of("gb", value=1)]) == expected


def test_a_batch_is_estimated_subscription_by_subscription(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.subscribe(external_id="second")
    events = [
        event_of("gb", value=1),
        event_of("gb", value=2, external_subscription_id="second"),
        event_of("unknown", value=3),
        event_of("gb", value=4),
    ]
    fees = box.post("/events/batch_estimate_instant_fees", events=events)["fees"]
    assert [(fee["external_subscription_id"], fee["amount_cents"]) for fee in fees] == [
        ("sub", 100),
        ("sub", 4 * 100),
        ("second", 200),
    ]
    events.append(event_of("gb", value=1, external_subscription_id="nobody"))
    assert refused(box, "batch_estimate_instant_fees", events=events) == (404, "subscription_not_found")
