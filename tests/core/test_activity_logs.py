"""Which activities a change of a record is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.core.builders import inbound, invoice, note, subscription

from usagebill.core.activity_logs import (
    changed_values,
    credit_note_activities,
    definition_activities,
    invoice_activities,
    subscription_activities,
    wallet_transaction_activities,
)
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.statuses import PaymentStatus, TaxStatus
from usagebill.core.subscriptions import SubscriptionStatus
from usagebill.core.taxes import Tax
from usagebill.core.wallet_transactions import WalletTransactionStatus

THEN = datetime(2024, 3, 5, tzinfo=UTC)
S = InvoiceStatus


@pytest.mark.parametrize(
    ("before", "after", "types"),
    [
        (None, {"status": S.DRAFT}, ["invoice.drafted", "invoice.ready_to_finalize"]),
        (None, {"status": S.DRAFT, "tax_status": TaxStatus.PENDING}, ["invoice.drafted"]),
        (
            {"status": S.DRAFT, "tax_status": TaxStatus.PENDING},
            {"status": S.DRAFT, "tax_status": TaxStatus.SUCCEEDED},
            ["invoice.ready_to_finalize"],
        ),
        ({"status": S.DRAFT}, {"status": S.DRAFT, "total_amount_cents": 5}, []),
        ({"status": S.DRAFT}, {"status": S.FINALIZED}, ["invoice.created"]),
        (None, {"status": S.FINALIZED, "invoice_type": InvoiceType.ONE_OFF}, ["invoice.one_off_created"]),
        (None, {"status": S.FINALIZED, "invoice_type": InvoiceType.CREDIT}, ["invoice.paid_credit_added"]),
        (None, {"status": S.FINALIZED, "voided_invoice_id": "old"}, ["invoice.created", "invoice.regenerated"]),
        (None, {"status": S.CLOSED}, []),
        ({"status": S.PENDING}, {"status": S.FAILED}, ["invoice.failed"]),
        ({"status": S.FINALIZED}, {"status": S.VOIDED}, ["invoice.voided"]),
        ({"status": S.DRAFT}, {"status": S.DELETED}, ["invoice.deleted"]),
        (
            {"status": S.FINALIZED},
            {"status": S.FINALIZED, "payment_status": PaymentStatus.SUCCEEDED, "total_paid_amount_cents": 9},
            ["invoice.payment_status_updated"],
        ),
        ({"status": S.FINALIZED}, {"status": S.FINALIZED, "total_paid_amount_cents": 3}, []),
        ({"status": S.FINALIZED}, {"status": S.FINALIZED, "payment_overdue": True}, ["invoice.payment_overdue"]),
        ({"status": S.FINALIZED}, {"status": S.FINALIZED, "payment_dispute_lost_at": THEN}, ["invoice.updated"]),
        ({"status": S.FINALIZED}, {"status": S.FINALIZED, "pdf_id": "pdf"}, ["invoice.generated"]),
        (
            {"status": S.OPEN},
            {"status": S.OPEN, "payment_status": PaymentStatus.SUCCEEDED},
            [],  # nobody sees it yet
        ),
    ],
)
def test_of_invoices(before: dict[str, Any] | None, after: dict[str, Any], types: list[str]) -> None:
    assert list(invoice_activities(None if before is None else invoice(**before), invoice(**after))) == types


def test_of_credit_notes() -> None:
    issued = note("n", 100)
    assert credit_note_activities(None, issued) == ["credit_note.created"]
    assert credit_note_activities(issued, replace(issued, balance_amount_cents=10)) == []
    assert credit_note_activities(issued, replace(issued, refund_status=PaymentStatus.FAILED)) == [
        "credit_note.updated"
    ]
    assert credit_note_activities(issued, replace(issued, pdf_id="pdf")) == ["credit_note.generated"]


@pytest.mark.parametrize(
    ("before", "after", "types"),
    [
        (None, "pending", ["subscription.created"]),
        (None, "active", ["subscription.started"]),
        ("pending", "active", ["subscription.started"]),
        ("pending", "incomplete", ["subscription.incomplete"]),
        ("active", "terminated", ["subscription.terminated"]),
        ("pending", "canceled", ["subscription.canceled"]),
        ("active", "active", []),
    ],
)
def test_of_subscriptions(before: str | None, after: str, types: list[str]) -> None:
    old = None if before is None else subscription(status=SubscriptionStatus(before))
    assert list(subscription_activities(old, subscription(status=SubscriptionStatus(after)))) == types


def test_what_the_system_notes_of_a_subscription_is_no_activity() -> None:
    active = subscription(status=SubscriptionStatus.ACTIVE)
    assert subscription_activities(active, replace(active, trial_ended_at=THEN)) == ()
    assert subscription_activities(active, replace(active, trial_ended_at=THEN, name="New")) == (
        "subscription.updated",
    )


def test_what_is_left_of_credits_is_no_activity() -> None:
    bought = inbound("t", 100)
    assert wallet_transaction_activities(bought, replace(bought, remaining_amount_cents=3)) == ()
    failed = replace(bought, status=WalletTransactionStatus.FAILED)
    assert wallet_transaction_activities(bought, failed) == ("wallet_transaction.updated",)


def test_a_definition_is_deleted_once_it_says_so_or_is_gone() -> None:
    activities = definition_activities("tax")
    tax = Tax(id="t", organization_id="o", name="VAT", code="vat", rate=20, created_at=THEN, updated_at=THEN)  # type: ignore[arg-type]
    assert activities(tax, replace(tax, deleted_at=THEN)) == ("tax.deleted",)
    assert activities(tax, None) == ("tax.deleted",)
    assert activities(tax, replace(tax, updated_at=datetime.now(UTC))) == ()


def test_changed_values_are_those_that_differ() -> None:
    before = {"name": "A", "code": "a", "updated_at": 1}
    assert changed_values(before, {"name": "B", "code": "a", "updated_at": 2, "new": 3}) == {
        "name": ["A", "B"],
        "new": [None, 3],
    }
