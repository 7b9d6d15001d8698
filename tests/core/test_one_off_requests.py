"""Which one-off invoices are refused, and what their lines come to, in tables."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, fees, invoice

from usagebill.core import limits
from usagebill.core.add_ons import AddOn
from usagebill.core.errors import Invalid
from usagebill.core.one_off_requests import (
    OneOffLine,
    check_amounts,
    check_fees,
    check_units,
    line_period,
    one_off_fee,
    one_off_problems,
)

DAY = timedelta(days=1)
SETUP = AddOn(
    id="setup",
    organization_id="organization",
    name="Setup",
    code="setup",
    amount_cents=12_00,
    amount_currency="EUR",
    description="on site",
    created_at=NOW,
    updated_at=NOW,
)


@pytest.mark.parametrize(
    ("facts", "problems"),
    [
        ({}, {}),
        ({"currency": "XXX"}, {"currency": ["value_is_invalid"]}),
        ({"order_number": "n" * 255}, {}),
        ({"order_number": "n" * 256}, {"purchase_order_number": ["value_is_too_long"]}),
        ({"knows_method": False}, {"payment_method": ["invalid_payment_method"]}),
        (
            {"currency": "", "knows_method": False},
            {"currency": ["value_is_invalid"], "payment_method": ["invalid_payment_method"]},
        ),
    ],
)
def test_what_is_refused(facts: dict[str, Any], problems: dict[str, object]) -> None:
    assert one_off_problems(**{"currency": "EUR", "order_number": None, "knows_method": True, **facts}) == problems


@pytest.mark.parametrize(
    ("starts", "ends", "has_bounds", "period"),
    [
        (None, None, False, (NOW, NOW)),
        (NOW - DAY, NOW, True, (NOW - DAY, NOW)),
        (NOW, NOW, True, (NOW, NOW)),
        (NOW, NOW - DAY, True, None),
        (NOW, None, True, None),
        (None, NOW, True, None),
        (None, None, True, None),
    ],
)
def test_what_a_line_is_for(
    starts: datetime | None, ends: datetime | None, has_bounds: bool, period: tuple[datetime, datetime] | None
) -> None:
    if period is None:
        with pytest.raises(Invalid) as refused:
            line_period(starts, ends, NOW, has_bounds=has_bounds)
        assert refused.value.details == {"boundaries": ["values_are_invalid"]}
    else:
        assert line_period(starts, ends, NOW, has_bounds=has_bounds) == period


def line(**fields: Any) -> OneOffLine:
    return OneOffLine(**{"add_on": SETUP, "starts": NOW - DAY, "ends": NOW, **fields})


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({}, {"amount_cents": 12_00, "unit_amount_cents": 12_00, "description": "on site"}),
        ({"units": Decimal(3)}, {"amount_cents": 3 * 12_00, "units": Decimal(3)}),
        (
            {"units": Decimal(3), "unit_amount_cents": 5},
            {"amount_cents": 3 * 5, "precise_unit_amount": Decimal("0.05")},
        ),
        ({"unit_amount_cents": 0}, {"amount_cents": 0}),
        ({"unit_amount_cents": -50}, {"amount_cents": -50}),
        # Halves are rounded away from zero.
        (
            {"units": Decimal("0.5"), "unit_amount_cents": 5},
            {"amount_cents": 3, "precise_amount_cents": Decimal("2.5")},
        ),
        ({"description": "remote"}, {"description": "remote"}),
        ({}, {"from_datetime": NOW - DAY, "to_datetime": NOW, "add_on_id": "setup", "fee_type": "add_on"}),
    ],
)
def test_the_fee_of_a_line(sent: dict[str, Any], shown: dict[str, object]) -> None:
    fee = one_off_fee("fee", invoice(), line(**sent), NOW)
    assert {name: getattr(fee, name) for name in shown} == shown


@pytest.mark.parametrize(("sent", "shown"), [(None, "Setup"), ("", "Setup"), ("Onboarding", "Onboarding")])
def test_the_name_that_a_line_shows(sent: str | None, shown: str) -> None:
    fee = one_off_fee("fee", invoice(), line(invoice_display_name=sent), NOW)
    assert fee.item.invoice_display_name == shown


@given(units=st.decimals("0", "1e6", places=4), cents=st.integers(-(10**6), 10**6))
def test_a_line_is_within_half_a_cent_of_units_times_price(units: Decimal, cents: int) -> None:
    fee = one_off_fee("fee", invoice(), line(units=units, unit_amount_cents=cents), NOW)
    assert abs(fee.amount_cents - units * cents) <= Decimal("0.5")


def test_units_are_bounded() -> None:
    check_units(Decimal(1))
    with pytest.raises(Invalid):
        check_units(Decimal(10) ** 40)


def test_fees_of_either_sign_count_against_the_most_that_an_invoice_can_hold() -> None:
    most = int(limits.ONE_OFF_TOTAL.most or 0)
    check_fees(fees(most))
    for amounts in ([most, 1], [-most, 1], [most, -1]):
        with pytest.raises(Invalid):
            check_fees(fees(*amounts))


@pytest.mark.parametrize(
    ("fees_cents", "total_cents", "is_refused"), [(0, 0, False), (1, 1, False), (-1, 0, True), (1, -1, True)]
)
def test_nothing_is_owed_to_the_customer(fees_cents: int, total_cents: int, is_refused: bool) -> None:
    bill = invoice(fees_amount_cents=fees_cents, total_amount_cents=total_cents)
    if is_refused:
        with pytest.raises(Invalid):
            check_amounts(bill)
    else:
        check_amounts(bill)
