"""What an early end gives back of a period paid in advance: by days, taxes, time zones, and what was paid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.money import gross, percent, share
from tests.scenarios import Scenario, charge_on

World = Callable[..., Scenario]


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as boxes:

        def make(now: str, tax: str, **customer: Any) -> Scenario:
            box = boxes.enter_context(Scenario(now=now))
            box.customer(**customer)
            box.tax(tax)
            return box

        yield make


def notes(box: Scenario) -> list[tuple[int, int, int]]:
    """Subtotal, taxes and total of each note."""
    names = ("sub_total_excluding_taxes_amount_cents", "taxes_amount_cents", "total_amount_cents")
    return [tuple(note[name] for name in names) for note in box.get("/credit_notes")["credit_notes"]]


def taxed(cents: int, rate: int | str) -> tuple[int, int, int]:
    """An amount, its tax, and both together."""
    return cents, percent(cents, rate), gross(cents, rate)


@pytest.mark.parametrize(
    ("amount", "tax", "interval", "note"),
    [
        (20_000, "25", "monthly", taxed(share(20_000, 29, 30), "25")),
        (16_000, "25", "monthly", taxed(share(16_000, 29, 30), "25")),
        (2999, "23.33", "weekly", taxed(share(2999, 6, 7), "23.33")),
    ],
)
def test_an_end_on_the_first_day_leaves_all_other_days(
    world: World, amount: int, tax: str, interval: str, note: tuple[int, int, int]
) -> None:
    box = world("2023-04-01T00:00:00Z", tax)
    box.plan(amount_cents=amount, interval=interval, pay_in_advance=True)
    box.subscribe(billing_time="anniversary")
    box.travel_to("2023-04-01T10:00:00Z")
    box.delete("/subscriptions/sub")
    assert notes(box) == [note]


@pytest.mark.parametrize(
    ("zone", "billing_time", "amount", "invoiced", "note"),
    [
        ("UTC", "calendar", 5000, gross(share(5000, 21, 28), 20), taxed(share(5000, 20, 28), 20)),
        ("America/Los_Angeles", "calendar", 5000, gross(share(5000, 22, 28), 20), taxed(share(5000, 21, 28), 20)),
        ("UTC", "anniversary", 5000, gross(5000, 20), taxed(share(5000, 27, 28), 20)),
        ("UTC", "calendar", 10_000, gross(share(10_000, 21, 28), 20), taxed(share(10_000, 20, 28), 20)),
    ],
)
def test_the_days_are_those_of_the_customer(
    world: World, zone: str, billing_time: str, amount: int, invoiced: int, note: tuple[int, int, int]
) -> None:
    box = world("2023-02-08T05:00:00Z", "20", timezone=zone)
    box.plan(amount_cents=amount, pay_in_advance=True)
    box.subscribe(billing_time=billing_time)
    box.travel_to("2023-02-08T06:00:00Z")
    box.delete("/subscriptions/sub")
    assert [invoice["total_amount_cents"] for invoice in box.invoices()][:1] == [invoiced]
    assert notes(box) == [note]


def test_what_is_given_back_pays_for_the_next_invoices(world: World) -> None:
    box = world("2023-02-08T05:00:00Z", "20")
    box.plan(amount_cents=10_000, pay_in_advance=True)
    box.plan(code="small", amount_cents=5000, pay_in_advance=True)
    box.subscribe()
    box.delete("/subscriptions/sub")
    box.subscribe("small", external_id="other", billing_time="anniversary")
    invoice = next(invoice for invoice in box.invoices() if invoice["fees_amount_cents"] == 5000)
    assert (invoice["credit_notes_amount_cents"], invoice["total_amount_cents"]) == (gross(5000, 20), 0)
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert note["balance_amount_cents"] == gross(share(10_000, 20, 28), 20) - gross(5000, 20)


# What is given back of 31.00 when October ends on the 15th, and what the days until then cost, with taxes.
UNUSED, USED = gross(share(3100, 16, 31), 20), gross(share(3100, 15, 31), 20)


@pytest.mark.parametrize(
    ("option", "pays", "credited", "coupon", "parts"),
    [
        ("refund", 2 * 3720, 0, 0, (0, UNUSED, 0)),
        # The fee's half of what was paid, less the days that were used, can be refunded.
        ("refund", 5580, 0, 0, (UNUSED - (5580 // 2 - USED), 5580 // 2 - USED, 0)),
        ("refund", 930, 0, 0, (UNUSED, 0, 0)),
        ("refund", 5580, 200, 0, (UNUSED - gross(200, 20) - (5580 // 2 - USED), 5580 // 2 - USED, 0)),
        ("refund", 5580, 200, 500, (374, 1035, 0)),
        ("offset", 5580, 0, 0, (0, 5580 // 2 - USED, UNUSED - (5580 // 2 - USED))),
    ],
)
def test_half_of_an_invoice_is_paid_back_by_its_share_of_what_was_paid(
    world: World, option: str, pays: int, credited: int, coupon: int, parts: tuple[int, int, int]
) -> None:
    """Two plans of 31.00 on the invoice of October, one of them ended on the 15th; a coupon is for that one only."""
    box = world("2024-09-01T00:00:00Z", "20")
    for code in ("plan", "other"):
        box.plan(code=code, amount_cents=3100, pay_in_advance=True)
        box.subscribe(code, external_id=code)
    if coupon:
        sent = {"name": "Less", "code": "less", "frequency": "once", "expiration": "no_expiration"}
        kind = {"coupon_type": "fixed_amount", "amount_cents": coupon, "amount_currency": "EUR"}
        box.post("/coupons", coupon={**sent, **kind, "applies_to": {"plan_codes": ["plan"]}})
        box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "less"})
    box.travel_to("2024-10-01T05:00:00Z")
    invoice = box.invoices()[-1]
    assert invoice["total_amount_cents"] == 7440 - coupon * 6 // 5
    payment = {"invoice_id": invoice["svc_id"], "amount_cents": pays, "reference": "bank"}
    box.post("/payments", payment=payment)
    if credited:
        fee = next(fee for fee in invoice["fees"] if fee["external_subscription_id"] == "plan")
        item = {"fee_id": fee["svc_id"], "amount_cents": credited}
        body = {"invoice_id": invoice["svc_id"], "items": [item]}
        estimate = box.post("/credit_notes/estimate", credit_note=body)["estimated_credit_note"]
        credit = estimate["max_creditable_amount_cents"]
        box.post("/credit_notes", credit_note={**body, "credit_amount_cents": credit})
    box.travel_to("2024-10-15T10:00:00Z")
    box.delete(f"/subscriptions/plan?on_termination_credit_note={option}")
    notes = box.get("/credit_notes?reason=order_cancellation")["credit_notes"]
    assert [tuple(note[f"{name}_amount_cents"] for name in ("credit", "refund", "offset")) for note in notes] == [parts]


def test_an_end_gives_back_the_last_period_whatever_was_regenerated_since(world: World) -> None:
    box = world("2024-04-01T00:00:00Z", "0")
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    box.travel_to("2024-05-02T00:00:00Z")
    april = min(box.invoices(), key=lambda invoice: str(invoice["issuing_date"]))
    box.post(f"/invoices/{april['svc_id']}/void")
    (line,) = box.invoice(april["svc_id"])["fees"]
    box.billing.invoices.regenerate(april["svc_id"], fees=[{"id": line["svc_id"]}])
    box.travel_to("2024-05-10T00:00:00Z")
    box.delete("/subscriptions/sub")
    assert notes(box) == [taxed(share(3100, 21, 31), 0)]


@pytest.mark.parametrize("ahead", [True, False], ids=["in advance", "in arrears"])
@pytest.mark.parametrize(("ended", "days"), [("2024-05-17T00:05:00Z", 121), ("2024-05-17T12:00:00Z", 122)])
def test_a_year_that_ends_on_a_day_of_its_monthly_charges_costs_the_same_in_advance(
    ended: str, days: int, *, ahead: bool
) -> None:
    """The run of that day, ten minutes past midnight, begins a month: before it nothing of the day is billed."""
    with Scenario(now="2024-01-17T08:00:00Z") as box:
        box.customer()
        charge = charge_on(box.metric("gb"), amount="1")
        box.plan(charge, amount_cents=36600, interval="yearly", pay_in_advance=ahead, bill_charges_monthly=True)
        box.subscribe(billing_time="anniversary")
        box.travel_to(ended)
        box.unsubscribe()
        notes = box.get("/credit_notes")["credit_notes"]
        billed = sum(invoice["fees_amount_cents"] for invoice in box.invoices())
        assert billed - sum(note["total_amount_cents"] for note in notes) == days * 100
        assert box.billing.audit().findings == ()
