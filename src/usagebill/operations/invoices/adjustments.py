"""Manual adjustments of a draft's lines, which survive refreshes and the finalization."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Annotated

from usagebill.core import limits
from usagebill.core.adjusted_fees import AdjustedFee, adjusted_line, fits, may_be_repriced
from usagebill.core.charge_ledger import group_text
from usagebill.core.errors import Forbidden, Invalid, NotFound
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.plans import Charge
from usagebill.queries.billing_periods import billing_context
from usagebill.queries.invoices import visible_invoice
from usagebill.rating.adjustments import of_draft
from usagebill.requests.inputs import ABSENT, Input, Maybe, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq


@Input
class AdjustedFeeInput:
    """A line of the draft (`fee_id`), or a new one: a subscription with its charge or fixed charge.

    `unit_precise_amount` is in major units.
    """

    fee_id: Maybe[str] = ABSENT
    subscription_id: Maybe[str] = ABSENT
    charge_id: Maybe[str] = ABSENT
    charge_filter_id: Maybe[str] = ABSENT
    fixed_charge_id: Maybe[str] = ABSENT
    units: Maybe[Annotated[Decimal, limits.LINE_UNITS]] = ABSENT
    unit_precise_amount: Maybe[Annotated[Decimal, limits.LINE_UNIT_PRICE]] = described(
        "The price of one unit.", unit="major units", example="1.25"
    )
    invoice_display_name: Maybe[str] = ABSENT


def prepare(work: Work, invoice_id: str, request: AdjustedFeeInput) -> tuple[Invoice, AdjustedFee]:
    """Store the adjustment of a draft's line; the draft is not recomputed here.

    Raises `NotFound`, `Forbidden` for anything but a draft, and `Invalid` for a line that is adjusted already, that
    follows from other lines (minimums), or that units alone cannot price.
    """
    invoice = visible_invoice(work, invoice_id)
    if invoice.status != InvoiceStatus.DRAFT:
        raise Forbidden("feature_unavailable")
    line = line_of(work, invoice, request)
    if any(_same(line, other) for other in of_draft(work, invoice)):
        raise Invalid(adjusted_fee="already_exists")
    if line.units is not None and line.unit_precise_amount is None and line.charge_id is not None:
        charge = work.tx.get(Charge, line.charge_id, deleted=True)
        if charge is not None and not may_be_repriced(charge.charge_model, prorated=charge.prorated):
            raise Invalid(charge="invalid_charge_model")
    work.tx.insert(line)
    return invoice, line


def removed(work: Work, invoice_id: str, fee_id: str) -> Invoice:
    """Remove the adjustment of a draft's line; the draft is not recomputed here."""
    invoice = visible_invoice(work, invoice_id)
    fee = _fee(work, invoice, fee_id)
    adjustment = next((adjusted for adjusted in of_draft(work, invoice) if fits(adjusted, fee)), None)
    if adjustment is None or invoice.status != InvoiceStatus.DRAFT:
        raise NotFound("adjusted_fee", fee_id)
    work.tx.delete(adjustment)
    return invoice


def _fee(reader: Reader, invoice: Invoice, fee_id: str) -> Fee:
    fee = reader.tx.get(Fee, fee_id)
    if fee is None or fee.invoice_id != invoice.id:
        raise NotFound("fee", fee_id)
    return fee


def line_of(reader: Reader, invoice: Invoice, request: AdjustedFeeInput) -> AdjustedFee:
    """The requested line of the draft, with its adjustment. Raises `NotFound` and `Invalid`."""
    check_units(request.units, request.unit_precise_amount)
    if not request.fee_id:
        period = reader.tx.first(
            BillingPeriod, eq("invoice_id", invoice.id), eq("subscription_id", request.subscription_id or "")
        )
        if period is None:
            raise NotFound("subscription", request.subscription_id)
        return line_in_period(reader, invoice, period, request)
    fee = _fee(reader, invoice, request.fee_id)
    line = _adjustment(reader, invoice, fee.subscription_id or "", fee.fee_type, request)
    if fee.fee_type == FeeType.COMMITMENT or fee.true_up_parent_fee_id is not None or _is_of_last_day(reader, fee):
        raise Invalid(adjusted_fee="value_is_invalid")
    return replace(
        line,
        charge_id=fee.charge_id,
        charge_filter_id=fee.charge_filter_id,
        fixed_charge_id=fee.fixed_charge_id,
        group=group_text(fee.grouped_by),
    )


def _is_of_last_day(reader: Reader, fee: Fee) -> bool:
    """Whether the line bills what was used on a last day (`BillingPeriod.last_day_from`). The line of the closed period
    is of the same charge, filter and group, and an adjustment names no more than these.
    """
    period = reader.tx.first(
        BillingPeriod, eq("invoice_id", fee.invoice_id), eq("subscription_id", fee.subscription_id)
    )
    return period is not None and period.last_day_from is not None and fee.charges_from_datetime == period.last_day_from


def line_in_period(reader: Reader, invoice: Invoice, period: BillingPeriod, request: AdjustedFeeInput) -> AdjustedFee:
    """The line of a charge or fixed charge, named in `request`, of the subscription that `period` bills.

    Raises `NotFound`.
    """
    plan = billing_context(reader, invoice, period).definition
    if request.fixed_charge_id:
        if not any(charge.id == request.fixed_charge_id for charge in plan.fixed_charges):
            raise NotFound("fixed_charge", request.fixed_charge_id)
        line = _adjustment(reader, invoice, period.subscription_id, FeeType.FIXED_CHARGE, request)
        return replace(line, fixed_charge_id=request.fixed_charge_id)
    charge = next((charge for charge in plan.charges if charge.id == request.charge_id), None)
    if charge is None:
        raise NotFound("charge", request.charge_id)
    if request.charge_filter_id and not any(
        charge_filter.id == request.charge_filter_id for charge_filter in charge.filters
    ):
        raise NotFound("charge_filter", request.charge_filter_id)
    line = _adjustment(reader, invoice, period.subscription_id, FeeType.CHARGE, request)
    return replace(line, charge_id=charge.id, charge_filter_id=request.charge_filter_id or None)


def _adjustment(
    reader: Reader, invoice: Invoice, subscription_id: str, fee_type: FeeType, request: AdjustedFeeInput
) -> AdjustedFee:
    return AdjustedFee(
        id=reader.new_id(),
        organization_id=reader.organization.id,
        invoice_id=invoice.id,
        subscription_id=subscription_id,
        fee_type=fee_type,
        group=group_text({}),
        units=request.units if isinstance(request.units, Decimal) else None,
        unit_precise_amount=request.unit_precise_amount if isinstance(request.unit_precise_amount, Decimal) else None,
        invoice_display_name=request.invoice_display_name or None,
        created_at=reader.now,
        updated_at=reader.now,
    )


def check_units(units: Maybe[Decimal], unit_amount: Maybe[Decimal]) -> None:
    """Raises `Invalid` for units or a price below zero: amounts owed to a customer take a credit note."""
    sent = (("units", units, limits.LINE_UNITS), ("unit_amount", unit_amount, limits.LINE_UNIT_PRICE))
    for field, number, limit in sent:
        if isinstance(number, Decimal) and not limit.holds(number):
            raise Invalid({field: ["value_is_out_of_range"]})


def _same(left: AdjustedFee, other: AdjustedFee) -> bool:
    return adjusted_line(left) == adjusted_line(other)
