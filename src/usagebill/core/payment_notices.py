"""The consequences of a payment provider's notice about a payment.

Notices come twice, late and in any order. A payment only ever moves forward: once it has succeeded, only the bank takes
it back, and that can be undone too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum

from usagebill.core.collection import Collectable
from usagebill.core.payments import LIVE, NoticeStatus, Payment, TakenBack
from usagebill.core.provider_requests import OUTCOME_UNKNOWN, TEMPORARY_FAILURES, FailureKind, PaymentMoved
from usagebill.core.statuses import ChargeStatus

# Reasons why a notice has no effect. Unexpected ones need somebody to look at them.
TOO_EARLY = "the payment is not known"
REPEATED = "it is known already"
NOTHING = "nothing follows from it"
EXPECTED = (REPEATED, NOTHING)
# A notice that is ahead of our own records is processed up to this often.
MOST_LOOKS = 5


class Reaction(Enum):
    """The effect of a notice on a known payment."""

    FOLLOW = "follow"  # the payment takes the state that the provider reports
    RETURN = "return"  # a payment that succeeded was returned: it has failed, and its invoices are due again
    LOSE = "lose"  # a dispute about a payment that succeeded was lost
    WIN = "win"  # the money that a lost dispute took is back
    KEEP_METHOD = "keep_method"  # only the payment method is new
    NONE = "none"


def reaction_to(payment: Payment, moved: PaymentMoved, *, invoices_wait: bool) -> Reaction:
    """The effect of a notice on a known payment.

    A failure after a success undoes it if it is current, else it is late and about an earlier attempt. A payment that
    was returned succeeds only if that is current. `invoices_wait`: the charge of a payment request was refused, and
    its invoices do not show it yet.
    """
    if payment.payment_status == ChargeStatus.SUCCEEDED:
        is_disputed = payment.status == TakenBack.DISPUTED
        if moved.payment_status == ChargeStatus.FAILED and moved.is_current and not is_disputed:
            return Reaction.LOSE if moved.is_disputed else Reaction.RETURN
        if moved.payment_status == ChargeStatus.SUCCEEDED and moved.is_current and is_disputed:
            return Reaction.WIN
        return Reaction.KEEP_METHOD if moved.method is not None and payment.method is None else Reaction.NONE
    if moved.is_disputed and payment.status != TakenBack.RETURNED:
        # It was taken before, which nobody has told.
        return Reaction.LOSE
    if payment.status == TakenBack.RETURNED and (moved.payment_status == ChargeStatus.FAILED or not moved.is_current):
        return Reaction.NONE
    is_same = payment.status == moved.status and payment.payment_status == moved.payment_status
    is_unknown = payment.unanswered or payment.error_code == OUTCOME_UNKNOWN
    if is_same and not is_unknown and not invoices_wait:
        return Reaction.NONE
    is_late = payment.payment_status == ChargeStatus.FAILED and moved.payment_status in LIVE
    return Reaction.NONE if is_late else Reaction.FOLLOW


def followed(payment: Payment, moved: PaymentMoved, *, method_id: str | None, now: datetime) -> Payment:
    """The payment in the state that the provider reports. `method_id` is our payment method that was used, if known.

    Its amount is what was received, should that be another than was asked for.
    """
    received = moved.amount_cents if moved.payment_status == ChargeStatus.SUCCEEDED else None
    received_at = received_on(moved, now) or payment.received_at
    return replace(
        payment,
        amount_cents=payment.amount_cents if received is None else received,
        provider_payment_id=moved.provider_payment_id,
        # Its success, which is older, may be told later.
        status=TakenBack.RETURNED.value if moved.undoes else moved.status,
        payment_status=moved.payment_status,
        error_code=moved.error_code or (None if payment.error_code == OUTCOME_UNKNOWN else payment.error_code),
        method=moved.method or payment.method,
        payment_method_id=method_id,
        next_action={} if moved.payment_status not in LIVE else payment.next_action,
        unanswered=False,
        received_at=received_at,
        updated_at=now,
    )


def received_on(moved: PaymentMoved, now: datetime) -> datetime | None:
    """When the provider took the money, by its own word; its clock may be ahead of ours."""
    if moved.payment_status != ChargeStatus.SUCCEEDED or moved.happened_at is None:
        return None
    return min(moved.happened_at, now)


def returned(payment: Payment, moved: PaymentMoved, now: datetime) -> Payment:
    """The payment whose money went back: it has failed after all, for the reason that the provider gives."""
    return replace(
        payment,
        status=TakenBack.RETURNED.value,
        payment_status=ChargeStatus.FAILED,
        error_code=moved.error_code or moved.status,
        updated_at=now,
    )


def why_not_recorded(moved: PaymentMoved, collectable: Collectable | None) -> str | None:
    """The reason why an unknown payment is not recorded; None if it is: one made on a hosted page, for `collectable`.

    Without success nothing was paid, and the page is still there.
    """
    if moved.payable_id is None or moved.payable_type is None:
        return TOO_EARLY if moved.undoes or moved.payment_id is not None else NOTHING
    if collectable is None:
        return f"{moved.payable_type} {moved.payable_id} is not known"
    if not moved.creates:
        return TOO_EARLY
    if moved.payment_status != ChargeStatus.SUCCEEDED:
        return NOTHING
    if moved.currency is not None and moved.currency != collectable.currency:
        return f"it is in {moved.currency}, what it pays in {collectable.currency}"
    return None


def is_final(failure: FailureKind) -> bool:
    """Whether a provider that failed to explain a notice is not asked again. Credentials can be mended."""
    return failure not in (*TEMPORARY_FAILURES, FailureKind.UNAUTHORIZED)


def outcome_of(reasons: Sequence[str], *, outcomes: int, attempts: int) -> NoticeStatus:
    """The status of a notice with this number of outcomes, after `attempts` attempts; each of `reasons` says why one of
    the outcomes had no effect. Pending means that it is processed again.
    """
    if TOO_EARLY in reasons and attempts < MOST_LOOKS:
        return NoticeStatus.PENDING
    if any(reason not in EXPECTED for reason in reasons):
        return NoticeStatus.UNHANDLED
    return NoticeStatus.IGNORED if reasons and len(reasons) == outcomes else NoticeStatus.SUCCEEDED
