"""Explanations of invoices as JSON, our own addition to the interface."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TypedDict

from usagebill.core.aggregation import (
    AGGREGATIONS,
    Accumulation,
    operation_of,
)
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import Event, property_of
from usagebill.core.invoices.explained import (
    ExplainedEvent,
    ExplainedFee,
    ExplainedInvoice,
    ExplainedPrepayment,
    ExplainedUsage,
)
from usagebill.core.invoices.explanation import Discount, Step, TaxStep
from usagebill.core.numbers import decimal_text, round_to
from usagebill.core.plans import Charge
from usagebill.core.pricing import MODELS
from usagebill.core.taxes import net_of_coupons
from usagebill.runtime.work import Reader
from usagebill.views.formats import (
    DecimalText,
    Id,
    Instant,
    instant_text,
    millisecond_text,
    optional_decimal,
    rate_number,
)


class ExplainedEventView(TypedDict):
    transaction_id: str
    timestamp: Instant
    value: str | None
    operation_type: str | None
    precise_total_amount_cents: DecimalText | None


class ExplainedUsageView(TypedDict):
    billable_metric_code: str
    aggregation_type: str
    field_name: str | None
    charge_model: str
    prorated: bool
    filters: Mapping[str, list[str]] | None
    grouped_by: Mapping[str, str | None]
    units: DecimalText
    counting: list[str]
    events_count: int | None
    events: list[ExplainedEventView]
    events_complete: bool


class DiscountView(TypedDict):
    svc_credit_id: Id
    type: str
    code: str
    before_cents: DecimalText
    amount_cents: DecimalText
    after_cents: DecimalText


class ExplainedTaxView(TypedDict):
    tax_code: str
    tax_rate: Decimal
    base_cents: DecimalText
    precise_amount_cents: DecimalText
    amount_cents: int


class PrepaymentView(TypedDict):
    svc_wallet_id: Id
    wallet_code: str
    svc_wallet_transaction_id: Id
    svc_inbound_transaction_id: Id
    inbound_transaction_status: str
    amount_cents: int


class ExplainedFeeView(TypedDict):
    svc_fee_id: Id
    type: str
    name: str
    from_datetime: Instant | None
    to_datetime: Instant | None
    usage: ExplainedUsageView | None
    arithmetic: list[str]
    precise_amount_cents: DecimalText
    amount_cents: int
    discounts: list[DiscountView]
    sub_total_excluding_taxes_cents: DecimalText
    taxes: list[ExplainedTaxView]
    taxes_amount_cents: int
    prepaid_credits: list[PrepaymentView]
    price_version: int | None


class StepView(TypedDict):
    step: str
    text: str
    amount_cents: int
    result_cents: int


class ExplanationView(TypedDict):
    svc_invoice_id: Id
    number: str
    status: str
    currency: str
    fees: list[ExplainedFeeView]
    steps: list[StepView]
    total_amount_cents: int


def explanation_view(_: Reader, explained: ExplainedInvoice) -> ExplanationView:
    """An invoice explained: its fees one by one, then the steps to its total."""
    invoice = explained.invoice
    return {
        "svc_invoice_id": invoice.id,
        "number": invoice.number,
        "status": invoice.status,
        "currency": invoice.currency,
        "fees": [_fee_view(fee) for fee in explained.fees],
        "steps": [_step_view(step) for step in explained.steps],
        "total_amount_cents": invoice.total_amount_cents,
    }


def _fee_view(explained: ExplainedFee) -> ExplainedFeeView:
    fee = explained.fee
    return {
        "svc_fee_id": fee.id,
        "type": fee.fee_type,
        "name": fee.item.invoice_display_name or fee.item.name,
        "from_datetime": instant_text(fee.from_datetime),
        "to_datetime": instant_text(fee.to_datetime),
        "usage": None if explained.usage is None else _usage_view(explained.usage, explained),
        "arithmetic": list(explained.arithmetic),
        "precise_amount_cents": decimal_text(fee.precise_amount_cents),
        "amount_cents": fee.amount_cents,
        "discounts": [_discount_view(discount) for discount in explained.discounts],
        "sub_total_excluding_taxes_cents": decimal_text(net_of_coupons(fee)),
        "taxes": [_tax_view(tax) for tax in explained.taxes],
        "taxes_amount_cents": fee.taxes_amount_cents,
        "prepaid_credits": [_prepayment_view(prepayment) for prepayment in explained.prepaid],
        "price_version": explained.fee.price_version,
    }


def _usage_view(usage: ExplainedUsage, explained: ExplainedFee) -> ExplainedUsageView:
    fee, metric = explained.fee, usage.metric
    return {
        "billable_metric_code": metric.code,
        "aggregation_type": metric.aggregation_type,
        "field_name": metric.field_name,
        "charge_model": usage.charge.charge_model,
        "prorated": usage.charge.prorated,
        "filters": None if fee.filters is None else {key: list(values) for key, values in fee.filters.items()},
        "grouped_by": dict(fee.grouped_by),
        "units": decimal_text(fee.units),
        "counting": list(usage.counting),
        "events_count": fee.events_count,
        "events": [_event_view(event, metric, usage.charge) for event in usage.events],
        "events_complete": usage.complete,
    }


def event_of_fee_view(_: Reader, explained: ExplainedEvent) -> ExplainedEventView:
    """An event counted by a fee."""
    return _event_view(explained.event, explained.metric, explained.charge)


def _event_view(event: Event, metric: BillableMetric, charge: Charge) -> ExplainedEventView:
    operation = (
        operation_of(event) if AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.VALUES else None
    )
    own_price = event.precise_total_amount_cents if MODELS[charge.charge_model].by_event_prices else None
    return {
        "transaction_id": event.transaction_id,
        "timestamp": millisecond_text(event.timestamp),
        "value": property_of(event, metric.field_name),
        "operation_type": operation,
        "precise_total_amount_cents": optional_decimal(own_price),
    }


def _discount_view(discount: Discount) -> DiscountView:
    return {
        "svc_credit_id": discount.credit_id,
        "type": discount.kind,
        "code": discount.code,
        "before_cents": decimal_text(discount.before),
        "amount_cents": decimal_text(discount.share),
        "after_cents": decimal_text(discount.after),
    }


def _prepayment_view(prepayment: ExplainedPrepayment) -> PrepaymentView:
    return {
        "svc_wallet_id": prepayment.wallet.id,
        "wallet_code": prepayment.wallet.code,
        "svc_wallet_transaction_id": prepayment.outbound.id,
        "svc_inbound_transaction_id": prepayment.inbound.id,
        "inbound_transaction_status": prepayment.inbound.transaction_status,
        "amount_cents": prepayment.amount_cents,
    }


def _tax_view(tax: TaxStep) -> ExplainedTaxView:
    return {
        "tax_code": tax.code,
        "tax_rate": rate_number(tax.rate),
        "base_cents": decimal_text(tax.base),
        "precise_amount_cents": decimal_text(round_to(tax.exact, 15)),
        "amount_cents": tax.amount_cents,
    }


def _step_view(step: Step) -> StepView:
    return {
        "step": step.name,
        "text": step.text,
        "amount_cents": step.amount_cents,
        "result_cents": step.result_cents,
    }
