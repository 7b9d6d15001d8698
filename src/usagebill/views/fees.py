"""Fees as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NotRequired, TypedDict

from usagebill.core.currencies import major_from_cents
from usagebill.core.fees import AppliedTax, Fee, FeeType
from usagebill.core.numbers import ZERO, add, decimal_text, round_cents, subtract
from usagebill.core.taxes import net_of_coupons
from usagebill.queries.customers import find_customer
from usagebill.runtime.work import Reader
from usagebill.views.formats import DecimalText, Id, Instant, instant_text, offset_text, rate_number


class AppliedTaxView(TypedDict):
    svc_id: Id
    svc_tax_id: Id | None
    tax_name: str
    tax_code: str
    tax_rate: Decimal
    tax_description: str | None
    amount_cents: int
    amount_currency: str
    created_at: Instant


class FeeTaxView(AppliedTaxView):
    svc_fee_id: Id


class FeeItemView(TypedDict):
    type: str
    code: str
    name: str
    description: str | None
    invoice_display_name: str
    filters: Mapping[str, list[str]] | None
    filter_invoice_display_name: str | None
    svc_item_id: Id
    item_type: str
    grouped_by: Mapping[str, str | None]


class UntaxedFeeView(TypedDict):
    svc_id: Id
    svc_charge_id: Id | None
    svc_charge_filter_id: Id | None
    svc_fixed_charge_id: Id | None
    svc_invoice_id: Id | None
    svc_true_up_fee_id: Id | None
    svc_true_up_parent_fee_id: Id | None
    svc_original_fee_id: Id | None
    svc_subscription_id: Id | None
    external_subscription_id: str | None
    svc_customer_id: Id
    external_customer_id: str | None
    item: FeeItemView
    pay_in_advance: bool
    invoiceable: bool
    amount_cents: int
    amount_currency: str
    precise_amount: DecimalText
    precise_total_amount: DecimalText
    taxes_amount_cents: int
    taxes_precise_amount: DecimalText
    taxes_rate: Decimal
    total_amount_cents: int
    total_amount_currency: str
    precise_coupons_amount_cents: DecimalText
    sub_total_excluding_taxes_amount_cents: int
    sub_total_excluding_taxes_precise_amount_cents: DecimalText
    units: DecimalText
    total_aggregated_units: DecimalText | None
    events_count: int | None
    precise_unit_amount: DecimalText
    amount_details: Mapping[str, object]
    pricing_unit_details: Mapping[str, object] | None
    presentation_breakdowns: list[Mapping[str, object]]
    description: str | None
    payment_status: str
    self_billed: bool
    created_at: Instant
    succeeded_at: Instant | None
    failed_at: Instant | None
    refunded_at: Instant | None
    event_transaction_id: str | None
    from_date: NotRequired[Instant | None]
    to_date: NotRequired[Instant | None]


class FeeView(UntaxedFeeView):
    applied_taxes: list[FeeTaxView]


_DATED = ("charge", "subscription", "add_on", "fixed_charge")


def _major(cents: Decimal, currency: str) -> str:
    return decimal_text(major_from_cents(cents, currency))


def applied_tax_view(line: AppliedTax) -> AppliedTaxView:
    """The fields common to all applied taxes."""
    return {
        "svc_id": line.id,
        "svc_tax_id": line.tax_id,
        "tax_name": line.name,
        "tax_code": line.code,
        "tax_rate": rate_number(line.rate),
        "tax_description": line.description,
        "amount_cents": line.amount_cents,
        "amount_currency": line.amount_currency,
        "created_at": instant_text(line.created_at),
    }


def untaxed_fee_view(reader: Reader, fee: Fee) -> UntaxedFeeView:
    """A fee without its applied taxes, as messages and the response to its deletion show it."""
    net_precise = subtract(fee.precise_amount_cents, fee.precise_coupons_amount_cents)
    customer = find_customer(reader, fee.customer_id)
    units = fee.units if fee.total_aggregated_units is None else fee.total_aggregated_units
    shown: UntaxedFeeView = {
        "svc_id": fee.id,
        "svc_charge_id": fee.charge_id,
        "svc_charge_filter_id": fee.charge_filter_id,
        "svc_fixed_charge_id": fee.fixed_charge_id,
        "svc_invoice_id": fee.invoice_id,
        "svc_true_up_fee_id": fee.true_up_fee_id,
        "svc_true_up_parent_fee_id": fee.true_up_parent_fee_id,
        "svc_original_fee_id": fee.original_fee_id,
        "svc_subscription_id": fee.subscription_id,
        "external_subscription_id": fee.external_subscription_id,
        "svc_customer_id": fee.customer_id,
        "external_customer_id": None if customer is None else customer.external_id,
        "item": _item(fee),
        "pay_in_advance": fee.pay_in_advance,
        "invoiceable": fee.invoiceable,
        "amount_cents": fee.amount_cents,
        "amount_currency": fee.currency,
        "precise_amount": _major(fee.precise_amount_cents, fee.currency),
        "precise_total_amount": _major(add(fee.precise_amount_cents, fee.taxes_precise_amount_cents), fee.currency),
        "taxes_amount_cents": fee.taxes_amount_cents,
        "taxes_precise_amount": _major(fee.taxes_precise_amount_cents, fee.currency),
        "taxes_rate": rate_number(fee.taxes_rate),
        "total_amount_cents": fee.amount_cents + fee.taxes_amount_cents,
        "total_amount_currency": fee.currency,
        "precise_coupons_amount_cents": decimal_text(fee.precise_coupons_amount_cents),
        "sub_total_excluding_taxes_amount_cents": round_cents(net_of_coupons(fee)),
        "sub_total_excluding_taxes_precise_amount_cents": decimal_text(max(ZERO, net_precise)),
        "units": decimal_text(fee.units),
        "total_aggregated_units": decimal_text(units) if fee.fee_type == FeeType.CHARGE else None,
        "events_count": fee.events_count,
        "precise_unit_amount": decimal_text(fee.precise_unit_amount),
        "amount_details": dict(fee.amount_details),
        "pricing_unit_details": fee.pricing_unit_details,
        "presentation_breakdowns": [dict(row) for row in fee.presentation_breakdowns],
        "description": fee.description,
        "payment_status": fee.payment_status,
        "self_billed": fee.self_billed,
        "created_at": instant_text(fee.created_at),
        "succeeded_at": instant_text(fee.succeeded_at),
        "failed_at": instant_text(fee.failed_at),
        "refunded_at": instant_text(fee.refunded_at),
        "event_transaction_id": fee.event_transaction_id,
    }
    if fee.fee_type in _DATED:
        shown["from_date"] = offset_text(fee.from_datetime)
        shown["to_date"] = offset_text(fee.to_datetime)
    return shown


def fee_view(reader: Reader, fee: Fee) -> FeeView:
    """A fee with its applied taxes."""
    taxes: list[FeeTaxView] = [{**applied_tax_view(line), "svc_fee_id": fee.id} for line in fee.applied_taxes]
    return {**untaxed_fee_view(reader, fee), "applied_taxes": taxes}


def _item(fee: Fee) -> FeeItemView:
    item = fee.item
    return {
        "type": item.type,
        "code": item.code,
        "name": item.name,
        "description": item.description,
        "invoice_display_name": item.invoice_display_name or item.name,
        "filters": None if fee.filters is None else {key: list(values) for key, values in fee.filters.items()},
        "filter_invoice_display_name": item.filter_invoice_display_name,
        "svc_item_id": item.id,
        "item_type": item.item_type,
        "grouped_by": dict(fee.grouped_by),
    }
