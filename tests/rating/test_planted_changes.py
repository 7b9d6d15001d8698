"""The audit finds wrong sums of plan changes, ends and thresholds in documents that add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.rating.test_recounts import Plant, report_with
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, fixed_charge_on

from usagebill.core.credit_notes import CreditNote
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import CreditType, Invoice
from usagebill.core.numbers import add, divide, multiply
from usagebill.runtime.work import Work
from usagebill.storage.conditions import asc, eq

OLDEST_FIRST = [asc("created_at"), asc("id")]
TOTALS = ("sub_total_excluding_taxes", "sub_total_including_taxes", "total")


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    """October until the 16th on one plan, then on another until 10 November; everything that is prorated by days."""
    with Scenario("2024-10-01T00:00:00Z") as box:
        box.customer()
        seats, opened = (box.metric(code, "unique_count_agg", recurring=True) for code in ("seats", "opened"))
        level = box.metric("level", "weighted_sum_agg", recurring=True, weighted_interval="seconds")
        charges = [
            charge_on(seats, amount="31", prorated=True),
            charge_on(box.metric("calls"), amount="1", min_amount_cents=6200),
            charge_in_advance_on(opened, amount="31", prorated=True, invoiceable=True),
            charge_on(level, amount="31"),
        ]
        desk, room = box.add_on("desk"), box.add_on("room")
        fixed = [
            fixed_charge_on(desk, amount="31", units=1, prorated=True),
            fixed_charge_on(room, amount="31", units=1, prorated=True, pay_in_advance=True),
        ]
        for code, amount in (("basic", 3100), ("larger", 6200)):
            commitment = {"amount_cents": 310_000}
            terms: dict[str, Any] = {"fixed_charges": fixed, "minimum_commitment": commitment, "pay_in_advance": True}
            box.plan(*charges, code=code, amount_cents=amount, **terms)
        box.subscribe()
        for metric, value in (("seats", "a"), ("opened", "a"), ("level", "10")):
            box.event(metric, value=value)
        box.travel_to("2024-10-16T12:00:00Z")
        box.subscribe("larger")
        box.travel_to("2024-11-10T12:00:00Z")
        box.unsubscribe()
        yield box


def raised(work: Work, invoice: Invoice, cents: int, **fields: Any) -> None:
    """The invoice over so many cents more, before and after taxes of nothing."""
    totals = {f"{name}_amount_cents": getattr(invoice, f"{name}_amount_cents") + cents for name in TOTALS}
    work.tx.replace(replace(invoice, **{**totals, **fields}))


def more(fee_type: str, code: str, at: int, cents: int, *, minimum: bool = False) -> Plant:
    """So many cents more on the fee at a position among those of an item, all the way up."""

    def plant(work: Work) -> None:
        fee = [
            fee
            for fee in work.tx.find(Fee, eq("fee_type", fee_type), order=OLDEST_FIRST)
            if fee.item.code == code and bool(fee.true_up_parent_fee_id) == minimum
        ][at]
        amount = fee.amount_cents + cents
        unit = divide(multiply(fee.precise_unit_amount, amount), Decimal(fee.amount_cents))
        amounts: dict[str, Any] = {"amount_cents": amount, "precise_amount_cents": Decimal(amount)}
        if fee.units == 1:
            amounts["unit_amount_cents"] = amount
        work.tx.replace(replace(fee, precise_unit_amount=unit, amount_details={}, **amounts))
        invoice = work.tx.get(Invoice, fee.invoice_id or "")
        assert invoice is not None
        raised(work, invoice, cents, fees_amount_cents=invoice.fees_amount_cents + cents)

    return plant


DAY_TWICE = 100
PLANTS: dict[str, Plant] = {
    "the day of the upgrade, seats, old plan": more("charge", "seats", 0, DAY_TWICE),
    "the day of the upgrade, seats, new plan": more("charge", "seats", 1, -DAY_TWICE),
    "the day of the upgrade, fixed charge, old plan": more("fixed_charge", "desk", 0, DAY_TWICE),
    "the day of the upgrade, fixed charge, new plan": more("fixed_charge", "desk", 1, -DAY_TWICE),
    "the day of the upgrade, seats in advance": more("charge", "opened", 1, DAY_TWICE),
    "a minimum by the hour, old plan": more("charge", "calls", 0, 1000, minimum=True),
    "a minimum by the hour, end": more("charge", "calls", 2, 1000, minimum=True),
    "a commitment that counts a fee that was credited": more("commitment", "basic", 0, -1500),
    "a commitment at the end": more("commitment", "larger", 1, -2100),
    "a month of the new plan twice": more("subscription", "larger", 0, 6200),
    "a level that was lost": more("charge", "level", 1, -500),
}


def test_right_books_of_a_change_and_an_end_give_no_finding(box: Scenario) -> None:
    report = box.billing.audit()
    assert (report.findings, report.not_recounted) == ((), ())


@pytest.mark.parametrize("wrong", PLANTS)
def test_a_wrong_sum_of_a_change_or_an_end_is_found(box: Scenario, wrong: str) -> None:
    assert "fee_recount" in {finding.check for finding in report_with(box, PLANTS[wrong]).findings}


NOTE_AMOUNTS = ("total", "credit", "balance", "sub_total_excluding_taxes")


def giving(at: int, cents: int, reason: str = "order_cancellation") -> Plant:
    """So many cents more on the credit note at a position, all the way up; nothing is left of one that gave as many."""

    def plant(work: Work) -> None:
        notes = work.tx.find(CreditNote, eq("reason", reason), order=OLDEST_FIRST)
        note = notes[at]
        (item,) = note.items
        if item.amount_cents == -cents:
            work.tx.delete(note)
            return
        amounts: dict[str, Any] = {
            f"{name}_amount_cents": getattr(note, f"{name}_amount_cents") + cents for name in NOTE_AMOUNTS
        }
        item = replace(
            item,
            amount_cents=item.amount_cents + cents,
            precise_amount_cents=add(item.precise_amount_cents, Decimal(cents)),
        )
        precise = add(note.precise_total_amount_cents, Decimal(cents))
        work.tx.replace(replace(note, items=(item,), precise_total_amount_cents=precise, **amounts))

    return plant


NOTE_PLANTS: dict[str, Plant] = {
    "the day of the upgrade is not given back": giving(0, -100),
    "a day more than was left at the upgrade": giving(0, 100),
    "the day of the end is given back": giving(1, 207),
    "nothing is given back at the upgrade": giving(0, -1600),
}


@pytest.mark.parametrize("wrong", NOTE_PLANTS)
def test_a_wrong_credit_for_unused_time_is_found(box: Scenario, wrong: str) -> None:
    notes = box.get("/credit_notes")["credit_notes"]
    assert sorted(note["sub_total_excluding_taxes_amount_cents"] for note in notes) == [1600, 4133]
    found = report_with(box, NOTE_PLANTS[wrong]).findings
    assert "credit for unused time" in " ".join(finding.detail for finding in found if finding.check == "credit_note")


@pytest.mark.parametrize("day", [5, 25], ids=["in the trial", "after it"])
@pytest.mark.parametrize("taxed", [True, False])
def test_a_wrong_credit_for_a_plan_with_a_trial_is_found(day: int, taxed: bool) -> None:
    with Scenario("2024-06-20T00:00:00Z") as box:
        if taxed:
            box.tax("20")
        box.customer()
        box.plan(amount_cents=3000, pay_in_advance=True, trial_period=20)
        box.subscribe()
        box.travel_to(f"2024-07-{day:02}T12:00:00Z")
        box.unsubscribe()
        assert box.billing.audit().findings == ()
        assert box.billing.audit().recounted.get("unused_time", 0) == (1 if day > 20 else 0)
        if day > 20:
            found = report_with(box, giving(0, 97)).findings
            assert "credit for unused time" in " ".join(finding.detail for finding in found)


@pytest.mark.parametrize("option", ["credit", "refund", "offset", "skip"])
def test_right_credits_of_an_end_are_recounted_without_a_finding(option: str) -> None:
    with Scenario("2024-06-20T00:00:00Z") as box:
        box.tax("20")
        box.customer()
        box.plan(amount_cents=3000, pay_in_advance=True)
        box.subscribe()
        box.coupon(333)
        box.travel_to("2024-07-10T12:00:00Z")
        (invoice, *_) = box.get("/invoices?status[]=finalized")["invoices"]
        (fee,) = box.invoice(invoice["svc_id"])["fees"]
        items = [{"fee_id": fee["svc_id"], "amount_cents": 500}]
        box.post(
            "/credit_notes", credit_note={"invoice_id": invoice["svc_id"], "credit_amount_cents": 533, "items": items}
        )
        box.delete(f"/subscriptions/sub?on_termination_credit_note={option}")
        report = box.billing.audit()
        assert report.findings == ()
        assert report.recounted.get("unused_time", 0) == (0 if option == "skip" else 1)


def deducting(cents: int) -> Plant:
    """The invoice of the period deducts `cents` of what was billed ahead."""

    def plant(work: Work) -> None:
        (invoice,) = (
            invoice
            for invoice in work.tx.find(Invoice, eq("invoice_type", "subscription"))
            if invoice.progressive_billing_credit_amount_cents
        )
        less = invoice.progressive_billing_credit_amount_cents - cents
        lines = tuple(
            replace(line, amount_cents=cents) if line.item_type is CreditType.INVOICE else line
            for line in invoice.credits
        )
        raised(work, invoice, less, credits=lines, progressive_billing_credit_amount_cents=cents)

    return plant


@pytest.mark.parametrize("deducted", [0, 1000], ids=["nothing", "net of the coupon"])
@pytest.mark.parametrize("downgrade", [True, False])
def test_what_a_threshold_billed_and_the_period_does_not_deduct_is_found(downgrade: bool, deducted: int) -> None:
    with Scenario("2024-05-10T00:00:00Z") as box:
        box.customer()
        charge = charge_on(box.metric("gb"), amount="1")
        for code, amount in (("basic", 6200), ("small", 0)):
            box.plan(charge, code=code, amount_cents=amount, usage_thresholds=[{"amount_cents": 1000}])
        box.subscribe()
        if downgrade:
            box.subscribe("small")
        box.travel_to("2024-06-01T00:05:00Z")
        box.coupon(1000)
        box.event("gb", value=20)
        box.travel_to("2024-07-02T00:00:00Z")
        assert box.billing.audit().findings == ()
        found = {finding.check for finding in report_with(box, deducting(deducted)).findings}
        assert "credits" in found


def seats_over_a_change(box: Scenario) -> None:
    """A seat at 31.00 a month that October was paid for, and from the 16th on is billed in arrears."""
    box.customer()
    seats = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(charge_in_advance_on(seats, amount="31", prorated=True, invoiceable=True), code="old", amount_cents=0)
    box.plan(charge_on(seats, amount="31", prorated=True), code="new", amount_cents=3100)
    box.subscribe("old")
    box.event("seats", value="a")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2024-12-02T00:00:00Z")


@pytest.mark.parametrize("cents", [-1600, -100, 100], ids=["nothing", "a day less", "a day more"])
def test_a_wrong_credit_for_seats_that_are_billed_again_in_arrears_is_found(cents: int) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        seats_over_a_change(box)
        (note,) = box.get("/credit_notes")["credit_notes"]
        assert (note["reason"], note["total_amount_cents"]) == ("order_change", 1600)
        report = box.billing.audit()
        assert (report.findings, report.recounted["unused_time"]) == ((), 1)
        found = report_with(box, giving(0, cents, "order_change")).findings
        assert "credit for usage paid in advance" in " ".join(finding.detail for finding in found)


def test_a_credit_for_seats_is_right_after_late_events_and_other_notes() -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        seats_over_a_change(box)
        box.event("seats", value="b", at=1728086400)
        for invoice in box.get("/invoices")["invoices"]:
            fees = [fee for fee in box.invoice(invoice["svc_id"])["fees"] if fee["amount_cents"] > 1600]
            for fee in fees[:1]:
                items = [{"fee_id": fee["svc_id"], "amount_cents": 500}]
                given = {"invoice_id": invoice["svc_id"], "credit_amount_cents": 500, "items": items}
                box.post("/credit_notes", credit_note=given)
        assert box.billing.audit().findings == ()


@pytest.mark.parametrize("cents", [-500, -100, 100], ids=["nothing", "less", "more"])
def test_a_wrong_credit_for_a_surplus_of_thresholds_is_found(cents: int) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        box.customer()
        thresholds = [{"amount_cents": 1000}, {"amount_cents": 2000}]
        box.plan(charge_on(box.metric("gb"), amount="1"), amount_cents=3100, usage_thresholds=thresholds)
        box.subscribe()
        for value in (10, 10, -5):
            box.event("gb", value=value)
        box.travel_to("2024-11-02T00:00:00Z")
        (note,) = box.get("/credit_notes")["credit_notes"]
        assert (note["reason"], note["total_amount_cents"]) == ("other", 500)
        assert box.billing.audit().findings == ()
        found = report_with(box, giving(0, cents, "other")).findings
        assert "usage billed ahead" in " ".join(finding.detail for finding in found if finding.check == "credits")
