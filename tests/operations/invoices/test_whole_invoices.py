"""Whole invoices in numbers: drafts, adjustments, minimums, usage billed ahead, fees paid one by one, previews."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.money import gross, percent, share
from tests.scenarios import Scenario, charge_on, fee_of, fees_of

from usagebill.fields import RegeneratedFeeFields

World = Callable[..., Scenario]


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as boxes:

        def make(now: str, tax: str | None = None, grace: int = 0) -> Scenario:
            """A customer, with this grace period in days, whose invoices carry this tax."""
            box = boxes.enter_context(Scenario(now=now))
            box.customer(billing_configuration={"invoice_grace_period": grace})
            if tax is not None:
                box.tax(tax)
            return box

        yield make


def totals(box: Scenario) -> list[int]:
    return [invoice["total_amount_cents"] for invoice in box.invoices()]


def notes(box: Scenario) -> list[tuple[int, int]]:
    """Total and balance of each credit note."""
    listed = box.get("/credit_notes")["credit_notes"]
    return [(note["total_amount_cents"], note["balance_amount_cents"]) for note in listed]


def test_a_draft_takes_in_a_late_event_when_it_is_refreshed(world: World) -> None:
    box = world("2022-12-15T00:00:00Z", tax="20", grace=20)
    box.plan(charge_on(box.metric("calls", "count_agg"), amount="1"), amount_cents=1000, pay_in_advance=True)
    box.subscribe()
    box.travel_to("2022-12-20T00:00:00Z")
    box.event("calls")
    box.event("calls")
    box.travel_to("2023-01-01T05:00:00Z")
    assert totals(box) == [gross(share(1000, 17, 31), 20), gross(1000 + 2 * 100, 20)]
    box.post(
        "/events",
        event={
            "transaction_id": "late",
            "code": "calls",
            "external_subscription_id": "sub",
            "timestamp": "1671321600",  # 2022-12-18
        },
    )
    assert totals(box) == [gross(share(1000, 17, 31), 20), gross(1000 + 2 * 100, 20)]
    first, second = (f"/invoices/{invoice['svc_id']}" for invoice in box.invoices())
    box.put(f"{first}/refresh")
    box.put(f"{second}/refresh")
    assert totals(box) == [gross(share(1000, 17, 31), 20), gross(1000 + 3 * 100, 20)]
    box.put(f"{first}/finalize")
    box.put(f"{second}/finalize")
    assert totals(box) == [gross(share(1000, 17, 31), 20), gross(1000 + 3 * 100, 20)]


def test_a_credit_note_pays_for_an_adjusted_draft_once_it_is_issued(world: World) -> None:
    box = world("2024-02-01T00:00:00Z", grace=3)
    seats = box.metric("seats", recurring=True)
    box.plan(charge_on(seats, amount="5", prorated=True), amount_cents=2900, pay_in_advance=True)
    box.subscribe()
    box.event("seats", value=1)
    box.travel_to("2024-02-12T06:00:00Z")
    box.delete("/subscriptions/sub")
    last = box.invoices()[-1]
    assert (last["total_amount_cents"], notes(box)) == (
        share(500, 12, 29),
        [(share(2900, 17, 29),) * 2],
    )
    box.billing.invoices.adjust_fee(
        last["svc_id"], fee_id=fee_of(last, "charge")["svc_id"], units="3", unit_precise_amount="5"
    )
    adjusted = box.invoice(last["svc_id"])
    assert (adjusted["total_amount_cents"], adjusted["credit_notes_amount_cents"]) == (3 * 500, 0)
    issued = box.put(f"/invoices/{last['svc_id']}/finalize")["invoice"]
    assert (issued["total_amount_cents"], issued["credit_notes_amount_cents"]) == (0, 3 * 500)
    assert notes(box) == [(share(2900, 17, 29), share(2900, 17, 29) - 3 * 500)]


@pytest.mark.parametrize(
    ("price", "total"), [({}, 12_900 + 3 * 500), ({"unit_precise_amount": "150.00"}, 12_900 + 3 * 15_000)]
)
def test_adjusted_usage_stands_beside_the_base_fee(world: World, price: dict[str, str], total: int) -> None:
    box = world("2024-03-01T00:00:00Z", grace=3)
    box.plan(charge_on(box.metric("calls", "count_agg"), amount="5"), amount_cents=12_900)
    box.subscribe()
    box.event("calls")
    box.travel_to("2024-04-01T05:00:00Z")
    (draft,) = box.invoices()
    charge = fee_of(draft, "charge")["svc_id"]
    box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=charge, units="3", **price)
    assert totals(box) == [total]


def test_the_minimum_of_a_charge_counts_all_its_filters_for_the_days_of_the_period(world: World) -> None:
    box = world("2023-02-04T00:00:00Z", tax="20")
    calls = box.metric("calls", filters=[{"key": "cloud", "values": ["aws", "gcp"]}])
    filters = [{"values": {"cloud": [cloud]}, "properties": {"amount": "1"}} for cloud in ("aws", "gcp")]
    box.plan(charge_on(calls, amount="0", min_amount_cents=10_000, filters=filters))
    box.subscribe()
    box.event("calls", value=20, cloud="aws")
    box.event("calls", value=50, cloud="gcp")
    box.travel_to("2023-03-01T05:00:00Z")
    (invoice,) = box.invoices()
    amounts = [fee["amount_cents"] for fee in fees_of(invoice, "charge")]
    assert sorted(amounts) == [0, share(10_000, 25, 28) - (20 + 50) * 100, 20 * 100, 50 * 100]
    assert (invoice["fees_amount_cents"], invoice["taxes_amount_cents"]) == (
        share(10_000, 25, 28),
        percent(share(10_000, 25, 28), 20),
    )


def ahead(world: World, *thresholds: int, recurring: int | None = None) -> Scenario:
    """January of a plan of 31.00 with usage at 0.0002 a unit, billed ahead at these thresholds."""
    box = world("2024-01-01T00:00:00Z")
    rows = [{"amount_cents": cents} for cents in thresholds]
    if recurring is not None:
        rows.append({"amount_cents": recurring, "recurring": True})
    box.plan(charge_on(box.metric("units"), amount="0.0002"), amount_cents=3100, usage_thresholds=rows)
    box.plan(code="larger", amount_cents=3200)
    box.subscribe()
    return box


def use(box: Scenario, day: int, units: int, month: str = "01") -> None:
    box.travel_to(f"2024-{month}-{day:02}T00:00:00Z")
    box.event("units", value=units)


def settled(box: Scenario) -> list[tuple[int, int, int]]:
    return [
        (
            invoice["fees_amount_cents"],
            invoice["progressive_billing_credit_amount_cents"],
            invoice["total_amount_cents"],
        )
        for invoice in box.invoices()
    ]


@pytest.mark.parametrize(
    ("end", "fees"),
    # An end bills its own day, an upgrade leaves it to the new plan.
    [("terminate", 20_000 + share(3100, 18, 31)), ("upgrade", 20_000 + share(3100, 17, 31))],
)
def test_what_was_billed_ahead_is_credited_when_a_plan_is_left(world: World, end: str, fees: int) -> None:
    box = ahead(world, 20_000)
    use(box, 5, 1_000_000)
    box.travel_to("2024-01-18T10:00:00Z")
    if end == "terminate":
        box.delete("/subscriptions/sub")
    else:
        box.subscribe("larger")
    box.travel_to("2024-01-19T00:00:00Z")
    assert settled(box) == [(20_000, 0, 20_000), (fees, 20_000, fees - 20_000)]


def test_usage_past_the_last_threshold_is_billed_at_the_end_of_the_month(world: World) -> None:
    box = ahead(world, 20_000)
    use(box, 5, 1_000_000)
    use(box, 15, 1_000_000)
    box.travel_to("2024-02-01T05:00:00Z")
    assert settled(box) == [(20_000, 0, 20_000), (2 * 20_000 + 3100, 20_000, 20_000 + 3100)]


def test_a_second_threshold_bills_what_the_first_has_not(world: World) -> None:
    box = ahead(world, 20_000, 50_000)
    for day in (15, 20, 25):
        use(box, day, 1_000_000)
    box.travel_to("2024-02-01T05:00:00Z")
    assert settled(box) == [(20_000, 0, 20_000), (60_000, 20_000, 40_000), (60_000 + 3100, 60_000, 3100)]


def test_a_recurring_threshold_goes_on_after_the_fixed_ones_and_into_the_next_month(world: World) -> None:
    box = ahead(world, 200, 500, 700, recurring=1000)
    for day, cents in enumerate((220, 220, 220, 220, 2200, 2200), start=3):
        use(box, day, cents * 50)
    box.travel_to("2024-02-01T05:00:00Z")
    assert [total for _, _, total in settled(box)] == [220, 2 * 220, 220, 2200, 2200, 3100]
    assert settled(box)[-1][1] == 4 * 220 + 2 * 2200
    use(box, 5, 110_000, month="02")
    box.travel_to("2024-02-06T00:00:00Z")
    assert totals(box)[-1] == 2200


def test_fees_paid_one_by_one_are_put_together_month_by_month(world: World) -> None:
    box = world("2024-06-01T00:00:00Z", tax="20")
    seats = box.metric("seats", "unique_count_agg", recurring=True)
    in_advance = {"prorated": True, "pay_in_advance": True, "invoiceable": False, "regroup_paid_fees": "invoice"}
    box.plan(charge_on(seats, amount="30.12", **in_advance))
    box.subscribe()
    for day in range(11, 16):
        box.travel_to(f"2024-06-{day}T10:00:00Z")
        box.event("seats", value=f"seat {day}")

    def fees() -> list[dict[str, Any]]:
        return sorted(box.get("/fees?fee_type=charge&per_page=100")["fees"], key=lambda fee: str(fee["created_at"]))

    def pay(*some: dict[str, Any]) -> None:
        for fee in some:
            box.put(f"/fees/{fee['svc_id']}", fee={"payment_status": "succeeded"})

    def grouped() -> list[tuple[int, int, int]]:
        return [
            (invoice["fees_amount_cents"], invoice["taxes_amount_cents"], invoice["total_amount_cents"])
            for invoice in box.invoices()
            if invoice["invoice_type"] == "advance_charges"
        ]

    def with_taxes(amounts: list[int]) -> tuple[int, int, int]:
        taxes = sum(percent(amount, 20) for amount in amounts)
        return sum(amounts), taxes, sum(amounts) + taxes

    assert [fee["amount_cents"] for fee in fees()] == [share(3012, days, 30) for days in (20, 19, 18, 17, 16)]
    pay(*fees()[:3])
    box.travel_to("2024-07-02T00:00:00Z")
    paid_in_june = [share(3012, days, 30) for days in (20, 19, 18)]
    june = with_taxes(paid_in_june)
    assert grouped() == [june]
    assert fees()[-1]["amount_cents"] == 5 * 3012  # the renewal of all five seats
    pay(*fees()[3:])
    box.travel_to("2024-08-02T00:00:00Z")
    assert grouped() == [june, with_taxes([5 * 3012, *(share(3012, days, 30) for days in (17, 16))])]


@pytest.mark.parametrize(
    ("change", "amount"),
    [
        ({"units": 15}, 10 * 200 + 5 * 150),
        ({"units": 10, "unit_amount": "3.00"}, 10 * 300),
        ({"units": 4}, 4 * 200),
    ],
)
def test_a_regenerated_graduated_line_is_priced_by_its_model_unless_it_has_a_price(
    world: World, change: RegeneratedFeeFields, amount: int
) -> None:
    box = world("2024-06-01T00:00:00Z")
    box.add_on("box", 1)
    rows = [(0, 10, "2"), (11, None, "1.5")]
    tiers = [
        {"from_value": start, "to_value": end, "per_unit_amount": unit, "flat_amount": "0"} for start, end, unit in rows
    ]
    boxes = {
        "add_on_code": "box",
        "charge_model": "graduated",
        "pay_in_advance": True,
        "units": 10,
        "properties": {"graduated_ranges": tiers},
    }
    box.plan(fixed_charges=[boxes])
    box.subscribe()
    (invoice,) = box.invoices()
    line = fee_of(invoice, "fixed_charge")
    assert line["amount_cents"] == 10 * 200
    box.billing.invoices.void(invoice["svc_id"])
    made = box.billing.invoices.regenerate(invoice["svc_id"], fees=[{**change, "id": line["svc_id"]}])
    assert fee_of(box.invoice(made.id), "fixed_charge")["amount_cents"] == amount


def preview(box: Scenario, **body: Any) -> tuple[int, int, int, str]:
    shown = box.post("/invoices/preview", customer={"external_id": "acme"}, **body)["invoice"]
    assert shown["fees_amount_cents"] == sum(fee["amount_cents"] for fee in shown["fees"])
    return (
        shown["fees_amount_cents"],
        shown["taxes_amount_cents"],
        shown["total_amount_cents"],
        shown["issuing_date"],
    )


@pytest.mark.parametrize(
    ("in_advance", "prorated", "price", "units", "amount", "issued"),
    [
        (True, False, "15", 3, 3 * 1500, "2024-03-15"),
        (True, True, "10", 100, share(100 * 1000, 17, 31), "2024-03-15"),
        (False, True, "10", 100, share(100 * 1000, 17, 31), "2024-04-01"),
        (False, False, "20", 5, 5 * 2000, "2024-04-01"),
    ],
)
def test_the_first_fixed_charges_of_a_proposal(
    world: World, in_advance: bool, prorated: bool, price: str, units: int, amount: int, issued: str
) -> None:
    box = world("2024-03-15T00:00:00Z")
    box.add_on("box", 1)
    boxes = {
        "add_on_code": "box",
        "charge_model": "standard",
        "pay_in_advance": in_advance,
        "prorated": prorated,
        "units": units,
        "properties": {"amount": price},
    }
    box.plan(fixed_charges=[boxes], pay_in_advance=in_advance)
    assert preview(box, plan_code="basic") == (amount, 0, amount, issued)


def test_the_commitment_of_a_proposal_is_that_of_its_days(world: World) -> None:
    box = world("2024-03-30T00:00:00Z")
    box.plan(interval="yearly", minimum_commitment={"amount_cents": 100_000})
    assert preview(box, plan_code="basic") == (share(100_000, 277, 366), 0, share(100_000, 277, 366), "2025-01-01")


def test_a_preview_holds_the_minimum_of_a_charge(world: World) -> None:
    box = world("2024-03-01T00:00:00Z", tax="23")
    box.plan(charge_on(box.metric("units"), amount="1", min_amount_cents=233_700))
    box.subscribe()
    box.event("units", value="16.25")
    projection = preview(box, subscriptions={"external_ids": ["sub"]})
    assert projection == (233_700, percent(233_700, 23), gross(233_700, 23), "2024-04-01")


def test_a_termination_preview_with_usage_rounds_its_tax_up(world: World) -> None:
    box = world("2024-03-30T00:00:00Z", tax="50")
    box.plan(charge_on(box.metric("calls", "count_agg"), amount="12.66"), amount_cents=100)
    box.subscribe()
    box.event("calls")
    box.event("calls")
    box.jump_to("2024-03-30T00:01:00Z")
    ends = {"external_ids": ["sub"], "terminated_at": "2024-03-30T00:02:00Z"}
    # Two calls, and the last two days of March of a plan of 1.00; or the first of these days only.
    to_the_end, one_day = 2 * 1266 + share(100, 2, 31), 2 * 1266 + share(100, 1, 31)
    assert preview(box, subscriptions={"external_ids": ["sub"]}) == (
        to_the_end,
        percent(to_the_end, 50),
        gross(to_the_end, 50),
        "2024-04-01",
    )
    assert preview(box, subscriptions=ends) == (one_day, percent(one_day, 50), gross(one_day, 50), "2024-03-30")


@pytest.mark.parametrize(
    ("entity", "customer", "cents", "issued"),
    [
        (False, "inherit", 0, []),
        (False, "finalize", 0, ["finalized"]),
        (True, "skip", 0, []),
        (True, "inherit", 0, ["finalized"]),
        (False, "inherit", 5, ["finalized"]),
        (False, "skip", 5, ["finalized"]),
    ],
)
def test_an_invoice_of_nothing_is_issued_as_the_customer_or_its_billing_entity_says(
    world: World, entity: bool, customer: Any, cents: int, issued: list[str]
) -> None:
    box = world("2024-03-01T00:00:00Z")
    box.billing.billing_entities.update("default", finalize_zero_amount_invoice=entity)
    box.billing.customers.upsert(external_id="acme", finalize_zero_amount_invoice=customer)
    box.plan(amount_cents=cents, pay_in_advance=True)
    box.subscribe()
    assert [invoice["status"] for invoice in box.invoices()] == issued


def test_a_coupon_on_one_of_two_fees_with_two_taxes(world: World) -> None:
    box = world("2024-01-01T00:00:00Z", tax="10")
    box.tax("20", name="City", code="city")
    box.plan(charge_on(box.metric("calls", "count_agg"), amount="3.79"), amount_cents=151)
    box.subscribe()
    box.event("calls")
    coupon = {
        "name": "Calls",
        "code": "calls",
        "coupon_type": "fixed_amount",
        "amount_cents": 100,
        "amount_currency": "EUR",
        "frequency": "once",
        "expiration": "no_expiration",
        "applies_to": {"billable_metric_codes": ["calls"]},
    }
    box.post("/coupons", coupon=coupon)
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "calls"})
    box.travel_to("2024-02-01T05:00:00Z")
    (invoice,) = box.invoices()
    assert (fee_of(invoice, "subscription")["taxes_amount_cents"], fee_of(invoice, "charge")["taxes_amount_cents"]) == (
        percent(151, 30),
        percent(379 - 100, 30),
    )
    assert [invoice[f"{name}_amount_cents"] for name in ("fees", "coupons", "taxes", "total")] == [
        151 + 379,
        100,
        percent(151 + 379 - 100, 30),
        gross(151 + 379 - 100, 30),
    ]


@pytest.mark.parametrize(
    ("amount", "rates", "lines", "taxes"), [(333, ("1.15", "1.35"), [4, 4], 8), (50, ("1", "1"), [1, 0], 1)]
)
def test_taxes_of_a_fee_add_up_to_their_sum_rounded_once(
    world: World, amount: int, rates: tuple[str, str], lines: list[int], taxes: int
) -> None:
    box = world("2024-01-01T00:00:00Z", tax=rates[0])
    box.tax(rates[1], name="City", code="city")
    box.plan(amount_cents=amount, pay_in_advance=True)
    box.subscribe()
    (invoice,) = box.invoices()
    fee = fee_of(invoice, "subscription")
    assert [tax["amount_cents"] for tax in fee["applied_taxes"]] == lines
    assert (fee["taxes_amount_cents"], invoice["taxes_amount_cents"]) == (taxes, taxes)
