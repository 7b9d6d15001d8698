"""Payments: where money goes back to, in tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.core.builders import NOW, invoice, note

from usagebill.core.payment_receipts import remaining_cents
from usagebill.core.payments import (
    Payment,
    is_refund_due,
    is_under_way,
    money_back_word,
    refunded_payment,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus


def payment(id: str = "payment", *, at: int = 0, **fields: Any) -> Payment:
    """A payment of 10 euros that succeeded `at` minutes after `NOW`, through a provider."""
    values: dict[str, Any] = {
        "id": id,
        "organization_id": "organization",
        "customer_id": "customer",
        "invoice_id": "invoice",
        "amount_cents": 1000,
        "amount_currency": "EUR",
        "created_at": NOW + timedelta(minutes=at),
        "updated_at": NOW,
        "connection_id": "connection",
        "provider_payment_id": f"provider-{id}",
        **fields,
    }
    return Payment(**values)


@pytest.mark.parametrize(
    ("payments", "refunded"),
    [
        ([], None),
        ([payment("a")], "a"),
        ([payment("a"), payment("b", at=1)], "b"),
        ([payment("b", at=1), payment("a")], "b"),
        # Of one instant, the one with the later id.
        ([payment("b"), payment("a")], "b"),
        # One that failed moved no money.
        ([payment("a"), payment("b", at=1, payment_status=ChargeStatus.FAILED)], "a"),
        # The newest was given by hand, and is given back by hand.
        ([payment("a"), payment("b", at=1, connection_id=None, provider_payment_id=None)], None),
        ([payment("a", provider_payment_id=None)], None),
    ],
)
def test_refunds_go_back_to_the_newest_payment_if_a_provider_knows_it(
    payments: list[Payment], refunded: str | None
) -> None:
    chosen = refunded_payment(payments)
    assert (chosen and chosen.id) == refunded


@pytest.mark.parametrize(
    ("cents", "refund", "word"),
    [
        (1000, PaymentStatus.PENDING, "refund_pending"),
        (1000, PaymentStatus.SUCCEEDED, "refunded"),
        (1000, PaymentStatus.FAILED, "to_be_refunded"),
        (400, PaymentStatus.PENDING, "surplus_refund_pending"),
        (400, PaymentStatus.SUCCEEDED, "surplus_refunded"),
        (400, PaymentStatus.FAILED, "surplus_to_be_refunded"),
    ],
)
def test_a_payment_says_whether_all_of_it_goes_back_or_a_surplus(cents: int, refund: PaymentStatus, word: str) -> None:
    assert money_back_word(payment(), cents, refund).value == word


@pytest.mark.parametrize(
    ("invoices", "requested", "remaining"),
    [
        ([(1500, 1000)], None, 500),
        ([(1000, 1000)], None, 0),
        # Of a request: what was asked for less what was paid of it, whatever else is due of its invoices now.
        ([(1500, 1000), (700, 0)], 1000, 0),
        ([(1500, 600), (700, 400)], 2200, 2200 - 1000),
    ],
)
def test_what_a_receipt_says_is_left(invoices: list[tuple[int, int]], requested: int | None, remaining: int) -> None:
    paid = [
        invoice(status="finalized", total_amount_cents=total, total_paid_amount_cents=paid) for total, paid in invoices
    ]
    assert remaining_cents(payment(), paid, requested) == remaining


@pytest.mark.parametrize(
    ("refund_cents", "refund_status", "is_disputed", "is_due"),
    [
        (100, "pending", False, True),
        (100, "failed", False, True),
        (100, "succeeded", False, False),
        (0, None, False, False),
        (100, "pending", True, False),
    ],
)
def test_a_refund_is_paid_back_once_and_not_after_a_lost_dispute(
    refund_cents: int, refund_status: str | None, is_disputed: bool, is_due: bool
) -> None:
    refunding = note("note", 0, refund_amount_cents=refund_cents, refund_status=refund_status)
    credited = invoice(payment_dispute_lost_at=NOW if is_disputed else None)
    assert is_refund_due(refunding, credited) is is_due


@pytest.mark.parametrize(
    ("status", "unanswered", "moves_money"),
    [
        (ChargeStatus.PROCESSING, False, True),
        (ChargeStatus.PENDING, True, True),
        (ChargeStatus.PENDING, False, False),
        (ChargeStatus.FAILED, False, False),
    ],
)
def test_a_charge_is_under_way_while_its_provider_has_it_or_has_not_answered(
    status: ChargeStatus, unanswered: bool, moves_money: bool
) -> None:
    assert is_under_way(payment(payment_status=status, unanswered=unanswered)) is moves_money
