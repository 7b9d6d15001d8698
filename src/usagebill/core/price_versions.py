"""Price versions: every change of what decides an amount makes the organization's next one, by number.

A version names each definition as it stood at one moment, so that one number on a fee says what it was computed from.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from usagebill.core.activity_logs import ActivitySource, Change, changed_fields
from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.coupons import Coupon
from usagebill.core.plans import Charge, FixedCharge, Plan
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
