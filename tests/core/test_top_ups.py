"""Top-ups: which transactions they make, and what a payment of them makes of these, in tables."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.core.builders import NOW, inbound, invoice, wallet

from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.top_ups import TopUp, new_transaction, purchase_event
from usagebill.core.wallet_transactions import TransactionKind, WalletTransactionEvent, refunding


@pytest.mark.parametrize(
    ("kind", "transaction_type", "status", "remaining", "order_number"),
    [
        (TransactionKind.PURCHASED, "inbound", "pending", None, "PO-1"),
        (TransactionKind.GRANTED, "inbound", "settled", 500, "PO-1"),
        (TransactionKind.VOIDED, "outbound", "settled", None, None),
        (TransactionKind.INVOICED, "outbound", "settled", None, None),
    ],
)
def test_bought_credits_wait_for_their_payment_and_all_others_are_settled(
    kind: TransactionKind, transaction_type: str, status: str, remaining: int | None, order_number: str | None
) -> None:
    order = TopUp(purchase_order_number="PO-1", priority=3)
    made = new_transaction(wallet(), order, kind, 500, Decimal(5), id="transaction", now=NOW)
    assert (made.transaction_type, made.status, made.remaining_amount_cents) == (transaction_type, status, remaining)
    assert (made.amount_cents, made.credit_amount, made.priority) == (500, 5, 3)
    assert (made.purchase_order_number, made.settled_at) == (order_number, None if status == "pending" else NOW)


PAID: dict[str, Any] = {"status": InvoiceStatus.FINALIZED, "payment_status": "succeeded"}


@pytest.mark.parametrize(
    ("reported", "fields", "event"),
    [
        ("succeeded", PAID, WalletTransactionEvent.PAID),
        ("succeeded", {**PAID, "status": InvoiceStatus.OPEN}, WalletTransactionEvent.PAID),
        ("failed", {"status": InvoiceStatus.FINALIZED}, WalletTransactionEvent.PAYMENT_FAILED),
        ("failed", {"status": InvoiceStatus.VOIDED}, WalletTransactionEvent.PAYMENT_FAILED),
        # A credit note settled it: nobody paid.
        ("succeeded", {**PAID, "total_offset_amount_cents": 500}, WalletTransactionEvent.OFFSET),
        # It was voided before it was paid, or after.
        ("succeeded", {"status": InvoiceStatus.VOIDED, "payment_status": "pending"}, None),
        ("succeeded", {**PAID, "status": InvoiceStatus.VOIDED}, WalletTransactionEvent.PAID),
    ],
)
def test_what_happens_to_bought_credits(
    reported: str, fields: dict[str, Any], event: WalletTransactionEvent | None
) -> None:
    assert purchase_event(reported, invoice(**fields)) is event


def test_refunded_credits_go_out_of_the_wallet_that_they_came_into() -> None:
    purchase = inbound("purchase", 1000, wallet_id="wallet", billing_entity_id="entity")
    void = refunding(purchase, 400, Decimal(4), credit_note_id="note", id="void", now=NOW)
    assert (void.transaction_type, void.transaction_status, void.status) == ("outbound", "voided", "settled")
    assert (void.wallet_id, void.amount_cents, void.credit_amount) == ("wallet", 400, 4)
    assert (void.credit_note_id, void.remaining_amount_cents) == ("note", None)
