"""Coupons: by id, their targets, and the credits they gave on invoices."""

from __future__ import annotations

from collections.abc import Collection

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.coupons import AppliedCoupon, Coupon, CouponFrequency, remaining_amount, targets_of
from usagebill.core.invoices.life_cycle import UNDONE
from usagebill.core.invoices.records import Credit, CreditType, Invoice
from usagebill.core.invoices.totals import AvailableCoupon
from usagebill.core.plans import Plan
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, has_item, within


def coupon_credits(reader: Reader, applied: AppliedCoupon) -> list[tuple[Invoice, Credit]]:
    """The credits that an applied coupon gave, each with its invoice, oldest first."""
    invoices = reader.tx.find(
        Invoice,
        eq("customer_id", applied.customer_id),
        has_item("credits", source_id=applied.id, item_type="coupon"),
        order=[asc("created_at")],
    )
    return [
        (invoice, credit)
        for invoice in invoices
        for credit in invoice.credits
        if credit.item_type == CreditType.COUPON and credit.source_id == applied.id
    ]


def coupon_credits_cents(reader: Reader, applied: AppliedCoupon) -> int:
    """Cents of an applied coupon used by invoices that are not voided."""
    credits = coupon_credits(reader, applied)
    return sum(credit.used_cents for invoice, credit in credits if invoice.status not in UNDONE)


def available_coupon(reader: Reader, applied: AppliedCoupon) -> AvailableCoupon:
    """An applied coupon with its targets and its remaining amount."""
    coupon = reader.tx.get(Coupon, applied.coupon_id, deleted=True)
    if coupon is None:
        raise LookupError(f"no coupon {applied.coupon_id}")
    counted = applied.frequency == CouponFrequency.ONCE and applied.percentage_rate is None
    remaining = remaining_amount(applied, coupon_credits_cents(reader, applied)) if counted else None
    return AvailableCoupon(applied=applied, coupon=coupon, targets=targets_of(coupon), remaining_cents=remaining or 0)


def coupons_of(reader: Reader, ids: Collection[str]) -> list[AppliedCoupon]:
    """The applied coupons with these ids."""
    return reader.tx.find(AppliedCoupon, within("id", ids)) if ids else []


def targeted_plans(reader: Reader, coupon: Coupon) -> list[Plan]:
    """The live plans that the coupon is limited to."""
    return reader.tx.find(Plan, within("id", coupon.plan_ids))


def targeted_metrics(reader: Reader, coupon: Coupon) -> list[BillableMetric]:
    """The live metrics that the coupon is limited to."""
    return reader.tx.find(BillableMetric, within("id", coupon.billable_metric_ids))


def find_coupon(reader: Reader, coupon_id: str) -> Coupon | None:
    """The coupon with this id, deleted or not."""
    return reader.tx.get(Coupon, coupon_id, deleted=True)
