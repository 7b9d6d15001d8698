"""Plan changes: an upgrade takes effect at once, a downgrade when the current interval ends, a phase when the one does
that its date falls into.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.contracts import Contract
from usagebill.core.days import local_date
from usagebill.core.errors import Invalid
from usagebill.core.invoice_triggers import Trigger
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.periods import Interval, Succession
from usagebill.core.periods.schedule import is_billing_day, is_unbilled, run_is_past
from usagebill.core.sharing import sharing
from usagebill.core.subscription_changes import canceled, ended
from usagebill.core.subscriptions import Subscription, SubscriptionStatus, TerminationCredit, is_upgrade, known_since
from usagebill.operations import credit_notes
from usagebill.operations.alert_watch import check_before_end
from usagebill.operations.draft_invoices import keep_plan
from usagebill.operations.invoices.advance_charges import regroup
from usagebill.operations.invoices.subscription import bill
from usagebill.operations.plans.overrides import Overridden
from usagebill.operations.subscriptions.gate import gated
from usagebill.operations.subscriptions.inputs import SubscriptionInput, instant_of
from usagebill.operations.subscriptions.schedule import forget
from usagebill.operations.subscriptions.start import owed_at_start, start
from usagebill.operations.subscriptions.trial import bill_ended_trial
from usagebill.operations.subscriptions.unused_time import credit_unused_time
from usagebill.operations.subscriptions.validation import choices_of, purchase_order_number_of
from usagebill.queries.billing_periods import billed_through_day, cycle_at
from usagebill.queries.contracts import contract_of, refreshed
from usagebill.queries.entitlements import own_entitlements
from usagebill.queries.subscriptions import scheduled_after, successor_of
from usagebill.queries.takeovers import Takeover, takeovers
from usagebill.rating.fees.renewals import opens_with_charges
from usagebill.rating.invoice import Entry
from usagebill.requests.inputs import is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.views.subscriptions import entitled_subscription, subscription_webhook_view


def change_plan(
    work: Work, current: Subscription, chosen: Overridden, request: SubscriptionInput, entity: BillingEntity | None
) -> Subscription:
    """Change the plan of an active subscription. Returns the new one after an upgrade, else the current one."""
    contract = contract_of(work, current)
    current_plan, plan = contract.plan, chosen.plan
    if plan.amount_currency != current_plan.amount_currency:
        reason = f"the current plan is in {current_plan.amount_currency}, and the new one in {plan.amount_currency}"
        raise Invalid(currency="currencies_does_not_match", reasons={"currency": reason})
    upgrade = is_upgrade(
        current_plan.amount_cents, Interval(current_plan.interval), plan.amount_cents, Interval(plan.interval)
    )
    cancel_downgrade(work, current)
    following = _following(
        work, current, chosen, request, entity, Succession.UPGRADE if upgrade else Succession.DOWNGRADE
    )
    work.tx.insert(following)
    if upgrade:
        return upgrade_to(work, contract, following, by_request=True)
    work.emit("subscription.updated", lambda: entitled_subscription(work, current), current.id)
    return current


def _following(
    reader: Reader,
    current: Subscription,
    chosen: Overridden,
    request: SubscriptionInput,
    entity: BillingEntity | None,
    origin: Succession,
) -> Subscription:
    name = request.name.strip() if isinstance(request.name, str) else ""
    return Subscription(
        id=reader.new_id(),
        organization_id=reader.organization.id,
        external_id=current.external_id,
        customer_id=current.customer_id,
        plan_id=chosen.plan.id,
        fixed_charge_units=chosen.fixed_charge_units,
        status=SubscriptionStatus.PENDING,
        billing_time=current.billing_time,
        bill_from=current.bill_from,
        subscription_at=current.subscription_at,
        previous_subscription_id=current.id,
        origin=origin.value,
        name=name or (None if is_given(request.name) else current.name),
        ending_at=instant_of(request.ending_at) if is_given(request.ending_at) else current.ending_at,
        billing_entity_id=entity.id if entity else current.billing_entity_id,
        consolidate_invoice=value_or(request.consolidate_invoice, current.consolidate_invoice),
        purchase_order_number=purchase_order_number_of(request.purchase_order_number)
        if is_given(request.purchase_order_number)
        else current.purchase_order_number,
        progressive_billing_disabled=value_or(request.progressive_billing_disabled, False),
        created_at=reader.now,
        updated_at=reader.now,
        **choices_of(reader, request, None),
    )


def cancel_downgrade(work: Work, current: Subscription) -> bool:
    """Cancel the scheduled downgrade of `current`, or the phases to come; False if there are none."""
    coming = scheduled_after(work, current)
    for subscription in coming:
        work.tx.replace(canceled(subscription, work.now))
    return bool(coming)


def _succeeded(work: Work, contract: Contract, succession: Succession) -> Contract:
    """The contract of a subscription that has ended now, because another one follows."""
    contract = bill_ended_trial(work, contract)
    current = contract.subscription
    check_before_end(work, current)
    last = ended(current, work.now, succession=succession)
    work.tx.replace(last)
    keep_plan(work, last)
    forget(work, last)
    return contract.of(last)


def upgrade_to(work: Work, contract: Contract, following: Subscription, *, by_request: bool = False) -> Subscription:
    """End the current subscription now and start `following` in its place, on one invoice.

    If `following` is to wait for its payment, the current one continues until then.

    A period that closed the day before is billed with the end, if its run has yet to come. The day itself belongs to
    the new plan: an old plan in arrears is billed up to the day before, one in advance is credited from that day on.
    Nothing is due in advance for a period that opens with that day.
    """
    waiting = gated(work, following, work.now)
    if waiting.status == SubscriptionStatus.INCOMPLETE:
        return waiting
    closing = _left_by_upgrade(work, contract)
    _credit_rest(work, closing, waiting, by_request=by_request)
    return _succeed(work, closing, waiting)


def end_for(work: Work, contract: Contract) -> None:
    """End the current subscription, on its own invoice, for a successor that has waited for its payment until now.

    As with an upgrade, the day belongs to the successor, and prepaid days from then on are credited.
    """
    closing = _left_by_upgrade(work, contract)
    _credit_rest(work, closing, successor_of(work, closing.subscription), by_request=False)
    _bill_end(work, closing)


def _left_by_upgrade(work: Work, contract: Contract) -> Contract:
    """The contract of a subscription that an upgrade has ended now. On a billing day the end bills what closed the day
    before (`ended_on_boundary_day`), whenever the run is due.
    """
    periods = cycle_at(contract, work.now)
    if not is_billing_day(periods, local_date(work.now, periods.tz)):
        contract = bill_closed_period(work, contract)
    return _succeeded(work, contract, Succession.UPGRADE)


def _credit_rest(work: Work, closing: Contract, following: Subscription | None, *, by_request: bool) -> None:
    skips = closing.subscription.on_termination_credit_note == TerminationCredit.SKIP
    option = TerminationCredit.SKIP if skips else TerminationCredit.CREDIT
    credit_unused_time(work, closing, option=option, by_request=by_request)
    if following is not None and not skips:
        credit_notes.on_carried_usage(work, closing, following)


def _bill_end(work: Work, closing: Contract) -> None:
    last = closing.subscription
    work.emit("subscription.terminated", lambda: subscription_webhook_view(work, last), last.id)
    entries = [Entry(contract=closing, reason=InvoicingReason.TERMINATING)]
    bill(work, entries, at=work.now, trigger=Trigger.END)
    regroup(work, [last], work.now, renewing=False)


def apply_downgrade(work: Work, contract: Contract, due: Takeover) -> Subscription:
    """End the subscription at the end of its interval, and start its scheduled downgrade, or its next phase, as of the
    midnight in between; called by a run.
    """
    waiting = gated(work, due.following, work.now)
    if waiting.status == SubscriptionStatus.INCOMPLETE:
        return waiting
    closing = _succeeded(work, contract, Succession.DOWNGRADE)
    if waiting.phase_from is not None:
        for entitlement in own_entitlements(work, closing.subscription):
            work.tx.insert(replace(entitlement, id=work.new_id(), subscription_id=waiting.id))
    return _succeed(work, closing, waiting, billed_from=due.at)


def taken_over(work: Work, active: Subscription) -> Subscription:
    """The subscription that a change concerns: one made between the midnight of a downgrade and its run brings the run
    forward. Raises `Invalid` if the successor waits for its payment.
    """
    due = next((one for one in takeovers(work, [active.external_id]) if one.current.id == active.id), None)
    if due is None:
        return active
    following = apply_downgrade(work, contract_of(work, active), due)
    if following.status == SubscriptionStatus.INCOMPLETE:
        raise Invalid(subscription="subscription_incomplete")
    return following


def _succeed(
    work: Work, closing: Contract, following: Subscription, *, billed_from: datetime | None = None
) -> Subscription:
    """Start `following`; one invoice ends `closing` and opens what is due in advance, as of the instant of the change:
    a second later may be another period.
    """
    last = closing.subscription
    work.emit("subscription.terminated", lambda: subscription_webhook_view(work, last), last.id)
    opening = start(work, following, work.now, billed_from=billed_from)
    active = opening.subscription
    reasons = {last.id: InvoicingReason.TERMINATING, active.id: InvoicingReason.STARTING}
    owes_at_start = owed_at_start(work, opening, work.now) is not None or opens_with_charges(work, active)
    for shared in sharing([closing, opening] if owes_at_start else [closing], succeeding=True):
        entries = [Entry(contract=contract, reason=reasons[contract.subscription.id]) for contract in shared]
        bill(work, entries, at=work.now, trigger=Trigger.PLAN_CHANGE)
    regroup(work, [last], work.now, renewing=False)
    return active


def bill_closed_period(work: Work, contract: Contract) -> Contract:
    """Bill the period that closed before the open one, if a change of time zone has delayed its run: neither a change
    of plan nor an end may lose it. Before the time of that run, the end itself bills it (`ended_on_boundary_day`).

    Returns the contract afterwards.
    """
    periods = contract.cycle()
    billed = billed_through_day(work, contract, periods)
    if not run_is_past(periods, work.now) or not is_unbilled(
        periods, work.now, billed_on=billed, known_since=known_since(contract.subscription)
    ):
        return contract
    entries = [Entry(contract=contract, reason=InvoicingReason.PERIODIC)]
    bill(work, entries, at=work.now, trigger=Trigger.RUN)
    return refreshed(work, contract)
