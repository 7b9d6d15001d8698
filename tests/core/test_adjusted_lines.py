"""Lines of a draft as a person adjusts them: which line an adjustment is of, where it stands, what follows from it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.core.builders import NOW, fee
from tests.core.test_charge_lines import charge, days

from usagebill.core.adjusted_fees import AdjustedFee, fits, with_adjusted_lines, with_new_true_up
from usagebill.core.charge_ledger import group_text
from usagebill.core.fees import Fee


def line(cents: int, id: str = "line", **fields: Any) -> Fee:
    return fee(cents, id=id, **{"subscription_id": "sub", "charge_id": "charge", "events_count": 1, **fields})


def adjustment(**fields: Any) -> AdjustedFee:
    values: dict[str, Any] = {
        "id": "adjustment",
        "organization_id": "organization",
        "invoice_id": "invoice",
        "subscription_id": "sub",
        "fee_type": "charge",
        "group": group_text({}),
        "charge_id": "charge",
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return AdjustedFee(**values)


def priced(units: int, cents: int, **fields: Any) -> AdjustedFee:
    """So many units, at so many cents each."""
    return adjustment(units=Decimal(units), unit_precise_amount=Decimal(cents) / 100, **fields)


def no_line(_: AdjustedFee) -> Fee | None:
    return None


def empty(adjusted: AdjustedFee) -> Fee:
    none = line(0, f"empty-{adjusted.charge_filter_id}", charge_filter_id=adjusted.charge_filter_id, events_count=0)
    return replace(none, units=Decimal(0))


@pytest.mark.parametrize(
    ("of_line", "expected"),
    [
        ({}, True),
        ({"subscription_id": "other"}, False),
        ({"fee_type": "fixed_charge"}, False),
        ({"charge_id": "other"}, False),
        ({"charge_filter_id": "filter"}, False),
        ({"fixed_charge_id": "fixed"}, False),
        ({"grouped_by": {"region": "us"}}, False),
        ({"true_up_parent_fee_id": "parent"}, False),
    ],
)
def test_an_adjustment_is_of_one_line(of_line: dict[str, Any], expected: bool) -> None:
    assert fits(adjustment(), line(100, **of_line)) is expected


def adjust(fees: list[Fee], *adjustments: AdjustedFee, empty_line: Any = no_line) -> list[tuple[str, int]]:
    lines = with_adjusted_lines(fees, adjustments, empty_line=empty_line, repricing=lambda _: None)
    return [(line.id, line.amount_cents) for line in lines]


def test_an_adjusted_line_keeps_its_place_and_the_others_stay() -> None:
    fees = [line(100, "a", charge_id="a"), line(200, "b", charge_id="b"), line(300, "c", charge_id="c")]
    assert adjust(fees, priced(4, 25, charge_id="b")) == [("a", 100), ("b", 4 * 25), ("c", 300)]


def test_a_line_that_is_not_there_comes_last_and_one_whose_charge_is_gone_not_at_all() -> None:
    fees = [line(100, "a")]
    filtered = priced(4, 25, charge_filter_id="f")
    assert adjust(fees, filtered, empty_line=empty) == [("a", 100), ("empty-f", 4 * 25)]
    assert adjust(fees, filtered) == [("a", 100)]


def test_later_adjustments_of_a_line_come_on_top_of_earlier_ones() -> None:
    named = adjustment(invoice_display_name="Calls by hand")
    (changed,) = with_adjusted_lines([line(100)], [priced(4, 25), named], empty_line=no_line, repricing=lambda _: None)
    assert (changed.amount_cents, changed.item.invoice_display_name) == (100, "Calls by hand")


def true_ups(fees: list[Fee], minimum: int, *adjustments: AdjustedFee) -> list[tuple[str, int]]:
    lines = with_new_true_up(fees, charge(minimum), days(31), adjustments, empty_line=empty, id="new")
    return [(line.id, line.amount_cents) for line in lines]


MINIMUM = line(600, "minimum", true_up_parent_fee_id="a")


@pytest.mark.parametrize(
    ("fees", "minimum", "expected"),
    [
        # It keeps its id and its place: 1000 - 300.
        ([line(300, "a"), MINIMUM, line(5, "z", charge_id="z")], 1000, [("a", 300), ("minimum", 700), ("z", 5)]),
        # Nothing is missing any more.
        ([line(1000, "a"), MINIMUM], 1000, [("a", 1000)]),
        # Something is missing now.
        ([line(5, "z", charge_id="z"), line(300, "a")], 1000, [("z", 5), ("a", 300), ("new", 700)]),
        # Only a filter was used: what is missing hangs on a line of nothing for what no filter takes.
        (
            [line(300, "a", charge_filter_id="f")],
            1000,
            [("a", 300), ("empty-None", 0), ("new", 700)],
        ),
    ],
)
def test_what_brings_a_charge_up_to_its_minimum_follows_from_the_lines_as_adjusted(
    fees: list[Fee], minimum: int, expected: list[tuple[str, int]]
) -> None:
    assert true_ups(fees, minimum, priced(1, 300)) == expected


def test_a_line_adjusted_to_nothing_stays_and_another_of_nothing_goes() -> None:
    nothing = replace(line(0, "a", events_count=0), units=Decimal(0))
    other = replace(line(0, "b", charge_filter_id="f", events_count=0), units=Decimal(0))
    assert true_ups([nothing, other, line(2000, "c", charge_filter_id="g")], 1000, priced(0, 0)) == [
        ("a", 0),
        ("c", 2000),
    ]
