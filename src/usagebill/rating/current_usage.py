"""Usage of the running period: the cost of each charge so far, with taxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from usagebill.core.aggregation import Window
from usagebill.core.charge_parts import ChargeResult
from usagebill.core.contracts import Contract
from usagebill.core.currencies import exponent
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.grouping import Breakdown
from usagebill.core.numbers import ZERO
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.pricing.projection import Projection, project, projected_units
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.taxes import usage_taxes_cents
from usagebill.process.json_text import parse_json
from usagebill.queries.billing_periods import cycle_at, running_boundaries
from usagebill.queries.contracts import contract_of
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import definition_for
from usagebill.queries.takeovers import in_force
from usagebill.queries.taxes import taxes_for
from usagebill.rating.charge_scope import ChargeScope, usage_window
from usagebill.rating.handover import Neighbours
from usagebill.rating.provider_taxes import usage_taxes
from usagebill.rating.usage import charge_results
from usagebill.requests.inputs import ABSENT, Input, Maybe, described
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import desc, eq


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeUsage:
    """The usage of one charge: a result for each filter and group, and the cents that open holds would add."""

    charge: Charge
    results: tuple[ChargeResult, ...]
    held_amount_cents: int = 0
    projections: tuple[Projection, ...] | None = None
    # The projected units by presentation keys, for each result.
    projected_breakdowns: tuple[Breakdown, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentUsage:
    """Usage from `start` to `end` (UTC instants, inclusive), in cents of `currency`; open holds would add
    `held_amount_cents`.
    """

    start: datetime
    end: datetime
    issuing_date: date
    currency: str
    charges: tuple[ChargeUsage, ...]
    amount_cents: int
    taxes_amount_cents: int
    held_amount_cents: int = 0
    is_projected: bool = False


@Input
class UsageOptions:
    external_subscription_id: Maybe[str] = ABSENT
    apply_taxes: Maybe[bool] = ABSENT
    charge_id: Maybe[str] = ABSENT
    filter_by_charge_id: Maybe[str] = described("The same as `charge_id`.")
    charge_code: Maybe[str] = ABSENT
    filter_by_charge_code: Maybe[str] = described("The same as `charge_code`.")
    billable_metric_code: Maybe[str] = ABSENT
    filter_by_metric_code: Maybe[str] = described("The same as `billable_metric_code`.")
    group: Maybe[object] = described("The same as `filter_by_group`.")
    filter_by_group: Maybe[object] = described("Only the group with these values of the pricing group keys.")
    filter_by_presentation: Maybe[object] = described("The presentation keys to break units down by.")
    skip_grouping: Maybe[bool] = described("Whether groups are added up.", default="false")
    full_usage: Maybe[bool] = described(
        "Whether to include usage of the period that is already invoiced.", default="false"
    )


@Input
class ProjectedUsageOptions:
    external_subscription_id: Maybe[str] = ABSENT
    apply_taxes: Maybe[bool] = ABSENT


def _subscription(reader: Reader, customer: Customer, external_id: object) -> Subscription:
    if isinstance(external_id, str) and external_id:
        subscription = reader.tx.first(
            Subscription,
            eq("customer_id", customer.id),
            eq("external_id", external_id),
            eq("status", SubscriptionStatus.ACTIVE),
            order=[desc("started_at")],
        )
        if subscription is not None:
            return in_force(reader, subscription)
    raise NotAllowed("no_active_subscription")


def _chosen_charges(definition: PlanDefinition, options: UsageOptions) -> tuple[list[Charge], bool]:
    """The requested charges, and whether the request names any. An id wins over a code, a code over a metric."""
    id = options.charge_id or options.filter_by_charge_id
    code = options.charge_code or options.filter_by_charge_code
    metric_code = options.billable_metric_code or options.filter_by_metric_code
    charges = list(definition.charges)
    if id:
        charges = [charge for charge in charges if charge.id == id]
    elif code:
        charges = [charge for charge in charges if charge.code == code]
    elif metric_code:
        metrics = definition.metrics
        charges = [charge for charge in charges if metrics[charge.billable_metric_id].code == metric_code]
    else:
        return charges, False
    if not charges:
        raise NotFound("charge", id or code or metric_code)
    return charges, True


def is_narrowed(options: UsageOptions) -> bool:
    """Whether the request is about some of the usage: of the charges or groups that it names."""
    names = (options.charge_id, options.filter_by_charge_id, options.charge_code, options.filter_by_charge_code)
    metrics = options.billable_metric_code, options.filter_by_metric_code
    return any((*names, *metrics, _group_filter(options)))


def _parsed(field: str, value: object) -> object:
    """JSON text parsed; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value.encode())
    except ValueError as problem:
        raise Invalid({field: ["invalid_format"]}) from problem


def _presented(options: UsageOptions) -> tuple[str, ...] | None:
    presentation = options.filter_by_presentation
    if presentation == "":
        return None
    keys = _parsed("filter_by_presentation", presentation)
    return tuple(str(key) for key in keys) if isinstance(keys, (list, tuple)) else None


def _group_filter(options: UsageOptions) -> dict[str, tuple[str, ...]]:
    groups = _parsed("filter_by_group", options.group or options.filter_by_group)
    if not isinstance(groups, Mapping):
        return {}
    only: dict[str, tuple[str, ...]] = {}
    for key, value in groups.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        only[str(key)] = tuple(str(value) for value in values)
    return only


def current(reader: Reader, external_customer_id: str, options: UsageOptions) -> CurrentUsage:
    """The usage of the customer's active subscription in the charges period that contains now.

    Raises `NotFound` for the customer or the requested charges, `NotAllowed` (`no_active_subscription`,
    `full_usage_not_allowed`).
    """
    customer = customer_by_external_id(reader, external_customer_id)
    subscription = _subscription(reader, customer, options.external_subscription_id)
    definition = running_definition(reader, subscription)
    charges, named = _chosen_charges(definition, options)
    only = _group_filter(options)
    full = bool(options.full_usage)
    if full and (not (named or only) or any(charge.prorated for charge in charges)):
        raise NotAllowed("full_usage_not_allowed")
    with_taxes = options.apply_taxes is ABSENT or options.apply_taxes is None or options.apply_taxes
    window = running_window(reader, subscription, full=full)
    scope = ChargeScope(
        subscription=subscription,
        currency=definition.plan.amount_currency,
        window=window,
        current=True,
        only=only,
        ungrouped=bool(options.skip_grouping),
        presented=_presented(options),
    )
    usages = _charge_usages(reader, charges, definition, scope, named=named)
    return _summed(reader, customer, definition, usages, window, with_taxes=with_taxes)


def running_window(reader: Reader, subscription: Subscription, *, full: bool = False) -> Window:
    """The subscription's charges period that contains now; with `full`, from the start of the subscription.

    Raises `NotAllowed` (`no_active_subscription`) if there is none.
    """
    return contract_window(reader, contract_of(reader, subscription), full=full)


def contract_window(reader: Reader, contract: Contract, *, full: bool = False) -> Window:
    """`running_window` for a contract."""
    cycle = cycle_at(contract, reader.now)
    charges = running_boundaries(reader, contract, cycle, reader.now).charges
    if charges is None:
        raise NotAllowed("no_active_subscription")
    span = replace(charges, start=cycle.started_at, days_start=None) if full else charges
    return usage_window(span, cycle.tz, contract.subscription)


def running_definition(reader: Reader, subscription: Subscription) -> PlanDefinition:
    """The plan of an active subscription with the prices of its running charges period."""
    definition = plan_definition(reader, subscription.plan_id)
    if definition.plan.has_one_price:
        return definition
    return definition_for(reader, subscription, running_window(reader, subscription).start)


def usage_so_far(
    reader: Reader, subscription: Subscription, *, paid_in_advance: bool = True
) -> tuple[Window, list[ChargeUsage]]:
    """The running charges period of an active subscription, and the cost of each charge so far.

    Charges paid in advance are left out if `paid_in_advance` is false.
    """
    window = running_window(reader, subscription)
    definition = definition_for(reader, subscription, window.start)
    charges = [charge for charge in definition.charges if paid_in_advance or not charge.pay_in_advance]
    return window, usage_within(reader, subscription, charges, window)


def usage_within(
    reader: Reader,
    subscription: Subscription,
    charges: Sequence[Charge],
    window: Window,
    *,
    counted_until: datetime | None = None,
    neighbours: Neighbours | None = None,
    only: Mapping[str, tuple[str, ...]] | None = None,
) -> list[ChargeUsage]:
    """The usage so far of these charges of the subscription's plan in `window`.

    `counted_until` is the last instant that counts, by default the end of the window; `neighbours` are looked up unless
    passed. `only` keeps events with these values of properties.
    """
    definition = plan_definition(reader, subscription.plan_id)
    scope = ChargeScope(
        subscription=subscription,
        currency=definition.plan.amount_currency,
        window=window,
        current=True,
        counted_until=counted_until,
        neighbours=neighbours,
        only=only or {},
    )
    return _charge_usages(reader, charges, definition, scope, named=True)


def _charge_usages(
    reader: Reader, charges: Sequence[Charge], definition: PlanDefinition, scope: ChargeScope, *, named: bool
) -> list[ChargeUsage]:
    metrics = definition.metrics
    ordered = charges if named else sorted(charges, key=lambda charge: metrics[charge.billable_metric_id].name.lower())
    return [
        ChargeUsage(
            charge=charge,
            results=tuple(charge_results(reader, charge, metrics[charge.billable_metric_id], scope)),
        )
        for charge in ordered
    ]


def _taxes(reader: Reader, customer: Customer, definition: PlanDefinition, usages: Sequence[ChargeUsage]) -> int:
    metrics = [definition.metrics[usage.charge.billable_metric_id] for usage in usages]
    provided = usage_taxes(
        reader,
        customer,
        definition.plan.amount_currency,
        [
            (metric.code, metric.name, result.amounts.amount_cents, result.amounts.units)
            for usage, metric in zip(usages, metrics, strict=True)
            for result in usage.results
        ],
    )
    if provided is not None:
        return provided
    taxes = [taxes_for(reader, customer, definition.plan, usage.charge.tax_ids) for usage in usages]
    return usage_taxes_cents(
        (result.amounts.amount_cents, charge_taxes)
        for usage, charge_taxes in zip(usages, taxes, strict=True)
        for result in usage.results
    )


def _summed(
    reader: Reader,
    customer: Customer,
    definition: PlanDefinition,
    usages: Sequence[ChargeUsage],
    window: Window,
    *,
    with_taxes: bool,
    is_projected: bool = False,
) -> CurrentUsage:
    taxes = _taxes(reader, customer, definition, usages) if with_taxes else 0
    return CurrentUsage(
        start=window.start,
        end=window.end,
        issuing_date=window.end.astimezone(UTC).date(),
        currency=definition.plan.amount_currency,
        charges=tuple(usages),
        amount_cents=sum(result.amounts.amount_cents for usage in usages for result in usage.results),
        taxes_amount_cents=taxes,
        is_projected=is_projected,
    )


def projected(reader: Reader, external_customer_id: str, options: ProjectedUsageOptions) -> CurrentUsage:
    """Current usage, projected to the end of the period at the same pace."""
    customer = customer_by_external_id(reader, external_customer_id)
    subscription = _subscription(reader, customer, options.external_subscription_id)
    window = running_window(reader, subscription)
    definition = definition_for(reader, subscription, window.start)
    with_taxes = options.apply_taxes is ABSENT or options.apply_taxes is None or options.apply_taxes
    scope = ChargeScope(
        subscription=subscription,
        currency=definition.plan.amount_currency,
        window=window,
        current=True,
    )
    elapsed, whole = _elapsed(reader.now, window)
    usages = [
        ChargeUsage(
            charge=usage.charge,
            results=usage.results,
            projections=tuple(_projection(result, elapsed, whole, definition) for result in usage.results),
            projected_breakdowns=tuple(
                _projected_breakdown(result, elapsed, whole, definition) for result in usage.results
            ),
        )
        for usage in _charge_usages(reader, definition.charges, definition, scope, named=False)
    ]
    return _summed(reader, customer, definition, usages, window, with_taxes=with_taxes, is_projected=True)


def _elapsed(now: datetime, window: Window) -> tuple[int, int]:
    """The number of days of the period that have begun, and of all its days."""
    return (0 if now < window.start else window.days_until(window.start, now)), window.days


def _projection(result: ChargeResult, elapsed: int, whole: int, definition: PlanDefinition) -> Projection:
    """The projected usage.

    Recurring metrics are not projected; neither is usage of a charge with filters that matches none of them.
    """
    unit = result.charge.applied_pricing_unit
    if result.charge.filters and result.part.filter is None and not result.metric.recurring:
        return Projection(units=ZERO, amount_cents=0, pricing_unit_amount_cents=None if unit is None else 0)
    return project(
        result.charge.charge_model,
        result.properties,
        result.usage,
        definition.plan.amount_currency,
        days=elapsed,
        period_days=whole,
        recurring=result.metric.recurring,
        conversion_rate=None if unit is None else unit.conversion_rate,
    )


def _projected_breakdown(result: ChargeResult, elapsed: int, whole: int, definition: PlanDefinition) -> Breakdown:
    if result.metric.recurring:
        return result.breakdown
    decimals = exponent(definition.plan.amount_currency)
    return tuple((by, projected_units(units, elapsed, whole, decimals=decimals)) for by, units in result.breakdown)
