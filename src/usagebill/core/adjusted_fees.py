"""Adjusted fees: lines edited by hand, on a draft or when a voided invoice is regenerated.

An adjustment changes the units (priced by the charge's own model or at another unit price) or the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from usagebill.core.aggregation import Window
from usagebill.core.charge_ledger import group_text
from usagebill.core.charge_lines import true_up_fee
from usagebill.core.currencies import cents_from_major, major_from_cents
from usagebill.core.fees import Fee, FeeType
from usagebill.core.numbers import multiply, round_cents, round_to, truncate_cents
from usagebill.core.plans import Charge
from usagebill.core.pricing import MODELS
from usagebill.core.pricing.fees import FeeAmounts

_PRECISE_DECIMALS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedFee:
    """The adjustment of a draft's line. `group` is the text of the line's group (`charge_ledger.group_text`).

    `unit_precise_amount` is in major units of the currency. Without `units` only the name changes.
    """

    id: str
    organization_id: str
    invoice_id: str
    subscription_id: str
    fee_type: FeeType
    group: str
    created_at: datetime
    updated_at: datetime
    charge_id: str | None = None
    charge_filter_id: str | None = None
    fixed_charge_id: str | None = None
    units: Decimal | None = None
    unit_precise_amount: Decimal | None = None
    invoice_display_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repriced:
    """The price of a line's new units, with the details that explain it."""

    amounts: FeeAmounts
    amount_details: Mapping[str, object]
    pricing_unit_details: Mapping[str, object] | None = None


def may_be_repriced(charge_model: str, *, prorated: bool) -> bool:
    """Whether a charge can be repriced from units alone: not if its price depends on single events or on days."""
    model = MODELS[charge_model]
    return model.by_quantity and not (model.prorated_by_step and prorated)


def adjusted(
    fee: Fee,
    *,
    units: Decimal | None,
    unit_amount: Decimal | None,
    name: str | None,
    reprice: Callable[[Decimal], Repriced] | None,
) -> Fee:
    """The fee with new `units`, at its own price or at `unit_amount` (major units), and with a new name, if one is
    given.

    `reprice` is the charge's model; without one (subscription fees, add-ons) units multiply the fee's whole amount.
    """
    if name:
        fee = replace(fee, item=replace(fee.item, invoice_display_name=name))
    if units is None:
        return fee
    if unit_amount is not None:
        return _at_price(fee, units, cents_from_major(unit_amount, fee.currency))
    if reprice is None:
        return _at_price(fee, units, Decimal(fee.amount_cents))
    repriced = reprice(units)
    amounts = repriced.amounts
    return replace(
        _without_details(fee),
        units=amounts.units,
        total_aggregated_units=amounts.total_aggregated_units if fee.fee_type == FeeType.CHARGE else None,
        amount_cents=amounts.amount_cents,
        precise_amount_cents=amounts.precise_amount_cents,
        unit_amount_cents=amounts.unit_amount_cents,
        precise_unit_amount=amounts.precise_unit_amount,
        amount_details=repriced.amount_details,
        pricing_unit_details=repriced.pricing_unit_details,
    )


def _without_details(fee: Fee) -> Fee:
    """The fee without the details of its previous amount."""
    return replace(
        fee,
        events_count=0 if fee.fee_type == FeeType.CHARGE else None,
        amount_details={},
        pricing_unit_details=None,
        presentation_breakdowns=(),
        basis={},
    )


def _at_price(fee: Fee, units: Decimal, unit_cents: Decimal) -> Fee:
    precise = multiply(units, unit_cents)
    return replace(
        _without_details(fee),
        units=units,
        total_aggregated_units=units if fee.fee_type == FeeType.CHARGE else None,
        amount_cents=round_cents(precise),
        precise_amount_cents=round_to(precise, _PRECISE_DECIMALS),
        unit_amount_cents=truncate_cents(unit_cents),
        precise_unit_amount=round_to(major_from_cents(unit_cents, fee.currency), _PRECISE_DECIMALS),
    )


def adjusted_line(adjustment: AdjustedFee) -> tuple[str | None, ...]:
    """The line of a draft that an adjustment belongs to."""
    return (
        adjustment.subscription_id,
        adjustment.fee_type,
        adjustment.charge_id,
        adjustment.charge_filter_id,
        adjustment.fixed_charge_id,
        adjustment.group,
    )


def fits(adjustment: AdjustedFee, fee: Fee) -> bool:
    """Whether the adjustment belongs to this line. True-ups to a minimum are never adjusted."""
    line = (
        fee.subscription_id,
        fee.fee_type,
        fee.charge_id,
        fee.charge_filter_id,
        fee.fixed_charge_id,
        group_text(fee.grouped_by),
    )
    return fee.true_up_parent_fee_id is None and adjusted_line(adjustment) == line


def with_adjusted_lines(
    fees: Sequence[Fee],
    adjustments: Sequence[AdjustedFee],
    *,
    empty_line: Callable[[AdjustedFee], Fee | None],
    repricing: Callable[[Fee], Callable[[Decimal], Repriced] | None],
) -> list[Fee]:
    """The lines with their adjustments applied in place; adjusted lines that do not exist yet come last.

    `empty_line` returns the empty line from which an adjustment without a line starts, None if its charge is gone.
    `repricing` returns the function that prices a line's new units.
    """
    lines = list(fees)
    for adjustment in adjustments:
        fee = next((line for line in lines if fits(adjustment, line)), None)
        if fee is None:
            fee = empty_line(adjustment)
            if fee is None:
                continue
            lines.append(fee)
        changed = adjusted(
            fee,
            units=adjustment.units,
            unit_amount=adjustment.unit_precise_amount,
            name=adjustment.invoice_display_name,
            reprice=repricing(fee),
        )
        lines = [changed if line.id == changed.id else line for line in lines]
    return lines


def with_new_true_up(
    fees: Sequence[Fee],
    charge: Charge,
    window: Window,
    adjustments: Sequence[AdjustedFee],
    *,
    empty_line: Callable[[AdjustedFee], Fee | None],
    id: str,
) -> list[Fee]:
    """The lines with the true-up of `charge` to its minimum recomputed.

    An existing true-up keeps its id; `id` is for a new one. Empty lines that were adjusted to be empty stay.
    """
    former = next((fee for fee in fees if fee.charge_id == charge.id and fee.true_up_parent_fee_id), None)
    charge_fees = [fee for fee in fees if fee.charge_id == charge.id and fee.true_up_parent_fee_id is None]
    if all(fee.charge_filter_id for fee in charge_fees):
        default = replace(adjustments[0], fee_type=FeeType.CHARGE, charge_id=charge.id, charge_filter_id=None)
        charge_fees += filter(None, [empty_line(default)])
    added = true_up_fee(charge, window, charge_fees, id=id if former is None else former.id)
    parent_id = None if added is None else added.true_up_parent_fee_id
    charge_fees = [
        replace(fee, true_up_fee_id=added.id if added is not None and fee.id == parent_id else None)
        for fee in charge_fees
    ]
    kept = [
        fee for fee in charge_fees if _is_something(fee) or any(fits(adjustment, fee) for adjustment in adjustments)
    ]
    first = next((place for place, fee in enumerate(fees) if fee.charge_id == charge.id), len(fees))
    other_lines = [fee for fee in fees if fee.charge_id != charge.id]
    return [*other_lines[:first], *kept, *filter(None, [added]), *other_lines[first:]]


def _is_something(fee: Fee) -> bool:
    return bool(fee.units or fee.amount_cents or fee.events_count or fee.true_up_fee_id)
