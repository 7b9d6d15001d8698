"""Price versions: every change of what decides an amount makes the organization's next one, by number.

A version names each definition as it stood at one moment, so that one number on a fee says what it was computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Any, TypeVar

from usagebill.core.activity_logs import ActivitySource, Change, changed_fields
from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric, declared_values
from usagebill.core.coupons import Coupon
from usagebill.core.days import local_date
from usagebill.core.filters import trimmed_values
from usagebill.core.plans import (
    Charge,
    ChargeFilter,
    ChargePrices,
    FixedCharge,
    MinimumCommitment,
    Plan,
    PlanDefinition,
    PriceStep,
    ScheduledPrices,
)
from usagebill.core.taxes import Tax

# What decides an amount. A charge has its filters and its rate of a pricing unit, a plan its commitment and thresholds.
# Pricing units, and the rates of wallets, never change.
Definition = Plan | Charge | FixedCharge | BillableMetric | AddOn | Tax | Coupon

# The kinds of definitions, by their names.
KINDS: dict[str, type[Any]] = {
    "plan": Plan,
    "charge": Charge,
    "fixed_charge": FixedCharge,
    "billable_metric": BillableMetric,
    "add_on": AddOn,
    "tax": Tax,
    "coupon": Coupon,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
VERSIONED: frozenset[type] = frozenset(_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """A definition that price version `version` made, changed or deleted.

    `before` is the whole definition as it stood in the versions before; None if it did not exist. `plan_id` is the
    plan that it is, or is a part of. It is never changed itself.
    """

    id: str
    organization_id: str
    version: int
    kind: str
    record_id: str
    before: Definition | None
    created_at: datetime
    source: ActivitySource
    plan_id: str | None = None
    api_key_id: str | None = None
    user_email: str | None = None
    request_id: str | None = None


def is_new_version(change: Change) -> bool:
    """Whether a change of a definition makes a price version."""
    return change.old is None or change.new is None or bool(changed_fields(change.old, change.new))


def kind_name(record: Definition) -> str:
    """The name of the definition's kind (`KINDS`)."""
    return _NAMES[type(record)]


def plan_id_of(record: Definition) -> str | None:
    """The id of the plan that the definition is, or is a part of."""
    if isinstance(record, Plan):
        return record.id
    return record.plan_id if isinstance(record, Charge | FixedCharge) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDefinition:
    """A definition before and after a version; `before` is None if the version made it."""

    kind: str
    id: str
    before: Definition | None
    after: Definition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanVersion:
    """A price version that changed a plan, from when it was made on, by whom, and what it changed. Nobody is known to
    have made version 0, the plan as it stood when versions began to be kept.

    Its prices count for periods that begin at `prices_from` or later (None: for all), and with `effective_on` on that
    day or later. `subscriptions_count` active ones have them in their current period, without overrides.
    """

    version: int
    created_at: datetime
    changes: tuple[ChangedDefinition, ...] = ()
    source: ActivitySource | None = None
    api_key_id: str | None = None
    user_email: str | None = None
    request_id: str | None = None
    prices_from: datetime | None = None
    effective_on: date | None = None
    subscriptions_count: int = 0


class Effective(StrEnum):
    """From when changed prices count: for the whole of the open period, or for periods that begin after the change.
    A date in its place: for periods that begin on that day or later.
    """

    IMMEDIATELY = "immediately"
    NEXT_PERIOD = "next_period"


def with_prices_of(definition: PlanDefinition, former: PlanDefinition) -> PlanDefinition:
    """The plan with the prices of a former version: its amount and commitment, and the prices and filters of each
    charge that it had. What it sells, and names and taxes, are as they are now.
    """
    charges = {charge.id: charge for charge in former.charges}
    fixed_charges = {charge.id: charge for charge in former.fixed_charges}
    return replace(
        definition,
        plan=replace(
            definition.plan,
            amount_cents=former.plan.amount_cents,
            minimum_commitment=former.plan.minimum_commitment,
        ),
        charges=tuple(
            _with_prices_of(charge, charges.get(charge.id), definition.metrics[charge.billable_metric_id])
            for charge in definition.charges
        ),
        fixed_charges=tuple(
            replace(charge, properties=fixed_charges[charge.id].properties) if charge.id in fixed_charges else charge
            for charge in definition.fixed_charges
        ),
    )


def as_copied(definition: PlanDefinition, copy: PlanDefinition) -> PlanDefinition:
    """The plan as if it had the ids of `copy`, an override of it, and its commitment, which is never copied."""
    ids = {charge.parent_id: charge.id for charge in copy.charges}
    ids |= {charge.parent_id: charge.id for charge in copy.fixed_charges}
    ids |= {of_filter.parent_id: of_filter.id for charge in copy.charges for of_filter in charge.filters}
    return replace(
        definition,
        plan=replace(definition.plan, id=copy.plan.id, minimum_commitment=copy.plan.minimum_commitment),
        charges=tuple(
            replace(
                charge,
                id=ids.get(charge.id, charge.id),
                filters=tuple(
                    replace(of_filter, id=ids.get(of_filter.id, of_filter.id), parent_id=of_filter.id)
                    for of_filter in charge.filters
                ),
            )
            for charge in definition.charges
        ),
        fixed_charges=tuple(replace(charge, id=ids.get(charge.id, charge.id)) for charge in definition.fixed_charges),
    )


def _with_prices_of(charge: Charge, former: Charge | None, metric: BillableMetric) -> Charge:
    if former is None:
        return charge
    declared = declared_values(metric)
    trimmed = ((of_filter, trimmed_values(of_filter.values, declared)) for of_filter in former.filters)
    return replace(
        charge,
        properties=former.properties,
        # The metric may have lost a value since, and every charge with it.
        filters=tuple(replace(of_filter, values=values) for of_filter, values in trimmed if values is not None),
        min_amount_cents=former.min_amount_cents,
        applied_pricing_unit=former.applied_pricing_unit,
    )


# Of a day in all time zones, the first begins this long before that of UTC, and the last this long after.
_EAST = timedelta(hours=14)
_WEST = timedelta(hours=12)


def counts_for(start: datetime, since: datetime, day: date | None, zone: Callable[[], tzinfo]) -> bool:
    """Whether a period that begins at `start` begins at `since` or later, and on `day` or later in the time zone."""
    if start < since or day is None:
        return start >= since
    midnight = datetime.combine(day, time(), UTC)
    if start >= midnight + _WEST or start < midnight - _EAST:
        return start > midnight
    return local_date(start, zone()) >= day


def step_to_come(plan: Plan, start: datetime, zone: Callable[[], tzinfo]) -> PriceStep | None:
    """The change of the plan's prices from which on a period that begins at `start` is billed by former prices."""
    return next(
        (step for step in plan.price_steps if not counts_for(start, step.starts, step.effective_on, zone)), None
    )


def scheduled_for(plan: Plan, start: datetime, zone: Callable[[], tzinfo]) -> list[ScheduledPrices]:
    """The scheduled prices that count for a period that begins at `start`, in order, if no step is to come."""
    return [one for one in plan.scheduled_prices if counts_for(start, one.scheduled_at, one.effective_on, zone)]


def changes_prices(changed: ChangedDefinition) -> bool:
    """Whether more was changed than which prices wait."""
    before, after = changed.before, changed.after
    if not isinstance(before, Plan) or not isinstance(after, Plan):
        return True
    return before != replace(after, scheduled_prices=before.scheduled_prices, updated_at=before.updated_at)


def has_begun(day: date, now: datetime) -> bool:
    """Whether the day has begun anywhere."""
    return now >= datetime.combine(day, time(), UTC) - _EAST


def with_scheduled(definition: PlanDefinition, scheduled: Iterable[ScheduledPrices]) -> PlanDefinition:
    """The plan with the prices that were scheduled, one after the other. Charges that it no longer has are left out."""
    for prices in scheduled:
        of_charges = {one.charge_id: one for one in prices.charges}
        plan = definition.plan
        definition = replace(
            definition,
            plan=replace(
                plan,
                amount_cents=plan.amount_cents if prices.amount_cents is None else prices.amount_cents,
                minimum_commitment=_commitment(_or(prices.minimum_commitment, plan.minimum_commitment)),
            ),
            charges=tuple(
                _with_charge_prices(charge, of_charges.get(charge.id), definition.metrics[charge.billable_metric_id])
                for charge in definition.charges
            ),
            fixed_charges=tuple(
                replace(charge, properties=_or(of_charges[charge.id].properties, charge.properties))
                if charge.id in of_charges
                else charge
                for charge in definition.fixed_charges
            ),
        )
    return definition


def _commitment(commitment: MinimumCommitment | None) -> MinimumCommitment | None:
    """What a plan has: none where one of nothing is scheduled."""
    return commitment if commitment is not None and commitment.amount_cents else None


def _with_charge_prices(charge: Charge, prices: ChargePrices | None, metric: BillableMetric) -> Charge:
    if prices is None:
        return charge
    priced = replace(
        charge,
        properties=_or(prices.properties, charge.properties),
        filters=_with_filters(charge.filters, prices),
        min_amount_cents=_or(prices.min_amount_cents, charge.min_amount_cents),
        applied_pricing_unit=_or(prices.applied_pricing_unit, charge.applied_pricing_unit),
    )
    return _with_prices_of(charge, priced, metric)


def _with_filters(filters: tuple[ChargeFilter, ...], prices: ChargePrices) -> tuple[ChargeFilter, ...]:
    present = {of_filter.id for of_filter in filters}
    # One that has been deleted since stays so; one that was never changed is new.
    changed = tuple(one for one in prices.filters or () if one.id in present or one.created_at == one.updated_at)
    replaced = {*prices.removed_filters, *(of_filter.id for of_filter in changed)}
    return (*(of_filter for of_filter in filters if of_filter.id not in replaced), *changed)


T = TypeVar("T")


def _or(changed: T | None, former: T) -> T:
    return former if changed is None else changed


def scheduled_prices(
    before: PlanDefinition, after: PlanDefinition, *, version: int, day: date, now: datetime
) -> ScheduledPrices:
    """What changes of the plan's prices, from `day` on."""
    former = before.plan.minimum_commitment
    old = {charge.id: charge for charge in before.charges}
    old_fixed = {charge.id: charge for charge in before.fixed_charges}
    usage = (
        ChargePrices(
            charge_id=charge.id,
            properties=_changed(old[charge.id].properties, charge.properties),
            filters=tuple(each for each in charge.filters if each not in old[charge.id].filters) or None,
            removed_filters=tuple(each.id for each in old[charge.id].filters if each.id not in _ids(charge)),
            min_amount_cents=_changed(old[charge.id].min_amount_cents, charge.min_amount_cents),
            applied_pricing_unit=_changed(old[charge.id].applied_pricing_unit, charge.applied_pricing_unit),
        )
        for charge in after.charges
        if charge.id in old
    )
    fixed = (
        ChargePrices(charge_id=charge.id, properties=_changed(old_fixed[charge.id].properties, charge.properties))
        for charge in after.fixed_charges
        if charge.id in old_fixed
    )
    return ScheduledPrices(
        version=version,
        effective_on=day,
        scheduled_at=now,
        amount_cents=_changed(before.plan.amount_cents, after.plan.amount_cents),
        minimum_commitment=_changed(former, after.plan.minimum_commitment or _of_nothing(former)),
        charges=tuple(one for one in (*usage, *fixed) if one != ChargePrices(charge_id=one.charge_id)),
    )


def _ids(charge: Charge) -> set[str]:
    return {of_filter.id for of_filter in charge.filters}


def held_too(prices: ScheduledPrices, alone: ScheduledPrices, after: PlanDefinition) -> ScheduledPrices:
    """The scheduled prices with what they would change if none were scheduled before them (`alone`): what has the same
    value before is theirs as well, and stays if the earlier ones are taken back.
    """
    filters = {of_filter.id for charge in after.charges for of_filter in charge.filters}
    charges = {one.charge_id: one for one in prices.charges}
    for other in alone.charges:
        one = charges.get(other.charge_id, ChargePrices(charge_id=other.charge_id))
        changed = {of_filter.id: of_filter for of_filter in other.filters or () if of_filter.id in filters}
        changed |= {of_filter.id: of_filter for of_filter in one.filters or ()}
        removed = {*one.removed_filters, *other.removed_filters} - filters
        charges[other.charge_id] = replace(
            one,
            properties=_or(one.properties, other.properties),
            filters=tuple(changed.values()) or None,
            removed_filters=tuple(sorted(removed)),
            min_amount_cents=_or(one.min_amount_cents, other.min_amount_cents),
            applied_pricing_unit=_or(one.applied_pricing_unit, other.applied_pricing_unit),
        )
    return replace(
        prices,
        amount_cents=_or(prices.amount_cents, alone.amount_cents),
        minimum_commitment=_or(prices.minimum_commitment, alone.minimum_commitment),
        charges=tuple(charges.values()),
    )


def _of_nothing(commitment: MinimumCommitment | None) -> MinimumCommitment | None:
    """What is scheduled for a commitment that ends."""
    return None if commitment is None else replace(commitment, amount_cents=0)


def _changed(before: T, after: T) -> T | None:
    return None if before == after else after


def is_empty(prices: ScheduledPrices) -> bool:
    """Whether they change nothing."""
    return prices.amount_cents is None and prices.minimum_commitment is None and not prices.charges


def scheduled_for_copy(
    scheduled: Iterable[ScheduledPrices], ids: Mapping[str | None, str], *, with_amount: bool
) -> tuple[ScheduledPrices, ...]:
    """Scheduled prices of a plan for an override of it, whose charges and filters have these `ids` by those of the
    plan. Charges without an id have a price of their own, which stays; so have overrides their commitment.
    """
    copied = (
        replace(
            prices,
            amount_cents=prices.amount_cents if with_amount else None,
            minimum_commitment=None,
            charges=tuple(
                replace(
                    of_charge,
                    charge_id=ids[of_charge.charge_id],
                    filters=None
                    if of_charge.filters is None
                    else tuple(
                        replace(each, id=ids.get(each.id, each.id), parent_id=each.id) for each in of_charge.filters
                    ),
                    removed_filters=tuple(ids.get(id, id) for id in of_charge.removed_filters),
                )
                for of_charge in prices.charges
                if of_charge.charge_id in ids
            ),
        )
        for prices in scheduled
    )
    return tuple(prices for prices in copied if not is_empty(prices))


def same_prices(one: Charge | FixedCharge, other: Charge | FixedCharge) -> bool:
    """Whether a charge and a copy of it have the same prices."""
    return _prices(one) == _prices(other)


def _prices(charge: Charge | FixedCharge) -> object:
    if isinstance(charge, FixedCharge):
        return charge.properties
    filters = [(of_filter.values, of_filter.properties) for of_filter in charge.filters]
    return charge.properties, filters, charge.min_amount_cents, charge.applied_pricing_unit


def without_charge(scheduled: Iterable[ScheduledPrices], charge_id: str) -> tuple[ScheduledPrices, ...]:
    """The scheduled prices without those of a charge."""
    rest = (
        replace(prices, charges=tuple(one for one in prices.charges if one.charge_id != charge_id))
        for prices in scheduled
    )
    return tuple(prices for prices in rest if not is_empty(prices))


def without_amount(scheduled: Iterable[ScheduledPrices]) -> tuple[ScheduledPrices, ...]:
    """The scheduled prices without amounts of the plan itself."""
    rest = (replace(prices, amount_cents=None) for prices in scheduled)
    return tuple(prices for prices in rest if not is_empty(prices))


def not_prices(before: PlanDefinition, after: PlanDefinition, prices: ScheduledPrices) -> dict[str, list[str]]:
    """Errors, as field -> codes, in a change that is to wait for a day, if it is more than these prices of it."""

    def timeless(definition: PlanDefinition) -> PlanDefinition:
        then = definition.plan.created_at
        return replace(
            definition,
            plan=replace(definition.plan, updated_at=then),
            charges=tuple(
                # Of filters that accept the same, the oldest comes first, wherever it stands.
                replace(charge, updated_at=then, filters=tuple(sorted(charge.filters, key=lambda one: one.id)))
                for charge in definition.charges
            ),
            fixed_charges=tuple(replace(charge, updated_at=then) for charge in definition.fixed_charges),
        )

    same = timeless(with_scheduled(before, [prices])) == timeless(after)
    return {} if same else {"effective": ["only_prices_can_wait"]}


def next_period_errors(before: PlanDefinition, after: PlanDefinition) -> dict[str, list[str]]:
    """Errors, as field -> codes, in a change of prices that is to wait for the next period: what the plan sells, its
    taxes and its thresholds cannot wait.
    """

    def sold(definition: PlanDefinition) -> object:
        charges = [(charge.id, charge.tax_ids) for charge in definition.charges]
        fixed_charges = [(charge.id, charge.tax_ids) for charge in definition.fixed_charges]
        return charges, fixed_charges, definition.plan.tax_ids, definition.plan.usage_thresholds

    return {} if sold(before) == sold(after) else {"effective": ["only_prices_can_wait"]}
