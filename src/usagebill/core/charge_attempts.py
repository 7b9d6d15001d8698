"""Charge attempts: what is done about something that is to be collected, and what an answer makes of its payment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from usagebill.core.collection import AUTHENTICATION_REQUIRED, Collectable, Consequence
from usagebill.core.customers import Customer
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.payments import LIVE, Payment
from usagebill.core.provider_requests import Charged, FailureKind, PayableType, ProviderFailure
from usagebill.core.statuses import ChargeStatus, PaymentStatus

__all__ = ["ChargeStep", "answered", "charge_step", "needs_no_method", "refused"]

_BANK_TRANSFER = ("customer_balance",)


class ChargeStep(StrEnum):
    """What is done about something that is to be collected now."""

    SEND_AGAIN = "send_again"  # whatever has changed: it is not known yet what became of the last charge
    NOTHING = "nothing"  # it is paid, or must not be charged
    SETTLE = "settle"  # nothing is due of it
    WAIT = "wait"  # the provider has a charge of it, and will say
    CHARGE = "charge"


def charge_step(collectable: Collectable, live: Payment | None) -> ChargeStep:
    """What is done next; `live` is its payment that may still move money."""
    if live is not None and live.unanswered and live.sent is not None:
        return ChargeStep.SEND_AGAIN
    if collectable.payment_status == PaymentStatus.SUCCEEDED or not collectable.is_collectable:
        return ChargeStep.NOTHING
    if collectable.due_cents == 0:
        return ChargeStep.SETTLE
    if live is not None and live.payment_status == ChargeStatus.PROCESSING:
        return ChargeStep.WAIT
    return ChargeStep.CHARGE


def needs_no_method(customer: Customer, collectable: Collectable, choice: PaymentMethodChoice | None) -> bool:
    """Whether it can be charged without a method that we know: the customer pays by bank transfer, or it is a payment
    request, which the provider finds a method for. Not if a method was chosen, or payment by hand.
    """
    if choice is not None and (choice.is_by_hand or choice.id is not None):
        return False
    return customer.provider_payment_methods == _BANK_TRANSFER or collectable.type is PayableType.PAYMENT_REQUEST


def answered(payment: Payment, answer: Charged, now: datetime) -> Payment:
    """The payment once its charge was answered. If a notice was faster than the answer, its status counts."""
    known = replace(
        payment,
        provider_payment_id=answer.provider_payment_id,
        method=answer.method or payment.method,
        attempts=payment.attempts + 1,
        unanswered=False,
        updated_at=now,
    )
    if payment.payment_status not in LIVE:
        return known
    return replace(
        known,
        status=answer.status,
        payment_status=answer.payment_status,
        next_action=answer.next_action,
        error_code=answer.error_code,
    )


def refused(payment: Payment, failure: ProviderFailure, follows: Consequence, now: datetime) -> Payment:
    """The payment once its charge was refused. After a conflict it is not known what became of the charge."""
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
