"""The payment of an invoice: the effect of each payment event on it. The table is `MOVES`.

An invoice is pending, succeeded or failed. `ready_for_payment_processing` says whether another charge may begin: not
while one is under way, nor after one of unknown outcome, until its provider or somebody says what became of it. What
was received and offset decides whether it has succeeded, wherever the money came from (`Move.with_left`). Once it has,
payment events no longer change its status, unless a payment is returned; money that arrives anyway is recorded with its
payments, and the paid amount exceeds the total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from usagebill.core.statuses import ChargeStatus, PaymentStatus


class PaymentEvent(StrEnum):
    """Events of the payment of an invoice."""

    CHARGE_SUCCEEDED = "charge_succeeded"  # a charge was answered at once
    CHARGE_PROCESSING = "charge_processing"  # the provider is processing it and will report
    CHARGE_PENDING = "charge_pending"  # the provider did not accept it, and nobody declined it
    CHARGE_FAILED = "charge_failed"
    CHARGE_UNKNOWN = "charge_unknown"  # the provider says nothing about it: it may have taken the money
    CHARGE_AGAIN = "charge_again"  # it failed, and is followed by another with the customer present
    NOTHING_DUE = "nothing_due"  # there is nothing to charge
    NOTICE_SUCCEEDED = "notice_succeeded"  # the provider reports it
    NOTICE_PROCESSING = "notice_processing"
    NOTICE_FAILED = "notice_failed"
    PAID_BY_HAND = "paid_by_hand"
    OFFSET = "offset"  # a credit note reduces what is due
    REQUEST_SUCCEEDED = "request_succeeded"  # a payment request with it was paid
    REQUEST_PENDING = "request_pending"
    REQUEST_FAILED = "request_failed"
    RETURNED = "returned"  # a payment that had succeeded was taken back, and what it paid is due again
    RECOUNTED = "recounted"  # money for a voided invoice came, or a surplus went back


# A charge failed.
FAILED_CHARGES = (PaymentEvent.CHARGE_FAILED, PaymentEvent.NOTICE_FAILED)


class Telling(StrEnum):
    """Whether a webhook announces the new status."""

    NEVER = "never"
    ON_CHANGE = "on_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The effect on an invoice. Null leaves a status, or whether it is ready, unchanged.

    `counts`: the paid amount is summed again, from its own payments and those of payment requests with it.
    """

    status: PaymentStatus | None = None
    ready: bool | None = None
    counts: bool = False
    tells: Telling = Telling.NEVER

    def with_left(self, cents: int) -> Move:
        """The effect if this many cents are neither paid nor offset afterwards: while something is left, a payment
        through a provider leaves it pending, to be charged; one by hand, or a credit note, keeps the status. If nothing
        is, a payment that was returned was not needed.
        """
        if self.status is PaymentStatus.FAILED and self.counts and cents <= 0:
            return replace(self, status=None, ready=None, tells=Telling.NEVER)
        if self.status is not PaymentStatus.SUCCEEDED or cents <= 0:
            return self
        if self.ready is None:
            return replace(self, status=None, tells=Telling.NEVER)
        return replace(self, status=PaymentStatus.PENDING, ready=True)


_P, _E, _CHANGE = PaymentStatus, PaymentEvent, Telling.ON_CHANGE

# From pending or failed.
_UNPAID: Mapping[PaymentEvent, Move] = {
    _E.CHARGE_SUCCEEDED: Move(status=_P.SUCCEEDED, ready=False, counts=True, tells=_CHANGE),
    _E.CHARGE_PROCESSING: Move(status=_P.PENDING, ready=False, tells=_CHANGE),
    _E.CHARGE_PENDING: Move(status=_P.PENDING, ready=True, tells=_CHANGE),
    _E.CHARGE_FAILED: Move(status=_P.FAILED, ready=True),
    _E.CHARGE_UNKNOWN: Move(status=_P.FAILED, ready=False, tells=_CHANGE),
    _E.CHARGE_AGAIN: Move(status=_P.PENDING, ready=True, tells=_CHANGE),
    _E.NOTHING_DUE: Move(status=_P.SUCCEEDED, ready=False, tells=_CHANGE),
    _E.NOTICE_SUCCEEDED: Move(status=_P.SUCCEEDED, ready=False, counts=True, tells=_CHANGE),
    _E.NOTICE_PROCESSING: Move(status=_P.PENDING, ready=False, tells=_CHANGE),
    _E.NOTICE_FAILED: Move(status=_P.FAILED, ready=True, tells=_CHANGE),
    _E.PAID_BY_HAND: Move(status=_P.SUCCEEDED, counts=True, tells=_CHANGE),
    _E.OFFSET: Move(status=_P.SUCCEEDED, tells=_CHANGE),
    _E.REQUEST_SUCCEEDED: Move(status=_P.SUCCEEDED, ready=False, counts=True, tells=_CHANGE),
    _E.REQUEST_PENDING: Move(status=_P.PENDING, ready=False, tells=_CHANGE),
    _E.REQUEST_FAILED: Move(status=_P.FAILED, ready=True, tells=_CHANGE),
    # Another charge may be under way.
    _E.RETURNED: Move(counts=True),
    _E.RECOUNTED: Move(counts=True),
}

# Once paid: further money is counted, so that it is visible and can be given back; only money that goes back undoes it.
_PAID: Mapping[PaymentEvent, Move] = {
    _E.CHARGE_SUCCEEDED: Move(counts=True),
    _E.NOTICE_SUCCEEDED: Move(counts=True),
    _E.REQUEST_SUCCEEDED: Move(counts=True),
    _E.PAID_BY_HAND: Move(counts=True),
    _E.RETURNED: Move(status=_P.FAILED, ready=True, counts=True, tells=_CHANGE),
    _E.RECOUNTED: Move(counts=True),
}

MOVES: Mapping[tuple[PaymentStatus, PaymentEvent], Move] = {
    **{
        (status, event): move_of_event for status in (_P.PENDING, _P.FAILED) for event, move_of_event in _UNPAID.items()
    },
    **{(_P.SUCCEEDED, event): _PAID.get(event, Move()) for event in PaymentEvent},
}


def move(status: PaymentStatus, event: PaymentEvent) -> Move:
    """The effect of an event on an invoice with this payment status."""
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
    # Nothing is under way: its invoices can be charged, or asked for on a page.
    _E.CHARGE_PENDING: _E.CHARGE_PENDING,
    _E.CHARGE_AGAIN: _E.CHARGE_AGAIN,
    _E.CHARGE_UNKNOWN: _E.CHARGE_UNKNOWN,
    _E.NOTHING_DUE: _E.REQUEST_SUCCEEDED,
    _E.NOTICE_SUCCEEDED: _E.REQUEST_SUCCEEDED,
    _E.NOTICE_PROCESSING: _E.REQUEST_PENDING,
    _E.NOTICE_FAILED: _E.REQUEST_FAILED,
    _E.RETURNED: _E.RETURNED,
}


def charge_event(status: ChargeStatus) -> PaymentEvent:
    """The event of an invoice whose charge was answered with this status."""
    return _OF_CHARGES[status]


def notice_event(status: ChargeStatus) -> PaymentEvent:
    """The event of an invoice whose payment has this status according to the provider."""
    return _OF_NOTICES[status]


def request_event(event: PaymentEvent) -> PaymentEvent | None:
    """The event of a payment request's invoices that corresponds to its own; None if nothing happens to them."""
    return _OF_REQUESTS.get(event)
