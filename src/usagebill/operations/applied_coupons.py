"""Applied coupons: attach coupons to customers, list and end them, and give back what an invoice used."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from usagebill.core import limits
from usagebill.core.coupon_rules import applied_coupon_problems, overlaps
from usagebill.core.coupons import AppliedCoupon, Coupon, CouponFrequency, CouponStatus, applied_to, given_back
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.invoices.changes import taken_until_undone
from usagebill.core.invoices.progressive import with_use
from usagebill.core.invoices.records import BillingPeriod, CreditType, Invoice
from usagebill.core.plans import Charge
from usagebill.operations.backlog import after_backlog, of_customer, of_customer_in
from usagebill.operations.coupons import terminate_applied
from usagebill.operations.customer_currency import bill_in
from usagebill.queries.coupons import coupon_credits
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.progressive_credits import used_together
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, desc, eq, missing, related, within
from usagebill.storage.ports import Page


@Input
class AppliedCouponInput:
    """Fields that are sent override the coupon's own values for this customer."""

    external_customer_id: Maybe[str] = described(required="create")
    coupon_code: Maybe[str] = described("The coupon, by code.", example="welcome", required="create")
    frequency: Maybe[str] = described(
        "How many invoices it reduces.", values=tuple(CouponFrequency), default="that of the coupon"
    )
    frequency_duration: Maybe[Annotated[int, limits.COUPON_PERIODS]] = ABSENT
    amount_cents: Maybe[Annotated[int, limits.APPLIED_COUPON_AMOUNT]] = described(
        "The discount.", unit="cents", default="that of the coupon"
    )
    amount_currency: Maybe[str] = ABSENT
    percentage_rate: Maybe[Annotated[Decimal, limits.COUPON_RATE]] = described(
        "The discount.", unit="percent", default="that of the coupon"
    )


@Input
class AppliedCouponFilters:
    external_customer_id: Maybe[str] = ABSENT
    status: Maybe[str] = described("Only those with this status.", values=tuple(CouponStatus))
    coupon_code: Maybe[tuple[str, ...]] = described("Only those of these coupons, by code.")


@after_backlog(of_customer_in)
def apply(work: Work, request: AppliedCouponInput) -> AppliedCoupon:
    """Attach a coupon to a customer.

    A fixed amount has to be in the customer's currency, and gives its own to a customer without one. Raises `NotFound`
    for the customer or an active coupon of this code, `NotAllowed` if the customer has a coupon with the same targets,
    and `Invalid`.
    """
    customer = customer_by_external_id(work, request.external_customer_id or "")
    coupon = work.tx.first(Coupon, eq("code", request.coupon_code or ""), eq("status", CouponStatus.ACTIVE))
    if coupon is None:
        raise NotFound("coupon", request.coupon_code)
    if _overlaps(work, customer, coupon):
        raise NotAllowed("plan_overlapping")
    had = work.tx.count(AppliedCoupon, eq("customer_id", customer.id), eq("coupon_id", coupon.id))
    if not coupon.reusable and had:
        raise Invalid(coupon="coupon_is_not_reusable")
    applied = applied_to(
        coupon,
        customer.id,
        id=work.new_id(),
        now=work.now,
        frequency=value_or(request.frequency, None),
        frequency_duration=value_or(request.frequency_duration, None),
        amount_cents=value_or(request.amount_cents, None),
        amount_currency=value_or(request.amount_currency, None),
        percentage_rate=value_or(request.percentage_rate, None),
    )
    problems = applied_coupon_problems(applied)
    if problems:
        raise Invalid(problems)
    if applied.amount_currency is not None:
        bill_in(work, customer, applied.amount_currency)
    work.tx.insert(applied)
    return applied


def _overlaps(reader: Reader, customer: Customer, coupon: Coupon) -> bool:
    """Whether an active coupon of the customer has a plan or metric in common with this one's targets."""
    if not coupon.limited_plans and not coupon.limited_billable_metrics:
        return False
    of_plans = reader.tx.find(Charge, within("plan_id", coupon.plan_ids))
    of_metrics = reader.tx.find(Charge, within("billable_metric_id", coupon.billable_metric_ids))
    charged = [(charge.plan_id, charge.billable_metric_id) for charge in (*of_plans, *of_metrics)]
    active = reader.tx.find(AppliedCoupon, eq("customer_id", customer.id), eq("status", CouponStatus.ACTIVE))
    others = [reader.tx.get(Coupon, applied.coupon_id, deleted=True) for applied in active]
    return overlaps(coupon, charged, [other for other in others if other is not None])


def list_all(reader: Reader, options: AppliedCouponFilters, paging: Paging) -> Page[AppliedCoupon]:
    """Applied coupons, latest first; those of deleted customers are left out."""
    conditions = [related(Customer, "customer_id", missing("deleted_at")), *_conditions(options)]
    if options.external_customer_id:
        conditions.append(related(Customer, "customer_id", eq("external_id", options.external_customer_id)))
    return reader.page(AppliedCoupon, *conditions, paging=paging, order=[desc("created_at"), asc("id")])


def list_of_customer(
    reader: Reader, external_id: str, options: AppliedCouponFilters, paging: Paging
) -> Page[AppliedCoupon]:
    """The applied coupons of one customer, latest first. Raises `NotFound` for an unknown customer."""
    of_customer = eq("customer_id", customer_by_external_id(reader, external_id).id)
    order = [desc("created_at"), asc("id")]
    return reader.page(AppliedCoupon, of_customer, *_conditions(options), paging=paging, order=order)


def _conditions(options: AppliedCouponFilters) -> list[Condition]:
    conditions: list[Condition] = []
    if options.status in tuple(CouponStatus):
        conditions.append(eq("status", options.status))
    if options.coupon_code:
        conditions.append(related(Coupon, "coupon_id", within("code", options.coupon_code)))
    return conditions


@after_backlog(of_customer)
def terminate(work: Work, external_id: str, applied_coupon_id: str) -> AppliedCoupon:
    """End a coupon for a customer; past discounts stay. Raises `NotFound` for the customer or the coupon."""
    customer = customer_by_external_id(work, external_id)
    applied = work.tx.get(AppliedCoupon, applied_coupon_id)
    if applied is None or applied.customer_id != customer.id:
        raise NotFound("applied_coupon", applied_coupon_id)
    return terminate_applied(work, applied)


def give_back(work: Work, invoice: Invoice) -> None:
    """Make the coupons that an undone invoice used available again. Call it after the invoice's status has changed.

    If others in force continue its use, the first of them has it from now on, and only cents are given back.
    """
    together: list[Invoice] = []
    if any(line.item_type == CreditType.COUPON for line in invoice.credits):
        together = used_together(work, invoice, work.tx.find(BillingPeriod, eq("invoice_id", invoice.id)))
    for credit in invoice.credits:
        if credit.item_type != CreditType.COUPON or credit.source_id is None or credit.is_given_back:
            continue
        applied = work.tx.get(AppliedCoupon, credit.source_id)
        coupon = None if applied is None else work.tx.get(Coupon, applied.coupon_id, deleted=True)
        if applied is None or coupon is None:
            continue
        taken_cents = taken_until_undone(invoice, credit, coupon_credits(work, applied))
        heir = with_use(together, applied.id) if credit.is_use else None
        if heir is not None:
            together = [heir if other.id == heir.id else other for other in together]
            work.tx.replace(heir)
        is_used = not credit.is_use or heir is not None
        work.tx.replace(given_back(applied, coupon, work.now, taken_cents=taken_cents, is_used=is_used))
