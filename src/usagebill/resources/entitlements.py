"""Features, and the entitlements of plans and subscriptions."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.entitlements import Feature, PlanFeature, SubscriptionFeature
from usagebill.operations import entitlements, features
from usagebill.queries.entitlements import feature_by_code
from usagebill.resources.bindings import Message, Messages, Resource, Runner, Views, command, query
from usagebill.resources.entitlement_cache import Entitled, EntitlementCache
from usagebill.views.entitlements import (
    FeatureView,
    feature_view,
    plan_entitlement_view,
    subscription_entitlement_view,
)


class Features(Resource):
    """Features that plans include, with typed privileges."""

    permission = "feature"

    views: ClassVar[Views] = {Feature: feature_view}
    messages: ClassVar[Messages] = {
        "feature.created": Message("A feature was created.", FeatureView),
        "feature.updated": Message(
            "A feature was sent again, even without changes, or one of its privileges was deleted.", FeatureView
        ),
        "feature.deleted": Message("A feature was deleted, also from plans and subscriptions.", FeatureView),
    }

    create = command(features.create)
    update = command(features.update)
    get = query(feature_by_code)
    list = query(features.list_all)
    delete = command(features.delete)
    delete_privilege = command(features.delete_privilege)


class Entitlements(Resource):
    """Entitlements of plans, overrides by subscriptions, and the result."""

    permission = "plan"

    views: ClassVar[Views] = {PlanFeature: plan_entitlement_view, SubscriptionFeature: subscription_entitlement_view}

    list_of_plan = query(entitlements.list_of_plan)
    get_of_plan = query(entitlements.get_of_plan)
    replace_of_plan = command(entitlements.replace_of_plan)
    merge_of_plan = command(entitlements.merge_of_plan)
    remove_from_plan = command(entitlements.remove_from_plan)
    remove_privilege_from_plan = command(entitlements.remove_privilege_from_plan)
    list_of_subscription = query(entitlements.list_of_subscription, permission="subscription")
    change_of_subscription = command(entitlements.change_of_subscription, permission="subscription")
    remove_from_subscription = command(entitlements.remove_from_subscription, permission="subscription")
    remove_privilege_from_subscription = command(
        entitlements.remove_privilege_from_subscription, permission="subscription"
    )

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self._cache = EntitlementCache(runner)

    def of(self, external_subscription_id: str) -> Entitled:
        """The entitlements of the active subscription with this external id: feature -> privilege -> value.

        Values are `int`, `bool` or `str`, and cannot be changed. A program may call this on every request: it costs a
        microsecond while nothing changes, sees changes by this process at once, and those by other processes within two
        seconds. Raises `NotFound` without an active subscription.
        """
        return self._cache.of(external_subscription_id)
