"""Which version of its plan a subscription is on, and which one comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain

from usagebill.core.contracts import Contract
from usagebill.core.days import local_date
from usagebill.core.periods import current_billing_period
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.price_versions import (
    KINDS,
    ChangedDefinition,
    PriceChange,
    changes_prices,
    scheduled_for,
    step_to_come,
)
from usagebill.core.subscriptions import begins_at
from usagebill.queries.plans import find_plan
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, any_of, desc, eq, within

_NEXT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingVersion:
    """The version of its plan that a subscription has from its period on that begins on that local day."""

    version: int
    begins_on: date


def changes_of_plan(reader: Reader, plan: Plan) -> Sequence[PriceChange]:
    """The changes of what decides the plan's prices, newest first: of the plan, its charges and fixed charges, and of
    the metrics, add-ons and taxes that these have.
    """
    return reader.tx.find(PriceChange, _about(reader, plan), order=[desc("version")])


def _about(reader: Reader, plan: Plan) -> Condition:
    charges = reader.tx.find(Charge, eq("plan_id", plan.id), deleted=True)
    fixed_charges = reader.tx.find(FixedCharge, eq("plan_id", plan.id), deleted=True)
    parts: list[Plan | Charge | FixedCharge] = [plan, *charges, *fixed_charges]
    priced = [charge.billable_metric_id for charge in charges] + [charge.add_on_id for charge in fixed_charges]
    tax_ids = chain.from_iterable(part.tax_ids for part in parts)
    return any_of(eq("plan_id", plan.id), within("record_id", sorted({*priced, *tax_ids})))


def changed_definition(reader: Reader, change: PriceChange) -> ChangedDefinition:
    """What the change changed, before and after."""
    after = reader.as_of(change.version).tx.get(KINDS[change.kind], change.record_id, deleted=True)
    return ChangedDefinition(kind=change.kind, id=change.record_id, before=change.before, after=after)


def version_at(reader: Reader, contract: Contract, start: datetime) -> int:
    """The version of the plan that bills the subscription's period that begins at `start`."""
    plan, begun = contract.plan, begins_at(contract.subscription)
    from_ = start if begun is None else max(start, begun)
    later = step_to_come(plan, from_, lambda: contract.zone)
    if later is None:
        due = scheduled_for(plan, from_, lambda: contract.zone)
        return due[-1].version if due else _changed_until(reader, plan, reader.price_version)
    former = plan if later.plan_id == plan.id else find_plan(reader, later.plan_id)
    return _changed_until(reader, former or plan, later.before)


def _changed_until(reader: Reader, plan: Plan, version: int) -> int:
    """The last version, up to `version`, that changed prices of the plan; 0 if that was before they were kept."""
    for change in changes_of_plan(reader, plan):
        if change.version <= version and changes_prices(changed_definition(reader, change)):
            return change.version
    return 0


def current_version(reader: Reader, contract: Contract) -> int | None:
    """The version of the plan that bills the subscription's current period; None if it has not started."""
    if contract.subscription.started_at is None:
        return None
    return version_at(reader, contract, current_billing_period(contract.cycle(), reader.now).start)


def coming_version(reader: Reader, contract: Contract, until: date | None) -> ComingVersion | None:
    """The version of the plan that is to follow the current one, and the first day of the period that has it; None if
    none waits, or if the subscription leaves the plan before, on the day `until`.
    """
    current = current_version(reader, contract)
    waiting = [step.prices_from for step in contract.plan.price_steps]
    waiting += [datetime.combine(one.effective_on, time(), UTC) for one in contract.plan.scheduled_prices]
    if current is None or not waiting or contract.subscription.terminated_at is not None:
        return None
    cycle, last = contract.cycle(), max(waiting) + timedelta(days=1)
    period = current_billing_period(cycle, reader.now)
    while period.start < last:
        period = current_billing_period(cycle, period.end + _NEXT)
        day = local_date(period.start, contract.zone)
        if until is not None and day >= until:
            return None
        version = version_at(reader, contract, period.start)
        if version != current:
            return ComingVersion(version=version, begins_on=day)
    return None
