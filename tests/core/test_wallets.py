"""Wallets: what credits are worth, how balances move, which wallet pays first and for what."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import assume, given, strategies as st
from tests.core.builders import NOW, fee, wallet

from usagebill.core.fees import FeeType
from usagebill.core.life_cycles import TransitionError
from usagebill.core.wallets import (
    Wallet,
    cents_of_credits,
    code_of_name,
    credits_of_cents,
    decreased,
    exact_credits,
    floored_credits,
    given_back,
    in_order_of_use,
    increased,
    may_pay,
    taken_credits,
    terminated,
    whole_cent_credits,
)

RATES = st.decimals(min_value="0.00001", max_value=10**6, places=5)
CREDITS = st.decimals(min_value=0, max_value=10**12, places=8)
CURRENCIES = st.sampled_from(["EUR", "JPY", "KWD", "CLF"])


@pytest.mark.parametrize(
    ("currency", "rate", "sent", "cents", "credits"),
    [
        ("EUR", "1", "17.9699999999999988631316", 1797, "17.97"),
        ("EUR", "0.01", "4.399999", 4, "4"),
        ("EUR", "100", "4.3789", 43789, "4.3789"),
        ("JPY", "1", "4.39999", 4, "4"),
        ("EUR", "1.375", "10.34567", 1423, "10.34909"),
        ("EUR", "0.001", "1034", 103, "1030"),
        ("KWD", "0.001", "1.0", 1, "1"),
        ("EUR", "0.01", "0.4", 0, "0"),
    ],
)
def test_a_top_up_is_worth_whole_cents(currency: str, rate: str, sent: str, cents: int, credits: str) -> None:
    assert whole_cent_credits(Decimal(sent), Decimal(rate), currency) == (cents, Decimal(credits))


def test_voided_credits_keep_five_decimals_and_are_cut_beyond() -> None:
    credits = floored_credits(Decimal("14.28444999"))
    assert credits == Decimal("14.28444")
    assert cents_of_credits(credits, Decimal(1), "EUR") == 14_28
    # 1.034 EUR
    assert cents_of_credits(Decimal(1034), Decimal("0.001"), "EUR") == 1_03


@pytest.mark.parametrize(
    ("rate", "cents", "credits"), [("1.375", 100, "0.72727"), ("0.001", 103, "1030"), ("3", 1, "0.00333")]
)
def test_cents_come_to_credits_with_five_decimals(rate: str, cents: int, credits: str) -> None:
    assert credits_of_cents(cents, Decimal(rate), "EUR") == Decimal(credits)


def test_exact_credits_are_not_rounded() -> None:
    assert exact_credits(1, Decimal(3), "EUR") * 3 == pytest.approx(Decimal("0.01"), abs=Decimal("1e-25"))
    assert exact_credits(1, Decimal(3), "EUR") != Decimal("0.00333")


@given(RATES, CREDITS, CURRENCIES)
def test_a_top_up_is_within_half_a_cent_of_what_was_sent(rate: Decimal, sent: Decimal, currency: str) -> None:
    cents, credits = whole_cent_credits(sent, rate, currency)
    kept = floored_credits(sent)
    assert Decimal(0) <= sent - kept < Decimal("0.00001")
    half_cent = exact_credits(Decimal("0.5"), rate, currency)
    assert abs(exact_credits(cents, rate, currency) - kept) <= half_cent + Decimal("1e-80")
    assert abs(credits - exact_credits(cents, rate, currency)) <= Decimal("0.000005")


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**10)), RATES, CURRENCIES)
def test_uses_never_take_more_credits_than_there_are(
    funded: int, uses: list[int], rate: Decimal, currency: str
) -> None:
    held = wallet(rate=str(rate), currency=currency)
    held = increased(held, funded, credits_of_cents(funded, rate, currency), NOW)
    for use in uses:
        cents = min(use, held.balance_cents)
        credits = taken_credits(held, cents)
        held = decreased(held, cents, credits, NOW)
        assert held.credits_balance >= 0
        assert held.credits_balance + held.consumed_credits == credits_of_cents(funded, rate, currency)


@given(st.integers(1, 10**9), st.integers(0, 10**9), RATES)
def test_what_is_given_back_restores_the_wallet(funded: int, use: int, rate: Decimal) -> None:
    assume(use <= funded)
    full = increased(wallet(rate=str(rate)), funded, credits_of_cents(funded, rate, "EUR"), NOW)
    credits = taken_credits(full, use)
    later = NOW + timedelta(days=1)
    restored = given_back(decreased(full, use, credits, NOW), use, credits, later)
    assert (restored.balance_cents, restored.credits_balance) == (full.balance_cents, full.credits_balance)
    assert restored.consumed_credits == 0
    assert (restored.last_balance_sync_at, restored.last_consumed_credit_at) == (later, NOW)


def test_a_wallet_is_never_overdrawn() -> None:
    held = increased(wallet(), 100, Decimal(1), NOW)
    with pytest.raises(ValueError, match="does not hold 101 cents"):
        decreased(held, 101, Decimal(1), NOW)
    with pytest.raises(ValueError, match=r"1\.00001 credits"):
        decreased(held, 100, Decimal("1.00001"), NOW)


def test_a_terminated_wallet_keeps_its_balance_and_ends_once() -> None:
    ended = terminated(increased(wallet(), 100, Decimal(1), NOW), NOW)
    assert (ended.status, ended.terminated_at, ended.balance_cents) == ("terminated", NOW, 100)
    with pytest.raises(TransitionError):
        terminated(ended, NOW)


def test_wallets_pay_by_priority_then_by_age() -> None:
    old = wallet("old", priority=2, created_at=NOW)
    young = wallet("young", priority=2, created_at=NOW + timedelta(seconds=1))
    first = wallet("first", priority=1, created_at=NOW + timedelta(days=1))
    assert [held.id for held in in_order_of_use([young, old, first])] == ["first", "old", "young"]


def test_limits_to_fee_types_and_metrics_are_alternatives() -> None:
    charge = fee(100, billable_metric_id="storage")
    subscription = replace(charge, fee_type=FeeType.SUBSCRIPTION, billable_metric_id=None)

    def paid_by(held: Wallet) -> tuple[bool, bool]:
        return may_pay(held, charge), may_pay(held, subscription)

    assert paid_by(wallet()) == (True, True)
    assert paid_by(wallet(fee_types=("subscription",))) == (False, True)
    assert paid_by(wallet(billable_metric_ids=("storage",))) == (True, False)
    assert paid_by(wallet(billable_metric_ids=("api",))) == (False, False)
    assert paid_by(wallet(fee_types=("subscription",), billable_metric_ids=("storage",))) == (True, True)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("My Premium Wallet", "my_premium_wallet"),
        ("  Crédits  d'été (2025)! ", "credits_d_ete_2025"),
        ("a-b_c", "a-b_c"),
        ("", "default"),
        ("***", "default"),
        (None, "default"),
    ],
)
def test_a_name_gives_a_code(name: str | None, code: str) -> None:
    assert code_of_name(name) == code
