"""Adjusted fees: lines that a person has changed, on a draft or when a voided invoice is made anew.

An adjustment gives other units (priced by the charge's own model), other units at another unit price, or another name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from usagebill.core.currencies import cents_from_major, major_from_cents
from usagebill.core.fees import Fee
from usagebill.core.numbers import multiply, round_cents, round_to, truncate_cents
from usagebill.core.pricing.fees import FeeAmounts

__all__ = ["AdjustedFee", "Repriced", "adjusted", "may_be_repriced"]

_PRECISE_DECIMALS = 15
_BY_EVENT = ("percentage", "dynamic", "custom")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedFee:
    """What a line of a draft is to be. `group` is the text of the line's group (`charge_ledger.group_text`).

    `unit_precise_amount` is in major units of the currency. Without `units` only the name changes.
    """

    id: str
    organization_id: str
    invoice_id: str
    subscription_id: str
    fee_type: str
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
    """What other units of a line cost, with what the line then keeps of how that came about."""

    amounts: FeeAmounts
    amount_details: Mapping[str, object]
    pricing_unit_details: Mapping[str, object] | None = None


def may_be_repriced(charge_model: str, *, prorated: bool) -> bool:
    """Whether other units alone say what a charge costs: not where single events or days decide."""
    return charge_model not in _BY_EVENT and not (charge_model == "graduated" and prorated)


def adjusted(
    fee: Fee,
    *,
    units: Decimal | None,
    unit_amount: Decimal | None,
    name: str | None,
    reprice: Callable[[Decimal], Repriced] | None,
) -> Fee:
    """The fee with other units, at its own price or at `unit_amount` (major units), and with another name if given.

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
        _anew(fee),
        units=amounts.units,
        total_aggregated_units=amounts.total_aggregated_units if fee.fee_type == "charge" else None,
        amount_cents=amounts.amount_cents,
        precise_amount_cents=amounts.precise_amount_cents,
        unit_amount_cents=amounts.unit_amount_cents,
        precise_unit_amount=amounts.precise_unit_amount,
        amount_details=repriced.amount_details,
        pricing_unit_details=repriced.pricing_unit_details,
    )


def _anew(fee: Fee) -> Fee:
    """The fee without what told how its former amount came about."""
    return replace(
        fee,
        events_count=0 if fee.fee_type == "charge" else None,
        amount_details={},
        pricing_unit_details=None,
        presentation_breakdowns=(),
        basis={},
    )


def _at_price(fee: Fee, units: Decimal, unit_cents: Decimal) -> Fee:
    precise = multiply(units, unit_cents)
    return replace(
        _anew(fee),
        units=units,
        total_aggregated_units=units if fee.fee_type == "charge" else None,
        amount_cents=round_cents(precise),
        precise_amount_cents=round_to(precise, _PRECISE_DECIMALS),
        unit_amount_cents=truncate_cents(unit_cents),
        precise_unit_amount=round_to(major_from_cents(unit_cents, fee.currency), _PRECISE_DECIMALS),
    )
