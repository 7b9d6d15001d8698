"""What follows from a provider's notice about a payment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from usagebill.core.collection import Collectable
from usagebill.core.payment_notices import (
    EXPECTED,
    MOST_LOOKS,
    NOTHING,
    REPEATED,
    TOO_EARLY,
    Reaction,
    followed,
    is_final,
    outcome_of,
    reaction_to,
    why_not_recorded,
)
from usagebill.core.payments import NoticeStatus, Payment
from usagebill.core.provider_requests import FailureKind, MethodDetails, Payable, PayableType, PaymentMoved
from usagebill.core.statuses import ChargeStatus, PaymentStatus

NOW = datetime(2024, 5, 1, tzinfo=UTC)
CARD = MethodDetails(provider_method_id="pm_1", type="card")
PENDING, PROCESSING, SUCCEEDED, FAILED = (
    ChargeStatus.PENDING,
    ChargeStatus.PROCESSING,
    ChargeStatus.SUCCEEDED,
    ChargeStatus.FAILED,
)


def payment(status: ChargeStatus, **fields: Any) -> Payment:
    return Payment(
        id="payment",
        organization_id="organization",
        customer_id="customer",
        amount_cents=1000,
        amount_currency="EUR",
        created_at=NOW,
        updated_at=NOW,
        **{"status": status.value, "payment_status": status, "connection_id": "stripe", **fields},
    )


def moved(status: ChargeStatus, **fields: Any) -> PaymentMoved:
    return PaymentMoved(**{"provider_payment_id": "pi_1", "status": status.value, "payment_status": status, **fields})


@pytest.mark.parametrize(
    ("before", "reported", "takes_back", "reaction"),
    [
        # A payment moves forward.
        (PENDING, PROCESSING, False, Reaction.FOLLOW),
        (PENDING, SUCCEEDED, False, Reaction.FOLLOW),
        (PROCESSING, SUCCEEDED, False, Reaction.FOLLOW),
        (PROCESSING, FAILED, False, Reaction.FOLLOW),
        (FAILED, SUCCEEDED, False, Reaction.FOLLOW),
        # Repeated and late notices change nothing.
        (PROCESSING, PROCESSING, False, Reaction.NONE),
        (FAILED, FAILED, False, Reaction.NONE),
        (FAILED, PROCESSING, False, Reaction.NONE),
        (SUCCEEDED, SUCCEEDED, False, Reaction.NONE),
        (SUCCEEDED, PROCESSING, True, Reaction.NONE),
        # A failure after a success is about an earlier attempt, unless the provider returns money so.
        (SUCCEEDED, FAILED, False, Reaction.NONE),
        (SUCCEEDED, FAILED, True, Reaction.TAKE_BACK),
    ],
)
def test_what_a_notice_does_to_a_payment(
    before: ChargeStatus, reported: ChargeStatus, takes_back: bool, reaction: Reaction
) -> None:
    known = payment(before, method=CARD)
    assert reaction_to(known, moved(reported), takes_back=takes_back, invoices_wait=False) is reaction


def test_a_repeated_notice_counts_if_the_answer_to_the_charge_was_lost() -> None:
    known = payment(PROCESSING, unanswered=True)
    assert reaction_to(known, moved(PROCESSING), takes_back=False, invoices_wait=False) is Reaction.FOLLOW


def test_a_repeated_refusal_counts_while_invoices_of_the_request_wait_for_it() -> None:
    assert reaction_to(payment(FAILED), moved(FAILED), takes_back=False, invoices_wait=True) is Reaction.FOLLOW


def test_after_a_success_only_an_unknown_method_is_news() -> None:
    report = moved(SUCCEEDED, method=CARD)
    assert reaction_to(payment(SUCCEEDED), report, takes_back=True, invoices_wait=False) is Reaction.KEEP_METHOD
    known = payment(SUCCEEDED, method=CARD)
    assert reaction_to(known, report, takes_back=True, invoices_wait=False) is Reaction.NONE


@given(
    st.sampled_from([SUCCEEDED, FAILED, PENDING, PROCESSING]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, CARD]),
)
def test_no_notice_moves_a_payment_on_from_success(
    reported: ChargeStatus, takes_back: bool, invoices_wait: bool, method: MethodDetails | None
) -> None:
    report = moved(reported, method=method)
    reaction = reaction_to(payment(SUCCEEDED), report, takes_back=takes_back, invoices_wait=invoices_wait)
    assert reaction is not Reaction.FOLLOW


def test_a_followed_payment_keeps_what_the_notice_does_not_say() -> None:
    known = payment(PROCESSING, method=CARD, error_code="old", next_action={"url": "https://x"}, unanswered=True)
    later = NOW + timedelta(hours=1)
    paid = followed(known, moved(SUCCEEDED), method_id="method", now=later)
    assert paid == replace(
        known,
        provider_payment_id="pi_1",
        status="succeeded",
        payment_status=SUCCEEDED,
        payment_method_id="method",
        next_action={},
        unanswered=False,
        updated_at=later,
    )
    waiting = followed(known, moved(PROCESSING), method_id=None, now=later)
    assert waiting.next_action == {"url": "https://x"}


PAGE = Collectable(
    type=PayableType.INVOICE,
    id="invoice",
    customer_id="customer",
    due_cents=1000,
    currency="EUR",
    payment_status=PaymentStatus.PENDING,
    is_ready=True,
    is_collectable=True,
    is_gated=False,
    is_shown=True,
    payable=Payable(
        type=PayableType.INVOICE,
        id="invoice",
        reference="Acme - Invoice ACM-1-001",
        billing_entity_id="entity",
        lines=(),
        created_at=NOW,
    ),
)
ON_PAGE = {"payable_type": PayableType.INVOICE, "payable_id": "invoice", "creates": True}


@pytest.mark.parametrize(
    ("report", "collectable", "reason"),
    [
        (moved(SUCCEEDED, **ON_PAGE), PAGE, None),
        (moved(SUCCEEDED, currency="EUR", **ON_PAGE), PAGE, None),
        (moved(SUCCEEDED), None, NOTHING),
        (moved(SUCCEEDED, payment_id="payment"), None, TOO_EARLY),
        (moved(SUCCEEDED, **ON_PAGE), None, "Invoice invoice is not known"),
        (moved(SUCCEEDED, **{**ON_PAGE, "creates": False}), PAGE, TOO_EARLY),
        (moved(FAILED, **ON_PAGE), PAGE, NOTHING),
        (moved(PROCESSING, **ON_PAGE), PAGE, NOTHING),
        (moved(SUCCEEDED, currency="USD", **ON_PAGE), PAGE, "it is in USD, what it pays in EUR"),
    ],
)
def test_a_payment_on_a_page_is_recorded_once_it_succeeded(
    report: PaymentMoved, collectable: Collectable | None, reason: str | None
) -> None:
    assert why_not_recorded(report, collectable) == reason


@pytest.mark.parametrize("kind", FailureKind)
def test_a_provider_out_of_reach_is_asked_again(kind: FailureKind) -> None:
    assert is_final(kind) is (kind not in {FailureKind.UNREACHABLE, FailureKind.THROTTLED})


@pytest.mark.parametrize(
    ("reasons", "outcomes", "attempts", "status"),
    [
        ([], 0, 1, NoticeStatus.SUCCEEDED),
        ([], 2, 1, NoticeStatus.SUCCEEDED),
        ([REPEATED], 2, 1, NoticeStatus.SUCCEEDED),
        ([REPEATED, NOTHING], 2, 1, NoticeStatus.IGNORED),
        (["it is in USD, the payment in EUR"], 2, 1, NoticeStatus.UNHANDLED),
        ([TOO_EARLY], 1, MOST_LOOKS - 1, NoticeStatus.PENDING),
        ([TOO_EARLY], 1, MOST_LOOKS, NoticeStatus.UNHANDLED),
    ],
)
def test_what_became_of_a_notice(reasons: list[str], outcomes: int, attempts: int, status: NoticeStatus) -> None:
    assert outcome_of(reasons, outcomes=outcomes, attempts=attempts) is status
    assert set(EXPECTED) == {REPEATED, NOTHING}
