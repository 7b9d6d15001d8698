"""Which requests about wallets are refused, and with which codes, in tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.core.builders import NOW, inbound, wallet

from usagebill.core.errors import Invalid
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.wallet_checks import LONGEST_ORDER_NUMBER, LONGEST_TRANSACTION_NAME
from usagebill.core.wallet_requests import (
    NewWallet,
    TopUpRequest,
    changed_wallet_problems,
    check_first_credits,
    new_wallet_problems,
    pays_for_other_usage,
    sent_credits,
    sent_expiration,
    sent_fee_types,
    top_up_problems,
    voided_amount,
    wallet_as_sent,
)
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import MOST_ACTIVE_WALLETS, Wallet, WalletStatus

D = Decimal
SECOND = timedelta(seconds=1)
# A credit is worth two euros: 50 credits are 100 euros.
RATE = "2"
FILLED = wallet(rate=RATE, balance_cents=100_00, credits_balance=D(50))


@pytest.mark.parametrize(
    ("sent", "credits"), [(None, D(0)), ("10.5", D("10.5")), ("0", D(0)), ("-1", None), ("ten", None), (10, None)]
)
def test_what_is_an_amount_of_credits(sent: object, credits: Decimal | None) -> None:
    assert sent_credits(sent) == credits


@pytest.mark.parametrize(
    ("facts", "problems"),
    [
        ({}, {}),
        ({"active_wallets": None}, {"customer": ["customer_not_found"]}),
        ({"active_wallets": MOST_ACTIVE_WALLETS - 1}, {}),
        ({"active_wallets": MOST_ACTIVE_WALLETS}, {"customer": ["wallet_limit_reached"]}),
        ({"paid": None}, {"paid_credits": ["invalid_paid_credits", "invalid_amount"]}),
        ({"granted": None}, {"granted_credits": ["invalid_granted_credits", "invalid_amount"]}),
        ({"has_expiration": True, "expires_at": NOW + SECOND}, {}),
        ({"has_expiration": True, "expires_at": NOW}, {"expiration_at": ["invalid_date"]}),
        ({"has_expiration": True, "expires_at": None}, {"expiration_at": ["invalid_date"]}),
        ({"transaction_metadata": [{"key": "a", "value": "b"}]}, {}),
        ({"transaction_metadata": {"a": "b"}}, {"metadata": ["invalid_type"]}),
        ({"knows_metrics": False}, {"applies_to": ["invalid_limitations"]}),
        ({"fee_types": ("charge",)}, {}),
        ({"fee_types": ("charge", "coffee")}, {"applies_to": ["invalid_limitations"]}),
        ({"knows_method": False}, {"payment_method": ["invalid_payment_method"]}),
        ({"transaction_name": "n" * LONGEST_TRANSACTION_NAME}, {}),
        ({"transaction_name": "n" * (LONGEST_TRANSACTION_NAME + 1)}, {"name": ["too_long"]}),
        ({"transaction_name": 7}, {"name": ["invalid_value"]}),
        ({"transaction_priority": "2"}, {}),
        ({"transaction_priority": "second"}, {"transaction_priority": ["value_is_invalid"]}),
    ],
)
def test_why_no_wallet_is_made(facts: dict[str, Any], problems: dict[str, object]) -> None:
    assert new_wallet_problems(NewWallet(**{"active_wallets": 0, **facts}), NOW) == problems


def test_all_that_is_wrong_with_a_new_wallet_is_said_in_order() -> None:
    wrong = NewWallet(active_wallets=None, paid=None, knows_method=False, transaction_name=7)
    assert list(new_wallet_problems(wrong, NOW)) == ["customer", "paid_credits", "payment_method", "name"]


@pytest.mark.parametrize(
    ("paid", "granted", "ignores_limits", "problem"),
    [
        ("0", "0", False, None),
        ("10", "0", False, None),
        # 20 to 200 euros at a time; what is granted has no limits.
        ("9.99", "0", False, {"paid_credits": ["amount_below_minimum"]}),
        ("100.01", "0", False, {"paid_credits": ["amount_above_maximum"]}),
        ("100.01", "0", True, None),
        ("0", "1000", False, None),
        ("0.001", "0", True, {"paid_credits": ["amount_rounds_to_zero"]}),
        ("0", "0.001", True, {"granted_credits": ["amount_rounds_to_zero"]}),
    ],
)
def test_the_credits_that_a_wallet_begins_with(
    paid: str, granted: str, ignores_limits: bool, problem: dict[str, list[str]] | None
) -> None:
    limited = wallet(rate=RATE, paid_top_up_min_amount_cents=20_00, paid_top_up_max_amount_cents=200_00)
    if problem is None:
        check_first_credits(limited, D(paid), D(granted), ignores_limits=ignores_limits)
        return
    with pytest.raises(Invalid) as raised:
        check_first_credits(limited, D(paid), D(granted), ignores_limits=ignores_limits)
    assert raised.value.details == problem


@pytest.mark.parametrize(
    ("of", "facts", "problems"),
    [
        (FILLED, {}, {}),
        (None, {}, {"wallet_id": ["wallet_not_found"]}),
        (wallet(status=WalletStatus.TERMINATED), {}, {"wallet_id": ["wallet_is_terminated"]}),
        (FILLED, {"paid_credits": "ten"}, {"paid_credits": ["invalid_paid_credits", "invalid_amount"]}),
        (FILLED, {"granted_credits": "0.001"}, {"granted_credits": ["amount_rounds_to_zero"]}),
        # Of a wallet that is not there, amounts are not compared.
        (None, {"granted_credits": "0.001"}, {"wallet_id": ["wallet_not_found"]}),
        (FILLED, {"voided_credits": "50"}, {}),
        (FILLED, {"voided_credits": "50.00001"}, {"voided_credits": ["insufficient_credits"]}),
        (FILLED, {"voided_transaction_id": "t", "target": inbound("t", 1)}, {}),
        (
            FILLED,
            {"voided_transaction_id": "t"},
            {"voided_transaction_id": ["wallet_transaction_not_found"]},
        ),
        (
            FILLED,
            {"voided_transaction_id": "t", "target": inbound("t", 1, wallet_id="another")},
            {"voided_transaction_id": ["wallet_transaction_not_found"]},
        ),
        (
            FILLED,
            {"voided_transaction_id": "t", "target": inbound("t", 1, transaction_type="outbound")},
            {"voided_transaction_id": ["wallet_transaction_not_found"]},
        ),
        (
            FILLED,
            {"voided_transaction_id": "t", "target": inbound("t", 1, remaining_amount_cents=0)},
            {"voided_transaction_id": ["no_remaining_amount"]},
        ),
        (FILLED, {"metadata": {}}, {}),
        (FILLED, {"metadata": "a=b"}, {"metadata": ["invalid_type"]}),
        (FILLED, {"name": 7}, {"name": ["invalid_value"]}),
        (FILLED, {"name": "n" * (LONGEST_TRANSACTION_NAME + 1)}, {"name": ["too_long"]}),
        (FILLED, {"knows_method": False}, {"payment_method": ["invalid_payment_method"]}),
        (FILLED, {"priority": 0}, {"priority": ["value_is_invalid"]}),
        (
            FILLED,
            {"purchase_order_number": "7" * (LONGEST_ORDER_NUMBER + 1)},
            {"purchase_order_number": ["value_is_too_long"]},
        ),
    ],
)
def test_why_nothing_is_topped_up(of: Wallet | None, facts: dict[str, Any], problems: dict[str, object]) -> None:
    assert top_up_problems(of, TopUpRequest(**facts)) == problems


@pytest.mark.parametrize(
    ("target", "sent", "amount"),
    [
        (None, None, None),
        (None, "0", None),
        (None, "10", (10 * 200, D(10))),
        (None, "50.005", "exceeds_available_amount"),
        # All that is left of the transaction, unless an amount is sent.
        (inbound("t", 700), None, (700, D("3.5"))),
        (inbound("t", 700), "1", (200, D(1))),
        (inbound("t", 700), "3.505", "exceeds_remaining_transaction_amount"),
        (inbound("t", 700, remaining_amount_cents=0), None, None),
    ],
)
def test_how_much_is_voided(
    target: WalletTransaction | None, sent: object, amount: tuple[int, Decimal] | str | None
) -> None:
    if not isinstance(amount, str):
        assert voided_amount(FILLED, target, sent) == amount
        return
    with pytest.raises(Invalid) as raised:
        voided_amount(FILLED, target, sent)
    assert raised.value.details == {"amount_cents": [amount]}


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        ({}, {}),
        ({"name": None}, {"name": None}),
        ({"name": "Main"}, {"name": "Main"}),
        ({"code": ""}, {}),
        ({"code": "main"}, {"code": "main"}),
        ({"priority": "7"}, {"priority": 7}),
        ({"priority": None}, {}),
        ({"invoice_requires_successful_payment": True}, {"invoice_requires_successful_payment": True}),
        ({"invoice_requires_successful_payment": None}, {}),
        ({"paid_top_up_min_amount_cents": 5}, {"paid_top_up_min_amount_cents": 5}),
        ({"paid_top_up_min_amount_cents": None}, {"paid_top_up_min_amount_cents": None}),
        ({"purchase_order_number": " PO-1 "}, {"purchase_order_number": "PO-1"}),
        ({"payment_method": None}, {"payment_method": None}),
        ({"payment_method": {"payment_method_type": "manual"}}, {"payment_method": PaymentMethodChoice(kind="manual")}),
    ],
)
def test_what_is_sent_changes_the_wallet_and_the_rest_stays(sent: dict[str, object], changed: dict[str, Any]) -> None:
    named = replace(FILLED, name="Old", paid_top_up_min_amount_cents=1, payment_method=PaymentMethodChoice())
    assert wallet_as_sent(named, sent, Selection()) == replace(named, **changed)


@pytest.mark.parametrize(
    ("sent", "expires"),
    [(None, None), ("", None), (NOW + SECOND, NOW + SECOND), ("2030-01-01", datetime(2030, 1, 1, tzinfo=UTC))],
)
def test_when_a_wallet_expires(sent: object, expires: datetime | None) -> None:
    assert sent_expiration(sent, NOW) == expires


@pytest.mark.parametrize("sent", [NOW, "yesterday", 7])
def test_a_wallet_expires_later_or_never(sent: object) -> None:
    with pytest.raises(Invalid) as refused:
        sent_expiration(sent, NOW)
    assert refused.value.details == {"expiration_at": ["invalid_date"]}


def test_types_of_fees_count_once() -> None:
    assert sent_fee_types(["charge", "subscription", "charge"]) == ("charge", "subscription")
    with pytest.raises(Invalid):
        sent_fee_types(["charge", "coffee"])


@pytest.mark.parametrize(
    ("changed", "is_code_taken", "problems"),
    [
        ({}, True, {}),
        ({"code": "other"}, False, {}),
        ({"code": "other"}, True, {"code": ["value_already_exist"]}),
        ({"priority": 51}, False, {"priority": ["value_is_invalid"]}),
        ({"paid_top_up_min_amount_cents": 0}, False, {"paid_top_up_min_amount_cents": ["value_is_out_of_range"]}),
    ],
)
def test_why_a_wallet_is_not_changed(
    changed: dict[str, Any], is_code_taken: bool, problems: dict[str, list[str]]
) -> None:
    assert changed_wallet_problems(FILLED, replace(FILLED, **changed), is_code_taken=is_code_taken) == problems


@pytest.mark.parametrize(
    ("changed", "is_other"),
    [
        ({"name": "Main", "expiration_at": NOW}, False),
        ({"code": "main"}, True),
        ({"priority": 3}, True),
        ({"fee_types": ("charge",)}, True),
        ({"billable_metric_ids": ("metric",)}, True),
    ],
)
def test_which_changes_decide_on_the_usage_that_is_paid_for(changed: dict[str, Any], is_other: bool) -> None:
    assert pays_for_other_usage(FILLED, replace(FILLED, **changed)) is is_other
