"""Leases: what a dead worker had under way is taken up within a minute, and an answer that comes late does no harm."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from tests.payment_provider import Killed, UnsteadyProvider, connect
from tests.scenarios import Scenario
from usagebill import Billing
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import FailureKind, ProviderFailed, ProviderFailure, Refund, Request
from usagebill.outside.handlers import CALLS, OUTSIDE
from usagebill.process.settings import Settings

A = TypeVar("A")
pytestmark = pytest.mark.now("2024-03-05T09:00:00Z")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def provider(box: Scenario) -> UnsteadyProvider:
    provider = UnsteadyProvider()
    box.billing._system.payment_providers = provider
    connect(box)
    box.run_due()
    box.post("/add_ons", add_on={"name": "Setup", "code": "setup", "amount_cents": 1000, "amount_currency": "EUR"})
    return provider


def bill(box: Scenario) -> Any:
    fees = [{"add_on_code": "setup"}]
    made = box.post("/invoices", invoice={"external_customer_id": "acme", "currency": "EUR", "fees": fees})["invoice"]
    box.run_due()
    return made["svc_id"]


def statuses(box: Scenario) -> list[str]:
    return [payment["payment_status"] for payment in box.get("/payments")["payments"]]


def test_money_and_messages_wait_a_minute_for_a_dead_worker_and_long_work_five() -> None:
    with Billing() as billing:
        leases = {kind: billing._system.lease_of(kind) for kind in (*OUTSIDE, *CALLS, "deliver_webhook")}
    long = ("generate_documents", "send_email", "count_unbilled_events", "compare_with_providers")
    assert leases == {**dict.fromkeys(leases, MINUTE), **dict.fromkeys(long, 5 * MINUTE)}


def test_a_lease_is_twice_the_longest_request() -> None:
    with Billing(settings=Settings(payment_provider_timeout=45)) as billing:
        assert billing._system.lease_of("collect_payment") == timedelta(seconds=90)
        assert billing._system.lease_of("deliver_webhook") == MINUTE


def test_a_charge_under_way_in_a_process_that_died_is_taken_up_a_minute_later(
    box: Scenario, provider: UnsteadyProvider
) -> None:
    provider.script = ["killed", "succeeded"]
    with pytest.raises(Killed):
        bill(box)
    box.travel_to("2024-03-05T09:00:59Z")
    assert statuses(box) == ["pending"]
    box.travel_to("2024-03-05T09:01:00Z")
    assert statuses(box) == ["succeeded"]
    assert len(provider.charges) == 1


def overtake(box: Scenario, provider: UnsteadyProvider) -> None:
    """While the next request is in flight, its lease runs out, and another worker sends it too and has its answer."""
    provider.meanwhile = lambda: box.travel_to("2024-03-05T09:01:00Z")


@pytest.mark.parametrize("late", ["away", "lost", "declined", "succeeded"])
def test_an_answer_after_the_lease_charges_nobody_again(late: str, box: Scenario, provider: UnsteadyProvider) -> None:
    provider.script = ["succeeded", late, "succeeded"]
    overtake(box, provider)
    bill(box)
    box.travel_to("2024-03-05T12:00:00Z")
    assert statuses(box) == ["succeeded"]
    assert len(provider.charges) == 1


@pytest.mark.parametrize("late", ["away", "declined"])
def test_a_failure_after_the_lease_does_not_retry_what_was_declined(
    late: str, box: Scenario, provider: UnsteadyProvider
) -> None:
    provider.script = ["declined", late, "succeeded"]
    overtake(box, provider)
    bill(box)
    box.travel_to("2024-03-05T12:00:00Z")
    assert statuses(box) == ["failed"]
    assert provider.charges == {}
    told = [message["webhook_type"] for message in box.webhooks]
    assert told.count("invoice.payment_failure") == 1


def test_a_success_after_the_lease_counts_though_the_repeated_request_was_declined(
    box: Scenario, provider: UnsteadyProvider
) -> None:
    provider.script = ["declined", "succeeded"]
    overtake(box, provider)
    invoice = bill(box)
    assert statuses(box) == ["succeeded"]
    assert box.get(f"/invoices/{invoice}")["invoice"]["total_paid_amount_cents"] == 1000


def test_a_refusal_after_the_lease_does_not_fail_a_refund_that_was_made(
    box: Scenario, provider: UnsteadyProvider
) -> None:
    turns = itertools.count()

    class Refusing(UnsteadyProvider):
        def ask(self, connection: PaymentConnection, request: Request[A]) -> A:
            turn = next(turns) if isinstance(request, Refund) else None
            answer = super().ask(connection, request)
            if turn == 0:
                failure = ProviderFailure(kind=FailureKind.REFUSED, code="already_refunded", message="it was refunded")
                raise ProviderFailed(failure)
            return answer

    invoice = box.get(f"/invoices/{bill(box)}")["invoice"]
    box.billing._system.payment_providers = refusing = Refusing(charges=provider.charges)
    overtake(box, refusing)
    item = {"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 400}
    note = {"invoice_id": invoice["svc_id"], "reason": "other", "refund_amount_cents": 400, "items": [item]}
    made = box.post("/credit_notes", credit_note=note)["credit_note"]
    box.run_due()
    assert box.get(f"/credit_notes/{made['svc_id']}")["credit_note"]["refund_status"] == "succeeded"
    assert len(refusing.refunds) == 1
