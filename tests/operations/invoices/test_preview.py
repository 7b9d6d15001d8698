"""Previews: the invoice that would come, and that nothing of it stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st
from tests.examples import examples
from tests.money import gross, percent, share
from tests.scenarios import Scenario, charge_on

pytestmark = [pytest.mark.now("2024-03-30T00:00:00Z"), pytest.mark.usefixtures("acme")]


def preview(box: Scenario, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = box.post("/invoices/preview", **{"customer": {"external_id": "acme"}, **body})["invoice"]
    return answer


def amounts(invoice: dict[str, Any]) -> tuple[int, int, int, str]:
    return (
        invoice["fees_amount_cents"],
        invoice["taxes_amount_cents"],
        invoice["total_amount_cents"],
        invoice["issuing_date"],
    )


def refused(box: Scenario, **body: Any) -> tuple[int, Any]:
    status, answer = box.send("POST", "/invoices/preview", {"customer": {"external_id": "acme"}, **body})
    return status, answer.get("error_details") or answer.get("code") or answer["error"]


def test_a_new_purchase_in_arrears_is_billed_when_its_first_period_ends(box: Scenario) -> None:
    box.tax(50)
    box.plan(amount_cents=100)
    assert amounts(preview(box, plan_code="basic")) == (share(100, 2, 31), percent(6, 50), gross(6, 50), "2024-04-01")
    assert amounts(preview(box, plan_code="basic", billing_time="anniversary")) == (
        100,
        percent(100, 50),
        gross(100, 50),
        "2024-04-30",
    )


def test_a_new_purchase_in_advance_is_billed_at_its_start(box: Scenario) -> None:
    box.tax(50)
    box.plan(amount_cents=100, pay_in_advance=True)
    box.customer(billing_configuration={"invoice_grace_period": 2})
    invoice = preview(box, plan_code="basic", subscription_at="2024-03-31T00:00:00Z")
    assert amounts(invoice) == (share(100, 1, 31), percent(3, 50), gross(3, 50), "2024-04-02")
    assert (invoice["status"], invoice["number"]) == ("finalized", "")
    assert {fee["svc_invoice_id"] for fee in invoice["fees"]} == {invoice["svc_id"]}
    assert box.ask("GET", f"/invoices/{invoice['svc_id']}", status=404)["code"] == "invoice_not_found"


def test_nothing_of_a_preview_stays(box: Scenario) -> None:
    box.plan(amount_cents=100, pay_in_advance=True)
    messages = len(box.webhooks)
    preview(box, plan_code="basic", customer={"name": "Nobody", "currency": "EUR"})
    assert [customer["external_id"] for customer in box.get("/customers")["customers"]] == ["acme"]
    assert box.get("/subscriptions")["subscriptions"] == []
    assert box.get("/invoices")["invoices"] == []
    assert len(box.webhooks) == messages
    box.subscribe()
    assert box.get("/invoices")["invoices"][0]["number"].endswith("-001-001")


def test_fields_of_the_customer_count_for_the_preview_only(box: Scenario) -> None:
    box.plan(amount_cents=100)
    shown = preview(box, plan_code="basic", customer={"external_id": "acme", "name": "Other", "timezone": "Asia/Tokyo"})
    assert shown["customer"]["name"] == "Other"
    assert box.get("/customers/acme")["customer"]["name"] is None


def test_a_fixed_coupon_takes_off_its_amount_whatever_rate_it_was_sent(box: Scenario) -> None:
    box.tax(50)
    box.plan(amount_cents=100)
    coupon = {"code": "two", "name": "Two", "coupon_type": "fixed_amount", "amount_cents": 2, "amount_currency": "EUR"}
    invoice = preview(box, plan_code="basic", coupons=[{**coupon, "percentage_rate": "100"}])
    assert (invoice["coupons_amount_cents"], invoice["total_amount_cents"]) == (2, 6)


def test_coupons_are_taken_off(box: Scenario) -> None:
    box.tax(50)
    box.plan(amount_cents=100)
    coupon = {"code": "two", "name": "Two", "coupon_type": "fixed_amount", "amount_cents": 2, "amount_currency": "EUR"}
    invoice = preview(box, plan_code="basic", coupons=[coupon])
    assert (invoice["coupons_amount_cents"], invoice["total_amount_cents"]) == (2, 6)
    assert box.get("/coupons")["coupons"] == []


def test_the_next_invoice_holds_the_usage_so_far(box: Scenario) -> None:
    box.tax(50)
    charge = charge_on(box.metric("calls", "count_agg"), amount="12.66")
    box.plan(charge, amount_cents=100)
    box.subscribe()
    for _ in range(2):
        box.event("calls")
    assert amounts(preview(box, subscriptions={"external_ids": ["sub"]})) == (
        6 + 2 * 1266,
        percent(6 + 2 * 1266, 50),
        gross(6 + 2 * 1266, 50),
        "2024-04-01",
    )
    ended = preview(box, subscriptions={"external_ids": ["sub"], "terminated_at": "2024-03-30T12:00:00Z"})
    assert amounts(ended) == (3 + 2 * 1266, percent(3 + 2 * 1266, 50), gross(3 + 2 * 1266, 50), "2024-03-30")


def test_what_is_refused(box: Scenario) -> None:
    box.plan(amount_cents=100)
    box.plan(code="dollars", amount_cents=100, amount_currency="USD")
    box.subscribe()
    box.subscribe(external_id="other")
    selection = {"external_ids": ["sub"]}
    both = {"external_ids": ["sub", "other"]}
    cases: list[tuple[dict[str, Any], tuple[int, Any]]] = [
        ({"coupons": "x"}, (400, "coupons_must_be_an_array")),
        ({"subscriptions": "x"}, (400, "subscriptions_must_be_an_object")),
        ({"customer": {"external_id": "none"}}, (404, "customer_not_found")),
        ({"customer": {"name": "x"}, "subscriptions": selection}, (422, {"customer": ["must_be_persisted"]})),
        (
            {"customer": {"name": "x"}, "plan_code": "basic", "billing_entity_code": "x"},
            (404, "billing_entity_not_found"),
        ),
        ({"plan_code": "basic", "billing_entity_code": "x"}, (404, "billing_entity_not_found")),
        ({"plan_code": "none"}, (404, "plan_not_found")),
        ({"subscriptions": {"external_ids": ["none"]}}, (404, "subscription_not_found")),
        ({"subscriptions": {**selection, "terminated_at": "soon"}}, (422, {"terminated_at": ["invalid_timestamp"]})),
        (
            {"subscriptions": {**selection, "terminated_at": "2024-03-01T00:00:00Z"}},
            (422, {"terminated_at": ["cannot_be_in_past"]}),
        ),
        (
            {"subscriptions": {**selection, "terminated_at": "9999-12-31T00:00:00Z"}},
            (422, {"terminated_at": ["value_is_out_of_range"]}),
        ),
        (
            {"plan_code": "basic", "subscription_at": "9999-12-31T00:00:00Z"},
            (422, {"subscription_at": ["value_is_out_of_range"]}),
        ),
        (
            {"subscriptions": {**both, "terminated_at": "2024-04-01T00:00:00Z"}},
            (422, {"subscriptions": ["only_one_subscription_allowed_for_termination"]}),
        ),
        (
            {"subscriptions": {**both, "plan_code": "dollars"}},
            (422, {"subscriptions": ["only_one_subscription_allowed_for_plan_change"]}),
        ),
        (
            {"subscriptions": {**selection, "plan_code": "basic"}},
            (422, {"base": ["new_plan_should_be_different_from_existing_plan"]}),
        ),
        (
            {"subscriptions": {**selection, "plan_code": "dollars"}},
            (422, {"base": ["subscription_currencies_does_not_match"]}),
        ),
    ]
    for body, expected in cases:
        assert refused(box, **body) == expected, body


_TOTALS = (
    "invoice_type",
    "currency",
    "fees_amount_cents",
    "coupons_amount_cents",
    "sub_total_excluding_taxes_amount_cents",
    "taxes_amount_cents",
    "sub_total_including_taxes_amount_cents",
    "credit_notes_amount_cents",
    "total_amount_cents",
    "payment_status",
)
_DATES = ("issuing_date", "payment_due_date")
_FEE = (
    "amount_cents",
    "precise_amount",
    "units",
    "events_count",
    "from_date",
    "to_date",
    "taxes_amount_cents",
    "precise_coupons_amount_cents",
    "amount_details",
)


@pytest.mark.now("2024-01-01T00:00:00Z")
@pytest.mark.parametrize(
    ("asked", "advance", "shown"),
    [
        # One day of the year's 100.00 was shown, 0.27, and after the year the whole of it once more.
        ("2024-06-20T10:00:00Z", False, (0, "2024-07-01")),
        ("2025-02-20T10:00:00Z", False, (0, "2025-03-01")),
        ("2024-06-20T10:00:00Z", True, (0, "2024-07-01")),
        # The run that ends the year applies it: the old plan in arrears, or the new one in advance.
        ("2024-12-20T10:00:00Z", False, (10_000, "2025-01-01")),
        ("2024-12-20T10:00:00Z", True, (5_000, "2025-01-01")),
    ],
)
def test_a_planned_downgrade_of_a_year_is_in_the_preview_of_the_run_that_applies_it_alone(
    box: Scenario, asked: str, advance: bool, shown: tuple[int, str]
) -> None:
    for code, amount in (("basic", 10_000), ("small", 5_000)):
        usage = charge_on(box.metric(f"gb of {code}"), amount="2")
        yearly = {"interval": "yearly", "bill_charges_monthly": True, "pay_in_advance": advance}
        box.plan(usage, code=code, amount_cents=amount, **yearly)
    box.subscribe()
    box.travel_to(asked)
    box.subscribe("small")
    known = {invoice["svc_id"] for invoice in box.get("/invoices")["invoices"]}
    expected = preview(box, subscriptions={"external_ids": ["sub"]})
    assert (expected["fees_amount_cents"], expected["issuing_date"]) == shown
    assert billed(next_invoice(box, known), dated=True) == billed(expected, dated=True)


def billed(invoice: Any, *, dated: bool) -> dict[str, Any]:
    """What an invoice asks for, without the ids by which it, or its preview, is known."""
    return {
        **{name: invoice[name] for name in _TOTALS + (_DATES if dated else ())},
        "fees": [(fee["item"]["code"], *(fee.get(name) for name in _FEE)) for fee in invoice["fees"]],
        "taxes": [
            (line["tax_code"], line["amount_cents"], line["fees_amount_cents"]) for line in invoice["applied_taxes"]
        ],
        "credits": [(line["item"]["type"], line["amount_cents"]) for line in invoice["credits"]],
    }


def next_invoice(box: Scenario, known: set[str]) -> Any:
    """The next invoice that is made, once it is issued."""
    box = box

    def made() -> list[Any]:
        return [invoice for invoice in box.get("/invoices")["invoices"] if invoice["svc_id"] not in known]

    def go_on() -> None:
        due = box.billing.next_due()
        assert due is not None
        box.travel_to(due)

    while not made():
        go_on()
    id = made()[0]["svc_id"]
    while (invoice := box.invoice(id))["status"] == "draft":
        go_on()
    return invoice


@pytest.mark.slow
@examples(50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    act=st.sampled_from(["purchase", "run", "end", "upgrade", "downgrade"]),
    interval=st.sampled_from(["weekly", "monthly", "quarterly", "semiannual", "yearly"]),
    billing_time=st.sampled_from(["calendar", "anniversary"]),
    pay_in_advance=st.booleans(),
    next_in_advance=st.booleans(),
    amount_cents=st.integers(60, 100_000),
    timezone=st.sampled_from(["UTC", "America/New_York", "Asia/Tokyo"]),
    grace=st.sampled_from([0, 0, 3]),
    trial=st.sampled_from([0, 0, 10]),
    values=st.lists(st.integers(0, 50), max_size=4),
    minimum=st.sampled_from([0, 5000]),
    committed=st.sampled_from([0, 30_000]),
    discount=st.booleans(),
    days=st.integers(1, 40),
)
def test_a_preview_equals_the_invoice_that_then_comes(
    act: str,
    interval: str,
    billing_time: str,
    pay_in_advance: bool,
    next_in_advance: bool,
    amount_cents: int,
    timezone: str,
    grace: int,
    trial: int,
    values: list[int],
    minimum: int,
    committed: int,
    discount: bool,
    days: int,
) -> None:
    with Scenario(now="2024-02-14T15:00:00Z") as box:
        box.customer(timezone=timezone, billing_configuration={"invoice_grace_period": grace})
        box.tax(20)
        if discount:
            coupon = {"name": "Ten", "code": "ten", "coupon_type": "percentage", "percentage_rate": "10"}
            box.post("/coupons", coupon={**coupon, "frequency": "forever", "expiration": "no_expiration"})
            box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "ten"})
        box.add_on("seat", 100)
        charge = charge_on(box.metric("gb"), amount="1.234", min_amount_cents=minimum)
        fixed = {"add_on_code": "seat", "charge_model": "standard", "units": 3, "prorated": True}
        fields: dict[str, Any] = {
            "interval": interval,
            "trial_period": trial,
            "fixed_charges": [{**fixed, "properties": {"amount": "7"}}],
            **({"minimum_commitment": {"amount_cents": committed}} if committed else {}),
        }
        box.plan(charge, amount_cents=amount_cents, pay_in_advance=pay_in_advance, **fields)
        changed = amount_cents * 2 if act == "upgrade" else amount_cents // 2
        box.plan(charge, code="other", amount_cents=changed, pay_in_advance=next_in_advance, **fields)
        if act == "purchase":
            expected = preview(box, plan_code="basic", billing_time=billing_time)
            box.subscribe(billing_time=billing_time)
            assert billed(next_invoice(box, set()), dated=not grace) == billed(expected, dated=not grace)
            return
        box.subscribe(billing_time=billing_time)
        box.travel_to(box.now + timedelta(days=days, hours=18))
        for value in values:
            box.event("gb", value=value)
        known = {invoice["svc_id"] for invoice in box.get("/invoices")["invoices"]}
        subscriptions: dict[str, Any] = {"external_ids": ["sub"]}
        if act == "end":
            subscriptions["terminated_at"] = box.now.isoformat()
        elif act != "run":
            subscriptions["plan_code"] = "other"
        expected = preview(box, subscriptions=subscriptions)
        if act == "end":
            box.delete("/subscriptions/sub")
        elif act != "run":
            box.subscribe("other")
        real = next_invoice(box, known)
        assert billed(real, dated=not grace) == billed(expected, dated=not grace)


def test_an_upgrade_credits_the_unused_days(box: Scenario) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.plan(code="large", amount_cents=6200, pay_in_advance=True)
    box.subscribe()
    invoice = preview(box, subscriptions={"external_ids": ["sub"], "plan_code": "large"})
    assert invoice["fees_amount_cents"] == share(6200, 2, 31)
    credited = share(3100, 2, 31)
    assert (invoice["credit_notes_amount_cents"], invoice["total_amount_cents"]) == (
        credited,
        share(6200, 2, 31) - credited,
    )
    assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "basic"


@pytest.mark.parametrize("customer", [{"external_id": "acme"}, {"external_id": "acme", "name": "Acme"}])
@pytest.mark.parametrize("ends", [False, True])
def test_what_a_threshold_will_bill_ahead_is_deducted(box: Scenario, customer: dict[str, Any], ends: bool) -> None:
    """Thresholds that are set at 00:01 are checked at 00:05."""
    box.plan(charge_on(box.metric("gb"), amount="1"), amount_cents=3100)
    box.subscribe()
    box.event("gb", value=10)
    box.travel_to("2024-03-30T00:01:00Z")
    box.put("/plans/basic", plan={"usage_thresholds": [{"amount_cents": 500}]})
    terms = {"terminated_at": "2024-03-31T12:00:00Z"} if ends else {}
    foreseen = preview(box, customer=customer, subscriptions={"external_ids": ["sub"], **terms})
    if ends:
        box.travel_to("2024-03-31T12:00:00Z")
        box.unsubscribe()
    box.travel_to("2024-04-01T01:00:00Z")
    ahead, billed = box.invoices()
    assert (ahead["invoice_type"], ahead["total_amount_cents"]) == ("progressive_billing", 1000)
    assert billed["progressive_billing_credit_amount_cents"] == 1000
    assert amounts(foreseen) == amounts(billed)


@pytest.mark.now("2025-06-15T00:00:00Z")
@pytest.mark.parametrize("terms", [{}, {"plan_code": "less"}, {"terminated_at": "2025-07-01T00:00:00Z"}])
def test_the_vat_rate_of_the_day_of_the_invoice_is_shown(box: Scenario, terms: dict[str, str]) -> None:
    """Estonia's rate rises from 22 % to 24 % on 1 July 2025; the invoice of others is no part of the preview."""
    box.put("/billing_entities/default", billing_entity={"country": "EE", "eu_tax_management": True})
    for customer in ("acme", "other"):
        box.customer(customer, country="EE")
    box.plan(amount_cents=10_000)
    box.plan(code="less", amount_cents=100)
    for customer, name in (("acme", "sub"), ("other", "theirs")):
        box.subscribe(external_id=name, customer=customer)
    shown = preview(box, subscriptions={"external_ids": ["sub"], **terms})
    assert [(tax["tax_code"], tax["tax_rate"]) for tax in shown["applied_taxes"]] == [("svc_eu_ee_standard", 24.0)]
    box.travel_to("2025-07-01T03:00:00Z")
    billed = next(one for one in box.invoices() if one["customer"]["external_id"] == "acme")
    if "terminated_at" not in terms:
        assert (billed["total_amount_cents"], billed["taxes_amount_cents"]) == amounts(shown)[2:0:-1]
    assert billed["applied_taxes"][0]["tax_rate"] == 24.0


@pytest.mark.now("2025-06-15T00:00:00Z")
def test_a_coupon_that_expires_before_the_invoice_stays_with_who_has_it(box: Scenario) -> None:
    box.plan(amount_cents=10_000)
    box.coupon(500, frequency="forever", expiration="time_limit", expiration_at="2025-06-20T00:00:00Z")
    box.subscribe()
    shown = preview(box, subscriptions={"external_ids": ["sub"]})
    box.travel_to("2025-07-01T03:00:00Z")
    assert amounts(box.invoices()[0]) == amounts(shown)
