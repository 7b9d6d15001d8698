"""The changes of a subscription by each event of its life: its status, and the time for which it is billed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from usagebill.core.activation import ActivationRule, CancellationReason, RuleStatus, settled_rules
from usagebill.core.periods import Succession
from usagebill.core.subscriptions import Event, Subscription, TerminationCredit, transition

# The state of the rule, and why the subscription was canceled.
_OUTCOMES: Mapping[Event, tuple[RuleStatus, CancellationReason | None]] = {
    Event.PAYMENT_FAILED: (RuleStatus.FAILED, CancellationReason.PAYMENT_FAILED),
    Event.PAYMENT_TIMED_OUT: (RuleStatus.EXPIRED, CancellationReason.TIMEOUT),
    Event.CANCEL: (RuleStatus.DECLINED, None),
}


def started(
    pending: Subscription, started_at: datetime, now: datetime, *, billed_from: datetime | None = None
) -> Subscription:
    """Active from `started_at` on. `billed_from` is the instant up to which a previous plan was billed, if there was
    one.
    """
    return replace(
        pending,
        status=transition(pending.status, Event.ACTIVATE),
        started_at=started_at,
        billed_from=billed_from,
        activated_at=now,
        updated_at=now,
    )


def as_phase(pending: Subscription, current: Subscription) -> Subscription:
    """The next phase of a contract with all that was agreed for `current` by now: a phase changes the plan alone."""
    return replace(
        pending,
        name=current.name,
        ending_at=current.ending_at,
        billing_entity_id=current.billing_entity_id,
        on_termination_credit_note=current.on_termination_credit_note,
        on_termination_invoice=current.on_termination_invoice,
        consolidate_invoice=current.consolidate_invoice,
        progressive_billing_disabled=current.progressive_billing_disabled,
        purchase_order_number=current.purchase_order_number,
        payment_method_type=current.payment_method_type,
        payment_method_id=current.payment_method_id,
        skip_invoice_custom_sections=current.skip_invoice_custom_sections,
        invoice_custom_section_ids=current.invoice_custom_section_ids,
        usage_thresholds=current.usage_thresholds,
        termination_announced_at=current.termination_announced_at,
    )


def awaiting_payment(
    pending: Subscription, rules: tuple[ActivationRule, ...], started_at: datetime, now: datetime
) -> Subscription:
    """Incomplete from `started_at` on, until its first invoice is paid. `rules` are its rules once started."""
    return replace(
        pending,
        status=transition(pending.status, Event.AWAIT_PAYMENT),
        started_at=started_at,
        activation_rules=rules,
        updated_at=now,
    )


def activated(incomplete: Subscription, now: datetime, *, takes_over: bool) -> Subscription:
    """Active because its first invoice was paid.

    With `takes_over` it replaces a subscription that has been active until now, which was billed for usage up to now.
    """
    return replace(
        incomplete,
        status=transition(incomplete.status, Event.PAYMENT_SUCCEEDED),
        activated_at=now,
        billed_from=now if takes_over else incomplete.billed_from,
        activation_rules=settled_rules(incomplete.activation_rules, RuleStatus.SATISFIED, now),
        updated_at=now,
    )


def activation_canceled(incomplete: Subscription, event: Event, now: datetime) -> Subscription:
    """Canceled because its first payment failed, timed out or is no longer wanted.

    Raises `TransitionError` for any other event.
    """
    status = transition(incomplete.status, event)
    rule_status, reason = _OUTCOMES[event]
    return replace(
        incomplete,
        status=status,
        canceled_at=now,
        cancellation_reason=reason,
        activation_rules=settled_rules(incomplete.activation_rules, rule_status, now),
        updated_at=now,
    )


def canceled(pending: Subscription, now: datetime) -> Subscription:
    """Canceled before it started."""
    return replace(pending, status=transition(pending.status, Event.CANCEL), canceled_at=now, updated_at=now)


def with_termination_options(
    active: Subscription, *, credit_note: str | None, invoice: str | None, pay_in_advance: bool
) -> Subscription:
    """The subscription with the options for its end: those requested, else its own, else credit. No credit in
    arrears.
    """
    chosen = credit_note or active.on_termination_credit_note or TerminationCredit.CREDIT
    return replace(
        active,
        on_termination_credit_note=chosen if pay_in_advance else None,
        on_termination_invoice=invoice or active.on_termination_invoice,
    )


def ended(active: Subscription, now: datetime, *, succession: Succession | None = None) -> Subscription:
    """Terminated now; `succession` is the plan change that ends it, if one does."""
    return replace(
        active,
        status=transition(active.status, Event.TERMINATE),
        terminated_at=now,
        succession=active.succession if succession is None else succession.value,
        updated_at=now,
    )
