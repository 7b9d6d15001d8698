"""The audit of holds: each ends once, and a captured one has become its event, in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from usagebill.core.audit import Finding
from usagebill.core.events import Event
from usagebill.core.holds import Hold, HoldStatus
from usagebill.core.limits import HOLD_SECONDS


def audited_hold(hold: Hold, *, expiry_waits: bool, event: Event | None, is_event_kept: bool) -> Iterator[Finding]:
    """`expiry_waits`: there is a job that ends it. `event` is that of its transaction id; unless `is_event_kept`,
    events of its time may have been removed.
    """

    def found(detail: str, expected: object, actual: object) -> Finding:
        return Finding(
            check="hold",
            subject=f"hold of {hold.external_subscription_id}",
            subject_id=hold.id,
            detail=detail,
            expected=str(expected),
            found=str(actual),
        )

    seconds = (hold.expires_at - hold.created_at) // timedelta(seconds=1)
    if not HOLD_SECONDS.holds(seconds):
        yield found("seconds", "at most a day", seconds)
    is_open, is_captured = hold.status is HoldStatus.HELD, hold.status is HoldStatus.CAPTURED
    if expiry_waits != is_open:
        yield found(f"waits to expire, {hold.status}", is_open, expiry_waits)
    if is_open != (hold.ended_at is None):
        yield found(f"ended_at, {hold.status}", "none" if is_open else "an instant", hold.ended_at)
    elif hold.ended_at is not None:
        if hold.ended_at < hold.created_at:
            yield found("ended_at", f"not before {hold.created_at}", hold.ended_at)
        if hold.status is HoldStatus.RELEASED and hold.ended_at >= hold.expires_at:
            yield found("released", f"before {hold.expires_at}", hold.ended_at)
        if hold.status is HoldStatus.EXPIRED and hold.ended_at != hold.expires_at:
            yield found("expired", hold.expires_at, hold.ended_at)
    for name, value in (
        ("transaction_id", hold.transaction_id),
        ("captured_amount_cents", hold.captured_amount_cents),
    ):
        if is_captured != (value is not None):
            yield found(f"{name}, {hold.status}", "some" if is_captured else "none", value)
    if is_captured and is_event_kept:
        received = None if event is None else event.created_at
        if received != hold.ended_at:
            yield found(f"event {hold.transaction_id} received", hold.ended_at, received)
