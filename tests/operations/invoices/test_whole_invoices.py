"""Whole invoices in numbers: drafts, adjustments, minimums, usage billed ahead, fees paid one by one, previews."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.price_list import PriceList
from tests.scenarios import ask, details, invoices_of

from usagebill.testing import Sandbox

World = Callable[..., PriceList]


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as boxes:

        def make(now: str, tax: str | None = None, grace: int = 0) -> PriceList:
            """A customer, with this grace period in days, whose invoices carry this tax."""
            list_ = PriceList(
                boxes.enter_context(Sandbox(now=now)), billing_configuration={"invoice_grace_period": grace}
            )
            if tax is not None:
                list_.post("/taxes", tax={"name": "VAT", "code": "vat", "rate": tax, "applied_to_organization": True})
            return list_

        yield make


def standard(metric: str, amount: str, **fields: Any) -> dict[str, Any]:
    return {"billable_metric_id": metric, "charge_model": "standard", "properties": {"amount": amount}, **fields}


def totals(list_: PriceList) -> list[int]:
    return [invoice["total_amount_cents"] for invoice in invoices_of(list_.box)]


def fee_of(invoice: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = [fee for fee in invoice["fees"] if fee["item"]["type"] == kind]
    return dict(found)


def notes(list_: PriceList) -> list[tuple[int, int]]:
    """Total and balance of each credit note."""
    found = list_.get("/credit_notes")["credit_notes"]
    return [(note["total_amount_cents"], note["balance_amount_cents"]) for note in found]


def test_a_draft_takes_in_a_late_event_when_it_is_refreshed(world: World) -> None:
    list_ = world("2022-12-15T00:00:00Z", tax="20", grace=20)
    list_.plan(standard(list_.metric("calls", "count_agg"), "1"), amount_cents=1000, pay_in_advance=True)
    list_.subscribe()
    list_.box.travel_to("2022-12-20T00:00:00Z")
    list_.event("calls")
    list_.event("calls")
    list_.box.travel_to("2023-01-01T05:00:00Z")
    assert totals(list_) == [658, 1440]
    list_.post(
        "/events",
        event={
            "transaction_id": "late",
            "code": "calls",
            "external_subscription_id": "sub",
            "timestamp": "1671321600",  # 2022-12-18
        },
    )
    assert totals(list_) == [658, 1440]
    first, second = (f"/invoices/{invoice['svc_id']}" for invoice in invoices_of(list_.box))
    ask(list_.box, "PUT", f"{first}/refresh")
    ask(list_.box, "PUT", f"{second}/refresh")
    assert totals(list_) == [658, 1560]
    ask(list_.box, "PUT", f"{first}/finalize")
    ask(list_.box, "PUT", f"{second}/finalize")
    assert totals(list_) == [658, 1560]


def test_a_credit_note_pays_for_an_adjusted_draft_once_it_is_issued(world: World) -> None:
    list_ = world("2024-02-01T00:00:00Z", grace=3)
    seats = list_.metric("seats", recurring=True)
    list_.plan(standard(seats, "5", prorated=True), amount_cents=2900, pay_in_advance=True)
    list_.subscribe()
    list_.event("seats", value=1)
    list_.box.travel_to("2024-02-12T06:00:00Z")
    ask(list_.box, "DELETE", "/subscriptions/sub")
    last = invoices_of(list_.box)[-1]
    assert (last["total_amount_cents"], notes(list_)) == (207, [(1700, 1700)])
    list_.box.billing.invoices.adjust_fee(
        last["svc_id"], fee_id=fee_of(last, "charge")["svc_id"], units="3", unit_precise_amount="5"
    )
    adjusted = details(list_.box, last["svc_id"])
    assert (adjusted["total_amount_cents"], adjusted["credit_notes_amount_cents"]) == (1500, 0)
    issued = ask(list_.box, "PUT", f"/invoices/{last['svc_id']}/finalize")["invoice"]
    assert (issued["total_amount_cents"], issued["credit_notes_amount_cents"]) == (0, 1500)
    assert notes(list_) == [(1700, 200)]


@pytest.mark.parametrize(("price", "total"), [({}, 14_400), ({"unit_precise_amount": "150.00"}, 57_900)])
def test_adjusted_usage_stands_beside_the_base_fee(world: World, price: dict[str, str], total: int) -> None:
    list_ = world("2024-03-01T00:00:00Z", grace=3)
    list_.plan(standard(list_.metric("calls", "count_agg"), "5"), amount_cents=12_900)
    list_.subscribe()
    list_.event("calls")
    list_.box.travel_to("2024-04-01T05:00:00Z")
    (draft,) = invoices_of(list_.box)
    charge = fee_of(draft, "charge")["svc_id"]
    list_.box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=charge, units="3", **price)
    assert totals(list_) == [total]


def test_the_minimum_of_a_charge_counts_all_its_filters_for_the_days_of_the_period(world: World) -> None:
    list_ = world("2023-02-04T00:00:00Z", tax="20")
    calls = list_.metric("calls", filters=[{"key": "cloud", "values": ["aws", "gcp"]}])
    filters = [{"values": {"cloud": [cloud]}, "properties": {"amount": "1"}} for cloud in ("aws", "gcp")]
    list_.plan(standard(calls, "0", min_amount_cents=10_000, filters=filters))
    list_.subscribe()
    list_.event("calls", value=20, cloud="aws")
    list_.event("calls", value=50, cloud="gcp")
    list_.box.travel_to("2023-03-01T05:00:00Z")
    (invoice,) = invoices_of(list_.box)
    amounts = [fee["amount_cents"] for fee in invoice["fees"] if fee["item"]["type"] == "charge"]
    assert sorted(amounts) == [0, 1929, 2000, 5000]
    assert (invoice["fees_amount_cents"], invoice["taxes_amount_cents"]) == (8929, 1786)


def ahead(world: World, *thresholds: int, recurring: int | None = None) -> PriceList:
    """January of a plan of 31.00 with usage at 0.0002 a unit, billed ahead at these thresholds."""
    list_ = world("2024-01-01T00:00:00Z")
    rows = [{"amount_cents": cents} for cents in thresholds]
    if recurring is not None:
        rows.append({"amount_cents": recurring, "recurring": True})
    list_.plan(standard(list_.metric("units"), "0.0002"), amount_cents=3100, usage_thresholds=rows)
    list_.plan(code="larger", amount_cents=3200)
    list_.subscribe()
    return list_


def use(list_: PriceList, day: int, units: int, month: str = "01") -> None:
    list_.box.travel_to(f"2024-{month}-{day:02}T00:00:00Z")
    list_.event("units", value=units)


def settled(list_: PriceList) -> list[tuple[int, int, int]]:
    return [
        (
            invoice["fees_amount_cents"],
            invoice["progressive_billing_credit_amount_cents"],
            invoice["total_amount_cents"],
        )
        for invoice in invoices_of(list_.box)
    ]


@pytest.mark.parametrize(("end", "fees"), [("terminate", 21_800), ("upgrade", 21_700)])
def test_what_was_billed_ahead_is_credited_when_a_plan_is_left(world: World, end: str, fees: int) -> None:
    list_ = ahead(world, 20_000)
    use(list_, 5, 1_000_000)
    list_.box.travel_to("2024-01-18T10:00:00Z")
    if end == "terminate":
        ask(list_.box, "DELETE", "/subscriptions/sub")
    else:
        list_.subscribe("larger")
    list_.box.travel_to("2024-01-19T00:00:00Z")
    assert settled(list_) == [(20_000, 0, 20_000), (fees, 20_000, fees - 20_000)]


def test_usage_past_the_last_threshold_is_billed_at_the_end_of_the_month(world: World) -> None:
    list_ = ahead(world, 20_000)
    use(list_, 5, 1_000_000)
    use(list_, 15, 1_000_000)
    list_.box.travel_to("2024-02-01T05:00:00Z")
    assert settled(list_) == [(20_000, 0, 20_000), (43_100, 20_000, 23_100)]


def test_a_second_threshold_bills_what_the_first_has_not(world: World) -> None:
    list_ = ahead(world, 20_000, 50_000)
    for day in (15, 20, 25):
        use(list_, day, 1_000_000)
    list_.box.travel_to("2024-02-01T05:00:00Z")
    assert settled(list_) == [(20_000, 0, 20_000), (60_000, 20_000, 40_000), (63_100, 60_000, 3100)]


def test_a_recurring_threshold_goes_on_after_the_fixed_ones_and_into_the_next_month(world: World) -> None:
    list_ = ahead(world, 200, 500, 700, recurring=1000)
    for day, cents in enumerate((220, 220, 220, 220, 2200, 2200), start=3):
        use(list_, day, cents * 50)
    list_.box.travel_to("2024-02-01T05:00:00Z")
    assert [total for _, _, total in settled(list_)] == [220, 440, 220, 2200, 2200, 3100]
    assert settled(list_)[-1][1] == 5280
    use(list_, 5, 110_000, month="02")
    list_.box.travel_to("2024-02-06T00:00:00Z")
    assert totals(list_)[-1] == 2200


def test_fees_paid_one_by_one_are_put_together_month_by_month(world: World) -> None:
    list_ = world("2024-06-01T00:00:00Z", tax="20")
    seats = list_.metric("seats", "unique_count_agg", recurring=True)
    own = {"prorated": True, "pay_in_advance": True, "invoiceable": False, "regroup_paid_fees": "invoice"}
    list_.plan(standard(seats, "30.12", **own))
    list_.subscribe()
    for day in range(11, 16):
        list_.box.travel_to(f"2024-06-{day}T10:00:00Z")
        list_.event("seats", value=f"seat {day}")

    def fees() -> list[dict[str, Any]]:
        return sorted(list_.get("/fees?fee_type=charge&per_page=100")["fees"], key=lambda fee: str(fee["created_at"]))

    def pay(*some: dict[str, Any]) -> None:
        for fee in some:
            ask(list_.box, "PUT", f"/fees/{fee['svc_id']}", {"fee": {"payment_status": "succeeded"}})

    def grouped() -> list[tuple[int, int, int]]:
        return [
            (invoice["fees_amount_cents"], invoice["taxes_amount_cents"], invoice["total_amount_cents"])
            for invoice in invoices_of(list_.box)
            if invoice["invoice_type"] == "advance_charges"
        ]

    assert [fee["amount_cents"] for fee in fees()] == [2008, 1908, 1807, 1707, 1606]
    pay(*fees()[:3])
    list_.box.travel_to("2024-07-02T00:00:00Z")
    assert grouped() == [(5723, 1145, 6868)]
    assert fees()[-1]["amount_cents"] == 15_060  # the renewal of all five seats
    pay(*fees()[3:])
    list_.box.travel_to("2024-08-02T00:00:00Z")
    assert grouped() == [(5723, 1145, 6868), (18_373, 3674, 22_047)]


@pytest.mark.parametrize(
    ("change", "amount"), [({"units": 15}, 2750), ({"units": 10, "unit_amount": "3.00"}, 3000), ({"units": 4}, 800)]
)
def test_a_graduated_line_made_anew_is_priced_by_its_model_unless_it_has_a_price(
    world: World, change: dict[str, Any], amount: int
) -> None:
    list_ = world("2024-06-01T00:00:00Z")
    list_.post("/add_ons", add_on={"name": "Box", "code": "box", "amount_cents": 1, "amount_currency": "EUR"})
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
    list_.plan(fixed_charges=[boxes])
    list_.subscribe()
    (invoice,) = invoices_of(list_.box)
    line = fee_of(invoice, "fixed_charge")
    assert line["amount_cents"] == 2000
    list_.box.billing.invoices.void(invoice["svc_id"])
    made = list_.box.billing.invoices.regenerate(invoice["svc_id"], fees=[{"id": line["svc_id"], **change}])
    assert fee_of(details(list_.box, made.id), "fixed_charge")["amount_cents"] == amount


def preview(list_: PriceList, **body: Any) -> tuple[int, int, int, str]:
    shown = list_.post("/invoices/preview", customer={"external_id": "acme"}, **body)["invoice"]
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
        (True, False, "15", 3, 4500, "2024-03-15"),
        (True, True, "10", 100, 54_839, "2024-03-15"),
        (False, True, "10", 100, 54_839, "2024-04-01"),
        (False, False, "20", 5, 10_000, "2024-04-01"),
    ],
)
def test_the_first_fixed_charges_of_a_proposal(
    world: World, in_advance: bool, prorated: bool, price: str, units: int, amount: int, issued: str
) -> None:
    list_ = world("2024-03-15T00:00:00Z")
    list_.post("/add_ons", add_on={"name": "Box", "code": "box", "amount_cents": 1, "amount_currency": "EUR"})
    boxes = {
        "add_on_code": "box",
        "charge_model": "standard",
        "pay_in_advance": in_advance,
        "prorated": prorated,
        "units": units,
        "properties": {"amount": price},
    }
    list_.plan(fixed_charges=[boxes], pay_in_advance=in_advance)
    assert preview(list_, plan_code="plan") == (amount, 0, amount, issued)


def test_the_commitment_of_a_proposal_is_that_of_its_days(world: World) -> None:
    list_ = world("2024-03-30T00:00:00Z")
    list_.plan(interval="yearly", minimum_commitment={"amount_cents": 100_000})
    assert preview(list_, plan_code="plan") == (75_683, 0, 75_683, "2025-01-01")


def test_a_preview_holds_the_minimum_of_a_charge(world: World) -> None:
    list_ = world("2024-03-01T00:00:00Z", tax="23")
    list_.plan(standard(list_.metric("units"), "1", min_amount_cents=233_700))
    list_.subscribe()
    list_.event("units", value="16.25")
    projection = preview(list_, subscriptions={"external_ids": ["sub"]})
    assert projection == (233_700, 53_751, 287_451, "2024-04-01")


def test_a_termination_preview_with_usage_rounds_its_tax_up(world: World) -> None:
    list_ = world("2024-03-30T00:00:00Z", tax="50")
    list_.plan(standard(list_.metric("calls", "count_agg"), "12.66"), amount_cents=100)
    list_.subscribe()
    list_.event("calls")
    list_.event("calls")
    list_.box.jump_to("2024-03-30T00:01:00Z")
    ends = {"external_ids": ["sub"], "terminated_at": "2024-03-30T00:02:00Z"}
    assert preview(list_, subscriptions={"external_ids": ["sub"]}) == (2538, 1269, 3807, "2024-04-01")
    assert preview(list_, subscriptions=ends) == (2535, 1268, 3803, "2024-03-30")


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
    world: World, entity: bool, customer: str, cents: int, issued: list[str]
) -> None:
    list_ = world("2024-03-01T00:00:00Z")
    list_.box.billing.billing_entities.update("default", finalize_zero_amount_invoice=entity)
    list_.box.billing.customers.upsert(external_id="acme", finalize_zero_amount_invoice=customer)
    list_.plan(amount_cents=cents, pay_in_advance=True)
    list_.subscribe()
    assert [invoice["status"] for invoice in invoices_of(list_.box)] == issued


def test_a_coupon_on_one_of_two_fees_with_two_taxes(world: World) -> None:
    list_ = world("2024-01-01T00:00:00Z", tax="10")
    list_.post("/taxes", tax={"name": "City", "code": "city", "rate": "20", "applied_to_organization": True})
    list_.plan(standard(list_.metric("calls", "count_agg"), "3.79"), amount_cents=151)
    list_.subscribe()
    list_.event("calls")
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
    list_.post("/coupons", coupon=coupon)
    list_.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "calls"})
    list_.box.travel_to("2024-02-01T05:00:00Z")
    (invoice,) = invoices_of(list_.box)
    assert (fee_of(invoice, "subscription")["taxes_amount_cents"], fee_of(invoice, "charge")["taxes_amount_cents"]) == (
        45,
        84,
    )
    assert [invoice[f"{name}_amount_cents"] for name in ("fees", "coupons", "taxes", "total")] == [530, 100, 129, 559]


@pytest.mark.parametrize(
    ("amount", "rates", "lines", "taxes"), [(333, ("1.15", "1.35"), [4, 4], 8), (50, ("1", "1"), [1, 1], 1)]
)
def test_each_tax_of_a_fee_is_rounded_by_itself_and_their_sum_again(
    world: World, amount: int, rates: tuple[str, str], lines: list[int], taxes: int
) -> None:
    list_ = world("2024-01-01T00:00:00Z", tax=rates[0])
    list_.post("/taxes", tax={"name": "City", "code": "city", "rate": rates[1], "applied_to_organization": True})
    list_.plan(amount_cents=amount, pay_in_advance=True)
    list_.subscribe()
    (invoice,) = invoices_of(list_.box)
    fee = fee_of(invoice, "subscription")
    assert [tax["amount_cents"] for tax in fee["applied_taxes"]] == lines
    assert (fee["taxes_amount_cents"], invoice["taxes_amount_cents"]) == (taxes, taxes)
