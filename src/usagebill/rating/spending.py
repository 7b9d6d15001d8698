"""What has been used of a spend limit, and what more usage would add: by the charge models that bill it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, RunningTotals, Window
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.checks import Addition
from usagebill.core.contracts import Contract
from usagebill.core.customers import Customer
from usagebill.core.events import Event
from usagebill.core.instants import MICROSECOND
from usagebill.core.numbers import ZERO, add, multiply, subtract, total
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.pricing import MODELS
from usagebill.core.pricing.fees import true_up
from usagebill.core.pricing.standard import STANDARD
from usagebill.core.spend_limits import LimitInterval, Measure, SpendLimit, Values, interval_at
from usagebill.core.subscriptions import STARTED, Subscription, SubscriptionStatus
from usagebill.core.taxes import Tax, usage_taxes_cents, with_taxes
from usagebill.queries.contracts import contract_of
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import definition_for
from usagebill.queries.takeovers import in_force
from usagebill.queries.taxes import taxes_for
from usagebill.rating.charge_scope import ChargeScope
from usagebill.rating.current_usage import ChargeUsage, contract_window, running_definition, usage_within
from usagebill.rating.events import advance_charges, event_price
from usagebill.rating.fees.in_advance import event_billing
from usagebill.rating.usage import charge_results, with_event
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import any_of, asc, eq, missing, more, within


@dataclass(frozen=True, slots=True)
class Span:
    """The time that a limit counts: from `start` (None: the very beginning), until it resets (None: never)."""

    start: datetime | None
    resets_at: datetime | None


def span_of(reader: Reader, limit: SpendLimit, contract: Contract) -> Span:
    """The time that the limit counts now; of a customer's billing periods, that of the contract's."""
    match limit.interval:
        case LimitInterval.BILLING_PERIOD:
            window = contract_window(reader, contract)
            return Span(window.start, window.end + MICROSECOND)
        case LimitInterval.DAY | LimitInterval.MONTH:
            return Span(*interval_at(limit.interval, reader.now, contract.zone))
        case LimitInterval.LIFETIME:
            return Span(None, None)


def used_of(reader: Reader, limit: SpendLimit, subscription: Subscription) -> Decimal:
    """What has been used of a limit of the subscription's usage, in cents before taxes or in units."""
    contract = contract_of(reader, subscription)
    start = span_of(reader, limit, contract).start
    currency = contract.plan.amount_currency
    if limit.interval is LimitInterval.BILLING_PERIOD:
        running = _running(reader, limit, subscription)
        parts = [_within(reader, limit, one, contract_window(reader, contract_of(reader, one))) for one in running]
        return total(used for one, used in zip(running, parts, strict=True) if currency_of(reader, one) == currency)
    whole = ZERO
    for at, one, window in _periods(reader, limit, subscription, start):
        if currency_of(reader, one) != currency:
            continue
        whole = add(whole, _within(at, limit, one, window))
        if start is not None and window.start < start:
            whole = subtract(whole, _within(at, limit, one, window, until=start - MICROSECOND))
    return whole


def currency_of(reader: Reader, subscription: Subscription) -> str:
    """The currency of the subscription's plan."""
    return plan_definition(reader, subscription.plan_id).plan.amount_currency


def _running(reader: Reader, limit: SpendLimit, subscription: Subscription) -> list[Subscription]:
    """The active subscriptions that a limit counts; of its own or its plan's, the subscription alone."""
    if not limit.is_customers:
        return [subscription]
    active = reader.tx.find(
        Subscription,
        eq("customer_id", subscription.customer_id),
        eq("status", SubscriptionStatus.ACTIVE),
        order=[asc("created_at"), asc("id")],
    )
    return [in_force(reader, one) for one in active]


def _periods(
    reader: Reader, limit: SpendLimit, subscription: Subscription, start: datetime | None
) -> Iterator[tuple[Reader, Subscription, Window]]:
    """The charges periods that end at `start` or later, each with a reader in it, of the subscriptions that the limit
    counts: those of a customer, or of one external id across plan changes.
    """
    own = () if limit.is_customers else (eq("external_id", subscription.external_id),)
    ended_later = () if start is None else (any_of(missing("terminated_at"), more("terminated_at", start)),)
    counted = reader.tx.find(
        Subscription,
        eq("customer_id", subscription.customer_id),
        within("status", STARTED),
        *own,
        *ended_later,
        order=[asc("created_at"), asc("id")],
    )
    for one in counted:
        if one.started_at is None:
            continue
        using = in_force(reader, one) if one.status == SubscriptionStatus.ACTIVE else one
        contract = contract_of(reader, one)
        at = reader if one.terminated_at is None else reader.at(one.terminated_at)
        if using is not one:
            # From the midnight of a downgrade on, the period is the successor's.
            window = contract_window(reader, contract_of(reader, using))
            yield reader, using, window
            at = reader.at(window.start - MICROSECOND)
        began = max(one.started_at, start) if start is not None else one.started_at
        while True:
            window = contract_window(at, contract)
            yield at, one, window
            if window.start <= began:
                break
            at = reader.at(window.start - MICROSECOND)


def _within(
    reader: Reader, limit: SpendLimit, subscription: Subscription, window: Window, *, until: datetime | None = None
) -> Decimal:
    """What a limit counts in one charges period, up to an instant in it."""
    if limit.measure is Measure.UNITS:
        metric = reader.tx.get(BillableMetric, limit.billable_metric_id or "", deleted=True)
        return ZERO if metric is None else units_within(reader, subscription, metric, window, limit.group, until=until)
    charges = [
        charge
        for charge in definition_for(reader, subscription, window.start).charges
        if limit.billable_metric_id in (None, charge.billable_metric_id)
    ]
    usages = usage_within(reader, subscription, charges, window, counted_until=until, only=limit.group)
    return total(_amount(usage, window, with_minimum=not limit.group) for usage in usages)


def _amount(usage: ChargeUsage, window: Window, *, with_minimum: bool = True) -> Decimal:
    """The cents of a charge's usage, before rounding, brought up to its minimum as its invoice will be."""
    charge = usage.charge
    # In advance nothing is billed before the first event, not even a flat amount.
    amounts = [result.amounts for result in usage.results if result.amounts.events_count or not charge.pay_in_advance]
    used = total(amount.precise_amount_cents for amount in amounts)
    if not with_minimum or charge.min_amount_cents <= 0 or charge.pay_in_advance:
        return used
    rate = Decimal(1)
    if charge.applied_pricing_unit is not None:
        # The minimum is in the pricing unit.
        rate = charge.applied_pricing_unit.conversion_rate
        in_unit = [amount.pricing_unit for amount in amounts if amount.pricing_unit is not None]
        cents = sum(amount.amount_cents for amount in in_unit)
        precise = total(amount.precise_amount_cents for amount in in_unit)
    else:
        cents, precise = sum(amount.amount_cents for amount in amounts), used
    missing_part = true_up(charge.min_amount_cents, window.days, window.period_days, cents, precise)
    return used if missing_part is None else add(used, multiply(missing_part.precise_amount_cents, rate))


def units_within(
    reader: Reader,
    subscription: Subscription,
    metric: BillableMetric,
    window: Window,
    group: Values,
    *,
    until: datetime | None = None,
) -> Decimal:
    """The units of a metric in a charges period, whether or not the plan has a price for them."""
    return _units(_counted_alone(reader, subscription, metric, window, group, until=until))


def _units(usage: ChargeUsage) -> Decimal:
    return total(result.amounts.units for result in usage.results)


def _counted_alone(
    reader: Reader,
    subscription: Subscription,
    metric: BillableMetric,
    window: Window,
    group: Values,
    *,
    until: datetime | None = None,
) -> ChargeUsage:
    """The usage of a metric in a charges period, at no price."""
    counting = Charge(
        id="",
        organization_id=metric.organization_id,
        plan_id=subscription.plan_id,
        billable_metric_id=metric.id,
        code="",
        charge_model=STANDARD.name,
        properties={"amount": "0"},
        created_at=subscription.created_at,
        updated_at=subscription.created_at,
    )
    scope = ChargeScope(
        subscription=subscription,
        currency=currency_of(reader, subscription),
        window=window,
        current=True,
        counted_until=until,
        only=group,
    )
    return ChargeUsage(charge=counting, results=tuple(charge_results(reader, counting, metric, scope)))


def prices_alike(reader: Reader, subscription: Subscription, metric: BillableMetric) -> bool:
    """Whether an event of the metric costs the same whatever was used before, so that open holds do not matter."""
    aggregation = AGGREGATIONS[metric.aggregation_type]
    charges = [
        charge for charge in running_definition(reader, subscription).charges if charge.billable_metric_id == metric.id
    ]
    # Units that are summed or counted; those of unique values are not.
    adds_up = (
        aggregation.running_totals is not RunningTotals.NONE and aggregation.accumulation is not Accumulation.VALUES
    )
    return (adds_up and metric.rounding_function is None) and all(
        MODELS[charge.charge_model].is_linear and not charge.min_amount_cents and not charge.prorated
        for charge in charges
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricUsage:
    """The usage of one metric in a charges period, to be compared with what it is after more: by charge in arrears, and
    at no price.
    """

    window: Window
    charges: Sequence[ChargeUsage]
    alone: ChargeUsage


def in_period_of(reader: Reader, subscription: Subscription, at: datetime) -> Reader:
    """A reader of the charges period with this instant: in the running one now, in others their end."""
    window = contract_window(reader.at(at), contract_of(reader, subscription))
    return reader if window.start <= reader.now <= window.end else reader.at(window.end, known_at=reader.now)


def metric_usage(reader: Reader, subscription: Subscription, metric: BillableMetric) -> MetricUsage:
    """The usage of the metric so far in the charges period of the reader's instant."""
    window = contract_window(reader, contract_of(reader, subscription))
    charges = _arrears(definition_for(reader, subscription, window.start), metric)
    return MetricUsage(
        window=window,
        charges=usage_within(reader, subscription, charges, window),
        alone=_counted_alone(reader, subscription, metric, window, {}),
    )


def with_event_alike(
    reader: Reader, subscription: Subscription, metric: BillableMetric, usage: MetricUsage, event: Event
) -> MetricUsage:
    """The usage with an event more, without counting again, if its prices are alike (`prices_alike`)."""
    currency = currency_of(reader, subscription)

    def added(one: ChargeUsage) -> ChargeUsage:
        return replace(one, results=tuple(with_event(one.charge, metric, one.results, event, currency)))

    return replace(usage, charges=[added(one) for one in usage.charges], alone=added(usage.alone))


def added_by(
    reader: Reader,
    customer: Customer,
    subscription: Subscription,
    metric: BillableMetric,
    event: Event,
    *,
    before: MetricUsage,
    after: MetricUsage,
) -> Addition:
    """What the `event` adds, from the usage `before` and `after`. It is stored, or costs the same whatever was used
    before (`prices_alike`).
    """
    definition = definition_for(reader, subscription, before.window.start)
    added = Addition(units=max(ZERO, subtract(_units(after.alone), _units(before.alone))))
    for one, other in zip(before.charges, after.charges, strict=True):
        cents = subtract(_amount(other, before.window), _amount(one, before.window))
        added = added.plus(_taxed(cents, _taxes(reader, customer, definition, one.charge)))
    return added.plus(added_in_advance(reader, customer, subscription, metric, event))


def added_in_advance(
    reader: Reader, customer: Customer, subscription: Subscription, metric: BillableMetric, event: Event
) -> Addition:
    """What an event costs that is billed by itself, with the taxes of each fee, which is in whole cents. It is stored,
    or costs the same whatever was used before (`prices_alike`).
    """
    if not advance_charges(plan_definition(reader, subscription.plan_id), event):
        return Addition()
    billing = event_billing(reader, subscription, event.timestamp)
    currency = billing.definition.plan.amount_currency
    added = Addition()
    for charge in advance_charges(billing.definition, event):
        priced = event_price(
            reader, charge, metric, event, billing.window, currency=currency, subscription=subscription
        )
        cents = priced.amounts.amount_cents
        taxes = usage_taxes_cents([(cents, _taxes(reader, customer, billing.definition, charge))])
        # Credits pay invoices alone.
        total_cents = Decimal(cents + taxes) if charge.invoiceable else ZERO
        added = added.plus(Addition(amount_cents=priced.amounts.precise_amount_cents, total_cents=total_cents))
    return added


def _arrears(definition: PlanDefinition, metric: BillableMetric) -> list[Charge]:
    return [
        charge for charge in definition.charges if charge.billable_metric_id == metric.id and not charge.pay_in_advance
    ]


def _taxes(reader: Reader, customer: Customer, definition: PlanDefinition, charge: Charge) -> Sequence[Tax]:
    return taxes_for(reader, customer, definition.plan, charge.tax_ids)


def _taxed(cents: Decimal, taxes: Sequence[Tax]) -> Addition:
    return Addition(amount_cents=cents, total_cents=with_taxes(cents, taxes))


def amount_added(reader: Reader, customer: Customer, subscription: Subscription, cents: int) -> Addition:
    """An amount before taxes as an addition; the plan's taxes come on top."""
    definition = plan_definition(reader, subscription.plan_id)
    return _taxed(Decimal(cents), taxes_for(reader, customer, definition.plan))
