"""Requests about alerts, of subscriptions and of wallets: what is taken, what is refused first, and what is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.json_asserts import missing, refused
from tests.operations.test_alerts import later, rung, use, wallet, watch
from tests.scenarios import Scenario, charge_on

from usagebill import Billing
from usagebill.runtime.clock import ManualClock

pytestmark = [pytest.mark.now("2024-03-05T10:00:00Z"), pytest.mark.usefixtures("acme")]

SUBSCRIPTION = "/subscriptions/sub/alerts"
WALLET = "/customers/acme/wallets/prepaid/alerts"
GOOD: dict[str, Any] = {"alert_type": "current_usage_amount", "code": "watch", "thresholds": [{"value": 1000}]}


@pytest.fixture
def metric(box: Scenario) -> str:
    """A subscription to a metric at 1.00 a unit."""
    metric_id = box.metric("gb")
    box.plan(charge_on(metric_id, amount="1"))
    box.subscribe()
    return metric_id


def ask(box: Scenario, path: str = SUBSCRIPTION, **fields: object) -> Any:
    return box.send("POST", path, {"alert": {**GOOD, **fields}})


@pytest.mark.usefixtures("metric")
def test_a_list_makes_alerts_of_twenty_thresholds_each(box: Scenario) -> None:
    once = [{"code": f"at {number}", "value": number * 100} for number in range(1, 20)]
    full = [*once, {"code": "beyond", "value": 1000, "recurring": True}]
    life = {"alert_type": "lifetime_usage_amount", "code": "life", "thresholds": [{"value": 5000}]}
    made = box.post(SUBSCRIPTION, alerts=[{**GOOD, "thresholds": full}, life])["alerts"]
    assert [(alert["code"], len(alert["thresholds"])) for alert in made] == [("watch", 20), ("life", 1)]
    use(box, value=40)
    ((previous, current, crossed),) = rung(box)
    assert (previous, current, crossed) == (0, 4000, [*range(100, 2000, 100), 2900, 3900])
    (message,) = (item for item in box.webhooks if item["webhook_type"] == "alert.triggered")
    assert [item["code"] for item in message["triggered_alert"]["crossed_thresholds"]][-3:] == [
        *("at 19", "beyond", "beyond")
    ]
    box.delete(SUBSCRIPTION)
    more = [*full, {"value": 1}]
    (problem,) = box.post(SUBSCRIPTION, status=422, alerts=[life, {**GOOD, "thresholds": more}])[
        "error_details"
    ].values()
    assert "too_many_thresholds" in problem["errors"]
    assert box.get(SUBSCRIPTION)["alerts"] == []


@pytest.mark.usefixtures("metric")
@pytest.mark.parametrize(
    "sent",
    [{}, {"recurring": None}, {"recurring": False}, {"recurring": 0}, {"recurring": "0"}, {"recurring": "false"}],
)
def test_many_ways_to_say_that_a_threshold_does_not_recur(box: Scenario, sent: dict[str, object]) -> None:
    twice = [{"value": 5}, {"value": 5, **sent}]
    assert refused(ask(box, thresholds=twice)) == {"thresholds": ["duplicate_threshold_values"]}
    status, body = ask(box, thresholds=[{"value": 5, **sent}, {"value": 5, "recurring": "true"}])
    assert status == 200
    assert [threshold["recurring"] for threshold in body["alert"]["thresholds"]] == [False, True]


@pytest.mark.usefixtures("metric")
def test_what_is_wrong_with_an_alert_is_looked_for_step_by_step(box: Scenario) -> None:
    watch(box, 1, code="taken", alert_type="lifetime_usage_amount")
    wrong: dict[str, Any] = {
        "alert_type": "",
        "code": "",
        "billable_metric_code": "none",
        "thresholds": [],
    }

    def problem(**changes: object) -> Any:
        wrong.update(changes)
        return refused(ask(box, **wrong))

    assert problem() == {"alert_type": ["value_is_mandatory", "value_is_invalid"]}
    assert problem(alert_type="wallet_balance_amount") == {"alert_type": ["invalid_type"]}
    assert problem(alert_type="lifetime_usage_amount") == {"thresholds": ["value_is_mandatory"]}
    many = [{"value": None}, *({"value": "x"} for _ in range(20))]
    assert problem(thresholds=many) == {"thresholds": ["too_many_thresholds"]}
    same = [{"value": 5}, {"value": 5}, {"value": None}]
    assert problem(thresholds=same) == {"thresholds": ["duplicate_threshold_values"]}
    assert problem(thresholds=[{"value": "x"}, {"value": None}]) == {"thresholds:value": ["value_is_mandatory"]}
    zero = {"value": 0, "recurring": True}
    assert problem(thresholds=[{"value": "x"}, zero]) == {"thresholds:value": ["value_is_invalid"]}
    assert problem(thresholds=[{"value": -5}, zero]) == {"thresholds:value": ["recurring_value_is_negative"]}
    wrong["thresholds"] = [{"value": "-5.5"}]
    assert missing(ask(box, **wrong)) == "billable_metric"
    assert problem(billable_metric_code="gb") == {
        "code": ["value_is_mandatory"],
        "billable_metric": ["value_must_be_blank"],
    }
    assert problem(billable_metric_code=None, code="taken") == {
        "code": ["value_already_exist"],
        "base": ["alert_already_exists"],
    }
    assert len(box.get(SUBSCRIPTION)["alerts"]) == 1


@pytest.mark.usefixtures("metric")
def test_what_an_alert_is_cannot_be_sent(box: Scenario) -> None:
    alert = box.post(SUBSCRIPTION, alert={**GOOD, "direction": "decreasing", "previous_value": 7})["alert"]
    assert (alert["direction"], alert["previous_value"]) == ("increasing", "0.0")
    use(box, value=4)
    before = box.get(f"{SUBSCRIPTION}/watch")["alert"]
    sent = {"alert_type": "lifetime_usage_amount", "direction": "decreasing", "thresholds": []}
    after = box.ask("PATCH", f"{SUBSCRIPTION}/watch", {"alert": sent})["alert"]
    assert after == before
    assert (after["previous_value"], after["alert_type"]) == ("400.0", "current_usage_amount")


@pytest.mark.usefixtures("metric")
def test_new_thresholds_are_compared_with_the_value_that_was_seen_last(box: Scenario) -> None:
    watch(box, 1000)
    use(box, value=6)
    box.put(f"{SUBSCRIPTION}/watch", alert={"thresholds": [{"value": 500}, {"value": 700}]})
    later(box)
    # 500 lies below what had been seen already.
    assert rung(box) == []
    use(box, value=2)
    assert rung(box) == [(600, 800, [700])]


@pytest.mark.usefixtures("metric")
def test_an_alert_of_a_metric_that_the_plan_does_not_price_sees_nothing(box: Scenario) -> None:
    box.metric("ops")
    watch(box, 1, alert_type="billable_metric_current_usage_units", billable_metric_code="ops")
    use(box, "ops", value=5)
    use(box, value=5)
    alert = box.get(f"{SUBSCRIPTION}/watch")["alert"]
    assert (alert["previous_value"], alert["last_processed_at"], rung(box)) == ("0.0", None, [])


@pytest.mark.usefixtures("metric")
def test_all_alerts_go_at_once_and_none_is_fine(box: Scenario) -> None:
    watch(box, 1000)
    for _ in range(2):
        assert box.send("DELETE", SUBSCRIPTION) == (200, None)
    assert missing(box.send("GET", f"{SUBSCRIPTION}/watch")) == "alert"
    for path in ("/subscriptions/none/alerts", "/subscriptions/none/alerts/watch"):
        assert missing(box.send("GET", path)) == "subscription"
    # What has gone frees its code and type.
    watch(box, 1000)
    gone = box.delete(f"{SUBSCRIPTION}/watch")["alert"]
    assert (gone["code"], gone["thresholds"]) == ("watch", [])
    watch(box, 1000)


def test_a_wallet_has_one_alert_of_each_of_four_types(box: Scenario) -> None:
    wallet(box, "100")
    values = {
        "wallet_balance_amount": "10000.0",
        "wallet_credits_balance": "100.0",
        "wallet_ongoing_balance_amount": "10000.0",
        "wallet_credits_ongoing_balance": "100.0",
    }
    for alert_type, value in values.items():
        sent = {"alert_type": alert_type, "code": alert_type, "thresholds": [{"value": -5}]}
        alert = box.post(WALLET, alert={**sent, "direction": "increasing"})["alert"]
        assert (alert["direction"], alert["previous_value"], alert["wallet_code"]) == ("decreasing", value, "prepaid")
        assert (alert["external_subscription_id"], alert["subscription_external_id"]) == (None, None)
        assert refused(ask(box, WALLET, alert_type=alert_type, code="another")) == {"base": ["alert_already_exists"]}
    assert box.get(f"{WALLET}?per_page=3&page=2")["meta"]["total_count"] == 4
    assert missing(box.send("GET", "/customers/none/wallets/prepaid/alerts")) == "customer"
    assert missing(box.send("GET", "/customers/acme/wallets/none/alerts")) == "wallet"
    assert missing(box.send("GET", f"{WALLET}/none")) == "alert"
    assert box.send("DELETE", WALLET) == (200, None)


@pytest.mark.usefixtures("metric")
def test_every_value_of_a_wallet_is_watched_as_usage_and_invoices_take_from_it(box: Scenario) -> None:
    wallet_id = wallet(box, "100")
    for alert_type, value in (
        ("wallet_balance_amount", 9000),
        ("wallet_credits_balance", "90"),
        ("wallet_ongoing_balance_amount", 9000),
        ("wallet_credits_ongoing_balance", "90"),
    ):
        box.post(WALLET, alert={"alert_type": alert_type, "code": alert_type, "thresholds": [{"value": value}]})

    def types() -> list[str]:
        triggered = [
            message["triggered_alert"] for message in box.webhooks if message["webhook_type"] == "alert.triggered"
        ]
        assert {(alert["svc_wallet_id"], alert["svc_subscription_id"]) for alert in triggered} <= {(wallet_id, None)}
        return sorted(alert["alert_type"] for alert in triggered)

    ongoing = ["wallet_credits_ongoing_balance", "wallet_ongoing_balance_amount"]
    use(box, value=9)
    assert types() == []
    use(box, value=2)
    assert types() == ongoing
    updates = len(box.webhook_types("wallet.updated"))
    use(box, value=1)
    # Usage moves what is left, and not the balance.
    assert (types(), len(box.webhook_types("wallet.updated"))) == (ongoing, updates)
    box.travel_to("2024-04-01T01:00:00Z")
    assert types() == sorted([*ongoing, "wallet_balance_amount", "wallet_credits_balance"])


def test_a_fall_rings_even_if_credits_come_back_before_anything_else_is_done() -> None:
    messages: list[Any] = []
    clock = ManualClock(datetime(2024, 3, 5, tzinfo=UTC))
    with Billing(":memory:", clock=clock, deliver=False, on_message=messages.append) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        prepaid = billing.wallets.create(external_customer_id="acme", rate_amount="1", granted_credits="100")
        billing.run_due()
        billing.alerts.create_of_wallet(
            "acme", prepaid.code, alert_type="wallet_balance_amount", code="low", thresholds=[{"value": 5000}]
        )
        billing.wallet_transactions.create(wallet_id=prepaid.id, voided_credits="60")
        billing.wallet_transactions.create(wallet_id=prepaid.id, granted_credits="60")
        billing.run_due()
    triggered = [message["triggered_alert"] for message in messages if message["webhook_type"] == "alert.triggered"]
    assert [(alert["previous_value"], alert["current_value"]) for alert in triggered] == [("10000.0", "4000.0")]
