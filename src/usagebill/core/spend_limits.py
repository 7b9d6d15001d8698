"""Spend limits: the most that a customer, or a subscription, may use in an interval, and what is left of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import Any

from usagebill.core.events import property_text
from usagebill.core.limits import SPEND_LIMIT_AMOUNT, SPEND_LIMIT_GRACE, SPEND_LIMIT_UNITS
from usagebill.core.numbers import ZERO, add, divide, multiply, parse_decimal, subtract, total
from usagebill.core.periods.calendar import day_start

_HUNDRED = Decimal(100)
# What the codes begin with that are kept for limits which customers set in the portal.
_OWN = "customer_portal"
# Property -> the values that count.
Values = Mapping[str, tuple[str, ...]]


class LimitInterval(StrEnum):
    """The time over which usage counts against a limit."""

    BILLING_PERIOD = "billing_period"  # the charges period of each subscription
    DAY = "day"  # by the customer's calendar
    MONTH = "month"  # by the customer's calendar
    LIFETIME = "lifetime"


class SetBy(StrEnum):
    """Who set a limit."""

    SELLER = "seller"
    CUSTOMER = "customer"  # in the portal


class OnReached(StrEnum):
    """What becomes of usage beyond a limit."""

    REFUSE = "refuse"
    ALERT = "alert"


class Measure(StrEnum):
    """What a limit is measured in."""

    CENTS = "cents"
    UNITS = "units"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendLimit:
    """The most that may be used in an interval: `amount_cents` before taxes, or `units` of a metric; one of them.

    It is a customer's (all of its subscriptions together), a subscription's (by external id, so across plan changes),
    or a plan's: then it holds for each of its subscriptions that has no limit with this code. Only usage of
    `billable_metric_id` counts, and of that only events with these values of properties (`group`); without them, all
    does. Usage may go beyond it by `grace_percent`.
    """

    id: str
    organization_id: str
    code: str
    interval: LimitInterval
    created_at: datetime
    updated_at: datetime
    customer_id: str | None = None
    external_subscription_id: str | None = None
    plan_id: str | None = None
    amount_cents: int | None = None
    units: Decimal | None = None
    billable_metric_id: str | None = None
    group: Values = field(default_factory=dict)
    on_reached: OnReached = OnReached.REFUSE
    grace_percent: Decimal = ZERO
    deleted_at: datetime | None = None

    @property
    def set_by(self) -> SetBy:
        """Who set it."""
        return set_by(self.code)

    @property
    def is_customers(self) -> bool:
        """Whether it counts all subscriptions of a customer."""
        return self.customer_id is not None and self.external_subscription_id is None

    @property
    def measure(self) -> Measure:
        """What it is measured in."""
        return Measure.CENTS if self.units is None else Measure.UNITS

    @property
    def most(self) -> Decimal:
        """The limit itself, in cents or units."""
        return Decimal(self.amount_cents or 0) if self.units is None else self.units


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedLimit:
    """A limit whose usage has come to all of it, which is told once until it starts over at `resets_at` (None: never).

    `external_subscription_id` is the subscription whose usage it is, and "" for a customer's limit. `used` is in cents
    before taxes or in units, as of `created_at`.
    """

    id: str
    organization_id: str
    customer_id: str
    spend_limit_id: str
    external_subscription_id: str
    used: Decimal
    created_at: datetime
    resets_at: datetime | None = None


class Refusal(StrEnum):
    """The codes of refused usage."""

    SPEND_LIMIT = "spend_limit_reached"
    QUOTA = "quota_reached"
    CREDITS = "insufficient_credits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far something that bounds usage is used up: a spend limit, the quota of an entitlement, or the credits of a
    wallet, each under its `code`; `limit` is the limit or quota, None for credits.

    `most` is what it lets through, `grace` what it lets through beyond that, `used` what has been used, `held` what is
    reserved, and `adds` what the usage in question would add: all in cents before taxes (of wallets, with taxes), or in
    units. `resets_at` is when it starts over, None if never.
    """

    refusal: Refusal
    code: str
    measure: Measure
    most: Decimal
    used: Decimal
    held: Decimal = ZERO
    adds: Decimal = ZERO
    grace: Decimal = ZERO
    on_reached: OnReached = OnReached.REFUSE
    resets_at: datetime | None = None
    limit: SpendLimit | None = None

    @property
    def set_by(self) -> SetBy:
        """Who set it."""
        return SetBy.SELLER if self.limit is None else self.limit.set_by

    @property
    def remaining(self) -> Decimal:
        """What may still be used, the grace included; never below zero."""
        return max(ZERO, subtract(add(self.most, self.grace), add(self.used, self.held)))

    @property
    def is_exceeded(self) -> bool:
        """Whether the usage in question is more than remains. What adds nothing always fits."""
        return self.adds > ZERO and self.adds > self.remaining

    @property
    def refuses(self) -> bool:
        """Whether the usage in question is refused."""
        return self.is_exceeded and self.on_reached is OnReached.REFUSE


def grace_of(most: Decimal, percent: Decimal) -> Decimal:
    """What `percent` of a limit come to."""
    return divide(multiply(most, percent), _HUNDRED)


def refusing(standings: Iterable[Standing]) -> Standing | None:
    """The one that refuses the usage in question, the one with the least left first; None if it is allowed."""
    return min((one for one in standings if one.refuses), key=lambda one: (one.remaining, one.code), default=None)


def concerns(limit: SpendLimit, billable_metric_id: str | None, properties: Mapping[str, Any]) -> bool:
    """Whether usage of the metric with these properties counts against the limit; an amount without a metric counts
    against limits of all usage alone.
    """
    if limit.billable_metric_id is not None and limit.billable_metric_id != billable_metric_id:
        return False
    return all(property_text(properties.get(key)) in values for key, values in limit.group.items())


def own_code(interval: LimitInterval) -> str:
    """The code of the limit that a customer sets for a subscription and an interval. No limit of the seller's has it,
    so that a customer's limit stands beside those of the seller, and replaces none.
    """
    return f"{_OWN}_{interval}"


def set_by(code: str) -> SetBy:
    """Who set the limit with this code."""
    return SetBy.CUSTOMER if code in map(own_code, LimitInterval) else SetBy.SELLER


def in_force(
    of_customer: Iterable[SpendLimit], of_subscription: Iterable[SpendLimit], of_plan: Iterable[SpendLimit]
) -> list[SpendLimit]:
    """The limits of a subscription's usage: a subscription's own replaces its plan's of the same code."""
    own = {limit.code: limit for limit in of_plan} | {limit.code: limit for limit in of_subscription}
    return [*of_customer, *own.values()]


def interval_at(interval: LimitInterval, now: datetime, tz: tzinfo) -> tuple[datetime, datetime]:
    """The calendar day or month of `now` on the wall clock of `tz`: its first instant, and that of the next one."""
    day = now.astimezone(tz).date()
    if interval is LimitInterval.DAY:
        return day_start(day, tz), day_start(day + timedelta(days=1), tz)
    first = day.replace(day=1)
    return day_start(first, tz), day_start((first + timedelta(days=32)).replace(day=1), tz)


# Errors


def limit_errors(limit: SpendLimit, *, codes: Iterable[str] = ()) -> dict[str, list[str]]:
    """Errors in the fields of a limit, as field -> codes; `codes` are those of its owner's other limits."""
    errors: dict[str, list[str]] = {}
    if not limit.code.strip():
        errors["code"] = ["value_is_mandatory"]
    elif limit.code in codes:
        errors["code"] = ["value_already_exist"]
    if (limit.amount_cents is None) == (limit.units is None):
        errors["amount_cents"] = ["amount_or_units"]
    if limit.amount_cents is not None and not SPEND_LIMIT_AMOUNT.holds(limit.amount_cents):
        errors["amount_cents"] = ["value_is_out_of_range"]
    if limit.units is not None:
        if not SPEND_LIMIT_UNITS.holds(limit.units):
            errors["units"] = ["value_is_out_of_range"]
        if limit.billable_metric_id is None:
            errors["billable_metric_code"] = ["value_is_mandatory"]
    if not SPEND_LIMIT_GRACE.holds(limit.grace_percent):
        errors["grace_percent"] = ["value_is_out_of_range"]
    return errors


def read_group(sent: object) -> Values | None:
    """The group as sent: each property with a value, or a list of them, as text. None for anything else."""
    if sent is None:
        return {}
    if not isinstance(sent, Mapping):
        return None
    group: dict[str, tuple[str, ...]] = {}
    for key, value in sent.items():
        values = value if isinstance(value, (list, tuple)) else (value,)
        texts = [property_text(item) for item in values if isinstance(item, (str, int, Decimal))]
        if not isinstance(key, str) or not key or not texts or len(texts) < len(values):
            return None
        group[key] = tuple(dict.fromkeys(text for text in texts if text is not None))
    return group


def read_number(sent: object) -> Decimal | None:
    """A number as sent, or as text; None for anything else."""
    if isinstance(sent, str):
        return parse_decimal(sent.strip())
    if isinstance(sent, (int, Decimal)) and not isinstance(sent, bool):
        return Decimal(sent)
    return None


def removed(limit: SpendLimit, now: datetime) -> SpendLimit:
    """The limit as deleted."""
    return replace(limit, deleted_at=now, updated_at=now)


def held_against(limit: SpendLimit, amounts: Iterable[tuple[Decimal, Decimal]]) -> Decimal:
    """What holds of these amounts (cents, units) reserve of the limit."""
    return total(cents if limit.units is None else units for cents, units in amounts)
