"""All invoices until a day, previewed: a ramp shows what each of its phases will cost, as it is billed later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.operations.invoices.test_preview import billed, preview
from tests.scenarios import Scenario, charge_on, fees_of, fixed_charge_on

pytestmark = pytest.mark.usefixtures("sandbox_engine")

RAMP: list[dict[str, Any]] = [
    {"until": "2024-03-10"},
    {"until": "2024-06-01", "plan_overrides": {"amount_cents": 5000}},
    {"plan_code": "big"},
]
SUB = {"external_ids": ["sub"]}


def preview_all(box: Scenario, **body: Any) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = box.post("/invoices/preview/all", **{"customer": {"external_id": "acme"}, **body})[
        "invoices"
    ]
    return shown


def plan_fees(invoices: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """The first day of each plan fee, its plan and its cents."""
    return [
        (fee["from_date"][:10], fee["item"]["code"], fee["amount_cents"])
        for invoice in invoices
        for fee in fees_of(invoice, "subscription")
    ]


@pytest.fixture
def box() -> Iterator[Scenario]:
    """The plans `basic` of 31.00 and `big` of 62.00 a month, with usage, a seat and 20 % of taxes."""
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer(timezone="America/New_York")
        box.tax()
        gb, seat = box.metric("gb"), box.add_on("seat")
        seats = [fixed_charge_on(seat, amount="7", units=2, pay_in_advance=True)]
        box.plan(charge_on(gb, amount="1.5"), amount_cents=3100, fixed_charges=seats)
        box.plan(charge_on(gb, amount="0.5"), code="big", amount_cents=6200, pay_in_advance=True, fixed_charges=seats)
        box.travel_to("2024-01-15T12:00:00Z")
        yield box


def test_a_ramp_is_previewed_before_it_is_made_with_each_of_its_prices(box: Scenario) -> None:
    shown = preview_all(box, plan_code="basic", phases=RAMP)
    assert plan_fees(shown) == [
        ("2024-01-15", "basic", 1700),
        ("2024-02-01", "basic", 3100),
        ("2024-03-01", "basic", 3100),
        ("2024-04-01", "basic", 5000),
        ("2024-05-01", "basic", 5000),
        ("2024-06-01", "big", 6200),
        ("2024-07-01", "big", 6200),
    ]
    assert {(invoice["status"], invoice["number"]) for invoice in shown} == {("finalized", "")}
    assert box.get("/subscriptions")["subscriptions"] == []
    assert box.get("/invoices")["invoices"] == []


@pytest.mark.parametrize("grace", [0, 3])
@pytest.mark.parametrize("made", [True, False], ids=["an existing one", "a new one"])
def test_every_invoice_is_billed_as_it_was_previewed(box: Scenario, made: bool, grace: int) -> None:
    box.customer(billing_configuration={"invoice_grace_period": grace})
    box.coupon(10_000, frequency="recurring", frequency_duration=3)
    if made:
        box.subscribe(phases=RAMP)
        box.event("gb", value=4)
        shown = preview_all(box, subscriptions=SUB, until="2024-08-31")
    else:
        shown = preview_all(box, plan_code="basic", phases=RAMP, until="2024-08-31")
        box.subscribe(phases=RAMP)
    known = {invoice["svc_id"] for invoice in box.get("/invoices")["invoices"]} if made else set()
    box.travel_to("2024-09-01T03:59:00Z")
    real = [invoice for invoice in box.invoices() if invoice["svc_id"] not in known]
    assert [billed(invoice, dated=True) for invoice in shown] == [billed(invoice, dated=True) for invoice in real]
    assert len(shown) == 8 - made


def test_phases_that_are_yet_to_be_agreed_on_are_previewed_for_an_existing_subscription(box: Scenario) -> None:
    before = box.subscribe()
    shown = preview_all(box, subscriptions=SUB, phases=[{"until": "2024-03-01"}, {"plan_code": "big"}])
    assert plan_fees(shown)[-2:] == [("2024-03-01", "big", 6200), ("2024-04-01", "big", 6200)]
    assert box.get("/subscriptions/sub")["subscription"]["phases"] == before["phases"] == []
    box.travel_to("2024-02-05T00:00:00Z")
    (coming,) = plan_fees([preview(box, subscriptions=SUB, phases=[{"until": "2024-03-01"}, {"plan_code": "big"}])])[:1]
    assert coming == ("2024-02-01", "basic", 3100)


def test_the_next_invoice_of_a_ramp_is_its_next_phases(box: Scenario) -> None:
    box.subscribe(phases=RAMP)
    box.travel_to("2024-05-20T12:00:00Z")
    coming = preview(box, subscriptions=SUB)
    known = len(box.invoices())
    box.travel_to("2024-06-02T12:00:00Z")
    real = box.invoices()[known]
    assert plan_fees([real]) == [("2024-05-01", "basic", 5000), ("2024-06-01", "big", 6200)]
    assert billed(coming, dated=True) == billed(real, dated=True)


def test_prices_that_wait_for_a_day_are_on_the_invoices_of_then(box: Scenario) -> None:
    box.subscribe(phases=RAMP)
    box.travel_to("2024-01-16T12:00:00Z")
    box.put("/plans/big", plan={"amount_cents": 7700, "effective": "2024-07-01"})
    box.put("/plans/basic", plan={"amount_cents": 4100, "effective": "next_period"})
    shown = preview_all(box, subscriptions=SUB, until="2024-08-31")
    assert [cents for _, _, cents in plan_fees(shown)] == [1700, 4100, 4100, 5000, 5000, 6200, 7700, 7700]
    box.travel_to("2024-09-01T03:59:00Z")
    assert plan_fees(shown) == plan_fees(box.invoices()[1:])


def test_a_new_subscription_of_later_is_previewed_with_the_prices_of_its_start(box: Scenario) -> None:
    box.customer("other")
    box.subscribe("big", external_id="other", customer="other")
    box.put("/plans/big", plan={"amount_cents": 9300, "effective": "2024-03-01"})
    at = {"subscription_at": "2024-03-01T12:00:00Z"}
    assert plan_fees([preview(box, plan_code="big", **at)]) == [("2024-03-01", "big", 9300)]
    assert plan_fees([preview(box, plan_code="big", subscription_at="2024-02-01T12:00:00Z")])[0][2] == 6200
    shown = preview_all(box, plan_code="big", until="2024-04-02", **at)
    assert plan_fees(shown) == [("2024-03-01", "big", 9300), ("2024-04-01", "big", 9300)]
    # An upgrade of today has the prices of today, and those of then later.
    box.subscribe()
    later = preview_all(box, subscriptions={**SUB, "plan_code": "big"}, until="2024-04-02")
    assert [cents for _, code, cents in plan_fees(later) if code == "big"] == [3400, 6200, 9300, 9300]


def test_without_phases_the_next_invoice_is_all_until_a_later_day_is_asked_for(box: Scenario) -> None:
    box.subscribe()
    assert [invoice["issuing_date"] for invoice in preview_all(box, subscriptions=SUB)] == ["2024-02-01"]
    dates = [invoice["issuing_date"] for invoice in preview_all(box, subscriptions=SUB, until="2024-03-31")]
    assert dates == ["2024-02-01", "2024-03-01"]
    assert preview_all(box, subscriptions=SUB, until="2024-01-20") == []


def test_an_invoice_that_is_shared_is_shown_whole(box: Scenario) -> None:
    box.subscribe(external_id="other")
    shown = preview_all(box, plan_code="basic")
    assert plan_fees(shown) == [("2024-01-15", "basic", 1700)] * 2


def test_what_is_refused_changes_nothing(box: Scenario) -> None:
    box.subscribe()
    box.subscribe(external_id="other")
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"until": "2024-01-14"}, {"until": ["cannot_be_in_past"]}),
        ({"until": "soon"}, {"until": ["invalid_date"]}),
        ({"until": "2040-01-01"}, {"until": ["value_is_out_of_range"]}),
        ({"phases": [{}, {"plan_code": "big"}]}, {"phases[0].until": ["value_is_mandatory"]}),
        (
            {"subscriptions": {**SUB, "terminated_at": "2024-02-01T00:00:00Z"}},
            {"subscriptions.terminated_at": ["incompatible_params"]},
        ),
        (
            {"subscriptions": {"external_ids": ["sub", "other"]}, "phases": RAMP},
            {"phases": ["only_one_subscription_allowed_for_plan_change"]},
        ),
    ]
    before = box.get("/subscriptions")
    for body, details in cases:
        sent = {"customer": {"external_id": "acme"}, "subscriptions": SUB, **body}
        assert box.post("/invoices/preview/all", 422, **sent)["error_details"] == details, body
    box.post("/invoices/preview/all", 404, customer={"external_id": "none"}, plan_code="basic")
    box.post("/invoices/preview/all", 404, customer={"external_id": "acme"}, plan_code="none")
    assert box.get("/subscriptions") == before
