"""Money that comes for a subscription that was given up, and subscriptions that wait while another one goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.operations.subscriptions.test_activation import RULE, Gate
from tests.payment_provider import PRESENT, Killed, UnsteadyProvider, connect
from tests.payment_servers.stripe import StripeServer
from tests.rating.test_planted_changes import giving
from tests.rating.test_recounts import report_with
from tests.scenarios import Scenario

from usagebill.core.provider_requests import Refund
from usagebill.operations.audit import audit

SIGNED = {"Signature": PRESENT}
HOUR = {"type": "payment", "timeout_hours": 1}


@pytest.fixture
def provider() -> UnsteadyProvider:
    """It cancels nothing: whatever was begun there goes on."""
    return UnsteadyProvider()


@pytest.fixture
def late(provider: UnsteadyProvider) -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T09:00:00Z", payment_providers=provider) as box:
        box.plan(amount_cents=3100, pay_in_advance=True)
        yield box


def status_of(box: Scenario) -> str:
    (subscription,) = box.get("/subscriptions?status[]=incomplete&status[]=canceled&status[]=active")["subscriptions"]
    return str(subscription["status"])


def report(box: Scenario, path: str, provider: UnsteadyProvider) -> None:
    for message in provider.messages():
        assert box.receive(path, message, SIGNED) == 200


def listed(box: Scenario) -> list[tuple[str, str, int]]:
    payments = box.get("/payments")["payments"]
    return [(payment["payment_status"], payment["status"], payment["amount_cents"]) for payment in payments]


def sound(box: Scenario) -> bool:
    return box.billing.reading(audit).findings == ()


def test_money_that_comes_too_late_is_paid_back(late: Scenario, provider: UnsteadyProvider) -> None:
    path = connect(late)
    provider.script = ["processing"]
    late.subscribe(activation_rules=[HOUR])
    late.travel_to("2024-03-05T11:00:00Z")
    assert status_of(late) == "canceled"
    assert listed(late) == []
    provider.end(provider.charges, "succeeded")
    for _ in range(2):
        report(late, path, provider)
    (refund,) = (call for call in provider.calls if isinstance(call, Refund))
    assert (refund.amount_cents, refund.credit_note_id) == (2700, None)
    assert listed(late) == [("succeeded", "refund_pending", 2700)]
    provider.end(provider.refunds, "succeeded")
    report(late, path, provider)
    assert listed(late) == [("succeeded", "refunded", 2700)]
    assert late.get("/payment_receipts")["payment_receipts"] == []
    assert late.get("/invoices")["invoices"] == []
    assert sound(late)


@pytest.mark.parametrize("outcome", ["lost", "killed"])
def test_what_became_of_a_charge_is_found_out_though_nobody_waits_for_it_any_more(
    outcome: str, late: Scenario, provider: UnsteadyProvider
) -> None:
    connect(late)
    provider.script = [outcome, *["away"] * 8, "succeeded"]
    with suppress(Killed):
        late.subscribe(activation_rules=[HOUR])
    late.travel_to("2024-03-05T23:00:00Z")
    assert status_of(late) == "canceled"
    assert len(provider.charges) == len(provider.refunds) == 1
    assert listed(late) == [("succeeded", "refunded", 2700)]
    assert sound(late)


def test_what_the_provider_does_not_pay_back_is_left_to_a_person(late: Scenario, provider: UnsteadyProvider) -> None:
    path = connect(late)
    provider.script = ["processing"]
    late.subscribe(activation_rules=[HOUR])
    late.travel_to("2024-03-05T11:00:00Z")
    provider.end(provider.charges, "succeeded")
    provider.script = ["declined"]
    report(late, path, provider)
    assert listed(late) == [("succeeded", "to_be_refunded", 2700)]
    assert sound(late)


def test_a_payment_that_failed_and_has_succeeded_after_all_is_paid_back(
    late: Scenario, provider: UnsteadyProvider
) -> None:
    path = connect(late)
    provider.script = ["processing"]
    late.subscribe(activation_rules=[RULE])
    (key,) = provider.charges
    for word in ("failed", "succeeded"):
        assert late.receive(path, json.dumps(["charge", "ch_1", key, word]).encode(), SIGNED) == 200
    assert status_of(late) == "canceled"
    assert [status for _, status, _ in listed(late)] == ["refund_pending"]


# Plans that take the place of another


def lines(gate: Gate) -> list[tuple[str, str, str, int]]:
    """What was billed in subscription fees: plan, first and last day, cents."""
    fees = [fee for invoice in gate.issued() for fee in invoice["fees"]]
    return sorted(
        (fee["item"]["code"], fee["from_date"][:10], fee["to_date"][:10], fee["amount_cents"])
        for fee in fees
        if fee["item"]["type"] == "subscription" and fee["amount_cents"]
    )


def credited(box: Scenario) -> list[tuple[str, int]]:
    notes = box.get("/credit_notes")["credit_notes"]
    return sorted((note["reason"], note["credit_amount_cents"]) for note in notes)


def changed(box: Scenario, old: dict[str, Any], new: dict[str, Any], paid_at: str) -> Iterator[Gate]:
    """A plan at 30.00 a month that gives way to another, asked for on 10 April, once that is paid."""
    with StripeServer(now=lambda: box.now) as stripe:
        gate = Gate(box, stripe)
        box.plan(code="old", amount_cents=3000, **old)
        box.plan(code="new", **{"pay_in_advance": True, **new})
        box.subscribe("old")
        box.run_due()
        box.travel_to("2024-04-10T09:00:00Z")
        stripe.outcomes.clear()
        gate.subscribe("new")
        if not waiting(stripe):
            box.travel_to("2024-05-01T01:00:00Z")
        (intent,) = waiting(stripe)
        box.travel_to(paid_at)
        notice = stripe.payment_event(intent, "succeeded")
        assert box.receive(gate.path, notice.body, dict(notice.headers)) == 200
        box.run_due()
        yield gate


@pytest.mark.now("2024-04-01T09:00:00Z")
@pytest.mark.parametrize("cents", [-3000, -300, 300], ids=["nothing", "a day less", "a day more"])
def test_a_wrong_credit_for_days_before_a_late_activation_is_found(box: Scenario, cents: int) -> None:
    for gate in changed(box, IN_ADVANCE, {"amount_cents": 9000}, "2024-04-20T09:00:00Z"):
        assert credited(gate.box) == [("order_cancellation", 1100), ("order_change", 3000)]
        report = gate.box.billing.audit()
        assert (report.findings, report.recounted["unused_time"]) == ((), 2)
        found = report_with(gate.box, giving(0, cents, "order_change")).findings
        assert "credit for days before the activation" in " ".join(finding.detail for finding in found)


def waiting(stripe: StripeServer) -> list[str]:
    return [id for id, intent in stripe.intents.items() if intent["status"] == "processing"]


IN_ADVANCE = {"pay_in_advance": True}
OLD_APRIL, OLD_MAY = ("old", "2024-04-01", "2024-04-30", 3000), ("old", "2024-05-01", "2024-05-31", 3000)


@pytest.mark.now("2024-04-01T09:00:00Z")
@pytest.mark.parametrize(
    ("old", "new", "paid_at", "fees", "credits"),
    [
        # From the 10th to the 19th the old plan was there, from the 20th the new one.
        pytest.param(
            IN_ADVANCE,
            {"amount_cents": 9000},
            "2024-04-20T09:00:00Z",
            [("new", "2024-04-10", "2024-04-30", 6300), OLD_APRIL],
            [("order_cancellation", 1100), ("order_change", 3000)],
            id="upgrade",
        ),
        pytest.param(
            IN_ADVANCE,
            {"amount_cents": 9000},
            "2024-04-10T21:00:00Z",
            [("new", "2024-04-10", "2024-04-30", 6300), OLD_APRIL],
            [("order_cancellation", 2100)],
            id="upgrade paid the same day",
        ),
        pytest.param(
            {},
            {"amount_cents": 9000},
            "2024-04-20T09:00:00Z",
            [("new", "2024-04-10", "2024-04-30", 6300), ("old", "2024-04-01", "2024-04-20", 1900)],
            [("order_change", 3000)],
            id="upgrade from a plan in arrears",
        ),
        # What was paid for is over: it is credited, and the rest of the month due.
        pytest.param(
            IN_ADVANCE,
            {"amount_cents": 9000},
            "2024-05-05T09:00:00Z",
            [("new", "2024-04-10", "2024-04-30", 6300), ("new", "2024-05-05", "2024-05-31", 7839), OLD_APRIL, OLD_MAY],
            [("order_cancellation", 2613), ("order_change", 6300)],
            id="upgrade paid a month later",
        ),
        pytest.param(
            IN_ADVANCE,
            {"amount_cents": 1000},
            "2024-05-05T09:00:00Z",
            [("new", "2024-05-01", "2024-05-31", 1000), OLD_APRIL, OLD_MAY],
            [("order_cancellation", 2613), ("order_change", 129)],
            id="downgrade",
        ),
    ],
)
def test_no_day_is_billed_under_two_plans_while_one_waits_for_its_payment(
    box: Scenario,
    old: dict[str, Any],
    new: dict[str, Any],
    paid_at: str,
    fees: list[Any],
    credits: list[Any],
) -> None:
    for gate in changed(box, old, new, paid_at):
        assert (lines(gate), credited(box)) == (fees, credits)
        box.travel_to("2024-06-01T01:00:00Z")
        assert ("new", "2024-06-01", "2024-06-30", new["amount_cents"]) in lines(gate)
        assert sound(box)
