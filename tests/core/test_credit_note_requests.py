"""Which credit notes may be asked for, in tables: of which invoice, in which parts, over how much of a fee."""

from __future__ import annotations

from decimal import Decimal

import pytest

from usagebill.core import limits
from usagebill.core.credit_note_requests import item_amount, item_problem, takes_notes, takes_parts
from usagebill.core.credit_notes import Parts
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.statuses import PaymentStatus

D = Decimal
SUBSCRIPTION, CREDIT = InvoiceType.SUBSCRIPTION, InvoiceType.CREDIT


@pytest.mark.parametrize(
    ("status", "version", "invoice_type", "wallet_is_active", "takes"),
    [
        (InvoiceStatus.FINALIZED, 4, SUBSCRIPTION, False, True),
        (InvoiceStatus.DRAFT, 4, SUBSCRIPTION, False, True),
        (InvoiceStatus.VOIDED, 4, SUBSCRIPTION, False, False),
        (InvoiceStatus.FAILED, 4, SUBSCRIPTION, False, False),
        (InvoiceStatus.FINALIZED, 2, SUBSCRIPTION, False, True),
        (InvoiceStatus.FINALIZED, 1, SUBSCRIPTION, False, False),
        (InvoiceStatus.FINALIZED, 4, CREDIT, True, True),
        (InvoiceStatus.FINALIZED, 4, CREDIT, False, False),
    ],
)
def test_which_invoices_take_notes(
    status: InvoiceStatus, version: int, invoice_type: InvoiceType, wallet_is_active: bool, takes: bool
) -> None:
    assert takes_notes(status, version, invoice_type, wallet_is_active=wallet_is_active) is takes


@pytest.mark.parametrize(
    ("invoice_type", "payment_status", "parts", "takes"),
    [
        (SUBSCRIPTION, PaymentStatus.PENDING, Parts(credit=100), True),
        (CREDIT, PaymentStatus.SUCCEEDED, Parts(refund=100), True),
        (CREDIT, PaymentStatus.PENDING, Parts(credit=100), False),
        (CREDIT, PaymentStatus.FAILED, Parts(refund=100), False),
        (CREDIT, PaymentStatus.PENDING, Parts(offset=100), True),
    ],
)
def test_nothing_is_given_back_of_credits_that_nobody_has_paid_for(
    invoice_type: InvoiceType, payment_status: PaymentStatus, parts: Parts, takes: bool
) -> None:
    assert takes_parts(invoice_type, payment_status, parts) is takes


@pytest.mark.parametrize(
    ("sent", "amount"),
    [
        (None, D(0)),
        (100, D(100)),
        (D("100.5"), D("100.5")),
        (" 100.5 ", D("100.5")),
        ("", None),
        ("ten", None),
        (True, None),
        ([100], None),
        (-1, None),
        (limits.INVOICE_PART.most, D(limits.INVOICE_PART.most)),
        (10 * limits.INVOICE_PART.most, None),
    ],
)
def test_what_is_an_amount(sent: object, amount: Decimal | None) -> None:
    assert item_amount(sent) == amount


@pytest.mark.parametrize(
    ("cents", "left_cents", "unused_cents", "problem"),
    [
        (100, 100, None, None),
        (101, 100, None, "higher_than_remaining_fee_amount"),
        (0, 0, None, None),
        (100, 100, 100, None),
        (101, 100, 100, "higher_than_wallet_balance"),
        (101, 100, 500, "higher_than_remaining_fee_amount"),
    ],
)
def test_an_item_is_at_most_what_is_left_of_its_fee_and_of_the_wallet(
    cents: int, left_cents: int, unused_cents: int | None, problem: str | None
) -> None:
    assert item_problem(cents, left_cents=left_cents, unused_cents=unused_cents) == problem
