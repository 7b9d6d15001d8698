"""Coupons: how much they take off an invoice, in which order they apply, and when they are used up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType

from usagebill.core.fees import Fee, FeeType
from usagebill.core.life_cycles import following
from usagebill.core.numbers import ZERO, add, divide, multiply, round_cents, round_to, subtract, total, truncate_cents
from usagebill.core.taxes import net_of_coupons

_SHARE_DECIMALS = 5
_HUNDRED = Decimal(100)


class CouponStatus(StrEnum):
    """The state of a coupon, and of an applied coupon."""

    ACTIVE = "active"
    TERMINATED = "terminated"


class CouponType(StrEnum):
    """The kind of discount: an amount, or a percentage."""

    FIXED_AMOUNT = "fixed_amount"
    PERCENTAGE = "percentage"


class CouponFrequency(StrEnum):
    """The invoices that a coupon reduces: until it is used up, a number of them, or all."""

    ONCE = "once"
    RECURRING = "recurring"
    FOREVER = "forever"


class CouponExpiration(StrEnum):
    """Whether a coupon expires."""

    NO_EXPIRATION = "no_expiration"
    TIME_LIMIT = "time_limit"


class CouponEvent(StrEnum):
    """Events that change a coupon's status."""

    USED_UP = "used_up"
    TERMINATE = "terminate"
    GIVE_BACK = "give_back"


# A terminated applied coupon becomes active again only when an invoice that used it is voided.
TRANSITIONS: Mapping[tuple[CouponStatus, CouponEvent], CouponStatus] = {
    (CouponStatus.ACTIVE, CouponEvent.USED_UP): CouponStatus.TERMINATED,
    (CouponStatus.ACTIVE, CouponEvent.TERMINATE): CouponStatus.TERMINATED,
    (CouponStatus.TERMINATED, CouponEvent.TERMINATE): CouponStatus.TERMINATED,
    (CouponStatus.ACTIVE, CouponEvent.GIVE_BACK): CouponStatus.ACTIVE,
    (CouponStatus.TERMINATED, CouponEvent.GIVE_BACK): CouponStatus.ACTIVE,
}


def transition(status: CouponStatus, event: CouponEvent) -> CouponStatus:
    """The status that follows `event`; raises `TransitionError` if `TRANSITIONS` has none."""
    return following(TRANSITIONS, status, event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupon:
    """A coupon that can be applied to customers. `plan_ids` or `billable_metric_ids` limit it, but not both."""

    id: str
    organization_id: str
    name: str
    code: str
    coupon_type: str
    frequency: str
    expiration: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    status: CouponStatus = CouponStatus.ACTIVE
    amount_cents: int | None = None
    amount_currency: str | None = None
    percentage_rate: Decimal | None = None
    frequency_duration: int | None = None
    reusable: bool = True
    expiration_at: datetime | None = None
    limited_plans: bool = False
    limited_billable_metrics: bool = False
    plan_ids: tuple[str, ...] = ()
    billable_metric_ids: tuple[str, ...] = ()
    terminated_at: datetime | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedCoupon:
    """A coupon attached to a customer, with its own amounts: cents of `amount_currency`, or a rate in percent."""

    id: str
    organization_id: str
    coupon_id: str
    customer_id: str
    status: CouponStatus
    frequency: str
    created_at: datetime
    updated_at: datetime
    amount_cents: int | None = None
    amount_currency: str | None = None
    percentage_rate: Decimal | None = None
    frequency_duration: int | None = None
    frequency_duration_remaining: int | None = None
    terminated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The fees that a coupon may reduce: those of metrics, those of subscriptions on plans, or (both None) all.

    `plan_ids` includes the overrides of the targeted plans.
    """

    billable_metric_ids: frozenset[str] | None = None
    plan_ids: frozenset[str] | None = None

    @property
    def limited(self) -> bool:
        """Whether it reduces only some fees."""
        return self.billable_metric_ids is not None or self.plan_ids is not None

    def matches(self, fee: Fee, plan_id: str | None) -> bool:
        """Whether it reduces `fee`, whose subscription is on `plan_id`."""
        if self.billable_metric_ids is not None:
            return fee.fee_type == FeeType.CHARGE and fee.billable_metric_id in self.billable_metric_ids
        if self.plan_ids is not None:
            return plan_id in self.plan_ids
        return True


def applied_to(
    coupon: Coupon,
    customer_id: str,
    *,
    id: str,
    now: datetime,
    frequency: str | None = None,
    frequency_duration: int | None = None,
    amount_cents: int | None = None,
    amount_currency: str | None = None,
    percentage_rate: Decimal | None = None,
) -> AppliedCoupon:
    """The coupon as applied to a customer: arguments other than None replace the coupon's own values.

    A fixed coupon uses only an amount, a percentage coupon only a rate.
    """
    is_fixed = coupon.coupon_type == CouponType.FIXED_AMOUNT
    duration = coupon.frequency_duration if frequency_duration is None else frequency_duration
    currency = coupon.amount_currency if amount_currency is None else amount_currency
    cents = coupon.amount_cents if amount_cents is None else amount_cents
    rate = coupon.percentage_rate if percentage_rate is None else percentage_rate
    return AppliedCoupon(
        id=id,
        organization_id=coupon.organization_id,
        coupon_id=coupon.id,
        customer_id=customer_id,
        status=CouponStatus.ACTIVE,
        frequency=coupon.frequency if frequency is None else frequency,
        frequency_duration=duration,
        frequency_duration_remaining=duration,
        amount_cents=cents if is_fixed else None,
        amount_currency=currency if is_fixed else None,
        percentage_rate=None if is_fixed else rate,
        created_at=now,
        updated_at=now,
    )


def expires_at(coupon: Coupon) -> datetime | None:
    """When an active coupon expires; None if it never does, or has ended."""
    if coupon.status != CouponStatus.ACTIVE or coupon.expiration != CouponExpiration.TIME_LIMIT:
        return None
    return coupon.expiration_at


def in_order(coupons: Sequence[tuple[AppliedCoupon, Targets]]) -> list[tuple[AppliedCoupon, Targets]]:
    """The order of application: limited to metrics, limited to plans, unlimited; older ones first within each."""

    def rank(item: tuple[AppliedCoupon, Targets]) -> tuple[int, datetime, str]:
        applied, targets = item
        kind = 0 if targets.billable_metric_ids is not None else 1 if targets.plan_ids is not None else 2
        return kind, applied.created_at, applied.id

    return sorted(coupons, key=rank)


def _credit(applied: AppliedCoupon, base: Decimal, at_most_cents: int | None) -> Decimal:
    if applied.percentage_rate is not None:
        share = round_cents(divide(multiply(base, applied.percentage_rate), _HUNDRED))
        base = min(base, Decimal(share))
    return base if at_most_cents is None else min(base, Decimal(at_most_cents))


def apply_coupon(
    applied: AppliedCoupon,
    targets: Targets,
    fees: Sequence[Fee],
    plan_of: Mapping[str, str],
    *,
    subtotal_cents: int,
    currency: str,
    at_most_cents: int | None,
) -> tuple[list[Fee], int] | None:
    """The fees with their shares of the discount, and the discount in cents; None if the coupon does not apply.

    `plan_of` maps each fee's subscription to its plan. `subtotal_cents` is the invoice's, net of all credits so far;
    `at_most_cents` the amount that the coupon may take off (`largest_discount`). A limited coupon takes off at most the
    remaining amount of its fees, an unlimited one at most the subtotal. Shares have 5 decimals, and no share exceeds
    its fee. The discount is cut to whole cents before it is shared.
    """
    if applied.percentage_rate is None and applied.amount_currency != currency:
        return None
    matching = [fee for fee in fees if targets.matches(fee, plan_of.get(fee.subscription_id or ""))]
    if not matching:
        return None
    base = total(net_of_coupons(fee) for fee in matching) if targets.limited else Decimal(subtotal_cents)
    credit = truncate_cents(max(ZERO, _credit(applied, base, at_most_cents)))
    changed = with_discount({fee.id: fee for fee in matching}, matching, Decimal(credit), base)
    return [changed.get(fee.id, fee) for fee in fees], credit


def with_discount(
    fees: Mapping[str, Fee],
    bases: Sequence[Fee],
    credit: Decimal,
    base: Decimal,
    least: Mapping[str, Decimal] = MappingProxyType({}),
) -> dict[str, Fee]:
    """Those of `fees`, by id, that share a discount: in proportion to what is left of them in `bases`, of `base` cents
    in all. Shares have 5 decimals, and no share exceeds its fee, or takes it below the `least` that it comes to.
    """
    if base <= ZERO:
        return {}
    changed = {}
    for weighed in bases:
        fee = fees[weighed.id]
        share = divide(multiply(credit, net_of_coupons(weighed)), base)
        credited = round_to(add(fee.precise_coupons_amount_cents, share), _SHARE_DECIMALS)
        # A negative fee takes a negative share, so that the shares add up.
        amount = Decimal(fee.amount_cents)
        most = max(subtract(amount, least.get(fee.id, ZERO)), fee.precise_coupons_amount_cents)
        discount = min(credited, most) if amount >= ZERO else max(credited, amount)
        changed[fee.id] = replace(fee, precise_coupons_amount_cents=discount)
    return changed


def largest_discount(applied: AppliedCoupon, *, remaining_cents: int, given_cents: int) -> int | None:
    """The cents that the coupon may take off an invoice; None if only its rate limits them.

    With frequency once these are `remaining_cents`, the unused part of its amount; else its amount less `given_cents`,
    the discount of the progressive billing invoices of the same period.
    """
    if applied.percentage_rate is not None:
        return None
    if applied.frequency == CouponFrequency.ONCE:
        return remaining_cents
    return max(0, (applied.amount_cents or 0) - given_cents)


def ran_out(applied: AppliedCoupon) -> bool:
    """Whether the coupon, for a number of periods, has been used in the last of them: it still applies to the rest of
    a period whose progressive billing invoices used it.
    """
    return applied.frequency == CouponFrequency.RECURRING and not applied.frequency_duration_remaining


def kept_discounts(
    fees: Sequence[Fee],
    given: Sequence[tuple[AppliedCoupon, Targets, int]],
    plan_of: Mapping[str, str],
    currency: str,
) -> dict[str, int]:
    """The discounts that were `given` (coupon, targets, cents) as far as `fees` still justify them, by applied coupon.

    Each is at most the given cents, and at most what the coupon takes off these fees, whatever their shares.
    """
    fees = [replace(fee, precise_coupons_amount_cents=ZERO) for fee in fees]
    subtotal_cents = sum(fee.amount_cents for fee in fees)
    cents_of = {applied.id: cents for applied, _, cents in given}
    kept = {}
    for applied, targets in in_order([(applied, targets) for applied, targets, _ in given]):
        result = apply_coupon(
            applied,
            targets,
            fees,
            plan_of,
            subtotal_cents=subtotal_cents,
            currency=currency,
            at_most_cents=cents_of[applied.id],
        )
        if result is not None:
            fees, kept[applied.id] = result
            subtotal_cents -= kept[applied.id]
    return kept


def targets_of(coupon: Coupon) -> Targets:
    """The plans or metrics that the coupon is limited to."""
    return Targets(
        billable_metric_ids=frozenset(coupon.billable_metric_ids) if coupon.limited_billable_metrics else None,
        plan_ids=frozenset(coupon.plan_ids) if coupon.limited_plans else None,
    )


def used(
    applied: AppliedCoupon, credit_cents: int, remaining_cents: int, now: datetime, *, continues: bool = False
) -> AppliedCoupon:
    """The coupon after an invoice took `credit_cents` of the `remaining_cents` left before.

    If the invoice only `continues` a use by progressive billing invoices, it uses up no further period.
    """
    if continues and applied.frequency == CouponFrequency.RECURRING:
        return applied
    duration = applied.frequency_duration_remaining
    if applied.frequency == CouponFrequency.RECURRING:
        duration = max((duration or 0) - 1, 0)
    ends = (
        (applied.frequency == CouponFrequency.ONCE and applied.percentage_rate is not None)
        or (applied.frequency == CouponFrequency.ONCE and credit_cents >= remaining_cents)
        or (applied.frequency == CouponFrequency.RECURRING and duration == 0)
    )
    if not ends:
        return replace(applied, frequency_duration_remaining=duration, updated_at=now)
    status = transition(applied.status, CouponEvent.USED_UP)
    return replace(applied, status=status, frequency_duration_remaining=duration, terminated_at=now, updated_at=now)


def given_back(
    applied: AppliedCoupon, coupon: Coupon, now: datetime, *, taken_cents: int, is_used: bool = False
) -> AppliedCoupon:
    """The coupon after an invoice that used it was voided, or the usage that it had discounted fell.

    It stays terminated if its coupon was ended or deleted, or if it was ended by hand before it was used up.
    `taken_cents` is the total that all invoices had taken before. If the coupon `is_used` all the same, by other
    invoices of the period or by what is left of this discount, only cents are given back.
    """
    if is_used and (applied.frequency != CouponFrequency.ONCE or applied.percentage_rate is not None):
        return applied
    coupon_is_over = coupon.deleted_at is not None or coupon.status == CouponStatus.TERMINATED
    duration = applied.frequency_duration_remaining
    was_used_up = _is_used_up(applied, taken_cents)
    if applied.frequency == CouponFrequency.RECURRING:
        duration = (duration or 0) + 1
    if not was_used_up or coupon_is_over:
        return replace(applied, frequency_duration_remaining=duration, updated_at=now)
    status = transition(applied.status, CouponEvent.GIVE_BACK)
    return replace(applied, status=status, frequency_duration_remaining=duration, terminated_at=None, updated_at=now)


def _is_used_up(applied: AppliedCoupon, taken_cents: int) -> bool:
    if applied.frequency == CouponFrequency.RECURRING:
        return not applied.frequency_duration_remaining
    if applied.frequency == CouponFrequency.FOREVER:
        return False
    return applied.percentage_rate is not None or taken_cents >= (applied.amount_cents or 0)


def remaining_amount(applied: AppliedCoupon, credited_cents: int) -> int | None:
    """The unused cents of a fixed coupon with frequency once, given what invoices in force have taken; None for all
    others.
    """
    if applied.frequency != CouponFrequency.ONCE or applied.percentage_rate is not None:
        return None
    return (applied.amount_cents or 0) - credited_cents
