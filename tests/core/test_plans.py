"""Plans: codes that are made up, flags, thresholds, and when prices are the same."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from usagebill.core.plans import (
    ChargeCodes,
    cancels_downgrade,
    commitment_errors,
    monthly_flag,
    plan_errors,
    same_prices,
    threshold_errors,
)


@pytest.mark.parametrize(
    ("taken", "code"),
    [
        ([], "api_calls"),
        (["api_calls"], "api_calls_2"),
        (["api_calls", "api_calls_2"], "api_calls_3"),
        (["api_calls", "api_calls_3", "api_calls_5"], "api_calls_6"),
        (["api_calls_premium", "api_calls_custom"], "api_calls"),
        (["api_calls", "api_calls_premium"], "api_calls_2"),
    ],
)
def test_generated_codes_count_on_from_the_greatest_number(taken: list[str], code: str) -> None:
    assert ChargeCodes(taken).generated("api_calls") == code


def test_a_thousand_codes_are_generated_in_steps_that_do_not_grow() -> None:
    steps: Counter[str] = Counter()
    codes = ChargeCodes(())

    def generate(count: int) -> int:
        steps.clear()
        sys.setprofile(lambda frame, event, _: steps.update([event]))
        try:
            for _ in range(count):
                codes.add(codes.generated("api_calls"))
        finally:
            sys.setprofile(None)
        return steps.total()

    assert abs(generate(100) - generate(100)) < 10
    assert codes.generated("api_calls") == "api_calls_201"


@given(st.lists(st.sampled_from(["a", "a_1", "a_2", "a_x", "a_9", "b", "a_²", "a_" + "9" * 5000])))
def test_generated_codes_are_free(taken: list[str]) -> None:
    assert ChargeCodes(taken).generated("a") not in taken


@pytest.mark.parametrize(
    ("interval", "given_flag", "kept"),
    [("monthly", True, None), ("yearly", None, False), ("yearly", True, True), ("semiannual", False, False)],
)
def test_only_long_intervals_have_monthly_flags(interval: str, given_flag: bool | None, kept: bool | None) -> None:
    assert monthly_flag(interval, given_flag) is kept


@pytest.mark.parametrize(
    ("thresholds", "errors"),
    [
        ([], {}),
        ([(100, False), (100, True)], {}),
        ([(None, False), (0, False)], {"usage_thresholds": ["missing_amount_cents"]}),
        ([(100, False), (100, False)], {"usage_thresholds": ["duplicated_values"]}),
        ([(100, True), (200, True)], {"usage_thresholds": ["multiple_recurring_thresholds"]}),
        ([(0, False)], {"amount_cents": ["value_is_out_of_range"]}),
    ],
)
def test_the_first_mistake_of_thresholds_counts(
    thresholds: list[tuple[int | None, bool]], errors: dict[str, list[str]]
) -> None:
    assert threshold_errors(thresholds) == errors


def test_commitments_are_above_zero() -> None:
    assert commitment_errors(1) == {}
    assert commitment_errors(0) == {"amount_cents": ["value_is_out_of_range"]}
    assert commitment_errors(None) == {"amount_cents": ["is not a number"]}


def test_every_missing_field_of_a_plan_is_named() -> None:
    assert plan_errors(
        name="", code=None, interval="daily", amount_cents=None, amount_currency="XXX", pay_in_advance=None
    ) == {
        "name": ["value_is_mandatory"],
        "code": ["value_is_mandatory"],
        "interval": ["value_is_invalid"],
        "amount_cents": ["value_is_mandatory"],
        "amount_currency": ["value_is_invalid"],
        "pay_in_advance": ["value_is_invalid"],
    }


def test_a_downgrade_falls_when_the_plan_becomes_cheaper_than_its_target() -> None:
    assert cancels_downgrade(99, 100)
    assert not cancels_downgrade(100, 100)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"amount": "10"}, {"amount": "10.0"}, True),
        ({"amount": "10"}, {"amount": "11"}, False),
        ({"ranges": [{"to": None, "a": "1"}]}, {"ranges": ({"to": None, "a": "1.00"},)}, True),
        ({"amount": "10"}, {}, False),
        ({"keys": ["a"]}, {"keys": ["b"]}, False),
        (True, 1, False),
    ],
)
def test_prices_are_compared_as_numbers(left: object, right: object, same: bool) -> None:
    assert same_prices(left, right) is same
    assert same_prices(right, left) is same
