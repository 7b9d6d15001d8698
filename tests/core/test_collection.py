"""Collecting: which invoices are charged when they are issued, and when, in tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.core.builders import invoice, parties

from usagebill.core.collection import FIRST_ATTEMPT_DELAY, first_charge_delay, is_collected_on_issue, is_open_to_payment

LINKED = {"payment_connection_id": "connection"}


@pytest.mark.parametrize(
    ("customer", "fields", "expected"),
    [
        (LINKED, {}, True),
        ({}, {}, False),
        (LINKED, {"payment_status": "failed"}, True),
        (LINKED, {"payment_status": "succeeded"}, False),
        (LINKED, {"skip_automatic_payment": True}, False),
        (LINKED, {"self_billed": True}, False),
    ],
)
def test_what_is_charged_when_it_is_issued(customer: dict[str, Any], fields: dict[str, Any], expected: bool) -> None:
    assert is_collected_on_issue(invoice(**fields), parties(**customer).customer) is expected


@pytest.mark.parametrize(
    ("attempts", "is_urgent", "has_pages", "delay"),
    [
        (0, False, True, FIRST_ATTEMPT_DELAY),
        (0, False, False, timedelta()),
        (0, True, True, timedelta()),
        (1, False, True, timedelta()),
    ],
)
def test_only_the_first_charge_waits_for_a_customer_who_may_pay_on_a_page(
    attempts: int, is_urgent: bool, has_pages: bool, delay: timedelta
) -> None:
    waiting = invoice(payment_attempts=attempts)
    assert first_charge_delay(waiting, is_urgent=is_urgent, has_pages=has_pages) == delay


@pytest.mark.parametrize(
    ("status", "payment_status", "is_open"),
    [
        ("finalized", "pending", True),
        ("finalized", "failed", True),
        ("open", "pending", True),
        ("finalized", "succeeded", False),
        ("draft", "pending", False),
        ("voided", "pending", False),
    ],
)
def test_an_issued_unpaid_invoice_is_open_to_payment(status: str, payment_status: str, is_open: bool) -> None:
    assert is_open_to_payment(invoice(status=status, payment_status=payment_status)) is is_open
