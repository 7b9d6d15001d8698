"""Entitlements: features with typed privileges, their values on plans, and changes made by subscriptions.

A value is stored as its text (`30`, `true`) and read by the type of its privilege, which never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never

Value = int | bool | str
# Privilege code -> the text of its value.
Values = Mapping[str, str]

_LONGEST_CODE = 255
_LONGEST_NAME = 255
_LONGEST_DESCRIPTION = 600
# 64-bit integers, which every client program can hold.
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
    """One thing that a feature permits or limits. Only a `select` has options.

    The value of an integer that names a metric, by code, is the quota of its units in a billing period.
    """

    code: str
    value_type: ValueType
    name: str | None = None
    select_options: tuple[str, ...] = ()
    billable_metric_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something that plans sell besides usage. Privileges are in the order in which they were added."""

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
    """A feature of a plan, with its values. Overrides of a plan have the plan's features."""

    id: str
    organization_id: str
    plan_id: str
    feature_id: str
    created_at: datetime
    updated_at: datetime
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A subscription's change of a feature: its own values, and the removed values of its plan.

    `granted_at` is since when it has the feature itself, independent of its plan; null if it only removes something.
    """

    values: Values = field(default_factory=dict)
    granted_at: datetime | None = None
    is_removed: bool = False
    removed_privileges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionEntitlement:
    """A subscription's change of a feature, as stored."""

    id: str
    organization_id: str
    subscription_id: str
    feature_id: str
    created_at: datetime
    updated_at: datetime
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFeature:
    """A feature of a plan. `since` is when the plan got it."""

    feature: Feature
    values: Values
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFeature:
    """A feature of a subscription: the plan's remaining values, and its own, which take precedence."""

    feature: Feature
    plan_values: Values
    own_values: Values

    @property
    def values(self) -> Values:
        """The effective values."""
        return {**self.plan_values, **self.own_values}


def feature_errors(feature: Feature) -> dict[str, list[str]]:
    """Errors in a feature's own fields, as field -> codes. Whether its code is taken is checked by the operation."""
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
    """`existing`, with privileges replaced by those `sent` with the same code, and new ones at the end."""
    by_code = {privilege.code: privilege for privilege in existing}
    for privilege in sent:
        by_code[privilege.code] = privilege
    return tuple(by_code.values())


def value_text(privilege: Privilege, value: object) -> str | None:
    """The text of a value that fits the privilege; None if it does not fit."""
    match privilege.value_type:
        case ValueType.BOOLEAN:
            text = str(value).lower() if isinstance(value, bool) else value
            return text if isinstance(text, str) and text in _TRUTH else None
        case ValueType.INTEGER:
            return _integer_text(value)
        case ValueType.STRING:
            return value if isinstance(value, str) and value else None
        case ValueType.SELECT:
            return value if isinstance(value, str) and value and value in privilege.select_options else None
        case _:
            assert_never(privilege.value_type)


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
    """The errors of a value, as field -> codes; empty if it fits the privilege."""
    if value is None or value == "":
        return {"privilege.value": ["value_is_mandatory"]}
    if value_text(privilege, value) is not None:
        return {}
    is_select = privilege.value_type == ValueType.SELECT
    return {f"{privilege.code}_privilege_value": ["value_not_in_select_options" if is_select else "value_is_invalid"]}


def typed(privilege: Privilege, text: str) -> Value:
    """The value stored as `text`."""
    match privilege.value_type:
        case ValueType.BOOLEAN:
            return _TRUTH[text]
        case ValueType.INTEGER:
            return int(text)
        case ValueType.STRING | ValueType.SELECT:
            return text
        case _:
            assert_never(privilege.value_type)


def plan_values(now: Values | None, sent: Values, *, whole: bool) -> Values:
    """The plan's values for a feature after `sent` values arrived; `now` is None if it lacks the feature.

    Sent as a `whole` they replace the existing values, unless they are empty; otherwise they are merged.
    """
    if whole and sent:
        return dict(sent)
    return {**(now or {}), **sent}


def changed(change: Change, plan: Values | None, sent: Values, now: datetime) -> Change:
    """A subscription's change of a feature after values were sent for it; `plan` is None if its plan lacks the feature.

    Sending exactly the plan's values restores the plan's. Otherwise the privileges sent are no longer removed, and are
    the subscription's own if they differ from the plan's. Other privileges stay unchanged.
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
    """A subscription's change after a feature was removed from it: its own values are gone, and the plan's if it has
    the feature.
    """
    return Change(is_removed=plan is not None)


def without_privilege(change: Change, plan: Values | None, code: str) -> Change:
    """A subscription's change after a privilege of a feature was removed from it."""
    values = {name: text for name, text in change.values.items() if name != code}
    removed = change.removed_privileges
    if plan is not None and code not in removed:
        removed = (*removed, code)
    granted_at = change.granted_at if plan is None or values else None
    return replace(change, values=values, removed_privileges=removed, granted_at=granted_at)


def without_value(change: Change, code: str) -> Change:
    """A subscription's change of a feature after the privilege was deleted from the feature."""
    values = {name: text for name, text in change.values.items() if name != code}
    removed = tuple(name for name in change.removed_privileges if name != code)
    return replace(change, values=values, removed_privileges=removed)


def effective(plan: Iterable[PlanFeature], overrides: Iterable[tuple[Feature, Change]]) -> list[SubscriptionFeature]:
    """The features of a subscription: those of its plan that are not removed, and its own, oldest first."""
    changes = {feature.id: (feature, change) for feature, change in overrides}
    features: list[tuple[datetime, SubscriptionFeature]] = []
    for item in plan:
        _, change = changes.pop(item.feature.id, (item.feature, Change()))
        if not change.is_removed:
            plan_values = {code: text for code, text in item.values.items() if code not in change.removed_privileges}
            shown = SubscriptionFeature(feature=item.feature, plan_values=plan_values, own_values=change.values)
            features.append((item.since, shown))
    for feature, change in changes.values():
        if change.granted_at is not None:
            shown = SubscriptionFeature(feature=feature, plan_values={}, own_values=change.values)
            features.append((change.granted_at, shown))
    return [feature for _, feature in sorted(features, key=lambda dated: dated[0])]
