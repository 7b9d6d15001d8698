"""What is billed ahead is earned by the day."""

from __future__ import annotations

from datetime import date

import pytest

from usagebill.core.deferred_revenue import Change, earned_by_month


def day(text: str) -> date:
    return date.fromisoformat(f"2026-{text}")


@pytest.mark.parametrize(
    ("first", "last", "changes", "months"),
    [
        # A quarter of 90 days at 1.00 a day, billed on its first day.
        ("01-01", "03-31", [("01-01", 9000)], [("01", 3100, 5900), ("02", 2800, 3100), ("03", 3100, 0)]),
        # From mid month: 17 of 31 days, then 14.
        ("01-15", "02-14", [("01-15", 3100)], [("01", 1700, 1400), ("02", 1400, 0)]),
        # Billed before it begins, and after.
        ("02-01", "02-28", [("01-20", 2800)], [("01", 0, 2800), ("02", 2800, 0)]),
        ("01-01", "02-28", [("02-03", 5900)], [("02", 5900, 0)]),
        # A third of a cent a day is not lost: 31, 28 and 31 of 90 days of 1.00.
        ("01-01", "03-31", [("01-01", 100)], [("01", 34, 66), ("02", 32, 34), ("03", 34, 0)]),
        # The days from 1 March on are given back.
        ("01-01", "03-31", [("01-01", 9000), ("03-01", -3100)], [("01", 3100, 5900), ("02", 2800, 3100)]),
        # Half of what is left is given back: March earns the rest.
        (
            "01-01",
            "03-31",
            [("01-01", 9000), ("03-01", -1550)],
            [("01", 3100, 5900), ("02", 2800, 3100), ("03", 1550, 0)],
        ),
        # A void takes everything back: January stays as it was.
        ("01-01", "03-31", [("01-01", 9000), ("02-10", -9000)], [("01", 3100, 5900), ("02", -3100, 0)]),
        # After the period.
        ("01-01", "01-31", [("01-01", 3100), ("03-02", -100)], [("01", 3100, 0), ("03", -100, 0)]),
        ("01-01", "01-31", [], []),
    ],
)
def test_earned_by_month(
    first: str, last: str, changes: list[tuple[str, int]], months: list[tuple[str, int, int]]
) -> None:
    known = [Change(day=day(on), cents=cents) for on, cents in changes]
    found = [
        (f"{one.month:%m}", one.earned_cents, one.deferred_cents)
        for one in earned_by_month(day(first), day(last), known)
    ]
    assert found == months
    assert sum(earned for _, earned, _ in found) == sum(cents for _, cents in changes)
