"""What each event of a subscription's life changes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.core.builders import subscription

from usagebill.core.activation import ActivationRule, CancellationReason, RuleStatus
from usagebill.core.life_cycles import TransitionError
from usagebill.core.periods import Succession
from usagebill.core.subscription_changes import (
    activated,
    activation_canceled,
    awaiting_payment,
    canceled,
    ended,
    started,
    with_termination_options,
)
from usagebill.core.subscriptions import Event, SubscriptionStatus

START = datetime(2024, 5, 1, tzinfo=UTC)
NOW = START + timedelta(days=2)
RULE = ActivationRule(id="rule", created_at=START, updated_at=START, status=RuleStatus.PENDING)
PENDING = subscription(status=SubscriptionStatus.PENDING, started_at=None)
ACTIVE = subscription(status=SubscriptionStatus.ACTIVE, started_at=START)
INCOMPLETE = subscription(status=SubscriptionStatus.INCOMPLETE, started_at=START, activation_rules=(RULE,))


def test_a_start_says_since_when_it_is_billed_and_since_when_runs_know_it() -> None:
    active = started(PENDING, START, NOW, billed_from=START + timedelta(days=1))
    assert active == replace(
        PENDING,
        status=SubscriptionStatus.ACTIVE,
        started_at=START,
        billed_from=START + timedelta(days=1),
        activated_at=NOW,
        updated_at=NOW,
    )


def test_awaiting_payment_it_has_started_and_is_not_active() -> None:
    waiting = awaiting_payment(PENDING, (RULE,), START, NOW)
    assert (waiting.status, waiting.started_at, waiting.activated_at) == (SubscriptionStatus.INCOMPLETE, START, None)
    assert waiting.activation_rules == (RULE,)


@pytest.mark.parametrize(("takes_over", "billed_from"), [(False, None), (True, NOW)])
def test_a_paid_subscription_is_billed_from_its_start_or_from_where_it_takes_over(
    takes_over: bool, billed_from: datetime | None
) -> None:
    active = activated(INCOMPLETE, NOW, takes_over=takes_over)
    assert (active.status, active.activated_at) == (SubscriptionStatus.ACTIVE, NOW)
    assert (active.started_at, active.billed_from) == (START, billed_from)
    assert [rule.status for rule in active.activation_rules] == [RuleStatus.SATISFIED]


@pytest.mark.parametrize(
    ("event", "rule_status", "reason"),
    [
        (Event.PAYMENT_FAILED, RuleStatus.FAILED, CancellationReason.PAYMENT_FAILED),
        (Event.PAYMENT_TIMED_OUT, RuleStatus.EXPIRED, CancellationReason.TIMEOUT),
        (Event.CANCEL, RuleStatus.DECLINED, None),
    ],
)
def test_an_activation_that_fails_says_why(
    event: Event, rule_status: RuleStatus, reason: CancellationReason | None
) -> None:
    dropped = activation_canceled(INCOMPLETE, event, NOW)
    assert (dropped.status, dropped.canceled_at) == (SubscriptionStatus.CANCELED, NOW)
    assert dropped.cancellation_reason == reason
    assert [rule.status for rule in dropped.activation_rules] == [rule_status]


def test_what_awaits_no_payment_has_no_activation_to_cancel() -> None:
    with pytest.raises(TransitionError):
        activation_canceled(ACTIVE, Event.PAYMENT_FAILED, NOW)


def test_only_what_has_not_started_can_be_canceled() -> None:
    dropped = canceled(PENDING, NOW)
    assert (dropped.status, dropped.canceled_at, dropped.terminated_at) == (SubscriptionStatus.CANCELED, NOW, None)
    with pytest.raises(TransitionError):
        canceled(ACTIVE, NOW)


@pytest.mark.parametrize(
    ("own", "requested", "pay_in_advance", "chosen"),
    [
        (None, None, True, "credit"),
        ("refund", None, True, "refund"),
        ("refund", "skip", True, "skip"),
        ("refund", "refund", False, None),
        (None, None, False, None),
    ],
)
def test_the_requested_credit_comes_before_its_own_and_there_is_none_in_arrears(
    own: str | None, requested: str | None, pay_in_advance: bool, chosen: str | None
) -> None:
    active = replace(ACTIVE, on_termination_credit_note=own)
    result = with_termination_options(active, credit_note=requested, invoice=None, pay_in_advance=pay_in_advance)
    assert result.on_termination_credit_note == chosen
    assert result.on_termination_invoice == active.on_termination_invoice


def test_the_requested_invoice_option_comes_before_its_own() -> None:
    result = with_termination_options(ACTIVE, credit_note=None, invoice="skip", pay_in_advance=True)
    assert result.on_termination_invoice == "skip"


@pytest.mark.parametrize("succession", [None, Succession.UPGRADE, Succession.DOWNGRADE])
def test_an_end_says_when_and_which_plan_change_ended_it(succession: Succession | None) -> None:
    last = ended(ACTIVE, NOW, succession=succession)
    assert (last.status, last.terminated_at) == (SubscriptionStatus.TERMINATED, NOW)
    assert last.succession == (None if succession is None else succession.value)
