"""Every change of what decides an amount is kept as a version, and what was billed before is recounted by its own."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import partial

import pytest
from tests.rating.test_recounts import doubled, report_with
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, filter_on, fixed_charge_on, price_ranges

from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod
from usagebill.runtime.work import Reader, Work

pytestmark = pytest.mark.usefixtures("sandbox_engine")

CHANGES = 10


def change_everything(box: Scenario, turn: int) -> None:
    """Another price of each kind of definition; `turn` counts from 1."""
    box.put("/taxes/vat", tax={"rate": 10 + turn})
    box.put("/coupons/off", coupon={"amount_cents": 100 + turn})
    box.put("/add_ons/seat", add_on={"name": f"Seat {turn}", "amount_cents": 100 + turn})
    box.put("/billable_metrics/calls", billable_metric={"filters": [{"key": "zone", "values": ["eu", f"z{turn}"]}]})
    commitment, threshold = {"amount_cents": 50_000 + turn}, {"amount_cents": 900_000 + turn}
    terms = {"amount_cents": 3100 + 31 * turn, "minimum_commitment": commitment, "usage_thresholds": [threshold]}
    box.put("/plans/basic", plan=terms)
    eu = filter_on({"zone": ["eu"]}, amount=str(3 + turn))
    box.put("/plans/basic/charges/calls", charge={"properties": {"amount": str(2 + turn)}, "filters": [eu]})
    rate = {"code": "tokens", "conversion_rate": f"0.{turn}"}
    box.put("/plans/basic/charges/credits", charge={"properties": {"amount": str(turn)}, "applied_pricing_unit": rate})
    ranges = price_ranges((0, 10, str(turn), "0"), (11, None, "0.5", "1"))
    box.put("/plans/basic/charges/prints", charge={"properties": {"graduated_ranges": ranges}})
    box.put("/plans/basic/charges/scans", charge={"properties": {"amount": str(1 + turn)}})
    for code in ("seat", "desk"):
        box.put(f"/plans/basic/fixed_charges/{code}", fixed_charge={"properties": {"amount": str(7 + turn)}})
    extra = charge_on(box.metric(f"extra{turn}"), amount="4", code=f"extra{turn}", min_amount_cents=50)
    box.post("/plans/basic/charges", charge=extra)
    if turn > 1:
        box.delete(f"/plans/basic/charges/extra{turn - 1}")


def use_everything(box: Scenario) -> None:
    for code in ("calls", "prints", "scans", "credits"):
        box.event(code, value="7", zone="eu")
        box.event(code, value="4")


@pytest.fixture(scope="module")
def box(sandbox_engine: None) -> Iterator[Scenario]:
    """A customer whose prices all change ten times, once each month and twice within one."""
    with Scenario(now="2024-01-10T08:00:00Z") as box:
        box.customer()
        box.tax(10)
        seat, desk = box.add_on("seat"), box.add_on("desk")
        tokens = {"name": "Tokens", "code": "tokens", "short_name": "TK"}
        box.billing.pricing_units.create(**tokens)
        calls = box.metric("calls", filters=[{"key": "zone", "values": ["eu", "us"]}])
        unit = {"code": "tokens", "conversion_rate": "0.5"}
        ranges = price_ranges((0, 10, "1", "0"), (11, None, "0.5", "0"))
        box.plan(
            charge_on(calls, amount="2", code="calls", filters=[filter_on({"zone": ["eu"]}, amount="3")]),
            charge_on(box.metric("credits"), amount="2", code="credits", applied_pricing_unit=unit),
            charge_on(
                box.metric("prints"),
                "graduated",
                code="prints",
                pay_in_advance=True,
                graduated_ranges=ranges,
            ),
            charge_in_advance_on(box.metric("scans"), code="scans", amount="1"),
            amount_cents=3100,
            fixed_charges=[
                fixed_charge_on(seat, code="seat", amount="7", units=3, pay_in_advance=True),
                fixed_charge_on(desk, code="desk", amount="7", units=3, prorated=True),
            ],
            minimum_commitment={"amount_cents": 50_000},
            usage_thresholds=[{"amount_cents": 900_000}],
        )
        box.coupon(100, frequency="forever")
        box.subscribe()
        for turn in range(1, CHANGES + 1):
            month = f"2024-{turn:02d}"
            box.travel_to(f"{month}-12T10:00:00Z")
            use_everything(box)
            box.travel_to(f"{month}-16T10:00:00Z")
            change_everything(box, turn)
            box.travel_to(f"{month}-20T10:00:00Z")
            use_everything(box)
        box.travel_to("2024-11-02T00:00:00Z")
        yield box


def by_age(reader: Reader) -> list[Fee]:
    return sorted(all_fees(reader), key=lambda fee: (fee.created_at, fee.id))


def all_fees(reader: Reader) -> list[Fee]:
    return reader.tx.find(Fee)


def test_after_ten_changes_of_everything_the_audit_recounts_every_fee(box: Scenario) -> None:
    report = box.billing.audit()
    assert report.findings == ()
    assert report.not_recounted == ()
    fees = box.billing.reading(all_fees)
    assert sum(report.recounted.values()) == len(fees)
    # Each event was paid in advance by two charges; ten periods have closed.
    assert report.recounted["usage_in_advance"] == CHANGES * 2 * 2 * 2
    assert report.recounted["subscription"] == CHANGES
    assert report.recounted["commitment"] > 1


def test_a_wrong_cent_is_still_found_after_the_prices_have_changed(box: Scenario) -> None:
    def first_of(code: str, work: Work) -> None:
        doubled(work, next(fee for fee in by_age(work) if fee.item.code == code and fee.amount_cents))

    for code in ("calls", "credits", "prints", "scans", "seat", "desk"):
        report = report_with(box, partial(first_of, code))
        assert "fee_recount" in {finding.check for finding in report.findings}, code
        assert report.not_recounted == ()


def test_fees_and_periods_name_the_version_that_they_were_computed_from(box: Scenario) -> None:
    fees = box.billing.reading(all_fees)
    periods = box.billing.reading(lambda reader: reader.tx.find(BillingPeriod))
    assert all(fee.price_version is not None for fee in fees)
    assert all(period.price_version is not None for period in periods)


def test_the_first_invoice_is_explained_by_the_prices_that_it_was_billed_by(box: Scenario) -> None:
    invoice = next(invoice for invoice in box.invoices() if "calls" in {fee["item"]["code"] for fee in invoice["fees"]})
    explained = box.billing.invoices.explain(invoice["svc_id"])
    lines = [line for line in explained.fees if line.fee.item.code == "calls" and line.fee.charge_filter_id]
    # January was repriced on the 16th: 14 units at 4.
    assert [line.fee.amount_cents for line in lines] == [14 * 400]
    (line,) = lines
    assert line.usage is not None
    assert line.usage.charge.filters[0].properties["amount"] == "4"
    # The steps that lead from the events to the fee are there, which they are not by another price.
    assert line.usage.counting
    assert line.fee.units == Decimal(14)
