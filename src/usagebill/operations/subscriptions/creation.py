"""POST /subscriptions: a new subscription, an unchanged one, or a plan change."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.periods import BillingTime
from usagebill.core.plans import Plan
from usagebill.core.subscription_requests import RequestEffect, effect_of_request
from usagebill.core.subscriptions import (
    HOLDING_ID,
    BillFrom,
    Start,
    Subscription,
    SubscriptionStatus,
    start_of,
    started_in_past_at,
)
from usagebill.operations import customers
from usagebill.operations.backlog import after_backlog, catch_up, of_customer_in, settle_backlog
from usagebill.operations.customer_currency import bill_in
from usagebill.operations.plans.overrides import Overridden, apply_overrides
from usagebill.operations.subscriptions.authorization import authorize, check_authorization
from usagebill.operations.subscriptions.change import change_plan, taken_over
from usagebill.operations.subscriptions.gate import begin
from usagebill.operations.subscriptions.inputs import AuthorizationOptions, SubscriptionInput, instant_of
from usagebill.operations.subscriptions.past_start import bill_past
from usagebill.operations.subscriptions.phases import own_overrides, refuse_with_phases, set_phases
from usagebill.operations.subscriptions.schedule import schedule
from usagebill.operations.subscriptions.start import ends_invoiced, start
from usagebill.operations.subscriptions.validation import choices_of, purchase_order_number_of, request_errors
from usagebill.queries.contracts import contract_of
from usagebill.queries.customers import zone_of
from usagebill.requests.inputs import is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing, ne, within

_NOT_AUTHORIZED = AuthorizationOptions()


@after_backlog(of_customer_in)
def create(work: Work, request: SubscriptionInput, options: AuthorizationOptions = _NOT_AUTHORIZED) -> Subscription:
    """Put a customer on a plan.

    For an external id without a live subscription of the customer, this creates one: active at once if it starts today
    or started in the past, pending if it starts later. On the same plan, the existing one is returned unchanged. On
    another plan it is an upgrade, effective at once, if that plan costs at least as much a year, else a downgrade at
    the end of the current interval. An unknown customer is created; one without a currency gets the plan's, and a plan
    in another currency than the customer's is refused. So is a change of plan beside phases, those to come or `phases`.

    With an `authorization`, Stripe has to authorize that amount first; it is neither captured nor held afterwards. No
    subscription is created if Stripe refuses (`AuthorizationRefused`), if Stripe does not collect from the customer
    (`StripeRequired`), or without a payment method (`Invalid`).
    """
    sent = value_or(options.authorization, None)
    if sent is not None:
        check_authorization(sent)
    subscription = _created(work, request)
    if sent is not None:
        # Last, so that Stripe is asked only if nothing else can fail.
        authorize(work, subscription, sent)
    return subscription


def _created(work: Work, request: SubscriptionInput) -> Subscription:
    entity = _entity(work, request)
    plan = _plan(work, request)
    overrides = own_overrides(request)
    owner = work.tx.first(Customer, eq("external_id", _text(request.external_customer_id) or ""))
    owner_id = None if owner is None else owner.id
    problems = request_errors(work, request, value_or(request.subscription_at, work.now), owner_id)
    if problems:
        raise Invalid(problems)
    external_customer_id = _text(request.external_customer_id)
    if not external_customer_id:
        raise Invalid(external_customer_id="value_is_mandatory")
    if request.usage_thresholds and overrides and overrides.usage_thresholds:
        raise Invalid(
            {"usage_thresholds": ["incompatible_params"], "plan_overrides.usage_thresholds": ["incompatible_params"]}
        )
    customer = _customer(work, external_customer_id, entity)
    external_id = _text(request.external_id)
    same = (eq("customer_id", customer.id), eq("external_id", external_id))
    # A new subscription does not affect the backlog; a change of an existing one does.
    settle_backlog(work, customer.id, needed=work.tx.count(Subscription, *same) > 0)
    if external_id and work.tx.count(Subscription, *same, eq("status", SubscriptionStatus.INCOMPLETE)):
        raise Invalid(subscription="subscription_incomplete")
    current = _current(work, customer, external_id) if external_id else None
    if current is not None and current.status == SubscriptionStatus.ACTIVE:
        current = taken_over(work, current)
    if external_id and current is None and _is_used_by_another(work, customer, external_id):
        raise Invalid(external_id="value_already_exist")
    if not external_id:
        raise Invalid(external_id="value_is_mandatory")
    bill_from = _bill_from(request, current)
    effect = effect_of_request(current, plan.id)
    if current is not None and effect is RequestEffect.NOTHING:
        return current
    if current is not None:
        refuse_with_phases(work, current)
        if request.phases:
            reason = "the plan changes by this request; PUT its phases afterwards"
            raise Invalid(phases="value_is_not_editable", reasons={"phases": reason})
    chosen = apply_overrides(work, plan, overrides) if overrides else Overridden(plan=plan)
    customer = bill_in(work, customer, chosen.plan.amount_currency)
    purchase_order_number = purchase_order_number_of(request.purchase_order_number)
    if current is None:
        return _new(work, request, customer, entity, chosen, external_id, purchase_order_number, bill_from)
    if effect is RequestEffect.OTHER_PLAN_AT_START:
        return _replanned(work, request, current, chosen)
    entity_sent = entity if is_given(request.billing_entity_code) else None
    return change_plan(work, current, chosen, request, entity_sent)


def _entity(reader: Reader, request: SubscriptionInput) -> BillingEntity:
    if not request.billing_entity_code:
        return customers.default_entity(reader)
    entity = reader.tx.first(BillingEntity, eq("code", request.billing_entity_code), missing("archived_at"))
    if entity is None:
        raise NotFound("billing_entity", request.billing_entity_code)
    return entity


def _plan(reader: Reader, request: SubscriptionInput) -> Plan:
    code = request.plan_code or ""
    plan = reader.tx.first(Plan, eq("code", code), missing("parent_id"))
    if plan is None:
        raise NotFound("plan", code)
    return plan


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _bill_from(request: SubscriptionInput, current: Subscription | None) -> BillFrom:
    """What is billed of a start in the past. Raises `Invalid` for an unknown value, and for a change of it."""
    sent = value_or(request.bill_from, None)
    if sent is None:
        return BillFrom.NOW
    if sent not in tuple(BillFrom):
        raise Invalid(bill_from="value_is_invalid")
    if current is not None and current.bill_from != sent:
        raise Invalid(bill_from="value_is_not_editable")
    return BillFrom(sent)


def _customer(work: Work, external_id: str, entity: BillingEntity) -> Customer:
    """The customer with this external id, created if missing."""
    customer = work.tx.first(Customer, eq("external_id", external_id))
    if customer is None:
        customer = customers.upsert(
            work, customers.CustomerInput(external_id=external_id, billing_entity_code=entity.code)
        )
    return customer


def _current(reader: Reader, customer: Customer, external_id: str) -> Subscription | None:
    """The customer's subscription with this external id: the active one, else the pending one."""
    named = (eq("customer_id", customer.id), eq("external_id", external_id))
    return reader.tx.first(Subscription, *named, eq("status", SubscriptionStatus.ACTIVE)) or reader.tx.first(
        Subscription, *named, eq("status", SubscriptionStatus.PENDING), missing("previous_subscription_id")
    )


def _is_used_by_another(work: Work, customer: Customer, external_id: str) -> bool:
    """Whether another customer has, or will have, a subscription with this external id, which would share its usage."""
    live = within("status", HOLDING_ID)
    others = (eq("external_id", external_id), live, ne("customer_id", customer.id))
    for customer_id in {other.customer_id: None for other in work.tx.find(Subscription, *others)}:
        # Its end may be overdue.
        catch_up(work, (customer_id,))
    return work.tx.count(Subscription, *others) > 0


def _new(
    work: Work,
    request: SubscriptionInput,
    customer: Customer,
    entity: BillingEntity,
    chosen: Overridden,
    external_id: str,
    purchase_order_number: str | None,
    bill_from: BillFrom,
) -> Subscription:
    billing_time = BillingTime.CALENDAR.value if not is_given(request.billing_time) else request.billing_time
    if not billing_time:
        raise Invalid(billing_time="value_is_mandatory")
    if billing_time not in tuple(BillingTime):
        raise Invalid(billing_time="value_is_invalid")
    subscription_at = instant_of(value_or(request.subscription_at, work.now)) or work.now
    pending = Subscription(
        id=work.new_id(),
        organization_id=work.organization.id,
        external_id=external_id,
        customer_id=customer.id,
        plan_id=chosen.plan.id,
        fixed_charge_units=chosen.fixed_charge_units,
        status=SubscriptionStatus.PENDING,
        billing_time=billing_time,
        subscription_at=subscription_at,
        ending_at=instant_of(request.ending_at),
        name=_text(request.name) or None,
        billing_entity_id=entity.id if is_given(request.billing_entity_code) else None,
        consolidate_invoice=value_or(request.consolidate_invoice, True),
        progressive_billing_disabled=value_or(request.progressive_billing_disabled, False),
        purchase_order_number=purchase_order_number,
        bill_from=bill_from,
        created_at=work.now,
        updated_at=work.now,
        **choices_of(work, request, None),
    )
    work.tx.insert(pending)
    if request.phases:
        set_phases(work, pending, request.phases)
    begins = start_of(subscription_at, work.now, zone_of(work, customer))
    if begins is Start.FUTURE:
        schedule(work, contract_of(work, pending))
        return pending
    started_at = started_in_past_at(subscription_at, ends_invoiced(work, external_id))
    if begins is Start.TODAY:
        return begin(work, pending, started_at)
    # A start in the past waits for no first payment.
    return bill_past(work, start(work, replace(pending, activation_rules=()), started_at)).subscription


def _replanned(work: Work, request: SubscriptionInput, pending: Subscription, chosen: Overridden) -> Subscription:
    """The pending subscription, moved to another plan."""
    changed = replace(
        pending,
        plan_id=chosen.plan.id,
        fixed_charge_units=chosen.fixed_charge_units,
        name=_text(request.name) or pending.name,
        updated_at=work.now,
    )
    work.tx.replace(changed)
    return changed
