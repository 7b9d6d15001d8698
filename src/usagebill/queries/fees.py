"""Fees by id, by invoice, and before another invoice."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from usagebill.core.errors import NotFound
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.plans import Charge, FixedCharge, PlanDefinition
from usagebill.queries.billing_periods import BillingContext
from usagebill.queries.invoices import place_of
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import definition_for, find_subscription
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, asc, eq


def find_fee(reader: Reader, fee_id: str) -> Fee | None:
    """The fee with this id, deleted or not."""
    return reader.tx.get(Fee, fee_id, deleted=True)


def fees_of_invoice(reader: Reader, invoice: Invoice) -> list[Fee]:
    """The fees of the invoice, oldest first."""
    return reader.tx.find(Fee, eq("invoice_id", invoice.id), order=[asc("created_at")])


def fee_by_id(reader: Reader, fee_id: str) -> Fee:
    """The fee with this id, on an invoice or on none. Raises `NotFound`."""
    fee = reader.tx.get(Fee, fee_id)
    if fee is None:
        raise NotFound("fee", fee_id)
    return fee


def definition_billed(reader: Reader, plan_id: str, fee: Fee) -> PlanDefinition:
    """The plan with the prices that the fee was billed by; `reader` is of the fee's price version."""
    start, of_usage = fee.charges_from_datetime or fee.from_datetime or fee.created_at, fee.fee_type == FeeType.CHARGE
    # A renewal of recurring usage names the period that closed, and is billed for the one that begins.
    renewed = fee.from_datetime and fee.charges_to_datetime and fee.from_datetime > fee.charges_to_datetime
    start = fee.from_datetime if fee.from_datetime and (renewed or not of_usage) else start
    subscription = find_subscription(reader, fee.subscription_id or "")
    definition = plan_definition(reader, plan_id)
    if subscription is None or definition.plan.has_one_price:
        return definition
    billed = eq("subscription_id", subscription.id), eq("invoice_id", fee.invoice_id or "")
    period = reader.tx.first(BillingPeriod, *billed)
    tz = None if period is None else ZoneInfo(period.timezone)
    return definition_for(reader, subscription, start, plan_id=plan_id, tz=tz)


def charge_billed(reader: Reader, fee: Fee) -> Charge | None:
    """The usage charge of the fee, with the prices that it was billed by; `reader` is of the fee's price version."""
    charge = None if fee.charge_id is None else reader.tx.get(Charge, fee.charge_id, deleted=True)
    if charge is None:
        return None
    definition = definition_billed(reader, charge.plan_id, fee)
    return next((priced for priced in definition.charges if priced.id == charge.id), charge)


def fixed_charge_billed(reader: Reader, fee: Fee) -> FixedCharge | None:
    """The fixed charge of the fee, with the prices that it was billed by; `reader` is of the fee's price version."""
    charge = None if fee.fixed_charge_id is None else reader.tx.get(FixedCharge, fee.fixed_charge_id, deleted=True)
    if charge is None:
        return None
    definition = definition_billed(reader, charge.plan_id, fee)
    return next((priced for priced in definition.fixed_charges if priced.id == charge.id), charge)


def fees_before(reader: Reader, context: BillingContext, *conditions: Condition) -> list[Fee]:
    """The subscription's fees that were made before the invoice of `context`.

    Those of an invoice that was made again after it count as those of the voided one: they were billed before.
    """
    fees = reader.tx.find(Fee, eq("subscription_id", context.subscription.id), *conditions)
    return [
        fee
        for fee in fees
        if fee.invoice_id != context.invoice.id
        and (context.follows(fee.created_at, fee.invoice_id) or _took_place(reader, context, fee))
    ]


def _took_place(reader: Reader, context: BillingContext, fee: Fee) -> bool:
    """Whether the fee is on a regenerated invoice whose place is before that of the invoice of `context`."""
    invoice = None if fee.original_fee_id is None or fee.invoice_id is None else reader.tx.get(Invoice, fee.invoice_id)
    return invoice is not None and context.follows(*place_of(reader, invoice))
