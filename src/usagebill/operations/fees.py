"""Fees: listed, and, while on no invoice, marked as paid or deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotAllowed
from usagebill.core.fees import Fee, FeeType, with_payment_status
from usagebill.core.instants import parse_instant
from usagebill.core.statuses import PaymentStatus
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.operations.backlog import after_backlog, of_record
from usagebill.operations.invoices.advance_charges import regroup
from usagebill.queries.fees import fee_by_id
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, at_least, at_most, eq, related
from usagebill.storage.ports import Page

_INSTANTS = ("created_at", "succeeded_at", "failed_at", "refunded_at")


@Input
class FeeInput:
    payment_status: Maybe[str] = described("Whether it is paid.", values=tuple(PaymentStatus), example="succeeded")


@Input
class FeeFilters:
    """Filters of lists of fees; the bounds of instants are inclusive."""

    external_customer_id: Maybe[str] = ABSENT
    external_subscription_id: Maybe[str] = ABSENT
    currency: Maybe[str] = ABSENT
    fee_type: Maybe[str] = described("Only fees of this type.", values=tuple(FeeType))
    billable_metric_code: Maybe[str] = ABSENT
    payment_status: Maybe[str] = described("Only those with this payment status.", values=tuple(PaymentStatus))
    event_transaction_id: Maybe[str] = described("Only the fees of this event.")
    created_at_from: Maybe[str] = described("Only those created at or after this instant.")
    created_at_to: Maybe[str] = described("Only those created at or before this instant.")
    succeeded_at_from: Maybe[str] = described("Only those paid at or after this instant.")
    succeeded_at_to: Maybe[str] = described("Only those paid at or before this instant.")
    failed_at_from: Maybe[str] = described("Only those whose payment failed at or after this instant.")
    failed_at_to: Maybe[str] = described("Only those whose payment failed at or before this instant.")
    refunded_at_from: Maybe[str] = described("Only those refunded at or after this instant.")
    refunded_at_to: Maybe[str] = described("Only those refunded at or before this instant.")


def list_all(reader: Reader, options: FeeFilters, paging: Paging) -> Page[Fee]:
    """The fees that match, oldest first. Raises `Invalid` for an unknown type, status or date."""
    problems: dict[str, object] = {}
    conditions: list[Condition] = []
    if options.fee_type:
        if options.fee_type not in tuple(FeeType):
            problems["fee_type"] = ["value_is_invalid"]
        conditions.append(eq("fee_type", options.fee_type))
    if options.payment_status:
        if options.payment_status not in tuple(PaymentStatus):
            problems["payment_status"] = ["value_is_invalid"]
        conditions.append(eq("payment_status", options.payment_status))
    for column in _INSTANTS:
        for suffix, bound in (("from", at_least), ("to", at_most)):
            field = f"{column}_{suffix}"
            instant = _instant(field, getattr(options, field), problems)
            if instant is not None:
                conditions.append(bound(column, instant))
    if problems:
        raise Invalid(problems)
    if options.external_customer_id:
        conditions.append(related(Customer, "customer_id", eq("external_id", options.external_customer_id)))
    if options.external_subscription_id:
        conditions.append(eq("external_subscription_id", options.external_subscription_id))
    if options.currency:
        conditions.append(eq("currency", options.currency.upper()))
    if options.billable_metric_code:
        conditions.append(related(BillableMetric, "billable_metric_id", eq("code", options.billable_metric_code)))
    if options.event_transaction_id:
        conditions.append(eq("event_transaction_id", options.event_transaction_id))
    return reader.page(Fee, *conditions, paging=paging, order=[asc("created_at"), asc("id")])


def _instant(field: str, value: Maybe[str], problems: dict[str, object]) -> datetime | None:
    if not value:
        return None
    instant = parse_instant(value)
    if instant is None:
        problems[field] = ["invalid_date"]
    return instant


def _free(reader: Reader, fee_id: str) -> Fee:
    fee = fee_by_id(reader, fee_id)
    if fee.invoice_id is not None:
        raise NotAllowed("invoiced_fee")
    return fee


@after_backlog(of_record(Fee))
def update(work: Work, fee_id: str, request: FeeInput) -> Fee:
    """Mark a fee without invoice as pending, succeeded, failed or refunded, as of now.

    A fee paid after the end of its subscription is invoiced at once (`invoices.advance_charges`), because no run will
    come. Raises `NotAllowed` if an invoice holds the fee, and `Invalid` for any other status.
    """
    fee = _free(work, fee_id)
    if request.payment_status is ABSENT:
        return fee
    if request.payment_status not in tuple(PaymentStatus):
        raise Invalid(payment_status="value_is_invalid")
    changed = replace(with_payment_status(fee, PaymentStatus(request.payment_status), work.now), updated_at=work.now)
    work.tx.replace(changed)
    if changed.payment_status == PaymentStatus.SUCCEEDED:
        _invoice_after_end(work, changed)
    return fee_by_id(work, fee_id)


def _invoice_after_end(work: Work, fee: Fee) -> None:
    owner = None if fee.subscription_id is None else work.tx.get(Subscription, fee.subscription_id)
    if owner is None:
        return
    of_same_id = (eq("customer_id", owner.customer_id), eq("external_id", owner.external_id))
    if work.tx.first(Subscription, *of_same_id, eq("status", SubscriptionStatus.ACTIVE)) is None:
        regroup(work, [owner], work.now, renewing=False)


@after_backlog(of_record(Fee))
def delete(work: Work, fee_id: str) -> Fee:
    """Delete a fee without invoice. Raises `NotAllowed` if it is on an invoice."""
    deleted = replace(_free(work, fee_id), deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    return deleted
