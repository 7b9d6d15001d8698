"""Prices that wait for the next period: each period of a subscription is billed by the prices it began with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, filter_on, fixed_charge_on, price_ranges

from usagebill.core.fees import Fee, FeeType

pytestmark = pytest.mark.usefixtures("sandbox_engine")


def lines(box: Scenario, *, customer: str = "acme") -> dict[tuple[str, str], int]:
    """The cents of each invoiced line, by the day from which it counts and what it bills."""
    return {
        (str(fee["from_date"])[:10], fee["item"]["code"]): fee["amount_cents"]
        for invoice in box.invoices(customer)
        for fee in invoice["fees"]
    }


@pytest.fixture
def studio() -> Iterator[Scenario]:
    """100 images a month at 0.04 each; the price is to be 0.08, as said on 16 February."""
    with Scenario(now="2024-01-01T08:00:00Z") as box:
        box.customer()
        box.plan(charge_on(box.metric("images"), amount="0.04", code="images"), amount_cents=1000)
        box.subscribe()
        box.travel_to("2024-02-01T01:00:00Z")
        box.event("images", value="100")
        box.travel_to("2024-02-16T10:00:00Z")
        yield box


def raise_price(box: Scenario, amount: str = "0.08", **fields: Any) -> Any:
    return box.put("/plans/basic/charges/images", charge={"properties": {"amount": amount}, **fields})


def test_a_rise_for_the_next_period_leaves_the_open_one_as_it_was(studio: Scenario) -> None:
    raise_price(studio, effective="next_period")
    assert studio.get("/plans/basic")["plan"]["prices_from"] == "2024-02-16T10:00:00Z"
    assert studio.usage()["amount_cents"] == 400
    studio.travel_to("2024-03-01T01:00:00Z")
    studio.event("images", value="100")
    assert studio.usage()["amount_cents"] == 800
    studio.travel_to("2024-04-01T01:00:00Z")
    billed = lines(studio)
    assert (billed["2024-02-01", "images"], billed["2024-03-01", "images"]) == (400, 800)


def test_immediately_reprices_the_open_period_as_without_effective(studio: Scenario) -> None:
    raise_price(studio, effective="immediately")
    assert studio.usage()["amount_cents"] == 800
    raise_price(studio, "0.16")
    assert studio.usage()["amount_cents"] == 1600


def test_changes_that_wait_may_follow_each_other_within_a_period(studio: Scenario) -> None:
    for turn in range(1, 4):
        raise_price(studio, f"0.1{turn}", effective="next_period")
        studio.put("/plans/basic", plan={"amount_cents": 1000 + turn, "effective": "next_period"})
    assert studio.usage()["amount_cents"] == 400
    studio.travel_to("2024-03-01T01:00:00Z")
    studio.event("images", value="100")
    studio.travel_to("2024-04-01T01:00:00Z")
    billed = lines(studio)
    assert (billed["2024-02-01", "images"], billed["2024-03-01", "images"]) == (400, 1300)
    assert (billed["2024-02-01", "basic"], billed["2024-03-01", "basic"]) == (1000, 1003)


def test_an_immediate_change_does_not_touch_periods_that_were_promised_their_prices(studio: Scenario) -> None:
    raise_price(studio, effective="next_period")
    raise_price(studio, "0.07")
    assert studio.usage()["amount_cents"] == 400
    studio.travel_to("2024-03-01T01:00:00Z")
    studio.event("images", value="100")
    assert studio.usage()["amount_cents"] == 700


def test_a_new_subscription_has_the_new_prices_at_once(studio: Scenario) -> None:
    raise_price(studio, effective="next_period")
    studio.subscribe(external_id="new")
    studio.event("images", value="100", external_id="new")
    assert studio.usage(external_id="new")["amount_cents"] == 800
    assert studio.usage()["amount_cents"] == 400


def test_each_subscription_changes_at_its_own_next_period(studio: Scenario) -> None:
    studio.customer("far", timezone="Asia/Tokyo")
    studio.subscribe(external_id="far", customer="far", billing_time="anniversary")
    studio.travel_to("2024-02-16T11:00:00Z")
    raise_price(studio, effective="next_period")
    studio.travel_to("2024-03-10T10:00:00Z")
    studio.event("images", value="100", external_id="far")
    studio.event("images", value="100")
    studio.travel_to("2024-03-16T10:00:00Z")
    studio.event("images", value="100", external_id="far")
    studio.travel_to("2024-04-17T10:00:00Z")
    assert lines(studio)["2024-03-01", "images"] == 800
    far = lines(studio, customer="far")
    assert [cents for (_, code), cents in sorted(far.items()) if code == "images"] == [400, 800]


def test_the_explanation_shows_the_price_that_was_billed(studio: Scenario) -> None:
    raise_price(studio, effective="next_period")
    studio.travel_to("2024-03-01T01:00:00Z")
    explained = studio.billing.invoices.explain(studio.invoices()[-1]["svc_id"])
    (line,) = [line for line in explained.fees if line.usage]
    assert line.usage is not None
    assert line.usage.charge.properties == {"amount": "0.04"}
    assert any("0.04" in step for step in line.arithmetic)


def test_a_draft_keeps_the_prices_of_its_period(studio: Scenario) -> None:
    studio.customer("late", billing_configuration={"invoice_grace_period": 5})
    studio.subscribe(external_id="late", customer="late")
    studio.travel_to("2024-02-16T11:00:00Z")
    studio.event("images", value="100", external_id="late")
    raise_price(studio, effective="next_period")
    studio.travel_to("2024-03-02T10:00:00Z")
    (draft,) = studio.invoices("late")
    assert draft["status"] == "draft"
    studio.put(f"/invoices/{draft['svc_id']}/refresh")
    raise_price(studio, "0.16", effective="next_period")
    studio.unsubscribe("late")
    studio.travel_to("2024-03-10T10:00:00Z")
    first = studio.invoice(draft["svc_id"])
    assert first["status"] == "finalized"
    assert [fee["amount_cents"] for fee in first["fees"] if fee["item"]["code"] == "images"] == [400]
    assert studio.billing.audit().findings == ()


def test_what_cannot_wait_is_refused_in_words_and_changes_nothing(studio: Scenario) -> None:
    before = studio.get("/plans/basic")
    seats = charge_on(studio.metric("seats"), amount="1", code="seats")
    studio.tax(20)
    (charge,) = before["plan"]["charges"]
    kept = {"id": charge["svc_id"], "charge_model": "standard", "properties": {"amount": "0.08"}}
    unable: list[dict[str, Any]] = [
        {"charges": [kept, seats]},
        {"charges": []},
        {"tax_codes": ["vat"]},
        {"usage_thresholds": [{"amount_cents": 100}]},
    ]
    for fields in unable:
        for effective in ("next_period", "2024-04-01"):
            answer = studio.put("/plans/basic", 422, plan={"amount_cents": 5, "effective": effective, **fields})
            assert answer["error_details"] == {"effective": ["only_prices_can_wait"]}
            assert studio.get("/plans/basic") == before
    answer = studio.put("/plans/basic", 422, plan={"name": "New", "amount_cents": 5, "effective": "2024-04-01"})
    assert answer["error_details"] == {"effective": ["only_prices_can_wait"]}
    answer = studio.put("/plans/basic", 422, plan={"amount_cents": 5, "effective": "2024-02-15"})
    assert answer["error_details"] == {"effective": ["cannot_be_in_past"]}
    answer = studio.put("/plans/basic", 422, plan={"amount_cents": 5, "effective": "tomorrow"})
    assert answer["error_details"] == {"effective": ["value_is_invalid"]}
    assert studio.get("/plans/basic") == before
    # The same charges with new prices can wait.
    studio.put("/plans/basic", plan={"charges": [kept], "effective": "next_period"})
    assert studio.usage()["amount_cents"] == 400


def test_a_plan_that_nobody_is_on_changes_at_once() -> None:
    with Scenario(now="2024-01-01T08:00:00Z") as box:
        box.customer()
        box.plan(amount_cents=1000)
        box.put("/plans/basic", plan={"amount_cents": 2000, "interval": "yearly", "effective": "next_period"})
        box.subscribe(subscription_at="2023-12-01T00:00:00Z")
        assert box.get("/plans/basic")["plan"]["interval"] == "yearly"


def test_overrides_follow_a_change_that_waits_with_cascade(studio: Scenario) -> None:
    studio.subscribe(external_id="own", plan_overrides={"name": "Own"})
    studio.travel_to("2024-02-16T11:00:00Z")
    studio.event("images", value="100", external_id="own")
    raise_price(studio, effective="next_period", cascade_updates=True)
    assert studio.usage(external_id="own")["amount_cents"] == 400
    studio.travel_to("2024-03-01T01:00:00Z")
    studio.event("images", value="100", external_id="own")
    assert studio.usage(external_id="own")["amount_cents"] == 800


OWN_PLAN: dict[str, tuple[str, dict[str, Any]]] = {
    "of the plan": ("/subscriptions/sub", {"subscription": {"plan_overrides": {"name": "Own"}}}),
    "of a charge": ("/subscriptions/sub/charges/images", {"charge": {"invoice_display_name": "Own"}}),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("edit", OWN_PLAN.values(), ids=OWN_PLAN)
def test_a_name_of_its_own_changes_no_price_of_any_period(
    studio: Scenario, edit: tuple[str, dict[str, Any]], late: bool
) -> None:
    for turn, amount in enumerate(("0.06", "0.08"), start=1):
        raise_price(studio, amount, effective="next_period")
        studio.put("/plans/basic", plan={"amount_cents": 1000 + turn, "effective": "next_period"})
    path, body = edit
    studio.put(path, **body)
    assert studio.usage()["amount_cents"] == 400
    if not late:
        for day in range(17, 30):
            studio.travel_to(f"2024-02-{day}T10:00:00Z")
    studio.travel_to("2024-03-05T01:00:00Z")
    studio.event("images", value="100")
    studio.travel_to("2024-04-01T01:00:00Z")
    assert sorted(fee["amount_cents"] for invoice in studio.invoices() for fee in invoice["fees"]) == [
        *(400, 800),
        *(1000, 1000, 1002),
    ]
    assert studio.billing.audit().findings == ()


def test_a_plan_of_its_own_bills_every_line_by_the_prices_of_its_period() -> None:
    """A subscription gets its own copy of the plan while prices wait, and is billed as its neighbour is, also on the
    draft of the period before.
    """
    with Scenario(now="2024-01-10T08:00:00Z") as box:
        for name, external_id in (("acme", "sub"), ("other", "other")):
            box.customer(name, billing_configuration={"invoice_grace_period": 20})
            if external_id == "sub":
                everything(box, pay_in_advance=False)
            box.subscribe(external_id=external_id, customer=name)
        for turn, month in enumerate(("01", "02"), start=1):
            box.travel_to(f"2024-{month}-12T10:00:00Z")
            use_everything(box)
            use_everything(box, "other")
            change_prices(box, turn, "next_period")
        box.put("/subscriptions/sub/fixed_charges/seat", fixed_charge={"invoice_display_name": "Own"})
        box.travel_to("2024-04-25T00:00:00Z")
        own, other = sums_by_month(box), sums_by_month(box, "other")
        # A plan of its own has no minimum commitment of the catalog's.
        billed = {key: cents for key, cents in other.items() if key[1] != "commitment"}
        assert {key: cents for key, cents in own.items() if key[1] != "commitment"} == billed
        assert [billed[month, "basic"] for month in (2, 3)] == [3131, 3162]
        report = box.billing.audit()
        assert (report.findings, report.not_recounted) == ((), ())


def test_prices_of_its_own_wait_as_the_plan_does(studio: Scenario) -> None:
    raise_price(studio, effective="next_period")
    (charge,) = studio.get("/plans/basic")["plan"]["charges"]
    own = {"charges": [{"id": charge["svc_id"], "properties": {"amount": "0.02"}}]}
    studio.put("/subscriptions/sub", subscription={"plan_overrides": own})
    assert studio.usage()["amount_cents"] == 400
    studio.put("/subscriptions/sub/charges/images", charge={"properties": {"amount": "0.03"}})
    assert studio.usage()["amount_cents"] == 400
    studio.travel_to("2024-03-01T01:00:00Z")
    studio.event("images", value="100")
    assert studio.usage()["amount_cents"] == 300


def test_a_rise_from_a_day_on_leaves_the_periods_before_it(studio: Scenario) -> None:
    raise_price(studio, effective="2024-04-01")
    raise_price(studio, "0.16", effective="2024-05-01")
    studio.put("/plans/basic", plan={"amount_cents": 1500, "effective": "2024-04-01"})
    (charge,) = studio.get("/plans/basic")["plan"]["charges"]
    assert charge["properties"] == {"amount": "0.04"}
    for month in ("03", "04", "05"):
        studio.travel_to(f"2024-{month}-01T01:00:00Z")
        studio.event("images", value="100")
    assert studio.get("/plans/basic")["plan"]["amount_cents"] == 1500
    studio.travel_to("2024-06-01T01:00:00Z")
    billed = lines(studio)
    assert [billed[f"2024-0{month}-01", "images"] for month in (2, 3, 4, 5)] == [400, 400, 800, 1600]
    assert [billed[f"2024-0{month}-01", "basic"] for month in (2, 3, 4, 5)] == [1000, 1000, 1500, 1500]
    assert studio.billing.audit().findings == ()


def test_the_day_is_that_of_the_customer(studio: Scenario) -> None:
    for name, zone in (("east", "Asia/Tokyo"), ("west", "America/Los_Angeles")):
        studio.customer(name, timezone=zone)
        studio.subscribe(external_id=name, customer=name)
    raise_price(studio, effective="2024-04-01")
    for at in ("2024-03-31T14:00:00Z", "2024-03-31T16:00:00Z", "2024-04-01T06:00:00Z", "2024-04-01T08:00:00Z"):
        studio.travel_to(at)
        for name in ("east", "west"):
            studio.event("images", value="100", external_id=name)
    studio.travel_to("2024-05-02T12:00:00Z")
    for name, cents in (("east", [400, 2400]), ("west", [1200, 800])):
        of_images = sorted(
            (day, cents) for (day, code), cents in lines(studio, customer=name).items() if code == "images"
        )
        assert [cents for _, cents in of_images][-2:] == cents, name
    # A customer who moves since is billed by the days that were.
    studio.customer("east", timezone="UTC")
    studio.customer("west", timezone="UTC")
    assert studio.billing.audit().findings == ()


def test_prices_that_wait_for_a_day_are_on_top_of_what_changes_until_then(studio: Scenario) -> None:
    raise_price(studio, effective="2024-04-01")
    studio.put("/plans/basic", plan={"amount_cents": 1100})
    raise_price(studio, "0.05")
    assert studio.usage()["amount_cents"] == 500
    raise_price(studio, "0.06", effective="next_period")
    studio.travel_to("2024-03-01T01:00:00Z")
    studio.event("images", value="100")
    assert studio.usage()["amount_cents"] == 600
    studio.travel_to("2024-04-01T01:00:00Z")
    studio.event("images", value="100")
    assert studio.usage()["amount_cents"] == 800
    studio.travel_to("2024-05-01T01:00:00Z")
    assert [lines(studio)[f"2024-0{month}-01", "basic"] for month in (2, 3, 4)] == [1100, 1100, 1100]
    assert studio.billing.audit().findings == ()


def test_overrides_have_the_day_too_unless_they_have_a_price_of_their_own(studio: Scenario) -> None:
    raise_price(studio, effective="2024-04-01")
    (charge,) = studio.get("/plans/basic")["plan"]["charges"]
    own = {"charges": [{"id": charge["svc_id"], "properties": {"amount": "0.02"}}]}
    studio.subscribe(external_id="own", plan_overrides=own)
    studio.subscribe(external_id="later", plan_overrides={"name": "Later"})
    studio.put("/subscriptions/sub", subscription={"plan_overrides": {"name": "Own"}})
    studio.put("/subscriptions/later/charges/images", charge={"properties": {"amount": "0.03"}})
    studio.travel_to("2024-04-01T01:00:00Z")
    for external_id, cents in (("sub", 800), ("own", 200), ("later", 300)):
        studio.event("images", value="100", external_id=external_id)
        assert studio.usage(external_id=external_id)["amount_cents"] == cents
    (kept,) = studio.get("/subscriptions/sub")["subscription"]["plan"]["charges"]
    assert kept["properties"] == {"amount": "0.08"}


def test_a_preview_has_the_prices_of_the_day(studio: Scenario) -> None:
    (charge,) = studio.get("/plans/basic")["plan"]["charges"]
    item = {"id": charge["svc_id"], "charge_model": "standard", "properties": {"amount": "0.08"}}
    plan = {"charges": [item], "effective": "2024-04-01"}
    studio.travel_to("2024-03-01T01:00:00Z")
    preview = studio.post("/plans/basic/preview_change", 200, plan=plan)["change_preview"]
    assert preview["difference_cents"] == 400, preview
    assert studio.get("/plans/basic")["plan"]["charges"] == [charge]
    studio.travel_to("2024-04-01T01:00:00Z")
    studio.event("images", value="100")
    assert studio.usage()["amount_cents"] == 400


def test_a_new_subscription_has_the_prices_of_its_day(studio: Scenario) -> None:
    raise_price(studio, effective="2024-04-01")
    studio.travel_to("2024-03-31T10:00:00Z")
    studio.subscribe(external_id="before", billing_time="anniversary")
    studio.travel_to("2024-04-01T10:00:00Z")
    studio.subscribe(external_id="since", billing_time="anniversary")
    for external_id, cents in (("before", 400), ("since", 800)):
        studio.event("images", value="100", external_id=external_id)
        assert studio.usage(external_id=external_id)["amount_cents"] == cents


CHANGES = 3


def everything(box: Scenario, *, pay_in_advance: bool, **plan: Any) -> None:
    """A plan with a price of every kind."""
    box.tax(10)
    seat, desk = box.add_on("seat"), box.add_on("desk")
    calls = box.metric("calls", filters=[{"key": "zone", "values": ["eu", "us"]}])
    ranges = price_ranges((0, 10, "1", "0"), (11, None, "0.5", "0"))
    box.plan(
        charge_on(calls, amount="2", code="calls", filters=[filter_on({"zone": ["eu"]}, amount="3")]),
        charge_on(box.metric("prints"), "graduated", code="prints", pay_in_advance=True, graduated_ranges=ranges),
        charge_in_advance_on(box.metric("scans"), code="scans", amount="1"),
        charge_on(
            box.metric("members", "unique_count_agg", recurring=True), code="members", amount="5", pay_in_advance=True
        ),
        amount_cents=3100,
        pay_in_advance=pay_in_advance,
        fixed_charges=[
            fixed_charge_on(seat, code="seat", amount="7", units=3, pay_in_advance=True),
            fixed_charge_on(desk, code="desk", amount="7", units=3, prorated=True),
        ],
        minimum_commitment={"amount_cents": 50_000},
        **plan,
    )


def change_prices(box: Scenario, turn: int, effective: str) -> None:
    """Other prices of every kind; `turn` counts from 1."""
    at = {"effective": effective}
    box.put(
        "/plans/basic",
        plan={"amount_cents": 3100 + 31 * turn, "minimum_commitment": {"amount_cents": 50_000 + turn}, **at},
    )
    eu = filter_on({"zone": ["eu"]}, amount=str(3 + turn))
    box.put("/plans/basic/charges/calls", charge={"properties": {"amount": str(2 + turn)}, "filters": [eu], **at})
    ranges = price_ranges((0, 10, str(1 + turn), "0"), (11, None, "0.5", "1"))
    box.put("/plans/basic/charges/prints", charge={"properties": {"graduated_ranges": ranges}, **at})
    box.put("/plans/basic/charges/scans", charge={"properties": {"amount": str(1 + turn)}, **at})
    box.put("/plans/basic/charges/members", charge={"properties": {"amount": str(5 + turn)}, **at})
    for code in ("seat", "desk"):
        box.put(f"/plans/basic/fixed_charges/{code}", fixed_charge={"properties": {"amount": str(7 + turn)}, **at})


def sums_by_month(box: Scenario, external_id: str = "sub") -> Counter[tuple[int, str]]:
    """The cents of a subscription's lines, by the month that they are for and what they bill."""
    subscription_id = box.get(f"/subscriptions/{external_id}")["subscription"]["svc_id"]
    sums: Counter[tuple[int, str]] = Counter()
    for fee in box.billing.reading(lambda reader: reader.tx.find(Fee)):
        if fee.subscription_id == subscription_id:
            assert fee.from_datetime is not None
            kind = fee.fee_type if fee.fee_type == FeeType.COMMITMENT else fee.item.code
            sums[fee.from_datetime.month, kind] += fee.amount_cents
    return sums


def use_everything(box: Scenario, external_id: str = "sub") -> None:
    for code in ("calls", "prints", "scans", "members"):
        box.event(code, value="7", zone="eu", external_id=external_id)
        box.event(code, value="4", external_id=external_id)


@pytest.mark.parametrize("on_a_day", [False, True])
@pytest.mark.parametrize("pay_in_advance", [False, True])
def test_every_line_is_billed_by_the_prices_of_the_period_that_it_is_for(pay_in_advance: bool, on_a_day: bool) -> None:
    with Scenario(now="2024-01-10T08:00:00Z") as box:
        box.customer()
        everything(box, pay_in_advance=pay_in_advance)
        box.subscribe()
        for turn in range(1, CHANGES + 1):
            box.travel_to(f"2024-{turn:02d}-12T10:00:00Z")
            use_everything(box)
            box.travel_to(f"2024-{turn:02d}-16T10:00:00Z")
            change_prices(box, turn, f"2024-{turn + 1:02d}-01" if on_a_day else "next_period")
            box.travel_to(f"2024-{turn:02d}-20T10:00:00Z")
            use_everything(box)
        box.travel_to("2024-05-02T00:00:00Z")
        sums = sums_by_month(box)
        for month in range(2, 5):
            # As many changes as were made before the month began.
            turn = min(month - 1, CHANGES)
            used = month <= CHANGES
            expected = {
                "basic": 3100 + 31 * turn,
                "calls": used * (14 * (300 + 100 * turn) + 8 * (200 + 100 * turn)),
                "prints": used * (1000 * (1 + turn) + 600 + 100),
                "scans": used * 2200 * (1 + turn),
                "members": 2 * (500 + 100 * turn),
                "seat": 3 * (700 + 100 * turn),
                "desk": 3 * (700 + 100 * turn),
            }
            assert {code: sums[month, code] for code in expected} == expected, month
            # The commitment fills the gap to its amount of that month.
            assert sums[month, "commitment"] == 50_000 + turn - sum(expected.values()), month
        report = box.billing.audit()
        assert report.findings == ()
        assert report.not_recounted == ()


def test_effective_is_refused_where_a_change_cannot_wait(studio: Scenario) -> None:
    before = studio.get("/plans/basic")
    at = {"effective": "next_period"}
    (charge,) = before["plan"]["charges"]
    item = {"id": charge["svc_id"], "charge_model": "standard", "properties": {"amount": "0.08"}, **at}
    fresh = {**charge_on(studio.metric("seats"), amount="1", code="seats"), **at}
    own = {"charges": [{"id": charge["svc_id"], "properties": {"amount": "0.02"}}], **at}
    refused: list[tuple[str, str, dict[str, Any], str]] = [
        ("POST", "/plans/basic/charges", {"charge": fresh}, "effective"),
        ("DELETE", "/plans/basic/charges/images", {"charge": at}, "charge.effective"),
        ("DELETE", "/plans/basic/charges/images?effective=next_period", {}, "effective"),
        ("POST", "/plans/basic/charges/images/filters", {"filter": at}, "effective"),
        ("POST", "/plans/basic/fixed_charges", {"fixed_charge": at}, "effective"),
        ("PUT", "/plans/basic", {"plan": {"charges": [item]}}, "charges[0].effective"),
        (
            "PUT",
            "/plans/basic",
            {"plan": {"usage_thresholds": [{"amount_cents": 5, **at}]}},
            "usage_thresholds[0].effective",
        ),
        ("PUT", "/subscriptions/sub", {"subscription": {"plan_overrides": own}}, "plan_overrides.effective"),
        ("PUT", "/subscriptions/sub/charges/images", {"charge": {"properties": {"amount": "1"}, **at}}, "effective"),
    ]
    for method, path, body, field in refused:
        answer = studio.ask(method, path, body, 422)
        assert answer["error_details"] == {field: ["unknown_field"]}, path
        assert "only a PUT of a plan" in str(answer), path
        assert studio.get("/plans/basic") == before
    # An event may have such a property.
    studio.event("images", value="1", effective="next_period")


def test_a_plan_shows_the_prices_that_wait_for_a_day_until_it_comes(studio: Scenario) -> None:
    assert "scheduled_prices" not in studio.get("/plans/basic")["plan"]
    raise_price(studio, "0.16", effective="2024-05-01")
    studio.put("/plans/basic", plan={"amount_cents": 700, "effective": "2024-04-01"})
    first, second = studio.get("/plans/basic")["plan"]["scheduled_prices"]
    assert (first["effective_on"], first["amount_cents"], first["charges"]) == ("2024-04-01", 700, [])
    assert second == {
        "version": second["version"],
        "effective_on": "2024-05-01",
        "scheduled_at": studio.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "charges": [{"code": "images", "properties": {"amount": "0.16"}}],
    }
    studio.travel_to("2024-05-02T00:00:00Z")
    shown = studio.get("/plans/basic")["plan"]
    assert (shown["amount_cents"], shown["charges"][0]["properties"]) == (700, {"amount": "0.16"})
    assert "scheduled_prices" not in shown


@pytest.mark.parametrize("effective", ["next_period", "2024-02-01"])
def test_a_commitment_ends_with_the_period_before(effective: str) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        committed = {"name": "B", "code": "b", "interval": "monthly", "amount_cents": 1000, "amount_currency": "EUR"}
        box.post("/plans", plan={**committed, "pay_in_advance": False, "minimum_commitment": {"amount_cents": 5000}})
        box.subscribe(plan_code="b")
        box.travel_to("2024-01-16T12:00:00Z")
        box.put("/plans/b", plan={"minimum_commitment": {}, "effective": effective})
        box.travel_to("2024-03-01T03:00:00Z")
        totals = sorted(invoice["fees_amount_cents"] for invoice in box.get("/invoices")["invoices"])
        assert totals == [1000, 5000]
        assert box.billing.audit().findings == ()


def versions_waiting(box: Scenario) -> list[int]:
    return [prices["version"] for prices in box.get("/plans/basic")["plan"]["scheduled_prices"]]


def test_scheduled_prices_move_to_another_day(studio: Scenario) -> None:
    studio.put("/subscriptions/sub", subscription={"plan_overrides": {"name": "Own"}})
    studio.subscribe(external_id="other")
    raise_price(studio, effective="2024-03-01", cascade_updates=True)
    (version,) = versions_waiting(studio)
    path = f"/plans/basic/scheduled_prices/{version}"
    (shown,) = studio.put(path, scheduled_prices={"effective_on": "2024-04-01"})["plan"]["scheduled_prices"]
    assert (shown["version"], shown["effective_on"]) == (version, "2024-04-01")
    for month, cents in ((3, 400), (4, 800)):
        studio.travel_to(f"2024-{month:02d}-01T01:00:00Z")
        for external_id in ("sub", "other"):
            studio.event("images", value="100", external_id=external_id)
            assert studio.usage(external_id=external_id)["amount_cents"] == cents
    assert studio.billing.audit().findings == ()


def test_prices_that_are_moved_to_today_leave_the_period_of_today(studio: Scenario) -> None:
    raise_price(studio, effective="2024-04-01")
    (version,) = versions_waiting(studio)
    studio.travel_to("2024-03-01T10:00:00Z")
    studio.put(f"/plans/basic/scheduled_prices/{version}", scheduled_prices={"effective_on": "2024-03-01"})
    studio.event("images", value="100")
    assert studio.usage()["amount_cents"] == 400
    studio.travel_to("2024-04-01T10:00:00Z")
    studio.event("images", value="100")
    assert studio.usage()["amount_cents"] == 800


def test_of_several_scheduled_prices_one_is_taken_back(studio: Scenario) -> None:
    raise_price(studio, effective="2024-03-01")
    raise_price(studio, "0.16", effective="2024-04-01")
    first, _ = versions_waiting(studio)
    studio.delete(f"/plans/basic/scheduled_prices/{first}")
    for month, cents in ((3, 400), (4, 1600)):
        studio.travel_to(f"2024-{month:02d}-01T01:00:00Z")
        studio.event("images", value="100")
        assert studio.usage()["amount_cents"] == cents


def test_prices_that_count_somewhere_cannot_be_moved_or_taken_back(studio: Scenario) -> None:
    raise_price(studio, effective="2024-03-01")
    (version,) = versions_waiting(studio)
    path = f"/plans/basic/scheduled_prices/{version}"
    moved = {"scheduled_prices": {"effective_on": "2024-04-01"}}
    for day, code in (
        ("2024-02-15", "cannot_be_in_past"),
        ("soon", "invalid_date"),
        (None, "invalid_date"),
    ):
        answer = studio.ask("PUT", path, {"scheduled_prices": {"effective_on": day}}, 422)
        assert answer["error_details"] == {"effective_on": [code]}
    assert studio.ask("DELETE", "/plans/basic/scheduled_prices/7777", {}, 404)["code"] == "scheduled_prices_not_found"
    # It is 1 March in Kiribati.
    studio.travel_to("2024-02-29T10:00:00Z")
    for method, body in (("PUT", moved), ("DELETE", {})):
        assert studio.ask(method, path, body, 422)["error_details"] == {"effective_on": ["already_counts"]}
    studio.travel_to("2024-03-01T01:00:00Z")
    for method, body in (("PUT", moved), ("DELETE", {})):
        assert studio.ask(method, path, body, 404)["code"] == "scheduled_prices_not_found"
    studio.event("images", value="100")
    assert studio.usage()["amount_cents"] == 800


@pytest.mark.parametrize(("pay_in_advance", "day_by_day"), [(False, False), (True, True)])
def test_what_was_taken_back_was_never_scheduled(pay_in_advance: bool, day_by_day: bool) -> None:
    """A customer with drafts, one in the far east, and a price of one's own."""

    def life(*, scheduled: bool) -> list[Counter[tuple[int, str]]]:
        with Scenario(now="2024-01-10T08:00:00Z") as box:
            box.customer(billing_configuration={"invoice_grace_period": 5})
            box.customer("far", timezone="Asia/Tokyo")
            everything(box, pay_in_advance=pay_in_advance)
            box.subscribe()
            box.subscribe(external_id="far", customer="far", billing_time="anniversary")
            names = ("sub", "far", "own")

            def pass_until(day: str) -> None:
                while day_by_day and box.now + timedelta(days=1) < datetime.fromisoformat(f"{day}T10:00:00Z"):
                    box.travel_to(box.now + timedelta(days=1))
                box.travel_to(f"{day}T10:00:00Z")

            for month, day in ((1, 12), (2, 3), (3, 12)):
                pass_until(f"2024-{month:02d}-{day:02d}")
                if month == 1 and scheduled:
                    change_prices(box, 4, "2024-03-01")
                if month == 1:
                    own = {"name": "Own", "amount_cents": 2000}
                    box.subscribe(external_id="own", plan_overrides=own)
                for name in names:
                    use_everything(box, name)
                if month == 2 and scheduled:
                    for version in set(versions_waiting(box)):
                        box.delete(f"/plans/basic/scheduled_prices/{version}")
                    assert "scheduled_prices" not in box.get("/plans/basic")["plan"]
            pass_until("2024-04-15")
            assert box.billing.audit().findings == ()
            return [sums_by_month(box, name) for name in names]

    assert life(scheduled=True) == life(scheduled=False)


def test_messages_say_that_prices_wait_and_that_their_day_has_come(studio: Scenario) -> None:
    def told() -> list[str]:
        return studio.webhook_types("plan.version")

    raise_price(studio, effective="2024-03-01", cascade_updates=True)
    assert told() == ["plan.version_scheduled"]
    assert studio.webhooks[-1]["plan"]["scheduled_prices"][0]["effective_on"] == "2024-03-01"
    (version,) = versions_waiting(studio)
    path = f"/plans/basic/scheduled_prices/{version}"
    studio.put(path, scheduled_prices={"effective_on": "2024-04-01"})
    assert told() == ["plan.version_scheduled"] * 2
    # Nothing waits for that day any more.
    studio.travel_to("2024-03-02T01:00:00Z")
    assert told() == ["plan.version_scheduled"] * 2
    studio.travel_to("2024-04-01T01:00:00Z")
    assert told() == [*["plan.version_scheduled"] * 2, "plan.version_effective"]
    (message,) = [one for one in studio.webhooks if one["webhook_type"] == "plan.version_effective"]
    assert message["plan"]["charges"][0]["properties"] == {"amount": "0.08"}
    studio.put("/plans/basic", plan={"amount_cents": 1100, "effective": "next_period"})
    assert told() == [*["plan.version_scheduled"] * 2, "plan.version_effective", "plan.version_scheduled"]
    raise_price(studio, "0.16", effective="2024-06-01")
    studio.delete(f"/plans/basic/scheduled_prices/{versions_waiting(studio)[0]}")
    assert studio.webhooks[-1]["webhook_type"] == "plan.updated"
    assert "scheduled_prices" not in studio.webhooks[-1]["plan"]


def test_a_name_counts_at_once_while_the_price_beside_it_waits(studio: Scenario) -> None:
    raise_price(studio, effective="next_period", invoice_display_name="Pictures")
    studio.put(
        "/plans/basic", plan={"invoice_display_name": "Studio 24", "amount_cents": 2000, "effective": "next_period"}
    )
    studio.travel_to("2024-03-01T01:00:00Z")
    february = {(fee["item"]["invoice_display_name"], fee["amount_cents"]) for fee in studio.invoices()[-1]["fees"]}
    assert february == {("Pictures", 400), ("Studio 24", 1000)}
    answer = studio.ask("PUT", "/plans/basic", {"plan": {"name": "Other", "effective": "2024-06-01"}}, 422)
    assert answer["error_details"] == {"effective": ["only_prices_can_wait"]}


def scheduled_filter(box: Scenario, zone: str, amount: str, day: str) -> None:
    (charge,) = box.get("/plans/basic")["plan"]["charges"]
    (of_zone,) = (each for each in charge["filters"] if each["values"] == {"zone": [zone]})
    path = f"/plans/basic/charges/calls/filters/{of_zone['svc_id']}"
    box.put(path, filter={"properties": {"amount": amount}, "effective": day, "cascade_updates": True})


@pytest.fixture
def zones() -> Iterator[Scenario]:
    """A call costs 3.00 in the EU and 2.00 in the US; one subscription has a plan of its own."""
    with Scenario(now="2024-01-01T08:00:00Z") as box:
        box.customer()
        calls = box.metric("calls", filters=[{"key": "zone", "values": ["eu", "us"]}])
        of_zones = [filter_on({"zone": ["eu"]}, amount="3"), filter_on({"zone": ["us"]}, amount="2")]
        box.plan(charge_on(calls, amount="1", code="calls", filters=of_zones))
        box.subscribe()
        box.subscribe(external_id="own", plan_overrides={"name": "Own"})
        yield box


def calls_of_month(box: Scenario, month: int) -> dict[str, list[int]]:
    """What a call of each zone comes to in the month, by subscription."""
    box.travel_to(f"2024-{month:02d}-01T10:00:00Z")
    found = {}
    for external_id in ("sub", "own"):
        for zone in ("eu", "us"):
            box.event("calls", value="1", zone=zone, external_id=external_id)
        (of_charge,) = box.usage(external_id=external_id)["charges_usage"]
        found[external_id] = sorted(each["amount_cents"] for each in of_charge["filters"] if each["values"])
    return found


@pytest.mark.parametrize("earlier_first", [True, False])
def test_filters_that_wait_for_several_days_leave_each_other_alone(zones: Scenario, earlier_first: bool) -> None:
    waiting = [("eu", "5", "2024-02-01"), ("us", "7", "2024-03-01")]
    for zone, amount, day in waiting if earlier_first else reversed(waiting):
        scheduled_filter(zones, zone, amount, day)
    for month, cents in ((2, [200, 500]), (3, [500, 700])):
        assert calls_of_month(zones, month) == {"sub": cents, "own": cents}


def test_a_filter_that_was_taken_back_does_not_come_with_a_later_one(zones: Scenario) -> None:
    scheduled_filter(zones, "eu", "5", "2024-02-01")
    scheduled_filter(zones, "us", "7", "2024-03-01")
    zones.delete(f"/plans/basic/scheduled_prices/{versions_waiting(zones)[0]}")
    for month, cents in ((2, [200, 300]), (3, [300, 700])):
        assert calls_of_month(zones, month) == {"sub": cents, "own": cents}


def test_a_list_of_filters_that_waits_takes_the_place_of_all_of_them(zones: Scenario) -> None:
    scheduled_filter(zones, "us", "7", "2024-02-01")
    only = {"charge_model": "standard", "filters": [filter_on({"zone": ["eu"]}, amount="4")], "cascade_updates": True}
    zones.put("/plans/basic/charges/calls", charge={**only, "effective": "2024-03-01"})
    plan = zones.get("/plans/basic")["plan"]
    gone = [each["svc_id"] for each in plan["charges"][0]["filters"] if each["values"] == {"zone": ["us"]}]
    assert plan["scheduled_prices"][1]["charges"][0]["svc_removed_filter_ids"] == gone
    for month, cents in ((2, [300, 700]), (3, [400])):
        assert calls_of_month(zones, month) == {"sub": cents, "own": cents}
    (charge,) = zones.get("/plans/basic")["plan"]["charges"]
    assert [each["values"] for each in charge["filters"]] == [{"zone": ["eu"]}]


@pytest.mark.parametrize("taken_back", [0, 1])
def test_of_the_same_price_for_two_days_either_can_be_taken_back(studio: Scenario, taken_back: int) -> None:
    raise_price(studio, effective="2024-03-01")
    raise_price(studio, effective="2024-04-01")
    studio.delete(f"/plans/basic/scheduled_prices/{versions_waiting(studio)[taken_back]}")
    for month, cents in ((3, 400 if taken_back == 0 else 800), (4, 800)):
        studio.travel_to(f"2024-{month:02d}-01T01:00:00Z")
        studio.event("images", value="100")
        assert studio.usage()["amount_cents"] == cents


def test_a_filter_that_is_deleted_does_not_come_back_on_the_day_of_its_price(zones: Scenario) -> None:
    zones.travel_to("2024-01-10T08:00:00Z")
    scheduled_filter(zones, "eu", "5", "2024-02-01")
    (charge,) = zones.get("/plans/basic")["plan"]["charges"]
    (of_eu,) = (each for each in charge["filters"] if each["values"] == {"zone": ["eu"]})
    path = f"/plans/basic/charges/calls/filters/{of_eu['svc_id']}"
    zones.ask("DELETE", path, {"filter": {"cascade_updates": True}})
    assert calls_of_month(zones, 2) == {"sub": [200], "own": [200]}
    (charge,) = zones.get("/plans/basic")["plan"]["charges"]
    assert [each["values"] for each in charge["filters"]] == [{"zone": ["us"]}]
