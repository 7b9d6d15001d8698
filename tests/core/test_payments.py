"""Payments: where money goes back to, in tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.core.builders import NOW, invoice, note

from usagebill.core.payment_receipts import remaining_cents
from usagebill.core.payments import (
    Payment,
    RefundAttempt,
    is_refund_due,
    is_under_way,
    money_back_word,
    note_refund_status,
    refund_shares,
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


A, B, C = payment("a"), payment("b", at=1), payment("c", at=2)


@pytest.mark.parametrize(
    ("cents", "payments", "shares"),
    [
        (400, [], []),
        (400, [(A, 1000)], [("a", 400)]),
        # The newest first, in whatever order they come; of one instant, the one with the later id.
        (400, [(B, 1000), (A, 1000)], [("b", 400)]),
        (400, [(payment("b"), 1000), (A, 1000)], [("b", 400)]),
        # What the newest has left does not suffice.
        (1200, [(A, 1000), (B, 1000)], [("b", 1000), ("a", 200)]),
        (1200, [(A, 1000), (B, 0), (C, 300)], [("c", 300), ("a", 900)]),
        (5000, [(A, 1000), (B, 1000)], [("b", 1000), ("a", 1000)]),
        (0, [(A, 1000)], []),
    ],
)
def test_a_refund_is_spread_over_payments_from_the_newest(
    cents: int, payments: list[tuple[Payment, int]], shares: list[tuple[str, int]]
) -> None:
    assert [(paid.id, share) for paid, share in refund_shares(cents, payments)] == shares


PENDING, DONE, FAILED = PaymentStatus.PENDING, PaymentStatus.SUCCEEDED, PaymentStatus.FAILED


def attempts(*of: tuple[int, PaymentStatus], invoices: str = "") -> list[RefundAttempt]:
    """Refunds one after the other; `invoices` has a letter for the invoice of each, by default the same for all."""
    return [
        RefundAttempt(
            id=f"refund-{place}",
            organization_id="organization",
            customer_id="customer",
            invoice_id=invoices[place] if invoices else "invoice",
            payment_id="payment",
            connection_id="connection",
            amount_cents=cents,
            currency="EUR",
            refund_status=status,
            created_at=NOW + timedelta(minutes=place),
            updated_at=NOW,
        )
        for place, (cents, status) in enumerate(of)
    ]


@pytest.mark.parametrize(
    ("made", "status"),
    [
        ([], PENDING),
        ([(1000, PENDING)], PENDING),
        ([(1000, DONE)], DONE),
        ([(1000, FAILED)], FAILED),
        # In two parts.
        ([(600, DONE), (400, PENDING)], PENDING),
        ([(600, DONE), (400, DONE)], DONE),
        ([(600, DONE), (400, FAILED)], FAILED),
        ([(600, PENDING), (400, FAILED)], FAILED),
        # Ordered again.
        ([(600, DONE), (400, FAILED), (400, PENDING)], PENDING),
        ([(600, DONE), (400, FAILED), (400, DONE)], DONE),
        # The rest was received by hand, and is given back by hand.
        ([(600, DONE)], PENDING),
    ],
)
def test_the_refund_of_a_note_is_done_once_all_of_it_went_back(
    made: list[tuple[int, PaymentStatus]], status: PaymentStatus
) -> None:
    assert note_refund_status(1000, attempts(*made)) is status


@pytest.mark.parametrize(
    ("made", "invoices", "word"),
    [
        ([(1000, PENDING)], "", "refund_pending"),
        ([(1000, DONE)], "", "refunded"),
        ([(1000, FAILED)], "", "to_be_refunded"),
        ([(400, PENDING)], "", "surplus_refund_pending"),
        ([(400, DONE)], "", "surplus_refunded"),
        ([(400, FAILED)], "", "surplus_to_be_refunded"),
        # Ordered again.
        ([(1000, FAILED), (1000, PENDING)], "", "refund_pending"),
        ([(1000, FAILED), (1000, DONE)], "", "refunded"),
        ([(400, FAILED), (300, DONE)], "", "surplus_refunded"),
        # In parts, one after the other, or for two invoices.
        ([(400, DONE), (600, DONE)], "", "refunded"),
        ([(400, FAILED), (300, DONE)], "ab", "surplus_to_be_refunded"),
        ([(400, DONE), (300, PENDING)], "ab", "surplus_refund_pending"),
    ],
)
def test_a_payment_says_whether_all_of_it_goes_back_or_a_surplus(
    made: list[tuple[int, PaymentStatus]], invoices: str, word: str
) -> None:
    assert money_back_word(payment(), attempts(*made, invoices=invoices)).value == word


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
