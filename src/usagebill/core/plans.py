"""Plans: usage charges, fixed charges, a commitment and thresholds that a customer subscribes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal

from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.currencies import CURRENCIES
from usagebill.core.limits import COMMITMENT, PLAN_FEE, THRESHOLD, TRIAL
from usagebill.core.numbers import parse_decimal
from usagebill.core.periods import LONG_INTERVALS

# Digits of a code's number. A longer one is none that we made.
_LONGEST_ENDING = 18

Errors = dict[str, list[str]]

INTERVALS = ("weekly", "monthly", "quarterly", "semiannual", "yearly")


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumCommitment:
    """The least that an interval of the plan must bring in, in cents before taxes."""

    id: str
    amount_cents: int
    created_at: datetime
    updated_at: datetime
    invoice_display_name: str | None = None
    tax_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageThreshold:
    """The lifetime usage in cents at which usage is invoiced; a recurring threshold at each multiple."""

    id: str
    amount_cents: int
    created_at: datetime
    updated_at: datetime
    recurring: bool = False
    threshold_display_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceStep:
    """A change of a plan's prices that counts for periods that begin at `starts` or later, and with `effective_on` on
    that day or later, in the customer's time zone. Earlier ones are billed by the prices of the plan `plan_id` in price
    version `before` (`core.price_versions`): of the plan itself, or of the one that it is an override of, if it was
    made since.
    """

    starts: datetime
    before: int
    plan_id: str
    effective_on: date | None = None

    @property
    def prices_from(self) -> datetime:
        """Since when a period must begin to have the prices after it, of a day in UTC."""
        day = self.effective_on
        return self.starts if day is None else max(self.starts, datetime.combine(day, time(), UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargePrices:
    """The new prices of a usage charge or fixed charge; None: as they were. `filters` are those that are new or
    changed, `removed_filters` the ids of those that are gone.
    """

    charge_id: str
    properties: Mapping[str, object] | None = None
    filters: tuple[ChargeFilter, ...] | None = None
    removed_filters: tuple[str, ...] = ()
    min_amount_cents: int | None = None
    applied_pricing_unit: AppliedPricingUnit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledPrices:
    """Prices of a plan that wait for a day: what changes then, and no more. Price version `version` scheduled them.

    They count for periods that begin at `scheduled_at` or later, and on `effective_on` or later in the customer's time
    zone.
    """

    version: int
    effective_on: date
    scheduled_at: datetime
    amount_cents: int | None = None
    minimum_commitment: MinimumCommitment | None = None
    charges: tuple[ChargePrices, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A price list. `parent_id` marks an override: a child plan of one subscription, with the parent's code.

    `trial_period` is in days. The two monthly flags are null except on yearly and semiannual plans. Its prices, and
    those of its charges, are the newest; `price_steps`, oldest first, say which periods have older ones,
    `scheduled_prices`, by their days, which will have others.
    """

    id: str
    organization_id: str
    name: str
    code: str
    interval: str
    amount_cents: int
    amount_currency: str
    pay_in_advance: bool
    created_at: datetime
    updated_at: datetime
    invoice_display_name: str | None = None
    description: str | None = None
    trial_period: Decimal | None = None
    bill_charges_monthly: bool | None = None
    bill_fixed_charges_monthly: bool | None = None
    minimum_commitment: MinimumCommitment | None = None
    usage_thresholds: tuple[UsageThreshold, ...] = ()
    tax_ids: tuple[str, ...] = ()
    metadata: Mapping[str, str | None] | None = None
    parent_id: str | None = None
    pending_deletion: bool = False
    offered_in_portal: bool = False
    price_steps: tuple[PriceStep, ...] = ()
    scheduled_prices: tuple[ScheduledPrices, ...] = ()
    deleted_at: datetime | None = None

    @property
    def prices_from(self) -> datetime | None:
        """Since when a period must begin to have the newest prices, of a day in UTC; None if all have them."""
        return self.price_steps[-1].prices_from if self.price_steps else None

    @property
    def has_one_price(self) -> bool:
        """Whether all periods are billed by the prices as they are."""
        return not self.price_steps and not self.scheduled_prices


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPricingUnit:
    """Prices of the charge are in this pricing unit; one unit is `conversion_rate` of the plan's currency."""

    pricing_unit_id: str
    code: str
    short_name: str
    conversion_rate: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeFilter:
    """An alternative price for the events whose properties match `values` (key -> accepted values).

    `parent_id` is the plan's filter that this one copies, on charges of overrides.
    """

    id: str
    values: Mapping[str, tuple[str, ...]]
    properties: Mapping[str, object]
    created_at: datetime
    updated_at: datetime
    invoice_display_name: str | None = None
    parent_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A usage charge: the price of a billable metric on a plan. `properties` are those of its charge model."""

    id: str
    organization_id: str
    plan_id: str
    billable_metric_id: str
    code: str
    charge_model: str
    properties: Mapping[str, object]
    created_at: datetime
    updated_at: datetime
    filters: tuple[ChargeFilter, ...] = ()
    invoice_display_name: str | None = None
    pay_in_advance: bool = False
    prorated: bool = False
    invoiceable: bool = True
    regroup_paid_fees: str | None = None
    min_amount_cents: int = 0
    accepts_target_wallet: bool = False
    applied_pricing_unit: AppliedPricingUnit | None = None
    tax_ids: tuple[str, ...] = ()
    parent_id: str | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCharge:
    """A charge for a given number of units of an add-on, independent of usage."""

    id: str
    organization_id: str
    plan_id: str
    add_on_id: str
    code: str
    charge_model: str
    properties: Mapping[str, object]
    units: Decimal
    created_at: datetime
    updated_at: datetime
    invoice_display_name: str | None = None
    pay_in_advance: bool = False
    prorated: bool = False
    tax_ids: tuple[str, ...] = ()
    parent_id: str | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedChargeUnits:
    """From `effective_at` on, the subscription has `units` of the fixed charge, as decided at `created_at`."""

    id: str
    organization_id: str
    subscription_id: str
    fixed_charge_id: str
    units: Decimal
    effective_at: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDefinition:
    """A plan with its live charges in the order of their creation, and the metrics and add-ons that these price,
    by id.
    """

    plan: Plan
    charges: tuple[Charge, ...]
    fixed_charges: tuple[FixedCharge, ...]
    metrics: Mapping[str, BillableMetric]
    add_ons: Mapping[str, AddOn]


def plan_errors(
    *,
    name: str | None,
    code: str | None,
    interval: str | None,
    amount_cents: int | None,
    amount_currency: str | None,
    pay_in_advance: bool | None,
    trial_period: Decimal | None = None,
) -> Errors:
    """Errors in a plan's own fields, as field -> codes.

    Whether its code is taken is checked by the operation.
    """
    errors: Errors = {}
    if not name:
        errors["name"] = ["value_is_mandatory"]
    if not code:
        errors["code"] = ["value_is_mandatory"]
    if interval not in INTERVALS:
        errors["interval"] = ["value_is_invalid"]
    if amount_cents is None:
        errors["amount_cents"] = ["value_is_mandatory"]
    elif not PLAN_FEE.holds(amount_cents):
        errors["amount_cents"] = ["value_is_out_of_range"]
    if amount_currency not in CURRENCIES:
        errors["amount_currency"] = ["value_is_invalid"]
    if pay_in_advance is None:
        errors["pay_in_advance"] = ["value_is_invalid"]
    if trial_period is not None and not TRIAL.holds(trial_period):
        errors["trial_period"] = ["value_is_out_of_range"]
    return errors


def monthly_flag(interval: str, flag: bool | None) -> bool | None:
    """A monthly flag as stored: only semiannual and yearly plans have one."""
    return bool(flag) if interval in LONG_INTERVALS else None


class ChargeCodes:
    """The codes of a plan's charges, and the ones that charges without a code get."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used: set[str] = set()
        # The greatest number of the codes `name_2`, `name_3` and so on, by name.
        self._greatest: dict[str, int] = {}
        for code in used:
            self.add(code)

    def __contains__(self, code: object) -> bool:
        return code in self._used

    def add(self, code: str) -> None:
        """A charge has this code."""
        self._used.add(code)
        name, separator, ending = code.rpartition("_")
        if separator and ending.isascii() and ending.isdigit() and len(ending) <= _LONGEST_ENDING:
            self._greatest[name] = max(self._greatest.get(name, 1), int(ending))

    def generated(self, name: str) -> str:
        """`name` if it is free, else `name_2` and so on: one above the greatest number after `name_`."""
        return name if name not in self._used else f"{name}_{self._greatest.get(name, 1) + 1}"


def threshold_errors(thresholds: Sequence[tuple[int | None, bool]]) -> Errors:
    """Errors in usage thresholds, each (amount in cents, whether recurring): only the first mistake is reported."""
    if any(amount is None for amount, _ in thresholds):
        return {"usage_thresholds": ["missing_amount_cents"]}
    if len(set(thresholds)) < len(thresholds):
        return {"usage_thresholds": ["duplicated_values"]}
    if sum(recurring for _, recurring in thresholds) > 1:
        return {"usage_thresholds": ["multiple_recurring_thresholds"]}
    if any(amount is not None and not THRESHOLD.holds(amount) for amount, _ in thresholds):
        return {"amount_cents": ["value_is_out_of_range"]}
    return {}


def commitment_errors(amount_cents: int | None) -> Errors:
    """Errors in the amount of a minimum commitment, in cents."""
    if amount_cents is None:
        return {"amount_cents": ["is not a number"]}
    return {} if COMMITMENT.holds(amount_cents) else {"amount_cents": ["value_is_out_of_range"]}


def cancels_downgrade(new_amount_cents: int, following_amount_cents: int) -> bool:
    """Whether a plan whose amount has changed is now cheaper than the plan of a scheduled downgrade, which is then
    canceled.

    The amounts are compared directly, whatever the intervals of the two plans.
    """
    return new_amount_cents < following_amount_cents


def same_prices(left: object, right: object) -> bool:
    """Whether two values of charge properties are equal; texts of numbers are compared as numbers."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_prices(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same_prices(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, str) and isinstance(right, str):
        numbers = parse_decimal(left), parse_decimal(right)
        return left == right or (numbers[0] is not None and numbers[0] == numbers[1])
    return left == right and isinstance(left, bool) == isinstance(right, bool)
