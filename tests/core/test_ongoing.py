"""Ongoing balances: what wallets would have left if all usage so far were billed now."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, wallet

from usagebill.core.numbers import ZERO
from usagebill.core.ongoing import UnbilledKey, expected_use, summed_nets, with_ongoing_usage
from usagebill.core.wallets import Wallet


def usage(metric: str = "m", currency: str = "EUR") -> UnbilledKey:
    return UnbilledKey("charge", metric, currency)


def holding(*balances: int, **fields: Any) -> list[Wallet]:
    return [
        wallet(f"w{position}", balance_cents=cents, priority=position, **fields)
        for position, cents in enumerate(balances, start=1)
    ]


@pytest.mark.parametrize(
    ("balances", "topped_up", "used", "expected"),
    [
        ((50, 150), set(), 80, [50, 30]),
        ((50, 150), {"w1"}, 80, [80, 0]),
        ((50, 50, 50), {"w2"}, 200, [50, 150, 0]),
        ((50, 150), set(), 250, [50, 200]),
        ((0, 50, 50), set(), 80, [0, 50, 30]),
        ((50, 150), set(), 0, [0, 0]),
    ],
)
def test_wallets_in_their_order_take_what_they_hold_and_the_last_one_the_rest(
    balances: tuple[int, ...], topped_up: set[str], used: int, expected: list[int]
) -> None:
    use = expected_use({usage(): Decimal(used)}, holding(*balances), topped_up)
    assert list(use.values()) == expected


def test_what_was_billed_ahead_lowers_what_all_usage_comes_to() -> None:
    nets = summed_nets([(usage("1"), Decimal(80)), (usage("2"), Decimal(100)), (usage("2"), Decimal(-150))])
    assert list(expected_use(nets, holding(50, 150), set()).values()) == [30, 0]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ({"1": [3000], "2": [500]}, [1000, 500, 2000]),
        ({"1": [3000], "2": [500, 40]}, [1000, 540, 2000]),
        ({"1": [3000], "2": [500, -100], "3": [3300, -100]}, [1000, 400, 5200]),
    ],
)
def test_limited_wallets_take_their_own_usage(amounts: dict[str, list[int]], expected: list[int]) -> None:
    wallets = [
        wallet("a", balance_cents=1000, priority=1, billable_metric_ids=("1",)),
        wallet("b", balance_cents=1000, priority=2, billable_metric_ids=("2",)),
        wallet("c", balance_cents=1000, priority=3),
    ]
    nets = summed_nets((usage(metric), Decimal(cents)) for metric, parts in amounts.items() for cents in parts)
    assert list(expected_use(nets, wallets, set()).values()) == expected


def test_wallets_that_share_metrics_in_a_ring() -> None:
    pairs = [("storage", "seats"), ("seats", "api"), ("api", "sms"), ("sms", "storage")]
    wallets = [
        wallet(f"w{n}", balance_cents=n * 1000, priority=n, billable_metric_ids=pair)
        for n, pair in enumerate(pairs, start=1)
    ]
    used = {"storage": 1000, "seats": 2000, "api": 3000, "sms": 4000}
    use = expected_use({usage(name): Decimal(cents) for name, cents in used.items()}, wallets, set())
    assert list(use.values()) == [1000, 3000, 4000, 2000]


def test_usage_of_another_currency_is_not_taken() -> None:
    nets = {usage(currency="USD"): Decimal(70), usage(): Decimal(30)}
    assert expected_use(nets, holding(100), set()) == {"w1": 30}


def test_the_values_that_a_wallet_keeps() -> None:
    before = wallet(balance_cents=1000, rate="2")
    after = with_ongoing_usage(before, Decimal(1100), NOW)
    assert (after.ongoing_usage_balance_cents, after.ongoing_balance_cents) == (1100, -100)
    assert (after.credits_ongoing_usage_balance, after.credits_ongoing_balance) == (Decimal("5.5"), Decimal("-0.5"))
    assert after.depleted_ongoing_balance
    assert with_ongoing_usage(after, Decimal(1100), NOW) is after
    assert not with_ongoing_usage(after, Decimal(999), NOW).depleted_ongoing_balance


def test_fractions_of_cents_are_cut_off_toward_zero_and_credits_keep_them() -> None:
    after = with_ongoing_usage(wallet(balance_cents=10), Decimal("10.7"), NOW)
    assert (after.ongoing_usage_balance_cents, after.ongoing_balance_cents) == (10, 0)
    assert after.credits_ongoing_balance == Decimal("-0.007")


NETS = st.dictionaries(st.sampled_from("abc"), st.integers(-500, 2000), max_size=3)
WALLETS = st.lists(st.tuples(st.integers(0, 800), st.lists(st.sampled_from("abc"), max_size=2)), min_size=1, max_size=4)


@given(NETS, WALLETS)
def test_everything_that_any_wallet_may_pay_is_expected_of_one(
    nets: dict[str, int], wallets: list[tuple[int, list[str]]]
) -> None:
    payers = [
        wallet(f"w{n}", balance_cents=cents, priority=n + 1, billable_metric_ids=tuple(metrics))
        for n, (cents, metrics) in enumerate(wallets)
    ]
    use = expected_use({usage(name): Decimal(cents) for name, cents in nets.items()}, payers, set())
    budget = max(0, sum(nets.values()))
    assert all(part >= ZERO for part in use.values())
    assert sum(use.values()) <= budget
    if any(not metrics for _, metrics in wallets):
        assert sum(use.values()) == budget
