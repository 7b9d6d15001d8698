"""Holds: usage reserved before it happens, captured once it has, and never more than its limit."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, price_ranges

from usagebill.core.errors import NotAllowed, PaymentRequired
from usagebill.fields import PrivilegeFields

pytestmark = [pytest.mark.now("2024-03-05T10:00:00Z"), pytest.mark.usefixtures("acme")]


def hold(box: Scenario, status: int = 200, external_id: str = "sub", **fields: Any) -> Any:
    body = {"external_subscription_id": external_id, "code": "gb", **fields}
    return box.post("/holds", status, hold=body)[("hold" if status == 200 else "code")]


def capture(box: Scenario, held: Any, status: int = 200, **fields: Any) -> Any:
    return box.post(f"/holds/{held['svc_id']}/capture", status, event={"transaction_id": "done", **fields})


def standing(box: Scenario) -> tuple[str, str, str]:
    """Of the limit: used, held, remaining."""
    body = {"external_subscription_id": "sub", "amount_cents": 0, "code": "gb"}
    (limit,) = box.post("/checks", check=body)["check"]["limits"]
    return limit["used"], limit["held"], limit["remaining"]


@pytest.fixture
def metric(box: Scenario) -> str:
    """A subscription to a metric at 1.00 a unit, with a limit of 5.00."""
    metric_id = box.metric("gb")
    box.plan(charge_on(metric_id, amount="1"))
    box.subscribe()
    box.post("/customers/acme/spend_limits", spend_limit={"code": "cap", "amount_cents": 500})
    return metric_id


@pytest.mark.usefixtures("metric")
def test_open_holds_count_until_they_are_captured_or_released(box: Scenario) -> None:
    first, second = hold(box, units="2"), hold(box, properties={"value": "2.5"})
    assert (first["status"], first["amount_cents"]) == ("held", 200)
    assert hold(box, 402, units="0.51") == "spend_limit_reached"
    assert standing(box) == ("0.0", "450.0", "50.0")
    captured = capture(box, first, properties={"value": "1.5"})["hold"]
    assert (captured["status"], captured["captured_amount_cents"], captured["exceeds_hold"]) == ("captured", 150, False)
    assert standing(box) == ("150.0", "250.0", "100.0")
    released = box.post(f"/holds/{second['svc_id']}/release")["hold"]
    assert released["status"] == "released"
    assert standing(box) == ("150.0", "0.0", "350.0")
    assert box.usage()["amount_cents"] == 150


@pytest.mark.usefixtures("metric")
def test_the_refusal_says_which_limit_and_what_is_left(box: Scenario) -> None:
    hold(box, units="4")
    body = {"external_subscription_id": "sub", "code": "gb", "units": "2"}
    refusal = box.post("/holds", 402, hold=body)
    assert refusal["error_details"]["limit"] == {
        "code": "cap",
        "refusal_code": "spend_limit_reached",
        "measured_in": "cents",
        "limit": "500.0",
        "grace": "0.0",
        "used": "0.0",
        "held": "400.0",
        "adds": "200.0",
        "remaining": "100.0",
        "on_reached": "refuse",
        "set_by": "seller",
        "allowed": False,
        "resets_at": "2024-04-01T00:00:00Z",
    }
    assert '"cap" 100.0 of 500.0 cents are left' in refusal["message"]


@pytest.mark.usefixtures("metric")
def test_a_hold_expires_at_its_instant_whatever_runs(box: Scenario) -> None:
    """Without a job: the check comes before one could have run."""
    held = hold(box, units="5", expires_in=60)
    billing = box.billing
    clock: Any = billing.clock
    clock.set(box.now + timedelta(seconds=60) - timedelta(microseconds=1))
    sent: dict[str, Any] = {"external_subscription_id": "sub", "code": "gb", "units": 1}
    assert not billing.spend_limits.check(**sent).allowed
    clock.set(box.now + timedelta(microseconds=1))
    assert billing.spend_limits.check(**sent).allowed
    assert [one.id for one in billing.holds.list(status="expired")] == [held["svc_id"]]
    assert list(billing.holds.list(status="held")) == []


@pytest.mark.usefixtures("metric")
def test_an_expired_hold_is_told_once_and_can_still_be_captured(box: Scenario) -> None:
    held = hold(box, units="5", expires_in=60)
    box.travel_to(box.now + timedelta(minutes=5))
    assert box.webhook_types("hold.") == ["hold.expired"]
    assert box.get(f"/holds/{held['svc_id']}")["hold"]["ended_at"] == "2024-03-05T10:01:00.000Z"
    assert box.post(f"/holds/{held['svc_id']}/release", 405)["code"] == "hold_has_ended"
    assert capture(box, held)["hold"]["status"] == "captured"
    assert box.usage()["amount_cents"] == 500


@pytest.mark.usefixtures("metric")
def test_more_than_was_held_is_stored_and_said(box: Scenario) -> None:
    captured = capture(box, hold(box, units="4"), properties={"value": 9})["hold"]
    assert (captured["captured_amount_cents"], captured["exceeds_hold"]) == (900, True)
    assert standing(box) == ("900.0", "0.0", "0.0")
    assert hold(box, 402, units="0.01") == "spend_limit_reached"


@pytest.mark.usefixtures("metric")
def test_a_capture_that_is_sent_again_changes_nothing(box: Scenario) -> None:
    held = hold(box, units="2")
    assert capture(box, held) == capture(box, held)
    assert box.usage()["amount_cents"] == 200
    assert capture(box, held, 405, transaction_id="other")["code"] == "hold_has_ended"
    other = hold(box, units="1")
    assert capture(box, other, 422)["error_details"] == {"transaction_id": ["value_already_exist"]}
    assert standing(box) == ("200.0", "100.0", "200.0")


@pytest.mark.usefixtures("metric")
@pytest.mark.parametrize("properties", [5, "2", [2], True])
def test_properties_that_are_no_object_are_refused(box: Scenario, properties: object) -> None:
    held = hold(box, units="2")
    refusals = [
        box.post("/holds", 422, hold={"external_subscription_id": "sub", "code": "gb", "properties": properties}),
        box.post("/checks", 422, check={"external_subscription_id": "sub", "code": "gb", "properties": properties}),
        capture(box, held, 422, properties=properties),
    ]
    assert [refusal["error_details"] for refusal in refusals] == [{"properties": ["value_is_invalid"]}] * 3
    assert standing(box) == ("0.0", "200.0", "300.0")


def test_a_hold_costs_what_it_adds_to_all_usage_and_holds(box: Scenario) -> None:
    """2 units are used and 3 held, so of 4 more the first is at 2.00 and the rest at 1.00; once captured, all fit."""
    ranges = price_ranges((0, 6, "2", "0"), (7, None, "1", "0"))
    box.plan(charge_on(box.metric("gb"), "graduated", graduated_ranges=ranges))
    box.subscribe()
    box.post("/customers/acme/spend_limits", spend_limit={"code": "cap", "amount_cents": 1500})
    box.event("gb", value=2)
    first = hold(box, units="3")
    second = hold(box, units="4")
    assert (first["amount_cents"], second["amount_cents"]) == (600, 500)
    assert hold(box, 402, units="0.01") == "spend_limit_reached"
    capture(box, second, transaction_id="b")
    capture(box, first, transaction_id="a")
    assert box.usage()["amount_cents"] == 1500


def test_holds_reserve_credits_with_their_taxes(box: Scenario) -> None:
    box.tax(25)
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "10"}
    box.post("/wallets", wallet={**wallet, "hard_stop": True})
    held = hold(box, units="5")
    assert hold(box, 402, units="3.01") == "insufficient_credits"
    capture(box, held)
    assert hold(box, 402, units="3.01") == "insufficient_credits"
    hold(box, units="3")


@pytest.mark.usefixtures("metric")
def test_a_bare_amount_is_held_and_captured_as_usage(box: Scenario) -> None:
    held = hold(box, code=None, amount_cents=500)
    assert hold(box, 402, units="1") == "spend_limit_reached"
    assert capture(box, held, 422)["error_details"] == {"code": ["value_is_mandatory"]}
    assert capture(box, held, code="gb", properties={"value": 3})["hold"]["captured_amount_cents"] == 300


@pytest.mark.usefixtures("metric")
@pytest.mark.parametrize("seconds", [0, -1, 86_401])
def test_a_hold_lasts_at_most_a_day(box: Scenario, seconds: int) -> None:
    body = {"external_subscription_id": "sub", "code": "gb", "units": "1", "expires_in": seconds}
    assert box.post("/holds", 422, hold=body)["error_details"] == {"expires_in": ["value_is_out_of_range"]}


@pytest.mark.usefixtures("metric")
def test_a_program_holds_for_the_time_of_a_block(box: Scenario) -> None:
    billing = box.billing
    with billing.holds.hold("sub", "gb", units=4, seconds=60) as usage:
        with pytest.raises(PaymentRequired), billing.holds.hold("sub", "gb", units=2):
            raise AssertionError("it was refused")
        usage.capture({"value": Decimal("2.5")})
    assert box.usage()["amount_cents"] == 250
    with pytest.raises(ZeroDivisionError), billing.holds.hold("sub", "gb", {"value": 2}):
        raise ZeroDivisionError
    assert sorted(one.status for one in billing.holds.list()) == ["captured", "released"]
    with pytest.raises(NotAllowed, match="is released"):
        billing.holds.capture(billing.holds.list(status="released").items[0].id)


# What holds reserve where prices depend on what was used before


def graduated(*bounds: tuple[int, int | None, str, str]) -> dict[str, Any]:
    return {"graduated_ranges": price_ranges(*bounds)}


def large(box: Scenario, status: int = 200, **fields: Any) -> Any:
    """A hold of the limited group."""
    return hold(box, status, properties={"value": fields.pop("value"), "model": "large"}, **fields)


NOT_ALIKE: dict[str, tuple[str, dict[str, Any]]] = {
    # Of all usage, the units beyond the tenth are cheap; the group's own ten are not.
    "graduated": ("graduated", graduated((0, 10, "1", "0"), (11, None, "0.1", "0"))),
    "volume": ("volume", {"volume_ranges": price_ranges((0, 20, "1", "0"), (21, None, "0.1", "0"))}),
    # The rest of a package that others have begun costs nothing.
    "package": ("package", {"amount": "5", "package_size": 5, "free_units": 0}),
    # All usage is within the minimum.
    "minimum": ("standard", {"amount": "1", "min_amount_cents": 100_000}),
}


@pytest.mark.parametrize("in_advance", [False, True])
@pytest.mark.parametrize("model", NOT_ALIKE)
def test_holds_never_pass_the_limit_of_a_group(box: Scenario, model: str, in_advance: bool) -> None:
    """The group is priced as if there were no other, and so are its holds: 10 units at 1.00 fill the limit."""
    if in_advance and model in ("volume", "minimum"):
        return  # There is none in advance.
    name, properties = NOT_ALIKE[model]
    box.plan((charge_in_advance_on if in_advance else charge_on)(box.metric("gb"), name, **properties))
    box.subscribe()
    group = {"code": "cap", "amount_cents": 1000, "group": {"model": "large"}, "interval": "lifetime"}
    box.post("/customers/acme/spend_limits", spend_limit=group)
    box.event("gb", value=41, model="small")
    held = [large(box, value=5), large(box, value=4)]
    sent = {"external_subscription_id": "sub", "code": "gb", "properties": {"value": 3, "model": "large"}}
    check = box.post("/checks", check=sent)["check"]
    assert (check["allowed"], check["refusal_code"]) == (False, "spend_limit_reached")
    assert large(box, 402, value=3) == "spend_limit_reached"
    one_event = {**sent, "transaction_id": "enforced"}
    assert box.post("/events?enforce=true", 402, event=one_event)["code"] == "spend_limit_reached"
    held.append(large(box, value=1))
    for number, one in enumerate(held):
        capture(box, one, transaction_id=f"done-{number}")
    (limit,) = box.post("/checks", check=sent)["check"]["limits"]
    assert (limit["used"], limit["held"], limit["remaining"]) == ("1000.0", "0.0", "0.0")


def test_holds_within_a_minimum_count_once_other_usage_has_filled_it(box: Scenario) -> None:
    """Each hold added nothing when it was made. After 10.00 of other usage, both come on top."""
    box.plan(charge_on(box.metric("gb"), amount="1", min_amount_cents=1000))
    box.subscribe(subscription_at="2024-03-01T00:00:00Z")
    box.post("/customers/acme/spend_limits", spend_limit={"code": "cap", "amount_cents": 1500})
    first, second = hold(box, units="2"), hold(box, units="2")
    assert (first["amount_cents"], second["amount_cents"]) == (0, 0)
    box.event("gb", value=10)
    assert standing(box) == ("1000.0", "400.0", "100.0")
    assert hold(box, 402, units="2") == "spend_limit_reached"
    event = {"transaction_id": "a", "external_subscription_id": "sub", "code": "gb", "properties": {"value": 2}}
    refusal = box.post("/events?enforce=true", 402, event=event)["error_details"]["limit"]
    assert (refusal["used"], refusal["held"], refusal["adds"], refusal["remaining"]) == (
        "1000.0",
        "400.0",
        "200.0",
        "100.0",
    )
    hold(box, units="1")


def test_holds_of_all_subscriptions_and_metrics_count_by_their_own_prices(box: Scenario) -> None:
    """Of a customer with two subscriptions to two metrics, each with a first unit at 5.00 and others at 1.00."""
    ranges = graduated((0, 1, "5", "0"), (2, None, "1", "0"))
    names = ("gb", "calls")
    box.plan(*(charge_on(box.metric(name), "graduated", **ranges) for name in names))
    for name in ("sub", "other"):
        box.subscribe(external_id=name)
    box.post("/customers/acme/spend_limits", spend_limit={"code": "cap", "amount_cents": 2500})
    of_calls = {"code": "calls", "amount_cents": 1100, "billable_metric_code": "calls"}
    box.post("/customers/acme/spend_limits", spend_limit=of_calls)
    first = hold(box, code="gb", units="1")
    hold(box, code="gb", units="2", external_id="other")
    second = hold(box, code="calls", units="2", external_id="other")
    # What is held is at the price of the second unit as soon as the first one is used, and of the first once released.
    box.event("gb", value=1)
    assert standing(box) == ("500.0", "1300.0", "700.0")
    box.post(f"/holds/{first['svc_id']}/release")
    assert standing(box) == ("500.0", "1200.0", "800.0")
    assert hold(box, 402, code="calls", units="2") == "spend_limit_reached"
    box.post(f"/holds/{second['svc_id']}/release")
    hold(box, code="calls", units="1")
    body = {"external_subscription_id": "sub", "amount_cents": 0, "code": "calls"}
    assert [one["held"] for one in box.post("/checks", check=body)["check"]["limits"]] == ["1100.0", "500.0"]


def test_holds_of_unique_values_count_each_value_once(box: Scenario) -> None:
    """Two holds of one user reserve one unit, and one unit is left reserved when one of them ends."""
    box.metric("users", aggregation_type="unique_count_agg")
    box.plan()
    box.subscribe()
    limit = {"code": "seats", "units": "2", "billable_metric_code": "users"}
    box.post("/customers/acme/spend_limits", spend_limit=limit)
    first = hold(box, code="users", properties={"value": "ann"})
    hold(box, code="users", properties={"value": "ann"})
    hold(box, code="users", properties={"value": "bob"})
    assert hold(box, 402, code="users", properties={"value": "eve"}) == "spend_limit_reached"
    box.post(f"/holds/{first['svc_id']}/release")
    assert hold(box, 402, code="users", properties={"value": "eve"}) == "spend_limit_reached"


# Captures of usage that happened earlier


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@pytest.mark.parametrize("in_advance", [False, True])
def test_a_capture_is_priced_in_the_period_that_its_event_falls_into(box: Scenario, in_advance: bool) -> None:
    """February has used its 5 units at 1.00 and is at 2.00; March is at 1.00."""
    ranges = graduated((0, 5, "1", "0"), (6, None, "2", "0"))
    box.plan((charge_in_advance_on if in_advance else charge_on)(box.metric("gb"), "graduated", **ranges))
    box.subscribe(subscription_at="2024-01-10T00:00:00Z")
    box.events("gb", {"value": 5, "at": str(seconds("2024-02-10T00:00:00+00:00"))})
    held = [hold(box, units="3") for _ in range(3)]
    assert held[0]["amount_cents"] == 300
    february = seconds("2024-02-20T00:00:00+00:00")
    late = capture(box, held[0], transaction_id="late", timestamp=february)["hold"]
    assert (late["captured_amount_cents"], late["exceeds_hold"]) == (600, True)
    before = seconds("2024-01-01T00:00:00+00:00")
    unbilled = capture(box, held[1], transaction_id="before it began", timestamp=before)["hold"]
    assert (unbilled["captured_amount_cents"], unbilled["exceeds_hold"]) == (0, False)
    now = capture(box, held[2], transaction_id="now")["hold"]
    assert (now["captured_amount_cents"], now["exceeds_hold"]) == (300, False)


def test_a_capture_from_before_a_change_of_plan_has_the_former_price(box: Scenario) -> None:
    metric_id = box.metric("gb")
    box.plan(charge_on(metric_id, amount="3"))
    box.plan(charge_on(metric_id, amount="1"), code="cheap", amount_cents=9_000)
    box.subscribe(subscription_at="2024-03-01T00:00:00Z")
    box.travel_to("2024-03-10T00:00:00Z")
    box.subscribe("cheap")
    box.travel_to("2024-03-12T00:00:00Z")
    first, second = hold(box, units="2"), hold(box, units="2")
    late = capture(box, first, transaction_id="late", timestamp=seconds("2024-03-05T00:00:00+00:00"))["hold"]
    assert (late["captured_amount_cents"], late["exceeds_hold"]) == (600, True)
    now = capture(box, second, transaction_id="now", timestamp=seconds("2024-03-11T00:00:00+00:00"))["hold"]
    assert (now["captured_amount_cents"], now["exceeds_hold"]) == (200, False)
    # Ended since: what happened before that is billed, and so it is said.
    third = hold(box, units="2")
    box.unsubscribe()
    box.travel_to("2024-03-13T00:00:00Z")
    ended = capture(box, third, transaction_id="ended", timestamp=seconds("2024-03-11T00:00:00+00:00"))["hold"]
    assert ended["captured_amount_cents"] == 200


# Holds are priced by what stands now


CHEAP_THEN_DEAR = ((0, 10, "0.1", "0"), (11, None, "1", "0"))


def wallet(box: Scenario, credits: str) -> None:
    fields = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": credits}
    box.post("/wallets", wallet={**fields, "hard_stop": True})


@pytest.mark.parametrize("in_advance", [False, True])
def test_holds_reserve_the_credits_that_they_cost_now(box: Scenario, in_advance: bool) -> None:
    """Both holds were made at 0.10 a unit. The first ten units have been used since, so they cost 10.00 of
    the 11.00 left."""
    graduated_ranges = graduated(*CHEAP_THEN_DEAR)
    box.plan(charge_on(box.metric("gb"), "graduated", pay_in_advance=in_advance, **graduated_ranges))
    box.subscribe()
    wallet(box, "12")
    held = [hold(box, units="5"), hold(box, units="5")]
    assert [one["amount_cents"] for one in held] == [50, 50]
    box.event("gb", value=10)
    refusal = box.post("/holds", 402, hold={"external_subscription_id": "sub", "code": "gb", "units": "1.01"})
    shown = refusal["error_details"]["limit"]
    assert (shown["held"], shown["adds"], shown["remaining"]) == ("1000.0", "101.0", "100.0")
    event = {"transaction_id": "a", "external_subscription_id": "sub", "code": "gb", "properties": {"value": "1.01"}}
    refused = box.post("/events?enforce=true", 402, event=event)["error_details"]["limit"]
    assert (refused["held"], refused["adds"], refused["remaining"]) == ("1000.0", "101.0", "100.0")
    held.append(hold(box, units="1"))
    for number, one in enumerate(held):
        capture(box, one, transaction_id=f"done-{number}")
    assert hold(box, 402, units="0.01") == "insufficient_credits"


def test_usage_within_a_minimum_takes_the_credits_that_its_bill_will(box: Scenario) -> None:
    """To the bill 20 units add 10.00 to the minimum; to the wallet, which has paid for none of it, 20.00."""
    box.plan(charge_on(box.metric("gb"), amount="1", min_amount_cents=1000))
    box.subscribe(subscription_at="2024-03-01T00:00:00Z")
    wallet(box, "15")
    assert hold(box, 402, units="20") == "insufficient_credits"
    hold(box, units="15")
    assert hold(box, 402, units="0.01") == "insufficient_credits"


def test_credits_pay_whole_cents_of_each_group(box: Scenario) -> None:
    """Two groups with half a cent each are two fees of a cent."""
    box.plan(charge_on(box.metric("gb"), amount="0.005", pricing_group_keys=["model"]))
    box.subscribe()
    wallet(box, "0.01")
    hold(box, properties={"value": 1, "model": "large"})
    assert hold(box, 402, properties={"value": 1, "model": "small"}) == "insufficient_credits"
    assert hold(box, 402, properties={"value": 2, "model": "large"}) == "insufficient_credits"


def test_empty_credits_pay_no_fraction_of_a_cent(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="0.001"))
    box.subscribe()
    wallet(box, "0.01")
    hold(box, units="10")
    assert hold(box, 402, units="1") == "insufficient_credits"


@pytest.mark.parametrize("later", [0, 60])
@pytest.mark.usefixtures("metric")
def test_holds_have_the_price_of_a_charge_that_has_changed_since(box: Scenario, later: int) -> None:
    box.travel_to(box.now + timedelta(seconds=later))
    hold(box, units="2")
    assert standing(box) == ("0.0", "200.0", "300.0")
    box.travel_to(box.now + timedelta(seconds=later))
    box.put("/plans/basic/charges/gb", charge={"charge_model": "standard", "properties": {"amount": "2"}})
    assert standing(box) == ("0.0", "400.0", "100.0")
    assert hold(box, 402, units="0.51") == "spend_limit_reached"
    box.travel_to(box.now + timedelta(seconds=later))
    hold(box, units="0.5")
    assert standing(box) == ("0.0", "500.0", "0.0")


@pytest.mark.parametrize("later", [0, 60])
def test_holds_have_the_price_of_a_plan_that_was_changed_to(box: Scenario, later: int) -> None:
    metric_id = box.metric("gb")
    box.plan(charge_on(metric_id, amount="1"))
    box.plan(charge_on(metric_id, amount="2"), code="larger", amount_cents=9_000)
    box.subscribe()
    box.post("/customers/acme/spend_limits", spend_limit={"code": "cap", "amount_cents": 500})
    box.travel_to(box.now + timedelta(seconds=later))
    hold(box, units="2")
    box.travel_to(box.now + timedelta(seconds=later))
    box.subscribe("larger")
    assert standing(box) == ("0.0", "400.0", "100.0")


def test_a_hold_whose_properties_no_longer_fit_counts_as_it_did(box: Scenario) -> None:
    """The metric, which no plan has a price for, has become an expression over a property that the hold has not."""
    box.metric("gb")
    box.plan()
    box.subscribe()
    box.post("/customers/acme/spend_limits", spend_limit={"code": "most", "units": "5", "billable_metric_code": "gb"})
    first = hold(box, units="2")
    box.put("/billable_metrics/gb", billable_metric={"expression": "event.properties.bytes / 1024"})
    assert standing(box) == ("0.0", "2.0", "3.0")
    assert hold(box, 402, properties={"bytes": 4 * 1024}) == "spend_limit_reached"
    hold(box, properties={"bytes": 3 * 1024})
    capture(box, first, properties={"bytes": 1024})
    assert standing(box) == ("1.0", "3.0", "1.0")


@pytest.mark.usefixtures("metric")
def test_a_hold_of_an_ended_subscription_counts_against_its_customers_lifetime(box: Scenario) -> None:
    """Its usage may still come, as of a time before the end."""
    box.subscribe(external_id="other")
    box.post("/customers/acme/spend_limits", spend_limit={"code": "ever", "amount_cents": 400, "interval": "lifetime"})
    held = hold(box, units="3", expires_in=7200)
    box.travel_to(box.now + timedelta(hours=1))
    before = int(box.now.timestamp()) - 60
    box.unsubscribe()
    assert hold(box, 402, "other", units="2") == "spend_limit_reached"
    capture(box, held, timestamp=before)
    assert hold(box, 402, "other", units="2") == "spend_limit_reached"
    hold(box, 200, "other", units="1")


def test_the_quota_of_an_entitlement_bounds_the_holds_of_a_program(box: Scenario) -> None:
    """By the value of the subscription's own, as soon as it changes; open holds count."""
    billing = box.billing
    box.metric("gb")
    box.plan()
    box.subscribe()
    quota: PrivilegeFields = {"code": "most", "value_type": "integer", "billable_metric_code": "gb"}
    billing.features.create(code="storage", privileges=[quota])
    billing.entitlements.replace_of_plan("basic", entitlements={"storage": {"most": 5}})
    with billing.holds.hold("sub", "gb", units=5):
        with pytest.raises(PaymentRequired) as refused, billing.holds.hold("sub", "gb", units=1):
            raise AssertionError("it was refused")
        limit: Any = refused.value.details["limit"]
        assert (refused.value.code, limit["code"]) == ("quota_reached", "storage.most")
        billing.entitlements.change_of_subscription("sub", entitlements={"storage": {"most": 6}})
        with billing.holds.hold("sub", "gb", units=1) as usage:
            usage.capture()
    check = billing.spend_limits.check(external_subscription_id="sub", code="gb", units=5)
    assert check.allowed
    assert check.limits[0]["remaining"] == "5.0"
