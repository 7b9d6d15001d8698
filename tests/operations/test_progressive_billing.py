"""Usage that is invoiced when it passes a threshold, and the lifetime usage behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.price_list import PriceList

from usagebill.operations.audit import audit
from usagebill.testing import Sandbox


@pytest.fixture
def list_() -> Iterator[PriceList]:
    with Sandbox(now="2024-03-01T00:00:00Z") as box:
        yield PriceList(box)


def subscribed(list_: PriceList, *thresholds: dict[str, Any], **subscription: Any) -> None:
    charge = {
        "billable_metric_id": list_.metric("gb"),
        "charge_model": "standard",
        "properties": {"amount": "1"},
        "min_amount_cents": 100_000,
    }
    list_.plan(charge, amount_cents=3100, usage_thresholds=list(thresholds))
    list_.subscribe(**subscription)


def progressive(list_: PriceList) -> list[dict[str, Any]]:
    invoices = list_.get("/invoices?invoice_type=progressive_billing")["invoices"]
    shown = [list_.get(f"/invoices/{invoice['svc_id']}")["invoice"] for invoice in invoices]
    return sorted(shown, key=lambda invoice: int(invoice["sequential_id"]))


def void(list_: PriceList, invoice: dict[str, Any]) -> None:
    assert list_.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/void", json={})[0] == 200


def closed(list_: PriceList) -> dict[str, Any]:
    """The invoice of March."""
    list_.box.travel_to("2024-04-01T01:00:00Z")
    (closing,) = list_.get("/invoices?invoice_type=subscription")["invoices"]
    assert isinstance(closing, dict)
    return closing


def test_all_thresholds_passed_at_once_make_one_invoice_and_a_message_each(list_: PriceList) -> None:
    first = {"amount_cents": 1000, "threshold_display_name": "Ten"}
    subscribed(list_, first, {"amount_cents": 2000}, {"amount_cents": 9000})
    list_.event("gb", value=9)
    assert progressive(list_) == []
    list_.event("gb", value=12)
    (invoice,) = progressive(list_)
    assert (invoice["status"], invoice["total_amount_cents"]) == ("finalized", 2100)
    assert [fee["item"]["type"] for fee in invoice["fees"]] == ["charge"]
    applied = invoice["applied_usage_thresholds"]
    assert [one["usage_threshold"]["amount_cents"] for one in applied] == [1000, 2000]
    assert {one["lifetime_usage_amount_cents"] for one in applied} == {2100}
    reached = [m for m in list_.box.webhooks if m["webhook_type"] == "subscription.usage_threshold_reached"]
    assert [m["subscription"]["usage_threshold"]["threshold_display_name"] for m in reached] == ["Ten", None]


def test_usage_paid_in_advance_passes_a_threshold_once(list_: PriceList) -> None:
    charge = {
        "billable_metric_id": list_.metric("gb"),
        "charge_model": "standard",
        "pay_in_advance": True,
        "invoiceable": False,
        "properties": {"amount": "1"},
    }
    thresholds = [{"amount_cents": 1000}, {"amount_cents": 500, "recurring": True}]
    list_.plan(charge, amount_cents=3100, usage_thresholds=thresholds)
    list_.subscribe()
    for value in (9, 2, 1, 0, 4, 1):
        list_.event("gb", value=value)
    reached = [m for m in list_.box.webhooks if m["webhook_type"] == "subscription.usage_threshold_reached"]
    assert [m["subscription"]["usage_threshold"]["amount_cents"] for m in reached] == [1000, 500]
    applied = [invoice["applied_usage_thresholds"][0] for invoice in progressive(list_)]
    assert [one["lifetime_usage_amount_cents"] for one in applied] == [1100, 1600]


def test_a_threshold_whose_invoice_was_voided_is_not_billed_again(list_: PriceList) -> None:
    subscribed(list_, {"amount_cents": 1000}, {"amount_cents": 2000})
    list_.event("gb", value=12)
    (invoice,) = progressive(list_)
    list_.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/void", json={})
    list_.event("gb", value=1)
    assert [one["status"] for one in progressive(list_)] == ["voided"]
    list_.event("gb", value=8)
    assert [one["total_amount_cents"] for one in progressive(list_)] == [1200, 2100]


def test_a_recurring_threshold_whose_invoice_was_voided_leaves_the_usage_to_the_period(list_: PriceList) -> None:
    """A threshold is billed once for what had been invoiced before: the period bills the rest, all of it, once."""
    subscribed(list_, {"amount_cents": 1000, "recurring": True})
    list_.event("gb", value=12)
    void(list_, progressive(list_)[0])
    list_.event("gb", value=13)
    assert [one["status"] for one in progressive(list_)] == ["voided"]
    closing = closed(list_)
    assert (closing["progressive_billing_credit_amount_cents"], closing["fees_amount_cents"]) == (0, 103_100)
    list_.event("gb", value=10)
    assert [one["total_amount_cents"] for one in progressive(list_)] == [1200, 1000]


@pytest.mark.parametrize(
    ("voided", "anew", "credit"),
    [((0,), False, 2000), ((1,), False, 2000), ((2,), False, 2000), ((0, 1, 2), False, 0), ((0, 2), True, 3000)],
)
def test_the_period_takes_off_what_stands_of_what_was_billed_ahead(
    list_: PriceList, voided: tuple[int, ...], anew: bool, credit: int
) -> None:
    subscribed(list_, *({"amount_cents": cents} for cents in (1000, 2000, 3000)))
    for _ in range(3):
        list_.event("gb", value=10)
    ahead = progressive(list_)
    assert [one["total_amount_cents"] for one in ahead] == [1000, 1000, 1000]
    for number in voided:
        void(list_, ahead[number])
        if anew:
            lines = [{"id": fee["svc_id"]} for fee in ahead[number]["fees"]]
            made = list_.box.billing.invoices.regenerate(ahead[number]["svc_id"], fees=lines)
            assert made.total_amount_cents == 1000
    assert closed(list_)["progressive_billing_credit_amount_cents"] == credit
    assert list_.get("/credit_notes")["credit_notes"] == []


def test_thresholds_of_a_subscription_alone(list_: PriceList) -> None:
    subscribed(list_, usage_thresholds=[{"amount_cents": 1000, "threshold_display_name": "Own"}])
    list_.event("gb", value=12)
    assert [invoice["total_amount_cents"] for invoice in progressive(list_)] == [1200]


def test_what_was_billed_ahead_is_credited_on_the_next_invoices(list_: PriceList) -> None:
    subscribed(list_, {"amount_cents": 1000}, {"amount_cents": 5000})
    list_.event("gb", value=10)
    list_.event("gb", value=45)
    assert [invoice["total_amount_cents"] for invoice in progressive(list_)] == [1000, 4500]
    list_.box.travel_to("2024-04-01T01:00:00Z")
    (closing,) = list_.get("/invoices?invoice_type=subscription")["invoices"]
    # The fee, the usage brought up to its minimum, less what both progressive invoices have billed.
    assert closing["fees_amount_cents"] == 3100 + 100_000
    assert closing["progressive_billing_credit_amount_cents"] == 5500


def test_progressive_billing_can_be_disabled(list_: PriceList) -> None:
    subscribed(list_, {"amount_cents": 1000}, progressive_billing_disabled=True)
    list_.event("gb", value=50)
    assert progressive(list_) == []


def test_lifetime_usage_adds_up_what_was_before_invoiced_and_now(list_: PriceList) -> None:
    subscribed(list_, {"amount_cents": 2000}, {"amount_cents": 5000, "recurring": True})
    list_.event("gb", value=5)
    list_.box.travel_to("2024-04-02T00:00:00Z")
    list_.event("gb", value=7)
    usage = list_.get("/subscriptions/sub/lifetime_usage")["lifetime_usage"]
    assert (usage["invoiced_usage_amount_cents"], usage["current_usage_amount_cents"]) == (100_000, 700)
    status, answer = list_.box.request(
        "PUT",
        "/api/v1/subscriptions/sub/lifetime_usage",
        json={"lifetime_usage": {"external_historical_usage_amount_cents": 300}},
    )
    assert status == 200
    changed = answer["lifetime_usage"]
    assert changed["external_historical_usage_amount_cents"] == 300
    assert changed["svc_id"] == usage["svc_id"]
    open_step = changed["usage_thresholds"][-1]
    assert (open_step["amount_cents"], open_step["completion_ratio"], open_step["reached_at"]) == (102_000, 0.8, None)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("none", {"lifetime_usage": {"external_historical_usage_amount_cents": 1}}, 404, "subscription_not_found"),
        ("sub", {"lifetime_usage": {"external_historical_usage_amount_cents": -1}}, 422, "validation_errors"),
    ],
)
def test_what_is_refused_of_lifetime_usage(
    list_: PriceList, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    subscribed(list_)
    found, answer = list_.box.request("PUT", f"/api/v1/subscriptions/{path}/lifetime_usage", json=body)
    assert (found, answer["code"]) == (status, code)


def test_what_was_before_is_known_of_one_life_only(list_: PriceList) -> None:
    """An upgrade goes on with it; whoever takes the external id later does not."""
    thresholds = [{"amount_cents": 1000}]
    metric = list_.metric("gb")
    for code, amount in (("basic", 100), ("big", 200)):
        charge = {"billable_metric_id": metric, "charge_model": "standard", "properties": {"amount": "1"}}
        list_.plan(charge, code=code, amount_cents=amount, usage_thresholds=thresholds)
    list_.subscribe("basic")
    path = "/subscriptions/sub/lifetime_usage"

    def before(query: str = "") -> int:
        return int(list_.get(path + query)["lifetime_usage"]["external_historical_usage_amount_cents"])

    def say(cents: int) -> None:
        body = {"lifetime_usage": {"external_historical_usage_amount_cents": cents}}
        assert list_.box.request("PUT", f"/api/v1{path}", json=body)[0] == 200

    say(900)
    list_.box.travel_to("2024-03-03T00:00:00Z")
    list_.subscribe("big")
    assert before() == 900
    list_.box.travel_to("2024-03-05T00:00:00Z")
    assert list_.box.request("DELETE", "/api/v1/subscriptions/sub")[0] == 200
    list_.post("/customers", customer={"external_id": "other", "currency": "EUR"})
    list_.box.travel_to("2024-03-10T00:00:00Z")
    list_.subscribe("basic", external_customer_id="other")
    assert (before(), before("?status=terminated")) == (0, 900)
    list_.event("gb", value=2)
    assert progressive(list_) == []
    say(850)
    assert (before(), before("?status=terminated")) == (850, 900)
    list_.event("gb", value=0)
    assert [invoice["fees_amount_cents"] for invoice in progressive(list_)] == [200]


@pytest.mark.parametrize(
    ("taken_back", "credited"),
    [(5, [(2, 500)]), (10, [(2, 1000)]), (15, [(1, 500), (2, 1000)]), (20, [(1, 1000), (2, 1000)])],
)
def test_a_surplus_is_given_back_by_the_invoices_that_billed_it(
    list_: PriceList, taken_back: int, credited: list[tuple[int, int]]
) -> None:
    """10.00 and 10.00 more billed ahead: what the usage comes to less is paid back in full, the latest first."""
    list_.plan(
        {"billable_metric_id": list_.metric("gb"), "charge_model": "standard", "properties": {"amount": "1"}},
        amount_cents=3100,
        usage_thresholds=[{"amount_cents": 1000}, {"amount_cents": 2000}],
    )
    list_.subscribe()
    for value in (10, 10, -taken_back):
        list_.event("gb", value=value)
    closing = closed(list_)
    left = 2000 - 100 * taken_back
    assert (closing["fees_amount_cents"], closing["progressive_billing_credit_amount_cents"]) == (3100 + left, left)
    notes = list_.get("/credit_notes")["credit_notes"]
    shown = [(int(note["invoice_number"][-1]), note["total_amount_cents"]) for note in notes]
    assert sorted(shown) == credited
    assert list_.box.billing.reading(audit).findings == ()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_threshold_is_looked_at_after_the_change_of_plan_that_was_overdue(list_: PriceList, *, is_late: bool) -> None:
    charge = {"billable_metric_id": list_.metric("tb"), "charge_model": "standard"}
    list_.plan({**charge, "properties": {"amount": "9"}}, amount_cents=3100, usage_thresholds=[{"amount_cents": 500}])
    list_.subscribe()
    other = {**charge, "properties": {"amount": "5"}}
    list_.plan(other, code="small", amount_cents=100, usage_thresholds=[{"amount_cents": 500}])
    list_.box.travel_to("2024-03-10T00:00:00Z")
    list_.subscribe("small")
    (list_.box.jump_to if is_late else list_.box.travel_to)("2024-04-03T00:00:00Z")
    list_.event("tb", value=2)
    (invoice,) = progressive(list_)
    assert invoice["total_amount_cents"] == 1000
    assert [one["plan_code"] for one in invoice["subscriptions"]] == ["small"]
    list_.box.travel_to("2024-05-02T00:00:00Z")
    assert list_.box.billing.audit().findings == ()
