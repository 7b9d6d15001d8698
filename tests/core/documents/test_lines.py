"""The rows of fees: their names, their order, and the parts of their amounts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from usagebill.core.documents.content import Row
from usagebill.core.documents.lines import Naming, fee_name, fee_rows, is_average, ordered, shown_fees
from usagebill.core.documents.words import words_of
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.invoices.records import BilledPlan
from usagebill.core.pricing import amount_details, parse_properties
from usagebill.core.usage import Usage

NOW = datetime(2024, 2, 1, tzinfo=UTC)
PLAN = BilledPlan(name="Basic", interval="monthly")
NAMING = Naming(words=words_of("en"), locale="en", zone=UTC, subscription_names={"s": "Main"}, plans={"s": PLAN})


def fee(kind: str = "charge", name: str = "Calls", cents: int = 100, **fields: Any) -> Fee:
    item = FeeItem(type=FeeType(kind), item_type="X", id="x", code="x", name=name, **fields.pop("item", {}))
    values: dict[str, Any] = {
        "id": name,
        "organization_id": "o",
        "customer_id": "c",
        "subscription_id": "s",
        "fee_type": kind,
        "item": item,
        "amount_cents": cents,
        "precise_amount_cents": Decimal(cents),
        "currency": "EUR",
        "units": Decimal(1),
        "precise_unit_amount": Decimal(cents) / 100,
        "taxes_rate": Decimal(20),
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Fee(**values)


def cells(rows: list[Row]) -> list[tuple[str, str, str, str]]:
    return [(row.name, row.units, row.unit_price, row.amount) for row in rows]


def test_names_say_interval_groups_filters_and_true_ups() -> None:
    assert fee_name(fee("subscription", "Basic"), NAMING) == "Monthly subscription - Basic"
    named = fee("subscription", "Basic", item={"invoice_display_name": "Main"})
    assert fee_name(named, NAMING) == "Monthly subscription - Basic"
    adjusted = fee("subscription", "Basic", item={"invoice_display_name": "Goodwill"})
    assert fee_name(adjusted, NAMING) == "Goodwill"
    grouped = fee(grouped_by={"cloud": "aws", "zone": None}, filters={"region": ("eu", "us")})
    assert fee_name(grouped, NAMING) == "Calls • aws • eu • us"
    filtered = fee(filters={"region": ("eu",)}, item={"filter_invoice_display_name": "Europe"})
    assert fee_name(filtered, NAMING) == "Calls • Europe"
    assert fee_name(fee(true_up_parent_fee_id="f"), NAMING) == "Calls - True-up"
    assert fee_name(fee("credit", "credit"), NAMING) == "Prepaid credits"
    assert fee_name(fee("credit", "credit", description="Flights"), NAMING) == "Prepaid credits - Flights"
    assert fee_name(fee("credit", "Ten credits", description="Flights"), NAMING) == "Ten credits"


def test_a_plain_fee_is_one_row() -> None:
    [row] = fee_rows(fee(units=Decimal("3.5"), cents=350, precise_unit_amount=Decimal("1")), NAMING)
    assert row == Row(name="Calls", units="3.5", unit_price="€1.00", tax_rate="20%", amount="€3.50")


def details(model: str, properties: dict[str, Any], units: str) -> dict[str, object]:
    usage = Usage(units=Decimal(units))
    return amount_details(model, parse_properties(model, properties, subunits=100), usage)


def test_graduated_ranges_come_first_then_their_flat_fees() -> None:
    ranges = [
        {"from_value": 0, "to_value": 10, "per_unit_amount": "0.5", "flat_amount": "1"},
        {"from_value": 11, "to_value": 20, "per_unit_amount": "0.4", "flat_amount": "0"},
        {"from_value": 21, "to_value": None, "per_unit_amount": "0.1", "flat_amount": "2"},
    ]
    shown = details("graduated", {"graduated_ranges": ranges}, "25")
    rows = fee_rows(fee(cents=1250, units=Decimal(25), amount_details=shown), NAMING)
    assert cells(rows) == [
        ("Calls", "", "", ""),
        ("Fee per unit for the first 10", "10", "€0.50", "€5.00"),
        ("Fee per unit for the next 11 to 20", "10", "€0.40", "€4.00"),
        ("Fee per unit for 21 and above", "5", "€0.10", "€0.50"),
        ("Flat fee for the first 10", "1", "€1.00", "€1.00"),
        ("Flat fee for 21 and above", "1", "€2.00", "€2.00"),
        ("Subtotal", "", "", "€12.50"),
    ]
    assert [row.kind for row in rows] == ["fee", *["part"] * 5, "subtotal"]


def test_ranges_of_a_graduated_percentage_show_their_rates() -> None:
    ranges = [
        {"from_value": 0, "to_value": 100, "rate": "1", "flat_amount": "0"},
        {"from_value": 101, "to_value": None, "rate": "2.5", "flat_amount": "0"},
    ]
    shown = details("graduated_percentage", {"graduated_percentage_ranges": ranges}, "200")
    rows = cells(fee_rows(fee(cents=350, units=Decimal(200), amount_details=shown), NAMING))
    assert rows[1:] == [
        ("Fee per unit for the first 100", "100", "1%", "€1.00"),
        ("Fee per unit for 101 and above", "100", "2.5%", "€2.50"),
        ("Subtotal", "", "", "€3.50"),
    ]


def test_packages_show_what_was_free() -> None:
    shown = details("package", {"amount": "5", "free_units": 5, "package_size": 10}, "12")
    rows = cells(fee_rows(fee(cents=500, units=Decimal(12), amount_details=shown), NAMING))
    assert rows[1:] == [
        ("Free units", "5", "€0.00", "€0.00"),
        ("Fee per package", "7", "€5.00 per 10", "€5.00"),
        ("Subtotal", "", "", "€5.00"),
    ]


def test_volume_shows_the_flat_fee_of_all_units() -> None:
    ranges = [{"from_value": 0, "to_value": None, "per_unit_amount": "0.25", "flat_amount": "3"}]
    shown = details("volume", {"volume_ranges": ranges}, "8")
    rows = cells(fee_rows(fee(cents=500, units=Decimal(8), amount_details=shown), NAMING))
    assert rows[1:] == [
        ("Fee per unit", "8", "€0.25", "€2.00"),
        ("Flat fee for all units", "1", "€3.00", "€3.00"),
        ("Subtotal", "", "", "€5.00"),
    ]


def test_percentage_shows_free_units_the_rate_fixed_fees_and_adjustments() -> None:
    shown = {
        "units": "300.0",
        "free_units": "100.0",
        "free_events": 1,
        "paid_units": "200.0",
        "rate": "1.2",
        "per_unit_total_amount": "2.4",
        "paid_events": 2,
        "fixed_fee_unit_amount": "0.5",
        "fixed_fee_total_amount": "1.0",
        "min_max_adjustment_total_amount": "-0.4",
    }
    rows = fee_rows(fee(cents=300, units=Decimal(300), events_count=3, amount_details=shown), NAMING)
    assert rows[0].notes == ("Total events: 3",)
    assert cells(rows)[1:] == [
        ("Free units", "100", "€0.00", "€0.00"),
        ("Rate on the amount", "200", "1.2%", "€2.40"),
        ("Fixed fee per transaction", "2", "€0.50", "€1.00"),
        ("Adjustment for minimum and maximum per transaction", "", "", "-€0.40"),
        ("Subtotal", "", "", "€3.00"),
    ]


def test_a_fee_of_nothing_is_not_broken_down() -> None:
    shown = details("package", {"amount": "5", "free_units": 50, "package_size": 10}, "12")
    assert len(fee_rows(fee(cents=0, units=Decimal(12), amount_details=shown), NAMING)) == 1


def test_amounts_of_a_pricing_unit_are_converted_at_the_end() -> None:
    unit = {"short_name": "CR", "amount_cents": 1200, "precise_unit_amount": "4.0", "conversion_rate": "0.5"}
    rows = fee_rows(fee(cents=600, units=Decimal(3), pricing_unit_details=unit), NAMING)
    assert cells(rows) == [
        ("Calls", "", "", ""),
        ("Calls", "3", "4.00 CR", "12.00 CR"),
        ("Conversion rate: 1 CR = €0.50", "", "", "€6.00"),
        ("Subtotal", "", "", "€6.00"),
    ]


def test_notes_tell_prorated_units_and_breakdowns() -> None:
    naming = replace(NAMING, averaged=frozenset({"f1"}), per_second=frozenset({"c2"}))
    assert fee_rows(fee(id="f1", charge_id="c1"), naming)[0].notes == (
        "The unit price is an average: units are prorated",
    )
    assert fee_rows(fee(charge_id="c2"), naming)[0].notes == ("Units are prorated per second",)
    shown = ({"presentation_by": {"region": "eu"}, "units": "2.5"}, {"presentation_by": {"region": None}, "units": "1"})
    assert fee_rows(fee(presentation_breakdowns=shown), naming)[0].notes == ("eu: 2.5", "-: 1")


def test_the_unit_price_of_a_whole_period_is_no_average() -> None:
    seat = {"amount": "30"}
    assert not is_average(fee(precise_unit_amount=Decimal("30.0")), seat)
    assert is_average(fee(precise_unit_amount=Decimal("15.4839")), seat)
    tiers = {"graduated_ranges": [{"units": "2", "per_unit_amount": "9"}, {"units": "1", "per_unit_amount": "8"}]}
    assert not is_average(fee(units=Decimal(3), amount_details=tiers), {})
    assert is_average(fee(units=Decimal(4), amount_details=tiers), {})


def test_an_add_on_says_what_it_is_and_when() -> None:
    march: dict[str, Any] = {
        "from_datetime": datetime(2024, 3, 1, tzinfo=UTC),
        "to_datetime": datetime(2024, 3, 31, 23, tzinfo=UTC),
    }
    [row] = fee_rows(fee("add_on", "Setup", description="On site", **march), NAMING)
    assert row.notes == ("On site", "From Mar 1, 2024 to Mar 31, 2024")


def test_fees_stand_in_order_with_true_ups_behind_what_they_bring_up() -> None:
    fees = [
        fee("commitment", "Minimum"),
        fee("charge", "storage", id="f1"),
        fee("charge", "storage", id="f0", true_up_parent_fee_id="f1"),
        fee("charge", "Calls"),
        fee("fixed_charge", "Zeal"),
        fee("fixed_charge", "Anvil"),
        fee("subscription", "Basic"),
    ]
    assert [fee_name(line, NAMING) for line in ordered(fees, NAMING)] == [
        "Monthly subscription - Basic",
        "Anvil",
        "Zeal",
        "Calls",
        "storage",
        "storage - True-up",
        "Minimum",
    ]


def shown_ids(*fees: Fee, progressive: bool = False) -> list[str]:
    return [shown.id for shown in shown_fees(fees, progressive=progressive)]


def test_rows_of_nothing_are_left_out() -> None:
    base, usage = fee("subscription", "base", 0), fee("charge", "usage", 500)
    nothing = fee("charge", "nothing", 0, units=Decimal(0))
    brought_up = fee("charge", "true-up", 500, true_up_parent_fee_id="nothing")
    free = fee("charge", "free", 0, units=Decimal(3))
    assert shown_ids(base, nothing) == ["base"]
    assert shown_ids(base, usage, nothing, free) == ["usage", "free"]
    assert shown_ids(nothing, brought_up) == ["nothing", "true-up"]


@pytest.mark.parametrize("cents", [0, 100])
def test_progressive_billing_shows_usage_in_arrears_only(cents: int) -> None:
    base, advance = fee("subscription", "base", cents), fee("charge", "advance", 100, pay_in_advance=True)
    assert shown_ids(base, advance, fee("charge", "usage", 100), progressive=True) == ["usage"]
