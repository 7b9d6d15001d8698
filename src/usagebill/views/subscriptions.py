"""Subscriptions as JSON."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import NotRequired, TypedDict

from usagebill.core.activation import ActivationRule
from usagebill.core.authorizations import Authorize, Authorized, authorization_question
from usagebill.core.contracts import Contract
from usagebill.core.days import local_date
from usagebill.core.periods import Cycle, Succession, current_billing_period, downgrade_plan_date, first_opening
from usagebill.core.plans import UsageThreshold
from usagebill.core.subscriptions import Subscription, SubscriptionStatus, begins_at, cycle_of
from usagebill.queries.contracts import contract_now
from usagebill.queries.entitlements import entitled_features, own_features
from usagebill.queries.plan_versions import coming_version, current_version
from usagebill.queries.subscriptions import (
    applicable_thresholds,
    find_subscription,
    plan_of,
    scheduled_after,
    successor_of,
)
from usagebill.runtime.work import Reader
from usagebill.views.customers import CustomerSummary, customer_summary
from usagebill.views.entitlements import SubscriptionEntitlementView, subscription_entitlements_view
from usagebill.views.formats import Day, Id, Instant, date_text, instant_text, millisecond_text
from usagebill.views.invoice_custom_sections import AppliedSectionView, applied_sections_view
from usagebill.views.overrides import PlanOverridesView, plan_overrides_view
from usagebill.views.payments import PaymentMethodView
from usagebill.views.plans import ApplicableThresholdView, PlanView, ThresholdView, plan_view, threshold_view


class SubscriptionView(TypedDict):
    svc_id: Id
    external_id: str
    svc_customer_id: Id
    external_customer_id: str
    billing_entity_code: str
    billing_time: str
    name: str | None
    plan_code: str
    plan_amount_cents: int
    plan_amount_currency: str
    status: str
    created_at: Instant
    updated_at: Instant
    activated_at: Instant | None
    canceled_at: Instant | None
    cancellation_reason: str | None
    started_at: Instant | None
    ending_at: Instant | None
    subscription_at: Instant
    bill_from: str
    terminated_at: Instant | None
    trial_ended_at: Instant | None
    previous_plan_code: str | None
    next_plan_code: str | None
    downgrade_plan_date: Day | None
    phases: list[PhaseView]
    current_billing_period_started_at: Instant | None
    current_billing_period_ending_at: Instant | None
    on_termination_credit_note: str | None
    on_termination_invoice: str
    consolidate_invoice: bool
    progressive_billing_disabled: bool
    purchase_order_number: str | None
    payment_method: PaymentMethodView
    activation_rules: list[ActivationRuleView]
    applied_invoice_custom_sections: list[AppliedSectionView]


class PhaseView(TypedDict):
    plan_code: str
    plan_amount_cents: int
    plan_amount_currency: str
    plan_overrides: PlanOverridesView | None
    begins_on: Day | None
    until: Day | None


class ActivationRuleView(TypedDict):
    svc_id: Id
    type: str
    timeout_hours: int
    status: str
    expires_at: Instant | None
    created_at: Instant
    updated_at: Instant


class ComingVersionView(TypedDict):
    version: int
    begins_on: Day


class SubscriptionAndPlanView(SubscriptionView):
    plan: PlanView
    plan_version: int | None
    next_plan_version: ComingVersionView | None
    applicable_usage_thresholds: list[ApplicableThresholdView]


class AuthorizationView(TypedDict):
    """The amount that Stripe authorized and released again."""

    payment_provider_code: str
    provider_payment_id: str
    status: str
    amount_cents: int
    amount_currency: str


class CreatedSubscriptionView(TypedDict):
    subscription: SubscriptionAndPlanView
    authorization: NotRequired[AuthorizationView]
    ended_entitlements: NotRequired[list[str]]


class SubscriptionMessage(SubscriptionView):
    plan: PlanView
    customer: CustomerSummary


class EntitledSubscription(SubscriptionMessage):
    """The message about a subscription that has started or changed."""

    entitlements: list[SubscriptionEntitlementView]


class ThresholdReached(SubscriptionMessage):
    """The message about a threshold that usage has reached."""

    usage_threshold: ThresholdView
    applicable_usage_thresholds: list[ApplicableThresholdView]


def subscription_view(reader: Reader, subscription: Subscription) -> SubscriptionView:
    """The subscription's own fields, as lists show them."""
    return contract_view(reader, contract_now(reader, subscription))


def created_subscription_view(reader: Reader, subscription: Subscription) -> CreatedSubscriptionView:
    """The created subscription, with the authorization, if one was requested, and what a change of plan ends."""
    shown = CreatedSubscriptionView(subscription=subscription_and_plan_view(reader, subscription))
    outcome = reader.answered(authorization_question(subscription.customer_id))
    if outcome is not None and isinstance(outcome.request, Authorize) and isinstance(outcome.answer, Authorized):
        shown["authorization"] = {
            "payment_provider_code": outcome.request.payer.connection_code,
            "provider_payment_id": outcome.answer.provider_payment_id,
            "status": outcome.answer.status,
            "amount_cents": outcome.request.amount_cents,
            "amount_currency": outcome.request.currency,
        }
    if ended := _ended_entitlements(reader, subscription):
        shown["ended_entitlements"] = ended
    return shown


def _ended_entitlements(reader: Reader, subscription: Subscription) -> list[str]:
    """The features that were changed for the subscription alone, and are the plan's again after the change of plan that
    has just been asked for. Phases keep theirs.
    """
    leaving = subscription
    if subscription.previous_subscription_id is not None and subscription.created_at == reader.now:
        leaving = find_subscription(reader, subscription.previous_subscription_id) or subscription
    following = successor_of(reader, leaving)
    if following is None or following.phase_from is not None or following.created_at != reader.now:
        return []
    return own_features(reader, leaving)


def contract_view(reader: Reader, contract: Contract, *, is_alone: bool = False) -> SubscriptionView:
    """The subscription's own fields, as invoices show them. `is_alone` says that it has no predecessor or successor."""
    subscription, plan, customer = contract.subscription, contract.plan, contract.customer
    previous_id = subscription.previous_subscription_id
    previous = None if previous_id is None else find_subscription(reader, previous_id)
    following = None if is_alone else successor_of(reader, subscription)
    periods = contract.cycle() if subscription.started_at else None
    period = None if periods is None else current_billing_period(periods, reader.now)
    return {
        "svc_id": subscription.id,
        "external_id": subscription.external_id,
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "billing_entity_code": contract.parties.issuer.code,
        "billing_time": subscription.billing_time,
        "name": subscription.name,
        "plan_code": plan.code,
        "plan_amount_cents": plan.amount_cents,
        "plan_amount_currency": plan.amount_currency,
        "status": subscription.status,
        "created_at": instant_text(subscription.created_at),
        "updated_at": instant_text(subscription.updated_at),
        "activated_at": instant_text(subscription.activated_at),
        "canceled_at": instant_text(subscription.canceled_at),
        "cancellation_reason": subscription.cancellation_reason,
        "started_at": millisecond_text(subscription.started_at),
        "ending_at": instant_text(subscription.ending_at),
        "subscription_at": instant_text(subscription.subscription_at),
        "bill_from": subscription.bill_from,
        "terminated_at": instant_text(subscription.terminated_at),
        "trial_ended_at": instant_text(subscription.trial_ended_at),
        "previous_plan_code": None if previous is None else plan_of(reader, previous).code,
        "next_plan_code": None if following is None else plan_of(reader, following).code,
        "downgrade_plan_date": _downgrade_date(reader, periods, following),
        "phases": _phases_view(reader, contract, following),
        "current_billing_period_started_at": instant_text(period.start if period else None),
        "current_billing_period_ending_at": instant_text(period.end if period else None),
        "on_termination_credit_note": subscription.on_termination_credit_note,
        "on_termination_invoice": subscription.on_termination_invoice,
        "consolidate_invoice": subscription.consolidate_invoice,
        "progressive_billing_disabled": subscription.progressive_billing_disabled,
        "purchase_order_number": subscription.purchase_order_number,
        "payment_method": {
            "payment_method_type": subscription.payment_method_type,
            "payment_method_id": subscription.payment_method_id,
        },
        "activation_rules": [_rule_view(rule) for rule in subscription.activation_rules],
        "applied_invoice_custom_sections": applied_sections_view(reader, subscription.invoice_custom_section_ids),
    }


def _phases_view(reader: Reader, contract: Contract, following: Subscription | None) -> list[PhaseView]:
    """The present plan and those that wait to take over, in order; empty if none does."""
    subscription = contract.subscription
    if subscription.terminated_at is not None or following is None or following.status != SubscriptionStatus.PENDING:
        return []
    # All phases have the same periods, also before the first has started.
    begun = replace(subscription, started_at=subscription.started_at or subscription.subscription_at)
    cycle = cycle_of(begun, contract.plan, contract.zone)
    coming = scheduled_after(reader, subscription)
    begins = [local_date(begins_at(subscription) or subscription.subscription_at, contract.zone)]
    for phase in coming:
        first = len(begins) == 1
        begins.append(
            downgrade_plan_date(cycle, reader.now, phase.phase_from)
            if first or phase.phase_from is None
            else first_opening(cycle, phase.phase_from)
        )
    untils = [phase.phase_from or day for phase, day in zip(coming, begins[1:], strict=True)]
    return [
        {
            "plan_code": plan.code,
            "plan_amount_cents": plan.amount_cents,
            "plan_amount_currency": plan.amount_currency,
            "plan_overrides": plan_overrides_view(reader, phase, plan),
            "begins_on": date_text(day),
            "until": date_text(until),
        }
        for phase, day, until in zip((subscription, *coming), begins, (*untils, None), strict=True)
        for plan in (plan_of(reader, phase),)
    ]


def _rule_view(rule: ActivationRule) -> ActivationRuleView:
    return {
        "svc_id": rule.id,
        "type": "payment",
        "timeout_hours": rule.timeout_hours,
        "status": rule.status,
        "expires_at": instant_text(rule.expires_at),
        "created_at": instant_text(rule.created_at),
        "updated_at": instant_text(rule.updated_at),
    }


def _downgrade_date(reader: Reader, periods: Cycle | None, following: Subscription | None) -> str | None:
    """The date on which a downgrade replaces, or replaced, the subscription with these periods."""
    if following is None or periods is None:
        return None
    if following.status == SubscriptionStatus.PENDING:
        return date_text(downgrade_plan_date(periods, reader.now, following.phase_from))
    if (
        following.status == SubscriptionStatus.ACTIVE
        and following.origin == Succession.DOWNGRADE
        and following.started_at is not None
    ):
        return date_text(local_date(following.started_at, periods.tz))
    return None


def _thresholds_view(reader: Reader, subscription: Subscription) -> list[ApplicableThresholdView]:
    return [
        {
            "threshold_display_name": threshold.threshold_display_name,
            "amount_cents": threshold.amount_cents,
            "recurring": threshold.recurring,
        }
        for threshold in applicable_thresholds(reader, subscription)
    ]


def subscription_and_plan_view(reader: Reader, subscription: Subscription) -> SubscriptionAndPlanView:
    """The subscription as single-record responses show it: with its plan and applicable thresholds."""
    contract = contract_now(reader, subscription)
    shown = contract_view(reader, contract)
    until = shown["downgrade_plan_date"]
    coming = coming_version(reader, contract, None if until is None else date.fromisoformat(until))
    return {
        **shown,
        "plan": plan_view(reader, contract.plan),
        "plan_version": current_version(reader, contract),
        "next_plan_version": None
        if coming is None
        else {"version": coming.version, "begins_on": coming.begins_on.isoformat()},
        "applicable_usage_thresholds": _thresholds_view(reader, subscription),
    }


def subscription_webhook_view(reader: Reader, subscription: Subscription) -> SubscriptionMessage:
    """The subscription as messages show it: with its plan and its customer."""
    contract = contract_now(reader, subscription)
    return {
        **contract_view(reader, contract),
        "plan": plan_view(reader, contract.plan),
        "customer": customer_summary(reader, contract.customer, contract.parties.entity),
    }


def entitled_subscription(reader: Reader, subscription: Subscription) -> EntitledSubscription:
    """The subscription as the messages about its start and its changes show it."""
    return {
        **subscription_webhook_view(reader, subscription),
        "entitlements": subscription_entitlements_view(reader, entitled_features(reader, subscription)),
    }


def threshold_reached_view(reader: Reader, subscription: Subscription, threshold: UsageThreshold) -> ThresholdReached:
    """The subscription whose usage has reached the threshold."""
    return {
        **subscription_webhook_view(reader, subscription),
        "usage_threshold": threshold_view(threshold),
        "applicable_usage_thresholds": _thresholds_view(reader, subscription),
    }
