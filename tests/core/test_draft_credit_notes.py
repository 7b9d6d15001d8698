"""Credit notes of drafts follow their invoice's lines: what becomes of items and amounts, in tables."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import fee, item, note

from usagebill.core.draft_credit_notes import followed_item, followed_parts, within_due


@pytest.mark.parametrize(
    ("credit", "refund", "offset", "whole", "expected"),
    [
        # As much as before, more, less, and nothing.
        (60, 30, 10, 100, (60, 30, 10)),
        (60, 30, 10, 150, (110, 30, 10)),
        (60, 30, 10, 35, (0, 30, 5)),
        (60, 30, 10, 20, (0, 20, 0)),
        (60, 30, 10, 0, (0, 0, 0)),
        # Rounding cents below zero are no part of anything.
        (60, 30, 10, -1, (0, 0, 0)),
        # One that only settles goes on settling whatever there is.
        (0, 0, 10, 100, (0, 0, 100)),
        (0, 30, 10, 100, (0, 30, 70)),
        # One that only refunds credits what is new.
        (0, 30, 0, 100, (70, 30, 0)),
    ],
)
def test_what_a_note_refunds_and_settles_comes_first(
    credit: int, refund: int, offset: int, whole: int, expected: tuple[int, int, int]
) -> None:
    amounts: dict[str, Any] = {
        "credit_amount_cents": credit,
        "refund_amount_cents": refund,
        "offset_amount_cents": offset,
    }
    parts = followed_parts(note("n", 0, **amounts), whole)
    assert (parts.credit, parts.refund, parts.offset) == expected


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 30_000))
def test_the_parts_of_a_note_are_all_of_it(credit: int, refund: int, offset: int, whole: int) -> None:
    amounts: dict[str, Any] = {
        "credit_amount_cents": credit,
        "refund_amount_cents": refund,
        "offset_amount_cents": offset,
    }
    parts = followed_parts(note("n", 0, **amounts), whole)
    assert parts.credit + parts.refund + parts.offset == whole
    assert min(parts.credit, parts.refund, parts.offset) >= 0
    assert parts.refund <= refund


LINE: dict[str, Any] = {"fee_type": "charge", "charge_id": "calls", "subscription_id": "sub"}


@pytest.mark.parametrize(
    ("fees", "expected"),
    [
        # The line itself, at half its price; its successor, at twice; and the second of two, at a third.
        ([{"id": "old", "amount_cents": 150}], ("old", Decimal(50) * 150 / 300)),
        ([{"id": "new", "amount_cents": 600}], ("new", Decimal(50) * 600 / 300)),
        ([{"id": "other", "charge_id": "seats"}, {"id": "new", "amount_cents": 100}], ("new", Decimal("16.66667"))),
        ([{"id": "new", "amount_cents": 0}], ("new", Decimal(0))),
        # What bills something else is no successor.
        ([{"id": "new", "charge_id": "seats"}], None),
        ([{"id": "new", "charge_filter_id": "eu"}], None),
        ([{"id": "new", "grouped_by": {"region": "eu"}}], None),
        ([{"id": "new", "subscription_id": "another"}], None),
        ([{"id": "new", "true_up_parent_fee_id": "old"}], None),
        ([{"id": "new", "fee_type": "subscription"}], None),
        ([], None),
    ],
)
def test_an_item_keeps_its_part_of_its_line(fees: list[dict[str, Any]], expected: tuple[str, Decimal] | None) -> None:
    before = [fee(300, id="old", **LINE)]
    after = [fee(**{"amount_cents": 300, **LINE, **fields}) for fields in fees]
    moved = followed_item(item("old", "50"), before, after)
    assert (None if moved is None else (moved.fee_id, moved.precise_amount_cents)) == expected
    assert moved is None or moved.amount_cents == round(moved.precise_amount_cents)


def test_an_item_of_a_line_that_came_to_nothing_stays_at_nothing() -> None:
    moved = followed_item(item("old", "0"), [fee(0, id="old", **LINE)], [fee(300, id="new", **LINE)])
    assert moved is not None
    assert (moved.fee_id, moved.precise_amount_cents) == ("new", 0)


def test_an_item_of_a_line_that_was_not_computed_again_is_left_alone_while_the_line_is_there() -> None:
    kept = item("kept", "50")
    assert followed_item(kept, [], [fee(300, id="kept")]) is kept
    assert followed_item(kept, [], [fee(300, id="another")]) is None


@pytest.mark.parametrize(
    ("offset", "due", "expected"),
    [(50, 80, (50, 10)), (50, 50, (50, 10)), (50, 20, (20, 40)), (50, 0, (0, 60)), (50, -30, (0, 60)), (0, 0, (0, 10))],
)
def test_what_is_not_due_any_more_is_credited_instead(offset: int, due: int, expected: tuple[int, int]) -> None:
    fitted = within_due(note("n", 10, credit_amount_cents=10, offset_amount_cents=offset), due)
    assert (fitted.offset_amount_cents, fitted.credit_amount_cents) == expected
    assert fitted.balance_amount_cents == fitted.credit_amount_cents
