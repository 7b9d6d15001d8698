"""Charge attempts: the next step to collect something, and the payment after the provider's answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from usagebill.core.collection import AUTHENTICATION_REQUIRED, Collectable, Consequence
from usagebill.core.customers import Customer
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.payment_providers import KINDS
from usagebill.core.payments import LIVE, Payment
from usagebill.core.provider_requests import Charged, FailureKind, PayableType, ProviderFailure
from usagebill.core.statuses import ChargeStatus, PaymentStatus

_BANK_TRANSFER = ("customer_balance",)


class ChargeStep(StrEnum):
    """The next step to collect something."""

    SEND_AGAIN = "send_again"  # the outcome of the last charge is unknown
    LOOK_UP = "look_up"  # so it is, but less is due by now: the provider is asked what became of it
    NOTHING = "nothing"  # it is paid, or must not be charged
    SETTLE = "settle"  # nothing is due
    WAIT = "wait"  # the provider is processing a charge and will report its outcome
    CHARGE = "charge"


def charge_step(collectable: Collectable, live: Payment | None) -> ChargeStep:
    """The next step; `live` is the payment that may still move money, if any."""
    if live is not None and live.unanswered and live.sent is not None:
        kind = KINDS.get(live.payment_provider_type or "")
        # A debit takes nothing before it can be canceled.
        is_harmless = kind is not None and kind.debits and kind.cancels
        return (
            ChargeStep.SEND_AGAIN if is_harmless or live.amount_cents <= owed_cents(collectable) else ChargeStep.LOOK_UP
        )
    if collectable.payment_status == PaymentStatus.SUCCEEDED or not collectable.is_collectable:
        return ChargeStep.NOTHING
    if collectable.due_cents == 0:
        return ChargeStep.SETTLE
    if live is not None and live.payment_status == ChargeStatus.PROCESSING:
        return ChargeStep.WAIT
    return ChargeStep.CHARGE


def owed_cents(collectable: Collectable) -> int:
    """What may still be taken for it."""
    is_open = collectable.is_collectable and collectable.payment_status != PaymentStatus.SUCCEEDED
    return collectable.due_cents if is_open else 0


def needs_no_method(customer: Customer, collectable: Collectable, choice: PaymentMethodChoice | None) -> bool:
    """Whether it can be charged without a payment method that we know: the customer pays by bank transfer, or it is a
    payment request, for which the provider chooses the method. False if a method, or payment by hand, was chosen.
    """
    if choice is not None and (choice.is_by_hand or choice.id is not None):
        return False
    return customer.provider_payment_methods == _BANK_TRANSFER or collectable.type is PayableType.PAYMENT_REQUEST


def is_news(payment: Payment, answer: Charged) -> bool:
    """Whether the answer tells the state of the charge. A notice, or another answer to the same request, may have come
    before: then only an outcome is news, and no failure undoes a success.
    """
    if payment.payment_status in LIVE:
        return payment.unanswered or answer.payment_status not in LIVE
    return payment.payment_status != answer.payment_status == ChargeStatus.SUCCEEDED


def answered(payment: Payment, answer: Charged, now: datetime) -> Payment:
    """The payment after its charge was answered; its state changes if that `is_news`."""
    sent = replace(
        payment,
        provider_payment_id=answer.provider_payment_id,
        method=answer.method or payment.method,
        attempts=payment.attempts + 1,
        unanswered=False,
        updated_at=now,
    )
    if not is_news(payment, answer):
        return sent
    return replace(
        sent,
        status=answer.status,
        payment_status=answer.payment_status,
        next_action=answer.next_action,
        error_code=answer.error_code,
    )


def refused(payment: Payment, failure: ProviderFailure, follows: Consequence, now: datetime) -> Payment:
    """The payment after its charge was refused. After a conflict the outcome of the charge is unknown."""
    is_unconfirmed = failure.kind is FailureKind.ACTION_REQUIRED
    return replace(
        payment,
        status="failed",
        payment_status=follows.payment_status,
        provider_payment_id=failure.provider_payment_id or payment.provider_payment_id,
        error_code=AUTHENTICATION_REQUIRED if is_unconfirmed else failure.code,
        attempts=payment.attempts + 1,
        unanswered=failure.kind is FailureKind.CONFLICT,
        updated_at=now,
    )
