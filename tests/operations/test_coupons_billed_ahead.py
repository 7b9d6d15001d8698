"""Coupons on progressive billing invoices whose usage falls afterwards: they get back what it does not justify."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on

from usagebill.fields import RegeneratedFeeFields

pytestmark = [pytest.mark.now("2024-01-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


def subscribed(box: Scenario, fee_cents: int, **coupon: Any) -> None:
    """A plan with a level at 1.00, billed ahead from 5.00 on, for a customer with a coupon."""
    level = charge_on(box.metric("level", aggregation_type="latest_agg"), amount="1")
    box.plan(level, amount_cents=fee_cents, usage_thresholds=[{"amount_cents": 500}])
    if "amount_cents" in coupon:
        coupon = {"coupon_type": "fixed_amount", "amount_currency": "EUR", **coupon}
    else:
        coupon = {"coupon_type": "percentage", **coupon}
    box.post("/coupons", coupon={"name": "Off", "code": "off", "expiration": "no_expiration", **coupon})
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "off"})
    box.subscribe()


FIXED = {
    "name": "Off",
    "code": "off",
    "coupon_type": "fixed_amount",
    "amount_currency": "EUR",
    "expiration": "no_expiration",
}


def applied(box: Scenario) -> dict[str, Any]:
    (shown,) = box.get("/applied_coupons")["applied_coupons"]
    assert isinstance(shown, dict)
    return shown


def cost(box: Scenario) -> int:
    """What all invoices ask for, less what credit notes give back, in cents."""
    notes = box.get("/credit_notes")["credit_notes"]
    asked = sum(int(invoice["sub_total_excluding_taxes_amount_cents"]) for invoice in box.invoices())
    return asked - sum(int(note["sub_total_excluding_taxes_amount_cents"]) for note in notes)


def test_a_coupon_for_a_total_gets_back_what_it_paid_for_usage_that_fell(box: Scenario) -> None:
    subscribed(box, 0, amount_cents=7777, frequency="once")
    box.event("level", value=10)
    assert applied(box)["amount_cents_remaining"] == 7777 - 1000
    box.event("level", value=5)
    box.travel_to("2024-02-01T01:00:00Z")
    assert (cost(box), applied(box)["amount_cents_remaining"]) == (0, 7777 - 500)
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize(("level", "left"), [(10, 0), (5, 0), (0, 0)])
def test_a_coupon_that_was_used_up_pays_for_the_rest_of_the_period(box: Scenario, level: int, left: int) -> None:
    subscribed(box, 3000, amount_cents=1000, frequency="once")
    box.event("level", value=10)
    assert applied(box)["status"] == "terminated"
    box.event("level", value=level)
    box.travel_to("2024-02-01T01:00:00Z")
    assert (cost(box), applied(box)["amount_cents_remaining"]) == (level * 100 + 3000 - 1000, left)
    assert applied(box)["status"] == "terminated"
    assert box.billing.audit().findings == ()


def test_a_coupon_that_is_not_used_any_more_is_available_again(box: Scenario) -> None:
    subscribed(box, 0, amount_cents=1000, frequency="once")
    box.event("level", value=10)
    box.event("level", value=4)
    box.travel_to("2024-02-01T01:00:00Z")
    assert (applied(box)["status"], applied(box)["amount_cents_remaining"]) == ("active", 600)
    box.event("level", value=9)
    box.travel_to("2024-03-01T01:00:00Z")
    assert cost(box) == 900 - 600


def test_a_coupon_that_was_ended_by_hand_keeps_its_cents_and_stays_ended(box: Scenario) -> None:
    subscribed(box, 3000, amount_cents=7777, frequency="once")
    box.event("level", value=10)
    box.delete(f"/customers/acme/applied_coupons/{applied(box)['svc_id']}")
    box.event("level", value=5)
    box.travel_to("2024-02-01T01:00:00Z")
    assert (applied(box)["status"], applied(box)["amount_cents_remaining"]) == ("terminated", 7777 - 500)
    assert cost(box) == 3000


@pytest.mark.parametrize("coupon", [{"amount_cents": 1000}, {"percentage_rate": "50"}], ids=["amount", "rate"])
@pytest.mark.parametrize(("fee_cents", "left"), [(0, 1), (3000, 0)])
def test_a_use_is_given_back_with_the_usage_unless_the_period_uses_it_elsewhere(
    box: Scenario, coupon: dict[str, Any], fee_cents: int, left: int
) -> None:
    subscribed(box, fee_cents, frequency="recurring", frequency_duration=1, **coupon)
    box.event("level", value=10)
    assert applied(box)["frequency_duration_remaining"] == 0
    box.event("level", value=0)
    box.travel_to("2024-02-01T01:00:00Z")
    off = min(fee_cents, 1000) if "amount_cents" in coupon else fee_cents // 2
    assert (cost(box), applied(box)["frequency_duration_remaining"]) == (fee_cents - off, left)
    assert box.billing.audit().findings == ()


def test_a_draft_gives_back_once_and_its_invoice_uses_it(box: Scenario) -> None:
    box.customer(billing_configuration={"invoice_grace_period": 3})
    subscribed(box, 3000, amount_cents=1000, frequency="once")
    box.event("level", value=10)
    box.event("level", value=5)
    box.travel_to("2024-02-01T01:00:00Z")
    for _ in range(2):
        box.put(f"/invoices/{box.invoices()[-1]['svc_id']}/refresh")
        assert (applied(box)["status"], applied(box)["amount_cents_remaining"]) == ("active", 500)
    box.travel_to("2024-02-05T01:00:00Z")
    assert (cost(box), applied(box)["amount_cents_remaining"]) == (500 + 3000 - 1000, 0)
    assert box.billing.audit().findings == ()


def test_a_fixed_coupon_is_shared_over_all_rates_as_if_nothing_had_been_billed_ahead(box: Scenario) -> None:
    """Usage of 10.00 at 20 % and a fee of 30.00 at 7 % less 10.00: 7.50 and 22.50, taxes of 1.50 and 1.575."""
    for rate in ("20", "7"):
        box.tax(rate, code=f"vat{rate}", applied_to_organization=False)
    level = charge_on(box.metric("level", aggregation_type="latest_agg"), amount="1", tax_codes=["vat20"])
    box.plan(level, amount_cents=3000, tax_codes=["vat7"], usage_thresholds=[{"amount_cents": 500}])
    box.post("/coupons", coupon={**FIXED, "amount_cents": 1000, "frequency": "forever"})
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "off"})
    box.subscribe()
    box.event("level", value=10)
    box.travel_to("2024-02-01T01:00:00Z")
    ahead, closing = box.invoices()
    assert ahead["total_amount_cents"] == 0
    assert closing["total_amount_cents"] == 750 + 2250 + 308
    shares = {fee["item"]["type"]: float(fee["precise_coupons_amount_cents"]) for fee in closing["fees"]}
    assert shares == {"charge": 250, "subscription": 750}
    assert box.billing.audit().findings == ()


def test_what_was_billed_ahead_is_deducted_whole_though_shares_of_a_coupon_do_not_come_out_even(box: Scenario) -> None:
    subscribed(box, 10499, percentage_rate="33.33", frequency="recurring", frequency_duration=2)
    box.event("level", value=19)
    box.travel_to("2024-02-01T01:00:00Z")
    assert box.get("/credit_notes")["credit_notes"] == []  # usage did not fall
    stage, closing = sorted(box.invoices(), key=lambda invoice: str(invoice["created_at"]))
    assert (stage["fees_amount_cents"], stage["coupons_amount_cents"]) == (1900, 633)
    assert closing["progressive_billing_credit_amount_cents"] == 1900
    assert closing["coupons_amount_cents"] == 3499  # 33.33 % of 123.99 less 19.00
    assert box.billing.audit().findings == ()


def test_a_coupon_that_was_given_between_two_invoices_ahead_takes_nothing_off_the_first(box: Scenario) -> None:
    level = charge_on(box.metric("level", aggregation_type="latest_agg"), amount="1")
    box.plan(level, amount_cents=2170, usage_thresholds=[{"amount_cents": 1500, "recurring": True}])
    box.subscribe()
    box.event("level", value=19)
    box.post("/coupons", coupon={**FIXED, "coupon_type": "percentage", "percentage_rate": "50", "frequency": "forever"})
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "off"})
    box.event("level", value=40)
    box.travel_to("2024-02-01T01:00:00Z")
    assert box.get("/credit_notes")["credit_notes"] == []  # usage did not fall
    first, second, closing = sorted(
        box.invoices(), key=lambda invoice: str(invoice["issuing_date"] + invoice["number"])
    )
    assert (first["sub_total_excluding_taxes_amount_cents"], second["coupons_amount_cents"]) == (1900, 1050)
    assert closing["progressive_billing_credit_amount_cents"] == 4000
    assert closing["coupons_amount_cents"] == 1085
    assert cost(box) == 1900 + (2100 + 2170) // 2
    assert box.billing.audit().findings == ()


def voided_after_closing(box: Scenario, *levels: int) -> list[dict[str, Any]]:
    """January at 30.00 and levels, each billed ahead, half off for two periods; the first of these is voided."""
    subscribed(box, 3000, percentage_rate="50", frequency="recurring", frequency_duration=2)
    box.put("/plans/basic", plan={"usage_thresholds": [{"amount_cents": 100 * level} for level in levels]})
    for level in levels:
        box.event("level", value=level)
    box.travel_to("2024-02-01T01:00:00Z")
    assert applied(box)["frequency_duration_remaining"] == 1
    invoices = sorted(box.invoices(), key=lambda invoice: int(invoice["sequential_id"]))
    box.post(f"/invoices/{invoices[0]['svc_id']}/void")
    return invoices


def made_again(box: Scenario, invoice: dict[str, Any]) -> dict[str, Any]:
    lines: list[RegeneratedFeeFields] = [{"id": fee["svc_id"]} for fee in box.invoice(invoice["svc_id"])["fees"]]
    made: dict[str, Any] = box.invoice(box.billing.invoices.regenerate(invoice["svc_id"], fees=lines).id)
    return made


@pytest.mark.parametrize("levels", [(10,), (10, 20)])
def test_a_void_after_the_period_leaves_its_use_to_the_invoices_that_continue_it(
    box: Scenario, levels: tuple[int, ...]
) -> None:
    voided_after_closing(box, *levels)
    assert applied(box)["frequency_duration_remaining"] == 1
    box.travel_to("2024-05-01T01:00:00Z")
    plain = [invoice for invoice in box.invoices() if invoice["fees_amount_cents"] == 3000]
    assert sorted(invoice["coupons_amount_cents"] for invoice in plain) == [0, 0, 1500]
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("levels", [(10,), (10, 20)])
def test_an_invoice_made_again_after_the_period_continues_the_use_of_the_others(
    box: Scenario, levels: tuple[int, ...]
) -> None:
    first, *others = voided_after_closing(box, *levels)
    again = made_again(box, first)
    assert again["coupons_amount_cents"] == first["coupons_amount_cents"]
    assert applied(box)["frequency_duration_remaining"] == 1
    for other in others:
        box.post(f"/invoices/{other['svc_id']}/void")
        assert applied(box)["frequency_duration_remaining"] == 1
        assert box.billing.audit().findings == ()
    box.post(f"/invoices/{again['svc_id']}/void")
    assert applied(box)["frequency_duration_remaining"] == 2
    assert box.billing.audit().findings == ()


def test_a_coupon_for_once_is_free_again_when_the_only_invoice_that_used_it_is_voided(box: Scenario) -> None:
    subscribed(box, 3000, percentage_rate="50", frequency="once")
    box.event("level", value=10)
    box.travel_to("2024-02-01T01:00:00Z")
    closing, stage = sorted(box.invoices(), key=lambda invoice: str(invoice["invoice_type"]), reverse=True)
    assert (stage["coupons_amount_cents"], closing["coupons_amount_cents"]) == (500, 0)
    box.post(f"/invoices/{stage['svc_id']}/void")
    assert applied(box)["status"] == "active"
    assert box.billing.audit().findings == ()


def test_a_use_that_went_back_with_its_usage_does_not_go_back_again_with_a_void(box: Scenario) -> None:
    subscribed(box, 0, percentage_rate="50", frequency="recurring", frequency_duration=2)
    box.event("level", value=10)
    box.event("level", value=0)
    box.travel_to("2024-02-01T01:00:00Z")
    assert applied(box)["frequency_duration_remaining"] == 2
    stage = next(invoice for invoice in box.invoices() if invoice["invoice_type"] == "progressive_billing")
    box.post(f"/invoices/{stage['svc_id']}/void")
    assert applied(box)["frequency_duration_remaining"] == 2
    assert box.billing.audit().findings == ()


OFFS: list[dict[str, Any]] = [
    {"amount_cents": 700, "frequency": "recurring", "frequency_duration": 2},
    {"percentage_rate": "50", "frequency": "recurring", "frequency_duration": 2},
    {"amount_cents": 700, "frequency": "forever"},
    {"amount_cents": 1500, "frequency": "once"},
]


def both_used(box: Scenario, coupon: dict[str, Any], *, ahead: bool = True, **other: Any) -> None:
    """January of two subscriptions with a coupon; each uses 10.00, in two parts."""
    subscribed(box, 0, **coupon)
    box.put("/plans/basic", plan={"usage_thresholds": [{"amount_cents": 500}, {"amount_cents": 900}] if ahead else []})
    box.subscribe(external_id="other", **other)
    for level in (6, 10):
        for id in ("sub", "other"):
            box.event("level", id, value=level)


@pytest.mark.parametrize("coupon", OFFS, ids=lambda coupon: "-".join(map(str, coupon.values())))
@pytest.mark.parametrize("other", [{}, {"purchase_order_number": "7"}], ids=["one invoice", "an invoice each"])
def test_subscriptions_use_a_coupon_as_often_as_without_thresholds(
    coupon: dict[str, Any], other: dict[str, Any]
) -> None:
    costs = []
    for ahead in (False, True):
        with Scenario(now="2024-01-01T00:00:00Z") as box:
            box.customer()
            both_used(box, coupon, ahead=ahead, **other)
            for month in (2, 3, 4):
                box.travel_to(f"2024-{month:02d}-01T01:00:00Z")
                costs.append((ahead, month, cost(box), applied(box)["frequency_duration_remaining"]))
                box.event("level", value=10)
            assert box.billing.audit().findings == ()
    assert [rest for ahead, *rest in costs if ahead] == [rest for ahead, *rest in costs if not ahead]


def test_a_subscription_that_ends_apart_leaves_its_own_use_to_the_other(box: Scenario) -> None:
    both_used(box, {"percentage_rate": "50", "frequency": "recurring", "frequency_duration": 3})
    box.travel_to("2024-01-20T00:00:00Z")
    assert applied(box)["frequency_duration_remaining"] == 2
    box.unsubscribe()
    assert applied(box)["frequency_duration_remaining"] == 2
    box.travel_to("2024-02-01T01:00:00Z")
    assert (cost(box), applied(box)["frequency_duration_remaining"]) == (1000, 1)
    assert box.billing.audit().findings == ()


def test_the_void_of_one_leaves_its_use_to_that_of_the_other_subscription(box: Scenario) -> None:
    both_used(box, {"percentage_rate": "50", "frequency": "recurring", "frequency_duration": 2})
    stages = sorted(box.invoices(), key=lambda invoice: int(invoice["sequential_id"]))
    assert [stage["coupons_amount_cents"] for stage in stages] == [300, 300, 200, 200]
    for stage in stages:
        assert applied(box)["frequency_duration_remaining"] == 1
        box.post(f"/invoices/{stage['svc_id']}/void")
        assert box.billing.audit().findings == ()
    assert applied(box)["frequency_duration_remaining"] == 2


def test_what_a_coupon_for_one_metric_reduced_ahead_is_deducted_whole(box: Scenario) -> None:
    """2.00 are shared by 5.00 and 0.10, then half of 9.10 by three fees: shares of 5 decimals, whose sum is off."""
    gb, users = box.metric("gb"), box.metric("users")
    shares = [charge_on(gb, amount="5"), charge_on(gb, amount="0.1"), charge_on(users, amount="6")]
    box.plan(*shares, amount_cents=968, usage_thresholds=[{"amount_cents": 1000}])
    two = {**FIXED, "code": "two", "amount_cents": 200, "frequency": "forever"}
    half = {"name": "H", "code": "half", "coupon_type": "percentage", "percentage_rate": "50"}
    box.post("/coupons", coupon={**two, "applies_to": {"billable_metric_codes": ["gb"]}})
    box.post("/coupons", coupon={**half, "frequency": "forever", "expiration": "no_expiration"})
    for code in ("two", "half"):
        box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": code})
    box.subscribe()
    box.events("gb", {"value": 1})
    box.events("users", {"value": 1})
    box.travel_to("2024-02-01T01:00:00Z")
    assert [
        (invoice["progressive_billing_credit_amount_cents"], invoice["coupons_amount_cents"])
        for invoice in box.invoices()
    ] == [(0, 200 + 455), (1110, 484)]
    assert box.get("/credit_notes")["credit_notes"] == []


def test_a_draft_has_given_back_what_fell_before_a_later_coupon_is_shared(box: Scenario) -> None:
    """50.00 are billed ahead, 13.00 of them stay, and the coupon that came later halves the 30.00 beside them."""
    box.customer(billing_configuration={"invoice_grace_period": 3})
    level = charge_on(box.metric("level", aggregation_type="latest_agg"), amount="1")
    box.plan(level, amount_cents=3000, usage_thresholds=[{"amount_cents": 500}])
    box.subscribe()
    box.event("level", value=50)
    box.event("level", value=13)
    half = {"name": "H", "code": "half", "coupon_type": "percentage", "percentage_rate": "50", "frequency": "once"}
    box.post("/coupons", coupon={**half, "expiration": "no_expiration"})
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "half"})
    box.travel_to("2024-02-05T00:00:00Z")
    closing = next(invoice for invoice in box.invoices() if invoice["invoice_type"] == "subscription")
    assert (closing["progressive_billing_credit_amount_cents"], closing["coupons_amount_cents"]) == (1300, 1500)
    notes = box.get("/credit_notes")["credit_notes"]
    assert [note["total_amount_cents"] for note in notes] == [5000 - 1300]
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("grace", [0, 3])
@pytest.mark.parametrize("ending", ["sub", "other"])
@pytest.mark.parametrize("periods", [1, 2])
def test_a_coupon_that_runs_out_reduces_the_subscription_that_is_billed_first(
    periods: int, ending: str, grace: int
) -> None:
    """The use is that of `sub`, whose threshold was passed first, until one of them is billed apart."""
    costs = []
    for ahead in (False, True):
        with Scenario(now="2024-01-01T00:00:00Z") as box:
            box.customer(billing_configuration={"invoice_grace_period": grace})
            coupon = {"percentage_rate": "50", "frequency": "recurring", "frequency_duration": periods}
            both_used(box, coupon, ahead=ahead)
            box.travel_to("2024-01-20T00:00:00Z")
            box.unsubscribe(ending)
            box.travel_to("2024-01-25T00:00:00Z")
            left = applied(box)["frequency_duration_remaining"]
            box.event("level", "other" if ending == "sub" else "sub", value=12)
            box.travel_to("2024-02-05T01:00:00Z")
            costs.append((left, cost(box), applied(box)["frequency_duration_remaining"]))
            assert box.billing.audit().findings == ()
    wanted = (0, 500 + 1200, 0) if periods == 1 else (1, 500 + 600, 0)
    assert costs[0] == wanted
    assert costs[1][1:] == wanted[1:]


def test_a_use_whose_usage_fell_passes_to_the_other_subscription_in_whichever_order_they_are_billed() -> None:
    remaining = []
    for ahead in (False, True):
        with Scenario(now="2024-01-01T00:00:00Z") as box:
            box.customer()
            subscribed(box, 0, percentage_rate="50", frequency="recurring", frequency_duration=2)
            box.put("/plans/basic", plan={"usage_thresholds": [{"amount_cents": 500}] if ahead else []})
            box.subscribe(external_id="other")
            for id, level in (("other", 10), ("sub", 10), ("other", 0)):
                box.event("level", id, value=level)
            box.travel_to("2024-02-01T01:00:00Z")
            remaining.append((cost(box), applied(box)["frequency_duration_remaining"]))
            assert box.billing.audit().findings == ()
    assert remaining == [(500, 1), (500, 1)]


@pytest.mark.parametrize(
    ("off", "kept"), [({"percentage_rate": "50"}, 300), ({"amount_cents": 500}, 100)], ids=["half", "5.00"]
)
def test_a_coupon_given_since_takes_nothing_off_what_is_left_of_usage_that_fell(
    box: Scenario, off: dict[str, Any], kept: int
) -> None:
    """10.00 billed ahead for 5.00, of which 6.00 is left, and 20.00 of another subscription; 50 % off since then."""
    subscribed(box, 0, frequency="forever", **off)
    box.event("level", value=10)
    box.subscribe(external_id="other", progressive_billing_disabled=True)
    box.event("level", "other", value=20)
    half = {"coupon_type": "percentage", "percentage_rate": "50", "frequency": "forever"}
    box.post("/coupons", coupon={"name": "Half", "code": "half", "expiration": "no_expiration", **half})
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "half"})
    box.event("level", value=6)
    box.travel_to("2024-02-01T01:00:00Z")
    _, january = box.invoices()
    first = 1000 if "percentage_rate" in off else 0
    assert january["sub_total_excluding_taxes_amount_cents"] == (2000 - first) // 2
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert note["sub_total_excluding_taxes_amount_cents"] == 500 - kept
    assert box.billing.audit().findings == ()


def test_usage_that_fell_is_not_made_up_for_by_usage_with_another_coupon(box: Scenario) -> None:
    """16.26 with 33.33 % off and 0.22 without, billed ahead for 11.06; then 16.49 and nothing, for 10.99."""
    box.customer()
    charges = [charge_on(box.metric(code), amount="0.01") for code in ("m0", "m1")]
    box.plan(*charges, code="basic", amount_cents=0, usage_thresholds=[{"amount_cents": 1627}])
    off = {"coupon_type": "percentage", "percentage_rate": "33.33", "frequency": "forever"}
    limit = {"billable_metric_codes": ["m0"]}
    box.post(
        "/coupons", coupon={"name": "Off", "code": "off", "expiration": "no_expiration", **off, "applies_to": limit}
    )
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "off"})
    box.subscribe()
    for code, units in (("m0", 1626), ("m1", 22)):
        box.event(code, value=units)
    box.travel_to("2024-01-20T00:00:00Z")
    for code, units in (("m0", 23), ("m1", -22)):
        box.event(code, value=units)
    box.travel_to("2024-02-01T01:00:00Z")
    ahead, january = box.invoices()
    assert ahead["total_amount_cents"] == 1626 - 542 + 22
    assert january["progressive_billing_credit_amount_cents"] == 1626
    assert january["coupons_amount_cents"] == 8
    assert january["total_amount_cents"] == 23 - 8 - january["credit_notes_amount_cents"]
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert note["total_amount_cents"] == 22
    assert box.billing.audit().findings == ()


def test_what_a_coupon_does_not_find_room_for_on_a_fee_billed_ahead_is_no_finding(box: Scenario) -> None:
    """A third of 11.11 and 1.01 is 4.04, and of the month 11.75: 1.01 would come to a hundredth of a cent less than
    was billed.
    """
    metrics = [charge_on(box.metric(code), amount="1.01") for code in ("gb", "calls")]
    box.plan(*metrics, amount_cents=999, usage_thresholds=[{"amount_cents": 500}])
    box.coupon(0, coupon_type="percentage", percentage_rate="33.33", frequency="forever")
    box.subscribe()
    for code, value in (("calls", 1), ("gb", 11), ("gb", 13)):
        box.event(code, value=value)
    box.travel_to("2024-02-01T01:00:00Z")
    assert cost(box) == 3524 - 1175
    assert box.billing.audit().findings == ()
