"""Price versions: every change of what decides an amount makes the organization's next one, by number.

A version names each definition as it stood at one moment, so that one number on a fee says what it was computed from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from usagebill.core.activity_logs import ActivitySource, Change, changed_fields
from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric, declared_values
from usagebill.core.coupons import Coupon
from usagebill.core.filters import trimmed_values
from usagebill.core.plans import Charge, FixedCharge, Plan, PlanDefinition
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
    """

    version: int
    created_at: datetime
    changes: tuple[ChangedDefinition, ...] = ()
    source: ActivitySource | None = None
    api_key_id: str | None = None
    user_email: str | None = None
    request_id: str | None = None


class Effective(StrEnum):
    """From when changed prices count: for the whole of the open period, or for periods that begin after the change."""

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


def next_period_errors(before: PlanDefinition, after: PlanDefinition) -> dict[str, list[str]]:
    """Errors, as field -> codes, in a change of prices that is to wait for the next period: what the plan sells, its
    taxes and its thresholds cannot wait.
    """

    def sold(definition: PlanDefinition) -> object:
        charges = [(charge.id, charge.tax_ids) for charge in definition.charges]
        fixed_charges = [(charge.id, charge.tax_ids) for charge in definition.fixed_charges]
        return charges, fixed_charges, definition.plan.tax_ids, definition.plan.usage_thresholds

    return {} if sold(before) == sold(after) else {"effective": ["only_prices_can_wait"]}
