"""Deductions: after an upgrade, what older plans were paid in advance for an item pays for those days of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from usagebill.core.fees import Fee
from usagebill.core.numbers import (
    ONE,
    ZERO,
    add,
    decimal_text,
    divide,
    multiply,
    round_cents,
    round_to,
    subtract,
    total,
)
from usagebill.core.pricing.fixed_charges import unused_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidInAdvance:
    """An amount paid in advance for `days`, of which `days_left` are still to come. `given_back` are cents that credit
    notes have given back of it.
    """

    cents: int
    days: int
    days_left: int
    given_back: Decimal = ZERO

    @property
    def left_cents(self) -> int:
        """The part of the payment for future days, in cents."""
        unused = unused_cents(self.cents, days=self.days_left, paid_days=self.days)
        return max(unused - round_cents(self.given_back), 0)

    @property
    def unused_share(self) -> Decimal:
        """The share of the future days that credit notes have not given back."""
        if self.given_back <= ZERO or self.cents <= 0 or not self.days_left:
            return ONE
        given_back = divide(multiply(self.given_back, Decimal(self.days)), Decimal(self.cents))
        return max(subtract(ONE, divide(given_back, Decimal(self.days_left))), ZERO)


def less_paid_before(fee: Fee, paid: Sequence[PaidInAdvance], earlier_fees: Sequence[Fee]) -> Fee:
    """The new plan's fee less the unused part of older plans' payments for the same add-on, at least zero.

    Each cent is deducted once: `earlier_fees` are those of the new plan, from which a part may already be deducted.
    Those for other days than the fee's do not count.
    """
    paid_before = sum(
        paid_before_cents(earlier)
        for earlier in earlier_fees
        if earlier.add_on_id == fee.add_on_id and _share_days(earlier, fee)
    )
    less = min(fee.amount_cents, sum(fee_paid.left_cents for fee_paid in paid) - paid_before)
    if less <= 0:
        return fee
    precise = max(fee.precise_amount_cents - Decimal(less), ZERO)
    return _less(fee, less, precise, paid)


def less_days_paid(fee: Fee, share: Decimal, paid: Sequence[PaidInAdvance]) -> Fee:
    """The new plan's fee for recurring usage in advance without the `share` of its units and days that older plans were
    `paid` for.
    """
    precise = round_to(multiply(fee.precise_amount_cents, subtract(ONE, share)), 15)
    return _less(fee, fee.amount_cents - round_cents(precise), precise, paid)


def deducted_next(paid: Sequence[PaidInAdvance], asked_cents: int) -> list[int]:
    """The cents of each payment that the next plan will deduct, which asks for `asked_cents` for the days left."""
    deducted: list[int] = []
    for fee_paid in paid:
        deducted.append(min(fee_paid.left_cents, asked_cents - sum(deducted)))
    return deducted


def _less(fee: Fee, less: int, precise: Decimal, paid: Sequence[PaidInAdvance]) -> Fee:
    basis: dict[str, object] = {
        **fee.basis,
        "full_cents": decimal_text(fee.precise_amount_cents),
        "paid_before_cents": less,
        "paid_before": [
            {"paid_cents": fee_paid.cents, "paid_days": fee_paid.days, "days_left": fee_paid.days_left}
            for fee_paid in paid
        ],
    }
    return replace(fee, amount_cents=fee.amount_cents - less, precise_amount_cents=precise, basis=basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsPaid:
    """Units that a fee in advance has paid for on each of the next `days` days. `of_all`: the plan opened or began a
    period with it, so it is for all units of these days, whichever plan was paid for them before.
    """

    units: Decimal
    days: int
    of_all: bool


def unit_days_paid(plans: Sequence[Sequence[UnitsPaid]], held: Decimal, *, taken: Decimal = ZERO) -> Decimal:
    """The days of units that older plans were paid for, summed over units, the latest plan first. Of the units `held`
    are left, and each day of a unit counts once; other charges have `taken` units of each day.
    """
    last = max((paid.days for plan in plans for paid in plan), default=0)
    left = (subtract(_units_paid_on(plans, day), taken) for day in range(last))
    return total(min(max(units, ZERO), held) for units in left)


def _units_paid_on(plans: Sequence[Sequence[UnitsPaid]], day: int) -> Decimal:
    units = ZERO
    for plan in plans:
        of_day = [paid for paid in plan if day < paid.days]
        units = add(units, total(paid.units for paid in of_day))
        if any(paid.of_all for paid in of_day):
            break
    return units


def whole_units(fee: Fee) -> Decimal:
    """The units of the fee, not prorated."""
    return fee.units if fee.total_aggregated_units is None else fee.total_aggregated_units


def share_held(held: Decimal, fees: Iterable[Fee]) -> Decimal:
    """The share of the units of `fees` of which `held` are left: at most all of them."""
    paid = total(whole_units(fee) for fee in fees)
    return ONE if paid <= held else divide(held, paid)


def _share_days(one: Fee, other: Fee) -> bool:
    if one.from_datetime is None or one.to_datetime is None or other.from_datetime is None or other.to_datetime is None:
        return True
    return one.from_datetime <= other.to_datetime and other.from_datetime <= one.to_datetime


def paid_before_cents(fee: Fee) -> int:
    """The cents of the fee that an older plan's fees have paid."""
    return int(str(fee.basis.get("paid_before_cents", 0)))
