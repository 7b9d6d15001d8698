"""What customers do for themselves in the portal: change plans, buy credits, and choose how they pay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from usagebill.core.customers import Customer
from usagebill.core.documents.content import Content
from usagebill.core.documents.invoices import invoice_content
from usagebill.core.errors import NotFound
from usagebill.core.periods import Interval, downgrade_plan_date
from usagebill.core.plans import Plan
from usagebill.core.portal import may_change_to
from usagebill.core.subscriptions import Subscription, SubscriptionStatus, is_upgrade
from usagebill.operations import preview
from usagebill.operations.documents.sources import invoice_source
from usagebill.operations.subscriptions import SubscriptionInput, create
from usagebill.queries.contracts import contract_of
from usagebill.queries.payment_providers import names_method
from usagebill.queries.subscriptions import plan_of, successor_of
from usagebill.requests.inputs import ABSENT
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A subscription, its plan, and the plans that its customer may change to. `next_plan` follows on `changes_on`."""

    subscription: Subscription
    plan: Plan
    plans: Sequence[Plan]
    next_plan: Plan | None = None
    changes_on: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """What a change of plan comes to. `effective_on` is a day of the customer's, None for at once; `invoice` is the
    next one after it, None if there is none.
    """

    plan: Plan
    effective_on: date | None
    invoice: Content | None


def offer_of(reader: Reader, customer: Customer, external_id: str) -> Offer:
    """What the customer may change the subscription to. Raises `NotFound`, also for another customer's."""
    subscription = reader.tx.first(
        Subscription,
        eq("customer_id", customer.id),
        eq("external_id", external_id),
        eq("status", SubscriptionStatus.ACTIVE),
    )
    if subscription is None:
        raise NotFound("subscription", external_id)
    present, following = plan_of(reader, subscription), successor_of(reader, subscription)
    offered = reader.tx.find(
        Plan, eq("offered_in_portal", True), missing("parent_id"), order=[asc("amount_cents"), asc("name")]
    )
    offer = Offer(
        subscription=subscription,
        plan=present,
        plans=[plan for plan in offered if may_change_to(present, plan)],
    )
    if following is None:
        return offer
    return replace(offer, next_plan=plan_of(reader, following), changes_on=_end_of_interval(reader, subscription))


def previewed_change(work: Work, customer: Customer, external_id: str, plan_code: str) -> PlanChange:
    """What a change to the plan would come to now; nothing is stored. Raises `NotFound` for a plan that the customer
    may not change to.
    """
    offer = offer_of(work, customer, external_id)
    plan = _chosen(offer, plan_code)
    before, after = offer.plan, plan
    at_once = is_upgrade(before.amount_cents, Interval(before.interval), after.amount_cents, Interval(after.interval))
    invoice = preview.plan_change(
        work,
        offer.subscription,
        plan.code,
        lambda later, made: invoice_content(invoice_source(later, made)),
    )
    return PlanChange(
        plan=plan,
        effective_on=None if at_once else _end_of_interval(work, offer.subscription),
        invoice=invoice,
    )


def change_plan(work: Work, customer: Customer, external_id: str, plan_code: str) -> Subscription:
    """Change the plan as `subscriptions.create` does. Raises `NotFound` for a plan that the customer may not change to,
    as once the change is made.
    """
    offer = offer_of(work, customer, external_id)
    plan = _chosen(offer, plan_code)
    return create(work, _request(work, customer, offer.subscription, plan))


def _chosen(offer: Offer, plan_code: str) -> Plan:
    plan = next((plan for plan in offer.plans if plan.code == plan_code), None)
    if plan is None:
        raise NotFound("plan", plan_code)
    return plan


def _request(reader: Reader, customer: Customer, subscription: Subscription, plan: Plan) -> SubscriptionInput:
    """The change, with what the seller has agreed on for the subscription and a request would reset."""
    method = {"payment_method_type": subscription.payment_method_type}
    if subscription.payment_method_id is not None:
        method["payment_method_id"] = subscription.payment_method_id
    return SubscriptionInput(
        external_customer_id=customer.external_id,
        external_id=subscription.external_id,
        plan_code=plan.code,
        progressive_billing_disabled=subscription.progressive_billing_disabled,
        payment_method=method if names_method(reader, method, customer.id) else ABSENT,
    )


def _end_of_interval(reader: Reader, subscription: Subscription) -> date:
    return downgrade_plan_date(contract_of(reader, subscription).cycle(), reader.now)
