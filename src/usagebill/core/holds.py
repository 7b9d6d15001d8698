"""Holds: the price of usage that may come, reserved until it is captured, released or expires.

An open hold counts against spend limits, quotas and prepaid credits as if its usage had happened. It stops at
`expires_at`, whatever runs when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from usagebill.core.life_cycles import following
from usagebill.core.numbers import ZERO

DEFAULT_SECONDS = 300


class HoldStatus(StrEnum):
    """The state of a hold."""

    HELD = "held"
    CAPTURED = "captured"
    RELEASED = "released"
    EXPIRED = "expired"


class HoldEvent(StrEnum):
    """Events that change its status."""

    CAPTURE = "capture"
    RELEASE = "release"
    EXPIRE = "expire"


# Usage that happened is never dropped: a hold that has expired is captured, too.
TRANSITIONS: Mapping[tuple[HoldStatus, HoldEvent], HoldStatus] = {
    (HoldStatus.HELD, HoldEvent.CAPTURE): HoldStatus.CAPTURED,
    (HoldStatus.HELD, HoldEvent.RELEASE): HoldStatus.RELEASED,
    (HoldStatus.HELD, HoldEvent.EXPIRE): HoldStatus.EXPIRED,
    (HoldStatus.EXPIRED, HoldEvent.CAPTURE): HoldStatus.CAPTURED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Usage of a subscription that may come, with what it would add on top of all usage and holds before it: cents
    before and with taxes, unrounded, and units of the metric.

    `expires_at` is the first instant at which it no longer counts. Of a captured one, `transaction_id` is its event's
    and `captured_amount_cents` what that event added.
    """

    id: str
    organization_id: str
    customer_id: str
    external_subscription_id: str
    currency: str
    amount_cents: Decimal
    total_cents: Decimal
    expires_at: datetime
    created_at: datetime
    updated_at: datetime
    billable_metric_id: str | None = None
    properties: Mapping[str, object] = field(default_factory=dict)
    is_amount: bool = False
    units: Decimal = ZERO
    status: HoldStatus = HoldStatus.HELD
    ended_at: datetime | None = None
    transaction_id: str | None = None
    captured_amount_cents: Decimal | None = None

    def status_at(self, now: datetime) -> HoldStatus:
        """Its status at `now`: it expires by itself."""
        is_over = self.status is HoldStatus.HELD and self.expires_at <= now
        return HoldStatus.EXPIRED if is_over else self.status

    @property
    def exceeds(self) -> bool:
        """Whether more was captured than was held."""
        return self.captured_amount_cents is not None and self.captured_amount_cents > self.amount_cents


def expiry(now: datetime, seconds: int) -> datetime:
    """When a hold made now expires."""
    return now + timedelta(seconds=seconds)


def captured(hold: Hold, transaction_id: str, amount_cents: Decimal, now: datetime) -> Hold:
    """The hold after its usage happened. Raises `TransitionError` if it was captured or released."""
    status = following(TRANSITIONS, hold.status_at(now), HoldEvent.CAPTURE)
    return replace(
        hold,
        status=status,
        transaction_id=transaction_id,
        captured_amount_cents=amount_cents,
        ended_at=now,
        updated_at=now,
    )


def released(hold: Hold, now: datetime) -> Hold:
    """The hold after its usage was called off. Raises `TransitionError` if it is not open."""
    status = following(TRANSITIONS, hold.status_at(now), HoldEvent.RELEASE)
    return replace(hold, status=status, ended_at=now, updated_at=now)


def expired(hold: Hold) -> Hold:
    """The hold as noted after it has expired. Raises `TransitionError` if it ended before."""
    status = following(TRANSITIONS, hold.status, HoldEvent.EXPIRE)
    return replace(hold, status=status, ended_at=hold.expires_at, updated_at=hold.expires_at)
