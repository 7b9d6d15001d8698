"""From a price to the amounts of a fee: cents of the plan's currency, of its pricing unit, and the figures shown with
them.

Arrears fees round the whole amount once, half away from zero at the currency's minor unit, and cut the unit amount.
Charges with a pricing unit are rounded in the unit's cents first; the plan's currency follows from those cents.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from usagebill.core.currencies import cents_from_major, exponent
from usagebill.core.numbers import ONE, ZERO, divide, multiply, round_cents, round_to, subtract, truncate_cents
from usagebill.core.pricing.model import NOTHING, Price
from usagebill.core.usage import Usage

_STORED_DECIMALS = 15
_HUNDRED = Decimal(100)


@dataclass(frozen=True, slots=True, kw_only=True)
class PricingUnitAmounts:
    """A fee's amounts in its charge's pricing unit: `*_cents` in hundredths of it, the unit amount in whole ones.

    `conversion_rate` is the plan's currency for one pricing unit.
    """

    amount_cents: int
    precise_amount_cents: Decimal
    unit_amount_cents: int
    precise_unit_amount: Decimal
    conversion_rate: Decimal


class FeeAmounts(NamedTuple):
    """The numbers of a fee. `*_cents` are in the currency's smallest unit, the precise ones with 15 decimals.

    `precise_unit_amount` is in major units; `units` are those shown, never negative.
    """

    amount_cents: int
    precise_amount_cents: Decimal
    unit_amount_cents: int
    precise_unit_amount: Decimal
    pricing_unit: PricingUnitAmounts | None
    units: Decimal
    total_aggregated_units: Decimal
    events_count: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing was used and nothing is due, so that an invoice leaves the fee out."""
        return self.units.is_zero() and self.amount_cents == 0 and self.events_count == 0


# The first five of `FeeAmounts`, which depend on the price alone, before the units are added.
_Money = tuple[int, Decimal, int, Decimal, PricingUnitAmounts | None]


def fee_amounts(
    price: Price,
    usage: Usage,
    currency: str,
    *,
    conversion_rate: Decimal | None = None,
    shown_units: Decimal | None = None,
) -> FeeAmounts:
    """The amounts of the fee for `usage` at `price`, in arrears or as current usage.

    `currency` is the plan's; `conversion_rate` is set if the charge is priced in a pricing unit. `shown_units` are the
    units of current usage if they differ from the priced ones (pay in advance, prorated). A negative quantity or amount
    gives an empty fee, and no units are shown below zero; amount details keep the computed values.
    """
    units = usage.shown_units if shown_units is None else shown_units
    aggregated = units if usage.total_aggregated_units is None else usage.total_aggregated_units
    if usage.units < ZERO or price.amount < ZERO:
        price, units = NOTHING, ZERO
    money = _money(price.amount, price.unit_amount, currency, conversion_rate)
    units = units if units >= ZERO else ZERO
    return FeeAmounts(*money, units, aggregated if aggregated >= ZERO else ZERO, usage.events_count)


def advance_fee_amounts(
    amount: Decimal, units: Decimal, currency: str, *, conversion_rate: Decimal | None = None
) -> FeeAmounts:
    """The amounts of the fee for one event paid in advance: `amount` in major units of the charge's currency or pricing
    unit.

    The unit amount is the rounded amount shared by the fee's units.
    """
    decimals = exponent(currency) if conversion_rate is None else 2
    rounded = round_to(amount, decimals)
    unit_amount = ZERO if rounded.is_zero() or units.is_zero() else divide(rounded, units)
    money = _money(amount, unit_amount, currency, conversion_rate)
    return FeeAmounts(*money, units, units, 1)


def _money(amount: Decimal, unit_amount: Decimal, currency: str, conversion_rate: Decimal | None) -> _Money:
    if conversion_rate is None:
        return _in_currency(amount, unit_amount, currency, None)
    return _converted(
        PricingUnitAmounts(
            amount_cents=round_cents(multiply(amount, _HUNDRED)),
            precise_amount_cents=round_to(multiply(amount, _HUNDRED), _STORED_DECIMALS),
            unit_amount_cents=truncate_cents(multiply(unit_amount, _HUNDRED)),
            precise_unit_amount=round_to(unit_amount, _STORED_DECIMALS),
            conversion_rate=conversion_rate,
        ),
        currency,
    )


def _converted(unit: PricingUnitAmounts, currency: str) -> _Money:
    """The plan's currency for whole cents of a pricing unit: rounded amounts from rounded ones, cut amounts from cut
    ones.
    """
    amount = divide(multiply(Decimal(unit.amount_cents), unit.conversion_rate), _HUNDRED)
    unit_amount = divide(multiply(Decimal(unit.unit_amount_cents), unit.conversion_rate), _HUNDRED)
    return _in_currency(amount, unit_amount, currency, unit)


def _in_currency(
    amount: Decimal, unit_amount: Decimal, currency: str, pricing_unit: PricingUnitAmounts | None
) -> _Money:
    cents = cents_from_major(amount, currency)
    return (
        round_cents(cents),
        round_to(cents, _STORED_DECIMALS),
        truncate_cents(cents_from_major(unit_amount, currency)),
        round_to(unit_amount, _STORED_DECIMALS),
        pricing_unit,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueUp:
    """The amount added by a charge's minimum, in cents (of its pricing unit): rounded, and with 15 decimals."""

    amount_cents: int
    precise_amount_cents: Decimal


def true_up(
    min_amount_cents: int, days: int, duration_days: int, used_cents: int, used_precise_cents: Decimal
) -> TrueUp | None:
    """The gap to a charge's minimum for `days` of a period of `duration_days`; None if there is none.

    `used_cents` and `used_precise_cents` are the sums over all fees of the charge. Everything is in cents of the
    currency or pricing unit that the charge is priced in.
    """
    if min_amount_cents <= 0 or days <= 0 or duration_days <= 0:
        return None
    minimum = divide(multiply(Decimal(min_amount_cents), Decimal(days)), Decimal(duration_days))
    if used_cents >= minimum:
        return None
    return TrueUp(
        amount_cents=round_cents(subtract(minimum, Decimal(used_cents))),
        precise_amount_cents=round_to(subtract(minimum, used_precise_cents), _STORED_DECIMALS),
    )


def true_up_fee_amounts(true_up: TrueUp, currency: str, *, conversion_rate: Decimal | None = None) -> FeeAmounts:
    """The amounts of the fee that raises a charge to its minimum: one unit, no events."""
    cents, precise = true_up.amount_cents, true_up.precise_amount_cents
    money: _Money
    if conversion_rate is None:
        money = (
            cents,
            precise,
            cents,
            round_to(divide(precise, cents_from_major(ONE, currency)), _STORED_DECIMALS),
            None,
        )
    else:
        money = _converted(
            PricingUnitAmounts(
                amount_cents=cents,
                precise_amount_cents=precise,
                unit_amount_cents=cents,
                precise_unit_amount=round_to(divide(precise, _HUNDRED), _STORED_DECIMALS),
                conversion_rate=conversion_rate,
            ),
            currency,
        )
    return FeeAmounts(*money, ONE, ONE, 0)
