"""Features and entitlements as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from usagebill.core.entitlements import (
    Feature,
    PlanFeature,
    Privilege,
    SubscriptionFeature,
    Value,
    Values,
    ValueType,
    typed,
)
from usagebill.runtime.work import Reader
from usagebill.views.formats import Instant, instant_text


class PrivilegeConfigView(TypedDict):
    select_options: NotRequired[list[str]]


class PrivilegeView(TypedDict):
    code: str
    name: str | None
    value_type: str
    config: PrivilegeConfigView
    billable_metric_code: str | None


class FeatureView(TypedDict):
    code: str
    name: str | None
    description: str | None
    privileges: list[PrivilegeView]
    created_at: Instant


class PlanPrivilegeView(PrivilegeView):
    value: int | bool | str


class PlanEntitlementView(TypedDict):
    code: str
    name: str | None
    description: str | None
    privileges: list[PlanPrivilegeView]


class WrappedEntitlementView(TypedDict):
    """An entitlement as plans hold it."""

    entitlement: PlanEntitlementView


class SubscriptionPrivilegeView(PlanPrivilegeView):
    plan_value: int | bool | str | None
    override_value: int | bool | str | None


class SubscriptionEntitlementView(TypedDict):
    code: str
    name: str | None
    description: str | None
    privileges: list[SubscriptionPrivilegeView]
    overrides: Mapping[str, int | bool | str]


def _privilege_view(privilege: Privilege) -> PrivilegeView:
    config: PrivilegeConfigView = {}
    if privilege.value_type == ValueType.SELECT:
        config = {"select_options": list(privilege.select_options)}
    return {
        "code": privilege.code,
        "name": privilege.name,
        "value_type": privilege.value_type,
        "config": config,
        "billable_metric_code": privilege.billable_metric_code,
    }


def feature_view(reader: Reader, feature: Feature) -> FeatureView:
    """A feature with its privileges."""
    return {
        "code": feature.code,
        "name": feature.name,
        "description": feature.description,
        "privileges": [_privilege_view(privilege) for privilege in feature.privileges],
        "created_at": instant_text(feature.created_at),
    }


def plan_entitlement_view(reader: Reader, item: PlanFeature) -> PlanEntitlementView:
    """A feature with the plan's values of its privileges."""
    return {
        "code": item.feature.code,
        "name": item.feature.name,
        "description": item.feature.description,
        "privileges": [
            {**_privilege_view(privilege), "value": typed(privilege, item.values[privilege.code])}
            for privilege in item.feature.privileges
            if privilege.code in item.values
        ],
    }


def plan_entitlements_view(reader: Reader, items: Sequence[PlanFeature]) -> list[PlanEntitlementView]:
    """The features of a plan."""
    return [plan_entitlement_view(reader, item) for item in items]


def wrapped_entitlements(reader: Reader, items: Sequence[PlanFeature]) -> list[WrappedEntitlementView]:
    """The features of a plan as the plan itself shows them."""
    return [{"entitlement": plan_entitlement_view(reader, item)} for item in items]


def subscription_entitlement_view(reader: Reader, item: SubscriptionFeature) -> SubscriptionEntitlementView:
    """A feature with the subscription's values of its privileges, and the plan's and overridden ones."""
    values = item.values
    return {
        "code": item.feature.code,
        "name": item.feature.name,
        "description": item.feature.description,
        "privileges": [
            {
                **_privilege_view(privilege),
                "value": typed(privilege, values[privilege.code]),
                "plan_value": _value(privilege, item.plan_values),
                "override_value": _value(privilege, item.own_values),
            }
            for privilege in item.feature.privileges
            if privilege.code in values
        ],
        "overrides": {
            privilege.code: typed(privilege, item.own_values[privilege.code])
            for privilege in item.feature.privileges
            if privilege.code in item.own_values
        },
    }


def _value(privilege: Privilege, values: Values) -> Value | None:
    return typed(privilege, values[privilege.code]) if privilege.code in values else None


def subscription_entitlements_view(
    reader: Reader, items: Sequence[SubscriptionFeature]
) -> list[SubscriptionEntitlementView]:
    """The features of a subscription."""
    return [subscription_entitlement_view(reader, item) for item in items]
