"""Limits: the range of every number that a caller sends, in one table.

Ranges are far wider than any price list needs and far narrower than what exhausts a machine. A number out of range is a
slip (a timestamp for a number of days, a price that lost its point) and is refused when it is written, so that nothing
unbillable is stored.

Sums and products have no limit: usage beyond 64 bits is billed to the cent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from usagebill.core.numbers import truncate_to

# Entries of any list of a request, if nothing else is said: as many as the longest page has. An entry may cost a query,
# while other writers wait.
MOST_ENTRIES = 1_000
# Filters of one charge; values that its filters accept in total, and values that a metric declares.
MOST_FILTERS = 10_000
MOST_FILTER_VALUES = 100_000
# Keys that the filters of one metric declare, each of which is looked up in each event.
MOST_FILTER_KEYS = 100
# Ranges of one graduated or volume price, each of which is a line of a document.
MOST_RANGES = 1_000
# Phases of one subscription, which a change of it reads one by one.
MOST_PHASES = 60
# Runs and events paid in advance that the creation of a subscription with a start in the past makes up for, at once.
MOST_PAST_RUNS = 120
MOST_PAST_EVENTS = 1_000
# How far ahead a preview may look: all that is due until then is played, while other writers wait.
LONGEST_FORESIGHT = timedelta(days=10 * 366)

# Trailing zeros are not counted as decimals.
_DECIMALS = 30
# JavaScript represents whole numbers exactly up to nine times this.
_CENTS = Decimal(10**15)
_MAJOR = Decimal(10**13)
# A token or a wei may be a unit.
_UNITS = Decimal(10**30)
# A hundred years: longer terms would end beyond the calendar.
_DAYS = Decimal(36_500)


def longest_list(value: object) -> int:
    """The number of entries of the longest list anywhere in parsed JSON."""
    longest, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, (list, tuple)):
            longest = max(longest, len(item))
            pending.extend(item)
        elif isinstance(item, Mapping):
            pending.extend(item.values())
    return longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The range of a number: from `least` to `most`, both included, with at most `decimals` decimals.

    `label`, `fields` and `unit` describe the numbers for the documentation.
    """

    label: str
    fields: str
    unit: str
    least: Decimal
    most: Decimal
    decimals: int = 0

    def holds(self, number: Decimal | int) -> bool:
        """Whether the number is in the range."""
        return self.least <= number <= self.most and not self.is_beyond(number)

    def is_beyond(self, number: Decimal | int) -> bool:
        """Whether the number is refused for its size alone, before anything is computed with it.

        A number between `-most` and `least` is not: the rules of its resource decide.
        """
        if not self.most.copy_negate() <= number <= self.most:
            return True
        return isinstance(number, Decimal) and truncate_to(number, self.decimals) != number


def _cents(label: str, fields: str, least: int) -> Range:
    return Range(label=label, fields=fields, unit="cents", least=Decimal(least), most=_CENTS)


def _days(label: str, fields: str, decimals: int = 0) -> Range:
    return Range(label=label, fields=fields, unit="days", least=Decimal(0), most=_DAYS, decimals=decimals)


def _percent(label: str, fields: str, most: int) -> Range:
    return Range(label=label, fields=fields, unit="percent", least=Decimal(0), most=Decimal(most), decimals=_DECIMALS)


def _units(label: str, fields: str, least: int = 0, decimals: int = _DECIMALS) -> Range:
    return Range(label=label, fields=fields, unit="units", least=Decimal(least), most=_UNITS, decimals=decimals)


def _major(label: str, fields: str) -> Range:
    return Range(label=label, fields=fields, unit="major units", least=Decimal(0), most=_MAJOR, decimals=_DECIMALS)


def _count(label: str, fields: str, least: int, most: int) -> Range:
    return Range(label=label, fields=fields, unit="", least=Decimal(least), most=Decimal(most))


PLAN_FEE = _cents("Fee of a plan", "`amount_cents` of plans and plan overrides", 0)
COMMITMENT = _cents("Minimum commitment", "`minimum_commitment.amount_cents`", 1)
THRESHOLD = _cents("Usage threshold", "`usage_thresholds[].amount_cents`", 1)
HISTORICAL_USAGE = _cents("Usage from before", "`external_historical_usage_amount_cents`", 0)
CHARGE_MINIMUM = _cents("Minimum of a charge", "`min_amount_cents`", 0)
ADD_ON_PRICE = _cents("Price of an add-on", "`amount_cents` of add-ons", 1)
COUPON_AMOUNT = _cents("Amount of a coupon", "`amount_cents` of coupons", 1)
APPLIED_COUPON_AMOUNT = _cents("Amount of a coupon for one customer", "`amount_cents` of applied coupons", 0)
AUTHORIZED_AMOUNT = _cents("Amount to be authorized before a subscription", "`authorization.amount_cents`", 1)
ONE_OFF_UNIT_PRICE = _cents("Price of one unit, one-off invoice", "`fees[].unit_amount_cents`", -(10**15))
ONE_OFF_TOTAL = Range(
    label="All fees of a one-off invoice together",
    fields="reported on `units`",
    unit="cents",
    least=Decimal(0),
    most=Decimal(10**17),
)
INVOICE_PART = Range(
    label="Parts of a credit note or a void, within what the invoice leaves",
    fields="`credit_amount_cents`, `refund_amount_cents`, `offset_amount_cents`, `credit_amount`, `refund_amount`,"
    " `items[].amount_cents`",
    unit="cents",
    least=Decimal(0),
    most=Decimal(10**80),
    decimals=_DECIMALS,
)
CHARGE_AMOUNT = _major(
    "Amounts of charges and fixed charges",
    "`amount`, `per_unit_amount`, `flat_amount`, `fixed_amount`, `per_transaction_min_amount`,"
    " `per_transaction_max_amount`",
)
LINE_UNIT_PRICE = _major("Price of one unit of an adjusted line", "`unit_precise_amount`, `unit_amount`")
CONVERSION_RATE = Range(
    label="Plan currency for one pricing unit",
    fields="`applied_pricing_unit.conversion_rate`",
    unit="major units",
    least=Decimal((0, (1,), -_DECIMALS)),
    most=Decimal(10**12),
    decimals=_DECIMALS,
)
EXCHANGE_RATE = Range(
    label="Currency of a billing entity for one unit of another",
    fields="`rate` of exchange rates",
    unit="major units",
    least=Decimal((0, (1,), -_DECIMALS)),
    most=Decimal(10**12),
    decimals=_DECIMALS,
)
WALLET_RATE = Range(
    label="Worth of one prepaid credit",
    fields="`rate_amount` of wallets",
    unit="major units",
    least=Decimal("0.00001"),
    most=_MAJOR,
    decimals=5,
)
TOP_UP_LIMIT = _cents(
    "Least and most of a paid top-up", "`paid_top_up_min_amount_cents`, `paid_top_up_max_amount_cents`", 1
)
CHARGE_RATE = _percent("Rate of a percentage or a graduated percentage charge", "`rate`", 1_000_000)
TAX_RATE = _percent("Rate of a tax", "`rate` of taxes", 1_000)
COUPON_RATE = _percent("Rate of a coupon", "`percentage_rate`", 100)
COUPON_PERIODS = _count("Invoices that a recurring coupon reduces", "`frequency_duration`", 1, 1_000_000)
FIXED_UNITS = _units("Units of a fixed charge", "`units`")
LINE_UNITS = _units("Units of a line, one-off or adjusted", "`units`")
PACKAGE_SIZE = _units("Units in a package", "`package_size`", 1, 0)
FREE_UNITS = _units("Free units", "`free_units`, `free_units_per_total_aggregation`")
RANGE_BOUND = _units("Bounds of ranges", "`from_value`, `to_value`")
FREE_EVENTS = _count("Free events", "`free_units_per_events`", 1, 10**12)
ROUNDING_PRECISION = _count("Decimals that units are rounded to", "`rounding_precision`", -30, 30)
TRIAL = _days("Trial", "`trial_period`", _DECIMALS)
PAYMENT_TERM = _days("Payment term", "`net_payment_term`")
GRACE_PERIOD = _days("Grace period", "`invoice_grace_period`")
MONTHS = _count("Months of analytics asked for", "`months`", 0, 1_200)
RETENTION_MONTHS = _count("Months for which events of billed periods are kept", "`event_retention_months`", 1, 1_200)
PAST_PERIODS = _count("Periods of past usage asked for", "`periods_count`", 1, 1_000_000)
DUNNING_THRESHOLD = _cents("Overdue balance that a dunning campaign asks for", "`thresholds[].amount_cents`", 0)
DUNNING_DAYS = _count("Days between two attempts of a dunning campaign", "`days_between_attempts`", 1, 36_500)
DUNNING_ATTEMPTS = _count("Attempts of a dunning campaign", "`max_attempts`", 1, 1_000)
ORGANIZATION_LIMIT = _count(
    "Limit of an organization", "`requests_per_second`, `events_per_day`, `customers`", 1, 10**12
)
ALERT_THRESHOLD = Range(
    label="Threshold of an alert",
    fields="`thresholds[].value`",
    unit="cents, units or credits",
    least=Decimal(-(10**30)),
    most=Decimal(10**30),
    decimals=_DECIMALS,
)
SPEND_LIMIT_AMOUNT = _cents("Spend limit", "`amount_cents` of spend limits", 0)
RESERVED_AMOUNT = _cents("Amount of a check or a hold", "`amount_cents` of checks and holds", 0)
HOLD_SECONDS = Range(
    label="How long a hold lasts",
    fields="`expires_in`",
    unit="seconds",
    least=Decimal(1),
    most=Decimal(86_400),
)
SPEND_LIMIT_UNITS = _units("Quota of a spend limit", "`units` of spend limits")
SPEND_LIMIT_GRACE = _percent("Usage let through beyond a spend limit", "`grace_percent`", 1_000)

# Every range above, in that order.
TABLE: tuple[Range, ...] = tuple(limit for limit in globals().values() if isinstance(limit, Range))
