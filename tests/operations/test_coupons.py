"""Coupons and applied coupons, as a caller of the API sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.json_asserts import accepted, missing, refused
from tests.scenarios import Scenario

from usagebill.core.coupons import AppliedCoupon
from usagebill.runtime.work import Work

pytestmark = [pytest.mark.now("2024-03-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


def create(box: Scenario, code: str = "ten", **fields: object) -> Any:
    sent = {
        "name": code,
        "code": code,
        "coupon_type": "fixed_amount",
        "amount_cents": 1000,
        "amount_currency": "EUR",
        "frequency": "once",
        "expiration": "no_expiration",
        **fields,
    }
    return box.send("POST", "/coupons", {"coupon": sent})


def apply(box: Scenario, code: str = "ten", customer: str = "acme", **fields: object) -> Any:
    sent = {"external_customer_id": customer, "coupon_code": code, **fields}
    return box.send("POST", "/applied_coupons", {"applied_coupon": sent})


def applied(box: Scenario, **fields: Any) -> Any:
    return accepted(apply(box, **fields), "applied_coupon")


def listed(box: Scenario, query: str = "") -> list[Any]:
    shown: list[Any] = box.get(f"/applied_coupons{query}")["applied_coupons"]
    return shown


def test_a_coupon_is_shown_as_it_was_created(box: Scenario) -> None:
    coupon = accepted(create(box, description="Ten off", frequency="recurring", frequency_duration=3), "coupon")
    assert coupon["frequency_duration"] == 3
    assert (coupon["reusable"], coupon["limited_plans"], coupon["plan_codes"]) == (True, False, [])
    assert box.get("/coupons/ten")["coupon"] == coupon
    assert missing(box.send("GET", "/coupons/eleven")) == "coupon"


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"name": None}, {"name": ["value_is_mandatory"]}),
        ({"code": "", "name": "x"}, {"code": ["value_is_mandatory"]}),
        ({"coupon_type": "gift"}, {"coupon_type": ["value_is_invalid"]}),
        ({"frequency": "never"}, {"frequency": ["value_is_invalid"]}),
        ({"expiration": None}, {"expiration": ["value_is_invalid"]}),
        ({"amount_cents": None}, {"amount_cents": ["value_is_mandatory"]}),
        ({"amount_cents": 0}, {"amount_cents": ["value_is_out_of_range"]}),
        ({"amount_currency": "XXX"}, {"amount_currency": ["value_is_invalid"]}),
        ({"coupon_type": "percentage"}, {"percentage_rate": ["value_is_mandatory"]}),
        ({"frequency": "recurring"}, {"frequency_duration": ["value_is_mandatory", "is not a number"]}),
        ({"frequency": "recurring", "frequency_duration": 0}, {"frequency_duration": ["value_is_out_of_range"]}),
        ({"reusable": None}, {"reusable": ["value_is_reserved"]}),
        ({"expiration_at": "soon"}, {"expiration_at": ["invalid_date"]}),
        ({"expiration_at": "2024-02-29T00:00:00Z"}, {"expiration_at": ["invalid_date"]}),
    ],
)
def test_what_a_coupon_may_not_be(box: Scenario, fields: dict[str, Any], details: dict[str, Any]) -> None:
    assert refused(create(box, **fields)) == details


def test_a_code_is_free_again_once_its_coupon_is_deleted(box: Scenario) -> None:
    create(box)
    assert refused(create(box)) == {"code": ["value_already_exist"]}
    box.delete("/coupons/ten")
    accepted(create(box), "coupon")


def test_a_coupon_is_limited_to_plans_or_to_metrics(box: Scenario) -> None:
    box.plan(amount_cents=10_000)
    box.metric("calls", "count_agg")
    both = {"plan_codes": ["basic"], "billable_metric_codes": ["calls"]}
    status, body = create(box, applies_to=both)
    assert (status, body["code"]) == (405, "only_one_limitation_type_per_coupon_allowed")
    assert missing(create(box, applies_to={"plan_codes": ["basic", "none"]})) == "plans"
    assert missing(create(box, applies_to={"billable_metric_codes": ["none"]})) == "billable_metrics"
    coupon = accepted(create(box, applies_to={"plan_codes": ["basic", None, "basic"]}), "coupon")
    assert (coupon["limited_plans"], coupon["plan_codes"]) == (True, ["basic"])
    change = {"coupon": {"applies_to": {"billable_metric_codes": ["calls"]}}}
    coupon = box.ask("PUT", "/coupons/ten", change)["coupon"]
    assert (coupon["plan_codes"], coupon["billable_metric_codes"]) == ([], ["calls"])
    coupon = box.put("/coupons/ten", coupon={"name": "New"})["coupon"]
    assert (coupon["name"], coupon["limited_billable_metrics"]) == ("New", True)


def test_once_applied_only_name_description_and_expiration_change(box: Scenario) -> None:
    create(box)
    change = {"coupon": {"name": "New", "amount_cents": 5, "code": "other", "frequency": "forever"}}
    assert box.put("/coupons/ten", coupon={"amount_cents": 2000})["coupon"]["amount_cents"] == 2000
    applied(box)
    coupon = box.ask("PUT", "/coupons/ten", change)["coupon"]
    assert (coupon["name"], coupon["amount_cents"], coupon["code"], coupon["frequency"]) == ("New", 2000, "ten", "once")


def test_coupons_are_listed_active_ones_first(box: Scenario) -> None:
    create(box, "late", expiration="time_limit", expiration_at="2024-05-01T00:00:00Z")
    create(box, "soon", expiration="time_limit", expiration_at="2024-03-01T10:00:00Z")
    create(box, "never")
    codes = [coupon["code"] for coupon in box.get("/coupons")["coupons"]]
    assert codes == ["never", "soon", "late"]
    box.travel_to("2024-03-01T10:30:00Z")
    codes = [coupon["code"] for coupon in box.get("/coupons")["coupons"]]
    assert codes == ["never", "late", "soon"]


def test_an_expired_coupon_stays_with_those_who_have_it(box: Scenario) -> None:
    create(box, expiration="time_limit", expiration_at="2024-03-01T10:00:00Z")
    applied(box)
    box.travel_to("2024-03-01T10:30:00Z")
    assert box.get("/coupons/ten")["coupon"]["terminated_at"] == "2024-03-01T10:30:00Z"
    assert [(applied_coupon["status"], applied_coupon["coupon_status"]) for applied_coupon in listed(box)] == [
        ("active", "terminated")
    ]
    assert missing(apply(box)) == "coupon"


def test_an_expiration_put_off_is_not_missed(box: Scenario) -> None:
    create(box, expiration="time_limit", expiration_at="2024-03-01T10:00:00Z")
    box.put("/coupons/ten", coupon={"expiration_at": "2024-04-01T10:00:00Z"})
    box.travel_to("2024-03-20T00:00:00Z")
    assert box.get("/coupons/ten")["coupon"]["terminated_at"] is None
    box.travel_to("2024-04-02T00:00:00Z")
    assert box.get("/coupons/ten")["coupon"]["terminated_at"] == "2024-04-01T10:30:00Z"


def test_deleting_a_coupon_ends_it_for_everyone(box: Scenario) -> None:
    create(box)
    applied(box)
    box.delete("/coupons/ten")
    (applied_coupon,) = listed(box, "?coupon_code[]=ten")
    assert applied_coupon["status"] == "terminated"
    assert applied_coupon["coupon_deleted_at"] is not None


def test_an_applied_coupon_has_the_coupons_values_by_default(box: Scenario) -> None:
    create(box)
    applied_coupon = applied(box)
    assert (
        applied_coupon["amount_cents"],
        applied_coupon["amount_cents_remaining"],
        applied_coupon["amount_currency"],
    ) == (1000, 1000, "EUR")
    assert box.get("/customers/acme")["customer"]["currency"] == "EUR"
    applied_coupon = applied(box, amount_cents=0, frequency="recurring", frequency_duration=2)
    assert (applied_coupon["amount_cents"], applied_coupon["amount_cents_remaining"]) == (0, None)
    assert (applied_coupon["frequency"], applied_coupon["frequency_duration_remaining"]) == ("recurring", 2)
    assert refused(apply(box, amount_cents=-1)) == {"amount_cents": ["value_is_out_of_range"]}
    assert refused(apply(box, amount_currency="X")) == {"amount_currency": ["value_is_invalid"]}
    assert refused(apply(box, frequency="daily")) == {"frequency": ["value_is_invalid"]}
    none = ["value_is_mandatory", "is not a number"]
    assert refused(apply(box, frequency="recurring")) == {
        "frequency_duration": none,
        "frequency_duration_remaining": none,
    }


def test_who_and_what_must_exist(box: Scenario) -> None:
    create(box)
    assert missing(apply(box, customer="nobody")) == "customer"
    assert missing(apply(box, code="none")) == "coupon"


def test_a_coupon_that_is_not_reusable_is_given_once(box: Scenario) -> None:
    create(box, reusable=False)
    applied_coupon = applied(box)
    box.delete(f"/customers/acme/applied_coupons/{applied_coupon['svc_id']}")
    assert refused(apply(box)) == {"coupon": ["coupon_is_not_reusable"]}


def test_limited_coupons_do_not_overlap(box: Scenario) -> None:
    box.plan(amount_cents=10_000)
    create(box, "plan", applies_to={"plan_codes": ["basic"]})
    create(box, "free")
    applied(box, code="plan")
    status, body = apply(box, code="plan")
    assert (status, body["code"]) == (405, "plan_overlapping")
    applied(box, code="free")
    applied(box, code="free")


def test_applied_coupons_are_listed_and_ended(box: Scenario) -> None:
    create(box)
    applied_coupon = applied(box)
    path = f"/customers/acme/applied_coupons/{applied_coupon['svc_id']}"
    assert [
        listed_coupon["svc_id"] for listed_coupon in box.get("/customers/acme/applied_coupons")["applied_coupons"]
    ] == [applied_coupon["svc_id"]]
    assert listed(box, "?status=terminated") == []
    assert len(listed(box, "?status=nonsense")) == 1
    assert listed(box, "?external_customer_id=nobody") == []
    assert listed(box, "?coupon_code[]=other") == []
    ended = box.delete(path)["applied_coupon"]
    assert ended["status"] == "terminated"
    box.jump_to("2024-03-02T00:00:00Z")
    assert box.delete(path)["applied_coupon"]["terminated_at"] == "2024-03-01T00:00:00Z"
    assert missing(box.send("DELETE", "/customers/acme/applied_coupons/none")) == "applied_coupon"
    assert missing(box.send("DELETE", "/customers/nobody/applied_coupons/none")) == "customer"


def test_the_coupon_of_another_customer_is_out_of_reach(box: Scenario) -> None:
    create(box)
    box.customer("globex")
    applied_coupon = applied(box)
    path = f"/api/v1/customers/globex/applied_coupons/{applied_coupon['svc_id']}"
    assert missing(box.request("DELETE", path)) == "applied_coupon"
    assert [shown["status"] for shown in listed(box)] == ["active"]
    assert missing(box.send("GET", "/customers/nobody/applied_coupons")) == "customer"


def test_a_coupon_is_used_bit_by_bit_over_several_invoices(box: Scenario) -> None:
    create(box, amount_cents=25_000)
    applied(box)
    box.plan(amount_cents=10_000, pay_in_advance=True)
    box.subscribe()
    box.travel_to("2024-06-02T00:00:00Z")
    totals = [(invoice["coupons_amount_cents"], invoice["total_amount_cents"]) for invoice in box.invoices()]
    left = 25_000 - 2 * 10_000
    assert totals == [(10_000, 0), (10_000, 0), (left, 10_000 - left), (0, 10_000)]
    (applied_coupon,) = listed(box)
    assert (applied_coupon["status"], applied_coupon["amount_cents_remaining"]) == ("terminated", 0)
    assert [credit["amount_cents"] for credit in applied_coupon["credits"]] == [10_000, 10_000, left]
    assert applied_coupon["credits"][0]["item"]["type"] == "coupon"


def test_a_coupon_of_another_currency_waits(box: Scenario) -> None:
    create(box, frequency="recurring", frequency_duration=1)
    applied(box)

    def to_dollars(work: Work) -> None:
        (coupon,) = work.tx.find(AppliedCoupon)
        work.tx.replace(replace(coupon, amount_currency="USD"))

    # Customers had coupons of several currencies when earlier versions wrote their files.
    box.billing.writing(to_dollars)
    box.plan(amount_cents=10_000, pay_in_advance=True)
    box.subscribe()
    assert box.invoices()[0]["coupons_amount_cents"] == 0
    assert listed(box)[0]["frequency_duration_remaining"] == 1
