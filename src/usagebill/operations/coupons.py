"""Coupons: create, change, delete, and end when they expire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from usagebill.core import limits
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.coupon_rules import coupon_problems, expiry_run
from usagebill.core.coupons import (
    AppliedCoupon,
    Coupon,
    CouponEvent,
    CouponExpiration,
    CouponFrequency,
    CouponStatus,
    CouponType,
    expires_at,
    transition,
)
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.instants import parse_instant
from usagebill.core.plans import Plan
from usagebill.core.tasks import ExpireCoupon
from usagebill.operations.backlog import Unrelated, after_backlog, of_everyone, without_backlog
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, changes, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq, missing, within
from usagebill.storage.ports import Page


@Input
class CouponTargets:
    """The targets of a coupon: plans or metrics by code, not both. An empty list is no limit."""

    plan_codes: Maybe[tuple[str, ...]] = described("The plans whose fees it reduces, by code.")
    billable_metric_codes: Maybe[tuple[str, ...]] = described("The metrics whose fees it reduces, by code.")


@Input
class CouponInput:
    """`amount_cents` and currency for a fixed_amount coupon, `percentage_rate` (percent) for a percentage one."""

    name: Maybe[str] = described(required="create")
    code: Maybe[str] = described(required="create")
    description: Maybe[str] = ABSENT
    coupon_type: Maybe[str] = described(
        "Whether it is an amount or a percentage.", values=tuple(CouponType), example="percentage", required="create"
    )
    amount_cents: Maybe[Annotated[int, limits.COUPON_AMOUNT]] = described(
        "The total discount.", unit="cents", example=1000
    )
    amount_currency: Maybe[str] = ABSENT
    percentage_rate: Maybe[Annotated[Decimal, limits.COUPON_RATE]] = described(
        "The discount on each invoice.", unit="percent", example="10"
    )
    frequency: Maybe[str] = described(
        "How many invoices it reduces.", values=tuple(CouponFrequency), example="once", required="create"
    )
    frequency_duration: Maybe[Annotated[int, limits.COUPON_PERIODS]] = ABSENT
    expiration: Maybe[str] = described(
        "Whether it expires.", values=tuple(CouponExpiration), example="no_expiration", required="create"
    )
    expiration_at: Maybe[object] = ABSENT
    reusable: Maybe[bool] = described("Whether a customer may get it several times.", default="true")
    applies_to: Maybe[CouponTargets] = ABSENT


_ALWAYS = ("name", "description", "expiration")
_UNTIL_APPLIED = (
    "code",
    "coupon_type",
    "amount_cents",
    "amount_currency",
    "percentage_rate",
    "frequency",
    "frequency_duration",
    "reusable",
)


def get(reader: Reader, code: str) -> Coupon:
    """The coupon with this code. Raises `NotFound`."""
    coupon = reader.tx.first(Coupon, eq("code", code))
    if coupon is None:
        raise NotFound("coupon", code)
    return coupon


def list_all(reader: Reader, paging: Paging) -> Page[Coupon]:
    """Coupons: active ones first; then those without an expiry, then by expiry, soonest first."""
    order = [asc("status"), asc("expiration"), asc("expiration_at"), desc("created_at"), asc("id")]
    return reader.page(Coupon, paging=paging, order=order)


def _expiration(reader: Reader, value: Maybe[object]) -> datetime | None:
    """The sent instant, which must be in the future. Raises `Invalid`."""
    if value is ABSENT or value is None or value == "":
        return None
    expires_at = value if isinstance(value, datetime) else parse_instant(value) if isinstance(value, str) else None
    if expires_at is None or expires_at <= reader.now:
        raise Invalid(expiration_at="invalid_date")
    return expires_at


def _ids(reader: Reader, kind: type[Plan] | type[BillableMetric], codes: Iterable[str], plural: str) -> tuple[str, ...]:
    unique_codes = tuple(dict.fromkeys(codes))
    scope = (missing("parent_id"),) if kind is Plan else ()
    by_code = {record.code: record.id for record in reader.tx.find(kind, within("code", unique_codes), *scope)}
    if len(by_code) != len(unique_codes):
        raise NotFound(plural, next(code for code in unique_codes if code not in by_code))
    return tuple(by_code[code] for code in unique_codes)


def _targets(reader: Reader, request: Maybe[CouponTargets]) -> dict[str, Any]:
    """The sent targets, by field of the coupon. Setting one kind clears the other."""
    if request is ABSENT or request is None:
        return {}
    plan_codes, metric_codes = value_or(request.plan_codes, ()), value_or(request.billable_metric_codes, ())
    plans = _ids(reader, Plan, plan_codes, "plans")
    metrics = _ids(reader, BillableMetric, metric_codes, "billable_metrics")
    if plans and metrics:
        raise NotAllowed("only_one_limitation_type_per_coupon_allowed")
    fields: dict[str, Any] = {}
    if is_given(request.plan_codes) or metrics:
        fields |= {"plan_ids": plans, "limited_plans": bool(plans)}
    if is_given(request.billable_metric_codes) or plans:
        fields |= {"billable_metric_ids": metrics, "limited_billable_metrics": bool(metrics)}
    return fields


def _checked(reader: Reader, coupon: Coupon, request: CouponInput) -> Coupon:
    problems = coupon_problems(coupon)
    if request.reusable is None:
        problems["reusable"] = ["value_is_reserved"]
    holder = reader.tx.first(Coupon, eq("code", coupon.code)) if coupon.code else None
    if holder is not None and holder.id != coupon.id:
        problems["code"] = ["value_already_exist"]
    if problems:
        raise Invalid(problems)
    return coupon


def _watch(work: Work, coupon: Coupon) -> None:
    task = ExpireCoupon(coupon_id=coupon.id)
    work.cancel(task)
    expiry = expires_at(coupon)
    if expiry is not None:
        work.schedule(task, max(expiry_run(expiry), work.now))


@without_backlog(Unrelated.NEW)
def create(work: Work, request: CouponInput) -> Coupon:
    """A new coupon. Raises `Invalid`, and `NotFound` or `NotAllowed` for its targets."""
    expires = _expiration(work, request.expiration_at)
    limits = _targets(work, request.applies_to)
    coupon = Coupon(
        id=work.new_id(),
        organization_id=work.organization.id,
        name=value_or(request.name, ""),
        code=value_or(request.code, ""),
        description=value_or(request.description, None),
        coupon_type=value_or(request.coupon_type, ""),
        amount_cents=value_or(request.amount_cents, None),
        amount_currency=value_or(request.amount_currency, None),
        percentage_rate=value_or(request.percentage_rate, None),
        frequency=value_or(request.frequency, ""),
        frequency_duration=value_or(request.frequency_duration, None),
        expiration=value_or(request.expiration, ""),
        expiration_at=expires,
        reusable=value_or(request.reusable, True),
        created_at=work.now,
        updated_at=work.now,
        **limits,
    )
    _checked(work, coupon, request)
    work.tx.insert(coupon)
    _watch(work, coupon)
    return coupon


@after_backlog(of_everyone)
def update(work: Work, code: str, request: CouponInput) -> Coupon:
    """Change a coupon. Once it has been applied to a customer, only its name, description and expiration change.

    Targets that are not sent stay. Raises `NotFound`, `NotAllowed` and `Invalid`.
    """
    coupon = get(work, code)
    fields: dict[str, Any] = {
        name: "" if value is None and name != "description" else value
        for name, value in changes(request, *_ALWAYS).items()
    }
    if is_given(request.expiration_at):
        fields["expiration_at"] = _expiration(work, request.expiration_at)
    if not work.tx.count(AppliedCoupon, eq("coupon_id", coupon.id)):
        fields |= _targets(work, request.applies_to)
        mandatory = ("code", "coupon_type", "frequency")
        for name, value in changes(request, *_UNTIL_APPLIED).items():
            if name == "reusable" and value is None:
                continue
            fields[name] = "" if value is None and name in mandatory else value
    changed = _checked(work, replace(coupon, updated_at=work.now, **fields), request)
    work.tx.replace(changed)
    _watch(work, changed)
    return changed


@after_backlog(of_everyone)
def delete(work: Work, code: str) -> Coupon:
    """Delete a coupon and end it for all customers. Raises `NotFound`."""
    coupon = replace(get(work, code), deleted_at=work.now, updated_at=work.now)
    work.tx.replace(coupon)
    work.cancel(ExpireCoupon(coupon_id=coupon.id))
    for applied in work.tx.find(AppliedCoupon, eq("coupon_id", coupon.id), eq("status", CouponStatus.ACTIVE)):
        terminate_applied(work, applied)
    return coupon


def terminate_applied(work: Work, applied: AppliedCoupon) -> AppliedCoupon:
    """End an applied coupon; one that has ended is left unchanged."""
    if applied.status == CouponStatus.TERMINATED:
        return applied
    status = transition(applied.status, CouponEvent.TERMINATE)
    ended = replace(applied, status=status, terminated_at=work.now, updated_at=work.now)
    work.tx.replace(ended)
    return ended


def expire(work: Work, task: ExpireCoupon) -> None:
    """Job: a coupon has expired. Customers who have it keep it, but it cannot be applied any more."""
    coupon = work.tx.get(Coupon, task.coupon_id)
    if coupon is None or coupon.status != CouponStatus.ACTIVE or coupon.expiration_at is None:
        return
    if expiry_run(coupon.expiration_at) > work.now:
        _watch(work, coupon)
        return
    status = transition(coupon.status, CouponEvent.TERMINATE)
    work.tx.replace(replace(coupon, status=status, terminated_at=work.now, updated_at=work.now))
