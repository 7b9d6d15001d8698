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
    returned,
    why_not_recorded,
)
from usagebill.core.payments import NoticeStatus, Payment, TakenBack
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


RETURNED, DISPUTED = TakenBack
CURRENT, TAKEN = {"is_current": True}, {"is_current": True, "is_disputed": True}


@pytest.mark.parametrize(
    ("before", "reported", "as_said", "reaction"),
    [
        # A payment moves forward.
        (PENDING, PROCESSING, {}, Reaction.FOLLOW),
        (PENDING, SUCCEEDED, {}, Reaction.FOLLOW),
        (PROCESSING, SUCCEEDED, {}, Reaction.FOLLOW),
        (PROCESSING, FAILED, {}, Reaction.FOLLOW),
        # It was taken before it was taken back.
        (PROCESSING, FAILED, TAKEN, Reaction.LOSE),
        (FAILED, SUCCEEDED, {}, Reaction.FOLLOW),
        # Repeated and late notices change nothing.
        (PROCESSING, PROCESSING, {}, Reaction.NONE),
        (FAILED, FAILED, {}, Reaction.NONE),
        (FAILED, PROCESSING, {}, Reaction.NONE),
        (SUCCEEDED, SUCCEEDED, {}, Reaction.NONE),
        (SUCCEEDED, PROCESSING, CURRENT, Reaction.NONE),
        # A failure after a success is about an earlier attempt, unless it is current.
        (SUCCEEDED, FAILED, {}, Reaction.NONE),
        (SUCCEEDED, FAILED, CURRENT, Reaction.RETURN),
        (SUCCEEDED, FAILED, TAKEN, Reaction.LOSE),
        # What was returned was once a success: only a new one counts.
        (RETURNED, FAILED, CURRENT, Reaction.NONE),
        (RETURNED, FAILED, TAKEN, Reaction.NONE),
        (RETURNED, SUCCEEDED, {}, Reaction.NONE),
        (RETURNED, SUCCEEDED, CURRENT, Reaction.FOLLOW),
        # A lost dispute can be won after all.
        (DISPUTED, FAILED, TAKEN, Reaction.NONE),
        (DISPUTED, FAILED, CURRENT, Reaction.NONE),
        (DISPUTED, SUCCEEDED, {}, Reaction.NONE),
        (DISPUTED, SUCCEEDED, CURRENT, Reaction.WIN),
    ],
)
def test_what_a_notice_does_to_a_payment(
    before: ChargeStatus | TakenBack, reported: ChargeStatus, as_said: dict[str, bool], reaction: Reaction
) -> None:
    known = payment(FAILED if before is RETURNED else SUCCEEDED, method=CARD)
    if isinstance(before, ChargeStatus):
        known = replace(known, payment_status=before)
    known = replace(known, status=before.value)
    assert reaction_to(known, moved(reported, **as_said), invoices_wait=False) is reaction


def test_a_repeated_notice_counts_if_the_answer_to_the_charge_was_lost() -> None:
    known = payment(PROCESSING, unanswered=True)
    assert reaction_to(known, moved(PROCESSING), invoices_wait=False) is Reaction.FOLLOW


def test_a_repeated_refusal_counts_while_invoices_of_the_request_wait_for_it() -> None:
    assert reaction_to(payment(FAILED), moved(FAILED), invoices_wait=True) is Reaction.FOLLOW


def test_after_a_success_only_an_unknown_method_is_news() -> None:
    report = moved(SUCCEEDED, method=CARD)
    assert reaction_to(payment(SUCCEEDED), report, invoices_wait=False) is Reaction.KEEP_METHOD
    known = payment(SUCCEEDED, method=CARD)
    assert reaction_to(known, report, invoices_wait=False) is Reaction.NONE


@given(
    st.sampled_from([SUCCEEDED, FAILED, PENDING, PROCESSING]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, CARD]),
)
def test_no_notice_moves_a_payment_on_from_success(
    reported: ChargeStatus, is_current: bool, invoices_wait: bool, method: MethodDetails | None
) -> None:
    report = moved(reported, method=method, is_current=is_current)
    assert reaction_to(payment(SUCCEEDED), report, invoices_wait=invoices_wait) is not Reaction.FOLLOW


def test_a_returned_payment_has_failed_for_the_reason_given() -> None:
    later = NOW + timedelta(days=3)
    report = moved(FAILED, is_current=True, error_code="insufficient_funds")
    known = payment(SUCCEEDED)
    assert returned(known, report, later) == replace(
        known, status="returned", payment_status=FAILED, error_code="insufficient_funds", updated_at=later
    )


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
        (moved(FAILED), None, NOTHING),
        (moved(FAILED, is_current=True), None, TOO_EARLY),
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
    assert is_final(kind) is (kind not in {FailureKind.UNREACHABLE, FailureKind.THROTTLED, FailureKind.UNAUTHORIZED})


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
