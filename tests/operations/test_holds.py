"""Holds: usage reserved before it happens, captured once it has, and never more than its limit."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, price_ranges

from usagebill.core.errors import NotAllowed, PaymentRequired

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
