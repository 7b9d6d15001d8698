"""Features and their privileges, which plans and subscriptions can be entitled to."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.entitlements import (
    Feature,
    PlanEntitlement,
    Privilege,
    SubscriptionEntitlement,
    ValueType,
    feature_errors,
    joined_privileges,
    options_of,
    privilege_errors,
    without_value,
)
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.plans import Plan
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.queries.entitlements import feature_by_code, plans_with
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, changes, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import contains, eq, ne
from usagebill.storage.ports import Page
from usagebill.views.entitlements import feature_view
from usagebill.views.plans import plan_summary

_SEARCHED = ("name", "code", "description")


@Input
class PrivilegeInput:
    """`value_type` is integer, boolean, string or select; a select has `config: {"select_options": [...]}`."""

    code: Maybe[str] = described(required="always")
    name: Maybe[str] = ABSENT
    value_type: Maybe[str] = ABSENT
    config: Maybe[object] = ABSENT
    billable_metric_code: Maybe[str] = described(
        "The metric whose units in a billing period an integer limits, by code."
    )


@Input
class FeatureInput:
    """`code` is set once; sent privileges are added, or changed by their code, and never removed."""

    code: Maybe[str] = described(required="create")
    name: Maybe[str] = ABSENT
    description: Maybe[str] = ABSENT
    privileges: Maybe[tuple[PrivilegeInput, ...]] = ABSENT


@Input
class FeatureFilters:
    """`search_term` is a part of the name, the code or the description, in any case."""

    search_term: Maybe[str] = ABSENT


def list_all(reader: Reader, options: FeatureFilters, paging: Paging) -> Page[Feature]:
    """Features, newest first."""
    term = value_or(options.search_term, "").strip()
    return reader.page(Feature, *([contains(_SEARCHED, term)] if term else []), paging=paging)


@without_backlog(Unrelated.NEW)
def create(work: Work, request: FeatureInput) -> Feature:
    """A new feature with its privileges. Raises `Invalid`."""
    feature = _checked(
        work,
        Feature(
            id=work.new_id(),
            organization_id=work.organization.id,
            code=value_or(request.code, "").strip(),
            name=value_or(request.name, None),
            description=value_or(request.description, None),
            created_at=work.now,
            updated_at=work.now,
        ),
    )
    feature = replace(feature, privileges=_privileges(work, feature, request))
    work.tx.insert(feature)
    work.emit("feature.created", lambda: feature_view(work, feature), feature.id)
    return feature


@without_backlog(Unrelated.NOT_BILLED)
def update(work: Work, code: str, request: FeatureInput) -> Feature:
    """Change what is sent, and add new privileges; types stay, and options of a select are only added.

    Raises `NotFound` and `Invalid`.
    """
    before = feature_by_code(work, code)
    after = _checked(work, replace(before, updated_at=work.now, **changes(request, "name", "description")))
    after = replace(after, privileges=_privileges(work, after, request))
    work.tx.replace(after)
    _tell(work, "feature.updated", after, plans_with(work, after))
    return after


@without_backlog(Unrelated.NOT_BILLED)
def delete(work: Work, code: str) -> Feature:
    """Delete the feature and all entitlements to it; its code is free again."""
    feature = replace(feature_by_code(work, code), deleted_at=work.now, updated_at=work.now)
    plans = plans_with(work, feature)
    of_feature = eq("feature_id", feature.id)
    work.tx.delete(*work.tx.find(PlanEntitlement, of_feature), *work.tx.find(SubscriptionEntitlement, of_feature))
    work.tx.replace(feature)
    _tell(work, "feature.deleted", feature, plans)
    return feature


@without_backlog(Unrelated.NOT_BILLED)
def delete_privilege(work: Work, code: str, privilege_code: str) -> Feature:
    """Delete a privilege of the feature with all its values. Raises `NotFound` for either."""
    before = feature_by_code(work, code)
    if before.privilege(privilege_code) is None:
        raise NotFound("privilege", privilege_code)
    remaining = tuple(privilege for privilege in before.privileges if privilege.code != privilege_code)
    feature = replace(before, privileges=remaining, updated_at=work.now)
    work.tx.replace(feature)
    for entitlement in work.tx.find(PlanEntitlement, eq("feature_id", feature.id)):
        if privilege_code in entitlement.values:
            values = {name: text for name, text in entitlement.values.items() if name != privilege_code}
            work.tx.replace(replace(entitlement, values=values, updated_at=work.now))
    for override in work.tx.find(SubscriptionEntitlement, eq("feature_id", feature.id)):
        change = without_value(override.change, privilege_code)
        if change != override.change:
            work.tx.replace(replace(override, change=change, updated_at=work.now))
    _tell(work, "feature.updated", feature, plans_with(work, feature))
    return feature


def _tell(work: Work, webhook_type: str, feature: Feature, plans: list[Plan]) -> None:
    """Send a message about the feature, and one about each plan that has it, changed or not."""
    work.emit(webhook_type, lambda: feature_view(work, feature), feature.id)
    for plan in plans:
        work.emit("plan.updated", lambda plan=plan: plan_summary(work, plan), plan.id)  # type: ignore[misc]


def _checked(reader: Reader, feature: Feature) -> Feature:
    problems = feature_errors(feature)
    if feature.code and reader.tx.first(Feature, eq("code", feature.code), ne("id", feature.id)) is not None:
        problems["code"] = ["value_already_exist"]
    if problems:
        raise Invalid(problems)
    return feature


def _privileges(reader: Reader, feature: Feature, request: FeatureInput) -> tuple[Privilege, ...]:
    """The feature's privileges, merged with those sent. Raises `Invalid` for the first that is wrong."""
    sent = [(value_or(item.code, "").strip(), item) for item in value_or(request.privileges, ())]
    codes = [code for code, _ in sent]
    if len(set(codes)) < len(codes):
        raise Invalid({"privilege.code": ["value_is_duplicated"]})
    return joined_privileges(
        feature.privileges, [_privilege(reader, feature.privilege(code), code, item) for code, item in sent]
    )


def _privilege(reader: Reader, before: Privilege | None, code: str, item: PrivilegeInput) -> Privilege:
    privilege = _described_privilege(before, code, item)
    if not is_given(item.billable_metric_code):
        return privilege
    metric_code = item.billable_metric_code or None
    if metric_code is not None:
        if privilege.value_type is not ValueType.INTEGER:
            raise Invalid({"privilege.billable_metric_code": ["value_must_be_blank"]})
        if reader.tx.first(BillableMetric, eq("code", metric_code)) is None:
            raise NotFound("billable_metric", metric_code)
    return replace(privilege, billable_metric_code=metric_code)


def _described_privilege(before: Privilege | None, code: str, item: PrivilegeInput) -> Privilege:
    options = options_of(value_or(item.config, None))
    if before is None:
        value_type, name = value_or(item.value_type, ValueType.STRING), value_or(item.name, None)
        problems = privilege_errors(code, name, value_type, options)
        if problems:
            raise Invalid({field: [problem] for field, problem in problems.items()})
        return Privilege(code=code, name=name, value_type=ValueType(value_type), select_options=options or ())
    after = replace(before, **changes(item, "name"))
    if options:
        after = replace(after, select_options=tuple(dict.fromkeys((*before.select_options, *options))))
    problems = privilege_errors(code, after.name, after.value_type, None if options is None else after.select_options)
    if problems:
        raise Invalid({field: [problem] for field, problem in problems.items()})
    return after
