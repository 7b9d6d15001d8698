"""The audit of coupons: what they take off, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from usagebill.core.audit import Finding
from usagebill.core.coupons import AppliedCoupon, CouponFrequency


@dataclass(frozen=True, slots=True, kw_only=True)
class CouponUse:
    """The discount of a coupon on an invoice, in cents, less what it got back because usage fell. If it `continues`
    one, `before_cents` is that of the progressive billing invoices that this invoice credits.
    """

    cents: int
    continues: bool = False
    before_cents: int = 0


def audited_coupon(applied: AppliedCoupon, code: str, uses: Sequence[CouponUse]) -> Iterator[Finding]:
    """A coupon takes off no more than its amount, and no more often than its frequency allows.

    `uses` are those by invoices in force.
    """

    def found(detail: str, expected: object, actual: object) -> Finding:
        return Finding(
            check="coupon",
            subject=f"applied coupon {code}",
            subject_id=applied.id,
            detail=detail,
            expected=str(expected),
            found=str(actual),
        )

    fixed = applied.amount_cents if applied.percentage_rate is None else None
    taken = [use.cents for use in uses]
    times = sum(not use.continues for use in uses)
    if fixed is not None and applied.frequency == CouponFrequency.ONCE and sum(taken) > fixed:
        yield found("used in all", f"at most {fixed}", sum(taken))
    if fixed is not None:
        most_taken = max((use.cents + use.before_cents for use in uses), default=0)
        if most_taken > fixed:
            yield found("used by one invoice", f"at most {fixed}", most_taken)
    if fixed is None and applied.frequency == CouponFrequency.ONCE and times > 1:
        yield found("invoices", "at most 1", times)
    if applied.frequency == CouponFrequency.RECURRING and applied.frequency_duration is not None:
        if times > applied.frequency_duration:
            most = f"at most {applied.frequency_duration}"
            yield found("invoices", most, times)
        remaining = applied.frequency_duration - times
        if applied.frequency_duration_remaining not in (None, remaining):
            stored = applied.frequency_duration_remaining
            yield found("frequency_duration_remaining", remaining, stored)
