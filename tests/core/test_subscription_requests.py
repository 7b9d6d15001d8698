"""What requests about subscriptions come to, and which are refused with which codes, in tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.core.builders import NOW, subscription

from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.subscription_requests import (
    RequestEffect,
    date_problems,
    effect_of_request,
    payer_problems,
    preview_problem,
    termination_problems,
)
from usagebill.core.subscriptions import Subscription, SubscriptionStatus

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("current", "wanted"),
    [
        (None, RequestEffect.NEW),
        (subscription(plan_id="asked"), RequestEffect.NOTHING),
        (subscription(plan_id="asked", status=SubscriptionStatus.PENDING), RequestEffect.NOTHING),
        (subscription(plan_id="other", status=SubscriptionStatus.PENDING), RequestEffect.OTHER_PLAN_AT_START),
        (subscription(plan_id="other"), RequestEffect.PLAN_CHANGE),
    ],
)
def test_what_a_request_for_a_plan_comes_to(current: Subscription | None, wanted: RequestEffect) -> None:
    assert effect_of_request(current, "asked") is wanted


@pytest.mark.parametrize(
    ("starts", "ending_at", "fields"),
    [
        (NOW, NOW + DAY, []),
        (NOW - 400 * DAY, NOW + DAY, []),
        # On the day of the start, on an earlier one, and today.
        (NOW + DAY, NOW + DAY, ["ending_at"]),
        (NOW + 2 * DAY, NOW + DAY, ["ending_at"]),
        (NOW - 2 * DAY, NOW, ["ending_at"]),
        (NOW, None, ["ending_at"]),
        (None, NOW + DAY, ["subscription_at"]),
        (None, None, ["subscription_at", "ending_at"]),
        (datetime(1899, 12, 31, tzinfo=UTC), NOW + DAY, ["subscription_at"]),
        (datetime(1900, 1, 1, tzinfo=UTC), NOW + DAY, []),
        (datetime(9998, 12, 30, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC), []),
        (datetime(9999, 1, 1, tzinfo=UTC), datetime(9999, 1, 2, tzinfo=UTC), ["subscription_at"]),
    ],
)
def test_which_dates_are_refused(starts: datetime | None, ending_at: datetime | None, fields: list[str]) -> None:
    problems = date_problems(starts, ending_at, NOW, has_ending=True)
    assert problems == {field: ["invalid_date"] for field in fields}


def test_an_end_may_be_left_out() -> None:
    assert date_problems(NOW, None, NOW, has_ending=False) == {}


MANUAL = PaymentMethodChoice(kind="manual")
NAMED = PaymentMethodChoice(id="card")
UNNAMED = PaymentMethodChoice()


@pytest.mark.parametrize(
    ("method", "has_provider", "has_method", "code"),
    [
        (None, True, True, None),
        (NAMED, True, True, None),
        (MANUAL, True, True, "manual_payment_method_invalid_for_payment_activation_rules"),
        (MANUAL, False, False, "manual_payment_method_invalid_for_payment_activation_rules"),
        (None, False, False, "no_linked_payment_provider"),
        (NAMED, False, True, "no_linked_payment_provider"),
        (None, True, False, "no_default_payment_method"),
        (UNNAMED, True, False, "no_default_payment_method"),
        (NAMED, True, False, "payment_method_not_found"),
    ],
)
def test_why_nobody_can_collect_a_first_payment(
    method: PaymentMethodChoice | None, has_provider: bool, has_method: bool, code: str | None
) -> None:
    problems = payer_problems(method, has_provider=has_provider, has_method=has_method)
    assert problems == ({} if code is None else {"customer": [code]})


@pytest.mark.parametrize(
    ("credit_note", "invoice", "pay_in_advance", "fields"),
    [
        (None, None, True, []),
        ("offset", "skip", True, []),
        ("keep", "send", True, ["on_termination_credit_note", "on_termination_invoice"]),
        # In arrears there is nothing to credit.
        ("keep", "generate", False, []),
        ("keep", "send", False, ["on_termination_invoice"]),
    ],
)
def test_which_options_of_an_end_are_refused(
    credit_note: str | None, invoice: str | None, pay_in_advance: bool, fields: list[str]
) -> None:
    problems = termination_problems(credit_note, invoice, pay_in_advance=pay_in_advance)
    assert problems == {field: ["invalid_value"] for field in fields}


@pytest.mark.parametrize(
    ("currencies", "entities", "runs", "code"),
    [
        (["EUR"], [None], [NOW], None),
        (["EUR", "EUR"], ["a", "a"], [NOW, NOW], None),
        (["EUR", "USD"], ["a", "b"], [NOW, NOW + DAY], "subscription_currencies_does_not_match"),
        (["EUR", "EUR"], [None, "b"], [NOW, NOW + DAY], "subscription_billing_entities_do_not_match"),
        (["EUR", "EUR"], ["a", "a"], [NOW, NOW + DAY], "billing_periods_does_not_match"),
    ],
)
def test_which_subscriptions_share_the_next_invoice(
    currencies: list[str], entities: list[str | None], runs: list[datetime], code: str | None
) -> None:
    assert preview_problem(currencies, entities, runs) == code
