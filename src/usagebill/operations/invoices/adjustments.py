"""Adjustments of a draft's lines by hand; they survive every refresh and the finalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Annotated

from usagebill.core import limits
from usagebill.core.adjusted_fees import AdjustedFee, Repriced, adjusted, may_be_repriced
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_ledger import group_text
from usagebill.core.currencies import subunits
from usagebill.core.errors import Forbidden, Invalid, NotFound
from usagebill.core.fees import Fee, FeeItem
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ZERO
from usagebill.core.plans import Charge, FixedCharge, PlanDefinition
from usagebill.core.pricing import amount_details, parse_properties, price
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.pricing.fixed_charges import fixed_charge_amounts
from usagebill.core.subscriptions import Subscription
from usagebill.core.usage import Usage
from usagebill.inputs import ABSENT, Input, Maybe
from usagebill.queries.billing_periods import BillingContext
from usagebill.queries.invoices import visible_invoice
from usagebill.queries.plans import plan_definition
from usagebill.rating.fee_events import part_of
from usagebill.rating.fees.charges import charge_item, pricing_unit_object, true_up_fee
from usagebill.rating.fees.fixed_charges import fixed_charge_details, fixed_charge_item
from usagebill.rating.fees.usage import usage_to_bill
from usagebill.rating.usage import parsed_properties, usage_window
from usagebill.storage.conditions import asc, eq
from usagebill.work import Work

__all__ = [
    "AdjustedFeeInput",
    "check_units",
    "empty_fee",
    "line_of",
    "of_draft",
    "prepare",
    "removed",
    "repricing",
    "with_adjustments",
]


@Input
class AdjustedFeeInput:
    """A line of the draft (`fee_id`), or one that it does not have: a subscription with its charge or fixed charge.

    `unit_precise_amount` is in major units.
    """

    fee_id: Maybe[str] = ABSENT
    subscription_id: Maybe[str] = ABSENT
    charge_id: Maybe[str] = ABSENT
    charge_filter_id: Maybe[str] = ABSENT
    fixed_charge_id: Maybe[str] = ABSENT
    units: Maybe[Annotated[Decimal, limits.LINE_UNITS]] = ABSENT
    unit_precise_amount: Maybe[Annotated[Decimal, limits.LINE_UNIT_PRICE]] = ABSENT
    invoice_display_name: Maybe[str] = ABSENT


def of_draft(work: Work, invoice: Invoice) -> list[AdjustedFee]:
    """The adjustments of a draft, oldest first."""
    return work.tx.find(AdjustedFee, eq("invoice_id", invoice.id), order=[asc("created_at")])


def prepare(work: Work, invoice_id: str, given: AdjustedFeeInput) -> tuple[Invoice, AdjustedFee]:
    """Store how a line of a draft is to be; the draft is not computed anew here.

    Raises `NotFound`, `Forbidden` for anything but a draft, and `Invalid` for a line that is adjusted already, that
    follows from other lines (minimums), or that units alone cannot price.
    """
    invoice = visible_invoice(work, invoice_id)
    if invoice.status != "draft":
        raise Forbidden("feature_unavailable")
    line = line_of(work, invoice, given)
    if any(_same(line, other) for other in of_draft(work, invoice)):
        raise Invalid(adjusted_fee="already_exists")
    if line.units is not None and line.unit_precise_amount is None and line.charge_id is not None:
        charge = work.tx.get(Charge, line.charge_id, deleted=True)
        if charge is not None and not may_be_repriced(charge.charge_model, prorated=charge.prorated):
            raise Invalid(charge="invalid_charge_model")
    work.tx.insert(line)
    return invoice, line


def removed(work: Work, invoice_id: str, fee_id: str) -> Invoice:
    """Take the adjustment of a draft's line away; the draft is not computed anew here."""
    invoice = visible_invoice(work, invoice_id)
    fee = _fee(work, invoice, fee_id)
    found = next((one for one in of_draft(work, invoice) if _fits(one, fee)), None)
    if found is None or invoice.status != "draft":
        raise NotFound("adjusted_fee")
    work.tx.delete(found)
    return invoice


def _fee(work: Work, invoice: Invoice, fee_id: str) -> Fee:
    fee = work.tx.get(Fee, fee_id)
    if fee is None or fee.invoice_id != invoice.id:
        raise NotFound("fee")
    return fee


def line_of(work: Work, invoice: Invoice, given: AdjustedFeeInput) -> AdjustedFee:
    """Which line is meant, and what it is to be. Raises `NotFound` and `Invalid`."""
    check_units(given.units, given.unit_precise_amount)
    line = AdjustedFee(
        id=work.new_id(),
        organization_id=work.organization.id,
        invoice_id=invoice.id,
        subscription_id="",
        fee_type="",
        group=group_text({}),
        units=given.units if isinstance(given.units, Decimal) else None,
        unit_precise_amount=given.unit_precise_amount if isinstance(given.unit_precise_amount, Decimal) else None,
        invoice_display_name=given.invoice_display_name or None,
        created_at=work.now,
        updated_at=work.now,
    )
    if given.fee_id:
        fee = _fee(work, invoice, given.fee_id)
        if fee.fee_type == "commitment" or fee.true_up_parent_fee_id is not None:
            raise Invalid(adjusted_fee="value_is_invalid")
        return replace(
            line,
            subscription_id=fee.subscription_id or "",
            fee_type=fee.fee_type,
            charge_id=fee.charge_id,
            charge_filter_id=fee.charge_filter_id,
            fixed_charge_id=fee.fixed_charge_id,
            group=group_text(fee.grouped_by),
        )
    period = work.tx.first(
        BillingPeriod, eq("invoice_id", invoice.id), eq("subscription_id", given.subscription_id or "")
    )
    if period is None:
        raise NotFound("subscription")
    line = replace(line, subscription_id=period.subscription_id)
    plan = plan_definition(work, period.plan_id)
    if given.fixed_charge_id:
        if not any(charge.id == given.fixed_charge_id for charge in plan.fixed_charges):
            raise NotFound("fixed_charge")
        return replace(line, fee_type="fixed_charge", fixed_charge_id=given.fixed_charge_id)
    charge = next((one for one in plan.charges if one.id == given.charge_id), None)
    if charge is None:
        raise NotFound("charge")
    if given.charge_filter_id and not any(one.id == given.charge_filter_id for one in charge.filters):
        raise NotFound("charge_filter")
    return replace(line, fee_type="charge", charge_id=charge.id, charge_filter_id=given.charge_filter_id or None)


def check_units(units: Maybe[Decimal], unit_amount: Maybe[Decimal]) -> None:
    """Raises `Invalid` for units or a price below zero: what is owed to a customer is a credit note."""
    sent = (("units", units, limits.LINE_UNITS), ("unit_amount", unit_amount, limits.LINE_UNIT_PRICE))
    for field, number, limit in sent:
        if isinstance(number, Decimal) and not limit.holds(number):
            raise Invalid({field: ["value_is_out_of_range"]})


def _key(one: AdjustedFee) -> tuple[str | None, ...]:
    return (one.subscription_id, one.fee_type, one.charge_id, one.charge_filter_id, one.fixed_charge_id, one.group)


def _same(one: AdjustedFee, other: AdjustedFee) -> bool:
    return _key(one) == _key(other)


def _fits(one: AdjustedFee, fee: Fee) -> bool:
    own = (
        fee.subscription_id,
        fee.fee_type,
        fee.charge_id,
        fee.charge_filter_id,
        fee.fixed_charge_id,
        group_text(fee.grouped_by),
    )
    return fee.true_up_parent_fee_id is None and _key(one) == own


def with_adjustments(work: Work, billed: BillingContext, fees: list[Fee]) -> list[Fee]:
    """The fees of a draft's billing period as they were adjusted; lines that usage gives none of are added.

    What brings a charge up to its minimum follows from its lines as they are then.
    """
    if billed.invoice.status != "draft":
        return fees
    lines = [one for one in of_draft(work, billed.invoice) if one.subscription_id == billed.subscription.id]
    for one in lines:
        fee = next((fee for fee in fees if _fits(one, fee)), None)
        if fee is None:
            fee = empty_fee(work, billed, one)
            if fee is None:
                continue
            fees = [*fees, fee]
        changed = adjusted(
            fee,
            units=one.units,
            unit_amount=one.unit_precise_amount,
            name=one.invoice_display_name,
            reprice=repricing(work, billed.definition, fee),
        )
        fees = [changed if other.id == changed.id else other for other in fees]
    repriced = {one.charge_id for one in lines if one.units is not None}
    for charge in billed.definition.charges:
        if charge.id in repriced and charge.min_amount_cents > 0:
            fees = _with_minimum(work, billed, charge, lines, fees)
    return fees


def _with_minimum(
    work: Work, billed: BillingContext, charge: Charge, lines: Sequence[AdjustedFee], fees: Sequence[Fee]
) -> list[Fee]:
    """The fees with what the lines of `charge` now leave of its minimum, in place of what they left of it before."""
    whose = usage_to_bill(work, billed)
    if whose is None:
        return list(fees)
    former = next((fee for fee in fees if fee.charge_id == charge.id and fee.true_up_parent_fee_id), None)
    own = [fee for fee in fees if fee.charge_id == charge.id and fee.true_up_parent_fee_id is None]
    if all(fee.charge_filter_id for fee in own):
        default = replace(lines[0], fee_type="charge", charge_id=charge.id, charge_filter_id=None)
        own += filter(None, [empty_fee(work, billed, default)])
    added = true_up_fee(work, whose, charge, own)
    if added is not None and former is not None:
        # It keeps its place on the invoice.
        added = replace(added, id=former.id)
    own = [_with_true_up(fee, added) for fee in own]
    kept = [fee for fee in own if _is_something(fee) or any(_fits(one, fee) for one in lines)]
    first = next((place for place, fee in enumerate(fees) if fee.charge_id == charge.id), len(fees))
    others = [fee for fee in fees if fee.charge_id != charge.id]
    return [*others[:first], *kept, *filter(None, [added]), *others[first:]]


def _with_true_up(fee: Fee, added: Fee | None) -> Fee:
    is_parent = added is not None and added.true_up_parent_fee_id == fee.id
    return replace(fee, true_up_fee_id=added.id if added is not None and is_parent else None)


def _is_something(fee: Fee) -> bool:
    return bool(fee.units or fee.amount_cents or fee.events_count or fee.true_up_fee_id)


def repricing(work: Work, plan: PlanDefinition, fee: Fee) -> Callable[[Decimal], Repriced] | None:
    """What other units of the fee cost by its charge's own model; None for fees without a charge.

    What it gives raises `NotFound` where the filter that the fee bills is gone.
    """
    currency = fee.currency
    if fee.charge_id is not None:
        charge = next((one for one in plan.charges if one.id == fee.charge_id), None)
        charge = charge or work.tx.get(Charge, fee.charge_id, deleted=True)
        metric = work.tx.get(BillableMetric, fee.billable_metric_id or "", deleted=True)
        if charge is None or metric is None:
            raise LookupError(f"fee {fee.id} has lost its charge or its metric")
        own, part = charge, part_of(fee, charge, metric)

        def by_model(units: Decimal) -> Repriced:
            if part is None:
                raise NotFound("charge_filter")
            properties = parsed_properties(own, part, currency)
            usage = Usage(units=units)
            unit = own.applied_pricing_unit
            rate = None if unit is None else unit.conversion_rate
            amounts = fee_amounts(price(own.charge_model, properties, usage), usage, currency, conversion_rate=rate)
            return Repriced(
                amounts=amounts,
                amount_details=amount_details(own.charge_model, properties, usage),
                pricing_unit_details=pricing_unit_object(own, amounts),
            )

        return by_model
    if fee.fixed_charge_id is None:
        return None
    fixed = next((one for one in plan.fixed_charges if one.id == fee.fixed_charge_id), None)
    found = fixed or work.tx.get(FixedCharge, fee.fixed_charge_id, deleted=True)
    if found is None:
        raise LookupError(f"fee {fee.id} has lost its fixed charge")
    return partial(_fixed_repriced, found, currency)


def _fixed_repriced(charge: FixedCharge, currency: str, units: Decimal) -> Repriced:
    properties = parse_properties(charge.charge_model, charge.properties, subunits=subunits(currency))
    amounts = fixed_charge_amounts(charge.charge_model, properties, currency, units=units)
    return Repriced(amounts=amounts, amount_details=fixed_charge_details(charge, properties, Usage(units=units)))


def empty_fee(work: Work, billed: BillingContext, line: AdjustedFee) -> Fee | None:
    """A fee of nothing for a charge or fixed charge that the period has no fee of; None where it is gone."""
    subscription: Subscription = billed.subscription
    window = billed.boundaries.charges or billed.boundaries.subscription
    span = usage_window(window, billed.cycle.tz)
    fee = Fee(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=billed.invoice.customer_id,
        invoice_id=billed.invoice.id,
        subscription_id=subscription.id,
        external_subscription_id=subscription.external_id,
        fee_type=line.fee_type,
        item=FeeItem(type=line.fee_type, item_type="", id="", code="", name=""),
        amount_cents=0,
        precise_amount_cents=ZERO,
        currency=billed.invoice.currency,
        units=ZERO,
        from_datetime=span.start,
        to_datetime=span.end,
        created_at=billed.invoice.created_at,
        updated_at=work.now,
    )
    charge = next((one for one in billed.definition.charges if one.id == line.charge_id), None)
    if charge is not None:
        metric = billed.definition.metrics[charge.billable_metric_id]
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
            charges_from_datetime=span.start,
            charges_to_datetime=span.end,
        )
    fixed = next((one for one in billed.definition.fixed_charges if one.id == line.fixed_charge_id), None)
    if fixed is None:
        return None
    return replace(
        fee,
        fixed_charge_id=fixed.id,
        item=fixed_charge_item(fixed, billed.definition.add_ons[fixed.add_on_id]),
    )
