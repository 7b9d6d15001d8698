"""Coupons and applied coupons as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.coupons import AppliedCoupon, Coupon, remaining_amount
from usagebill.queries.coupons import (
    coupon_credits,
    coupon_credits_cents,
    find_coupon,
    targeted_metrics,
    targeted_plans,
)
from usagebill.queries.customers import customer_of
from usagebill.runtime.work import Reader
from usagebill.views.formats import DecimalText, Id, Instant, instant_text, optional_decimal
from usagebill.views.invoices import CreditView, credit_view


class CouponView(TypedDict):
    svc_id: Id
    name: str
    code: str
    description: str | None
    coupon_type: str
    amount_cents: int | None
    amount_currency: str | None
    percentage_rate: DecimalText | None
    frequency: str
    frequency_duration: int | None
    reusable: bool
    limited_plans: bool
    limited_billable_metrics: bool
    plan_codes: list[str]
    billable_metric_codes: list[str]
    expiration: str
    expiration_at: Instant | None
    created_at: Instant
    terminated_at: Instant | None


class AppliedCouponView(TypedDict):
    svc_id: Id
    svc_coupon_id: Id
    coupon_code: str
    coupon_name: str
    coupon_description: str | None
    coupon_status: str
    coupon_deleted_at: Instant | None
    svc_customer_id: Id
    external_customer_id: str
    status: str
    amount_cents: int | None
    amount_cents_remaining: int | None
    amount_currency: str | None
    percentage_rate: DecimalText | None
    frequency: str
    frequency_duration: int | None
    frequency_duration_remaining: int | None
    expiration_at: Instant | None
    created_at: Instant
    terminated_at: Instant | None


class ListedAppliedCouponView(AppliedCouponView):
    credits: list[CreditView]


def coupon_view(reader: Reader, coupon: Coupon) -> CouponView:
    """A coupon."""
    return {
        "svc_id": coupon.id,
        "name": coupon.name,
        "code": coupon.code,
        "description": coupon.description,
        "coupon_type": coupon.coupon_type,
        "amount_cents": coupon.amount_cents,
        "amount_currency": coupon.amount_currency,
        "percentage_rate": optional_decimal(coupon.percentage_rate),
        "frequency": coupon.frequency,
        "frequency_duration": coupon.frequency_duration,
        "reusable": coupon.reusable,
        "limited_plans": coupon.limited_plans,
        "limited_billable_metrics": coupon.limited_billable_metrics,
        "plan_codes": [plan.code for plan in targeted_plans(reader, coupon)],
        "billable_metric_codes": [metric.code for metric in targeted_metrics(reader, coupon)],
        "expiration": coupon.expiration,
        "expiration_at": instant_text(coupon.expiration_at),
        "created_at": instant_text(coupon.created_at),
        "terminated_at": instant_text(coupon.terminated_at),
    }


def applied_coupon_view(reader: Reader, applied: AppliedCoupon) -> AppliedCouponView:
    """A coupon applied to a customer."""
    customer = customer_of(reader, applied)
    coupon = find_coupon(reader, applied.coupon_id)
    if coupon is None:
        raise LookupError(f"applied coupon {applied.id} has lost its coupon")
    credited = coupon_credits_cents(reader, applied)
    return {
        "svc_id": applied.id,
        "svc_coupon_id": coupon.id,
        "coupon_code": coupon.code,
        "coupon_name": coupon.name,
        "coupon_description": coupon.description,
        "coupon_status": coupon.status,
        "coupon_deleted_at": instant_text(coupon.deleted_at),
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "status": applied.status,
        "amount_cents": applied.amount_cents,
        "amount_cents_remaining": remaining_amount(applied, credited),
        "amount_currency": applied.amount_currency,
        "percentage_rate": optional_decimal(applied.percentage_rate),
        "frequency": applied.frequency,
        "frequency_duration": applied.frequency_duration,
        "frequency_duration_remaining": applied.frequency_duration_remaining,
        "expiration_at": instant_text(coupon.expiration_at),
        "created_at": instant_text(applied.created_at),
        "terminated_at": instant_text(applied.terminated_at),
    }


def listed_applied_coupon_view(reader: Reader, applied: AppliedCoupon) -> ListedAppliedCouponView:
    """An applied coupon with its credits on invoices, as lists show it."""
    credits = [credit_view(credit, invoice) for invoice, credit in coupon_credits(reader, applied)]
    return {**applied_coupon_view(reader, applied), "credits": credits}
