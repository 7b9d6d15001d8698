"""Which changes of an invoice are refused, and what payments and time make of it, in tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from tests.core.builders import NOW, invoice

from usagebill.core.errors import NotAllowed
from usagebill.core.invoices.changes import (
    finalized_before,
    metadata_problems,
    overdue_from,
    payment_refusal,
    taken_until_undone,
    update_refusal,
    void_refusal,
    voided,
    with_offset,
    with_payment_status,
)
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Credit, CreditType, InvoiceMetadata
from usagebill.core.statuses import PaymentStatus

FINALIZED, DRAFT, VOIDED = InvoiceStatus.FINALIZED, InvoiceStatus.DRAFT, InvoiceStatus.VOIDED
MOST_ITEMS = 5
LATER, LATEST = NOW + timedelta(hours=1), NOW + timedelta(hours=2)


@pytest.mark.parametrize(
    ("status", "sent_status", "items", "refusal"),
    [
        (FINALIZED, None, None, None),
        (FINALIZED, "succeeded", MOST_ITEMS, None),
        (FINALIZED, "refunded", None, "validation_errors: {'payment_status': ['value_is_invalid']}"),
        (FINALIZED, None, MOST_ITEMS + 1, "validation_errors: {'metadata': ['invalid_count']}"),
        (VOIDED, None, None, "update_on_voided_invoice"),
        (VOIDED, "paid", MOST_ITEMS + 1, "update_on_voided_invoice"),
        (DRAFT, "pending", None, None),
        (DRAFT, "succeeded", None, "payment_status_update_on_draft_invoice"),
        (DRAFT, "succeeded", 0, "metadata_on_draft_invoice"),
        (DRAFT, "paid", None, "validation_errors: {'payment_status': ['value_is_invalid']}"),
    ],
)
def test_which_updates_are_refused(
    status: InvoiceStatus, sent_status: str | None, items: int | None, refusal: str | None
) -> None:
    error = update_refusal(status, PaymentStatus.PENDING, sent_status=sent_status, items=items)
    assert (None if error is None else str(error)) == refusal


@pytest.mark.parametrize(
    ("pairs", "problems"),
    [
        ([], {}),
        ([("a", "1"), ("b", "1")], {}),
        ([("k" * 20, "v" * 140)], {}),
        ([("k" * 21, "v")], {"key": ["value_is_too_long"]}),
        ([("k", "v" * 141)], {"value": ["value_is_too_long"]}),
        ([(" ", "")], {"key": ["value_is_mandatory"], "value": ["value_is_mandatory"]}),
        ([("a", "1"), ("a", "2")], {"key": ["value_already_exist"]}),
        # What is missing comes first.
        ([("", "1"), ("", "2")], {"key": ["value_is_mandatory"]}),
    ],
)
def test_what_metadata_is_refused(pairs: list[tuple[str, str]], problems: dict[str, list[str]]) -> None:
    items = [InvoiceMetadata(id=key, key=key, value=value, created_at=NOW) for key, value in pairs]
    assert metadata_problems(items) == problems


@pytest.mark.parametrize("status", InvoiceStatus)
def test_payments_are_recorded_for_what_is_issued_or_waits_for_its_payment(status: InvoiceStatus) -> None:
    taken = status in (InvoiceStatus.FINALIZED, InvoiceStatus.OPEN)
    assert (payment_refusal(InvoiceType.SUBSCRIPTION, status) is None) is taken
    assert payment_refusal(InvoiceType.ADVANCE_CHARGES, status) is None


ISSUED: dict[str, Any] = {"status": FINALIZED, "payment_due_date": date(2024, 5, 10), "total_amount_cents": 1000}


@pytest.mark.parametrize(
    ("fields", "overdue"),
    [
        ({}, datetime(2024, 5, 11, 0, 25, tzinfo=UTC)),
        ({"payment_status": "failed"}, datetime(2024, 5, 11, 0, 25, tzinfo=UTC)),
        ({"payment_status": "succeeded"}, None),
        ({"payment_overdue": True}, None),
        ({"payment_dispute_lost_at": NOW}, None),
        ({"status": "draft"}, None),
        ({"status": "voided"}, None),
        ({"status": "closed"}, None),
    ],
)
def test_when_an_invoice_becomes_overdue(fields: dict[str, Any], overdue: datetime | None) -> None:
    assert overdue_from(invoice(**{**ISSUED, **fields})) == overdue


@pytest.mark.parametrize(
    ("was_overdue", "status", "is_overdue"),
    [(True, "succeeded", False), (True, "failed", True), (True, "pending", True), (False, "pending", False)],
)
def test_what_is_paid_is_not_overdue_any_more(was_overdue: bool, status: str, is_overdue: bool) -> None:
    after = with_payment_status(invoice(**ISSUED, payment_overdue=was_overdue), PaymentStatus(status), NOW)
    assert (after.payment_status, after.payment_overdue) == (status, is_overdue)


def test_what_credit_notes_settle_is_not_due() -> None:
    once = with_offset(invoice(**ISSUED), 300, NOW)
    assert once.due_cents == 1000 - 300
    assert with_offset(once, 700, NOW).due_cents == 0


@pytest.mark.parametrize(
    ("payment_status", "gives_back", "is_refused"),
    [
        ("pending", False, False),
        ("failed", False, False),
        ("succeeded", False, True),
        ("succeeded", True, False),
    ],
)
def test_a_paid_invoice_is_voided_only_with_a_credit_note(
    payment_status: str, gives_back: bool, is_refused: bool
) -> None:
    refusal = void_refusal(PaymentStatus(payment_status), gives_back=gives_back)
    assert (refusal is not None) is is_refused


def test_nothing_is_due_of_a_voided_invoice() -> None:
    after = voided(invoice(**ISSUED, payment_overdue=True), NOW)
    assert (after.status, after.due_cents, after.voided_at) == ("voided", 0, NOW)
    assert not after.payment_overdue
    assert not after.ready_for_payment_processing


@pytest.mark.parametrize("status", ["draft", "pending", "failed", "voided", "closed"])
def test_only_an_issued_invoice_is_voided(status: str) -> None:
    with pytest.raises(NotAllowed, match="not_voidable"):
        voided(invoice(status=InvoiceStatus(status)), NOW)


FIRST, NEXT = date(2024, 5, 4), date(2024, 5, 5)


def test_drafts_are_finalized_by_day_then_creation_then_id() -> None:
    subject = invoice(id="c", status=DRAFT, issuing_date=NEXT, created_at=NOW)
    earlier = [
        replace(subject, id="day", issuing_date=FIRST, created_at=LATER),
        replace(subject, id="expected", expected_finalization_date=FIRST, created_at=LATEST),
        replace(subject, id="made", created_at=NOW - timedelta(hours=1)),
        replace(subject, id="b"),
    ]
    later = [
        replace(subject, id="d"),
        replace(subject, id="a", created_at=LATER),
        replace(subject, id="e", issuing_date=FIRST, expected_finalization_date=date(2024, 5, 6)),
    ]
    assert finalized_before(subject, [*reversed(later), subject, *reversed(earlier)]) == earlier


def credit(cents: int) -> Credit:
    return Credit(
        id="credit",
        amount_cents=cents,
        amount_currency="EUR",
        before_taxes=True,
        item_id="coupon",
        item_type=CreditType.COUPON,
        item_code="coupon",
        item_name="Coupon",
        created_at=NOW,
    )


@pytest.mark.parametrize(
    ("others", "taken_cents"),
    [
        ([], 100),
        ([(FINALIZED, 30), (DRAFT, 7)], 100 + 30 + 7),
        ([(VOIDED, 30), (InvoiceStatus.CLOSED, 5), (InvoiceStatus.DELETED, 2)], 100),
    ],
)
def test_what_a_coupon_had_taken_before_an_invoice_was_undone(
    others: list[tuple[InvoiceStatus, int]], taken_cents: int
) -> None:
    credits = [(invoice(id=f"other-{n}", status=status), credit(cents)) for n, (status, cents) in enumerate(others)]
    # The undone invoice counts once, whether it has its final status already or not.
    for status in (FINALIZED, VOIDED):
        undone = invoice(id="undone", status=status)
        assert taken_until_undone(undone, credit(100), [*credits, (undone, credit(100))]) == taken_cents
