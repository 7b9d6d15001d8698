"""Entitlements: features with typed privileges, the values that plans give them, and what subscriptions change of that.

A value is stored as its text (`30`, `true`) and read by the type of its privilege, which never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

__all__ = [
    "Change",
    "Feature",
    "PlanEntitlement",
    "PlanFeature",
    "Privilege",
    "SubscriptionEntitlement",
    "SubscriptionFeature",
    "Value",
    "ValueType",
    "Values",
    "changed",
    "effective",
    "feature_errors",
    "joined_privileges",
    "options_of",
    "plan_values",
    "privilege_errors",
    "typed",
    "value_errors",
    "value_text",
    "without_feature",
    "without_privilege",
    "without_value",
]

Value = int | bool | str
# Privilege code -> the text of its value.
Values = Mapping[str, str]

_LONGEST_CODE = 255
_LONGEST_NAME = 255
_LONGEST_DESCRIPTION = 600
# Integers of 64 bits: what every program that asks can hold.
_LARGEST = 2**63 - 1
_MOST_DIGITS = 20
_TRUTH = {"true": True, "false": False}


class ValueType(StrEnum):
    """The types of privilege values."""

    INTEGER = "integer"
    BOOLEAN = "boolean"
    STRING = "string"
    SELECT = "select"  # one of the privilege's options


@dataclass(frozen=True, slots=True, kw_only=True)
class Privilege:
    """One thing that a feature permits or limits. Only a `select` has options."""

    code: str
    value_type: ValueType
    name: str | None = None
    select_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something that plans sell besides usage. Privileges stand in the order in which they were added."""

    id: str
    organization_id: str
    code: str
    created_at: datetime
    updated_at: datetime
    name: str | None = None
    description: str | None = None
    privileges: tuple[Privilege, ...] = ()
    deleted_at: datetime | None = None

    def privilege(self, code: str) -> Privilege | None:
        """The privilege with this code."""
        return next((privilege for privilege in self.privileges if privilege.code == code), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntitlement:
    """A plan has the feature, with these values. Overrides of a plan have what the plan has."""

    id: str
    organization_id: str
    plan_id: str
    feature_id: str
    created_at: datetime
    updated_at: datetime
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a subscription changes of a feature: values of its own, and what is taken away of its plan's.

    `granted_at` is since when it has the feature itself, whatever its plan says; null if it only takes something away.
    """

    values: Values = field(default_factory=dict)
    granted_at: datetime | None = None
    is_removed: bool = False
    removed_privileges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionEntitlement:
    """A subscription changes something of what its plan has of the feature."""

    id: str
    organization_id: str
    subscription_id: str
    feature_id: str
    created_at: datetime
    updated_at: datetime
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFeature:
    """A feature as a plan has it. `since` is when the plan got it."""

    feature: Feature
    values: Values
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFeature:
    """A feature as a subscription has it: the plan's values that are left, and its own, which win."""

    feature: Feature
    plan_values: Values
    own_values: Values

    @property
    def values(self) -> Values:
        """The values that hold."""
        return {**self.plan_values, **self.own_values}


def feature_errors(feature: Feature) -> dict[str, list[str]]:
    """Errors in a feature's own fields, as field -> codes. Whether its code is free only the store knows."""
    errors: dict[str, list[str]] = {}
    if not feature.code:
        errors["code"] = ["value_is_mandatory"]
    elif len(feature.code) > _LONGEST_CODE:
        errors["code"] = ["value_is_too_long"]
    if feature.name is not None and len(feature.name) > _LONGEST_NAME:
        errors["name"] = ["value_is_too_long"]
    if feature.description is not None and len(feature.description) > _LONGEST_DESCRIPTION:
        errors["description"] = ["value_is_too_long"]
    return errors


def options_of(config: object) -> tuple[str, ...] | None:
    """The options in the `config` of a privilege, each once; none if it is empty. None for a config of another form."""
    if config is None or config == {}:
        return ()
    if not isinstance(config, Mapping) or set(config) != {"select_options"}:
        return None
    options = config["select_options"]
    if not isinstance(options, list | tuple) or not all(isinstance(option, str) for option in options):
        return None
    return tuple(dict.fromkeys(options))


def privilege_errors(code: str, name: str | None, value_type: str, options: Sequence[str] | None) -> dict[str, str]:
    """Errors in a new privilege, as `privilege.<field>` -> code. `options` are None for a malformed config."""
    errors: dict[str, str] = {}
    if not code:
        errors["privilege.code"] = "value_is_mandatory"
    elif len(code) > _LONGEST_CODE:
        errors["privilege.code"] = "value_is_too_long"
    if name is not None and len(name) > _LONGEST_NAME:
        errors["privilege.name"] = "value_is_too_long"
    if value_type not in set(ValueType):
        errors["privilege.value_type"] = "value_is_invalid"
    elif options is None or bool(options) != (value_type == ValueType.SELECT):
        errors["privilege.config"] = "invalid_format"
    return errors


def joined_privileges(existing: Sequence[Privilege], sent: Iterable[Privilege]) -> tuple[Privilege, ...]:
    """`existing` with those that are `sent` in the place of theirs, new ones at the end."""
    by_code = {privilege.code: privilege for privilege in existing}
    for privilege in sent:
        by_code[privilege.code] = privilege
    return tuple(by_code.values())


def value_text(privilege: Privilege, value: object) -> str | None:
    """The text of a value that fits the privilege; None if it does not fit."""
    if privilege.value_type == ValueType.BOOLEAN:
        text = str(value).lower() if isinstance(value, bool) else value
        return text if isinstance(text, str) and text in _TRUTH else None
    if privilege.value_type == ValueType.INTEGER:
        return _integer_text(value)
    if not isinstance(value, str) or not value:
        return None
    if privilege.value_type == ValueType.SELECT and value not in privilege.select_options:
        return None
    return value


def _integer_text(value: object) -> str | None:
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if len(digits) > _MOST_DIGITS or not digits.isascii() or not digits.isdigit() or str(int(value)) != value:
            return None
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
        return None
    return str(value)


def value_errors(privilege: Privilege, value: object) -> dict[str, list[str]]:
    """Why a value does not fit the privilege, as field -> codes; empty if it fits."""
    if value is None or value == "":
        return {"privilege.value": ["value_is_mandatory"]}
    if value_text(privilege, value) is not None:
        return {}
    is_select = privilege.value_type == ValueType.SELECT
    return {f"{privilege.code}_privilege_value": ["value_not_in_select_options" if is_select else "value_is_invalid"]}


def typed(privilege: Privilege, text: str) -> Value:
    """The value whose text this is."""
    if privilege.value_type == ValueType.BOOLEAN:
        return _TRUTH[text]
    return int(text) if privilege.value_type == ValueType.INTEGER else text


def plan_values(now: Values | None, sent: Values, *, whole: bool) -> Values:
    """The values that a plan has of a feature once some are sent; `now` is None if it lacks the feature.

    Sent as a `whole` they replace what is there, but for an empty set, which keeps it; else they are merged into it.
    """
    if whole and sent:
        return dict(sent)
    return {**(now or {}), **sent}


def changed(change: Change, plan: Values | None, sent: Values, now: datetime) -> Change:
    """What a subscription changes of a feature once values are sent for it; `plan` is None if its plan lacks it.

    Exactly the plan's values restore the plan's. Else what is named is no longer taken away, and is the subscription's
    own where it differs from the plan's. Privileges that are not named stay as they are.
    """
    if plan is not None and dict(plan) == dict(sent):
        return Change()
    values = {**change.values, **sent}
    if plan is not None:
        values = {code: text for code, text in values.items() if code not in sent or plan.get(code) != text}
    has_own = plan is None or bool(values)
    return Change(
        values=values,
        granted_at=(change.granted_at or now) if has_own else None,
        removed_privileges=tuple(code for code in change.removed_privileges if code not in sent),
    )


def without_feature(plan: Values | None) -> Change:
    """What a subscription changes once a feature is taken from it: its own is gone, and the plan's if there is one."""
    return Change(is_removed=plan is not None)


def without_privilege(change: Change, plan: Values | None, code: str) -> Change:
    """What a subscription changes once a privilege of a feature is taken from it."""
    values = {name: text for name, text in change.values.items() if name != code}
    removed = change.removed_privileges
    if plan is not None and code not in removed:
        removed = (*removed, code)
    granted_at = change.granted_at if plan is None or values else None
    return replace(change, values=values, removed_privileges=removed, granted_at=granted_at)


def without_value(change: Change, code: str) -> Change:
    """What a subscription changes of a feature once the privilege is gone for everybody."""
    values = {name: text for name, text in change.values.items() if name != code}
    removed = tuple(name for name in change.removed_privileges if name != code)
    return replace(change, values=values, removed_privileges=removed)


def effective(plan: Iterable[PlanFeature], overrides: Iterable[tuple[Feature, Change]]) -> list[SubscriptionFeature]:
    """The features of a subscription: those of its plan that are not taken away, and its own, the oldest first."""
    changes = {feature.id: (feature, change) for feature, change in overrides}
    features: list[tuple[datetime, SubscriptionFeature]] = []
    for item in plan:
        _, change = changes.pop(item.feature.id, (item.feature, Change()))
        if not change.is_removed:
            left = {code: text for code, text in item.values.items() if code not in change.removed_privileges}
            shown = SubscriptionFeature(feature=item.feature, plan_values=left, own_values=change.values)
            features.append((item.since, shown))
    for feature, change in changes.values():
        if change.granted_at is not None:
            shown = SubscriptionFeature(feature=feature, plan_values={}, own_values=change.values)
            features.append((change.granted_at, shown))
    return [feature for _, feature in sorted(features, key=lambda dated: dated[0])]
