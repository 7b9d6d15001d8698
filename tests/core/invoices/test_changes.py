"""Which changes of an invoice are refused, and with which codes, in tables."""

from __future__ import annotations

import pytest
from tests.core.builders import NOW

from usagebill.core.invoices.changes import metadata_problems, payment_refusal, update_refusal
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import InvoiceMetadata
from usagebill.core.statuses import PaymentStatus

FINALIZED, DRAFT, VOIDED = InvoiceStatus.FINALIZED, InvoiceStatus.DRAFT, InvoiceStatus.VOIDED
MOST_ITEMS = 5


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
