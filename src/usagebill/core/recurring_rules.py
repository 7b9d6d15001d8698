"""Recurring top-up rules: when a wallet is topped up automatically, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import StrEnum

from usagebill.core.days import local_date
from usagebill.core.numbers import ONE, ZERO, add, divide, floor_to, multiply, subtract
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.periods import day_start
from usagebill.core.wallet_checks import limit_code
from usagebill.core.wallet_transactions import MetadataPair
from usagebill.core.wallets import Wallet, exact_credits, floored_credits


class RuleStatus(StrEnum):
    """The state of a rule."""

    ACTIVE = "active"
    TERMINATED = "terminated"


class RuleTrigger(StrEnum):
    """The trigger of a top-up: a calendar day, or a low ongoing balance."""

    INTERVAL = "interval"
    THRESHOLD = "threshold"


class RuleMethod(StrEnum):
    """The amount: a fixed number of credits, or the gap to a target."""

    FIXED = "fixed"
    TARGET = "target"


class RuleInterval(StrEnum):
    """How often a rule with the interval trigger tops up."""

    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    SEMIANNUAL = "semiannual"
    YEARLY = "yearly"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringTransactionRule:
    """Tops up a wallet at an interval, or when its ongoing balance is at or below `threshold_credits`.

    A fixed rule adds `paid_credits` and `granted_credits`; a target rule adds the gap to `target_ongoing_balance`,
    bought, or granted if `grants_target_top_up`. `started_at` is the anchor of an interval rule, by default the
    creation of the wallet. `expiration_at` is the first instant at which it no longer acts.
    """

    id: str
    organization_id: str
    wallet_id: str
    trigger: RuleTrigger
    created_at: datetime
    updated_at: datetime
    status: RuleStatus = RuleStatus.ACTIVE
    method: RuleMethod = RuleMethod.FIXED
    interval: RuleInterval | None = None
    threshold_credits: Decimal = ZERO
    paid_credits: Decimal = ZERO
    granted_credits: Decimal = ZERO
    target_ongoing_balance: Decimal | None = None
    grants_target_top_up: bool = False
    started_at: datetime | None = None
    expiration_at: datetime | None = None
    terminated_at: datetime | None = None
    invoice_requires_successful_payment: bool = False
    ignore_paid_top_up_limits: bool = False
    transaction_name: str | None = None
    transaction_metadata: tuple[MetadataPair, ...] = ()
    purchase_order_number: str | None = None
    payment_method: PaymentMethodChoice | None = None
    skip_invoice_custom_sections: bool = False
    invoice_custom_section_ids: tuple[str, ...] = ()


def is_running(rule: RecurringTransactionRule, now: datetime) -> bool:
    """Whether the rule acts at `now`: neither terminated nor expired."""
    return rule.status == RuleStatus.ACTIVE and (rule.expiration_at is None or now < rule.expiration_at)


def rule_is_sound(rule: RecurringTransactionRule) -> bool:
    """Whether the rule is complete: it has a trigger and an amount."""
    if rule.trigger == RuleTrigger.INTERVAL and rule.interval is None:
        return False
    if rule.method == RuleMethod.FIXED:
        # One at an interval without credits may stand still until it is given some; a threshold without is a slip.
        is_empty = rule.paid_credits.is_zero() and rule.granted_credits.is_zero()
        return not rule.grants_target_top_up and not (is_empty and rule.trigger == RuleTrigger.THRESHOLD)
    target = rule.target_ongoing_balance
    return target is not None and (rule.trigger == RuleTrigger.INTERVAL or target >= rule.threshold_credits)


def breaks_limits(rule: RecurringTransactionRule, wallet: Wallet) -> bool:
    """Whether the rule buys credits that the limits of the wallet do not allow."""
    if rule.method != RuleMethod.FIXED or rule.ignore_paid_top_up_limits or floored_credits(rule.paid_credits) <= ZERO:
        return False
    return limit_code(wallet, rule.paid_credits) is not None


@dataclass(frozen=True, slots=True)
class TopUpCredits:
    """The credits to add to a wallet."""

    paid: Decimal
    granted: Decimal


def top_up_credits(rule: RecurringTransactionRule, wallet: Wallet, pending: Decimal) -> TopUpCredits:
    """The credits that the rule adds to the wallet now; `pending` are the credits that wait for their payment.

    A fixed rule with the threshold trigger buys its credits as often as needed to pass the threshold, at most the
    maximum of the wallet. A target rule buys the gap to its target, at least the minimum of the wallet.
    """
    ongoing = wallet.credits_ongoing_balance
    if rule.method == RuleMethod.FIXED:
        return TopUpCredits(_fixed_credits(rule, wallet, ongoing, pending), rule.granted_credits)
    missing = subtract(rule.target_ongoing_balance or ZERO, ongoing)
    if missing <= ZERO:
        return TopUpCredits(ZERO, ZERO)
    if rule.grants_target_top_up:
        return TopUpCredits(ZERO, missing)
    least = wallet.paid_top_up_min_amount_cents
    if least is None or rule.ignore_paid_top_up_limits:
        return TopUpCredits(missing, ZERO)
    return TopUpCredits(max(missing, exact_credits(least, wallet.rate_amount, wallet.currency)), ZERO)


def _fixed_credits(rule: RecurringTransactionRule, wallet: Wallet, ongoing: Decimal, pending: Decimal) -> Decimal:
    if rule.trigger == RuleTrigger.INTERVAL or rule.paid_credits <= ZERO:
        return rule.paid_credits
    gap = subtract(subtract(subtract(rule.threshold_credits, ongoing), rule.granted_credits), pending)
    if gap < rule.paid_credits:
        return rule.paid_credits
    times = add(floor_to(divide(gap, rule.paid_credits), 0), ONE)
    credits = multiply(rule.paid_credits, times)
    most = wallet.paid_top_up_max_amount_cents
    if most is None or rule.ignore_paid_top_up_limits:
        return credits
    return min(credits, exact_credits(most, wallet.rate_amount, wallet.currency))


def is_top_up_day(interval: RuleInterval, anchor: date, day: date) -> bool:
    """Whether a rule with this anchor tops up on `day`; if the month is too short, on its last day."""
    if interval == RuleInterval.WEEKLY:
        return day.isoweekday() == anchor.isoweekday()
    is_last = (day + timedelta(days=1)).month != day.month
    if day.day != anchor.day and not (is_last and anchor.day > day.day):
        return False
    return (day.month - anchor.month) % _MONTHS[interval] == 0


# Months between top-ups.
_MONTHS = {
    RuleInterval.MONTHLY: 1,
    RuleInterval.QUARTERLY: 3,
    RuleInterval.SEMIANNUAL: 6,
    RuleInterval.YEARLY: 12,
}
# Top-ups of a day are made from this minute of its first hour.
_MINUTE = 55


def next_top_up(
    rule: RecurringTransactionRule, wallet: Wallet, zone: tzinfo, *, first_day: date, now: datetime
) -> datetime | None:
    """The first instant, not before `now`, at which the rule tops up on `first_day` or later.

    Days are the customer's, in `zone`; the day of the wallet's creation is excluded. None for a rule with the threshold
    trigger, and after the rule has expired.
    """
    if rule.interval is None or rule.trigger != RuleTrigger.INTERVAL:
        return None
    begins = rule.started_at or wallet.created_at
    anchor, created = local_date(begins, zone), local_date(wallet.created_at, zone)
    day = max(first_day, anchor, created + timedelta(days=1))
    while not is_top_up_day(rule.interval, anchor, day):
        day += timedelta(days=1)
    due = max(_from_minute(day_start(day, zone)), begins, now)
    return None if rule.expiration_at is not None and due >= rule.expiration_at else due


def _from_minute(instant: datetime) -> datetime:
    return instant + timedelta(minutes=(_MINUTE - instant.minute) % 60)


# A rule pauses for this long after one of its purchases has failed.
BACK_OFF = timedelta(hours=1)


def threshold_is_passed(rule: RecurringTransactionRule, wallet: Wallet, pending: Decimal) -> bool:
    """Whether the ongoing balance is at or below the threshold, even including the credits that wait for payment."""
    return add(wallet.credits_ongoing_balance, pending) <= rule.threshold_credits


def holds_back(failed_at: datetime | None, settled_at: datetime | None, now: datetime) -> bool:
    """Whether a threshold rule buys nothing for now: its last purchase failed within the hour, and none was paid since.

    `failed_at` is when the last of its own purchases failed, `settled_at` when any purchase of the wallet was last
    paid.
    """
    if failed_at is None or failed_at < now - BACK_OFF:
        return False
    return settled_at is None or settled_at < failed_at


def earliest_top_up_day(day: date, last_at: datetime | None, tz: tzinfo) -> date:
    """The first day, from `day` on, on which an interval rule may act: at most one top-up a day, whatever its
    outcome.
    """
    return day if last_at is None else max(day, local_date(last_at, tz) + timedelta(days=1))
