"""Views of current and past usage."""

from __future__ import annotations

from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargeResult
from usagebill.core.fees import Fee
from usagebill.core.filters import display_name
from usagebill.core.grouping import Breakdown
from usagebill.core.numbers import parse_decimal
from usagebill.core.plans import Charge
from usagebill.rating.current_usage import ChargeUsage, CurrentUsage
from usagebill.rating.past_usage import PastUsage
from usagebill.runtime.work import Reader
from usagebill.views.usage import (
    ChargeUsageView,
    ShownUsage,
    UsageView,
    UsedChargeView,
    UsedMetricView,
    charge_usage_view,
    usage_view,
)


class PastUsageView(UsageView):
    """Usage of a billed period, at the top level and under the record's name: clients read either."""

    customer_usage: UsageView


def _line(
    result: ChargeResult, projection: tuple[Decimal, int, int | None] | None, projected_breakdown: Breakdown
) -> ShownUsage:
    amounts = result.amounts
    part = result.part
    return ShownUsage(
        filter_id=part.filter.id if part.filter else None,
        filter_name=part.filter.invoice_display_name if part.filter else None,
        values=part.filter.values if part.filter else None,
        grouped_by=result.grouped_by,
        units=amounts.units,
        total_aggregated_units=amounts.total_aggregated_units,
        events_count=amounts.events_count,
        amount_cents=amounts.amount_cents,
        pricing_unit_amount_cents=amounts.pricing_unit.amount_cents if amounts.pricing_unit else None,
        projected=projection,
        breakdown=result.breakdown,
        projected_breakdown=projected_breakdown,
    )


def _charge_object(charge: Charge, *, with_code: bool) -> UsedChargeView:
    shown: UsedChargeView = {
        "svc_id": charge.id,
        "charge_model": charge.charge_model,
        "invoice_display_name": charge.invoice_display_name,
    }
    if with_code:
        shown["code"] = charge.code
    return shown


def _metric_object(metric: BillableMetric) -> UsedMetricView:
    return {
        "svc_id": metric.id,
        "name": metric.name,
        "code": metric.code,
        "aggregation_type": metric.aggregation_type,
    }


def _charge_usage(usage: ChargeUsage, currency: str, *, is_projected: bool) -> ChargeUsageView:
    unit = usage.charge.applied_pricing_unit
    projections = usage.projections or (None,) * len(usage.results)
    breakdowns = usage.projected_breakdowns or ((),) * len(usage.results)
    return charge_usage_view(
        [
            _line(
                result,
                None
                if projection is None
                else (projection.units, projection.amount_cents, projection.pricing_unit_amount_cents),
                breakdown,
            )
            for result, projection, breakdown in zip(usage.results, projections, breakdowns, strict=True)
        ],
        charge=_charge_object(usage.charge, with_code=not is_projected),
        metric=_metric_object(usage.results[0].metric),
        currency=currency,
        has_filters=bool(usage.charge.filters),
        short_name=unit.short_name if unit else None,
        conversion_rate=unit.conversion_rate if unit else None,
        is_projected=is_projected,
        held_amount_cents=None if is_projected else usage.held_amount_cents,
    )


def current_usage_view(_: Reader, usage: CurrentUsage) -> UsageView:
    """Usage of a period, charge by charge, with what open holds would add, or with projections."""
    charges = [_charge_usage(charge, usage.currency, is_projected=usage.is_projected) for charge in usage.charges]
    shown = usage_view(
        start=usage.start,
        end=usage.end,
        issuing_date=usage.issuing_date,
        currency=usage.currency,
        invoice_id=None,
        amount_cents=usage.amount_cents,
        taxes_amount_cents=usage.taxes_amount_cents,
        charges_usage=charges,
        projected_amount_cents=sum(charge["projected_amount_cents"] for charge in charges)
        if usage.is_projected
        else None,
    )
    if not usage.is_projected:
        shown["held_amount_cents"] = usage.held_amount_cents
    return shown


def past_usage_view(reader: Reader, usage: PastUsage) -> PastUsageView:
    """Usage of a period that was billed, from the fees of its invoice."""
    by_charge: dict[str, list[Fee]] = {}
    for fee in usage.fees:
        by_charge.setdefault(fee.charge_id or "", []).append(fee)
    fees = usage.invoice_fees
    shown = usage_view(
        start=usage.period.charges_from_datetime,
        end=usage.period.charges_to_datetime,
        issuing_date=usage.invoice.issuing_date,
        currency=usage.invoice.currency,
        invoice_id=usage.invoice.id,
        amount_cents=usage.invoice.fees_amount_cents,
        taxes_amount_cents=sum(fee.taxes_amount_cents for fee in fees),
        charges_usage=[_billed_charge(reader, charge_id, fees) for charge_id, fees in by_charge.items()],
    )
    return {**shown, "customer_usage": shown}


def _billed_charge(reader: Reader, charge_id: str, fees: list[Fee]) -> ChargeUsageView:
    charge = reader.tx.get(Charge, charge_id, deleted=True)
    if charge is None:
        raise LookupError(f"no charge {charge_id}")
    metric = reader.tx.get(BillableMetric, charge.billable_metric_id, deleted=True)
    if metric is None:
        raise LookupError(f"no billable metric {charge.billable_metric_id}")
    unit = fees[0].pricing_unit_details
    return charge_usage_view(
        [
            ShownUsage(
                filter_id=fee.charge_filter_id,
                filter_name=_filter_name(fee),
                values=fee.filters,
                grouped_by=fee.grouped_by,
                units=fee.units,
                total_aggregated_units=fee.units if fee.total_aggregated_units is None else fee.total_aggregated_units,
                events_count=fee.events_count or 0,
                amount_cents=fee.amount_cents,
                pricing_unit_amount_cents=_cents(fee),
            )
            for fee in fees
        ],
        charge=_charge_object(charge, with_code=True),
        metric=_metric_object(metric),
        currency=fees[0].currency,
        has_filters=any(fee.filters is not None for fee in fees),
        short_name=None if unit is None else str(unit["short_name"]),
        conversion_rate=None if unit is None else parse_decimal(str(unit["conversion_rate"])),
    )


def _filter_name(fee: Fee) -> str | None:
    """The filter's own name: fees call one without a name by its values."""
    name = fee.item.filter_invoice_display_name
    return None if fee.filters is None or name == display_name(fee.filters) else name


def _cents(fee: Fee) -> int | None:
    if fee.pricing_unit_details is None:
        return None
    cents = fee.pricing_unit_details["amount_cents"]
    return cents if isinstance(cents, int) else None
