"""Entitlements of plans, and their overrides by subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from usagebill.core.entitlements import (
    Change,
    Feature,
    PlanEntitlement,
    PlanFeature,
    SubscriptionEntitlement,
    SubscriptionFeature,
    Values,
    changed,
    plan_values,
    value_errors,
    value_text,
    without_feature,
    without_privilege,
)
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.operations.backlog import Unrelated, after_backlog, of_subscriptions, without_backlog
from usagebill.operations.subscription_charges import WhichSubscription
from usagebill.operations.subscriptions import get_of_status
from usagebill.queries.entitlements import (
    entitled_features,
    feature_by_code,
    own_entitlements,
    plan_entitlement,
    plan_entitlements,
    plan_features,
)
from usagebill.queries.plans import plan_by_code
from usagebill.queries.subscriptions import plan_of
from usagebill.requests.inputs import Input, Maybe, described
from usagebill.runtime.work import Reader, Work
from usagebill.views.plans import plan_summary
from usagebill.views.subscriptions import entitled_subscription


@Input
class EntitlementsInput:
    """Feature code -> privilege code -> value."""

    entitlements: Maybe[Mapping[str, object]] = described(
        "Feature -> privilege -> value.", example={"seats": {"most": 5}}
    )


def list_of_plan(reader: Reader, code: str) -> list[PlanFeature]:
    """The features of a plan with their values, oldest first. Raises `NotFound`."""
    return plan_features(reader, plan_by_code(reader, code))


def get_of_plan(reader: Reader, code: str, feature_code: str) -> PlanFeature:
    """One feature of a plan. Raises `NotFound` for the plan, and for a feature that it lacks."""
    for item in list_of_plan(reader, code):
        if item.feature.code == feature_code:
            return item
    raise NotFound("entitlement", feature_code)


@without_backlog(Unrelated.NOT_BILLED)
def replace_of_plan(work: Work, code: str, request: EntitlementsInput) -> list[PlanFeature]:
    """Replace the entitlements of a plan; a feature sent without values keeps those it has.

    Without `entitlements` nothing changes. Raises `NotFound` for the plan and for codes of features and privileges,
    `Invalid` for values.
    """
    return _sent_to_plan(work, code, request, whole=True)


@without_backlog(Unrelated.NOT_BILLED)
def merge_of_plan(work: Work, code: str, request: EntitlementsInput) -> list[PlanFeature]:
    """Add entitlements to a plan, and change values. Raises as `replace_of_plan` does."""
    return _sent_to_plan(work, code, request, whole=False)


def _sent_to_plan(work: Work, code: str, request: EntitlementsInput, *, whole: bool) -> list[PlanFeature]:
    plan = plan_by_code(work, code)
    if isinstance(request.entitlements, Mapping):
        sent = _read(work, request.entitlements)
        known = {entitlement.feature_id: entitlement for entitlement in plan_entitlements(work, plan.id)}
        if whole:
            named = {feature.id for feature, _ in sent}
            work.tx.delete(*(known[id] for id in known if id not in named))
        for feature, values in sent:
            _give(work, plan, feature, known.get(feature.id), values, whole=whole)
    _tell_of_plan(work, plan)
    return plan_features(work, plan)


def _give(
    work: Work, plan: Plan, feature: Feature, before: PlanEntitlement | None, sent: Values, *, whole: bool
) -> None:
    values = plan_values(None if before is None else before.values, sent, whole=whole)
    if before is not None:
        if values != before.values:
            work.tx.replace(replace(before, values=values, updated_at=work.now))
        return
    work.tx.insert(
        PlanEntitlement(
            id=work.new_id(),
            organization_id=work.organization.id,
            plan_id=plan.id,
            feature_id=feature.id,
            values=values,
            created_at=work.now,
            updated_at=work.now,
        )
    )


@without_backlog(Unrelated.NOT_BILLED)
def remove_from_plan(work: Work, code: str, feature_code: str) -> PlanFeature:
    """Remove a feature from a plan, and return it. Raises `NotFound` for the plan, and if it lacks the feature."""
    plan = plan_by_code(work, code)
    item = get_of_plan(work, code, feature_code)
    entitlement = plan_entitlement(work, plan.id, item.feature.id)
    if entitlement is not None:
        work.tx.delete(entitlement)
    _tell_of_plan(work, plan)
    return item


@without_backlog(Unrelated.NOT_BILLED)
def remove_privilege_from_plan(work: Work, code: str, feature_code: str, privilege_code: str) -> PlanFeature:
    """Remove the value of a privilege from a plan, and return the remaining feature.

    Raises `NotFound` for the plan, for a feature that it lacks, and for a privilege without a value there.
    """
    plan = plan_by_code(work, code)
    item = get_of_plan(work, code, feature_code)
    if privilege_code not in item.values:
        raise NotFound("privilege", privilege_code)
    remaining = {name: text for name, text in item.values.items() if name != privilege_code}
    entitlement = plan_entitlement(work, plan.id, item.feature.id)
    if entitlement is not None:
        work.tx.replace(replace(entitlement, values=remaining, updated_at=work.now))
    _tell_of_plan(work, plan)
    return replace(item, values=remaining)


def list_of_subscription(reader: Reader, external_id: str, options: WhichSubscription) -> list[SubscriptionFeature]:
    """The features of a subscription: its plan's, with its own changes. Raises `NotFound`."""
    return entitled_features(reader, _subscription(reader, external_id, options))


@after_backlog(of_subscriptions)
def change_of_subscription(
    work: Work, external_id: str, request: EntitlementsInput, options: WhichSubscription
) -> list[SubscriptionFeature]:
    """Give a subscription its own values, or restore removed features; features that are not named stay.

    Sending exactly the plan's values for a feature drops the subscription's own. Raises `NotFound` and `Invalid`.
    """
    subscription = _subscription(work, external_id, options)
    if isinstance(request.entitlements, Mapping):
        for feature, values in _read(work, request.entitlements):
            _store(
                work,
                subscription,
                feature,
                lambda change, plan, values=values: changed(change, plan, values, work.now),  # type: ignore[misc]
            )
    return _announced(work, subscription)


@after_backlog(of_subscriptions)
def remove_from_subscription(
    work: Work, external_id: str, feature_code: str, options: WhichSubscription
) -> list[SubscriptionFeature]:
    """Remove a feature, the plan's or its own, from a subscription, and return the rest. Raises `NotFound`."""
    subscription = _subscription(work, external_id, options)
    _store(work, subscription, feature_by_code(work, feature_code), lambda _, plan: without_feature(plan))
    return _announced(work, subscription)


@after_backlog(of_subscriptions)
def remove_privilege_from_subscription(
    work: Work, external_id: str, feature_code: str, privilege_code: str, options: WhichSubscription
) -> list[SubscriptionFeature]:
    """Remove one privilege of a feature from a subscription, and return the rest. Raises `NotFound`."""
    subscription = _subscription(work, external_id, options)
    feature = feature_by_code(work, feature_code)
    if feature.privilege(privilege_code) is None:
        raise NotFound("privilege", privilege_code)
    _store(work, subscription, feature, lambda change, plan: without_privilege(change, plan, privilege_code))
    return _announced(work, subscription)


def _subscription(reader: Reader, external_id: str, options: WhichSubscription) -> Subscription:
    return get_of_status(reader, external_id, options.subscription_status or options.status or None)


def _store(
    work: Work, subscription: Subscription, feature: Feature, decide: Callable[[Change, Values | None], Change]
) -> None:
    """Store the result of `decide` for the subscription's changes of a feature and the plan's values of it."""
    plan = plan_of(work, subscription)
    granted = plan_entitlement(work, plan.parent_id or plan.id, feature.id)
    entitlement = next((item for item in own_entitlements(work, subscription) if item.feature_id == feature.id), None)
    change = decide(
        Change() if entitlement is None else entitlement.change, None if granted is None else granted.values
    )
    if entitlement is not None:
        if change == Change():
            work.tx.delete(entitlement)
        elif change != entitlement.change:
            work.tx.replace(replace(entitlement, change=change, updated_at=work.now))
    elif change != Change():
        work.tx.insert(
            SubscriptionEntitlement(
                id=work.new_id(),
                organization_id=work.organization.id,
                subscription_id=subscription.id,
                feature_id=feature.id,
                change=change,
                created_at=work.now,
                updated_at=work.now,
            )
        )


def _tell_of_plan(work: Work, plan: Plan) -> None:
    work.emit("plan.updated", lambda: plan_summary(work, plan), plan.id)


def _announced(work: Work, subscription: Subscription) -> list[SubscriptionFeature]:
    work.emit("subscription.updated", lambda: entitled_subscription(work, subscription), subscription.id)
    return entitled_features(work, subscription)


def _read(reader: Reader, sent: Mapping[str, object]) -> list[tuple[Feature, Values]]:
    """The sent features with their values as text.

    Raises `NotFound` for a feature, then for a privilege, then `Invalid` for all values that do not fit.
    """
    features = [(feature_by_code(reader, code), values) for code, values in sent.items()]
    problems: dict[str, list[str]] = {}
    read: list[tuple[Feature, Values]] = []
    for feature, values in features:
        if not isinstance(values, Mapping):
            problems[feature.code] = ["value_is_invalid"]
            continue
        texts: dict[str, str] = {}
        for code, value in values.items():
            privilege = feature.privilege(code)
            if privilege is None:
                raise NotFound("privilege", code)
            problems.update(value_errors(privilege, value))
            texts[code] = value_text(privilege, value) or ""
        read.append((feature, texts))
    if problems:
        raise Invalid(problems)
    return read
