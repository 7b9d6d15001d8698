"""Events that are stored only as long as limits, quotas and credits leave room for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, price_ranges

from usagebill.core.errors import Invalid, PaymentRequired

pytestmark = [pytest.mark.now("2024-03-05T10:00:00Z"), pytest.mark.usefixtures("acme")]


def event(transaction_id: str, value: object = 1, external_id: str = "sub", **fields: Any) -> Any:
    named = {"transaction_id": transaction_id, "code": "gb", "external_subscription_id": external_id}
    return {**named, "properties": {"value": value}, **fields}


def send(box: Scenario, sent: dict[str, Any], status: int = 200) -> Any:
    return box.post("/events?enforce=true", status, event=sent)


def send_batch(box: Scenario, *sent: dict[str, Any], status: int = 200) -> Any:
    return box.post("/events/batch?enforce=true", status, events=list(sent))


def names(answer: Any) -> tuple[list[str], list[tuple[int, str]]]:
    """The transaction ids of the events stored, and position and code of those refused."""
    stored = [one["transaction_id"] for one in answer["events"]]
    return stored, [(one["position"], one["code"]) for one in answer["refused"]]


def limit(box: Scenario, amount_cents: int = 500, **fields: Any) -> None:
    box.post("/customers/acme/spend_limits", spend_limit={"code": "cap", "amount_cents": amount_cents, **fields})


@pytest.fixture
def metric(box: Scenario) -> str:
    """A subscription to a metric at 1.00 a unit."""
    metric_id = box.metric("gb")
    box.plan(charge_on(metric_id, amount="1"))
    box.subscribe()
    return metric_id


@pytest.mark.usefixtures("metric")
def test_an_event_beyond_the_limit_is_refused_and_says_what_is_left(box: Scenario) -> None:
    limit(box)
    send(box, event("a", 3))
    refusal = send(box, event("b", "2.01"), 402)
    assert refusal["code"] == "spend_limit_reached"
    shown = refusal["error_details"]["limit"]
    assert (shown["code"], shown["limit"], shown["used"], shown["held"], shown["adds"], shown["remaining"]) == (
        "cap",
        "500.0",
        "300.0",
        "0.0",
        "201.0",
        "200.0",
    )
    assert shown["resets_at"] == "2024-04-01T00:00:00Z"
    send(box, event("c", 2))
    assert box.usage()["amount_cents"] == 500
    assert box.get("/events/b", 404)["code"] == "event_not_found"


@pytest.mark.usefixtures("metric")
def test_without_enforce_events_are_stored_beyond_the_limit(box: Scenario) -> None:
    limit(box)
    box.post("/events", event=event("a", 9))
    answer = box.post("/events/batch", events=[event("b", 9)])
    assert sorted(answer) == ["events"]
    assert box.usage()["amount_cents"] == 1800


@pytest.mark.usefixtures("metric")
def test_open_holds_count_against_events(box: Scenario) -> None:
    limit(box)
    box.post("/holds", hold={"external_subscription_id": "sub", "code": "gb", "units": "4"})
    assert send(box, event("a", 2), 402)["error_details"]["limit"]["held"] == "400.0"
    send(box, event("b", 1))


@pytest.mark.usefixtures("metric")
def test_of_a_batch_those_that_fit_are_stored_and_the_answer_lists_both(box: Scenario) -> None:
    limit(box)
    answer = send_batch(box, event("a", 3), event("b", 3), event("c", 1), event("d", 2), event("e", 1))
    assert names(answer) == (["a", "c", "e"], [(1, "spend_limit_reached"), (3, "spend_limit_reached")])
    assert answer["refused"][0] == {
        "position": 1,
        "transaction_id": "b",
        "status": 402,
        "code": "spend_limit_reached",
        "limit": {
            "code": "cap",
            "refusal_code": "spend_limit_reached",
            "measured_in": "cents",
            "limit": "500.0",
            "grace": "0.0",
            "used": "300.0",
            "held": "0.0",
            "adds": "300.0",
            "remaining": "200.0",
            "on_reached": "refuse",
            "set_by": "seller",
            "allowed": False,
            "resets_at": "2024-04-01T00:00:00Z",
        },
    }
    assert box.usage()["amount_cents"] == 500
    assert names(send_batch(box, event("f", 0), event("g", 1))) == (["f"], [(1, "spend_limit_reached")])


@pytest.mark.usefixtures("metric")
def test_a_batch_with_an_event_that_is_wrong_stores_none(box: Scenario) -> None:
    limit(box)
    details = send_batch(box, event("a", 9), event("", 1), status=422)["error_details"]
    assert details == {"1": {"transaction_id": ["value_is_mandatory"]}}
    assert box.usage()["amount_cents"] == 0


@pytest.mark.usefixtures("metric")
def test_an_event_that_is_stored_is_a_repeat_and_no_refusal(box: Scenario) -> None:
    limit(box)
    send(box, event("a", 5))
    assert send(box, event("a", 5), 422)["error_details"] == {"transaction_id": ["value_already_exist"]}


@pytest.mark.usefixtures("metric")
def test_repeats_are_skipped_where_that_is_asked_for_and_take_no_room(box: Scenario) -> None:
    limit(box)
    send(box, event("a", 3))
    path = "/events/batch?enforce=true&on_duplicate=skip"
    answer = box.post(path, events=[event("a", 3), event("b", 3), event("c", 2), event("c", 2)])
    assert names(answer) == (["c"], [(1, "spend_limit_reached")])
    assert [one["position"] for one in answer["skipped"]] == [0, 3]
    assert box.usage()["amount_cents"] == 500
    # Sent again when there is no room: the repeat is none's business.
    assert box.post("/events?enforce=true&on_duplicate=skip", event=event("a", 3))["event"]["transaction_id"] == "a"


@pytest.mark.usefixtures("metric")
def test_events_that_no_limit_concerns_are_stored(box: Scenario) -> None:
    limit(box, group={"model": "large"})
    send(box, event("a", 9))
    send(box, event("b", 9, external_id="nobody"))
    send(box, event("c", 9, code="unknown"))
    send(box, event("d", properties={"value": 6, "model": "large"}), 402)
    send(box, event("e", properties={"value": 5, "model": "large"}))


@pytest.mark.usefixtures("metric")
def test_limits_that_alert_refuse_nothing(box: Scenario) -> None:
    limit(box, on_reached="alert")
    send(box, event("a", 9))


def test_an_event_of_an_earlier_period_counts_where_it_belongs(box: Scenario) -> None:
    """March and its limit are full; February has room, the lifetime has 1.00 left."""
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe(subscription_at="2024-01-10T00:00:00Z")
    limit(box)
    limit(box, 900, code="ever", interval="lifetime")
    february = int((box.now - timedelta(days=20)).timestamp())
    send(box, event("a", 5))
    send(box, event("b", 1), 402)
    send(box, event("c", 3, timestamp=february))
    refusal = send(box, event("d", 2, timestamp=february), 402)
    assert refusal["error_details"]["limit"]["code"] == "ever"
    send(box, event("e", 1, timestamp=february))


def test_a_group_is_priced_as_if_there_were_no_other_usage(box: Scenario) -> None:
    """A unit costs 1.00 up to the tenth, then 0.10: to the small model's eleventh unit it is the large one's first."""
    ranges = price_ranges((0, 10, "1", "0"), (11, None, "0.1", "0"))
    box.plan(charge_on(box.metric("gb"), "graduated", graduated_ranges=ranges))
    box.subscribe()
    limit(box, 300, group={"model": "large"})
    send(box, event("a", properties={"value": 10, "model": "small"}))
    send(box, event("b", properties={"value": 4, "model": "large"}), 402)
    send(box, event("c", properties={"value": 3, "model": "large"}))


@pytest.mark.parametrize("in_advance", [False, True])
def test_credits_with_a_hard_stop_are_never_overdrawn(box: Scenario, in_advance: bool) -> None:
    box.tax(25)
    box.plan(charge_on(box.metric("gb"), amount="1", pay_in_advance=in_advance))
    box.subscribe()
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "10"}
    box.post("/wallets", wallet={**wallet, "hard_stop": True})
    answer = send_batch(box, *(event(name, 3) for name in "abc"))
    assert names(answer) == (["a", "b"], [(2, "insufficient_credits")])
    assert answer["refused"][0]["limit"]["remaining"] == "250.0"
    send(box, event("d", 3), 402)
    send(box, event("e", 2))
    send(box, event("f", "0.01"), 402)


def test_a_quota_is_never_passed(box: Scenario) -> None:
    metric_id = box.metric("gb")
    box.plan(charge_on(metric_id, amount="1"))
    quota = {"code": "most", "value_type": "integer", "billable_metric_code": "gb"}
    box.post("/features", feature={"code": "storage", "name": "Storage", "privileges": [quota]})
    box.post("/plans/basic/entitlements", entitlements={"storage": {"most": 10}})
    box.subscribe()
    assert names(send_batch(box, event("a", 6), event("b", 6), event("c", 4))) == (["a", "c"], [(1, "quota_reached")])


@pytest.mark.usefixtures("metric")
def test_a_customers_limit_counts_all_its_subscriptions_in_a_batch(box: Scenario) -> None:
    limit(box)
    box.subscribe(external_id="other")
    sent = [event("a", 3), event("b", 3, external_id="other"), event("c", 2, external_id="other")]
    assert names(send_batch(box, *sent)) == (["a", "c"], [(1, "spend_limit_reached")])


@pytest.mark.usefixtures("metric")
def test_the_library_enforces_as_the_api_does(box: Scenario) -> None:
    limit(box)
    billing = box.billing
    with pytest.raises(PaymentRequired, match=r'"cap" 500\.0 of 500\.0 cents are left'):
        billing.events.create(**event("a", 6), enforce=True)
    batch = billing.events.create_batch([event("a", 4), event("b", 2)], enforce=True)
    assert [one.transaction_id for one in batch.events] == ["a"]
    assert batch.refused is not None
    assert [(one.position, one.standing.code, one.standing.remaining) for one in batch.refused] == [(1, "cap", 100)]
    assert billing.events.create_batch([event("c", 9)]).refused is None
    with pytest.raises(Invalid, match="value_already_exist"):
        billing.events.create_batch([event("c", 9), event("d", 9)])


def test_an_event_of_an_earlier_period_takes_credits_at_its_price_there(box: Scenario) -> None:
    """March has used its five units at 1.00, February none of them."""
    ranges = price_ranges((0, 5, "1", "0"), (6, None, "0.1", "0"))
    box.plan(charge_on(box.metric("gb"), "graduated", pay_in_advance=True, graduated_ranges=ranges))
    box.subscribe(subscription_at="2024-01-10T00:00:00Z")
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "8"}
    box.post("/wallets", wallet={**wallet, "hard_stop": True})
    send(box, event("a", 5))
    february = int((box.now - timedelta(days=20)).timestamp())
    refusal = send(box, event("b", 4, timestamp=february), 402)["error_details"]["limit"]
    assert (refusal["adds"], refusal["remaining"]) == ("400.0", "300.0")
    send(box, event("c", 3, timestamp=february))
    send(box, event("d", "0.1"), 402)


def test_fees_of_single_events_take_whole_cents_of_credits(box: Scenario) -> None:
    """Each event in advance is a fee of its own: of 0.6 cents, which is a cent."""
    box.plan(charge_on(box.metric("gb"), amount="0.006", pay_in_advance=True))
    box.subscribe()
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "0.03"}
    box.post("/wallets", wallet={**wallet, "hard_stop": True})
    answer = send_batch(box, *(event(name) for name in "abcde"))
    assert names(answer) == (["a", "b", "c"], [(3, "insufficient_credits"), (4, "insufficient_credits")])


@pytest.mark.parametrize("together", [False, True])
def test_usage_of_less_than_half_a_cent_needs_credits_too(box: Scenario, together: bool) -> None:
    """At 0.2 cents an event, one cent pays for five of them, and none for nothing."""
    box.plan(charge_on(box.metric("gb"), amount="0.002"))
    box.subscribe()
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "hard_stop": True}
    made = box.post("/wallets", wallet=wallet)["wallet"]
    hold = {"external_subscription_id": "sub", "code": "gb", "units": 1}
    assert box.post("/holds", 402, hold=hold)["code"] == send(box, event("a"), 402)["code"] == "insufficient_credits"
    send(box, event("free", 0))
    box.post("/wallet_transactions", wallet_transaction={"wallet_id": made["svc_id"], "granted_credits": "0.01"})
    if together:
        stored, refused = names(send_batch(box, *(event(name) for name in "abcdefg")))
        assert (stored, refused) == (list("abcde"), [(5, "insufficient_credits"), (6, "insufficient_credits")])
    else:
        for name in "abcde":
            send(box, event(name))
        shown = send(box, event("f"), 402)["error_details"]["limit"]
        assert (shown["used"], shown["adds"], shown["remaining"]) == ("1.0", "0.2", "0.0")
    assert box.usage()["amount_cents"] == 1
    assert box.post("/holds", 402, hold=hold)["code"] == "insufficient_credits"
