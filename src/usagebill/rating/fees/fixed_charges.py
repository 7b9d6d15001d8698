"""Fixed charge fees: units of an add-on for a closed period, for one that opens, or added in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from usagebill.core.add_ons import AddOn
from usagebill.core.contracts import Contract
from usagebill.core.copies import replace
from usagebill.core.currencies import subunits
from usagebill.core.days import days_billed, local_date
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.fixed_charges import (
    Term,
    days_left,
    fixed_charge_is_due,
    terms_in,
    units_in,
)
from usagebill.core.invoices.life_cycle import BILLED, IN_ARREARS
from usagebill.core.invoices.opening import new_fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import decimal_text, divide, multiply, round_to, total
from usagebill.core.periods import Window, advance_window, is_same_period
from usagebill.core.plans import FixedCharge, FixedChargeUnits
from usagebill.core.pricing import Properties, amount_details, parse_properties
from usagebill.core.pricing.fees import FeeAmounts
from usagebill.core.pricing.fixed_charges import (
    fixed_charge_amounts,
    fixed_charge_usage,
    units_change_amounts,
)
from usagebill.core.usage import Usage
from usagebill.queries.billing_periods import BillingContext
from usagebill.queries.fees import fees_before
from usagebill.rating.fees.paid_before import less_what_older_plans_were_paid
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import at_most, eq, related, within


def fixed_charge_fees(reader: Reader, context: BillingContext) -> list[Fee]:
    """The fees of the fixed charges that this billing period bills; empty ones are left out."""
    window = context.boundaries.fixed_charges
    if window is None or window.start > window.end:
        return []
    fees: list[Fee] = []
    for charge in context.definition.fixed_charges:
        fee = _fee(reader, context, charge, window)
        if fee is not None:
            fees.append(less_what_older_plans_were_paid(reader, context, fee, fees) if charge.prorated else fee)
    return fees


def _fee(reader: Reader, context: BillingContext, charge: FixedCharge, closed: Window) -> Fee | None:
    cycle = context.cycle
    window = advance_window(cycle, context.boundaries.timestamp) if charge.pay_in_advance else closed
    due = fixed_charge_is_due(
        pay_in_advance=charge.pay_in_advance,
        ended=context.ended,
        closes=IN_ARREARS[context.period.invoicing_reason].fixed_charges,
        billed_before=charge.pay_in_advance
        and any(_is_something(fee) for fee in _fees_for(reader, context, charge, window)),
        days=days_billed(closed.counted_from(closed.start), closed.end, cycle.tz, upgraded=context.ended_by_upgrade),
        ended_after_invoice=context.ended_after_invoice,
    )
    if not due:
        return None
    time_line = _time_line(reader, context, charge)
    usage = units_in(time_line, window, cycle.tz, prorated=charge.prorated, upgraded=context.ended_by_upgrade)
    properties = _properties(context, charge)
    amounts = fixed_charge_amounts(
        charge.charge_model,
        properties,
        context.plan.amount_currency,
        units=usage.units,
        full_units=usage.full_units,
    )
    fee = _line(reader, context, charge, window, amounts, fixed_charge_details(charge, properties, usage))
    if usage.full_units is not None:
        terms = terms_in(time_line, window, cycle.tz, upgraded=context.ended_by_upgrade)
        fee = replace(fee, basis=_basis(terms, usage, window.duration))
    return fee if _is_something(fee) else None


def price_of_days(contract: Contract, charge: FixedCharge, at: datetime, days: int) -> int:
    """What a prorated fixed charge of a plan that starts at `at` costs for that many days, in cents."""
    cycle = contract.cycle()
    period = cycle.period(local_date(at, cycle.tz), cycle.fixed_charges_interval)
    units = contract.subscription.fixed_charge_units.get(charge.id, charge.units)
    currency = contract.plan.amount_currency
    amounts = fixed_charge_amounts(
        charge.charge_model,
        parse_properties(charge.charge_model, charge.properties, subunits=subunits(currency)),
        currency,
        units=round_to(divide(multiply(units, Decimal(days)), Decimal(period.days)), 6),
        full_units=units,
    )
    return amounts.amount_cents


def _basis(terms: Sequence[Term], usage: Usage, period_days: int) -> dict[str, object]:
    """The units in force with their days, and their prorated sum."""
    listed = [
        {"units": decimal_text(term.units), "days": term.days, "prorated_units": decimal_text(term.prorated)}
        for term in terms
    ]
    return {"terms": listed, "period_days": period_days, "prorated_units": decimal_text(usage.units)}


def _is_something(fee: Fee) -> bool:
    return not fee.units.is_zero() or fee.amount_cents != 0


def added_units_fee(reader: Reader, context: BillingContext, charge: FixedCharge, changed_at: datetime) -> Fee:
    """The fee for units that an immediate change adds to a fixed charge paid in advance; empty if it adds none.

    Units already billed for the same window are neither billed again nor refunded.
    """
    cycle = context.cycle
    window = advance_window(cycle, changed_at)
    usage = units_in(_time_line(reader, context, charge), window, cycle.tz, prorated=charge.prorated)
    paid_units = total(fee.units for fee in _fees_for(reader, context, charge, window))
    days = days_left(changed_at, window, cycle.tz, prorated=charge.prorated)
    amounts = units_change_amounts(
        charge.charge_model,
        _properties(context, charge),
        context.plan.amount_currency,
        new_units=usage.shown_units,
        paid_units=paid_units,
        days=days,
        period_days=window.duration,
    )
    basis = {
        "new_units": decimal_text(usage.shown_units),
        "paid_units": decimal_text(paid_units),
        "days": days,
        "period_days": window.duration,
    }
    return replace(_line(reader, context, charge, window, amounts, {}), basis=basis)


def _family(charge: FixedCharge) -> list[str]:
    """The fixed charge and the one that it overrides."""
    return [charge.id, charge.parent_id] if charge.parent_id else [charge.id]


def _time_line(reader: Reader, context: BillingContext, charge: FixedCharge) -> list[FixedChargeUnits]:
    """The units decided so far; in advance only until the invoice was created, as later additions are billed by
    themselves."""
    invoice = context.invoice
    decided = reader.tx.find(
        FixedChargeUnits,
        eq("subscription_id", context.subscription.id),
        within("fixed_charge_id", _family(charge)),
        at_most("created_at", max(reader.now, invoice.created_at)),
    )
    if not charge.pay_in_advance:
        return decided
    return [entry for entry in decided if (entry.created_at, entry.id) < (invoice.created_at, invoice.id)]


def _fees_for(reader: Reader, context: BillingContext, charge: FixedCharge, window: Window) -> list[Fee]:
    """Fees of the fixed charge for the same period, on earlier invoices that count."""
    fees = fees_before(
        reader,
        context,
        within("fixed_charge_id", _family(charge)),
        related(Invoice, "invoice_id", within("status", BILLED)),
    )
    return [
        fee
        for fee in fees
        if fee.from_datetime is not None
        and fee.to_datetime is not None
        and is_same_period(context.cycle, window, fee.from_datetime, fee.to_datetime)
    ]


def _properties(context: BillingContext, charge: FixedCharge) -> Properties:
    return parse_properties(charge.charge_model, charge.properties, subunits=subunits(context.plan.amount_currency))


def fixed_charge_details(charge: FixedCharge, properties: Properties, usage: Usage) -> dict[str, object]:
    """The details of how the charge model computed the price, as the fee keeps them."""
    priced = fixed_charge_usage(charge.charge_model, units=usage.units, full_units=usage.full_units)
    return amount_details(charge.charge_model, properties, priced)


def fixed_charge_item(charge: FixedCharge, add_on: AddOn) -> FeeItem:
    """The item that a fee of the fixed charge bills."""
    return FeeItem(
        type=FeeType.FIXED_CHARGE,
        item_type="AddOn",
        id=add_on.id,
        code=add_on.code,
        name=add_on.name,
        description=add_on.description,
        invoice_display_name=charge.invoice_display_name or add_on.invoice_display_name or add_on.name,
    )


def _line(
    reader: Reader,
    context: BillingContext,
    charge: FixedCharge,
    window: Window,
    amounts: FeeAmounts,
    details: dict[str, object],
) -> Fee:
    invoice, subscription = context.invoice, context.subscription
    line = new_fee(
        id=reader.new_id(),
        invoice=invoice,
        subscription=subscription,
        item=fixed_charge_item(charge, context.definition.add_ons[charge.add_on_id]),
        amount_cents=amounts.amount_cents,
        precise_amount_cents=amounts.precise_amount_cents,
        units=amounts.units,
        currency=invoice.currency,
        now=reader.now,
    )
    return replace(
        line,
        fixed_charge_id=charge.id,
        add_on_id=charge.add_on_id,
        unit_amount_cents=amounts.unit_amount_cents,
        precise_unit_amount=amounts.precise_unit_amount,
        pay_in_advance=charge.pay_in_advance,
        from_datetime=window.start,
        to_datetime=window.end,
        amount_details=details,
    )
