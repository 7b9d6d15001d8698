"""Deductions: after an upgrade, what older plans were paid in advance for fixed charges pays for those days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from usagebill.core.fees import Fee
from usagebill.core.numbers import decimal_text
from usagebill.core.pricing.fixed_charges import unused_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidInAdvance:
    """An amount paid in advance for `days`, of which `days_left` are still to come."""

    cents: int
    days: int
    days_left: int

    @property
    def left_cents(self) -> int:
        """The part of the payment for future days, in cents."""
        return unused_cents(self.cents, days=self.days_left, paid_days=self.days)


def less_paid_before(fee: Fee, paid: Sequence[PaidInAdvance], earlier_fees: Sequence[Fee]) -> Fee:
    """The new plan's fee less the unused part of older plans' payments for the same add-on, at least zero.

    Each cent is deducted once: `earlier_fees` are those of the new plan, from which a part may already be deducted.
    Those for other days than the fee's do not count.
    """
    paid_before = sum(
        paid_before_cents(earlier)
        for earlier in earlier_fees
        if earlier.add_on_id == fee.add_on_id and _share_days(earlier, fee)
    )
    less = min(fee.amount_cents, sum(fee_paid.left_cents for fee_paid in paid) - paid_before)
    if less <= 0:
        return fee
    basis: dict[str, object] = {
        **fee.basis,
        "full_cents": decimal_text(fee.precise_amount_cents),
        "paid_before_cents": less,
        "paid_before": [
            {"paid_cents": fee_paid.cents, "paid_days": fee_paid.days, "days_left": fee_paid.days_left}
            for fee_paid in paid
        ],
    }
    precise = max(fee.precise_amount_cents - Decimal(less), Decimal(0))
    return replace(fee, amount_cents=fee.amount_cents - less, precise_amount_cents=precise, basis=basis)


def _share_days(one: Fee, other: Fee) -> bool:
    if one.from_datetime is None or one.to_datetime is None or other.from_datetime is None or other.to_datetime is None:
        return True
    return one.from_datetime <= other.to_datetime and other.from_datetime <= one.to_datetime


def paid_before_cents(fee: Fee) -> int:
    """The cents of the fee that an older plan's fees have paid."""
    return int(str(fee.basis.get("paid_before_cents", 0)))
