"""Usage that is invoiced when it passes a threshold, and the lifetime usage behind it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, plan_fields

from usagebill import Billing
from usagebill.fields import RegeneratedFeeFields
from usagebill.operations.audit import audit
from usagebill.runtime.clock import ManualClock

pytestmark = [pytest.mark.now("2024-03-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


def subscribed(box: Scenario, *thresholds: dict[str, Any], **subscription: Any) -> None:
    charge = charge_on(box.metric("gb"), amount="1", min_amount_cents=100_000)
    box.plan(charge, amount_cents=3100, usage_thresholds=list(thresholds))
    box.subscribe(**subscription)


def progressive(box: Scenario) -> list[dict[str, Any]]:
    invoices = box.get("/invoices?invoice_type=progressive_billing")["invoices"]
    shown = [box.invoice(invoice["svc_id"]) for invoice in invoices]
    return sorted(shown, key=lambda invoice: int(invoice["sequential_id"]))


def void(box: Scenario, invoice: dict[str, Any]) -> None:
    box.post(f"/invoices/{invoice['svc_id']}/void")


def closed(box: Scenario) -> dict[str, Any]:
    """The invoice of March."""
    box.travel_to("2024-04-01T01:00:00Z")
    (closing,) = box.get("/invoices?invoice_type=subscription")["invoices"]
    assert isinstance(closing, dict)
    return closing


def test_all_thresholds_passed_at_once_make_one_invoice_and_a_message_each(box: Scenario) -> None:
    first = {"amount_cents": 1000, "threshold_display_name": "Ten"}
    subscribed(box, first, {"amount_cents": 2000}, {"amount_cents": 9000})
    box.event("gb", value=9)
    assert progressive(box) == []
    box.event("gb", value=12)
    (invoice,) = progressive(box)
    assert (invoice["status"], invoice["total_amount_cents"]) == ("finalized", (9 + 12) * 100)
    assert [fee["item"]["type"] for fee in invoice["fees"]] == ["charge"]
    applied = invoice["applied_usage_thresholds"]
    assert [threshold["usage_threshold"]["amount_cents"] for threshold in applied] == [1000, 2000]
    assert {threshold["lifetime_usage_amount_cents"] for threshold in applied} == {(9 + 12) * 100}
    reached = [m for m in box.webhooks if m["webhook_type"] == "subscription.usage_threshold_reached"]
    assert [m["subscription"]["usage_threshold"]["threshold_display_name"] for m in reached] == ["Ten", None]


def test_usage_paid_in_advance_passes_a_threshold_once(box: Scenario) -> None:
    charge = charge_on(box.metric("gb"), amount="1", pay_in_advance=True, invoiceable=False)
    thresholds = [{"amount_cents": 1000}, {"amount_cents": 500, "recurring": True}]
    box.plan(charge, amount_cents=3100, usage_thresholds=thresholds)
    box.subscribe()
    for value in (9, 2, 1, 0, 4, 1):
        box.event("gb", value=value)
    reached = [m for m in box.webhooks if m["webhook_type"] == "subscription.usage_threshold_reached"]
    assert [m["subscription"]["usage_threshold"]["amount_cents"] for m in reached] == [1000, 500]
    applied = [invoice["applied_usage_thresholds"][0] for invoice in progressive(box)]
    assert [threshold["lifetime_usage_amount_cents"] for threshold in applied] == [(9 + 2) * 100, (9 + 2 + 1 + 4) * 100]


def test_a_threshold_whose_invoice_was_voided_is_not_billed_again(box: Scenario) -> None:
    subscribed(box, {"amount_cents": 1000}, {"amount_cents": 2000})
    box.event("gb", value=12)
    (invoice,) = progressive(box)
    box.post(f"/invoices/{invoice['svc_id']}/void")
    box.event("gb", value=1)
    assert [invoice["status"] for invoice in progressive(box)] == ["voided"]
    box.event("gb", value=8)
    assert [invoice["total_amount_cents"] for invoice in progressive(box)] == [12 * 100, (12 + 1 + 8) * 100]


def test_a_recurring_threshold_whose_invoice_was_voided_leaves_the_usage_to_the_period(box: Scenario) -> None:
    """A threshold is billed once for what had been invoiced before: the period bills the rest, all of it, once."""
    subscribed(box, {"amount_cents": 1000, "recurring": True})
    box.event("gb", value=12)
    void(box, progressive(box)[0])
    box.event("gb", value=13)
    assert [invoice["status"] for invoice in progressive(box)] == ["voided"]
    closing = closed(box)
    assert (closing["progressive_billing_credit_amount_cents"], closing["fees_amount_cents"]) == (0, 100_000 + 3100)
    box.event("gb", value=10)
    assert [invoice["total_amount_cents"] for invoice in progressive(box)] == [12 * 100, 10 * 100]


@pytest.mark.parametrize(
    ("voided", "anew", "credit"),
    [((0,), False, 2000), ((1,), False, 2000), ((2,), False, 2000), ((0, 1, 2), False, 0), ((0, 2), True, 3000)],
)
def test_the_period_takes_off_what_stands_of_what_was_billed_ahead(
    box: Scenario, voided: tuple[int, ...], anew: bool, credit: int
) -> None:
    subscribed(box, *({"amount_cents": cents} for cents in (1000, 2000, 3000)))
    for _ in range(3):
        box.event("gb", value=10)
    ahead = progressive(box)
    assert [invoice["total_amount_cents"] for invoice in ahead] == [1000, 1000, 1000]
    for number in voided:
        void(box, ahead[number])
        if anew:
            lines: list[RegeneratedFeeFields] = [{"id": fee["svc_id"]} for fee in ahead[number]["fees"]]
            made = box.billing.invoices.regenerate(ahead[number]["svc_id"], fees=lines)
            assert made.total_amount_cents == 1000
    assert closed(box)["progressive_billing_credit_amount_cents"] == credit
    assert box.get("/credit_notes")["credit_notes"] == []


def test_thresholds_of_a_subscription_alone(box: Scenario) -> None:
    subscribed(box, usage_thresholds=[{"amount_cents": 1000, "threshold_display_name": "Own"}])
    box.event("gb", value=12)
    assert [invoice["total_amount_cents"] for invoice in progressive(box)] == [12 * 100]


def test_what_was_billed_ahead_is_credited_on_the_next_invoices(box: Scenario) -> None:
    subscribed(box, {"amount_cents": 1000}, {"amount_cents": 5000})
    box.event("gb", value=10)
    box.event("gb", value=45)
    assert [invoice["total_amount_cents"] for invoice in progressive(box)] == [10 * 100, 45 * 100]
    box.travel_to("2024-04-01T01:00:00Z")
    (closing,) = box.get("/invoices?invoice_type=subscription")["invoices"]
    # The fee, the usage brought up to its minimum, less what both progressive invoices have billed.
    assert closing["fees_amount_cents"] == 3100 + 100_000
    assert closing["progressive_billing_credit_amount_cents"] == (10 + 45) * 100


def test_progressive_billing_can_be_disabled(box: Scenario) -> None:
    subscribed(box, {"amount_cents": 1000}, progressive_billing_disabled=True)
    box.event("gb", value=50)
    assert progressive(box) == []


def test_lifetime_usage_counts_what_is_paid_in_advance_once(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1", pay_in_advance=True))
    box.subscribe()
    box.event("gb", value=6)

    def usage() -> tuple[int, int]:
        shown = box.get("/subscriptions/sub/lifetime_usage")["lifetime_usage"]
        return shown["invoiced_usage_amount_cents"], shown["current_usage_amount_cents"]

    assert usage() == (0, 600)
    box.travel_to("2024-04-02T00:00:00Z")
    box.event("gb", value=1)
    assert usage() == (600, 100)


def test_lifetime_usage_adds_up_what_was_before_invoiced_and_now(box: Scenario) -> None:
    subscribed(box, {"amount_cents": 2000}, {"amount_cents": 5000, "recurring": True})
    box.event("gb", value=5)
    box.travel_to("2024-04-02T00:00:00Z")
    box.event("gb", value=7)
    usage = box.get("/subscriptions/sub/lifetime_usage")["lifetime_usage"]
    assert (usage["invoiced_usage_amount_cents"], usage["current_usage_amount_cents"]) == (100_000, 7 * 100)
    status, answer = box.send(
        "PUT", "/subscriptions/sub/lifetime_usage", {"lifetime_usage": {"external_historical_usage_amount_cents": 300}}
    )
    assert status == 200
    changed = answer["lifetime_usage"]
    assert changed["external_historical_usage_amount_cents"] == 300
    assert changed["svc_id"] == usage["svc_id"]
    open_step = changed["usage_thresholds"][-1]
    assert (open_step["amount_cents"], open_step["completion_ratio"], open_step["reached_at"]) == (
        2000 + 20 * 5000,
        0.8,
        None,
    )


def test_lifetime_usage_goes_on_from_plan_to_plan(box: Scenario) -> None:
    gb = box.metric("gb")
    for code, amount in (("basic", 0), ("big", 5000)):
        box.plan(charge_on(gb, amount="1"), code=code, amount_cents=amount)
    box.subscribe()
    box.event("gb", value=5)
    box.travel_to("2024-03-10T10:00:00Z")
    upgraded = box.subscribe("big")
    box.event("gb", value=2)
    usage = box.get("/subscriptions/sub/lifetime_usage")["lifetime_usage"]
    assert (usage["invoiced_usage_amount_cents"], usage["current_usage_amount_cents"]) == (5 * 100, 2 * 100)
    assert usage["svc_subscription_id"] == upgraded["svc_id"]
    assert (usage["from_datetime"], usage["to_datetime"]) == ("2024-03-01T00:00:00Z", "2024-03-10T10:00:00Z")
    assert "usage_thresholds" not in usage
    body = {"lifetime_usage": {"external_historical_usage_amount_cents": -1}}
    details = box.ask("PUT", "/subscriptions/sub/lifetime_usage", body, status=422)["error_details"]
    assert details == {"historical_usage_amount_cents": ["value_is_out_of_range"]}


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("none", {"lifetime_usage": {"external_historical_usage_amount_cents": 1}}, 404, "subscription_not_found"),
        ("sub", {"lifetime_usage": {"external_historical_usage_amount_cents": -1}}, 422, "validation_errors"),
    ],
)
def test_what_is_refused_of_lifetime_usage(
    box: Scenario, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    subscribed(box)
    answered, answer = box.send("PUT", f"/subscriptions/{path}/lifetime_usage", body)
    assert (answered, answer["code"]) == (status, code)


def test_what_was_before_is_known_of_one_life_only(box: Scenario) -> None:
    """An upgrade goes on with it; whoever takes the external id later does not."""
    thresholds = [{"amount_cents": 1000}]
    metric = box.metric("gb")
    for code, amount in (("basic", 100), ("big", 200)):
        charge = charge_on(metric, amount="1")
        box.plan(charge, code=code, amount_cents=amount, usage_thresholds=thresholds)
    box.subscribe("basic")
    path = "/subscriptions/sub/lifetime_usage"

    def before(query: str = "") -> int:
        return int(box.get(path + query)["lifetime_usage"]["external_historical_usage_amount_cents"])

    def say(cents: int) -> None:
        body = {"lifetime_usage": {"external_historical_usage_amount_cents": cents}}
        box.ask("PUT", path, body)

    say(900)
    box.travel_to("2024-03-03T00:00:00Z")
    box.subscribe("big")
    assert before() == 900
    box.travel_to("2024-03-05T00:00:00Z")
    box.delete("/subscriptions/sub")
    box.customer("other")
    box.travel_to("2024-03-10T00:00:00Z")
    box.subscribe("basic", customer="other")
    assert (before(), before("?status=terminated")) == (0, 900)
    box.event("gb", value=2)
    assert progressive(box) == []
    say(850)
    assert (before(), before("?status=terminated")) == (850, 900)
    box.event("gb", value=0)
    assert [invoice["fees_amount_cents"] for invoice in progressive(box)] == [200]


@pytest.mark.parametrize(
    ("taken_back", "credited"),
    [(5, [(2, 500)]), (10, [(2, 1000)]), (15, [(1, 500), (2, 1000)]), (20, [(1, 1000), (2, 1000)])],
)
def test_a_surplus_is_given_back_by_the_invoices_that_billed_it(
    box: Scenario, taken_back: int, credited: list[tuple[int, int]]
) -> None:
    """10.00 and 10.00 more billed ahead: what the usage comes to less is paid back in full, latest first."""
    box.plan(
        charge_on(box.metric("gb"), amount="1"),
        amount_cents=3100,
        usage_thresholds=[{"amount_cents": 1000}, {"amount_cents": 2000}],
    )
    box.subscribe()
    for value in (10, 10, -taken_back):
        box.event("gb", value=value)
    closing = closed(box)
    left = 2000 - 100 * taken_back
    assert (closing["fees_amount_cents"], closing["progressive_billing_credit_amount_cents"]) == (3100 + left, left)
    notes = box.get("/credit_notes")["credit_notes"]
    shown = [(int(note["invoice_number"][-1]), note["total_amount_cents"]) for note in notes]
    assert sorted(shown) == credited
    assert box.billing.reading(audit).findings == ()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_threshold_is_looked_at_after_the_change_of_plan_that_was_overdue(box: Scenario, *, is_late: bool) -> None:
    charge = {"billable_metric_id": box.metric("tb"), "charge_model": "standard"}
    box.plan({**charge, "properties": {"amount": "9"}}, amount_cents=3100, usage_thresholds=[{"amount_cents": 500}])
    box.subscribe()
    other = {**charge, "properties": {"amount": "5"}}
    box.plan(other, code="small", amount_cents=100, usage_thresholds=[{"amount_cents": 500}])
    box.travel_to("2024-03-10T00:00:00Z")
    box.subscribe("small")
    (box.jump_to if is_late else box.travel_to)("2024-04-03T00:00:00Z")
    box.event("tb", value=2)
    (invoice,) = progressive(box)
    assert invoice["total_amount_cents"] == 2 * 500
    assert [subscription["plan_code"] for subscription in invoice["subscriptions"]] == ["small"]
    box.travel_to("2024-05-02T00:00:00Z")
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("of", ["plan", "subscription"])
def test_a_new_threshold_below_the_usage_is_billed_at_the_next_check(box: Scenario, of: str) -> None:
    subscribed(box, *([{"amount_cents": 90_000}] if of == "plan" else []))
    box.event("gb", value=30)
    box.travel_to("2024-03-05T08:01:00Z")
    if of == "plan":
        box.put("/plans/basic", plan={"usage_thresholds": [{"amount_cents": 2000}]})
    else:
        box.put("/subscriptions/sub", subscription={"usage_thresholds": [{"amount_cents": 2000}]})
    box.travel_to("2024-03-05T08:04:59Z")
    assert progressive(box) == []
    box.travel_to("2024-03-05T08:05:00Z")
    (invoice,) = progressive(box)
    assert invoice["total_amount_cents"] == 30 * 100
    box.event("gb", value=1)
    assert len(progressive(box)) == 1


def test_an_event_does_not_wait_for_the_check_of_a_new_threshold(box: Scenario) -> None:
    subscribed(box)
    box.put("/plans/basic", plan={"usage_thresholds": [{"amount_cents": 2000}]})
    box.event("gb", value=30)
    assert len(progressive(box)) == 1


def metered(box: Scenario, *thresholds: dict[str, Any]) -> None:
    """A subscription for 31.00 and 1.00 a unit."""
    box.plan(charge_on(box.metric("gb"), amount="1"), amount_cents=3100, usage_thresholds=list(thresholds))
    box.subscribe()


def regenerated(box: Scenario, invoice: dict[str, Any]) -> Any:
    lines: list[RegeneratedFeeFields] = [{"id": fee["svc_id"]} for fee in box.invoice(invoice["svc_id"])["fees"]]
    made = box.billing.invoices.regenerate(invoice["svc_id"], fees=lines)
    return box.invoice(made.id)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_invoices_voided_and_regenerated_in_any_order_bill_the_usage_once(
    box: Scenario, order: tuple[int, ...]
) -> None:
    """30.00 billed ahead in three invoices, 10.00 more by the end of the period: 40.00 whatever the order."""
    metered(box, *({"amount_cents": cents} for cents in (1000, 2000, 3000)))
    for day in (21, 22, 23):
        box.travel_to(f"2024-03-{day}T00:00:00Z")
        box.event("gb", value=10)
    ahead = progressive(box)
    for number in (1, 2, 0):
        void(box, ahead[number])
    billed = sum(regenerated(box, ahead[number])["total_amount_cents"] for number in order)
    assert billed == 3000
    box.event("gb", value=10)
    closing = box.invoice(closed(box)["svc_id"])
    usage = [fee["amount_cents"] for fee in closing["fees"] if fee["item"]["type"] == "charge"]
    assert (usage, closing["progressive_billing_credit_amount_cents"]) == ([4000], 3000)
    assert box.billing.reading(audit).findings == ()


def test_an_invoice_regenerated_after_a_later_one_that_billed_everything_bills_nothing(box: Scenario) -> None:
    metered(box, {"amount_cents": 1000}, {"amount_cents": 2000})
    for _ in range(2):
        box.event("gb", value=10)
    first, second = progressive(box)
    void(box, first)
    void(box, second)
    assert regenerated(box, second)["total_amount_cents"] == 2000
    again = regenerated(box, first)
    credits = [(credit["amount_cents"], credit["item"]["type"]) for credit in again["credits"]]
    assert (again["total_amount_cents"], credits) == (0, [(1000, "invoice")])
    assert box.billing.reading(audit).findings == ()


def test_a_note_made_by_hand_is_not_billed_again_at_the_end_of_the_period(box: Scenario) -> None:
    """12.00 billed ahead, 4.00 of them forgiven, 30.00 used in all: 18.00 are left, not 22.00."""
    metered(box, {"amount_cents": 1000})
    box.event("gb", value=12)
    (ahead,) = progressive(box)
    items = [{"fee_id": ahead["fees"][0]["svc_id"], "amount_cents": 400}]
    box.post("/credit_notes", credit_note={"invoice_id": ahead["svc_id"], "offset_amount_cents": 400, "items": items})
    box.event("gb", value=18)
    closing = box.invoice(closed(box)["svc_id"])
    assert (closing["fees_amount_cents"], closing["progressive_billing_credit_amount_cents"]) == (3100 + 3000, 1200)
    assert box.billing.reading(audit).findings == ()


def test_a_surplus_beside_a_note_made_by_hand_is_given_back_as_far_as_something_is_left(box: Scenario) -> None:
    """12.00 billed ahead and forgiven, of which 5.00 were used: nothing more is owed, and nothing is given back."""
    metered(box, {"amount_cents": 1000})
    box.event("gb", value=12)
    (ahead,) = progressive(box)
    items = [{"fee_id": ahead["fees"][0]["svc_id"], "amount_cents": 1200}]
    box.post("/credit_notes", credit_note={"invoice_id": ahead["svc_id"], "offset_amount_cents": 1200, "items": items})
    box.event("gb", value=-7)
    closing = box.invoice(closed(box)["svc_id"])
    assert (closing["fees_amount_cents"], closing["progressive_billing_credit_amount_cents"]) == (3100 + 500, 500)
    assert len(box.get("/credit_notes")["credit_notes"]) == 1
    assert box.billing.reading(audit).findings == ()


def test_usage_that_fell_is_given_back_with_the_taxes_that_were_on_it(box: Scenario) -> None:
    """10.00 at 20 % and 1.00 at 7 % billed ahead, then 5.00 and 30.00: 29.00 at 7 %, which make up for nothing."""
    for rate in ("20", "7"):
        box.tax(rate, code=f"vat{rate}", applied_to_organization=False)
    charges = [
        charge_on(box.metric(code, aggregation_type="latest_agg"), amount="1", tax_codes=[f"vat{rate}"])
        for code, rate in (("disks", "20"), ("books", "7"))
    ]
    box.plan(*charges, amount_cents=0, usage_thresholds=[{"amount_cents": 500}])
    box.subscribe()
    box.event("books", value=1)
    box.event("disks", value=10)
    box.event("disks", value=5)
    box.event("books", value=30)
    box.travel_to("2024-04-01T01:00:00Z")
    ahead, closing = box.invoices()
    assert ahead["total_amount_cents"] == 1200 + 107
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert note["total_amount_cents"] == 600
    assert closing["sub_total_including_taxes_amount_cents"] == 3103
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("is_late", [False, True])
def test_an_overdue_check_of_a_new_threshold_bills_what_was_used_until_it_was_due(
    box: Scenario, *, is_late: bool
) -> None:
    subscribed(box)
    box.event("gb", value=30)
    box.put("/subscriptions/sub", subscription={"usage_thresholds": [{"amount_cents": 2000, "recurring": True}]})
    (box.jump_to if is_late else box.travel_to)("2024-03-01T09:00:00Z")
    box.event("gb", value=50)
    ahead = [(invoice["created_at"], invoice["fees_amount_cents"]) for invoice in progressive(box)]
    assert ahead == [("2024-03-01T00:05:00Z", 30 * 100), ("2024-03-01T09:00:00Z", (30 + 50) * 100)]


def test_a_check_that_is_overdue_for_a_month_leaves_later_usage_to_one_of_its_own(empty_database: str) -> None:
    clock = ManualClock(datetime(2024, 3, 30, tzinfo=UTC))
    with Billing(empty_database, clock=clock, deliver=False) as billing:
        metric = billing.billable_metrics.create(name="GB", code="gb", aggregation_type="sum_agg", field_name="value")
        billing.plans.create(
            **plan_fields(
                charge_on(metric.id, amount="1"), usage_thresholds=[{"amount_cents": 1000, "recurring": True}]
            )
        )
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
        for day, month, used in ((30, 3, 9), (31, 3, 2), (2, 4, 30)):
            clock.set(datetime(2024, month, day, 12, tzinfo=UTC))
            billing.events.create(
                transaction_id=f"{day}", code="gb", external_subscription_id="sub", properties={"value": used}
            )
        billing.run_due()
        ahead = billing.invoices.list(invoice_type="progressive_billing").items
        assert sorted((str(invoice.created_at.date()), invoice.fees_amount_cents) for invoice in ahead) == [
            ("2024-03-31", (9 + 2) * 100),
            ("2024-04-02", 30 * 100),
        ]


@pytest.mark.parametrize("voided", [False, True], ids=["as billed", "voided and made again"])
@pytest.mark.parametrize("between", [5, 0])
@pytest.mark.parametrize(
    ("before", "after"),
    [("UTC", "Asia/Tokyo"), ("America/Los_Angeles", "UTC"), ("Asia/Tokyo", "America/Los_Angeles")],
)
def test_a_time_zone_that_moves_after_a_threshold_costs_nothing(
    before: str, after: str, between: int, voided: bool
) -> None:
    """February ends earlier in the east: what was billed ahead of it is deducted by its invoice, not by March's too."""
    with Scenario(now="2024-01-10T00:00:00Z") as box:
        box.customer(timezone=before)
        box.plan(charge_on(box.metric("gb"), amount="1"), usage_thresholds=[{"amount_cents": n} for n in (1500, 2000)])
        box.subscribe()
        box.travel_to("2024-02-12T00:00:00Z")
        box.event("gb", value=15)
        box.travel_to("2024-02-13T00:00:00Z")
        box.customer(timezone=after)
        if between:
            box.event("gb", value=between)
        box.travel_to("2024-03-12T20:00:00Z")
        assert box.billing.audit().findings == ()
        if voided:
            ahead = [one for one in box.invoices() if one["invoice_type"] == "progressive_billing"][-1]
            box.post(f"/invoices/{ahead['svc_id']}/void")
            box.billing.invoices.regenerate(ahead["svc_id"], fees=[{"id": fee["svc_id"]} for fee in ahead["fees"]])
        box.event("gb", value=30)
        box.travel_to("2024-04-02T20:00:00Z")
        billed = [one["total_amount_cents"] for one in box.invoices() if one["status"] == "finalized"]
        assert sum(billed) == (15 + between + 30) * 100
        assert box.billing.audit().findings == ()
