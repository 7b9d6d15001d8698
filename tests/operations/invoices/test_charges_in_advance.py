"""What events cost that are paid in advance, one by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.money import gross, percent
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, plan_fields, price_ranges

from usagebill import Billing
from usagebill.core.events import Event
from usagebill.operations.invoices.charges_in_advance import bill_event
from usagebill.queries.customers import customer_by_external_id
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.storage.event_queries import EventFilter

pytestmark = [pytest.mark.now("2024-03-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


def shown(box: Scenario, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(fee[key] for key in keys) for fee in box.usage_fees()]


def cents(box: Scenario) -> list[int]:
    return [fee["amount_cents"] for fee in box.usage_fees()]


def stored_events(box: Scenario) -> list[Event]:
    return box.billing.reading(lambda work: work.tx.events.find(EventFilter()))


@pytest.mark.parametrize(
    ("model", "properties", "values", "expected"),
    [
        ("standard", {"amount": "1"}, [10, -4, 8], [1000, 0, 400]),
        ("package", {"amount": "100", "package_size": 2, "free_units": 3}, [3, 1, 2], [0, 10000, 10000]),
        (
            "graduated",
            {"graduated_ranges": price_ranges((0, 5, "0.02", "0.01"), (6, None, "0.01", "0.01"))},
            [3, 1, 2],
            [7, 2, 4],
        ),
        ("percentage", {"rate": "5", "fixed_amount": "1", "free_units_per_events": 2}, [8, 5, 3], [0, 0, 115]),
        (
            "percentage",
            {"rate": "5", "fixed_amount": "1", "free_units_per_total_aggregation": "120"},
            [100, 10, 20, 20],
            [0, 0, 150, 200],
        ),
        (
            "percentage",
            {"rate": "5", "fixed_amount": "1", "free_units_per_total_aggregation": "3"},
            [5, 1],
            [110, 105],
        ),
        (
            "percentage",
            {
                "rate": "1",
                "fixed_amount": "0.5",
                "per_transaction_min_amount": "1.75",
                "per_transaction_max_amount": "2",
            },
            [100, 1000, 10000],
            [175, 200, 200],
        ),
        (
            "graduated_percentage",
            {
                "graduated_percentage_ranges": price_ranges(
                    (0, 100, "20", "10"), (101, 200, "30", "7"), (201, None, "40", "5"), unit="rate"
                )
            },
            [50, 100, 300],
            [2000, 3200, 12000],
        ),
    ],
)
def test_each_event_pays_what_it_adds(
    box: Scenario, model: str, properties: dict[str, Any], values: list[int], expected: list[int]
) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), model, **properties))
    box.subscribe()
    for value in values:
        box.event("gb", value=value)
    assert cents(box) == expected


def test_unique_values_pay_when_more_are_active_than_ever_before(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("seats", "unique_count_agg"), amount="12"))
    box.subscribe()
    for value, operation in ((1, "add"), (1, "remove"), (1, "add"), (2, "add"), (2, "add"), (3, "add"), (3, "remove")):
        box.event("seats", value=value, operation_type=operation)
    assert shown(box, "amount_cents", "units") == [
        (1200, "1.0"),
        (0, "0.0"),
        (0, "1.0"),
        (1200, "1.0"),
        (0, "0.0"),
        (1200, "1.0"),
        (0, "0.0"),
    ]


def test_events_with_prices_of_their_own_pay_them(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), "dynamic"))
    box.subscribe()
    box.event("gb", value=5, cents="1234.56")
    box.event("gb", value=1, cents="2.1")
    assert shown(box, "amount_cents", "precise_amount", "units") == [
        (round(1234.56), "12.3456", "5.0"),
        (round(2.1), "0.021", "1.0"),
    ]


def test_events_of_one_instant_are_priced_one_after_the_other(box: Scenario) -> None:
    rows = price_ranges((0, 2, "0", "0"), (3, None, "2", "0"))
    box.plan(charge_in_advance_on(box.metric("calls", "count_agg"), "graduated", graduated_ranges=rows))
    box.subscribe()
    box.events("calls", {}, {}, {})
    assert cents(box) == [0, 0, 200]


def test_a_batch_is_billed_in_order_of_time_however_it_was_sent(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.jump_to("2024-03-10T00:00:00Z")
    at = [datetime.fromisoformat(f"2024-03-0{day}T00:00:00Z").timestamp() for day in (2, 3, 4)]
    box.events("gb", {"at": at[2], "value": 8}, {"at": at[0], "value": 10}, {"at": at[1], "value": -4})
    assert [(fee["event_transaction_id"], fee["amount_cents"]) for fee in box.usage_fees()] == [
        ("t2", 10 * 100),
        ("t3", 0),
        ("t1", (8 - 4) * 100),
    ]


def test_an_event_that_comes_late_leaves_issued_fees_as_they_are(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), "package", amount="100", package_size=10, free_units=0))
    box.subscribe()
    box.jump_to("2024-03-10T00:00:00Z")
    box.event("gb", value=8)
    box.events("gb", {"at": datetime.fromisoformat("2024-03-05T00:00:00Z").timestamp(), "value": 7})
    assert cents(box) == [10000, 10000]
    box.event("gb", value=5)
    assert cents(box) == [10000, 10000, 0]


def test_processing_events_again_bills_nothing_again(box: Scenario) -> None:
    metric = box.metric("gb")
    box.plan(charge_in_advance_on(metric, amount="1"), charge_in_advance_on(metric, amount="2", invoiceable=True))
    box.subscribe()
    box.event("gb", value=10)
    before = box.usage_fees()
    (event,) = stored_events(box)
    assert box.billing.writing(lambda work: bill_event(work, event)) == []
    assert box.usage_fees() == before
    assert len(box.get("/invoices")["invoices"]) == 1


def test_a_fee_that_was_taken_back_does_not_return(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.event("gb", value=10)
    box.delete(f"/fees/{box.usage_fees()[0]['svc_id']}")
    (event,) = stored_events(box)
    assert box.billing.writing(lambda work: bill_event(work, event)) == []
    assert box.usage_fees() == []


def test_a_failure_half_way_leaves_nothing_behind(box: Scenario) -> None:
    metric = box.metric("gb")
    box.plan(charge_in_advance_on(metric, amount="1"), charge_in_advance_on(metric, amount="2", invoiceable=True))
    box.subscribe()
    box.billing.writing(
        lambda work: work.tx.events.append(
            [
                Event(
                    id=work.new_id(),
                    organization_id=work.organization.id,
                    transaction_id="t",
                    code="gb",
                    external_subscription_id="sub",
                    timestamp=work.now,
                    properties={"value": 10},
                    precise_total_amount_cents=None,
                    created_at=work.now,
                )
            ]
        )
    )
    (event,) = stored_events(box)

    def fail(work: Work) -> None:
        bill_event(work, event)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        box.billing.writing(fail)
    assert box.usage_fees() == []
    assert box.get("/invoices")["invoices"] == []
    box.billing.writing(lambda work: bill_event(work, event))
    assert sorted(cents(box)) == [10 * 100, 10 * 200]


def test_the_same_transaction_id_of_another_subscription_is_another_event(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1"))
    for name in ("sub", "other"):
        box.subscribe(external_id=name)
        body = {"transaction_id": "t", "code": "gb", "external_subscription_id": name, "properties": {"value": 1}}
        box.post("/events", event=body)
    assert cents(box) == [100, 100]


@pytest.mark.parametrize("value", [None, "", False, "abc", "1e3"])
def test_an_event_without_a_number_is_not_billed(box: Scenario, value: object) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), "percentage", rate="5", fixed_amount="1"))
    box.subscribe()
    box.event("gb", value=value)
    assert box.usage_fees() == []


@pytest.mark.beyond_reference
def test_a_value_that_is_blank_or_false_is_paid_in_advance_as_it_is_in_arrears(box: Scenario) -> None:
    seats = box.metric("seats", "unique_count_agg", field_name="seat")
    box.plan(charge_in_advance_on(seats, amount="1"))
    box.plan(charge_on(seats, amount="1"), code="arrears")
    box.subscribe()
    box.subscribe("arrears", external_id="later")
    for name in ("sub", "later"):
        for seat in ("", False, "a", None):
            box.event("seats", name, seat=seat)
    assert cents(box) == [100, 100, 100]
    for name in ("sub", "later"):
        usage = box.get(f"/customers/acme/current_usage?external_subscription_id={name}")["customer_usage"]
        assert usage["amount_cents"] == 300
    # What has no value is listed.
    assert box.get("/events?unbilled=true")["meta"]["total_count"] == 2


def test_events_outside_the_subscription_are_not_billed(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1"))
    box.jump_to("2024-03-05T00:00:00Z")
    box.subscribe()
    before = datetime.fromisoformat("2024-03-04T23:59:59Z").timestamp()
    box.events("gb", {"at": before, "value": 1})
    box.jump_to("2024-03-08T00:00:00Z")
    box.delete("/subscriptions/sub")
    box.jump_to("2024-03-09T00:00:00Z")
    box.event("gb", value=2)
    assert box.usage_fees() == []
    inside = datetime.fromisoformat("2024-03-07T00:00:00Z").timestamp()
    box.events("gb", {"at": inside, "value": 4})
    assert cents(box) == [4 * 100]


def test_a_new_period_starts_from_nothing(box: Scenario) -> None:
    rows = price_ranges((0, 10, "1", "0"), (11, None, "0.5", "0"))
    box.plan(charge_in_advance_on(box.metric("gb"), "graduated", graduated_ranges=rows))
    box.subscribe()
    box.event("gb", value=20)
    box.travel_to("2024-04-02T00:00:00Z")
    box.event("gb", value=20)
    assert cents(box) == [10 * 100 + 10 * 50] * 2


def test_what_was_removed_in_an_earlier_period_is_paid_when_it_returns(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb", recurring=True), amount="1", prorated=True))
    box.subscribe()
    box.event("gb", value=10)
    box.travel_to("2024-04-01T06:00:00Z")
    box.event("gb", value=-5)
    box.event("gb", value=5)
    by_event = [(fee["event_transaction_id"], fee["amount_cents"]) for fee in box.usage_fees()]
    assert by_event == [("t1", 1000), (None, 1000), ("t2", 0), ("t3", 500)]


def test_a_prorated_charge_bills_the_days_that_are_left(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("seats", "unique_count_agg", recurring=True), amount="31", prorated=True))
    box.subscribe()
    box.jump_to("2024-03-30T12:00:00Z")
    box.event("seats", value="a")
    (fee,) = box.usage_fees()
    assert (fee["amount_cents"], fee["units"], fee["precise_unit_amount"]) == (200, "1.0", "2.0")
    assert fee["precise_amount"] == "2.00012"


def test_groups_are_priced_apart(box: Scenario) -> None:
    rows = price_ranges((0, None, "1", "5"))
    box.plan(charge_in_advance_on(box.metric("gb"), "graduated", graduated_ranges=rows, pricing_group_keys=["region"]))
    box.subscribe()
    box.event("gb", value=1, region="eu")
    box.event("gb", value=1, region=7)
    box.event("gb", value=1, region="7")
    box.event("gb", value=1)
    box.event("gb", value=1, region="")
    assert [(fee["item"]["grouped_by"], fee["amount_cents"]) for fee in box.usage_fees()] == [
        ({"region": "eu"}, 500 + 100),
        ({"region": "7"}, 500 + 100),
        ({"region": "7"}, 100),
        ({"region": None}, 500 + 100),
        ({"region": None}, 100),
    ]


def test_one_filter_prices_an_event_the_narrowest(box: Scenario) -> None:
    metric = box.metric(
        "gb", filters=[{"key": "cloud", "values": ["aws", "gcp"]}, {"key": "region", "values": ["eu", "us"]}]
    )

    def priced_filter(amount: str, **values: list[str]) -> dict[str, Any]:
        rows = price_ranges((0, None, amount, "0"))
        return {"values": values, "properties": {"graduated_ranges": rows}}

    filters = [
        priced_filter("2", cloud=["aws", "gcp"]),
        priced_filter("3", cloud=["aws"]),
        priced_filter("4", cloud=["aws"], region=["eu"]),
        priced_filter("5", region=["us"]),
    ]
    rows = price_ranges((0, None, "1", "0"))
    box.plan(charge_in_advance_on(metric, "graduated", graduated_ranges=rows, filters=filters))
    box.subscribe()
    for properties in (
        {"cloud": "gcp"},
        {"cloud": "aws"},
        {"cloud": "aws", "region": "eu"},
        {"cloud": "gcp", "region": "us"},
        {"cloud": "other"},
    ):
        box.event("gb", value=1, **properties)
    assert [(fee["item"]["filters"], fee["amount_cents"]) for fee in box.usage_fees()] == [
        ({"cloud": ["aws", "gcp"]}, 200),
        ({"cloud": ["aws"]}, 300),
        ({"cloud": ["aws"], "region": ["eu"]}, 400),
        ({"cloud": ["aws", "gcp"]}, 200),
        (None, 100),
    ]


def test_a_fee_without_invoice_is_taxed_and_announced_at_once(box: Scenario) -> None:
    box.tax()
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1.111"))
    box.jump_to("2024-03-05T10:00:00Z")
    box.subscribe()
    box.event("gb", value=10)
    (fee,) = box.usage_fees()
    announced = [message["fee"] for message in box.webhooks if message["webhook_type"] == "fee.created"]
    assert announced == [{name: value for name, value in fee.items() if name != "applied_taxes"}]
    assert fee["svc_invoice_id"] is None
    taxes = percent(1111, 20)
    assert (fee["amount_cents"], fee["taxes_amount_cents"]) == (1111, taxes)
    assert fee["total_amount_cents"] == 1111 + taxes
    assert (fee["pay_in_advance"], fee["invoiceable"], fee["payment_status"]) == (True, False, "pending")
    assert (fee["event_transaction_id"], fee["events_count"]) == ("t1", 1)
    assert (fee["from_date"], fee["to_date"]) == ("2024-03-05T00:00:00+00:00", "2024-03-31T23:59:59+00:00")
    assert fee["amount_details"] == {}
    assert box.get("/invoices")["invoices"] == []


def test_an_invoiceable_charge_issues_an_invoice_for_each_event(box: Scenario) -> None:
    box.tax()
    metric = box.metric("gb")
    box.plan(
        charge_in_advance_on(metric, amount="1", invoiceable=True),
        charge_in_advance_on(metric, amount="2", invoiceable=True),
    )
    box.subscribe()
    box.jump_to("2024-03-05T10:00:00Z")
    box.event("gb", value=10)
    invoices = box.get("/invoices")["invoices"]
    assert sorted(invoice["total_amount_cents"] for invoice in invoices) == [gross(10 * 100, 20), gross(10 * 200, 20)]
    for summary in invoices:
        invoice = box.invoice(summary["svc_id"])
        assert (invoice["invoice_type"], invoice["status"]) == ("subscription", "finalized")
        assert invoice["issuing_date"] == "2024-03-05"
        (period,) = invoice["billing_periods"]
        assert period["invoicing_reason"] == "in_advance_charge"
        assert period["charges_to_datetime"] == "2024-03-31T23:59:59Z"
        (fee,) = invoice["fees"]
        assert (fee["svc_invoice_id"], fee["event_transaction_id"]) == (invoice["svc_id"], "t1")
    types = [message["webhook_type"] for message in box.webhooks]
    assert types.count("fee.created") == types.count("invoice.created") == 2
    box.travel_to("2024-04-01T12:00:00Z")
    last = box.get("/invoices")["invoices"]
    assert [invoice["fees_amount_cents"] for invoice in last if invoice["issuing_date"] == "2024-04-01"] == [0]


def test_an_invoice_of_nothing_is_closed_where_the_customer_wants_none(box: Scenario) -> None:
    def skip(work: Work) -> None:
        work.tx.replace(replace(customer_by_external_id(work, "acme"), finalize_zero_amount_invoice="skip"))

    box.billing.writing(skip)
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1", invoiceable=True))
    box.subscribe()
    box.event("gb", value=0)
    box.event("gb", value=3)
    assert [invoice["number"][-4:] for invoice in box.get("/invoices")["invoices"]] == ["-001"]


def test_current_usage_shows_what_is_there_and_prices_what_was_paid(box: Scenario) -> None:
    box.jump_to("2024-02-23T00:00:00Z")
    box.plan(charge_in_advance_on(box.metric("seats", "unique_count_agg", recurring=True), amount="1", prorated=True))
    box.subscribe(subscription_at="2024-02-01T00:00:00Z")
    box.event("seats", value="seat_1")
    usage = box.usage()
    assert (usage["charges_usage"][0]["units"], usage["amount_cents"]) == ("1.0", 24)
    box.jump_to("2024-02-29T00:00:00Z")
    box.event("seats", value="seat_1", operation_type="remove")
    usage = box.usage()
    assert (usage["charges_usage"][0]["units"], usage["amount_cents"]) == ("0.0", 24)


def test_the_details_of_a_percentage_are_those_of_the_event(box: Scenario) -> None:
    box.plan(
        charge_in_advance_on(
            box.metric("gb"), "percentage", rate="5", fixed_amount="1", free_units_per_total_aggregation="120"
        )
    )
    box.subscribe()
    for value in (100, 10, 20):
        box.event("gb", value=value)
    details = box.usage_fees()[-1]["amount_details"]
    assert (details["units"], details["free_units"], details["paid_units"]) == ("20.0", "10.0", "10.0")
    assert (details["per_unit_total_amount"], details["fixed_fee_total_amount"]) == ("0.5", "1.0")


def test_events_of_one_instant_leave_one_state_behind(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.events("gb", {"value": 10}, {"value": -4}, {"value": 8}, {"value": -14})
    assert cents(box) == [10 * 100, 0, (8 - 4) * 100, 0]
    usage = box.usage()
    assert (usage["charges_usage"][0]["units"], usage["amount_cents"]) == ("0.0", (10 + 8 - 4) * 100)
    box.event("gb", value=15)
    assert cents(box)[-1] == 100


def test_a_grace_period_does_not_hold_back_what_is_paid_in_advance(box: Scenario) -> None:
    box.customer(billing_configuration={"invoice_grace_period": 3})
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1", invoiceable=True))
    box.subscribe()
    box.event("gb", value=3)
    assert [(invoice["status"], invoice["issuing_date"]) for invoice in box.get("/invoices")["invoices"]] == [
        ("finalized", "2024-03-01")
    ]


def test_an_override_prices_events_from_then_on(box: Scenario) -> None:
    plan = box.plan(charge_in_advance_on(box.metric("gb"), amount="1"))
    (charge,) = plan["charges"]
    box.subscribe(plan_overrides={"charges": [{"id": charge["svc_id"], "properties": {"amount": "0.5"}}]})
    box.event("gb", value=3)
    assert cents(box) == [3 * 50]


@pytest.mark.parametrize("region", ["eu", "us"])
def test_what_was_paid_stays_paid_under_an_override(box: Scenario, region: str) -> None:
    metric = box.metric("gb", filters=[{"key": "region", "values": ["eu"]}])
    filters = [{"values": {"region": ["eu"]}, "properties": {"amount": "1"}}]
    box.plan(charge_in_advance_on(metric, amount="1", code="gb", filters=filters))
    box.subscribe()
    box.event("gb", value=10, region=region)
    box.event("gb", value=-4, region=region)
    name = {"charge": {"invoice_display_name": "Disks"}}
    box.ask("PUT", "/subscriptions/sub/charges/gb", name)
    assert box.usage()["amount_cents"] == 10 * 100
    box.event("gb", value=4, region=region)
    assert cents(box) == [10 * 100, 0, 0]
    assert box.usage()["amount_cents"] == 10 * 100


def test_usage_of_some_groups_prices_what_they_paid(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1", pricing_group_keys=["region"]))
    box.subscribe()
    for region, value in (("eu", 10), ("eu", -4), ("us", 3), ("us", -1)):
        box.event("gb", value=value, region=region)
    usages = [box.usage(query) for query in ("", "&group[region]=eu", "&skip_grouping=true")]
    assert [(usage["amount_cents"], usage["charges_usage"][0]["units"]) for usage in usages] == [
        ((10 + 3) * 100, "8.0"),
        (10 * 100, "6.0"),
        ((10 + 3) * 100, "8.0"),
    ]


def test_events_can_be_estimated_by_a_program(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1"))
    box.subscribe()
    events = box.billing.events
    event: dict[str, Any] = {"code": "gb", "external_subscription_id": "sub", "properties": {"value": 3}}
    assert [fee.amount_cents for fee in events.estimate_fees(**event)] == [3 * 100]
    assert [fee.estimate.amount_cents for fee in events.estimate_instant_fees(**event)] == [3 * 100]
    assert box.usage_fees() == []


def test_a_late_event_of_a_plan_that_was_left_keeps_its_price_though_no_worker_has_seen_it(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2024, 3, 1, tzinfo=UTC))
    with Billing(tmp_path / "billing.db", clock=clock, deliver=False) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        metric = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        # 1.5 % of one unit, 0.25 for each event, and at least 0.30.
        terms = {"rate": "1.5", "fixed_amount": "0.25", "per_transaction_min_amount": "0.3"}
        for code in ("small", "large"):
            charge = charge_in_advance_on(metric.id, "percentage", **terms)
            billing.plans.create(**plan_fields(charge, code=code, amount_cents=0))
        billing.subscriptions.create(external_customer_id="acme", external_id="sub", plan_code="small")
        clock.set(datetime(2024, 3, 5, tzinfo=UTC))
        billing.subscriptions.create(external_customer_id="acme", external_id="sub", plan_code="large")
        used_at = int(datetime(2024, 3, 4, tzinfo=UTC).timestamp())
        billing.events.create(transaction_id="late", code="calls", external_subscription_id="sub", timestamp=used_at)
        clock.set(datetime(2024, 3, 6, tzinfo=UTC))
        dearer: Any = charge_in_advance_on(metric.id, "percentage", **{**terms, "per_transaction_min_amount": "7"})
        billing.plans.update("small", charges=[dearer])
        billing.run_due()
        assert [fee.amount_cents for fee in billing.fees.list() if fee.event_transaction_id == "late"] == [30]
