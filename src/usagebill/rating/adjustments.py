"""Draft lines adjusted by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial

from usagebill.core.adjusted_fees import AdjustedFee, Repriced, with_adjusted_lines, with_new_true_up
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_lines import charge_item, pricing_unit_object
from usagebill.core.charge_parts import parsed_properties
from usagebill.core.currencies import subunits
from usagebill.core.errors import NotFound
from usagebill.core.fees import Fee, FeeItem
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.opening import new_fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ZERO
from usagebill.core.plans import Charge, FixedCharge, PlanDefinition
from usagebill.core.pricing import amount_details, parse_properties, price
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.pricing.fixed_charges import fixed_charge_amounts
from usagebill.core.usage import Usage
from usagebill.queries.billing_periods import BillingContext
from usagebill.rating.fee_events import part_of
from usagebill.rating.fees.fixed_charges import fixed_charge_details, fixed_charge_item
from usagebill.rating.fees.usage import usage_to_bill
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq


def of_draft(reader: Reader, invoice: Invoice) -> list[AdjustedFee]:
    """The adjustments of a draft, oldest first."""
    return reader.tx.find(AdjustedFee, eq("invoice_id", invoice.id), order=[asc("created_at")])


def with_adjustments(reader: Reader, context: BillingContext, fees: list[Fee]) -> list[Fee]:
    """The fees of a draft's billing period with their adjustments; adjusted lines without usage are added.

    True-ups to a charge's minimum are computed from the adjusted lines.
    """
    if context.invoice.status != InvoiceStatus.DRAFT:
        return fees
    whole = of_draft(reader, context.invoice)
    adjustments = [adjustment for adjustment in whole if adjustment.subscription_id == context.subscription.id]

    def empty_line(adjustment: AdjustedFee) -> Fee | None:
        return empty_fee(reader, context, adjustment)

    fees = with_adjusted_lines(
        fees, adjustments, empty_line=empty_line, repricing=lambda fee: repricing(reader, context.definition, fee)
    )
    usage = usage_to_bill(reader, context)
    repriced = {adjustment.charge_id for adjustment in adjustments if adjustment.units is not None}
    if usage is None:
        return fees
    for charge in context.definition.charges:
        if charge.id in repriced and charge.min_amount_cents > 0:
            fees = with_new_true_up(fees, charge, usage.window, adjustments, empty_line=empty_line, id=reader.new_id())
    return fees


def repricing(reader: Reader, plan: PlanDefinition, fee: Fee) -> Callable[[Decimal], Repriced] | None:
    """A function that prices other units of the fee by its charge's model; None for fees without a charge.

    The function raises `NotFound` if the filter that the fee bills is gone.
    """
    currency = fee.currency
    if fee.charge_id is not None:
        charge = next((charge for charge in plan.charges if charge.id == fee.charge_id), None)
        charge = charge or reader.tx.get(Charge, fee.charge_id, deleted=True)
        metric = reader.tx.get(BillableMetric, fee.billable_metric_id or "", deleted=True)
        if charge is None or metric is None:
            raise LookupError(f"fee {fee.id} has lost its charge or its metric")
        priced_charge, part = charge, part_of(fee, charge, metric)

        def by_model(units: Decimal) -> Repriced:
            if part is None:
                raise NotFound("charge_filter")
            properties = parsed_properties(priced_charge, part, currency)
            usage = Usage(units=units)
            unit = priced_charge.applied_pricing_unit
            rate = None if unit is None else unit.conversion_rate
            amounts = fee_amounts(
                price(priced_charge.charge_model, properties, usage), usage, currency, conversion_rate=rate
            )
            return Repriced(
                amounts=amounts,
                amount_details=amount_details(priced_charge.charge_model, properties, usage),
                pricing_unit_details=pricing_unit_object(priced_charge, amounts),
            )

        return by_model
    if fee.fixed_charge_id is None:
        return None
    fixed = next((charge for charge in plan.fixed_charges if charge.id == fee.fixed_charge_id), None)
    fixed_charge = fixed or reader.tx.get(FixedCharge, fee.fixed_charge_id, deleted=True)
    if fixed_charge is None:
        raise LookupError(f"fee {fee.id} has lost its fixed charge")
    return partial(_fixed_repriced, fixed_charge, currency)


def _fixed_repriced(charge: FixedCharge, currency: str, units: Decimal) -> Repriced:
    properties = parse_properties(charge.charge_model, charge.properties, subunits=subunits(currency))
    amounts = fixed_charge_amounts(charge.charge_model, properties, currency, units=units)
    return Repriced(amounts=amounts, amount_details=fixed_charge_details(charge, properties, Usage(units=units)))


def empty_fee(reader: Reader, context: BillingContext, line: AdjustedFee) -> Fee | None:
    """An empty fee for a charge or fixed charge that has none in the period; None if the charge is gone."""
    window = context.boundaries.charges or context.boundaries.subscription
    line_fee = new_fee(
        id=reader.new_id(),
        invoice=context.invoice,
        subscription=context.subscription,
        item=FeeItem(type=line.fee_type, item_type="", id="", code="", name=""),
        amount_cents=0,
        precise_amount_cents=ZERO,
        units=ZERO,
        currency=context.invoice.currency,
        now=reader.now,
    )
    fee = replace(line_fee, from_datetime=window.start, to_datetime=window.end)
    charge = next((charge for charge in context.definition.charges if charge.id == line.charge_id), None)
    if charge is not None:
        metric = context.definition.metrics[charge.billable_metric_id]
        fee = replace(fee, charge_id=charge.id, charge_filter_id=line.charge_filter_id)
        part = part_of(fee, charge, metric)
        if part is None:
            return None
        return replace(
            fee,
            billable_metric_id=metric.id,
            item=charge_item(charge, metric, part.display_name),
            filters=part.filter.values if part.filter else None,
            total_aggregated_units=ZERO,
            events_count=0,
            charges_from_datetime=window.start,
            charges_to_datetime=window.end,
        )
    fixed = next((charge for charge in context.definition.fixed_charges if charge.id == line.fixed_charge_id), None)
    if fixed is None:
        return None
    return replace(
        fee,
        fixed_charge_id=fixed.id,
        item=fixed_charge_item(fixed, context.definition.add_ons[fixed.add_on_id]),
    )
