"""Analytics: months, and how subscription fees are spread over them as recurring revenue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from usagebill.core.numbers import divide, round_cents
from usagebill.core.periods import Interval
from usagebill.core.periods.calendar import add_months

# The days that can be asked about, both included. Beyond them no period can be computed: a date ends with 9999.
FIRST_DAY = date(1900, 1, 1)
LAST_DAY = date(9000, 12, 31)

# The days and weeks in a month, for recurring revenue.
_DAYS_OF_A_MONTH = Fraction(3044, 100)
_WEEKS_OF_A_MONTH = Fraction(433, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrossRevenue:
    """The amount invoiced in a month, less refunds. `invoices_count` excludes fees without an invoice."""

    month: date
    currency: str
    billing_entity_id: str
    amount_cents: int
    invoices_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceCollection:
    """The invoices of a month with one payment status; a month without invoices has neither status nor currency."""

    month: date
    payment_status: str | None
    currency: str | None
    invoices_count: int
    amount_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoicedUsage:
    """Usage fees of a metric in a month, after coupons and before taxes, rounded once."""

    month: date
    code: str
    currency: str
    amount_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringRevenue:
    """Revenue from subscription fees in a month, with taxes, rounded once; null for a month without any."""

    month: date
    currency: str | None
    amount_cents: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueBalance:
    """The amount still due on overdue invoices, by the month in which they were due."""

    month: date
    currency: str
    billing_entity_id: str
    amount_cents: int
    invoice_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageOfMetric:
    """Usage of a metric from `start` to `end`, both included, before coupons and taxes."""

    start: date
    end: date
    code: str
    is_deleted: bool
    currency: str
    amount_cents: int
    units: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringFee:
    """Subscription fees that differ only in their amounts: `count` of them, `amount` cents in total.

    `start` and `end` are the period of each fee, null if unknown. `subscription_id` is told of weekly fees.
    """

    issued: date
    currency: str
    interval: str
    in_advance: bool
    start: datetime | None
    end: datetime | None
    amount: Decimal
    count: int
    subscription_id: str | None = None


def month_of(day: date) -> date:
    """The first day of the month."""
    return date(day.year, day.month, 1)


def months_between(first: date, last: date) -> list[date]:
    """The first days of all months from the month of `first` to the month of `last`, both included."""
    months: list[date] = []
    month = month_of(first)
    while month <= last:
        months.append(month)
        month = add_months(month, 1)
    return months


def cents(amount: Fraction) -> int:
    """An exact amount as whole cents, half away from zero."""
    return round_cents(divide(Decimal(amount.numerator), Decimal(amount.denominator)))


def spread(fee: RecurringFee) -> dict[date, Fraction]:
    """The months in which a fee is recurring revenue, and its part in each; the parts add up to the fee.

    A monthly fee belongs to the month in which it was invoiced. Longer ones are divided by the months that they last
    (of 30.44 days each): in arrears over the months that end with the invoice's; in advance over those that begin with
    it, where the first month counts only from the day of the invoice. The remainder goes to the farthest month.
    """
    issued, amount = month_of(fee.issued), Fraction(fee.amount)
    lasts = _months_lasted(fee)
    number = -(-lasts.numerator // lasts.denominator)
    if fee.interval in (Interval.MONTHLY, Interval.WEEKLY) or number <= 1:
        return {issued: amount}
    part = amount / lasts
    if not fee.in_advance:
        parts = {add_months(issued, -index): part for index in range(number - 1)}
        farthest = add_months(issued, 1 - number)
    else:
        days = (add_months(issued, 1) - issued).days
        parts = {add_months(issued, index): part for index in range(number - 1)}
        parts[issued] = part * Fraction(days - fee.issued.day + 1, days)
        farthest = add_months(issued, number - 1)
    parts[farthest] = amount - sum(parts.values())
    return parts


def _months_lasted(fee: RecurringFee) -> Fraction:
    """The number of months in a fee's period, to the minute; 0 if the period is unknown."""
    if fee.start is None or fee.end is None:
        return Fraction(0)
    return Fraction((fee.end - fee.start) // timedelta(minutes=1), 24 * 60) / _DAYS_OF_A_MONTH


def recurring_revenue(fees: Iterable[RecurringFee]) -> dict[tuple[date, str], Fraction]:
    """The recurring revenue of each month and currency.

    Weekly fees count with each subscription's mean of the month, times 4.33.
    """
    revenue: dict[tuple[date, str], Fraction] = {}
    weekly: dict[tuple[date, str, str | None], tuple[Fraction, int]] = {}
    for fee in fees:
        if fee.interval == Interval.WEEKLY:
            of_subscription = month_of(fee.issued), fee.currency, fee.subscription_id
            amount, count = weekly.get(of_subscription, (Fraction(0), 0))
            weekly[of_subscription] = amount + Fraction(fee.amount), count + fee.count
            continue
        for month, part in spread(fee).items():
            key = month, fee.currency
            revenue[key] = revenue.get(key, Fraction(0)) + part
    for (month, currency, _), (amount, count) in weekly.items():
        revenue[month, currency] = revenue.get((month, currency), Fraction(0)) + amount / count * _WEEKS_OF_A_MONTH
    return revenue
