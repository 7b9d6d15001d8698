"""Entitlements: the features of plans and subscriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from usagebill.core.entitlements import (
    Feature,
    PlanEntitlement,
    PlanFeature,
    SubscriptionEntitlement,
    SubscriptionFeature,
    effective,
)
from usagebill.core.errors import NotFound
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.queries.subscriptions import plan_of
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, within


def feature_by_code(reader: Reader, code: str) -> Feature:
    """The feature with this code. Raises `NotFound`."""
    feature = reader.tx.first(Feature, eq("code", code))
    if feature is None:
        raise NotFound("feature", code)
    return feature


def plan_entitlements(reader: Reader, plan_id: str) -> list[PlanEntitlement]:
    """The entitlements of a catalog plan, oldest first."""
    return reader.tx.find(PlanEntitlement, eq("plan_id", plan_id), order=[asc("created_at"), asc("id")])


def plan_entitlement(reader: Reader, plan_id: str, feature_id: str) -> PlanEntitlement | None:
    """The entitlement of a catalog plan to one feature."""
    return reader.tx.first(PlanEntitlement, eq("plan_id", plan_id), eq("feature_id", feature_id))


def _features(
    reader: Reader, entitlements: Sequence[PlanEntitlement | SubscriptionEntitlement]
) -> Mapping[str, Feature]:
    """The features of these entitlements, by id."""
    ids = {entitlement.feature_id for entitlement in entitlements}
    return {feature.id: feature for feature in reader.tx.find(Feature, within("id", ids))} if ids else {}


def plan_features(reader: Reader, plan: Plan) -> list[PlanFeature]:
    """The features of a plan, oldest first; an override has those of its parent."""
    entitlements = plan_entitlements(reader, plan.parent_id or plan.id)
    features = _features(reader, entitlements)
    return [
        PlanFeature(feature=features[entitlement.feature_id], values=entitlement.values, since=entitlement.created_at)
        for entitlement in entitlements
    ]


def own_entitlements(reader: Reader, subscription: Subscription) -> list[SubscriptionEntitlement]:
    """The subscription's changes to the features of its plan."""
    return reader.tx.find(SubscriptionEntitlement, eq("subscription_id", subscription.id))


def own_features(reader: Reader, subscription: Subscription) -> list[str]:
    """The codes of the features that the subscription changes, in order."""
    return sorted({feature.code for feature in _features(reader, own_entitlements(reader, subscription)).values()})


def entitled_features(reader: Reader, subscription: Subscription) -> list[SubscriptionFeature]:
    """The features of a subscription: its plan's, with its own changes."""
    entitlements = own_entitlements(reader, subscription)
    features = _features(reader, entitlements)
    changes = [(features[entitlement.feature_id], entitlement.change) for entitlement in entitlements]
    return effective(plan_features(reader, plan_of(reader, subscription)), changes)


def plans_with(reader: Reader, feature: Feature) -> list[Plan]:
    """The plans that have the feature."""
    entitlements = reader.tx.find(PlanEntitlement, eq("feature_id", feature.id), order=[asc("created_at"), asc("id")])
    plans = (reader.tx.get(Plan, entitlement.plan_id) for entitlement in entitlements)
    return [plan for plan in plans if plan is not None]
