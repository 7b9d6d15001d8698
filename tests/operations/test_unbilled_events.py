"""Events that are not billed: each reason, until what they lack is there, and never one that a fee has counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from structlog.testing import capture_logs
from tests.examples import examples
from tests.json_asserts import refused
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, filter_on

from usagebill.core.monitoring_tasks import CountUnbilledEvents
from usagebill.operations import unbilled_events
from usagebill.operations.standing import standing
from usagebill.process.settings import Settings

pytestmark = pytest.mark.beyond_reference


@pytest.fixture
def box() -> Iterator[Scenario]:
    """A subscription to a metered plan since 1 March 2024, 12:00:00.6."""
    with Scenario(now="2024-03-01T12:00:00.600Z") as box:
        box.customer()
        filters = [{"key": "region", "values": ["eu", "us"]}]
        charges = [
            charge_on(
                box.metric("tokens", field_name="tokens", filters=filters),
                amount="1",
                filters=[filter_on({"region": ["eu"]}, amount="2")],
            ),
            charge_on(box.metric("calls", "count_agg"), amount="1"),
            charge_on(box.metric("seats", "unique_count_agg", field_name="seat"), amount="1"),
        ]
        box.metric("unpriced", "count_agg")
        box.plan(*charges)
        box.subscribe()
        yield box


def unbilled(box: Scenario, query: str = "") -> list[tuple[str, str, bool | None]]:
    """Transaction id, reason and openness of each, latest first."""
    listed = box.get(f"/events?unbilled=true{query}")
    rows = [
        (row["transaction_id"], row["unbilled"]["code"], row["unbilled"]["period_is_open"]) for row in listed["events"]
    ]
    assert listed["meta"]["total_count"] == len(rows)
    return rows


def send(box: Scenario, id: str, code: str = "calls", subscription: str | None = "sub", **fields: Any) -> None:
    properties = fields.pop("properties", {})
    event = {"transaction_id": id, "code": code, "external_subscription_id": subscription, **fields}
    box.post("/events", event={**event, "properties": properties})


MARCH_10 = 1710072000
REASONS: dict[str, tuple[dict[str, Any], str, bool | None, str]] = {
    "no subscription named": ({"subscription": None}, "subscription_missing", None, "names no subscription"),
    "unknown subscription": ({"subscription": "nosub"}, "subscription_not_found", None, "'nosub'"),
    "a letter off": ({"subscription": "subb"}, "subscription_not_found", None, "was 'sub' meant?"),
    "before the start": ({"timestamp": 1709290000}, "subscription_not_active", None, "had not started"),
    "unknown metric": ({"code": "nothing"}, "billable_metric_not_found", True, "'nothing'"),
    "metric a letter off": ({"code": "call"}, "billable_metric_not_found", True, "was 'calls' meant?"),
    "no charge on the metric": ({"code": "unpriced"}, "charge_not_found", True, "no charge on"),
    "no property": ({"code": "tokens"}, "property_missing", True, "needs the property 'tokens'"),
    "property a letter off": (
        {"code": "tokens", "properties": {"token": 5}},
        "property_missing",
        True,
        "was 'token' meant?",
    ),
    "null": ({"code": "tokens", "properties": {"tokens": None}}, "property_missing", True, "needs"),
    "not a number": (
        {"code": "tokens", "properties": {"tokens": "five"}},
        "property_not_numeric",
        True,
        "is not a number",
    ),
    "too long a number": (
        {"code": "tokens", "properties": {"tokens": "9" * 65}},
        "property_not_numeric",
        True,
        "number",
    ),
    "no value to be unique": ({"code": "seats"}, "property_missing", True, "'seat'"),
    "unknown operation": (
        {"code": "seats", "properties": {"seat": "a", "operation_type": "delete"}},
        "operation_type_unknown",
        True,
        "neither 'add' nor 'remove'",
    ),
}


@pytest.mark.parametrize(("sent", "code", "is_open", "hint"), REASONS.values(), ids=REASONS)
def test_every_reason_is_reported(
    box: Scenario, sent: dict[str, Any], code: str, is_open: bool | None, hint: str
) -> None:
    box.travel_to("2024-03-10T12:00:00Z")
    send(box, "bad", **sent)
    assert unbilled(box) == [("bad", code, is_open)]
    (event,) = box.billing.events.unbilled().items
    assert hint in event.message
    assert box.billing.view(event)["unbilled"]["code"] == code
    (tally,) = box.billing.events.unbilled_tallies()
    assert (str(tally.reason), tally.events_count) == (code, 1)


UNPRICED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no price": ({}, "amount_missing", "needs a price"),
    "null": ({"precise_total_amount_cents": None}, "amount_missing", "needs a price"),
    "blank": ({"precise_total_amount_cents": " "}, "amount_missing", "needs a price"),
    "a decimal comma": ({"precise_total_amount_cents": "12,50"}, "amount_not_numeric", "'12,50'"),
    "a currency": ({"precise_total_amount_cents": "$1250"}, "amount_not_numeric", "'$1250'"),
    "no scalar": ({"precise_total_amount_cents": [1]}, "amount_not_numeric", "'[1]'"),
    "true": ({"precise_total_amount_cents": True}, "amount_not_numeric", "'true'"),
    "beyond what is stored": ({"precise_total_amount_cents": "1e40"}, "amount_not_numeric", "'1e40'"),
}


@pytest.mark.parametrize("in_advance", [False, True], ids=["arrears", "advance"])
@pytest.mark.parametrize(("sent", "code", "hint"), UNPRICED.values(), ids=UNPRICED)
def test_an_event_without_a_price_that_a_dynamic_charge_needs_is_reported(
    sent: dict[str, Any], code: str, hint: str, in_advance: bool
) -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("jobs", field_name="seconds")
        box.plan({"billable_metric_id": metric, "charge_model": "dynamic", "pay_in_advance": in_advance})
        box.plan(charge_on(metric, amount="1"), code="by_units")
        box.subscribe()
        box.subscribe("by_units", external_id="by units")
        priced: dict[str, Any] = {"code": "jobs", "properties": {"seconds": 10}, "precise_total_amount_cents": "1250"}
        send(box, "good", **priced)
        send(box, "bad", **{**priced, "precise_total_amount_cents": None, **sent})
        send(
            box,
            "billed by its units",
            subscription="by units",
            **{**priced, "precise_total_amount_cents": None, **sent},
        )
        assert unbilled(box) == [("bad", code, True)]
        (event,) = box.billing.events.unbilled().items
        assert hint in event.message
        assert box.get("/events/bad")["event"]["precise_total_amount_cents"] is None
        (tally,) = box.billing.events.unbilled_tallies()
        assert (str(tally.reason), tally.events_count) == (code, 1)
        usage = box.get("/customers/acme/current_usage?external_subscription_id=sub")["customer_usage"]
        assert usage["amount_cents"] == 1250
        box.travel_to("2024-04-01T01:00:00Z")
        assert [(id, reason) for id, reason, _ in unbilled(box)] == [("bad", code)]


def test_a_charge_that_was_not_dynamic_when_its_period_was_billed_needed_no_price(box: Scenario) -> None:
    box.travel_to("2024-03-10T12:00:00Z")
    send(box, "by its units", code="tokens", properties={"tokens": 1})
    box.travel_to("2024-04-01T01:00:00Z")
    metric = box.get("/billable_metrics/tokens")["billable_metric"]["svc_id"]
    box.put("/plans/basic", plan={"charges": [{"billable_metric_id": metric, "charge_model": "dynamic"}]})
    send(box, "without its price", code="tokens", properties={"tokens": 1})
    assert unbilled(box) == [("without its price", "amount_missing", True)]


def test_two_charges_in_advance_on_one_metric_bill_an_event_each_and_list_what_one_of_them_lacks() -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        filters = [{"key": "region", "values": ["eu", "us"]}]
        metric = box.metric("jobs", field_name="seconds", filters=filters)
        # Both charges count every event: in eu at 2.00 and 3.00 a second, elsewhere at 1.00 and 1.00.
        eu = {"region": ["eu"]}
        box.plan(
            charge_in_advance_on(metric, amount="1", filters=[filter_on(eu, amount="2")]),
            charge_in_advance_on(metric, amount="1", code="more", filters=[filter_on(eu, amount="3")]),
        )
        box.subscribe()
        send(box, "eu", code="jobs", properties={"seconds": 1, "region": "eu"})
        send(box, "us", code="jobs", properties={"seconds": 1, "region": "us"})
        assert sorted(fee["amount_cents"] for fee in box.usage_fees()) == [100, 100, 200, 300]
        usage = box.get("/customers/acme/current_usage?external_subscription_id=sub")["customer_usage"]
        assert usage["amount_cents"] == 200 + 300 + 100 + 100
        assert unbilled(box) == []
        # A dynamic charge beside them from tomorrow on: only what comes then needs a price.
        box.travel_to("2024-03-02T00:00:00Z")
        dynamic = {"billable_metric_id": metric, "charge_model": "dynamic", "pay_in_advance": True, "code": "dynamic"}
        box.post("/plans/basic/charges", charge=dynamic)
        box.travel_to("2024-03-03T00:00:00Z")
        send(box, "unpriced", code="jobs", properties={"seconds": 1}, precise_total_amount_cents="12,50")
        send(box, "priced", code="jobs", properties={"seconds": 1}, precise_total_amount_cents="1250")
        assert unbilled(box) == [("unpriced", "amount_not_numeric", True)]
        added = [
            fee["amount_cents"] for fee in box.usage_fees() if fee["event_transaction_id"] in ("unpriced", "priced")
        ]
        assert sorted(added) == [0, 100, 100, 100, 100, 1250]
        box.travel_to("2024-04-01T01:00:00Z")
        assert unbilled(box) == [("unpriced", "amount_not_numeric", False)]


BILLED: dict[str, dict[str, Any]] = {
    "a whole second before a start within it": {"timestamp": 1709294400},
    "a number as text": {"code": "tokens", "properties": {"tokens": "5"}},
    "a fraction": {"code": "tokens", "properties": {"tokens": 0.5}},
    "a value that no filter declares": {"code": "tokens", "properties": {"tokens": 1, "region": "eu-wets"}},
    "a removal": {"code": "seats", "properties": {"seat": "a", "operation_type": "remove"}},
}


@pytest.mark.parametrize("sent", BILLED.values(), ids=BILLED)
def test_what_is_billed_is_not_listed(box: Scenario, sent: dict[str, Any]) -> None:
    send(box, "good", **sent)
    assert unbilled(box) == []


def test_lists_narrow_and_page(box: Scenario) -> None:
    box.travel_to("2024-03-10T12:00:00Z")
    for number in range(5):
        send(box, f"t{number}", subscription=f"none-{number % 2}", timestamp=MARCH_10 + number)
    send(box, "good")
    send(box, "mute", code="tokens", timestamp=MARCH_10)
    assert [id for id, _, _ in unbilled(box)] == ["t4", "t3", "t2", "t1", "mute", "t0"]
    assert [id for id, _, _ in unbilled(box, "&external_subscription_id=none-1")] == ["t3", "t1"]
    assert [id for id, _, _ in unbilled(box, "&code=tokens")] == ["mute"]
    assert [id for id, _, _ in unbilled(box, "&timestamp_from=2024-03-10T12:00:03Z")] == ["t4", "t3"]
    page = box.get("/events?unbilled=true&per_page=2&page=2")
    assert [row["transaction_id"] for row in page["events"]] == ["t2", "t1"]
    assert page["meta"]["total_count"] == 6
    assert "unbilled" not in box.get("/events")["events"][0]


def test_an_event_leaves_the_list_once_its_metric_is_priced_in_time(box: Scenario) -> None:
    box.travel_to("2024-03-10T12:00:00Z")
    send(box, "early", code="gb", properties={"gb": 3})
    send(box, "wrong", code="gb", properties={"GB": 3})
    assert unbilled(box) == [(id, "billable_metric_not_found", True) for id in ("early", "wrong")]
    metric = box.metric("gb", field_name="gb")
    assert unbilled(box) == [(id, "charge_not_found", True) for id in ("early", "wrong")]
    box.post("/plans/basic/charges", charge=charge_on(metric, amount="1", code="gb"))
    assert unbilled(box) == [("wrong", "property_missing", True)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert _billed_units(box, "gb") == 3
    assert unbilled(box) == [("wrong", "property_missing", False)]


def test_what_comes_too_late_stays_with_another_reason(box: Scenario) -> None:
    send(box, "march", code="gb", properties={"gb": 3})
    box.travel_to("2024-04-02T01:00:00Z")
    send(box, "april", code="gb", properties={"gb": 4})
    assert unbilled(box) == [
        ("april", "billable_metric_not_found", True),
        ("march", "billable_metric_not_found", False),
    ]
    box.post("/plans/basic/charges", charge=charge_on(box.metric("gb", field_name="gb"), amount="1", code="gb"))
    assert unbilled(box) == [("march", "period_closed", False)]
    box.travel_to("2024-05-01T01:00:00Z")
    assert _billed_units(box, "gb") == 4
    assert unbilled(box) == [("march", "period_closed", False)]


def test_what_comes_after_the_invoice_of_its_period_is_listed(box: Scenario) -> None:
    box.travel_to("2024-03-31T23:00:00Z")
    send(box, "in time", timestamp=MARCH_10)
    box.travel_to("2024-04-02T01:00:00Z")
    send(box, "late", timestamp=MARCH_10)
    send(box, "of april")
    assert unbilled(box) == [("late", "period_already_billed", False)]
    (event,) = box.billing.events.unbilled().items
    assert event.message == "the event came after its period had been billed"
    box.travel_to("2024-05-01T01:00:00Z")
    assert _billed_units(box, "calls") == 2
    assert [id for id, _, _ in unbilled(box)] == ["late"]


def test_what_comes_at_the_instant_of_a_run_is_listed(box: Scenario) -> None:
    box.travel_to("2024-04-01T00:05:00Z")
    due = box.billing.next_due()
    assert due is not None
    box.travel_to(due)
    send(box, "at that instant", timestamp=MARCH_10)
    assert unbilled(box) == [("at that instant", "period_already_billed", False)]


def test_what_comes_after_a_bill_ahead_of_the_clock_is_listed(box: Scenario) -> None:
    box.travel_to("2024-03-20T00:00:00Z")
    send(box, "in time", timestamp=MARCH_10)
    box.billing.run_due(datetime(2024, 4, 2, tzinfo=UTC), strict=True)
    box.jump_to("2024-03-21T00:00:00Z")
    send(box, "late", timestamp=MARCH_10)
    assert _billed_units(box, "calls") == 1
    assert unbilled(box) == [("late", "period_already_billed", False)]
    box.travel_to("2024-04-03T00:00:00Z")
    assert _billed_units(box, "calls") == 1
    assert unbilled(box) == [("late", "period_already_billed", False)]


def test_what_comes_within_the_millisecond_of_an_end_is_billed_and_not_listed(box: Scenario) -> None:
    box.travel_to("2024-03-10T12:00:00.000300Z")
    send(box, "before", timestamp="1710072000.000300")
    box.travel_to("2024-03-10T12:00:00.000700Z")
    box.delete("/subscriptions/sub")
    assert _billed_units(box, "calls") == 1
    assert unbilled(box) == []


def test_what_comes_in_the_last_microsecond_before_a_downgrade_is_billed_and_not_listed(box: Scenario) -> None:
    box.plan(code="less")
    box.put("/plans/basic", plan={"amount_cents": 100})
    box.subscribe(plan_code="less")
    box.travel_to("2024-03-31T23:59:59.999999Z")
    send(box, "last", timestamp="1711929599.999999")
    box.travel_to("2024-04-02T00:00:00Z")
    assert _billed_units(box, "calls") == 1
    assert unbilled(box) == []


@pytest.mark.parametrize("grace", [0, 3])
def test_what_comes_at_the_instant_of_an_upgrade_after_it_is_billed_by_the_new_plan_and_not_listed(
    box: Scenario, grace: int
) -> None:
    box.entity(billing_configuration={"invoice_grace_period": grace})
    metric = box.metric("extra", "count_agg")
    box.plan(charge_on(metric, amount="1"), code="more", amount_cents=100)
    box.travel_to("2024-03-10T12:00:00Z")
    box.subscribe(plan_code="more")
    send(box, "after", code="extra", timestamp="1710072000")
    assert unbilled(box) == []
    box.travel_to("2024-04-05T00:00:00Z")
    assert _billed_units(box, "extra") == 1
    assert unbilled(box) == []


def test_what_comes_between_the_end_of_a_period_and_its_billing_is_billed(box: Scenario) -> None:
    box.travel_to("2024-04-01T00:05:00Z")
    send(box, "a little late", timestamp=MARCH_10)
    box.travel_to("2024-04-02T01:00:00Z")
    assert _billed_units(box, "calls") == 1
    assert unbilled(box) == []


def test_a_draft_takes_what_comes_late_until_it_is_final(box: Scenario) -> None:
    box.entity(billing_configuration={"invoice_grace_period": 3})
    box.travel_to("2024-04-02T01:00:00Z")
    send(box, "late", timestamp=MARCH_10)
    assert unbilled(box) == []
    box.travel_to("2024-04-05T01:00:00Z")
    send(box, "too late", timestamp=MARCH_10)
    assert _billed_units(box, "calls") == 1
    assert unbilled(box) == [("too late", "period_already_billed", False)]
    invoice = box.invoices()[-1]
    box.post(f"/invoices/{invoice['svc_id']}/void")
    assert unbilled(box) == [("too late", "period_already_billed", False)]


@pytest.mark.parametrize("by", ["charge", "metric"])
def test_at_the_instant_of_a_change_of_charges_in_advance_what_came_first_decides(box: Scenario, by: str) -> None:
    """On a clock that stands still: events before a charge, with it, and after it are each on a fee or on the list."""
    metric = box.metric("advance", "count_agg")
    box.travel_to("2024-03-10T00:00:00Z")
    send(box, "before", code="advance")
    box.post("/plans/basic/charges", charge=charge_in_advance_on(metric, amount="1", code="advance"))
    send(box, "first", code="advance")
    assert [id for id, _, _ in unbilled(box)] == ["before"]
    box.travel_to("2024-03-11T00:00:00Z")
    send(box, "last", code="advance")
    box.delete("/plans/basic/charges/advance" if by == "charge" else "/billable_metrics/advance")
    send(box, "after", code="advance")
    billed = [fee["event_transaction_id"] for fee in box.get("/fees?fee_type=charge")["fees"]]
    assert sorted(billed) == ["first", "last"]
    assert sorted(id for id, _, _ in unbilled(box)) == ["after", "before"]


def test_what_a_charge_in_advance_or_a_later_period_counts_is_never_too_late(box: Scenario) -> None:
    metric = box.metric("advance", "count_agg")
    box.post("/plans/basic/charges", charge=charge_in_advance_on(metric, amount="1", code="advance"))
    level = box.metric("level", "sum_agg", field_name="level", recurring=True)
    box.post("/plans/basic/charges", charge=charge_on(level, amount="1", code="level"))
    box.travel_to("2024-04-02T01:00:00Z")
    send(box, "advance", code="advance", timestamp=MARCH_10)
    send(box, "level", code="level", timestamp=MARCH_10, properties={"level": 5})
    assert unbilled(box) == []
    box.travel_to("2024-05-01T01:00:00Z")
    assert (_billed_units(box, "advance"), _billed_units(box, "level")) == (1, 5)
    box.unsubscribe()
    box.travel_to("2024-05-02T00:00:00Z")
    send(box, "too late", code="level", timestamp=MARCH_10, properties={"level": 5})
    send(box, "advance too", code="advance", timestamp=MARCH_10)
    assert unbilled(box) == [("too late", "period_already_billed", False)]


def test_usage_that_passed_a_threshold_closes_no_period(box: Scenario) -> None:
    box.put("/plans/basic", plan={"usage_thresholds": [{"amount_cents": 100}]})
    box.travel_to("2024-03-10T12:00:00Z")
    send(box, "passes it")
    assert [invoice["invoice_type"] for invoice in box.invoices()] == ["progressive_billing"]
    box.travel_to("2024-03-12T12:00:00Z")
    send(box, "of an earlier day", timestamp=MARCH_10)
    send(box, "wrong", code="tokens")
    assert unbilled(box) == [("wrong", "property_missing", True)]


def test_an_event_of_the_second_of_an_upgrade_is_late_for_the_plan_that_it_belongs_to(box: Scenario) -> None:
    charges = [charge_on(box.get("/billable_metrics/calls")["billable_metric"]["svc_id"], amount="1")]
    box.plan(*charges, code="bigger", amount_cents=10000)
    box.travel_to("2024-03-10T12:00:00.600Z")
    box.subscribe("bigger")
    box.travel_to("2024-03-10T12:00:00.900Z")
    send(box, "of the new plan", timestamp=MARCH_10)
    send(box, "of the old plan", timestamp=MARCH_10 - 1)
    assert unbilled(box) == [("of the old plan", "period_already_billed", False)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert _billed_units(box, "calls") == 1
    send(box, "of the new plan too", timestamp=MARCH_10)
    assert [id for id, _, _ in unbilled(box)] == ["of the new plan too", "of the old plan"]


def test_monitoring_shows_what_was_counted_last(box: Scenario) -> None:
    box.billing.writing(unbilled_events.schedule)
    box.travel_to("2024-04-02T01:00:00Z")
    send(box, "late", timestamp=MARCH_10)
    assert standing(box.billing.store, box.now).unbilled == {}
    box.travel_to("2024-04-02T07:00:00Z")
    assert standing(box.billing.store, box.now).unbilled == {"period_already_billed": 1}


def test_a_subscription_made_later_counts_what_came_in_its_time(box: Scenario) -> None:
    for id, day in (("january", "2024-01-10"), ("march", "2024-03-01")):
        send(box, id, subscription="late", timestamp=datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
    assert [reason for _, reason, _ in unbilled(box)] == ["subscription_not_found"] * 2
    box.subscribe(external_id="late", subscription_at="2024-01-05T00:00:00Z")
    # Billing begins with the period in which the subscription was made.
    assert unbilled(box) == [("january", "period_closed", False)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert _billed_units(box, "calls") == 1
    assert unbilled(box) == [("january", "period_closed", False)]


def test_what_comes_after_an_end_or_between_two_is_listed(box: Scenario) -> None:
    box.travel_to("2024-03-05T00:00:00.500Z")
    box.unsubscribe()
    box.travel_to("2024-03-08T00:00:00.500Z")
    box.subscribe()
    for id, text in (
        ("in the last second", "2024-03-05T00:00:00"),
        ("after", "2024-03-05T00:00:01"),
        ("between", "2024-03-07T23:59:59"),
        ("in the first second", "2024-03-08T00:00:00"),
    ):
        send(box, id, timestamp=int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()))
    assert [(id, reason) for id, reason, _ in unbilled(box)] == [
        ("between", "subscription_not_active"),
        ("after", "subscription_not_active"),
        ("in the last second", "period_already_billed"),
    ]


def test_pending_subscriptions_bill_nothing_yet(box: Scenario) -> None:
    box.subscribe(external_id="later", subscription_at="2024-06-01T00:00:00Z")
    send(box, "soon", subscription="later")
    assert unbilled(box) == [("soon", "subscription_not_active", None)]


def test_a_metric_that_is_made_again_with_another_field_counts_by_that(box: Scenario) -> None:
    box.travel_to("2024-03-10T12:00:00Z")
    send(box, "old", code="gb", properties={"size": 3})
    box.metric("gb", field_name="gb")
    box.put("/billable_metrics/gb", billable_metric={"field_name": "size"})
    metric = box.get("/billable_metrics/gb")["billable_metric"]["svc_id"]
    box.post("/plans/basic/charges", charge=charge_on(metric, amount="1", code="gb"))
    assert unbilled(box) == []


def test_events_before_a_charge_in_advance_are_listed(box: Scenario) -> None:
    send(box, "before", code="unpriced")
    box.travel_to("2024-03-10T12:00:00Z")
    metric = box.get("/billable_metrics/unpriced")["billable_metric"]["svc_id"]
    box.post("/plans/basic/charges", charge=charge_in_advance_on(metric, amount="1", code="unpriced"))
    box.travel_to("2024-03-10T12:00:01Z")
    send(box, "after", code="unpriced")
    assert unbilled(box) == [("before", "period_closed", True)]
    assert _billed_units(box, "unpriced") == 1


@pytest.mark.parametrize("bill_from", ["now", "current_period", "start"])
def test_events_before_a_start_in_the_past_are_listed_if_their_charge_in_advance_is_gone(
    box: Scenario, bill_from: str
) -> None:
    metric = box.get("/billable_metrics/unpriced")["billable_metric"]["svc_id"]
    box.plan(charge_in_advance_on(metric, amount="1", code="unpriced"), code="other")
    box.travel_to("2024-03-10T12:00:00Z")
    send(box, "early", code="unpriced", external_subscription_id="later")
    box.travel_to("2024-03-11T12:00:00Z")
    box.delete("/plans/other/charges/unpriced")
    box.travel_to("2024-03-12T12:00:00Z")
    box.subscribe("other", external_id="later", subscription_at="2024-03-05T00:00:00Z", bill_from=bill_from)
    box.run_due()
    assert _billed_units(box, "unpriced") == 0
    assert unbilled(box) == [("early", "charge_not_found", True)]


def test_usage_before_the_run_of_a_downgrade_is_listed_if_its_charge_in_advance_is_gone_by_then(box: Scenario) -> None:
    metric = box.get("/billable_metrics/unpriced")["billable_metric"]["svc_id"]
    box.plan(charge_in_advance_on(metric, amount="1", code="unpriced"), code="smaller")
    box.put("/plans/basic", plan={"amount_cents": 100})
    box.subscribe("smaller")
    box.travel_to("2024-04-01T00:05:00Z")
    send(box, "early", code="unpriced")
    box.travel_to("2024-04-01T00:06:00Z")
    box.delete("/plans/smaller/charges/unpriced")
    box.travel_to("2024-05-02T00:00:00Z")
    assert _billed_units(box, "unpriced") == 0
    assert [(id, code) for id, code, _ in unbilled(box)] == [("early", "charge_not_found")]


@pytest.mark.parametrize("ends", [False, True], ids=["running", "ended"])
def test_a_seat_that_came_before_its_charge_in_advance_leaves_the_list_with_its_renewal(
    box: Scenario, ends: bool
) -> None:
    metric = box.metric("places", "unique_count_agg", field_name="place", recurring=True)
    send(box, "before", code="places", properties={"place": "a"})
    box.travel_to("2024-03-10T12:00:00Z")
    box.post("/plans/basic/charges", charge=charge_in_advance_on(metric, amount="1", code="places"))
    box.travel_to("2024-03-20T12:00:00Z")
    if ends:
        box.unsubscribe()
        assert (_billed_units(box, "places"), unbilled(box)) == (0, [("before", "period_closed", False)])
    else:
        box.travel_to("2024-04-20T12:00:00Z")
        assert (_billed_units(box, "places"), unbilled(box)) == (1, [])
        box.unsubscribe()
        assert (_billed_units(box, "places"), unbilled(box)) == (1, [])


@pytest.mark.parametrize("prorated", [False, True], ids=["whole", "prorated"])
def test_what_was_added_and_removed_in_a_billed_period_is_listed_if_both_came_late(
    box: Scenario, prorated: bool
) -> None:
    for code, kind in (("places", "unique_count_agg"), ("stock", "sum_agg")):
        metric = box.metric(code, kind, field_name="n", recurring=True)
        box.post("/plans/basic/charges", charge=charge_on(metric, amount="31", code=code, prorated=prorated))
    box.travel_to("2024-04-05T12:00:00Z")
    for number, (code, properties) in enumerate(
        (
            ("places", {"n": "a"}),
            ("places", {"n": "stays"}),
            ("places", {"n": "a", "operation_type": "remove"}),
            ("stock", {"n": 4}),
            ("stock", {"n": 1}),
            ("stock", {"n": -4}),
        )
    ):
        send(box, f"{number}", code=code, timestamp=MARCH_10 + number, properties=properties)
    listed = [(id, "period_already_billed", False) for id in ("5", "3", "2", "0")]
    assert unbilled(box) == listed
    assert sorted(tally.events_count for tally in box.billing.events.unbilled_tallies()) == [2, 2]
    assert unbilled(box, "&code=stock") == [listed[0], listed[1]]
    box.travel_to("2024-05-01T01:00:00Z")
    # What is left of them is billed from April on.
    assert (_billed_units(box, "places"), _billed_units(box, "stock")) == (1, 1)
    assert unbilled(box) == listed
    box.unsubscribe()
    assert unbilled(box) == listed


def test_the_log_says_once_a_day_how_many_there_are(box: Scenario) -> None:
    box.billing.writing(unbilled_events.schedule)
    with capture_logs() as logs:
        box.travel_to("2024-03-02T07:00:00Z")
        assert logs == []
        send(box, "a", subscription="nosub")
        send(box, "b", code="tokens")
        send(box, "c")
        box.travel_to("2024-03-03T07:00:00Z")
        box.travel_to("2024-03-04T07:00:00Z")
    first, second = logs
    reasons = {"subscription_not_found": 1, "property_missing": 1}
    assert first == {
        "event": "events_unbilled",
        "log_level": "warning",
        "organization": box.billing.organization.id,
        "last_day": 2,
        "last_day_by_reason": reasons,
        "total": 2,
        "total_by_reason": reasons,
    }
    # Known by then: no warning, but not forgotten either.
    assert (second["log_level"], second["last_day"], second["total"]) == ("info", 0, 2)
    key = CountUnbilledEvents(organization_id=box.billing.organization.id).key
    job = box.billing.store.read(box.billing.organization.id, lambda tx: tx.jobs.get(key))
    assert job is not None
    assert job.due_at == datetime(2024, 3, 5, 6, tzinfo=UTC)


def _billed_units(box: Scenario, code: str) -> Decimal:
    fees = box.get(f"/fees?billable_metric_code={code}&per_page=1000")["fees"]
    return sum((Decimal(fee["units"]) for fee in fees), Decimal())


START = datetime(2024, 3, 1, 12, 0, 0, 600_000, tzinfo=UTC)
_MOMENTS = st.builds(
    lambda days, seconds: START + timedelta(days=days, seconds=seconds),
    st.integers(-40, 100),
    st.sampled_from([0.0, -0.6, -0.601, 0.4, 3600.0, 43200.0]),
)


_DELAYS = st.sampled_from(
    [timedelta(), timedelta(), timedelta(seconds=1), timedelta(hours=1), timedelta(days=4), timedelta(days=40)]
)


@pytest.mark.slow
@examples(60, deadline=None)
@given(
    moments=st.lists(st.tuples(_MOMENTS, _DELAYS), min_size=1, max_size=12),
    grace=st.sampled_from([0, 0, 3, 20]),
    backdated=st.integers(0, 70),
    ends_after=st.none() | st.integers(1, 80),
    priced_after=st.integers(0, 80),
)
def test_an_event_is_billed_or_listed_and_never_both(
    moments: list[tuple[datetime, timedelta]], grace: int, backdated: int, ends_after: int | None, priced_after: int
) -> None:
    """Whatever is there first, the sum of what was billed and what is listed is what was sent."""
    with Scenario(now=START) as box:
        box.customer()
        box.entity(billing_configuration={"invoice_grace_period": grace})
        metric = box.metric("gb", field_name="gb")
        box.plan()
        steps: list[tuple[datetime, int, Any]] = []
        begin = START - timedelta(days=backdated)
        box.subscribe(subscription_at=begin.isoformat())
        priced_at = START + timedelta(days=priced_after)
        steps.append(
            (priced_at, 0, lambda: box.post("/plans/basic/charges", charge=charge_on(metric, amount="1", code="gb")))
        )
        for number, (moment, delay) in enumerate(sorted(moments)):
            sent_at = max(START, moment + delay)
            steps.append(
                (
                    sent_at,
                    1,
                    lambda number=number, moment=moment: send(
                        box, f"t{number}", code="gb", timestamp=str(moment.timestamp()), properties={"gb": 1}
                    ),
                )
            )
        if ends_after is not None:
            steps.append((START + timedelta(days=ends_after), 2, box.unsubscribe))
        for instant, _, step in sorted(steps, key=lambda step: step[:2]):
            box.travel_to(max(instant, box.now))
            step()
        box.travel_to("2024-08-02T00:00:00Z")
        listed = unbilled(box)
        assert _billed_units(box, "gb") + len(listed) == len(moments), (listed, steps)


def test_what_was_paid_in_advance_for_a_day_after_an_end_is_on_its_fee_and_not_listed() -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        box.plan(charge_in_advance_on(box.metric("calls", "count_agg"), amount="1"))
        box.subscribe()
        box.travel_to("2024-03-05T12:00:00Z")
        tenth = int(datetime(2024, 3, 10, tzinfo=UTC).timestamp())
        send(box, "before the end", timestamp=tenth)
        box.delete("/subscriptions/sub")
        box.travel_to("2024-03-05T13:00:00Z")
        send(box, "after the end", timestamp=tenth)
        box.travel_to("2024-03-20T00:00:00Z")
        assert sum(fee["amount_cents"] for fee in box.get("/fees?fee_type=charge")["fees"]) == 100
        assert [row[:2] for row in unbilled(box)] == [("after the end", "subscription_not_active")]
        box.subscribe(external_id="sub")
        assert [row[:2] for row in unbilled(box)] == [("after the end", "subscription_not_active")]


@pytest.mark.parametrize("recurring", [False, True])
def test_what_came_before_a_plan_in_advance_and_lies_in_the_next_in_arrears_is_listed(recurring: bool) -> None:
    with Scenario(now="2024-02-20T00:00:00Z") as box:

        def sent(id: str, day: int) -> None:
            timestamp = int(datetime(2024, 3, day, tzinfo=UTC).timestamp())
            send(box, id, timestamp=timestamp, properties={"value": 1})

        box.customer()
        metric = box.metric("calls", field_name="value", recurring=recurring)
        box.plan(charge_in_advance_on(metric, amount="1"), code="ahead", amount_cents=0)
        box.plan(charge_on(metric, amount="1"), code="after", amount_cents=100)
        sent("before all plans", 15)
        box.travel_to("2024-03-01T12:00:00Z")
        box.subscribe("ahead")
        sent("paid in advance", 16)
        box.travel_to("2024-03-10T12:00:00Z")
        box.subscribe("after")
        sent("in arrears", 17)
        box.travel_to("2024-04-01T02:00:00Z")
        listed = [row[:2] for row in unbilled(box)]
        assert listed == ([] if recurring else [("before all plans", "period_closed")])
        units = sum(Decimal(fee["units"]) for fee in box.get("/fees?fee_type=charge")["fees"])
        assert units >= 3 - len(listed)
        assert box.billing.audit().findings == ()


def test_what_lies_ahead_of_the_clock_is_not_billed_yet() -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        box.plan(
            charge_on(box.metric("calls", "count_agg"), amount="1"),
            charge_in_advance_on(box.metric("instant", "count_agg"), amount="1"),
        )
        box.subscribe()
        send(box, "skewed", timestamp=int(box.billing.clock.now().timestamp()) + 200)
        send(box, "ahead", timestamp=int(box.billing.clock.now().timestamp()) + 86400)
        send(box, "a year", timestamp=int(box.billing.clock.now().timestamp()) + 366 * 86400)
        send(box, "paid at once", code="instant", timestamp=int(box.billing.clock.now().timestamp()) + 86400)
        assert unbilled(box) == [("a year", "not_yet", True), ("ahead", "not_yet", True)]
        tallies = [(str(tally.reason), tally.events_count) for tally in box.billing.events.unbilled_tallies()]
        assert tallies == [("not_yet", 2)]
        box.travel_to("2024-04-01T01:00:00Z")
        assert unbilled(box) == [("a year", "not_yet", True)]
        assert sum(fee["amount_cents"] for fee in box.get("/fees")["fees"]) == 300


def test_a_timestamp_too_far_ahead_is_refused_where_a_bound_is_set() -> None:
    settings = Settings(events_ahead_days=1)
    with Scenario(now="2024-03-01T00:00:00Z", settings=settings) as box:
        now = int(box.billing.clock.now().timestamp())
        event = {"transaction_id": "1", "code": "calls", "external_subscription_id": "sub"}
        box.post("/events", event={**event, "timestamp": now + 86400})
        late = box.send("POST", "/events", {"event": {**event, "transaction_id": "2", "timestamp": now + 86401}})
        assert refused(late) == {"timestamp": ["too_far_ahead"]}
        batch = [{**event, "transaction_id": "3"}, {**event, "transaction_id": "4", "timestamp": now * 2}]
        assert refused(box.send("POST", "/events/batch", {"events": batch})) == {"1": {"timestamp": ["too_far_ahead"]}}
        assert [row["transaction_id"] for row in box.get("/events")["events"]] == ["1"]


@pytest.mark.parametrize("sent_at", ["2024-04-10T12:00:00.300Z", "2024-04-10T11:00:00Z"])
def test_what_came_before_its_subscription_was_made_is_not_billed_in_advance_and_listed(sent_at: str) -> None:
    """Dated in its first second or later: a subscription that waits for its start bills it as it comes."""
    with Scenario(now="2024-04-10T09:00:00Z") as box:
        box.customer()
        box.plan(charge_in_advance_on(box.metric("calls"), amount="1"))
        box.subscribe(external_id="waiting", subscription_at="2024-04-10T12:00:00Z")
        box.travel_to(sent_at)
        for name in ("sub", "waiting"):
            send(box, f"to {name}", "calls", name, timestamp=1712750400, properties={"value": 5})
        box.travel_to("2024-04-10T12:00:00.600Z")
        box.subscribe()
        assert unbilled(box) == [("to sub", "period_closed", True)]
        box.travel_to("2024-05-02T00:00:00Z")
        billed = [fee["event_transaction_id"] for fee in box.get("/fees?fee_type=charge")["fees"]]
        assert billed == ["to waiting"]


def test_values_that_no_filter_declares_are_listed_as_billed_by_default(box: Scenario) -> None:
    box.jump_to("2024-03-10T00:00:00Z")
    send(box, "declared", "tokens", properties={"tokens": 1, "region": "eu"})
    send(box, "plain", "tokens", properties={"tokens": 1})
    send(box, "new", "tokens", properties={"tokens": 1, "region": "mars"})
    # What is not billed at all is on the other list.
    send(box, "unbilled", "tokens", "nosub", properties={"tokens": 1, "region": "mars"})
    listed = box.get("/events?billed_by_default=true")
    assert [row["transaction_id"] for row in listed["events"]] == ["new"]
    assert listed["meta"]["total_count"] == 1
    assert box.billing.events.billed_by_default(code="calls").total_count == 0
    assert refused(box.send("GET", "/events?billed_by_default=true&unbilled=true")) == {
        "billed_by_default": ["incompatible_params"]
    }


NEXT = {
    "opened with": [("20T00:00:00", "new"), ("25T00:00:00", "end")],
    "opened with, and there again": [("20T00:00:00", "new"), ("25T00:00:00", "end"), ("26T00:00:00", "new")],
    "opened with, and gone again": [
        ("20T00:00:00", "new"),
        ("25T00:00:00", "end"),
        ("26T00:00:00", "new"),
        ("27T00:00:00", "end"),
    ],
    "there again": [("25T00:00:00", "end"), ("26T00:00:00", "new"), ("27T00:00:00", "end")],
    "there at once": [("25T00:00:00", "end"), ("25T00:00:00", "new"), ("27T00:00:00", "end")],
}


@pytest.mark.parametrize("charged", [False, True], ids=["uncharged at first", "charged"])
@pytest.mark.parametrize("case", NEXT)
def test_stock_that_was_billed_in_advance_is_not_listed_once_later_plans_have_ended(case: str, charged: bool) -> None:
    """An upgrade opens with the stock, and bills it; a subscription after an end bills it from its next period on."""
    with Scenario(now="2023-08-01T00:00:00Z") as box:
        box.customer()
        stock = charge_in_advance_on(box.metric("stock", recurring=True), amount="10", invoiceable=True)
        box.plan(*([stock] if charged else []), code="old", amount_cents=1000)
        box.plan(stock, code="new", amount_cents=2000)
        box.subscribe("old")
        box.travel_to("2023-08-10T00:00:00Z")
        box.event("stock", value=2)
        for at, what in NEXT[case]:
            box.travel_to(f"2023-08-{at}Z")
            box.unsubscribe() if what == "end" else box.subscribe(what)
        box.travel_to("2023-10-02T00:00:00Z")
        fees = [fee for fee in box.get("/fees?fee_type=charge")["fees"] if fee["amount_cents"]]
        listed = box.get("/events?unbilled=true")["events"]
        assert (len(listed), bool(fees)) == ((0, True) if charged or "opened" in case else (1, False))
