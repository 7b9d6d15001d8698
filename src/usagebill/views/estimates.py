"""Estimates of fees as JSON: fees without ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypedDict, cast

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.fees import Fee
from usagebill.core.numbers import ZERO, decimal_text
from usagebill.core.plans import Charge, ChargeFilter
from usagebill.core.pricing.estimates import InstantEstimate
from usagebill.core.statuses import PaymentStatus
from usagebill.core.subscriptions import Subscription
from usagebill.process.json_text import JsonObject
from usagebill.queries.customers import customer_of
from usagebill.runtime.work import Reader
from usagebill.views.fees import FeeItemView, FeeView, fee_view
from usagebill.views.formats import DecimalText, Id, Unstored


class InstantFeeView(TypedDict):
    svc_id: None
    created_at: None
    svc_charge_id: Id
    svc_charge_filter_id: Id | None
    svc_invoice_id: None
    svc_true_up_fee_id: None
    svc_true_up_parent_fee_id: None
    svc_subscription_id: Id
    external_subscription_id: str
    svc_customer_id: Id
    external_customer_id: str
    item: FeeItemView
    pay_in_advance: bool
    invoiceable: bool
    amount_cents: int
    amount_currency: str
    precise_amount: DecimalText
    precise_total_amount: DecimalText
    taxes_amount_cents: int
    taxes_precise_amount: int
    taxes_rate: int
    total_amount_cents: int
    total_amount_currency: str
    units: DecimalText
    description: None
    precise_unit_amount: DecimalText
    precise_coupons_amount_cents: DecimalText
    events_count: int
    payment_status: str
    succeeded_at: None
    failed_at: None
    refunded_at: None
    event_transaction_id: str
    amount_details: None


_NO_ID = {"svc_id": None, "created_at": None}


def estimated_fees_view(reader: Reader, fees: Iterable[Fee]) -> Annotated[list[FeeView], Unstored()]:
    """Estimated fees, in the form of stored ones."""
    return [cast(FeeView, _estimated(fee_view(reader, fee))) for fee in fees]


def _estimated(shown: FeeView) -> JsonObject:
    taxes = [{**tax, "svc_fee_id": None} for tax in shown["applied_taxes"]]
    return {**shown, **_NO_ID, "applied_taxes": taxes}


def instant_fee_view(
    reader: Reader,
    subscription: Subscription,
    charge: Charge,
    metric: BillableMetric,
    estimate: InstantEstimate,
    *,
    currency: str,
    transaction_id: str,
    charge_filter: ChargeFilter | None = None,
    filter_name: str | None = None,
) -> InstantFeeView:
    """The estimate of one event by itself: cents are integers, other numbers decimals as text.

    `precise_amount` is in major units and not rounded, `precise_unit_amount` in cents.
    """
    amount_cents = int(estimate.amount_cents)
    return {
        "svc_id": None,
        "created_at": None,
        "svc_charge_id": charge.id,
        "svc_charge_filter_id": None if charge_filter is None else charge_filter.id,
        "svc_invoice_id": None,
        "svc_true_up_fee_id": None,
        "svc_true_up_parent_fee_id": None,
        "svc_subscription_id": subscription.id,
        "external_subscription_id": subscription.external_id,
        "svc_customer_id": subscription.customer_id,
        "external_customer_id": customer_of(reader, subscription).external_id,
        "item": {
            "type": "charge",
            "code": metric.code,
            "name": metric.name,
            "description": metric.description,
            "invoice_display_name": charge.invoice_display_name or metric.name,
            "filters": None
            if charge_filter is None
            else {key: list(values) for key, values in charge_filter.values.items()},
            "filter_invoice_display_name": filter_name,
            "svc_item_id": metric.id,
            "item_type": "BillableMetric",
            "grouped_by": {},
        },
        "pay_in_advance": True,
        "invoiceable": charge.invoiceable,
        "amount_cents": amount_cents,
        "amount_currency": currency,
        "precise_amount": decimal_text(estimate.amount),
        "precise_total_amount": decimal_text(estimate.amount),
        "taxes_amount_cents": 0,
        "taxes_precise_amount": 0,
        "taxes_rate": 0,
        "total_amount_cents": amount_cents,
        "total_amount_currency": currency,
        "units": decimal_text(estimate.units),
        "description": None,
        "precise_unit_amount": decimal_text(estimate.unit_amount_cents),
        "precise_coupons_amount_cents": decimal_text(ZERO),
        "events_count": 1,
        "payment_status": PaymentStatus.PENDING,
        "succeeded_at": None,
        "failed_at": None,
        "refunded_at": None,
        "event_transaction_id": transaction_id,
        "amount_details": None,
    }
