"""When usage is invoiced before its period ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import fee

from usagebill.core.fees import Fee
from usagebill.core.plans import UsageThreshold
from usagebill.core.progressive_billing import (
    BilledAhead,
    ProgressiveFee,
    already_billed,
    completions,
    deduction,
    fees_billed_before,
    passed_thresholds,
)

NOW = datetime(2024, 3, 1, tzinfo=UTC)


def thresholds(*fixed: int, recurring: int | None = None) -> list[UsageThreshold]:
    amounts = [(amount, False) for amount in fixed] + ([(recurring, True)] if recurring else [])
    return [
        UsageThreshold(id=str(amount), amount_cents=amount, recurring=again, created_at=NOW, updated_at=NOW)
        for amount, again in amounts
    ]


FIXED = (10, 20, 31, 40)


def passed(listed: list[UsageThreshold], invoiced: int, current: int, billed: int = 0) -> list[int]:
    reached = passed_thresholds(listed, invoiced_cents=invoiced, current_cents=current, billed_cents=billed)
    return [threshold.amount_cents for threshold in reached]


@pytest.mark.parametrize(
    ("invoiced", "current", "billed", "reached"),
    [
        (0, 7, 0, []),
        (0, 10, 0, [10]),
        (0, 31, 0, [10, 20, 31]),
        (9, 2, 0, [10]),
        (9, 31, 0, [10, 20, 31, 40]),
        (11, 10, 0, [20]),
        (21, 20, 0, [31, 40]),
        (40, 2, 0, []),
        (50, 0, 0, []),
        # Progressive billing has billed ten of it.
        (0, 10, 10, []),
        (0, 31, 10, [20, 31]),
        (9, 12, 10, [20]),
        (9, 31, 10, [20, 31, 40]),
        (11, 20, 10, [31]),
        (21, 20, 10, [40]),
        (50, 10, 10, []),
        (0, 7, 10, []),
        # Eleven were used before, elsewhere.
        (11 + 0, 9, 0, [20]),
        (11 + 8, 20, 0, [20, 31]),
        (11 + 0, 31, 0, [20, 31, 40]),
        (11 + 11, 10, 0, [31]),
        (11 + 40, 2, 0, []),
    ],
)
def test_fixed_thresholds_are_passed_once(invoiced: int, current: int, billed: int, reached: list[int]) -> None:
    assert passed(thresholds(*FIXED), invoiced, current, billed) == reached


@pytest.mark.parametrize(
    ("invoiced", "current", "billed", "is_passed"),
    [
        (0, 7, 0, False),
        (0, 10, 0, True),
        (9, 2, 0, True),
        (11, 8, 0, False),
        (11, 9, 0, True),
        (11, 20, 0, True),
        (202, 7, 0, False),
        (202, 8, 0, True),
        (11, 19, 10, True),
        (202, 17, 10, False),
        (202, 18, 10, True),
    ],
)
def test_a_recurring_threshold_goes_on_from_what_was_invoiced(
    invoiced: int, current: int, billed: int, is_passed: bool
) -> None:
    assert passed(thresholds(recurring=10), invoiced, current, billed) == [10] * is_passed


@pytest.mark.parametrize(
    ("fixed", "invoiced", "current", "billed", "reached"),
    [
        ((10,), 0, 10, 0, [10]),
        ((10,), 0, 15, 0, [10, 5]),
        ((10,), 0, 20, 0, [10, 5]),
        ((10,), 9, 6, 0, [10, 5]),
        ((10,), 11, 3, 0, []),
        ((10,), 11, 4, 0, [5]),
        ((10,), 0, 7, 10, []),
        ((10,), 0, 15, 10, [5]),
        ((10,), 9, 16, 10, [5]),
        ((10,), 11, 14, 10, [5]),
        ((10,), 11, 4, 10, []),
        (FIXED, 0, 44, 0, [10, 20, 31, 40]),
        (FIXED, 0, 45, 0, [10, 20, 31, 40, 5]),
        (FIXED, 9, 37, 0, [10, 20, 31, 40, 5]),
        (FIXED, 21, 24, 0, [31, 40, 5]),
        (FIXED, 49, 1, 0, [5]),
        (FIXED, 50, 0, 0, []),
        (FIXED, 50, 5, 0, [5]),
    ],
)
def test_a_recurring_threshold_begins_beyond_the_fixed_ones(
    fixed: tuple[int, ...], invoiced: int, current: int, billed: int, reached: list[int]
) -> None:
    assert passed(thresholds(*fixed, recurring=5), invoiced, current, billed) == reached


def shown(total: int, *fixed: int, recurring: int | None = None) -> list[tuple[int, Decimal]]:
    return [
        (completion.amount_cents, completion.ratio)
        for completion in completions(thresholds(*fixed, recurring=recurring), total, {}, NOW)
    ]


def test_completion_is_counted_from_the_threshold_before() -> None:
    assert shown(23, 100) == [(100, Decimal("0.23"))]
    assert shown(120, 100, 200) == [(100, Decimal(1)), (200, Decimal("0.2"))]
    assert shown(15 + 12 + 120, 100, 200) == [(100, Decimal(1)), (200, Decimal("0.47"))]
    assert shown(120, 100, recurring=200) == [(100, Decimal(1)), (300, Decimal("0.1"))]
    assert shown(723, 100, recurring=200) == [
        (100, Decimal(1)),
        (300, Decimal(1)),
        (500, Decimal(1)),
        (700, Decimal(1)),
        (900, Decimal("0.115")),
    ]


@given(
    st.lists(st.integers(1, 500), max_size=4, unique=True),
    st.one_of(st.none(), st.integers(1, 300)),
    st.lists(st.integers(0, 400), min_size=1, max_size=12),
)
def test_growing_usage_passes_each_fixed_threshold_once(
    fixed: list[int], recurring: int | None, steps: list[int]
) -> None:
    listed = thresholds(*fixed, recurring=recurring)
    seen: list[int] = []
    usage = billed = 0
    for step in steps:
        usage += step
        reached = passed_thresholds(listed, invoiced_cents=0, current_cents=usage, billed_cents=billed)
        if reached:
            billed = usage
        seen += [threshold.amount_cents for threshold in reached if not threshold.recurring]
    assert seen == sorted(amount for amount in fixed if amount <= usage)


@given(
    st.lists(st.integers(1, 500), max_size=4, unique=True),
    st.one_of(st.none(), st.integers(1, 300)),
    st.integers(0, 3000),
)
def test_completion_ratios_fall_from_one_to_nothing(fixed: list[int], recurring: int | None, total: int) -> None:
    ratios = [ratio for _, ratio in shown(total, *fixed, recurring=recurring)]
    assert ratios == sorted(ratios, reverse=True)
    assert all(0 <= ratio <= 1 for ratio in ratios)


def _billed(amounts: dict[str, int]) -> list[ProgressiveFee]:
    return [
        ProgressiveFee(
            charge_id="calls",
            charge_filter_id=None,
            grouped_by={"region": region},
            amount_cents=cents,
            net_cents=Decimal(cents),
        )
        for region, cents in amounts.items()
    ]


def _used(amounts: dict[str, int]) -> list[Fee]:
    return [
        replace(fee(cents, id=region, charge_id="calls", subscription_id="s"), grouped_by={"region": region})
        for region, cents in amounts.items()
    ]


@pytest.mark.parametrize(
    ("used", "billed", "credit", "shares"),
    [
        # What was billed of the same group, and no more.
        ({"eu": 900, "us": 700}, {"eu": 300}, 300, {"eu": "300", "us": "0"}),
        # The progressive billing invoice had a coupon of 10 %.
        ({"eu": 6000}, {"eu": 3000}, 2700, {"eu": "2700"}),
        ({"eu": 900, "us": 700}, {"eu": 300, "us": 100}, 360, {"eu": "270", "us": "90"}),
        # A group that was billed is not used any more: the others take its part, by what is open of them.
        ({"eu": 600, "us": 400}, {"eu": 100, "asia": 90}, 190, {"eu": "150", "us": "40"}),
        # Usage has shrunk below what was billed.
        ({"eu": 100, "us": 1000}, {"eu": 1500, "us": 500}, 1100, {"eu": "100", "us": "1000"}),
    ],
)
def test_a_credit_is_shared_by_what_was_billed(
    used: dict[str, int], billed: dict[str, int], credit: int, shares: dict[str, str]
) -> None:
    credited = deduction(_used(used), _billed(billed), credit, None, most_cents=credit).fees
    assert {line.id: line.precise_coupons_amount_cents for line in credited} == {
        region: Decimal(cents) for region, cents in shares.items()
    }


_cents = st.integers(0, 10**9)
_regions = st.dictionaries(st.sampled_from(["eu", "us", "asia", "africa"]), _cents, min_size=1)


@given(_regions, _regions, st.integers(0, 10**10))
def test_shares_of_a_credit_add_up_to_it(used: dict[str, int], billed: dict[str, int], left: int) -> None:
    fees = fees_billed_before(_used(used), _billed(billed), "s")
    credit = min(left, sum(line.amount_cents for line in fees))
    credited = deduction(fees, _billed(billed), credit, None, most_cents=credit).fees
    assert abs(sum((line.precise_coupons_amount_cents for line in credited), Decimal(0)) - credit) <= Decimal(
        "0.00001"
    ) * len(fees)
    assert all(0 <= line.precise_coupons_amount_cents <= line.amount_cents for line in credited)
    again = deduction(fees[::-1], _billed(billed), credit, None, most_cents=credit).fees
    assert {line.id: line for line in again} == {line.id: line for line in credited}


@given(_regions, _regions)
def test_only_usage_of_the_same_charges_and_subscription_is_billed_before(
    used: dict[str, int], billed: dict[str, int]
) -> None:
    others = [
        fee(100, id="other charge", charge_id="seats", subscription_id="s"),
        fee(100, id="other subscription", charge_id="calls", subscription_id="t"),
        fee(100, id="base", fee_type="subscription", subscription_id="s"),
    ]
    fees = _used(used)
    assert fees_billed_before([*others, *fees], _billed(billed), "s") == fees


@dataclass
class Period:
    """The progressive billing invoices of a period, as they come, are voided and regenerated; by place."""

    usage: list[int] = field(default_factory=list)
    standing: dict[int, BilledAhead] = field(default_factory=dict)

    def already_billed(self, place: int, usage: int) -> int:
        return already_billed(list(self.standing.values()), self._place(place), usage)

    def bill(self, place: int) -> None:
        """An invoice of all usage until the place, less what the others have billed of it."""
        usage = self.usage[place]
        billed = usage - self.already_billed(place, usage)
        assert 0 <= billed <= usage
        self.standing[place] = BilledAhead(place=self._place(place), usage_cents=usage, billed_cents=billed)

    @staticmethod
    def _place(number: int) -> tuple[datetime, str]:
        return NOW + timedelta(hours=number), str(number)

    def billed_until(self, last: int) -> int:
        return sum(invoice.billed_cents for place, invoice in self.standing.items() if place <= last)

    @property
    def billed(self) -> int:
        return self.billed_until(len(self.usage))


@given(st.data(), st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_invoices_voided_and_regenerated_in_any_order_bill_the_usage_once(data: st.DataObject, used: list[int]) -> None:
    """Those in force up to each of them never bill more than its usage, and together all of it if none is missing."""
    period = Period()
    for cents in used:
        period.usage.append((period.usage or [0])[-1] + cents)
        period.bill(len(period.usage) - 1)
        for _ in range(data.draw(st.integers(0, 3))):
            place = data.draw(st.integers(0, len(period.usage) - 1))
            if place in period.standing:
                del period.standing[place]
            else:
                period.bill(place)
        for place, invoice in period.standing.items():
            assert period.billed_until(place) <= invoice.usage_cents
    missing = [place for place in range(len(period.usage)) if place not in period.standing]
    for place in data.draw(st.permutations(missing)):
        period.bill(place)
    assert period.billed == period.already_billed(len(used), period.usage[-1]) == period.usage[-1]


def test_usage_that_a_voided_invoice_had_billed_is_not_billed_by_one_before_it() -> None:
    """1, and 1 more that the third bills. The second bills the 1 of the first, which so has nothing left to bill."""
    period = Period(usage=[1, 1, 2, 2])
    for place in (1, 2, 3):
        period.bill(place)
    del period.standing[2]
    period.bill(0)
    assert [(place, invoice.billed_cents) for place, invoice in sorted(period.standing.items())] == [
        (0, 0),
        (1, 1),
        (3, 0),
    ]
    period.bill(2)
    assert period.billed == 2


@pytest.mark.parametrize(
    ("ahead", "billed"),
    [
        ([], 0),
        # 10.00, then 20.00 less that: the period has been billed 20.00.
        ([(1, 1000, 1000), (2, 2000, 1000)], 2000),
        # The first was voided: only the second's own 10.00 stand.
        ([(2, 2000, 1000)], 1000),
        # The second was regenerated while the first was voided, and billed all 20.00.
        ([(2, 2000, 2000)], 2000),
        ([(2, 2000, 2000), (1, 1000, 0)], 2000),
    ],
)
def test_a_period_deducts_what_its_invoices_billed_themselves(ahead: list[tuple[int, int, int]], billed: int) -> None:
    invoices = [
        BilledAhead(place=(NOW, str(place)), usage_cents=usage, billed_cents=cents) for place, usage, cents in ahead
    ]
    assert already_billed(invoices, (NOW, "3"), 4000) == billed


@pytest.mark.parametrize(
    ("later", "billed"),
    [
        # 20.00 less the 10.00 of the voided first one: that may be billed again.
        ((2000, 1000), 0),
        # 20.00 in full: the first one's 10.00 are among them.
        ((2000, 2000), 1000),
        # 20.00 less 4.00 that were voided and lost a part: 6.00 of its 10.00 are.
        ((2000, 1600), 600),
    ],
)
def test_a_regenerated_invoice_deducts_its_own_usage_only(later: tuple[int, int], billed: int) -> None:
    usage, cents = later
    invoice = BilledAhead(place=(NOW, "2"), usage_cents=usage, billed_cents=cents)
    assert already_billed([invoice], (NOW, "1"), 1000) == billed
