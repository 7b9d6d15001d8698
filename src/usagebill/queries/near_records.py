"""Suggestions for unknown names: the nearest code of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.coupons import Coupon
from usagebill.core.entitlements import Feature
from usagebill.core.errors import BillingError, NotFound
from usagebill.core.near_names import near_name
from usagebill.core.plans import Plan
from usagebill.core.taxes import Tax
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import desc, eq, missing

_KINDS: Mapping[
    str,
    type[AddOn] | type[BillableMetric] | type[BillingEntity] | type[Coupon] | type[Feature] | type[Plan] | type[Tax],
] = {
    "add_on": AddOn,
    "add_ons": AddOn,
    "billable_metric": BillableMetric,
    "billable_metrics": BillableMetric,
    "billing_entity": BillingEntity,
    "coupon": Coupon,
    "feature": Feature,
    "plan": Plan,
    "plans": Plan,
    "tax": Tax,
}
# Only the newest codes are compared.
_MOST = 200


def is_named(problem: BillingError) -> TypeGuard[NotFound]:
    """Whether the error is about a catalog record that was named, so that near names can be suggested."""
    return isinstance(problem, NotFound) and problem.resource in _KINDS and problem.sought is not None


def near_record(reader: Reader, problem: NotFound) -> str | None:
    """The code that the unknown one may be a misspelling of, or the id of the record if its code was sent as an id.

    Customers, subscriptions and the like are not searched: there may be any number of them.
    """
    kind = _KINDS.get(problem.resource)
    if kind is None or problem.sought is None:
        return None
    scope = (missing("parent_id"),) if kind is Plan else ()
    same = reader.tx.first(kind, eq("code", problem.sought), *scope)
    if same is not None:
        return f'"{same.id}", the id of the one with this code'
    codes = [record.code for record in reader.tx.find(kind, *scope, order=[desc("created_at")], limit=_MOST)]
    near = near_name(problem.sought, codes)
    return None if near is None else f'"{near}"'
