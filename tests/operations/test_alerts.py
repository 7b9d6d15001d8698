"""Alerts of subscriptions: what rings, when, and how often."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, price_ranges

from usagebill import Billing
from usagebill.core.errors import BadRequest, Invalid, NotFound

pytestmark = [pytest.mark.now("2024-03-05T10:00:00Z"), pytest.mark.usefixtures("acme")]


def later(box: Scenario, seconds: int = 10) -> None:
    box.travel_to(box.now + timedelta(seconds=seconds))


def use(box: Scenario, code: str = "gb", **properties: Any) -> None:
    """Usage of now, looked at before anything else happens."""
    box.event(code, **properties)
    later(box)


def watch(
    box: Scenario, *values: int, alert_type: str = "current_usage_amount", every: int | None = None, **fields: Any
) -> Any:
    steps = [] if every is None else [{"value": every, "recurring": True}]
    body = {"alert_type": alert_type, "code": "watch", "thresholds": [*({"value": value} for value in values), *steps]}
    return box.post("/subscriptions/sub/alerts", alert={**body, **fields})["alert"]


def rung(box: Scenario) -> list[tuple[float, float, list[float]]]:
    """What each message says: the value before, the value now, and what was crossed."""
    triggered = [message["triggered_alert"] for message in box.webhooks if message["webhook_type"] == "alert.triggered"]
    return [
        (
            float(alert["previous_value"]),
            float(alert["current_value"]),
            [float(threshold["value"]) for threshold in alert["crossed_thresholds"]],
        )
        for alert in triggered
    ]


def previous(box: Scenario) -> float:
    return float(box.get("/subscriptions/sub/alerts/watch")["alert"]["previous_value"])


@pytest.fixture
def metric(box: Scenario) -> str:
    """A subscription to a metric at 1.00 a unit."""
    metric_id = box.metric("gb")
    box.plan(charge_on(metric_id, amount="1"))
    box.subscribe()
    return metric_id


@pytest.mark.usefixtures("metric")
def test_a_batch_rings_once_for_all_that_it_crosses(box: Scenario) -> None:
    watch(box, 1000, 2000, every=500)
    box.events("gb", {"value": 8}, {"value": 8}, {"value": 10})
    later(box)
    assert rung(box) == [(0, 2600, [1000, 2000, 2500])]
    use(box, value=1)
    assert rung(box)[1:] == []


@pytest.mark.usefixtures("metric")
def test_usage_rings_within_seconds_of_its_first_event(box: Scenario) -> None:
    watch(box, 1000)
    box.event("gb", value=4)
    later(box, 3)
    box.event("gb", value=6)
    later(box, 2)
    assert rung(box) == [(0, 1000, [1000])]


@pytest.mark.usefixtures("metric")
def test_usage_that_comes_late_counts_in_its_own_period_only(box: Scenario) -> None:
    watch(box, 1000)
    box.travel_to("2024-04-02T00:00:00Z")
    box.events("gb", {"value": 20, "at": 1_711_000_000})
    later(box)
    assert rung(box) == []
    box.events("gb", {"value": 20, "at": 1_711_930_000})
    later(box)
    assert rung(box) == [(0, 2000, [1000])]


def test_a_seat_that_goes_and_comes_back_rings_again(box: Scenario) -> None:
    seats = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(charge_on(seats, amount="10"))
    box.subscribe()
    kind = "billable_metric_current_usage_units"
    watch(box, 2, alert_type=kind, billable_metric_code="seats")
    for value, operation in (("a", "add"), ("b", "add"), ("b", "remove"), ("a", "add"), ("b", "add")):
        use(box, "seats", value=value, operation_type=operation)
    assert rung(box) == [(1, 2, [2]), (1, 2, [2])]


def test_seats_that_are_carried_over_ring_in_the_period_in_which_they_came(box: Scenario) -> None:
    seats = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(charge_on(seats, amount="10"), charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    watch(box, 1500, 2500)
    use(box, "seats", value="a")
    use(box, "seats", value="b")
    use(box, value=6)
    assert rung(box) == [(1000, 2000, [1500]), (2000, 2600, [2500])]
    box.travel_to("2024-04-02T00:00:00Z")
    assert previous(box) == 2000
    use(box, value=6)
    assert rung(box)[2:] == [(2000, 2600, [2500])]


def test_a_period_that_begins_with_more_than_the_last_one_had_rings_without_any_event(box: Scenario) -> None:
    seats = box.metric("seats", "sum_agg", recurring=True)
    box.plan(charge_on(seats, amount="31", prorated=True))
    box.subscribe()
    watch(box, 3000)
    box.travel_to("2024-03-20T10:00:00Z")
    use(box, "seats", value=1)
    assert (rung(box), previous(box)) == ([], 1200)
    box.travel_to("2024-04-01T00:00:01Z")
    assert rung(box) == [(1200, 3100, [3000])]


@pytest.mark.usefixtures("metric")
def test_each_period_rings_for_itself_however_much_the_last_one_had(box: Scenario) -> None:
    watch(box, 3000)
    use(box, value=40)
    box.travel_to("2024-04-02T08:00:00Z")
    assert previous(box) == 0
    use(box, value=50)
    assert rung(box) == [(0, 4000, [3000]), (0, 5000, [3000])]


@pytest.mark.usefixtures("metric")
def test_the_last_second_of_a_period_rings_in_the_next_one(box: Scenario) -> None:
    watch(box, 3000)
    box.travel_to("2024-03-31T23:59:59Z")
    box.event("gb", value=40)
    box.travel_to("2024-04-01T00:00:10Z")
    assert (rung(box), previous(box)) == ([(0, 4000, [3000])], 0)


@pytest.mark.usefixtures("metric")
def test_periods_that_passed_while_nothing_ran_each_ring_once(box: Scenario) -> None:
    watch(box, 3000)
    for instant in ("2024-03-10T00:00:00Z", "2024-04-10T00:00:00Z", "2024-05-10T00:00:00Z"):
        box.jump_to(instant)
        # A request does nothing but what is to be done at once.
        box.event("gb", value=40)
    box.run_due()
    later(box)
    assert rung(box) == [(0, 4000, [3000])] * 3


def test_a_change_of_plan_is_looked_at_with_its_own_prices(box: Scenario) -> None:
    gb = box.metric("gb")
    box.plan(charge_on(gb, amount="1"), amount_cents=100)
    box.plan(charge_on(gb, amount="5"), code="bigger", amount_cents=900)
    box.subscribe()
    watch(box, 1000)
    use(box, value=15)
    box.subscribe("bigger")
    later(box)
    use(box, value=4)
    assert rung(box) == [(0, 1500, [1000]), (0, 2000, [1000])]


def test_what_was_used_right_before_an_end_rings(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    watch(box, 1000)
    box.event("gb", value=15)
    box.unsubscribe()
    later(box)
    assert rung(box) == [(0, 1500, [1000])]


def test_a_downgrade_goes_on_with_the_period_that_it_takes_over(box: Scenario) -> None:
    gb = box.metric("gb")
    box.plan(charge_on(gb, amount="1"), amount_cents=900)
    box.plan(charge_on(gb, amount="1"), code="smaller", amount_cents=100)
    box.subscribe()
    watch(box, 1000)
    box.subscribe("smaller")
    box.travel_to("2024-04-01T00:05:00Z")
    use(box, value=15)
    assert rung(box) == [(0, 1500, [1000])]
    box.travel_to("2024-04-01T01:00:00Z")
    assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "smaller"
    use(box, value=1)
    assert rung(box)[1:] == []


def test_the_last_second_before_a_downgrade_rings_before_the_run_that_applies_it(box: Scenario) -> None:
    gb = box.metric("gb")
    box.plan(charge_on(gb, amount="1"), amount_cents=900)
    box.plan(charge_on(gb, amount="1"), code="smaller", amount_cents=100)
    box.subscribe()
    watch(box, 1000)
    use(box, value=4)
    box.subscribe("smaller")
    box.travel_to("2024-03-31T23:59:59Z")
    box.event("gb", value=8)
    box.travel_to("2024-04-01T00:05:00Z")
    assert rung(box) == [(400, 1200, [1000])]
    box.travel_to("2024-04-01T01:00:00Z")
    use(box, value=12)
    assert rung(box)[1:] == [(0, 1200, [1000])]


@pytest.mark.usefixtures("metric")
def test_a_higher_price_rings_without_an_event(box: Scenario) -> None:
    watch(box, 1000)
    use(box, value=6)
    charge = box.get("/plans/basic")["plan"]["charges"][0]
    box.put(f"/subscriptions/sub/charges/{charge['code']}", charge={"properties": {"amount": "2"}})
    assert rung(box) == [(600, 1200, [1000])]


def test_a_metric_is_watched_over_all_its_charges(box: Scenario) -> None:
    gb, ops = box.metric("gb"), box.metric("ops")
    box.plan(charge_on(gb, amount="1"), charge_on(gb, amount="2"), charge_on(ops, amount="9"))
    box.subscribe()
    box.post(
        "/subscriptions/sub/alerts",
        alerts=[
            {
                "alert_type": f"billable_metric_current_usage_{measure}",
                "code": measure,
                "billable_metric_code": "gb",
                "thresholds": [{"value": value}],
            }
            for measure, value in (("amount", 1200), ("units", 8))
        ],
    )
    use(box, "ops", value=100)
    assert rung(box) == []
    use(box, value=4)
    assert sorted(rung(box)) == [(0, 8, [8]), (0, 1200, [1200])]


def test_an_event_that_no_alert_is_about_asks_for_no_check(box: Scenario) -> None:
    gb, ops = box.metric("gb"), box.metric("ops")
    box.plan(charge_on(gb, amount="1"), charge_on(ops, amount="9"))
    box.subscribe()
    kind = "billable_metric_current_usage_amount"
    watch(box, 1000, alert_type=kind, billable_metric_code="gb")
    looked_at = box.get("/subscriptions/sub/alerts/watch")["alert"]["last_processed_at"]
    later(box)
    use(box, "ops", value=3)
    assert box.get("/subscriptions/sub/alerts/watch")["alert"]["last_processed_at"] == looked_at
    use(box, value=3)
    assert box.get("/subscriptions/sub/alerts/watch")["alert"]["last_processed_at"] > looked_at


@pytest.mark.usefixtures("metric")
def test_lifetime_usage_rings_once_in_a_life(box: Scenario) -> None:
    watch(box, 3000, 5000, alert_type="lifetime_usage_amount")
    use(box, value=40)
    # Between midnight and the run the period that closed is on no invoice.
    box.travel_to("2024-04-01T00:05:00Z")
    use(box, value=1)
    box.travel_to("2024-04-02T00:00:00Z")
    assert (rung(box), previous(box)) == ([(0, 4000, [3000])], 4100)
    use(box, value=9)
    assert rung(box)[1:] == [(4100, 5000, [5000])]


@pytest.mark.usefixtures("metric")
def test_usage_from_before_counts_in_a_life(box: Scenario) -> None:
    watch(box, 3000, alert_type="lifetime_usage_amount")
    use(box, value=10)
    box.put("/subscriptions/sub/lifetime_usage", lifetime_usage={"external_historical_usage_amount_cents": 2000})
    assert rung(box) == [(1000, 3000, [3000])]


def test_what_was_paid_in_advance_counts_once_in_a_life(box: Scenario) -> None:
    charge = charge_in_advance_on(box.metric("gb"), amount="1", invoiceable=True)
    box.plan(charge)
    box.subscribe()
    watch(box, 1500, alert_type="lifetime_usage_amount")
    use(box, value=10)
    assert (rung(box), previous(box)) == ([], 1000)
    box.travel_to("2024-04-02T00:00:00Z")
    use(box, value=6)
    assert rung(box) == [(1000, 1600, [1500])]


def test_units_of_a_life_go_on_from_period_to_period(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    kind = "billable_metric_lifetime_usage_units"
    watch(box, 10, alert_type=kind, billable_metric_code="gb")
    use(box, value=6)
    box.travel_to("2024-04-02T00:00:00Z")
    use(box, value=6)
    assert rung(box) == [(6, 12, [10])]


def test_units_of_a_life_are_not_counted_by_days(box: Scenario) -> None:
    box.plan(charge_on(box.metric("seats", recurring=True), amount="1", prorated=True))
    box.subscribe()
    body = {
        "alert_type": "billable_metric_lifetime_usage_units",
        "billable_metric_code": "seats",
        "code": "life",
        "thresholds": [{"value": 1}],
    }
    refused = box.post("/subscriptions/sub/alerts", status=422, alert=body)
    assert refused["error_details"] == {"billable_metric": ["prorated_charge"]}


def test_a_first_flat_amount_rings_once_a_period(box: Scenario) -> None:
    """Usage of nothing costs something here: a period begins with it, and ends with it."""
    charge = charge_on(box.metric("gb"), "graduated", graduated_ranges=price_ranges((0, None, "1", "10")))
    box.plan(charge)
    box.subscribe()
    watch(box, 500)
    assert rung(box) == [(0, 1000, [500])]
    box.travel_to("2024-06-02T00:00:00Z")
    assert rung(box)[1:] == []


@pytest.mark.usefixtures("metric")
def test_an_alert_of_a_subscription_to_come_waits_for_its_start(box: Scenario) -> None:
    box.subscribe(external_id="soon", subscription_at="2024-03-20T00:00:00Z")
    body = {"alert_type": "current_usage_amount", "code": "watch", "thresholds": [{"value": 500}]}
    box.post("/subscriptions/soon/alerts", status=404, alert=body)
    box.post("/subscriptions/soon/alerts?subscription_status=pending", alert=body)
    box.travel_to("2024-03-20T01:00:00Z")
    box.event("gb", external_id="soon", value=7)
    later(box)
    assert rung(box) == [(0, 700, [500])]


@pytest.mark.usefixtures("metric")
def test_an_id_that_passes_to_another_customer_leaves_its_alerts_behind(box: Scenario) -> None:
    watch(box, 500)
    box.unsubscribe()
    box.customer("other")
    box.subscribe(customer="other")
    use(box, value=9)
    assert (rung(box), box.get("/subscriptions/sub/alerts")["alerts"]) == ([], [])


def test_another_metric_is_watched_from_nothing(box: Scenario) -> None:
    gb, ops = box.metric("gb"), box.metric("ops")
    box.plan(charge_on(gb, amount="1"), charge_on(ops, amount="1"))
    box.subscribe()
    watch(box, 1000, alert_type="billable_metric_current_usage_amount", billable_metric_code="gb")
    use(box, value=50)
    use(box, "ops", value=20)
    box.put("/subscriptions/sub/alerts/watch", alert={"billable_metric_code": "ops"})
    assert rung(box) == [(0, 5000, [1000]), (0, 2000, [1000])]


def test_an_alert_goes_with_its_metric(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    watch(box, 1000, alert_type="billable_metric_current_usage_amount", billable_metric_code="gb")
    box.delete("/billable_metrics/gb")
    assert box.get("/subscriptions/sub/alerts")["alerts"] == []
    later(box)


@pytest.mark.usefixtures("metric")
def test_what_is_null_in_a_request_is_not_sent(box: Scenario) -> None:
    item = {"alert_type": "current_usage_amount", "code": "watch", "name": None, "billable_metric_code": None}
    threshold = {"value": 1000, "code": None, "recurring": None}
    sent = [{**item, "thresholds": [threshold, None]}]
    (made,) = box.post("/subscriptions/sub/alerts", alert=None, alerts=sent)["alerts"]
    assert (made["name"], made["thresholds"]) == (None, [{"code": None, "value": "1000.0", "recurring": False}])
    box.post("/subscriptions/sub/alerts", status=400, alert=None, alerts=None)
    kept = box.put("/subscriptions/sub/alerts/watch", alert={"name": None, "thresholds": None, "code": "watch"})
    assert kept["alert"]["thresholds"] == made["thresholds"]


@pytest.mark.usefixtures("metric")
def test_of_several_alerts_each_that_is_refused_says_why_and_none_is_made(box: Scenario) -> None:
    good = {"alert_type": "current_usage_amount", "code": "a", "thresholds": [{"value": 1}]}
    metric_alert = {**good, "alert_type": "billable_metric_current_usage_units", "code": "b"}
    sent = [good, {**metric_alert, "billable_metric_code": "none"}, "text", {**good, "code": "a"}]
    details = box.post("/subscriptions/sub/alerts", status=422, alerts=sent)["error_details"]
    assert [(position, refusal["params"]) for position, refusal in details.items()] == [
        (str(number), sent[number]) for number in (1, 2, 3)
    ]
    assert details["1"]["errors"] == "billable_metric_not_found"
    assert "value_is_mandatory" in details["2"]["errors"]
    assert "value_already_exist" in details["3"]["errors"]
    assert "alert_already_exists" in details["3"]["errors"]
    assert box.get("/subscriptions/sub/alerts")["alerts"] == []


@pytest.mark.usefixtures("metric")
def test_a_refused_change_changes_nothing(box: Scenario) -> None:
    before = watch(box, 1000)
    other = {"alert_type": "lifetime_usage_amount", "code": "other", "thresholds": [{"value": 1}]}
    box.post("/subscriptions/sub/alerts", alert=other)
    for change, field in (
        ({"code": "other"}, "code"),
        ({"code": ""}, "code"),
        ({"thresholds": [{"value": "x"}]}, "thresholds:value"),
        ({"billable_metric_code": "gb"}, "billable_metric"),
    ):
        refused = box.put("/subscriptions/sub/alerts/watch", status=422, alert=change)
        assert list(refused["error_details"]) == [field]
    box.put("/subscriptions/sub/alerts/nothing", status=404)
    after = box.get("/subscriptions/sub/alerts/watch")["alert"]
    assert (after["code"], after["thresholds"]) == (before["code"], before["thresholds"])


def test_the_library_speaks_of_alerts_too(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    billing: Billing = box.billing
    alert = billing.alerts.create("sub", alert_type="current_usage_amount", code="watch", thresholds=[{"value": 1000}])
    assert billing.alerts.get("sub", "watch").id == alert.id
    with pytest.raises(Invalid):
        billing.alerts.create_all("sub", alerts=[{"alert_type": "current_usage_amount", "code": "again"}])
    with pytest.raises(BadRequest):
        billing.alerts.create_all("sub", alerts=[])
    billing.alerts.delete("sub", "watch")
    with pytest.raises(NotFound):
        billing.alerts.get("sub", "watch")
    billing.alerts.delete_all("sub")


def wallet(box: Scenario, credits: str) -> str:
    """A wallet of acme with credits of 1.00."""
    body = {"external_customer_id": "acme", "rate_amount": "1", "code": "prepaid", "currency": "EUR"}
    made = box.post("/wallets", wallet={**body, "granted_credits": credits})["wallet"]
    box.run_due()
    return str(made["svc_id"])


def move(box: Scenario, wallet_id: str, **credits: str) -> None:
    box.post("/wallet_transactions", wallet_transaction={"wallet_id": wallet_id, **credits})
    box.run_due()


WALLET_ALERTS = "/customers/acme/wallets/prepaid/alerts"


def test_a_balance_that_falls_rings_each_time_it_falls(box: Scenario) -> None:
    wallet_id = wallet(box, "100")
    body = {"alert_type": "wallet_balance_amount", "code": "low", "thresholds": [{"value": 5000}]}
    assert box.post(WALLET_ALERTS, alert=body)["alert"]["previous_value"] == "10000.0"
    move(box, wallet_id, voided_credits="60")
    move(box, wallet_id, voided_credits="10")
    move(box, wallet_id, granted_credits="50")
    move(box, wallet_id, voided_credits="30")
    assert rung(box) == [(10000, 4000, [5000]), (8000, 5000, [5000])]


def test_alerts_of_a_wallet_have_codes_and_types_of_their_own(box: Scenario) -> None:
    wallet(box, "100")
    good = {"alert_type": "wallet_balance_amount", "code": "low", "thresholds": [{"value": 1}]}
    usage = {**good, "alert_type": "current_usage_amount"}
    details = box.post(WALLET_ALERTS, status=422, alerts=[good, usage, good])["error_details"]
    assert "invalid_type" in details["1"]["errors"]
    assert "alert_already_exists" in details["2"]["errors"]
    box.post(WALLET_ALERTS, alert=good)
    other = {**good, "alert_type": "wallet_credits_balance"}
    assert box.post(WALLET_ALERTS, status=422, alert=other)["error_details"] == {"code": ["value_already_exist"]}
    box.post("/customers/acme/wallets/nothing/alerts", status=404, alert=good)
    box.put(f"{WALLET_ALERTS}/low", alert={"thresholds": [{"value": 7}]})
    assert box.delete(f"{WALLET_ALERTS}/low")["alert"]["code"] == "low"
    box.delete(WALLET_ALERTS)
