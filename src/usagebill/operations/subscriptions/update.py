"""PUT /subscriptions: changes of a subscription apart from its plan."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.subscriptions import (
    NOT_ACTIVATED,
    UNENDED,
    Start,
    Subscription,
    SubscriptionStatus,
    is_unstarted_phase,
    start_of_moved,
    started_in_past_at,
)
from usagebill.operations.alert_watch import watch_subscription
from usagebill.operations.backlog import after_backlog, of_subscriptions
from usagebill.operations.customer_currency import check_currency
from usagebill.operations.plans.overrides import apply_overrides
from usagebill.operations.subscriptions.inputs import StatusOptions, SubscriptionUpdate, instant_of
from usagebill.operations.subscriptions.past_start import bill_past
from usagebill.operations.subscriptions.phases import check_dates, own_overrides, set_phases
from usagebill.operations.subscriptions.reading import find_by_external_id
from usagebill.operations.subscriptions.schedule import schedule
from usagebill.operations.subscriptions.start import bill_start, ends_invoiced, start
from usagebill.operations.subscriptions.termination import termination_options
from usagebill.operations.subscriptions.validation import choices_of, purchase_order_number_of, request_errors
from usagebill.operations.usage_so_far import check_new_thresholds
from usagebill.queries.contracts import contract_of
from usagebill.queries.customers import customer_of
from usagebill.queries.subscriptions import plan_of
from usagebill.requests.inputs import is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import desc, eq, missing
from usagebill.views.plans import plan_summary
from usagebill.views.subscriptions import entitled_subscription


@after_backlog(of_subscriptions, needed=True)
def update(work: Work, external_id: str, request: SubscriptionUpdate, options: StatusOptions) -> Subscription:
    """Change the sent fields. Raises `NotFound`, `NotAllowed` or `Invalid`.

    The start of a pending subscription can be moved: to a later date, or into the past, which starts it.
    """
    overrides = own_overrides(request)
    to_change = find_to_change(work, external_id, options)
    if to_change.status == SubscriptionStatus.INCOMPLETE:
        raise NotAllowed("subscription_incomplete", to_change.status)
    entity = _entity(work, request)
    movable = to_change.status == SubscriptionStatus.PENDING and to_change.previous_subscription_id is None
    starts = request.subscription_at if movable and request.subscription_at else to_change.subscription_at
    problems = request_errors(work, request, starts, to_change.customer_id)
    if (
        request.activation_rules is not None
        and is_given(request.activation_rules)
        and to_change.status != SubscriptionStatus.PENDING
    ):
        problems["activation_rules"] = ["subscription_not_pending"]
    if problems:
        raise Invalid(problems)
    advance = plan_of(work, to_change).pay_in_advance
    termination_options(advance, request.on_termination_credit_note or None, request.on_termination_invoice or None)
    changed = _changed(work, to_change, request, entity, advance)
    moved = movable and bool(request.subscription_at)
    if moved:
        changed = replace(changed, subscription_at=instant_of(starts) or changed.subscription_at)
    if overrides:
        plan = plan_of(work, changed)
        chosen = apply_overrides(work, plan, overrides, changed)
        if chosen.plan.amount_currency != plan.amount_currency:
            check_currency(customer_of(work, changed), chosen.plan.amount_currency)
        if plan.parent_id is not None:
            work.emit("plan.updated", lambda: plan_summary(work, chosen.plan), plan.id)
        changed = replace(changed, plan_id=chosen.plan.id, fixed_charge_units=chosen.fixed_charge_units)
    work.tx.replace(changed)
    if is_given(request.phases):
        set_phases(work, changed, value_or(request.phases, ()))
    elif moved or is_given(request.ending_at):
        check_dates(work, changed)
    if changed.usage_thresholds != to_change.usage_thresholds or overrides:
        check_new_thresholds(work, eq("id", changed.id))
    if overrides:
        watch_subscription(work, changed)
    begins = Start.FUTURE
    if moved:
        has_rules = bool(changed.activation_rules)
        begins = start_of_moved(changed.subscription_at, work.now, has_rules=has_rules)
    if begins is not Start.FUTURE:
        changed = _started(work, changed, begins)
    elif changed.status in UNENDED:
        schedule(work, contract_of(work, changed))
    if not moved or changed.status == SubscriptionStatus.ACTIVE:
        work.emit("subscription.updated", lambda: entitled_subscription(work, changed), changed.id)
    return changed


def find_to_change(reader: Reader, external_id: str, options: StatusOptions) -> Subscription:
    """The only subscription with this external id, whatever its status; of several, the one with the requested status.
    Phases that have not taken over are changed as a list, on the subscription that they follow.

    Raises `NotFound`.
    """
    subscriptions = [found for found in find_by_external_id(reader, external_id) if not is_unstarted_phase(found)]
    if len(subscriptions) == 1:
        return subscriptions[0]
    status = options.status if options.status in NOT_ACTIVATED else SubscriptionStatus.ACTIVE
    of_status = reader.tx.find(
        Subscription, eq("external_id", external_id), eq("status", status), order=[desc("subscription_at")]
    )
    subscription = next((found for found in of_status if not is_unstarted_phase(found)), None)
    if subscription is None:
        raise NotFound("subscription", external_id)
    return subscription


def _entity(reader: Reader, request: SubscriptionUpdate) -> BillingEntity | None:
    if not request.billing_entity_code:
        return None
    entity = reader.tx.first(BillingEntity, eq("code", request.billing_entity_code), missing("archived_at"))
    if entity is None:
        raise NotFound("billing_entity", request.billing_entity_code)
    return entity


def _changed(
    reader: Reader, subscription: Subscription, request: SubscriptionUpdate, entity: BillingEntity | None, advance: bool
) -> Subscription:
    changed = replace(subscription, updated_at=reader.now, **choices_of(reader, request, subscription))
    if is_given(request.name):
        changed = replace(changed, name=request.name or None)
    if is_given(request.ending_at):
        changed = replace(changed, ending_at=instant_of(request.ending_at))
    if is_given(request.purchase_order_number):
        number = purchase_order_number_of(request.purchase_order_number)
        if number != subscription.purchase_order_number and subscription.status not in UNENDED:
            raise NotAllowed("purchase_order_number_not_editable", subscription.status)
        changed = replace(changed, purchase_order_number=number)
    if isinstance(request.consolidate_invoice, bool):
        changed = replace(changed, consolidate_invoice=request.consolidate_invoice)
    if isinstance(request.progressive_billing_disabled, bool):
        changed = replace(changed, progressive_billing_disabled=request.progressive_billing_disabled)
    if is_given(request.on_termination_credit_note) and advance:
        changed = replace(changed, on_termination_credit_note=request.on_termination_credit_note or None)
    if request.on_termination_invoice:
        changed = replace(changed, on_termination_invoice=request.on_termination_invoice)
    if is_given(request.billing_entity_code):
        changed = replace(changed, billing_entity_id=entity.id if entity else None)
    return changed


def _started(work: Work, moved: Subscription, begins: Start) -> Subscription:
    """Start a pending subscription whose start was moved to today, billed at once, or into the past, billed as its
    `bill_from` says.
    """
    ends = ends_invoiced(work, moved.external_id)
    # A start in the past waits for no first payment.
    ungated = replace(moved, activation_rules=())
    contract = start(work, ungated, started_in_past_at(moved.subscription_at, ends))
    if begins is Start.TODAY:
        bill_start(work, contract)
        return contract.subscription
    return bill_past(work, contract).subscription
