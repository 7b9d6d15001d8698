"""Wallet transactions: their life, and which inbound ones pay for what goes out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, inbound

from usagebill.core.wallet_transactions import (
    TransactionKind,
    WalletTransaction,
    WalletTransactionEvent,
    WalletTransactionStatus,
    after_draw,
    consumption_order,
    drawn,
    paid,
    pending_credits,
    unpaid,
)

GRANTED, PURCHASED = TransactionKind.GRANTED, TransactionKind.PURCHASED
LATER = NOW + timedelta(days=1)


def _taken(transactions: list[WalletTransaction], cents: int) -> dict[str, int]:
    return {draw.inbound.id: draw.amount_cents for draw in drawn(transactions, cents)}


def _of(id: str, cents: int, *, kind: TransactionKind = GRANTED, priority: int = 50, age: int = 0) -> WalletTransaction:
    return inbound(id, cents, transaction_status=kind, priority=priority, created_at=NOW - timedelta(days=age))


def test_grants_are_drawn_from_before_purchases_and_priority_beats_both() -> None:
    transactions = [
        _of("A", 2000, priority=1),
        _of("B", 2500, priority=2, age=3),
        _of("D", 3000, priority=2, age=2, kind=PURCHASED),
        _of("C", 2500, priority=2, age=1),
    ]
    assert _taken(transactions, 8000) == {"A": 2000, "B": 2500, "C": 2500, "D": 1000}
    bought_first = [_of("bought", 2000, kind=PURCHASED, priority=1), _of("granted", 6000)]
    assert _taken(bought_first, 8000) == {"bought": 2000, "granted": 6000}
    same = [_of("bought", 3000, kind=PURCHASED, age=9), _of("granted", 5000)]
    assert list(_taken(same, 8000).items()) == [("granted", 5000), ("bought", 3000)]


def test_older_purchases_are_drawn_from_first() -> None:
    transactions = [_of(f"p{age}", 1000, kind=PURCHASED, age=age) for age in (1, 3, 2)]
    assert list(_taken(transactions, 2500).items()) == [("p3", 1000), ("p2", 1000), ("p1", 500)]


def test_more_than_there_is_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="1 of 3001 cents are not there"):
        drawn([_of("a", 1000), _of("b", 2000)], 3001)


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 3), st.booleans(), st.integers(0, 5)), max_size=12),
    st.lists(st.integers(0, 10**6), max_size=8),
)
def test_what_goes_out_leads_back_to_what_came_in(came: list[tuple[int, int, bool, int]], takes: list[int]) -> None:
    held = {
        f"t{place}": _of(f"t{place}", cents, kind=GRANTED if granted else PURCHASED, priority=priority, age=age)
        for place, (cents, priority, granted, age) in enumerate(came)
    }
    before = available_cents(held.values())
    out = 0
    for take in takes:
        cents = min(take, available_cents(held.values()))
        draws = drawn(held.values(), cents)
        assert sum(draw.amount_cents for draw in draws) == cents
        assert all(draw.amount_cents > 0 for draw in draws)
        assert len({draw.inbound.id for draw in draws}) == len(draws)
        # Everything but the last in the order is drawn empty.
        order = [transaction.id for transaction in consumption_order(held.values())]
        assert [draw.inbound.id for draw in draws] == order[: len(draws)]
        assert all(draw.amount_cents == draw.inbound.remaining_amount_cents for draw in draws[:-1])
        held |= {draw.inbound.id: after_draw(draw, NOW) for draw in draws}
        out += cents
    assert before - out == available_cents(held.values()) >= 0


def available_cents(inbound: Iterable[WalletTransaction]) -> int:
    return sum(transaction.remaining_amount_cents or 0 for transaction in inbound)


def _purchase(**fields: Any) -> WalletTransaction:
    return inbound(
        "p",
        1000,
        transaction_status=PURCHASED,
        status=WalletTransactionStatus.PENDING,
        remaining_amount_cents=None,
        **fields,
    )


def test_a_payment_settles_a_purchase_once_even_after_a_failure() -> None:
    settled = paid(_purchase(), NOW)
    assert (settled.status, settled.settled_at, settled.remaining_amount_cents) == ("settled", NOW, 1000)
    assert paid(settled, LATER) is settled
    failed = unpaid(_purchase(), WalletTransactionEvent.PAYMENT_FAILED, NOW)
    assert (failed.status, failed.failed_at, failed.remaining_amount_cents) == ("failed", NOW, None)
    assert unpaid(failed, WalletTransactionEvent.PAYMENT_FAILED, LATER) is failed
    late = paid(failed, LATER)
    assert (late.status, late.settled_at, late.failed_at, late.remaining_amount_cents) == ("settled", LATER, NOW, 1000)


@pytest.mark.parametrize("event", [WalletTransactionEvent.PAYMENT_FAILED, WalletTransactionEvent.OFFSET])
def test_what_is_settled_stays_settled(event: WalletTransactionEvent) -> None:
    settled = paid(_purchase(), NOW)
    assert unpaid(settled, event, LATER) is settled
    assert unpaid(_purchase(), event, LATER).status == "failed"


def test_only_what_waits_counts_as_pending() -> None:
    waiting = _purchase(credit_amount=Decimal("2.5"))
    assert pending_credits([waiting, paid(waiting, NOW), _of("g", 100)]) == Decimal("2.5")
