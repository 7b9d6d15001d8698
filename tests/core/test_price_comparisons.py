"""Price lists compared: the month that is compared unless another period is named, and what subscriptions come to."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from usagebill.core.price_comparisons import ComparedLine, ComparedSubscription, LineKind, last_month, summary


@pytest.mark.parametrize(
    ("today", "first", "last"),
    [
        (date(2024, 3, 31), date(2024, 2, 1), date(2024, 2, 29)),
        (date(2024, 3, 1), date(2024, 2, 1), date(2024, 2, 29)),
        (date(2024, 1, 15), date(2023, 12, 1), date(2023, 12, 31)),
    ],
)
def test_the_month_before_today(today: date, first: date, last: date) -> None:
    assert last_month(today) == (first, last)


DAYS = date(2024, 2, 1), date(2024, 2, 29)
NOW = datetime(2024, 3, 5, tzinfo=UTC)


def subscription(name: str, old: int, new: int, ending_at: datetime | None = None) -> ComparedSubscription:
    line = ComparedLine(kind=LineKind.PLAN, code="", units=Decimal(1), old_cents=old, new_cents=new)
    return ComparedSubscription(
        external_customer_id=name,
        external_subscription_id=name,
        start=DAYS[0],
        end=DAYS[1],
        currency="EUR",
        overridden=False,
        ending_at=ending_at,
        lines=(line,),
    )


def test_subscriptions_in_total_and_those_that_change_most() -> None:
    rows = [
        subscription("same", 100, 100, datetime(2024, 12, 31, tzinfo=UTC)),
        subscription("a little more", 100, 101),
        subscription("much less", 500, 200, datetime(2024, 12, 31, tzinfo=UTC)),
        subscription("more", 100, 150, datetime(2024, 3, 1, tzinfo=UTC)),
    ]
    total = summary(rows, *DAYS, "EUR", now=NOW, most=2)
    assert (total.subscriptions_count, total.more_count, total.less_count) == (4, 2, 1)
    assert (total.old_cents, total.new_cents, total.difference_cents) == (800, 551, -249)
    assert [row.external_subscription_id for row in total.largest] == ["much less", "more"]
    # The term of `more` is over, and `same` pays the same.
    assert [row.external_subscription_id for row in total.fixed_terms] == ["much less"]
    assert summary([], *DAYS, "EUR", now=NOW).lines == ()
