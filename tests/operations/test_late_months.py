"""A month whose run or finalization is overdue costs what it costs on time, whatever changed after its due instant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.payment_provider import PRESENT, UnsteadyProvider, connect
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, filter_on

from usagebill.fields import EventFields

IN_JANUARY = "2024-01-20T12:00:00Z"
# After the run of 1 February, 00:10, and after the finalization of 4 February.
IN_FEBRUARY = "2024-02-05T12:00:00Z"
END_OF_JANUARY = datetime(2024, 1, 31, 12, tzinfo=UTC).timestamp()
Change = Callable[[Scenario], object]


def come_back(box: Scenario, *, late: bool) -> None:
    """The workers were down since January (`late`), or never."""
    if late:
        box.jump_to(IN_FEBRUARY)
    else:
        box.travel_to(IN_FEBRUARY)


def of_january(box: Scenario) -> Any:
    """The total of the invoice for January."""
    box.run_due()
    return next(
        invoice["total_amount_cents"]
        for invoice in box.invoices()
        if invoice["invoice_type"] == "subscription" and invoice["created_at"] < "2024-02-01T00:11"
    )


def applied(box: Scenario) -> Any:
    return box.get("/applied_coupons?external_customer_id=acme")["applied_coupons"][0]


def credit(box: Scenario) -> Any:
    """Give 12.00 of the one-off invoice back."""
    (invoice,) = [invoice for invoice in box.invoices() if invoice["invoice_type"] == "one_off"]
    note = {"invoice_id": invoice["svc_id"], "reason": "other", "credit_amount_cents": 1200}
    items = [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 1000}]
    return box.post("/credit_notes", credit_note={**note, "items": items})


def pay_top_up(box: Scenario) -> Any:
    """Pay the invoice over 10.00 of credits."""
    (invoice,) = [invoice for invoice in box.invoices() if invoice["invoice_type"] == "credit"]
    return box.post(
        "/payments", payment={"invoice_id": invoice["svc_id"], "amount_cents": 1000, "reference": "transfer"}
    )


HALF = {"name": "half", "code": "half", "coupon_type": "percentage", "percentage_rate": "50", "frequency": "forever"}
# What is changed, whether a coupon of 50 % is held, and January: 31.00 and 20 % of it, with the coupon 15.50 and 20 %.
CHANGES: dict[str, tuple[Change, bool, int]] = {
    "coupon applied": (
        lambda box: box.post(
            "/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "half"}
        ),
        False,
        3720,
    ),
    "coupon removed": (
        lambda box: box.delete(f"/customers/acme/applied_coupons/{applied(box)['svc_id']}"),
        True,
        1860,
    ),
    "coupon deleted": (lambda box: box.delete("/coupons/half"), True, 1860),
    "tax rate changed": (lambda box: box.put("/taxes/vat", tax={"rate": 25}), False, 3720),
    "tax deleted": (lambda box: box.delete("/taxes/vat"), False, 3720),
    "credit note created": (credit, False, 3720),
    "top-up paid": (pay_top_up, False, 3720),
}


@pytest.mark.parametrize("late", [False, True], ids=["on time", "late"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_after_the_due_instant_leaves_the_month_as_it_was(change: str, late: bool) -> None:
    act, has_coupon, expected = CHANGES[change]
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.tax(20)
        box.customer()
        box.plan(amount_cents=3100)
        box.subscribe()
        box.post("/coupons", coupon={**HALF, "expiration": "no_expiration"})
        box.add_on("setup", 1000)
        box.travel_to(IN_JANUARY)
        one_off = {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup", "units": 2}]}
        box.post("/invoices", invoice=one_off)
        wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "paid_credits": "10"}
        box.post("/wallets", wallet=wallet)
        if has_coupon:
            box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "half"})
        come_back(box, late=late)
        act(box)
        assert of_january(box) == expected


def move_to_samoa(box: Scenario) -> None:
    """February began 13 hours earlier in Apia than in London."""
    box.entity(timezone="Pacific/Apia")


EDITS: dict[str, Change] = {
    "filters removed": lambda box: box.put("/billable_metrics/calls", billable_metric={"filters": []}),
    "metric deleted": lambda box: box.delete("/billable_metrics/calls"),
    "tax rate changed": lambda box: box.put("/taxes/vat", tax={"rate": 20}),
    "tax deleted": lambda box: box.delete("/taxes/vat"),
    "coupon applied": lambda box: box.post(
        "/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "half"}
    ),
    "time zone of the seller": move_to_samoa,
    "plan repriced": lambda box: box.put("/plans/basic", plan={"amount_cents": 9900, "charges": []}),
    "plan deleted": lambda box: box.delete("/plans/basic"),
}


@pytest.mark.parametrize("late", [False, True], ids=["on time", "late"])
@pytest.mark.parametrize("grace", [0, 3], ids=["run overdue", "finalization overdue"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_what_a_bill_is_made_of_leaves_the_overdue_one(edit: str, grace: int, late: bool) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.tax(10)
        box.customer(billing_configuration={"invoice_grace_period": grace})
        calls = box.metric("calls", filters=[{"key": "region", "values": ["eu"]}])
        box.plan(charge_on(calls, amount="1", filters=[filter_on({"region": ["eu"]}, amount="2")]), amount_cents=700)
        box.subscribe()
        box.post("/coupons", coupon={**HALF, "expiration": "no_expiration"})
        box.travel_to(IN_JANUARY)
        box.event("calls", region="eu", value=5)
        if grace:
            box.travel_to("2024-02-02T12:00:00Z")
        come_back(box, late=late)
        EDITS[edit](box)
        # 7.00, 5 calls in the EU at 2.00, and 10 %.
        assert of_january(box) == 1870


@pytest.mark.parametrize("late", [False, True], ids=["on time", "late"])
def test_an_overdue_draft_that_is_finalized_takes_no_event_received_after_its_day(late: bool) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": 3})
        box.plan(charge_on(box.metric("calls"), amount="1"), amount_cents=0)
        box.subscribe()
        box.travel_to(IN_JANUARY)
        box.event("calls", value=7)
        box.travel_to("2024-02-02T12:00:00Z")
        (draft,) = box.invoices()
        come_back(box, late=late)
        box.events("calls", {"at": END_OF_JANUARY, "value": 100})
        status, _ = box.send("PUT", f"/invoices/{draft['svc_id']}/finalize")
        # On time it was finalized on its day, and there is no draft any more.
        assert status == (200 if late else 404)
        assert of_january(box) == 700


@pytest.mark.parametrize("late", [False, True], ids=["on time", "late"])
def test_an_event_paid_in_advance_takes_nothing_that_an_overdue_run_takes_first(late: bool) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        box.plan(charge_in_advance_on(box.metric("seats"), amount="1", invoiceable=True), amount_cents=3100)
        box.subscribe()
        box.travel_to(IN_JANUARY)
        box.coupon(1000)
        come_back(box, late=late)
        box.event("seats", value=32)
        box.run_due()
        run, event = box.invoices()
        assert (run["created_at"][:10], run["total_amount_cents"]) == ("2024-02-01", 2100)
        assert (event["created_at"][:10], event["total_amount_cents"]) == ("2024-02-05", 3200)


@pytest.mark.parametrize("late", [False, True], ids=["on time", "late"])
@pytest.mark.parametrize("means", ["paid in advance", "threshold"])
def test_a_command_bills_events_received_before_an_overdue_run_before_it(means: str, late: bool) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("seats")
        if means == "threshold":
            box.plan(charge_on(metric, amount="1"), usage_thresholds=[{"amount_cents": 1000}], amount_cents=3100)
        else:
            box.plan(charge_in_advance_on(metric, amount="1", invoiceable=True), amount_cents=3100)
        box.subscribe()
        box.travel_to(IN_JANUARY)
        box.coupon(1000)
        seats: EventFields = {"transaction_id": "seats", "external_subscription_id": "sub", "code": "seats"}
        box._busy = late  # Events are received, and nobody works on them.
        box.billing.events.ingest([{**seats, "properties": {"value": 32}}])
        box._busy = False
        come_back(box, late=late)
        box.billing.customers.upsert(external_id="acme", name="Acme")
        box.run_due()
        event, run = box.invoices()
        assert (event["created_at"][:10], event["total_amount_cents"]) == ("2024-01-20", 2200)
        assert (run["created_at"][:10], run["total_amount_cents"]) == ("2024-02-01", 3100)


@pytest.mark.parametrize("late", [False, True], ids=["on time", "late"])
def test_credits_that_a_provider_says_are_paid_do_not_pay_the_month_before(late: bool) -> None:
    provider = UnsteadyProvider()
    with Scenario(now="2024-01-01T00:00:00Z", payment_providers=provider) as box:
        path = connect(box)
        provider.script = ["processing"]
        box.plan(amount_cents=3100)
        box.subscribe()
        box.travel_to(IN_JANUARY)
        wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "paid_credits": "10"}
        box.post("/wallets", wallet=wallet)
        box.travel_to("2024-01-21T12:00:00Z")
        come_back(box, late=late)
        provider.end(provider.charges, "succeeded")
        for message in provider.messages():
            assert box.receive(path, message, {"Signature": PRESENT}) == 200
        assert of_january(box) == 3100
        (wallet,) = box.get("/wallets?external_customer_id=acme")["wallets"]
        assert wallet["balance_cents"] == 1000
