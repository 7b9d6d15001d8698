"""What the activity log says of changes, whatever operation or job makes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on

from usagebill.core.security_logs import SECURED
from usagebill.operations import activity_logs, api_keys, taxes
from usagebill.process.settings import Settings
from usagebill.runtime.work import Work
from usagebill.storage.tables import LOGGED

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

COUPON: dict[str, Any] = {
    "name": "Ten off",
    "code": "ten",
    "coupon_type": "fixed_amount",
    "amount_cents": 1000,
    "amount_currency": "EUR",
    "frequency": "once",
    "expiration": "no_expiration",
}


def activities(box: Scenario, query: str = "") -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = box.get(f"/activity_logs?per_page=1000&{query}")["activity_logs"]
    return shown


def types(box: Scenario, query: str = "") -> list[str]:
    return sorted(activity["activity_type"] for activity in activities(box, query))


def test_whatever_is_noted_is_logged_somewhere() -> None:
    assert activity_logs.LOGGED.keys() | activity_logs.PARTS.keys() | SECURED == LOGGED


def test_a_change_names_the_key_and_the_request_that_made_it(box: Scenario) -> None:
    box.request("POST", "/api/v1/coupons", json={"coupon": COUPON}, headers={"x-request-id": "from-me"})
    (activity,) = activities(box)
    (key,) = box.billing.reading(api_keys.list_live)
    assert (activity["request_id"], activity["api_key_id"], activity["activity_source"]) == ("from-me", key.id, "api")


def test_a_change_made_in_the_library_has_no_key(box: Scenario) -> None:
    box.billing.coupons.create(**COUPON)
    (activity,) = activities(box)
    assert (activity["activity_type"], activity["api_key_id"]) == ("coupon.created", None)


def test_changes_of_dunning_campaigns_are_logged(box: Scenario) -> None:
    campaign = {"name": "Late", "code": "late", "thresholds": [{"amount_cents": 100, "currency": "EUR"}]}
    box.post("/dunning_campaigns", dunning_campaign=campaign)
    box.put("/dunning_campaigns/late", dunning_campaign={"max_attempts": 3})
    box.delete("/dunning_campaigns/late")
    assert types(box) == [f"dunning_campaign.{change}" for change in ("created", "deleted", "updated")]
    (changed,) = activities(box, "activity_types[]=dunning_campaign.updated")
    assert changed["activity_object_changes"] == {"max_attempts": [1, 3]}


def test_what_is_sent_again_unchanged_is_no_activity(box: Scenario) -> None:
    box.post("/coupons", coupon=COUPON)
    box.put("/coupons/ten", coupon={"name": "Ten off"})
    assert types(box) == ["coupon.created"]


def test_a_new_price_of_a_charge_is_a_change_of_its_plan(box: Scenario) -> None:
    shown = box.plan(charge_on(box.metric("calls"), amount="0.5"))
    path = f"/plans/basic/charges/{shown['charges'][0]['code']}"
    box.put(path, charge={"charge_model": "standard", "properties": {"amount": "0.7"}})
    (activity,) = activities(box, "activity_types[]=plan.updated")
    assert activity["resource_id"] == shown["svc_id"]
    ((before,), (after,)) = activity["activity_object_changes"]["charges"]
    assert (before["properties"]["amount"], after["properties"]["amount"]) == ("0.5", "0.7")
    assert [charge["properties"]["amount"] for charge in activity["activity_object"]["charges"]] == ["0.7"]


def test_a_change_of_a_plans_entitlements_is_a_change_of_the_plan(box: Scenario) -> None:
    box.plan()
    box.plan(code="plain")
    box.post(
        "/features",
        feature={"code": "seats", "name": "Seats", "privileges": [{"code": "max", "value_type": "integer"}]},
    )
    told: list[Any] = []

    def activities() -> list[Any]:
        """The activities of the plan since the last time."""
        logged = box.get("/activity_logs?resource_types[]=Plan&activity_types[]=plan.updated&per_page=100")
        fresh = [entry for entry in logged["activity_logs"] if entry["activity_id"] not in told]
        told.extend(entry["activity_id"] for entry in fresh)
        assert {entry["activity_object"]["code"] for entry in fresh} <= {"basic"}
        return [entry["activity_object_changes"]["entitlements"] for entry in fresh]

    def shown(name: str, privilege: str | None) -> dict[str, Any]:
        value: dict[str, Any] = {"code": "max", "name": privilege, "value_type": "integer", "config": {}, "value": 6}
        value["billable_metric_code"] = None
        return {"code": "seats", "name": name, "description": None, "privileges": [value]}

    box.post("/plans/basic/entitlements", entitlements={"seats": {"max": 5}})
    assert activities() == [[[], [{"code": "seats", "privileges": {"max": "5"}}]]]
    box.ask("PATCH", "/plans/basic/entitlements", {"entitlements": {"seats": {"max": 6}}})
    assert activities() == [
        [[{"code": "seats", "privileges": {"max": "5"}}], [{"code": "seats", "privileges": {"max": "6"}}]]
    ]
    # What a plan shows of a feature is the feature's: its names.
    box.put("/features/seats", feature={"name": "Chairs"})
    assert activities() == [[[shown("Seats", None)], [shown("Chairs", None)]]]
    box.put("/features/seats", feature={"privileges": [{"code": "max", "name": "Most"}]})
    assert activities() == [[[shown("Chairs", None)], [shown("Chairs", "Most")]]]
    # A privilege that the plan has no value of is not shown by it.
    box.put("/features/seats", feature={"privileges": [{"code": "sso", "value_type": "boolean"}]})
    assert activities() == []
    box.delete("/features/seats/privileges/max")
    assert activities() == [[[{"code": "seats", "privileges": {"max": "6"}}], [{"code": "seats", "privileges": {}}]]]
    box.delete("/features/seats")
    assert activities() == [[[{"code": "seats", "privileges": {}}], []]]


def test_an_override_of_a_plan_is_logged_when_it_alone_changes(box: Scenario) -> None:
    box.customer()
    box.plan()
    box.subscribe(plan_overrides={"amount_cents": 500})
    assert types(box, "resource_types[]=Plan") == ["plan.created"]
    box.put("/subscriptions/sub", subscription={"plan_overrides": {"amount_cents": 700}})
    (activity,) = activities(box, "activity_types[]=plan.updated")
    assert activity["activity_object_changes"]["amount_cents"] == [500, 700]


def test_overdue_work_that_a_request_catches_up_on_is_the_system_s(box: Scenario) -> None:
    box.customer()
    box.plan(amount_cents=1000)
    box.subscribe()
    # Nothing ran while the month ended: the termination bills it first.
    box.jump_to("2024-06-10T00:00:00Z")
    box.delete("/subscriptions/sub")
    issued = activities(box, "activity_types[]=invoice.created")
    assert {activity["activity_source"] for activity in issued} >= {"system"}
    (ended,) = activities(box, "activity_types[]=subscription.terminated")
    assert ended["activity_source"] == "api"


def test_what_a_rolled_back_part_of_a_request_did_is_no_activity(box: Scenario) -> None:
    def half(work: Work) -> None:
        taxes.create(work, taxes.TaxInput(name="VAT", code="vat", rate=Decimal(20)))
        raise RuntimeError("half done")

    def act(work: Work) -> None:
        with pytest.raises(RuntimeError, match="half done"):
            work.tx.savepoint(lambda: half(work))
        taxes.create(work, taxes.TaxInput(name="VAT", code="other", rate=Decimal(10)))

    box.billing.writing(act)
    assert [activity["activity_object"]["code"] for activity in activities(box)] == ["other"]


def test_the_refresh_of_an_ongoing_balance_is_no_activity(box: Scenario) -> None:
    box.customer()
    box.plan(charge_on(box.metric("calls"), amount="0.5"))
    box.subscribe()
    box.post("/wallets", wallet={"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR"})
    before = types(box)
    box.event("calls", value=4)
    box.travel_to("2024-03-05T12:00:00Z")
    (wallet,) = box.get("/wallets?external_customer_id=acme")["wallets"]
    assert wallet["ongoing_usage_balance_cents"] == 200
    assert types(box) == before


def test_the_credits_that_an_invoice_takes_are_one_activity_of_each_wallet(box: Scenario) -> None:
    box.customer()
    box.plan(charge_on(box.metric("calls"), amount="1"))
    box.subscribe()
    for credits in ("3", "5"):
        fields = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": credits}
        box.post("/wallets", wallet=fields)
    box.event("calls", value=7)
    before = len(activities(box))
    box.travel_to("2024-04-01T01:00:00Z")
    new = activities(box)[:-before]
    moved = [activity for activity in new if activity["resource_type"] == "Wallet"]
    assert [activity["activity_type"] for activity in moved] == ["wallet_transaction.created"] * 2
    assert {activity["activity_object"]["transaction_status"] for activity in moved} == {"invoiced"}


def test_parts_of_a_wallet_are_changes_of_it(box: Scenario) -> None:
    box.customer()
    rule = {"trigger": "interval", "interval": "monthly", "paid_credits": "10"}
    fields = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR"}
    wallet = box.post("/wallets", wallet={**fields, "recurring_transaction_rules": [rule]})["wallet"]
    rules = [{"svc_id": wallet["recurring_transaction_rules"][0]["svc_id"], "paid_credits": "20"}]
    box.put(f"/wallets/{wallet['svc_id']}", wallet={"recurring_transaction_rules": rules})
    (activity,) = activities(box, "activity_types[]=wallet.updated")
    ((before,), (after,)) = activity["activity_object_changes"]["recurring_transaction_rules"]
    assert (before["paid_credits"], after["paid_credits"]) == ("10", "20")


def test_a_large_plan_is_logged_without_its_charges(box: Scenario) -> None:
    metric = box.metric("calls")
    for code, count in (("large", 51), ("small", 50)):
        box.plan(*(charge_on(metric, amount="1") for _ in range(count)), code=code)
    shown = {
        item["activity_object"]["code"]: item["activity_object"] for item in activities(box, "resource_types[]=Plan")
    }
    assert ("charges" in shown["large"], len(shown["small"]["charges"])) == (False, 50)


def test_nobody_signs_in_so_no_activity_has_an_email(box: Scenario) -> None:
    box.post("/coupons", coupon=COUPON)
    assert activities(box, "user_emails[]=anna@seller.example") == []


def test_what_is_no_date_is_refused(box: Scenario) -> None:
    status, body = box.request("GET", "/api/v1/activity_logs?from_date=tomorrow")
    assert (status, body["error_details"]) == (422, {"from_date": ["invalid_date"]})


def test_the_log_can_be_switched_off() -> None:
    with Scenario(now="2024-03-05T00:00:00Z", settings=Settings(activity_log_days=0)) as box:
        box.post("/coupons", coupon=COUPON)
        assert activities(box) == []


def test_lists_reach_back_as_far_as_the_installation_says() -> None:
    with Scenario(now="2024-03-05T00:00:00Z", settings=Settings(listed_log_days=None)) as box:
        box.post("/coupons", coupon=COUPON)
        box.jump_to("2024-12-05T00:00:00Z")
        assert types(box) == ["coupon.created"]


def test_whoever_reads_the_log_cannot_open_documents(box: Scenario) -> None:
    box.add_on("setup")
    box.customer()
    fees = [{"add_on_code": "setup", "units": 1}]
    invoice = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]
    path = f"/invoices/{invoice['svc_id']}"
    box.request("POST", f"/api/v1{path}/download")
    box.run_due()
    address = box.get(path)["invoice"]["file_url"]
    box.put(path, invoice={"metadata": [{"key": "po", "value": "7"}]})
    signature = address.rpartition(".")[2]
    assert len(signature) == 64
    logged = [item for item in activities(box) if item["resource_type"] == "Invoice"]
    assert any(item["activity_object"].get("file_url") == address.removesuffix(f".{signature}") for item in logged)
    assert signature not in str(logged)
