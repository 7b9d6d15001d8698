"""Charge attempts: what is done about something to be collected, and what an answer makes of its payment, in tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.core.builders import NOW, parties

from usagebill.core.charge_attempts import ChargeStep, answered, charge_step, needs_no_method, refused
from usagebill.core.collection import AUTHENTICATION_REQUIRED, Collectable, consequence
from usagebill.core.customers import Address
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.payments import Payment
from usagebill.core.provider_requests import (
    Charge,
    Charged,
    FailureKind,
    Payable,
    PayableLine,
    PayableType,
    Payer,
    ProviderFailure,
)
from usagebill.core.statuses import ChargeStatus

PAYABLE = Payable(
    type=PayableType.INVOICE,
    id="invoice",
    reference="Entity - Invoice INV-001",
    billing_entity_id="entity",
    lines=(PayableLine(name="INV-001", amount_cents=500),),
    created_at=NOW,
)
PAYER = Payer(
    customer_id="customer",
    external_id="acme",
    organization_id="organization",
    connection_id="connection",
    connection_code="stripe",
    provider_customer_id="cus",
    currency="EUR",
    address=Address(),
)
CHARGE = Charge(
    payment_id="payment",
    key="payment-payment",
    amount_cents=500,
    currency="EUR",
    payer=PAYER,
    payable=PAYABLE,
    metadata={},
    provider_method_id="pm",
)


def collectable(**fields: Any) -> Collectable:
    """An invoice of 5 euros that can be charged."""
    values: dict[str, Any] = {
        "type": PayableType.INVOICE,
        "id": "invoice",
        "customer_id": "customer",
        "due_cents": 500,
        "currency": "EUR",
        "payment_status": "pending",
        "is_ready": True,
        "is_collectable": True,
        "is_gated": False,
        "is_shown": True,
        "payable": PAYABLE,
        **fields,
    }
    return Collectable(**values)


def payment(payment_status: ChargeStatus = ChargeStatus.PENDING, **fields: Any) -> Payment:
    """A charge of 5 euros through a provider."""
    values: dict[str, Any] = {
        "id": "payment",
        "organization_id": "organization",
        "customer_id": "customer",
        "amount_cents": 500,
        "amount_currency": "EUR",
        "created_at": NOW,
        "updated_at": NOW,
        "connection_id": "connection",
        "payment_status": payment_status,
        **fields,
    }
    return Payment(**values)


LOST = payment(unanswered=True, sent=CHARGE)


@pytest.mark.parametrize(
    ("fields", "live", "step"),
    [
        ({}, None, ChargeStep.CHARGE),
        ({"payment_status": "failed"}, None, ChargeStep.CHARGE),
        ({"payment_status": "succeeded"}, None, ChargeStep.NOTHING),
        ({"is_collectable": False}, None, ChargeStep.NOTHING),
        ({"due_cents": 0}, None, ChargeStep.SETTLE),
        # What is paid or voided is not settled once more.
        ({"due_cents": 0, "payment_status": "succeeded"}, None, ChargeStep.NOTHING),
        ({"due_cents": 0, "is_collectable": False}, None, ChargeStep.NOTHING),
        ({}, payment(ChargeStatus.PROCESSING), ChargeStep.WAIT),
        ({"due_cents": 0}, payment(ChargeStatus.PROCESSING), ChargeStep.SETTLE),
        # One that nothing was taken for makes way.
        ({}, payment(), ChargeStep.CHARGE),
        # Until it is known what became of a charge, the same is sent again, unless less is due by now.
        ({}, LOST, ChargeStep.SEND_AGAIN),
        ({"due_cents": 1}, LOST, ChargeStep.LOOK_UP),
        ({"payment_status": "succeeded"}, LOST, ChargeStep.LOOK_UP),
        ({"is_collectable": False}, LOST, ChargeStep.LOOK_UP),
        # A debit is canceled before it takes anything.
        ({"due_cents": 1}, replace(LOST, payment_provider_type="gocardless"), ChargeStep.SEND_AGAIN),
        ({"due_cents": 1}, replace(LOST, payment_provider_type="adyen"), ChargeStep.LOOK_UP),
    ],
)
def test_what_is_done_next(fields: dict[str, Any], live: Payment | None, step: ChargeStep) -> None:
    assert charge_step(collectable(**fields), live) is step


@pytest.mark.parametrize(
    ("methods", "payable", "choice", "expected"),
    [
        (("card",), PayableType.INVOICE, None, False),
        (("customer_balance",), PayableType.INVOICE, None, True),
        (("customer_balance", "card"), PayableType.INVOICE, None, False),
        (("card",), PayableType.PAYMENT_REQUEST, None, True),
        (("card",), PayableType.PAYMENT_REQUEST, PaymentMethodChoice(kind="provider"), True),
        (("card",), PayableType.PAYMENT_REQUEST, PaymentMethodChoice(kind="provider", id="method"), False),
        (("customer_balance",), PayableType.INVOICE, PaymentMethodChoice(kind="manual"), False),
    ],
)
def test_what_is_charged_without_a_known_method(
    methods: tuple[str, ...], payable: PayableType, choice: PaymentMethodChoice | None, expected: bool
) -> None:
    customer = parties(provider_payment_methods=methods).customer
    assert needs_no_method(customer, collectable(type=payable), choice) is expected


def test_an_answer_says_how_the_payment_stands() -> None:
    answer = Charged(provider_payment_id="pi", status="succeeded", payment_status=ChargeStatus.SUCCEEDED)
    after = answered(payment(unanswered=True, attempts=2), answer, NOW)
    assert (after.payment_status, after.status, after.provider_payment_id) == ("succeeded", "succeeded", "pi")
    assert (after.unanswered, after.attempts) == (False, 3)


@pytest.mark.parametrize("known", [ChargeStatus.SUCCEEDED, ChargeStatus.FAILED])
def test_a_notice_that_was_faster_than_the_answer_counts(known: ChargeStatus) -> None:
    answer = Charged(provider_payment_id="pi", status="processing", payment_status=ChargeStatus.PROCESSING)
    before = payment(known, status="as_reported", unanswered=True)
    after = answered(before, answer, NOW)
    expected = replace(before, provider_payment_id="pi", unanswered=False, attempts=1)
    assert after == expected


@pytest.mark.parametrize(
    ("kind", "asks_customer", "status", "error_code", "unanswered"),
    [
        (FailureKind.DECLINED, True, ChargeStatus.FAILED, "code", False),
        (FailureKind.ACTION_REQUIRED, True, ChargeStatus.FAILED, AUTHENTICATION_REQUIRED, False),
        (FailureKind.ACTION_REQUIRED, False, ChargeStatus.FAILED, AUTHENTICATION_REQUIRED, False),
        (FailureKind.TOO_SMALL, True, ChargeStatus.PENDING, "code", False),
        # Another request with this key is under way: it is not known what becomes of it.
        (FailureKind.CONFLICT, True, ChargeStatus.PENDING, "code", True),
    ],
)
def test_a_refusal_says_how_the_payment_stands(
    kind: FailureKind, asks_customer: bool, status: ChargeStatus, error_code: str, unanswered: bool
) -> None:
    failure = ProviderFailure(kind=kind, code="code", message="It was refused")
    after = refused(payment(unanswered=True), failure, consequence(kind, asks_customer=asks_customer), NOW)
    assert (after.payment_status, after.error_code, after.unanswered) == (status, error_code, unanswered)
    assert (after.status, after.attempts) == ("failed", 1)
