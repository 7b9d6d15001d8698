"""When a provider is asked about what it has not told, and how such a wait ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from usagebill.core.look_ups import PATIENCE, LookStep, Wait, look_step, next_look, wait_of
from usagebill.core.payments import Payment
from usagebill.core.provider_requests import MethodDetails

SENT = datetime(2024, 3, 5, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def payment(kind: str = "stripe", method: str | None = "card", **action: Any) -> Payment:
    return Payment(
        id="pay",
        organization_id="org",
        customer_id="cus",
        amount_cents=100,
        amount_currency="EUR",
        created_at=SENT,
        updated_at=SENT,
        payment_provider_type=kind,
        method=None if method is None else MethodDetails(provider_method_id="pm", type=method),
        next_action=action,
    )


@pytest.mark.parametrize(
    ("waiting", "wait"),
    [
        (payment(), Wait.CARD),
        (payment(method=None), Wait.CARD),
        (payment(method="link"), Wait.CARD),
        (payment(method="sepa_debit"), Wait.DEBIT),
        (payment("gocardless", None), Wait.DEBIT),
        (payment("adyen", None), Wait.CARD),
        (payment(type="redirect_to_url"), Wait.CONFIRMATION),
        (payment(method=None, type="display_bank_transfer_instructions"), Wait.TRANSFER),
    ],
)
def test_what_a_charge_waits_for(waiting: Payment, wait: Wait) -> None:
    assert wait_of(waiting) is wait


def test_a_confirmation_is_looked_at_after_an_hour_then_every_six_and_at_its_end() -> None:
    looks, now = [], SENT
    for _ in range(6):
        now = next_look(Wait.CONFIRMATION, SENT, now)
        looks.append((now - SENT) / HOUR)
    assert looks == [1, 7, 13, 19, 24, 30]


@pytest.mark.parametrize("wait", Wait)
def test_every_wait_comes_to_a_look_at_its_end(wait: Wait) -> None:
    now = SENT
    while now < SENT + PATIENCE[wait].most:
        before, now = now, next_look(wait, SENT, now)
        assert now > before
    assert now == SENT + PATIENCE[wait].most


A, C, E = LookStep.ASK_AGAIN, LookStep.CANCEL, LookStep.END


@pytest.mark.parametrize(
    ("is_known", "can_cancel", "before", "at_the_end", "a_step_later"),
    [
        (True, True, A, C, C),  # it goes on there: its outcome will come
        (True, False, A, A, E),
        (False, True, A, C, E),
        (False, False, A, A, E),
    ],
)
def test_how_a_wait_ends(
    is_known: bool, can_cancel: bool, before: LookStep, at_the_end: LookStep, a_step_later: LookStep
) -> None:
    steps = [
        look_step(Wait.CARD, SENT, SENT + age, is_known=is_known, can_cancel=can_cancel)
        for age in (7 * DAY - HOUR, 7 * DAY, 7 * DAY + 6 * HOUR)
    ]
    assert steps == [before, at_the_end, a_step_later]
