"""What becomes of an invoice with each thing that happens to its payments: the published table, row by row."""

from __future__ import annotations

import pytest

from usagebill.core.invoices.payment_states import (
    MOVES,
    Move,
    PaymentEvent,
    Telling,
    charge_event,
    move,
    notice_event,
    request_event,
)
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES, ChargeStatus, PaymentStatus

UNPAID = (PaymentStatus.PENDING, PaymentStatus.FAILED)
ANY = INVOICE_PAYMENT_STATUSES
PENDING, SUCCEEDED, FAILED = PaymentStatus.PENDING, PaymentStatus.SUCCEEDED, PaymentStatus.FAILED

# From, what happens, to (None: kept), whether what was paid is added up again, whether another charge may begin (None:
# as before), and whether a new status is told of.
ROWS = [
    (UNPAID, charge_event(ChargeStatus.SUCCEEDED), SUCCEEDED, True, False, True),
    (UNPAID, charge_event(ChargeStatus.PROCESSING), PENDING, False, False, True),
    (UNPAID, charge_event(ChargeStatus.PENDING), PENDING, False, True, True),
    (UNPAID, charge_event(ChargeStatus.FAILED), FAILED, False, True, False),
    # Nothing else asks for what it may have taken.
    (UNPAID, PaymentEvent.CHARGE_UNKNOWN, FAILED, False, False, True),
    (UNPAID, PaymentEvent.CHARGE_AGAIN, PENDING, False, True, True),
    (UNPAID, PaymentEvent.NOTHING_DUE, SUCCEEDED, False, False, True),
    (UNPAID, notice_event(ChargeStatus.SUCCEEDED), SUCCEEDED, True, False, True),
    (UNPAID, notice_event(ChargeStatus.FAILED), FAILED, False, True, True),
    (UNPAID, notice_event(ChargeStatus.PROCESSING), PENDING, False, False, True),
    (UNPAID, notice_event(ChargeStatus.PENDING), PENDING, False, False, True),
    # Money that comes all the same is counted.
    ((SUCCEEDED,), notice_event(ChargeStatus.SUCCEEDED), None, True, None, False),
    ((SUCCEEDED,), notice_event(ChargeStatus.FAILED), None, False, None, False),
    ((SUCCEEDED,), notice_event(ChargeStatus.PROCESSING), None, False, None, False),
    (UNPAID, PaymentEvent.PAID_BY_HAND, SUCCEEDED, True, None, True),
    (UNPAID, PaymentEvent.OFFSET, SUCCEEDED, False, None, True),
    (UNPAID, PaymentEvent.REQUEST_SUCCEEDED, SUCCEEDED, True, False, True),
    (UNPAID, PaymentEvent.REQUEST_PENDING, PENDING, False, False, True),
    (UNPAID, PaymentEvent.REQUEST_FAILED, FAILED, False, True, True),
    ((SUCCEEDED,), PaymentEvent.REQUEST_FAILED, None, False, None, False),
    ((SUCCEEDED,), PaymentEvent.REQUEST_PENDING, None, False, None, False),
    # What was returned is due again; if it was not paid anyway, another charge may be under way.
    (UNPAID, PaymentEvent.RETURNED, None, True, None, False),
    ((SUCCEEDED,), PaymentEvent.RETURNED, FAILED, True, True, True),
    # Of a voided invoice it is counted until it is given back.
    (UNPAID, PaymentEvent.RECOUNTED, None, True, None, False),
    ((SUCCEEDED,), PaymentEvent.RECOUNTED, None, True, None, False),
]


@pytest.mark.parametrize(("before", "event", "after", "counts", "ready", "tells"), ROWS)
def test_each_row_of_the_table(
    before: tuple[PaymentStatus, ...],
    event: PaymentEvent,
    after: PaymentStatus | None,
    counts: bool,
    ready: bool | None,
    tells: bool,
) -> None:
    telling = Telling.ON_CHANGE if tells else Telling.NEVER
    for status in before:
        assert move(status, event) == Move(status=after, ready=ready, counts=counts, tells=telling)


@pytest.mark.parametrize(("event", "ready"), [(row[1], row[4]) for row in ROWS if row[2] is SUCCEEDED])
def test_nothing_pays_an_invoice_of_which_something_is_left(event: PaymentEvent, ready: bool | None) -> None:
    """What was received counts; after a charge, the rest may be charged."""
    for status in UNPAID:
        whole = move(status, event)
        by_hand = Move(counts=whole.counts)
        charged = Move(status=PENDING, ready=True, counts=whole.counts, tells=whole.tells)
        assert whole.with_left(1) == (by_hand if ready is None else charged)
        assert whole.with_left(0) == whole.with_left(-1) == whole


def test_a_payment_that_was_not_needed_is_returned_and_the_invoice_stays_paid() -> None:
    back = move(SUCCEEDED, PaymentEvent.RETURNED)
    assert back.with_left(1) == back
    assert back.with_left(0) == back.with_left(-1) == Move(counts=True)


def test_whatever_happens_to_an_invoice_is_in_the_table() -> None:
    assert set(MOVES) == {(status, event) for status in ANY for event in PaymentEvent}
    unpaid = {event for before, event, *_ in ROWS if before in (UNPAID, ANY)}
    assert unpaid == set(PaymentEvent)


def test_what_is_paid_stays_paid_until_a_payment_is_returned() -> None:
    undone = [event for (status, event), made in MOVES.items() if status == SUCCEEDED and made.status is not None]
    assert undone == [PaymentEvent.RETURNED]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (charge_event(ChargeStatus.SUCCEEDED), PaymentEvent.REQUEST_SUCCEEDED),
        (charge_event(ChargeStatus.PROCESSING), PaymentEvent.REQUEST_PENDING),
        (charge_event(ChargeStatus.PENDING), PaymentEvent.CHARGE_PENDING),
        # Refused at once, its invoices stay as they are until the provider's notice.
        (charge_event(ChargeStatus.FAILED), None),
        (notice_event(ChargeStatus.SUCCEEDED), PaymentEvent.REQUEST_SUCCEEDED),
        (notice_event(ChargeStatus.FAILED), PaymentEvent.REQUEST_FAILED),
        (PaymentEvent.NOTHING_DUE, PaymentEvent.REQUEST_SUCCEEDED),
    ],
)
def test_what_a_payment_request_hands_on_to_its_invoices(event: PaymentEvent, expected: PaymentEvent | None) -> None:
    assert request_event(event) == expected
