"""Validation of coupons and applied coupons: field -> codes; empty if there are no errors."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from usagebill.core.coupons import AppliedCoupon, Coupon, CouponExpiration, CouponFrequency, CouponType
from usagebill.core.currencies import CURRENCIES
from usagebill.core.limits import APPLIED_COUPON_AMOUNT, COUPON_AMOUNT, COUPON_PERIODS, COUPON_RATE

COUPON_TYPES = tuple(CouponType)
FREQUENCIES = tuple(CouponFrequency)
EXPIRATIONS = tuple(CouponExpiration)
_NO_NUMBER = ["value_is_mandatory", "is not a number"]


def coupon_problems(coupon: Coupon) -> dict[str, list[str]]:
    """Errors in a coupon. Whether its code is taken is checked elsewhere."""
    problems: dict[str, list[str]] = {}
    if not coupon.name:
        problems["name"] = ["value_is_mandatory"]
    if not coupon.code:
        problems["code"] = ["value_is_mandatory"]
    choices = (("coupon_type", COUPON_TYPES), ("frequency", FREQUENCIES), ("expiration", EXPIRATIONS))
    for field, options in choices:
        if getattr(coupon, field) not in options:
            problems[field] = ["value_is_invalid"]
    if coupon.coupon_type == CouponType.FIXED_AMOUNT:
        problems |= _fixed_problems(coupon.amount_cents, coupon.amount_currency)
    elif coupon.coupon_type == CouponType.PERCENTAGE and coupon.percentage_rate is None:
        problems["percentage_rate"] = ["value_is_mandatory"]
    if coupon.percentage_rate is not None and not COUPON_RATE.holds(coupon.percentage_rate):
        problems["percentage_rate"] = ["value_is_out_of_range"]
    if coupon.frequency == CouponFrequency.RECURRING:
        if coupon.frequency_duration is None:
            problems["frequency_duration"] = list(_NO_NUMBER)
        elif not COUPON_PERIODS.holds(coupon.frequency_duration):
            problems["frequency_duration"] = ["value_is_out_of_range"]
    return problems


def overlaps(coupon: Coupon, charged: Iterable[tuple[str, str]], applied: Iterable[Coupon]) -> bool:
    """Whether a coupon in `applied` reduces plans or metrics that this limited coupon reaches.

    `charged` are the (plan, metric) ids of charges: a coupon for plans reaches the metrics that they charge, and one
    for metrics the plans that charge them. A coupon without limits overlaps with none.
    """
    if not coupon.limited_plans and not coupon.limited_billable_metrics:
        return False
    pairs = list(charged)
    plans, metrics = set(coupon.plan_ids), set(coupon.billable_metric_ids)
    metrics_of_plans = {metric for plan, metric in pairs if plan in plans}
    plans_of_metrics = {plan for plan, metric in pairs if metric in metrics}
    reached_plans, reached_metrics = plans | plans_of_metrics, metrics | metrics_of_plans
    return any(
        reached_plans.intersection(present.plan_ids) or reached_metrics.intersection(present.billable_metric_ids)
        for present in applied
    )


def _fixed_problems(amount_cents: int | None, currency: str | None) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    if amount_cents is None:
        problems["amount_cents"] = ["value_is_mandatory"]
    elif not COUPON_AMOUNT.holds(amount_cents):
        problems["amount_cents"] = ["value_is_out_of_range"]
    if not currency:
        problems["amount_currency"] = ["value_is_mandatory"]
    elif currency not in CURRENCIES:
        problems["amount_currency"] = ["value_is_invalid"]
    return problems


def applied_coupon_problems(applied: AppliedCoupon) -> dict[str, list[str]]:
    """Errors in a coupon to be applied to a customer. It may be worth nothing."""
    problems: dict[str, list[str]] = {}
    if applied.frequency not in FREQUENCIES:
        problems["frequency"] = ["value_is_invalid"]
    if applied.amount_cents is not None and not APPLIED_COUPON_AMOUNT.holds(applied.amount_cents):
        problems["amount_cents"] = ["value_is_out_of_range"]
    if applied.percentage_rate is not None and not COUPON_RATE.holds(applied.percentage_rate):
        problems["percentage_rate"] = ["value_is_out_of_range"]
    if applied.amount_currency is not None and applied.amount_currency not in CURRENCIES:
        problems["amount_currency"] = ["value_is_invalid"]
    if applied.frequency == CouponFrequency.RECURRING:
        if applied.frequency_duration is None:
            problems["frequency_duration"] = list(_NO_NUMBER)
            problems["frequency_duration_remaining"] = list(_NO_NUMBER)
        elif not COUPON_PERIODS.holds(applied.frequency_duration):
            problems["frequency_duration"] = ["value_is_out_of_range"]
    return problems


def expiry_run(expiration_at: datetime) -> datetime:
    """When a coupon with this expiration is ended: at minute 30 of an hour, strictly later (in whole seconds)."""
    expires = expiration_at.replace(microsecond=0)
    run = expires.replace(minute=30, second=0)
    return run if run > expires else run + timedelta(hours=1)
