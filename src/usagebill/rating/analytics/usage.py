"""Usage of each metric by day, week or month, as it was billed and, in the running period, as it will be.

The billed amount of a period is divided by when the usage happened: a day gets the amount at its end less the amount at
the end of the day before. So the days of a period add up to its fees, whatever the charge model. Days are those of the
customer's time zone. Minimums of charges, coupons and taxes are no usage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from zoneinfo import ZoneInfo

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, Window
from usagebill.core.analytics import FIRST_DAY, LAST_DAY, UsageOfMetric, month_of, months_between
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import AccountType, Customer
from usagebill.core.errors import Invalid, NotAllowed
from usagebill.core.fees import Fee, FeeType
from usagebill.core.instants import MICROSECOND, parse_instant
from usagebill.core.invoices.life_cycle import BILLED, InvoiceType
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ZERO, add, subtract
from usagebill.core.periods import Window as Span, usage_windows, with_days
from usagebill.core.periods.calendar import add_months
from usagebill.core.plans import Charge, Plan
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.queries.billing_periods import boundaries_of
from usagebill.queries.contracts import contract_of
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import definition_for, find_subscription
from usagebill.queries.takeovers import in_force
from usagebill.rating.charge_scope import usage_window
from usagebill.rating.current_usage import running_window, usage_within
from usagebill.rating.handover import Neighbours
from usagebill.requests.inputs import ABSENT, Input, Maybe, described, value_or
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import (
    Condition,
    any_of,
    at_least,
    at_most,
    eq,
    missing,
    ne,
    present,
    related,
    within,
)
from usagebill.storage.event_queries import COUNTED, EventQuery, EventRange
from usagebill.storage.sums import GroupKey

_DAY = timedelta(days=1)
# The most days, weeks or months in one answer.
_MOST_PERIODS = 400
# With more events of a metric than this, the periods that they lie in are not looked up.
_MOST_COUNTED = 1000
# Days, weeks or months to look back on without a `from_date`.


class Granularity(StrEnum):
    """The length of the periods of usage."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


# The number of periods shown without a `from_date`.
_LOOKED_BACK = {Granularity.DAILY: 30, Granularity.WEEKLY: 12, Granularity.MONTHLY: 12}
_CUSTOMER = ((Customer, "customer_id"),)
_ENTITY = (*_CUSTOMER, (BillingEntity, "billing_entity_id"))


@Input
class UsageFilters:
    """`time_granularity` is daily (the default), weekly (from Monday on) or monthly; both dates are included.

    Without `from_date` it is the last 30 days, 12 weeks or 12 months; without `to_date` up to now.
    """

    time_granularity: Maybe[str] = described(
        "The length of a row's period.", values=("daily", "weekly", "monthly"), default="daily"
    )
    currency: Maybe[str] = ABSENT
    from_date: Maybe[str] = ABSENT
    to_date: Maybe[str] = ABSENT
    customer_type: Maybe[str] = ABSENT
    external_customer_id: Maybe[str] = ABSENT
    customer_country: Maybe[str] = described("Only usage of customers in this country.")
    external_subscription_id: Maybe[str] = ABSENT
    is_billable_metric_recurring: Maybe[bool] = described("Only usage of recurring metrics, or only of others.")
    plan_code: Maybe[str] = ABSENT
    billable_metric_code: Maybe[str] = ABSENT


@dataclass(frozen=True, slots=True)
class _Amount:
    """An amount of usage."""

    cents: int = 0
    units: Decimal = ZERO

    def plus(self, other: _Amount) -> _Amount:
        return _Amount(self.cents + other.cents, add(self.units, other.units))

    def minus(self, other: _Amount) -> _Amount:
        return _Amount(self.cents - other.cents, subtract(self.units, other.units))


_NOTHING = _Amount()
# By the id of the metric.
_Amounts = dict[str, _Amount]


@dataclass(frozen=True, slots=True)
class _Period:
    """Days, both included."""

    start: date
    end: date


@dataclass(slots=True)
class _Usage:
    """The usage of each period, by metric and currency."""

    periods: Sequence[_Period]
    amounts: dict[tuple[_Period, str, str], _Amount] = field(default_factory=lambda: defaultdict(_Amount))

    def count(self, period: _Period, metric_id: str, currency: str, amount: _Amount) -> None:
        key = period, metric_id, currency
        self.amounts[key] = self.amounts[key].plus(amount)

    def period_of(self, first: date, last: date) -> _Period | None:
        """The period that holds all days from `first` to `last`."""
        return next((period for period in self.periods if period.start <= first and last <= period.end), None)

    def divide(
        self, window: Window, currency: str, whole: _Amounts, so_far: Callable[[Sequence[datetime]], list[_Amounts]]
    ) -> None:
        """Divide the `whole` amount of a window among the periods; `so_far` gives its amount at some instants."""
        first, last = _days_of(window)
        periods = [period for period in self.periods if period.start <= last and first <= period.end]
        ends = {day for period in periods for day in (period.start - _DAY, period.end)}
        days = sorted(day for day in ends if first <= day < last)
        instants = [datetime.combine(day + _DAY, time(), window.tz).astimezone(UTC) - MICROSECOND for day in days]
        known = dict(zip(days, so_far(instants), strict=True))

        def at_end_of(day: date) -> _Amounts:
            return known.get(day, {} if day < first else whole)

        for period in periods:
            before, after = at_end_of(period.start - _DAY), at_end_of(period.end)
            for metric_id in {*before, *after}:
                amount = after.get(metric_id, _NOTHING).minus(before.get(metric_id, _NOTHING))
                self.count(period, metric_id, currency, amount)


def _days_of(window: Window) -> tuple[date, date]:
    """The first and the last day of a window."""
    return window.day_of(window.start), _local(window.end, window.tz)


def _local(instant: datetime, tz: object) -> date:
    return instant.astimezone(tz).date()  # type: ignore[arg-type]


def usage(reader: Reader, options: UsageFilters) -> list[UsageOfMetric]:
    """The usage of each metric and currency by day, week or month: oldest first, then by code.

    A metric without usage has no row. Raises `Invalid` for dates and granularities that make no sense, and for more
    than 400 periods.
    """
    result = _Usage(_periods(reader, options))
    metrics = {metric.id: metric for metric in reader.tx.find(BillableMetric, *_of_metric(options), deleted=True)}
    metric_ids = frozenset(metrics)
    _count_billed(reader, options, metric_ids, result)
    _count_in_advance(reader, options, metric_ids, result)
    _count_running(reader, options, metric_ids, result)
    rows = [
        UsageOfMetric(
            start=period.start,
            end=period.end,
            code=metrics[metric_id].code,
            is_deleted=metrics[metric_id].deleted_at is not None,
            currency=currency,
            amount_cents=amount.cents,
            units=amount.units,
        )
        for (period, metric_id, currency), amount in result.amounts.items()
        if amount.cents or amount.units
    ]
    return sorted(rows, key=lambda row: (row.start, row.code, row.is_deleted, row.currency))


def _periods(reader: Reader, options: UsageFilters) -> list[_Period]:
    sent = value_or(options.time_granularity, None) or Granularity.DAILY
    if sent not in tuple(Granularity):
        raise Invalid(time_granularity="value_is_invalid")
    granularity = Granularity(sent)
    last = _date("to_date", options.to_date)
    until = last or reader.now.astimezone(UTC).date()
    first = _date("from_date", options.from_date) or _looked_back(granularity, until)
    if first > until:
        raise Invalid(to_date="value_is_invalid")
    if (until - first).days > 31 * _MOST_PERIODS:
        raise Invalid(from_date="value_is_out_of_range")
    periods = list(_divided(granularity, first, until, whole_end=last is None))
    if len(periods) > _MOST_PERIODS:
        raise Invalid(from_date="value_is_out_of_range")
    return periods


def _date(name: str, sent: Maybe[str]) -> date | None:
    if not sent:
        return None
    parsed = parse_instant(sent)
    if parsed is None:
        raise Invalid({name: ["invalid_date"]})
    if not FIRST_DAY <= parsed.date() <= LAST_DAY:
        raise Invalid({name: ["value_is_out_of_range"]})
    return parsed.date()


def _looked_back(granularity: Granularity, until: date) -> date:
    number = _LOOKED_BACK[granularity]
    if granularity is Granularity.DAILY:
        return until - (number - 1) * _DAY
    if granularity is Granularity.WEEKLY:
        return until - (until.weekday() + 7 * (number - 1)) * _DAY
    return add_months(month_of(until), 1 - number)


def _divided(granularity: Granularity, first: date, last: date, *, whole_end: bool) -> Iterator[_Period]:
    """The periods from `first` to `last`; with `whole_end` the latest is a whole one."""
    if granularity is Granularity.MONTHLY:
        starts = months_between(first, last)
        ends = [add_months(start, 1) - _DAY for start in starts]
    else:
        length = 1 if granularity is Granularity.DAILY else 7
        monday = first - (first.weekday() if length == 7 else 0) * _DAY
        starts = [monday + number * length * _DAY for number in range((last - monday).days // length + 1)]
        ends = [start + (length - 1) * _DAY for start in starts]
    for start, end in zip(starts, ends, strict=True):
        yield _Period(max(start, first), end if whole_end else min(end, last))


def _of_metric(options: UsageFilters) -> Iterator[Condition]:
    if options.billable_metric_code:
        yield eq("code", options.billable_metric_code)
    if isinstance(options.is_billable_metric_recurring, bool):
        yield eq("recurring", options.is_billable_metric_recurring)


def _of_customer(options: UsageFilters) -> Iterator[Condition]:
    if options.external_customer_id:
        yield eq("external_id", options.external_customer_id)
    if options.customer_type:
        yield eq("customer_type", options.customer_type)
    if options.customer_country:
        yield eq("country", options.customer_country.upper())


def _of_plan(options: UsageFilters) -> Iterator[Condition]:
    if options.plan_code:
        yield eq("code", options.plan_code)
    if options.currency:
        yield eq("amount_currency", options.currency.upper())


def _of_fee(options: UsageFilters, metric_ids: frozenset[str]) -> Iterator[Condition]:
    yield eq("fee_type", FeeType.CHARGE)
    yield eq("self_billed", False)
    yield missing("true_up_parent_fee_id")
    yield within("billable_metric_id", sorted(metric_ids))
    if options.currency:
        yield eq("currency", options.currency.upper())
    if options.external_subscription_id:
        yield eq("external_subscription_id", options.external_subscription_id)
    if customer := tuple(_of_customer(options)):
        yield related(Customer, "customer_id", *customer)
    if options.plan_code:
        yield related(Subscription, "subscription_id", related(Plan, "plan_id", eq("code", options.plan_code)))


def _zone(chosen: object, inherited: object) -> ZoneInfo:
    return ZoneInfo(str(chosen or inherited or "UTC"))


def _span(periods: Sequence[_Period]) -> tuple[datetime, datetime]:
    """All instants that may belong to the periods, in whatever time zone."""
    first, last = periods[0].start, periods[-1].end
    return datetime.combine(first - _DAY, time(), UTC), datetime.combine(last + 2 * _DAY, time(), UTC)


def _count_billed(reader: Reader, options: UsageFilters, metric_ids: frozenset[str], result: _Usage) -> None:
    """Count the fees of periods that have been billed."""
    start, end = _span(result.periods)
    keys = [
        GroupKey("charges_from_datetime"),
        GroupKey("charges_to_datetime"),
        GroupKey("timezone", _CUSTOMER),
        GroupKey("timezone", _ENTITY),
        GroupKey("subscription_id"),
        GroupKey("invoice_id"),
        GroupKey("currency"),
        GroupKey("billable_metric_id"),
    ]
    conditions = (
        *_of_fee(options, metric_ids),
        eq("pay_in_advance", False),
        at_least("charges_to_datetime", start),
        at_most("charges_from_datetime", end),
        related(Invoice, "invoice_id", within("status", BILLED), ne("invoice_type", InvoiceType.PROGRESSIVE_BILLING)),
    )
    divided: dict[tuple[datetime, datetime, ZoneInfo, tuple[object, ...]], _Amounts] = defaultdict(dict)
    for group in reader.tx.grouped(Fee, keys, ["amount_cents", "units"], *conditions):
        since, until, chosen, inherited, *names, metric_id = group.key
        tz = _zone(chosen, inherited)
        first, last = _local(_instant(since), tz), _local(_instant(until), tz)
        amount = _Amount(int(group.sums[0]), group.sums[1])
        period = result.period_of(first, last)
        if period is not None:
            result.count(period, str(metric_id), str(names[2]), amount)
        else:
            divided[_instant(since), _instant(until), tz, tuple(names)][str(metric_id)] = amount
    for (opens, closes, tz, (subscription_id, invoice_id, currency)), whole in divided.items():
        subscription = find_subscription(reader, str(subscription_id))
        billed = reader.tx.first(BillingPeriod, eq("invoice_id", invoice_id), eq("subscription_id", subscription_id))
        days = (closes - opens).days + 1
        duration = days if billed is None or billed.charges_duration is None else billed.charges_duration
        if subscription is not None:
            span = Span(start=opens, end=closes, duration=duration)
            window = _billed_window(reader, subscription, span, tz, billed)
            period = result.period_of(*_days_of(window))
            if period is not None:
                for metric_id, amount in whole.items():
                    result.count(period, metric_id, str(currency), amount)
                continue
            result.divide(window, str(currency), whole, _counter(reader, subscription, frozenset(whole), window))


def _billed_window(
    reader: Reader, subscription: Subscription, span: Span, tz: ZoneInfo, billed: BillingPeriod | None
) -> Window:
    """The window with the days that it was billed by: those of the time zone of then."""
    if billed is None:
        return usage_window(span, tz, subscription)
    zone = ZoneInfo(billed.timezone)
    if span.start.astimezone(zone).time() != time():
        contract = contract_of(reader, subscription)
        windows = usage_windows(contract.cycle(zone), with_days(contract.cycle(zone), boundaries_of(billed)))
        resumed = next((window for window in windows if window.start == span.start), span)
        span = replace(span, days_start=resumed.days_start)
    return usage_window(span, zone, subscription)


def _instant(text: object) -> datetime:
    return datetime.fromisoformat(str(text))


def _count_in_advance(reader: Reader, options: UsageFilters, metric_ids: frozenset[str], result: _Usage) -> None:
    """Count the fees of events charged in advance, on the day of the event."""
    start, end = _span(result.periods)
    keys = [
        GroupKey("created_at"),
        GroupKey("timezone", _CUSTOMER),
        GroupKey("timezone", _ENTITY),
        GroupKey("currency"),
        GroupKey("billable_metric_id"),
    ]
    conditions = (
        *_of_fee(options, metric_ids),
        eq("pay_in_advance", True),
        at_least("created_at", start),
        at_most("created_at", end),
        any_of(missing("invoice_id"), related(Invoice, "invoice_id", within("status", BILLED))),
    )
    for group in reader.tx.grouped(Fee, keys, ["amount_cents", "units"], *conditions):
        at, customer_zone, entity_zone, currency, metric_id = group.key
        day = _local(_instant(at), _zone(customer_zone, entity_zone))
        period = result.period_of(day, day)
        if period is not None:
            amount = _Amount(int(group.sums[0]), group.sums[1])
            result.count(period, str(metric_id), str(currency), amount)


def _count_running(reader: Reader, options: UsageFilters, metric_ids: frozenset[str], result: _Usage) -> None:
    """Count the usage so far of active subscriptions in their running periods."""
    conditions = [eq("status", SubscriptionStatus.ACTIVE), present("started_at")]
    if options.external_subscription_id:
        conditions.append(eq("external_id", options.external_subscription_id))
    conditions.append(
        related(Customer, "customer_id", eq("account_type", AccountType.CUSTOMER), *_of_customer(options))
    )
    if of_plan := tuple(_of_plan(options)):
        conditions.append(related(Plan, "plan_id", *of_plan))
    for active in reader.tx.find(Subscription, *conditions):
        subscription = in_force(reader, active)
        try:
            window = running_window(reader, subscription)
        except NotAllowed:
            continue
        first, last = _days_of(window)
        if first > result.periods[-1].end or last < result.periods[0].start:
            continue
        so_far = _counter(reader, subscription, metric_ids, window)
        (now,) = so_far([reader.now])
        currency = plan_definition(reader, subscription.plan_id).plan.amount_currency
        # Nothing is used after now.
        today = min(reader.now, window.end)
        shown = Window(
            start=window.start, end=today, period_days=window.period_days, tz=window.tz, days_start=window.days_start
        )
        result.divide(shown, currency, now, so_far)


def _counter(
    reader: Reader, subscription: Subscription, metric_ids: frozenset[str], window: Window
) -> Callable[[Sequence[datetime]], list[_Amounts]]:
    """A function that gives the amounts, up to instants in order, of the charges of these metrics billed in arrears."""
    definition = definition_for(reader, subscription, window.start)
    charges = [
        charge for charge in definition.charges if charge.billable_metric_id in metric_ids and not charge.pay_in_advance
    ]
    neighbours = Neighbours(reader, subscription) if charges else None

    def so_far(instant: datetime) -> _Amounts:
        amounts: _Amounts = {}
        then = reader.at(min(instant, reader.now))
        for item in usage_within(then, subscription, charges, window, counted_until=instant, neighbours=neighbours):
            for line in item.results:
                amount = _Amount(line.amounts.amount_cents, line.amounts.units)
                amounts[line.metric.id] = amounts.get(line.metric.id, _NOTHING).plus(amount)
        return amounts

    def at(instants: Sequence[datetime]) -> list[_Amounts]:
        if not charges:
            return [{} for _ in instants]
        amounts: list[_Amounts] = []
        quiet = _quiet(
            reader,
            subscription,
            [(charge, definition.metrics[charge.billable_metric_id]) for charge in charges],
            instants,
        )
        for instant, is_quiet in zip(instants, quiet, strict=True):
            amounts.append(amounts[-1] if is_quiet else so_far(instant))
        return amounts

    return at


def _changes_by_itself(metric: BillableMetric) -> bool:
    """Whether usage may grow without an event."""
    is_level = AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.LEVEL
    return is_level or metric.aggregation_type not in COUNTED


def _quiet(
    reader: Reader,
    subscription: Subscription,
    charged: Sequence[tuple[Charge, BillableMetric]],
    instants: Sequence[datetime],
) -> list[bool]:
    """For each instant, whether the charges have no event between the previous instant and it: usage is the same.

    Always false if usage changes with time alone, and if there are so many events that counting them for this costs
    more than it saves.
    """
    loud = [False] * len(instants)
    if len(instants) < 2 or any(charge.prorated or _changes_by_itself(metric) for charge, metric in charged):
        return loud
    codes = sorted({metric.code for _, metric in charged})
    external_id = subscription.external_id
    for code in codes:
        query = EventQuery(code=code, external_subscription_id=external_id, earliest=instants[0], latest=instants[-1])
        if reader.tx.events.size(query, at_most=_MOST_COUNTED) >= _MOST_COUNTED:
            return loud
    steps = list(pairwise(instants))
    ranges = [
        EventRange(external_subscription_id=external_id, code=code, earliest=before + MICROSECOND, latest=instant)
        for before, instant in steps
        for code in codes
    ]
    counts = reader.tx.events.count_in_ranges(ranges)
    return [False, *(not any(counts[place * len(codes) : (place + 1) * len(codes)]) for place in range(len(steps)))]
