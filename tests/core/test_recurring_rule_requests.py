"""Which recurring rule a request describes, and which requests are refused, in tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.core.builders import NOW, wallet

from usagebill.core.errors import Invalid
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.recurring_rule_requests import (
    RuleFacts,
    check_limits,
    check_number_of_rules,
    new_rule,
    rule_as_sent,
)
from usagebill.core.recurring_rules import RecurringTransactionRule, RuleInterval, RuleMethod, RuleTrigger
from usagebill.core.wallet_transactions import MetadataPair

D = Decimal
WALLET = wallet()
MONTHLY = replace(new_rule("rule", WALLET, "interval", NOW), interval=RuleInterval.MONTHLY, paid_credits=D(10))
FIRST = RuleFacts(now=NOW, paid=D(5), granted=D(2))
LATER = RuleFacts(now=NOW, is_new=False, paid=D(5), granted=D(2))
UNSOUND = {"recurring_transaction_rules": ["invalid_recurring_rule"]}


def first(trigger: str, **sent: object) -> RecurringTransactionRule:
    return rule_as_sent(new_rule("rule", WALLET, trigger, NOW), {"trigger": trigger, **sent}, FIRST)


@pytest.mark.parametrize(
    ("trigger", "sent", "shown"),
    [
        # Without credits of its own it adds what the wallet begins with.
        ("interval", {"interval": "weekly"}, {"paid_credits": D(5), "granted_credits": D(2)}),
        ("interval", {"interval": "weekly", "granted_credits": "3"}, {"paid_credits": D(0), "granted_credits": D(3)}),
        ("interval", {"interval": "weekly", "paid_credits": None}, {"paid_credits": D(0), "granted_credits": D(0)}),
        ("threshold", {"threshold_credits": "20"}, {"threshold_credits": D(20), "method": RuleMethod.FIXED}),
        ("threshold", {"threshold_credits": "-1"}, {"threshold_credits": D(-1)}),
        (
            "threshold",
            {"threshold_credits": "20", "method": "target", "target_ongoing_balance": "20"},
            {"target_ongoing_balance": D(20), "paid_credits": D(0)},
        ),
        (
            "interval",
            {"interval": "yearly", "method": "target", "target_ongoing_balance": "1", "grants_target_top_up": True},
            {"grants_target_top_up": True},
        ),
    ],
)
def test_a_new_rule(trigger: str, sent: dict[str, object], shown: dict[str, object]) -> None:
    rule = first(trigger, **sent)
    assert {name: getattr(rule, name) for name in shown} == shown


@pytest.mark.parametrize(
    ("trigger", "sent"),
    [
        ("interval", {}),
        ("interval", {"interval": "daily"}),
        ("interval", {"interval": "weekly", "method": "spread"}),
        ("interval", {"interval": "weekly", "paid_credits": 10}),
        ("interval", {"interval": "weekly", "paid_credits": "-1"}),
        ("interval", {"interval": "weekly", "method": "target"}),
        ("interval", {"interval": "weekly", "grants_target_top_up": True}),
        (
            "interval",
            {"interval": "weekly", "method": "target", "target_ongoing_balance": "1", "grants_target_top_up": "yes"},
        ),
        ("interval", {"interval": "weekly", "started_at": "tomorrow"}),
        ("interval", {"interval": "weekly", "started_at": "9001-01-01"}),
        ("interval", {"interval": "weekly", "expiration_at": NOW.isoformat()}),
        ("interval", {"interval": "weekly", "transaction_name": "n" * 256}),
        ("interval", {"interval": "weekly", "transaction_name": 7}),
        ("interval", {"interval": "weekly", "transaction_metadata": {"a": "b"}}),
        ("interval", {"interval": "weekly", "purchase_order_number": "n" * 256}),
        ("threshold", {}),
        ("threshold", {"threshold_credits": None}),
        ("threshold", {"threshold_credits": "20", "method": "target", "target_ongoing_balance": "19"}),
    ],
)
def test_a_rule_that_cannot_work_is_refused(trigger: str, sent: dict[str, object]) -> None:
    with pytest.raises(Invalid) as refused:
        first(trigger, **sent)
    assert refused.value.details == UNSOUND


@pytest.mark.parametrize("trigger", [None, "", "monday"])
def test_a_rule_needs_a_trigger(trigger: object) -> None:
    with pytest.raises(Invalid) as refused:
        new_rule("rule", WALLET, trigger, NOW)
    assert refused.value.details == UNSOUND


def test_an_unknown_payment_method_is_refused() -> None:
    with pytest.raises(Invalid):
        rule_as_sent(MONTHLY, {}, replace(LATER, knows_method=False))


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        ({}, {}),
        ({"paid_credits": "3"}, {"paid_credits": D(3)}),
        ({"paid_credits": None}, {"paid_credits": D(0)}),
        ({"method": None}, {}),
        ({"trigger": "threshold"}, {"trigger": RuleTrigger.THRESHOLD}),
        ({"started_at": "2024-06-01"}, {"started_at": datetime(2024, 6, 1, tzinfo=UTC)}),
        ({"started_at": ""}, {}),
        ({"expiration_at": NOW + timedelta(days=1)}, {"expiration_at": NOW + timedelta(days=1)}),
        ({"transaction_name": "Refill"}, {"transaction_name": "Refill"}),
        ({"transaction_name": ""}, {}),
        ({"purchase_order_number": " PO-1 "}, {"purchase_order_number": "PO-1"}),
        (
            {"transaction_metadata": [{"key": "a", "value": "b"}]},
            {"transaction_metadata": (MetadataPair(key="a", value="b"),)},
        ),
        ({"ignore_paid_top_up_limits": True}, {"ignore_paid_top_up_limits": True}),
        ({"payment_method": {"payment_method_type": "manual"}}, {"payment_method": PaymentMethodChoice(kind="manual")}),
    ],
)
def test_what_is_sent_changes_the_rule_and_the_rest_stays(sent: dict[str, object], changed: dict[str, Any]) -> None:
    assert rule_as_sent(MONTHLY, sent, LATER) == replace(MONTHLY, **changed)


def test_the_custom_sections_are_those_selected() -> None:
    rule = rule_as_sent(MONTHLY, {}, replace(LATER, selection=Selection(skip=True, section_ids=("a",))))
    assert (rule.skip_invoice_custom_sections, rule.invoice_custom_section_ids) == (True, ("a",))


def test_a_wallet_has_one_rule_at_most() -> None:
    check_number_of_rules([])
    check_number_of_rules([{}])
    with pytest.raises(Invalid):
        check_number_of_rules([{}, {}])


@pytest.mark.parametrize(("most_cents", "is_refused"), [(None, False), (10_00, False), (9_99, True)])
def test_a_rule_buys_what_the_wallet_allows(most_cents: int | None, is_refused: bool) -> None:
    limited = wallet(rate="1", paid_top_up_max_amount_cents=most_cents)
    if is_refused:
        with pytest.raises(Invalid) as refused:
            check_limits(limited, [MONTHLY])
        assert refused.value.details == UNSOUND
    else:
        check_limits(limited, [MONTHLY])
