"""How an invoice comes to be paid: what each thing that happens to its payments makes of it. The table is `MOVES`.

An invoice is pending, succeeded or failed. `ready_for_payment_processing` says whether another charge may begin. Once
it has succeeded, what happens to its payments changes nothing any more; money that comes all the same is on its
payments, and what is paid exceeds the total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from usagebill.core.statuses import ChargeStatus, PaymentStatus

__all__ = [
    "FAILED_CHARGES",
    "MOVES",
    "Move",
    "PaymentEvent",
    "Telling",
    "charge_event",
    "move",
    "notice_event",
    "request_event",
]


class PaymentEvent(StrEnum):
    """What happens to the payment of an invoice."""

    CHARGE_SUCCEEDED = "charge_succeeded"  # a charge was answered at once
    CHARGE_PROCESSING = "charge_processing"  # the provider has it, and will say
    CHARGE_PENDING = "charge_pending"  # the provider did not take it, and nobody declined
    CHARGE_FAILED = "charge_failed"
    CHARGE_AGAIN = "charge_again"  # it failed, and another follows that the customer is there for
    NOTHING_DUE = "nothing_due"  # there is nothing to charge
    NOTICE_SUCCEEDED = "notice_succeeded"  # the provider reports it
    NOTICE_PROCESSING = "notice_processing"
    NOTICE_FAILED = "notice_failed"
    PAID_BY_HAND = "paid_by_hand"  # a payment was recorded that completes it
    PAID_IN_PART = "paid_in_part"  # one that does not
    OFFSET = "offset"  # a credit note leaves nothing due
    REQUEST_SUCCEEDED = "request_succeeded"  # a payment request that holds it was paid
    REQUEST_PENDING = "request_pending"
    REQUEST_FAILED = "request_failed"
    UNWANTED = "unwanted"  # money came for a voided invoice, and is given back
    VOIDED = "voided"
    DISPUTE_LOST = "dispute_lost"


# A charge came to nothing.
FAILED_CHARGES = (PaymentEvent.CHARGE_FAILED, PaymentEvent.NOTICE_FAILED)


class Telling(StrEnum):
    """Whether a webhook announces the new status."""

    NEVER = "never"
    ON_CHANGE = "on_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What becomes of an invoice. Null leaves a status, or whether it is ready, as it was.

    `counts`: what was paid is added up again, from its own payments and those of payment requests with it.
    """

    status: PaymentStatus | None = None
    ready: bool | None = None
    counts: bool = False
    tells: Telling = Telling.NEVER


_P, _E, _CHANGE = PaymentStatus, PaymentEvent, Telling.ON_CHANGE

# From pending or failed.
_UNPAID: Mapping[PaymentEvent, Move] = {
    _E.CHARGE_SUCCEEDED: Move(status=_P.SUCCEEDED, ready=False, counts=True, tells=_CHANGE),
    _E.CHARGE_PROCESSING: Move(status=_P.PENDING, ready=False),
    _E.CHARGE_PENDING: Move(status=_P.PENDING, ready=True),
    _E.CHARGE_FAILED: Move(status=_P.FAILED, ready=True),
    _E.CHARGE_AGAIN: Move(status=_P.PENDING, ready=True),
    _E.NOTHING_DUE: Move(status=_P.SUCCEEDED, ready=False, tells=_CHANGE),
    _E.NOTICE_SUCCEEDED: Move(status=_P.SUCCEEDED, ready=False, counts=True, tells=_CHANGE),
    _E.NOTICE_PROCESSING: Move(status=_P.PENDING, ready=False, tells=_CHANGE),
    _E.NOTICE_FAILED: Move(status=_P.FAILED, ready=True, tells=_CHANGE),
    _E.PAID_BY_HAND: Move(status=_P.SUCCEEDED, counts=True, tells=_CHANGE),
    _E.PAID_IN_PART: Move(counts=True),
    _E.OFFSET: Move(status=_P.SUCCEEDED, tells=_CHANGE),
    _E.REQUEST_SUCCEEDED: Move(status=_P.SUCCEEDED, ready=False, counts=True, tells=_CHANGE),
    _E.REQUEST_PENDING: Move(status=_P.PENDING, ready=False),
    _E.REQUEST_FAILED: Move(status=_P.FAILED, ready=True, tells=_CHANGE),
    _E.UNWANTED: Move(counts=True),
    _E.VOIDED: Move(ready=False),
    _E.DISPUTE_LOST: Move(),
}

# Once paid: what comes in all the same is counted, so that it can be seen and given back.
_PAID: Mapping[PaymentEvent, Move] = {
    _E.CHARGE_SUCCEEDED: Move(counts=True),
    _E.NOTICE_SUCCEEDED: Move(counts=True),
    _E.REQUEST_SUCCEEDED: Move(counts=True),
    _E.PAID_BY_HAND: Move(counts=True),
    _E.PAID_IN_PART: Move(counts=True),
    _E.UNWANTED: Move(counts=True),
}

MOVES: Mapping[tuple[PaymentStatus, PaymentEvent], Move] = {
    **{(status, event): made for status in (_P.PENDING, _P.FAILED) for event, made in _UNPAID.items()},
    **{(_P.SUCCEEDED, event): _PAID.get(event, Move()) for event in PaymentEvent},
}


def move(status: PaymentStatus, event: PaymentEvent) -> Move:
    """What an event makes of an invoice with this payment status."""
    return MOVES[status, event]


_OF_CHARGES = {
    ChargeStatus.SUCCEEDED: _E.CHARGE_SUCCEEDED,
    ChargeStatus.PROCESSING: _E.CHARGE_PROCESSING,
    ChargeStatus.PENDING: _E.CHARGE_PENDING,
    ChargeStatus.FAILED: _E.CHARGE_FAILED,
}
_OF_NOTICES = {
    ChargeStatus.SUCCEEDED: _E.NOTICE_SUCCEEDED,
    ChargeStatus.PROCESSING: _E.NOTICE_PROCESSING,
    ChargeStatus.PENDING: _E.NOTICE_PROCESSING,
    ChargeStatus.FAILED: _E.NOTICE_FAILED,
}
_OF_REQUESTS = {
    _E.CHARGE_SUCCEEDED: _E.REQUEST_SUCCEEDED,
    _E.CHARGE_PROCESSING: _E.REQUEST_PENDING,
    _E.CHARGE_PENDING: _E.REQUEST_PENDING,
    _E.CHARGE_AGAIN: _E.REQUEST_PENDING,
    _E.NOTHING_DUE: _E.REQUEST_SUCCEEDED,
    _E.NOTICE_SUCCEEDED: _E.REQUEST_SUCCEEDED,
    _E.NOTICE_PROCESSING: _E.REQUEST_PENDING,
    _E.NOTICE_FAILED: _E.REQUEST_FAILED,
}


def charge_event(status: ChargeStatus) -> PaymentEvent:
    """What happens to an invoice whose charge was answered with this status."""
    return _OF_CHARGES[status]


def notice_event(status: ChargeStatus) -> PaymentEvent:
    """What happens to an invoice of whose payment the provider reports this status."""
    return _OF_NOTICES[status]


def request_event(event: PaymentEvent) -> PaymentEvent | None:
    """What happens to the invoices of a payment request to which this happens; None if nothing does."""
    return _OF_REQUESTS.get(event)
