"""The audit counts each fee again: it finds lines that agree with themselves, but not with events, plan and days."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, fixed_charge_on, price_ranges

from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import divide
from usagebill.core.price_versions import PriceChange
from usagebill.core.recounts import AGAIN_BY_HAND, CHANGED
from usagebill.operations.audit import AuditReport, audit
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, missing, present

Plant = Callable[[Work], None]
DAY = timedelta(days=1)


class Undone(Exception):
    """Raised to undo what a test planted."""


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    """A year of one customer, without taxes: usage in arrears by filter and group, in advance with an invoice and
    without one, seats in advance and in arrears, a minimum of the plan, more seats in mid-month, an end.
    """
    with Scenario(now="2024-01-10T08:00:00Z") as box:
        box.customer()
        seat = {"name": "Seat", "code": "seat", "amount_cents": 100, "amount_currency": "EUR"}
        desk = {"name": "Desk", "code": "desk", "amount_cents": 100, "amount_currency": "EUR"}
        seats, desks = (box.post("/add_ons", add_on=add_on)["add_on"]["svc_id"] for add_on in (seat, desk))
        calls = box.metric("calls", filters=[{"key": "zone", "values": ["eu", "us"]}])
        by_zone = charge_on(
            calls,
            amount="2",
            pricing_group_keys=["team"],
            filters=[{"values": {"zone": ["eu"]}, "properties": {"amount": "3"}}],
        )
        ranges = price_ranges((0, 10, "1", "0"), (11, None, "0.5", "0"))
        prints = charge_on(box.metric("prints"), "graduated", graduated_ranges=ranges, pay_in_advance=True)
        scans = {**prints, "billable_metric_id": box.metric("scans"), "invoiceable": False}
        fixed = [
            fixed_charge_on(id, amount="7", units=3, pay_in_advance=ahead, prorated=not ahead)
            for id, ahead in ((seats, True), (desks, False))
        ]  # fmt: skip
        box.plan(
            by_zone,
            prints,
            scans,
            amount_cents=3100,
            fixed_charges=fixed,
            minimum_commitment={"amount_cents": 50_000},
        )
        box.subscribe()
        for month in range(1, 5):
            for day in (12, 20):
                box.travel_to(f"2024-{month:02d}-{day}T10:00:00Z")
                box.event("calls", value="12.5", zone="eu")
                box.event("calls", value="4", team="red")
                box.event("calls", value="5", team="blue")
                box.event("prints", value="7")
                box.event("scans", value="7")
        box.travel_to("2024-05-02T00:00:00Z")
        yield box


def invoices(work: Reader) -> list[Invoice]:
    return work.tx.find(Invoice, eq("status", "finalized"), order=[asc("created_at"), asc("id")])


def fees_of(work: Reader, fee_type: str, **fields: Any) -> list[Fee]:
    """The fees of a type on invoices, oldest first."""
    wanted = [eq(name, value) for name, value in fields.items()]
    return work.tx.find(
        Fee, eq("fee_type", fee_type), present("invoice_id"), *wanted, order=[asc("created_at"), asc("id")]
    )


def totalled(work: Work, invoice_id: str | None) -> None:
    """Make the totals of an invoice what its fees come to."""
    invoice = work.tx.get(Invoice, invoice_id or "")
    assert invoice is not None
    cents = sum(fee.amount_cents for fee in work.tx.find(Fee, eq("invoice_id", invoice.id)))
    names = ("fees", "sub_total_excluding_taxes", "sub_total_including_taxes", "total")
    totals: dict[str, Any] = {f"{name}_amount_cents": cents for name in names}
    work.tx.replace(replace(invoice, **totals))


def doubled(work: Work, fee: Fee) -> None:
    """Twice the units at twice the amount, all the way up."""
    more: dict[str, Any] = {
        "units": fee.units * 2,
        "total_aggregated_units": None if fee.total_aggregated_units is None else fee.total_aggregated_units * 2,
        "amount_cents": fee.amount_cents * 2,
        "precise_amount_cents": fee.precise_amount_cents * 2,
        "amount_details": {},
    }
    work.tx.replace(replace(fee, **more))
    if fee.invoice_id is not None:
        totalled(work, fee.invoice_id)


def dropped(work: Work, fee: Fee) -> None:
    work.tx.delete(fee)
    totalled(work, fee.invoice_id)


def arrears(work: Reader) -> list[Fee]:
    return fees_of(work, "charge", event_transaction_id=None)


def usage_doubled(work: Work) -> None:
    doubled(work, next(fee for fee in arrears(work) if fee.charge_filter_id is None))


def usage_of_a_filter_doubled(work: Work) -> None:
    doubled(work, next(fee for fee in arrears(work) if fee.charge_filter_id is not None))


def usage_moved_to_another_group(work: Work) -> None:
    fee = next(fee for fee in arrears(work) if fee.grouped_by == {"team": "red"})
    work.tx.replace(replace(fee, grouped_by={"team": "green"}))


def usage_lost(work: Work) -> None:
    dropped(work, next(fee for fee in arrears(work) if fee.grouped_by == {"team": "red"}))


def usage_of_nobody(work: Work) -> None:
    fee = next(fee for fee in arrears(work) if fee.grouped_by == {"team": "red"})
    work.tx.insert(replace(fee, id=work.new_id(), grouped_by={"team": "ghosts"}))
    totalled(work, fee.invoice_id)


def a_price_that_the_charge_never_had(work: Work) -> None:
    fee = next(fee for fee in arrears(work) if fee.charge_filter_id is None)
    work.tx.replace(
        replace(
            fee,
            amount_cents=fee.amount_cents * 2,
            precise_amount_cents=fee.precise_amount_cents * 2,
            unit_amount_cents=fee.unit_amount_cents * 2,
            precise_unit_amount=fee.precise_unit_amount * 2,
        )
    )
    totalled(work, fee.invoice_id)


def the_window_of_an_event_shifted(work: Work) -> None:
    fee = fees_of(work, "charge", pay_in_advance=True)[0]
    assert fee.charges_from_datetime is not None
    work.tx.replace(replace(fee, charges_from_datetime=fee.charges_from_datetime + DAY))


def the_shown_period_shifted(work: Work) -> None:
    fee = arrears(work)[0]
    assert fee.from_datetime is not None
    work.tx.replace(replace(fee, from_datetime=fee.from_datetime + DAY))


def an_event_priced_twice(work: Work) -> None:
    doubled(work, fees_of(work, "charge", pay_in_advance=True)[1])


def an_event_without_invoice_priced_twice(work: Work) -> None:
    doubled(work, work.tx.find(Fee, missing("invoice_id"), order=[asc("created_at")])[1])


def a_fee_of_an_event_that_never_came(work: Work) -> None:
    fee = fees_of(work, "charge", pay_in_advance=True)[0]
    work.tx.replace(replace(fee, event_transaction_id="never"))


def a_fee_of_an_event_that_is_gone(work: Work) -> None:
    dropped(work, fees_of(work, "charge", pay_in_advance=True)[1])


def a_fee_without_invoice_that_is_gone(work: Work) -> None:
    work.tx.delete(work.tx.find(Fee, missing("invoice_id"), order=[asc("created_at")])[1])


def a_subscription_fee_raised(work: Work) -> None:
    fee = fees_of(work, "subscription")[1]
    more: dict[str, Any] = {
        "amount_cents": 4100,
        "precise_amount_cents": Decimal(4100),
        "precise_unit_amount": Decimal(41),
    }
    work.tx.replace(replace(fee, unit_amount_cents=4100, **more))
    _less_of_the_minimum(work, fee, 1000)


def a_subscription_fee_of_another_plan_amount(work: Work) -> None:
    fee = fees_of(work, "subscription")[1]
    more: dict[str, Any] = {
        "amount_cents": 4100,
        "precise_amount_cents": Decimal(4100),
        "precise_unit_amount": Decimal(41),
    }
    work.tx.replace(replace(fee, unit_amount_cents=4100, amount_details={"plan_amount_cents": 4100}, **more))
    _less_of_the_minimum(work, fee, 1000)


def a_subscription_fee_of_other_days(work: Work) -> None:
    """One that began in mid-month is billed whole."""
    fee = fees_of(work, "subscription")[0]
    assert fee.amount_cents < 3100
    less = 3100 - fee.amount_cents
    more: dict[str, Any] = {
        "amount_cents": 3100,
        "precise_amount_cents": Decimal(3100),
        "precise_unit_amount": Decimal(31),
    }
    work.tx.replace(replace(fee, unit_amount_cents=3100, basis={"days": 31, "period_days": 31}, **more))
    _less_of_the_minimum(work, fee, less)


def _less_of_the_minimum(work: Work, fee: Fee, cents: int) -> None:
    """So much more was billed, and so much less is left of the minimum."""
    (left,) = work.tx.find(Fee, eq("invoice_id", fee.invoice_id), eq("fee_type", "commitment"))
    _commitment_of(work, left, left.amount_cents - cents)


def _commitment_of(work: Work, fee: Fee, cents: int) -> None:
    basis = {**fee.basis, "used_cents": int(str(fee.basis["due_cents"])) - cents}
    amounts: dict[str, Any] = {
        "amount_cents": cents,
        "precise_amount_cents": Decimal(cents),
        "unit_amount_cents": cents,
    }
    work.tx.replace(replace(fee, basis=basis, precise_unit_amount=divide(Decimal(cents), Decimal(100)), **amounts))
    totalled(work, fee.invoice_id)


def seats_doubled(work: Work) -> None:
    doubled(work, fees_of(work, "fixed_charge", pay_in_advance=True)[1])


def desks_doubled(work: Work) -> None:
    doubled(work, fees_of(work, "fixed_charge", pay_in_advance=False)[1])


def desks_lost(work: Work) -> None:
    dropped(work, fees_of(work, "fixed_charge", pay_in_advance=False)[1])


def a_commitment_raised(work: Work) -> None:
    fee = fees_of(work, "commitment")[0]
    _commitment_of(work, fee, fee.amount_cents + 500)


def a_commitment_that_is_not_what_was_left(work: Work) -> None:
    fee = fees_of(work, "commitment")[0]
    cents = fee.amount_cents + 500
    amounts: dict[str, Any] = {
        "amount_cents": cents,
        "precise_amount_cents": Decimal(cents),
        "unit_amount_cents": cents,
    }
    work.tx.replace(replace(fee, precise_unit_amount=divide(Decimal(cents), Decimal(100)), **amounts))
    totalled(work, fee.invoice_id)


def a_commitment_lost(work: Work) -> None:
    dropped(work, fees_of(work, "commitment")[0])


PLANTS: tuple[tuple[Plant, str], ...] = (
    (usage_doubled, "fee_recount"),
    (usage_of_a_filter_doubled, "fee_recount"),
    (usage_moved_to_another_group, "fee_missing"),
    (usage_lost, "fee_missing"),
    (usage_of_nobody, "fee_recount"),
    (a_price_that_the_charge_never_had, "fee_recount"),
    (the_window_of_an_event_shifted, "fee_recount"),
    (the_shown_period_shifted, "fee_recount"),
    (an_event_priced_twice, "fee_recount"),
    (an_event_without_invoice_priced_twice, "fee_recount"),
    (a_fee_of_an_event_that_never_came, "fee_recount"),
    (a_fee_of_an_event_that_is_gone, "fee_missing"),
    (a_fee_without_invoice_that_is_gone, "fee_missing"),
    (a_subscription_fee_raised, "fee_recount"),
    (a_subscription_fee_of_another_plan_amount, "fee_recount"),
    (a_subscription_fee_of_other_days, "fee_recount"),
    (seats_doubled, "fee_recount"),
    (desks_doubled, "fee_recount"),
    (desks_lost, "fee_missing"),
    (a_commitment_raised, "fee_recount"),
    (a_commitment_that_is_not_what_was_left, "fee_recount"),
    (a_commitment_lost, "fee_missing"),
)


def report_with(box: Scenario, plant: Plant, *, recount: bool = True) -> AuditReport:
    """What an audit says with `plant` done, which is undone afterwards."""
    reports: list[AuditReport] = []

    def tried(work: Work) -> None:
        plant(work)
        reports.append(audit(work, recount=recount))
        raise Undone

    with pytest.raises(Undone):
        box.billing.writing(tried)
    return reports[0]


def test_what_was_billed_as_it_should_be_is_recounted_whole(box: Scenario) -> None:
    report = box.billing.audit()
    assert report.findings == ()
    assert report.not_recounted == ()
    assert report.recounted == {
        "usage": 12,
        "usage_in_advance": 16,
        "subscription": 4,
        "fixed_charge": 9,
        "commitment": 4,
    }


@pytest.mark.parametrize(("plant", "check"), PLANTS, ids=lambda function: getattr(function, "__name__", ""))
def test_an_error_that_agrees_with_itself_is_found(box: Scenario, plant: Plant, check: str) -> None:
    # The ledger alone keeps what the documents came to before.
    assert {finding.check for finding in report_with(box, plant, recount=False).findings} <= {"ledger"}
    report = report_with(box, plant)
    assert check in {finding.check for finding in report.findings}
    assert report.not_recounted == ()


def test_without_the_recount_nothing_is_said_to_be_recounted(box: Scenario) -> None:
    report = box.billing.audit(recount=False)
    assert (report.recounted, report.not_recounted) == ({}, ())


def small(box: Scenario, **fields: Any) -> Scenario:
    """A customer with one charge of 2.00 a unit, and 5 units in January."""
    box.customer(**fields)
    charge = {"charge_model": "standard", "code": "calls", "properties": {"amount": "2"}}
    box.plan({"billable_metric_id": box.metric("calls"), **charge}, amount_cents=1000)
    box.subscribe()
    box.travel_to("2024-01-20T00:00:00Z")
    box.event("calls", value="5")
    return box


def first_usage(work: Reader) -> Fee:
    return fees_of(work, "charge")[0]


def twice_the_first(work: Work) -> None:
    doubled(work, first_usage(work))


def left_of(report: AuditReport) -> set[tuple[str, str, int]]:
    return {(left.kind, left.reason, left.count) for left in report.not_recounted}


def test_a_charge_whose_price_has_changed_since_is_judged_by_the_one_that_it_was_billed_by() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box = small(box)
        box.travel_to("2024-02-02T00:00:00Z")
        charge = {"properties": {"amount": "9"}}
        box.put("/plans/basic/charges/calls", charge=charge)
        box.event("calls", value="1")
        box.travel_to("2024-03-02T00:00:00Z")
        report = box.billing.audit()
        assert (report.findings, report.not_recounted, report.recounted["usage"]) == ((), (), 2)
        assert {finding.check for finding in report_with(box, twice_the_first).findings} == {"fee_recount", "ledger"}


def test_what_was_billed_before_versions_were_kept_is_not_judged_by_a_price_that_may_be_new() -> None:
    def as_before(work: Work) -> None:
        for fee in work.tx.find(Fee):
            work.tx.replace(replace(fee, price_version=None))
        for period in work.tx.find(BillingPeriod):
            work.tx.replace(replace(period, price_version=None))
        # Nothing was kept of what came before the upgrade.
        work.tx.delete(*work.tx.find(PriceChange))

    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box = small(box)
        box.travel_to("2024-02-02T00:00:00Z")
        box.put("/plans/basic/charges/calls", charge={"properties": {"amount": "9"}})
        box.billing.writing(as_before)
        report = box.billing.audit()
        assert report.findings == ()
        assert left_of(report) == {("usage", CHANGED, 1)}
        # What the charge was on the day of the upgrade is kept when it changes again.
        box.event("calls", value="1")
        box.travel_to("2024-03-02T00:00:00Z")
        box.put("/plans/basic/charges/calls", charge={"properties": {"amount": "10"}})
        report = box.billing.audit()
        assert (report.findings, left_of(report)) == ((), {("usage", CHANGED, 1)})
        assert report.recounted["usage"] == 1


def test_a_charge_that_is_gone_is_recounted_as_it_was() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        small(box)
        box.travel_to("2024-02-02T00:00:00Z")
        box.delete("/plans/basic/charges/calls")
        box.travel_to("2024-03-02T00:00:00Z")
        report = box.billing.audit()
        assert (report.findings, report.not_recounted, report.recounted["usage"]) == ((), (), 1)


def test_a_plan_whose_amount_has_changed_since_is_held_to_the_amount_that_the_fee_keeps() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        small(box)
        box.travel_to("2024-02-02T00:00:00Z")
        box.put("/plans/basic", plan={"amount_cents": 7000})
        report = box.billing.audit()
        assert (report.findings, report.not_recounted, report.recounted["subscription"]) == ((), (), 1)

        def raised(work: Work) -> None:
            doubled(work, replace(fees_of(work, "subscription")[0], units=Decimal("0.5")))
            fee = fees_of(work, "subscription")[0]
            kept = {"plan_amount_cents": 1000}
            work.tx.replace(replace(fee, amount_details=kept, precise_unit_amount=fee.precise_unit_amount * 2))

        assert {finding.check for finding in report_with(box, raised).findings} == {"fee_recount", "ledger"}


def test_what_a_draft_took_in_late_is_counted_and_what_came_after_it_was_issued_is_not() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box = small(box, billing_configuration={"invoice_grace_period": 5})
        for day, value in ((3, 4), (20, 8)):
            box.travel_to(f"2024-02-{day:02d}T00:00:00Z")
            late = {"transaction_id": f"late{day}", "code": "calls", "external_subscription_id": "sub"}
            box.post("/events", event={**late, "timestamp": "1706659200", "properties": {"value": value}})
        report = box.billing.audit()
        assert (report.findings, report.not_recounted) == ((), ())
        assert box.billing.reading(first_usage).units == 9
        assert {finding.check for finding in report_with(box, twice_the_first).findings} == {"fee_recount", "ledger"}


def test_a_line_adjusted_by_hand_is_held_to_the_adjustment() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        small(box, billing_configuration={"invoice_grace_period": 5})
        box.travel_to("2024-02-02T00:00:00Z")
        fee = box.billing.reading(first_usage)
        assert fee.invoice_id is not None
        box.billing.invoices.adjust_fee(fee.invoice_id, fee_id=fee.id, units=Decimal(7))
        box.travel_to("2024-02-20T00:00:00Z")
        report = box.billing.audit()
        assert (report.findings, report.not_recounted) == ((), ())
        assert box.billing.reading(first_usage).units == 7
        assert {finding.check for finding in report_with(box, twice_the_first).findings} == {"fee_recount", "ledger"}


def test_lines_put_by_hand_in_the_place_of_void_ones_are_not_recounted() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        small(box)
        box.travel_to("2024-02-02T00:00:00Z")
        fee = box.billing.reading(first_usage)
        assert fee.invoice_id is not None
        box.post(f"/invoices/{fee.invoice_id}/void")
        box.billing.invoices.regenerate(fee.invoice_id, fees=[{"id": fee.id, "units": Decimal(3)}])
        report = box.billing.audit()
        assert report.findings == ()
        assert left_of(report) == {("usage", AGAIN_BY_HAND, 1)}


def test_usage_that_passed_a_threshold_is_what_had_come_in_by_then() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box.customer()
        charge = {"charge_model": "standard", "properties": {"amount": "10"}}
        box.plan({"billable_metric_id": box.metric("calls"), **charge}, usage_thresholds=[{"amount_cents": 2000}])
        box.subscribe()
        for day, value in ((6, "1"), (7, "2"), (8, "4")):
            box.jump_to(f"2024-01-{day:02d}T00:00:00Z")
            box.event("calls", value=value)
        box.travel_to("2024-01-20T00:00:00Z")
        box.event("calls", value="1")
        report = box.billing.audit()
        assert (report.findings, report.not_recounted) == ((), ())
        assert {finding.check for finding in report_with(box, twice_the_first).findings} == {"fee_recount", "ledger"}


def test_usage_that_passed_a_threshold_at_an_instant_leaves_out_what_came_at_that_instant() -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        box.customer()
        box.plan(charge_on(box.metric("calls"), amount="10"), usage_thresholds=[{"amount_cents": 2000}])
        box.subscribe()
        box.travel_to("2024-06-01T00:05:00Z")
        box.event("calls", value="3")
        # The check waits for the run of the billing day. It has run when the next event comes.
        box.travel_to("2024-06-01T00:10:00Z")
        box.event("calls", value="4")
        (stage,) = box.get("/invoices?invoice_type=progressive_billing")["invoices"]
        assert (stage["created_at"], stage["fees_amount_cents"]) == ("2024-06-01T00:10:00Z", 3 * 1000)
        report = box.billing.audit()
        assert (report.findings, report.not_recounted) == ((), ())
        assert {finding.check for finding in report_with(box, twice_the_first).findings} == {"fee_recount", "ledger"}
