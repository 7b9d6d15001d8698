"""Charges: sent once whatever happens, and what follows from their answers and from what providers report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.payment_provider import PRESENT, Killed, UnsteadyProvider, connect
from tests.scenarios import Scenario

from usagebill.core.provider_requests import Charge, FailureKind, ProviderFailed, ProviderFailure, Refund
from usagebill.outside.provider_calls import compared_with_provider

SIGNED = {"Signature": PRESENT}


@pytest.fixture
def provider() -> UnsteadyProvider:
    return UnsteadyProvider()


@pytest.fixture
def box(provider: UnsteadyProvider) -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T09:00:00Z", payment_providers=provider) as box:
        box.add_on("seat", 10_000)
        yield box


@pytest.fixture
def path(box: Scenario) -> str:
    return connect(box)


def bill(box: Scenario, **fields: Any) -> str:
    one_off = {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "seat"}], **fields}
    return str(box.post("/invoices", invoice=one_off)["invoice"]["svc_id"])


def charges(provider: UnsteadyProvider) -> list[Charge]:
    return [call for call in provider.calls if isinstance(call, Charge)]


def state(box: Scenario, invoice_id: str) -> tuple[str, int]:
    invoice = box.invoice(invoice_id)
    return invoice["payment_status"], invoice["total_paid_amount_cents"]


def test_an_answer_that_is_lost_is_asked_for_again_with_the_same_request(
    box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    provider.script = ["lost", "succeeded"]
    invoice = bill(box)
    assert state(box, invoice) == ("pending", 0)
    box.travel_to("2024-03-05T09:01:00Z")
    first, second = charges(provider)
    assert replace(second, since=None, at=first.at) == first
    assert len(provider.charges) == 1
    assert state(box, invoice) == ("succeeded", 10_000)


def test_a_process_that_dies_before_it_notes_the_answer_charges_once(
    box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    provider.script = ["killed", "succeeded"]
    with pytest.raises(Killed):
        bill(box)
    (invoice,) = box.invoices()
    box.travel_to("2024-03-05T10:00:00Z")
    assert len(provider.charges) == 1
    assert state(box, invoice["svc_id"]) == ("succeeded", 10_000)


@pytest.mark.parametrize(
    ("fate", "taken", "paid"),
    [
        # It shows that more was paid than was due: 100.00 that were taken, and 40.00 in cash.
        ("lost", [10_000], 14_000),
        # It was never made: 100.00 - 40.00 are left to charge.
        ("away", [6000], 10_000),
    ],
)
def test_what_was_sent_is_looked_up_and_not_sent_again_once_a_part_is_paid(
    fate: str, taken: list[int], paid: int, box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    provider.script = [fate, "succeeded"]
    invoice = bill(box)
    box.post("/payments", payment={"invoice_id": invoice, "amount_cents": 4000, "reference": "cash"})
    box.travel_to("2024-03-05T10:00:00Z")
    assert [charge.amount_cents for charge in charges(provider)].count(10_000) == 1
    assert provider.succeeded_cents(invoice) == taken
    assert state(box, invoice) == ("succeeded", paid)


def test_a_declined_charge_that_is_retried_is_a_new_one_over_what_is_due_then(
    box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    provider.script = ["declined", "succeeded"]
    invoice = bill(box)
    assert state(box, invoice) == ("failed", 0)
    box.post("/payments", payment={"invoice_id": invoice, "amount_cents": 4000, "reference": "cash"})
    box.ask("POST", f"/invoices/{invoice}/retry_payment")
    first, second = charges(provider)
    assert first.key != second.key
    assert second.amount_cents == 10_000 - 4000
    assert state(box, invoice) == ("succeeded", 10_000)


def test_while_a_charge_is_under_way_no_other_is_made(box: Scenario, path: str, provider: UnsteadyProvider) -> None:
    provider.script = ["processing"]
    invoice = bill(box)
    refused = box.ask("POST", f"/invoices/{invoice}/retry_payment", status=405)
    assert refused["code"] == "payment_processor_is_currently_handling_payment"
    assert len(charges(provider)) == 1


def test_nobody_waits_for_a_provider_that_takes_its_time(box: Scenario, path: str, provider: UnsteadyProvider) -> None:
    seen: list[Any] = []

    def bill_somebody_else() -> None:
        # A transaction held open by the charge would stop this write for ever.
        box.billing.customers.upsert(external_id="other", currency="EUR")
        seen.append(box.billing.invoices.create_one_off(external_customer_id="other", fees=[{"add_on_code": "seat"}]))

    provider.meanwhile = bill_somebody_else
    invoice = bill(box)
    assert [other.status for other in seen] == ["finalized"]
    assert state(box, invoice) == ("succeeded", 10_000)


def test_a_charge_takes_two_transactions(
    box: Scenario, path: str, provider: UnsteadyProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoice = bill(box, skip_psp=True)
    written: list[bool] = []
    write = box.billing.store.write

    def noted(*arguments: Any) -> Any:
        written.append(bool(charges(provider)))
        return write(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(box.billing.store, "write", noted)
        box.billing.invoices.retry_payment(invoice)
    assert state(box, invoice) == ("succeeded", 10_000)
    # The request to pay, and what is to be sent; then the answer.
    assert (written.count(False), written.count(True)) == (2, 1)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_notices_that_come_twice_count_once(times: int, box: Scenario, path: str, provider: UnsteadyProvider) -> None:
    provider.script = ["processing"]
    invoice = bill(box)
    provider.end(provider.charges, "succeeded")
    for _ in range(times):
        for message in provider.messages():
            assert box.receive(path, message, SIGNED) == 200
    assert state(box, invoice) == ("succeeded", 10_000)
    assert box.webhook_types("payment.succeeded", "invoice.payment_status") == [
        "payment.succeeded",
        "invoice.payment_status_updated",
    ]


def test_a_notice_that_is_faster_than_the_answer_settles_the_payment(
    box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    provider.script = ["lost", "succeeded"]
    invoice = bill(box)
    (message,) = provider.messages()
    assert box.receive(path, message, SIGNED) == 200
    assert state(box, invoice) == ("succeeded", 10_000)
    box.travel_to("2024-03-05T12:00:00Z")
    assert len(provider.charges) == 1
    assert len(box.get(f"/payments?invoice_id={invoice}")["payments"]) == 1


def test_a_forged_notice_changes_nothing_and_is_not_kept(box: Scenario, path: str, provider: UnsteadyProvider) -> None:
    provider.script = ["processing"]
    invoice = bill(box)
    provider.end(provider.charges, "succeeded")
    (message,) = provider.messages()
    assert box.receive(path, message, {"signature": "forged"}) == 400
    assert box.receive("/webhooks/stripe/nobody?code=main", message, SIGNED) == 400
    assert box.receive(path.replace("code=main", "code=other"), message, SIGNED) == 400
    assert state(box, invoice) == ("pending", 0)
    assert box.billing.payment_connections.notices().total_count == 0


def test_a_failure_reported_after_a_later_success_changes_nothing(
    box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    invoice = bill(box)
    (key,) = provider.charges
    assert box.receive(path, json.dumps(["charge", "ch_1", key, "failed"]).encode(), SIGNED) == 200
    assert box.invoice(invoice)["payment_dispute_lost_at"] is None
    assert state(box, invoice) == ("succeeded", 10_000)


def test_a_late_failure_of_an_earlier_charge_leaves_the_next_alone(
    box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    provider.script = ["processing"]
    invoice = bill(box)
    (first,) = provider.charges
    failed = json.dumps(["charge", "ch_1", first, "failed"]).encode()
    assert box.receive(path, failed, SIGNED) == 200
    assert state(box, invoice) == ("failed", 0)
    box.ask("POST", f"/invoices/{invoice}/retry_payment")
    assert box.receive(path, failed, SIGNED) == 200
    assert state(box, invoice) == ("pending", 0)
    assert len(charges(provider)) == 2


def test_a_refund_follows_the_provider_and_is_made_once(box: Scenario, path: str, provider: UnsteadyProvider) -> None:
    invoice = bill(box)
    fee = box.invoice(invoice)["fees"][0]["svc_id"]
    provider.script = ["lost", "processing"]
    provider.then = "processing"
    item = {"fee_id": fee, "amount_cents": 3000}
    note = {"invoice_id": invoice, "reason": "other", "refund_amount_cents": 3000, "items": [item]}
    id = box.post("/credit_notes", credit_note=note)["credit_note"]["svc_id"]
    box.travel_to("2024-03-05T10:00:00Z")
    first, second = (call for call in provider.calls if isinstance(call, Refund))
    # The same request; the second time, it may have been made before.
    assert (first.since, second.since) == (None, first.at)
    assert replace(second, at=first.at, since=None) == first
    assert box.get(f"/credit_notes/{id}")["credit_note"]["refund_status"] == "pending"
    provider.end(provider.refunds, "succeeded")
    for message in provider.messages():
        box.receive(path, message, SIGNED)
    assert box.get(f"/credit_notes/{id}")["credit_note"]["refund_status"] == "succeeded"
    assert len(provider.refunds) == 1


def test_money_paid_by_hand_is_given_back_by_hand(box: Scenario, path: str, provider: UnsteadyProvider) -> None:
    provider.script = ["declined"]
    invoice = bill(box)
    box.post("/payments", payment={"invoice_id": invoice, "amount_cents": 10_000, "reference": "cash"})
    fee = box.invoice(invoice)["fees"][0]["svc_id"]
    item = {"fee_id": fee, "amount_cents": 3000}
    note = {"invoice_id": invoice, "reason": "other", "refund_amount_cents": 3000, "items": [item]}
    id = box.post("/credit_notes", credit_note=note)["credit_note"]["svc_id"]
    assert box.get(f"/credit_notes/{id}")["credit_note"]["refund_status"] == "pending"
    assert not provider.refunds


def test_a_provider_that_is_away_for_long_is_asked_each_hour_and_the_invoice_says_so(
    box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    provider.script = ["away"]
    invoice = bill(box)
    box.travel_to("2024-03-05T12:00:00Z")
    shown = box.invoice(invoice)
    assert [detail["error_code"] for detail in shown["error_details"]] == ["payment_error"]
    assert (shown["payment_status"], len(box.get(f"/payments?invoice_id={invoice}")["payments"])) == ("pending", 1)
    provider.script = ["succeeded"]
    box.travel_to("2024-03-05T14:00:00Z")
    assert state(box, invoice) == ("succeeded", 10_000)
    assert box.invoice(invoice)["error_details"] == []
    assert len({charge.key for charge in charges(provider)}) == 1


@pytest.mark.parametrize("kind", [FailureKind.REFUSED, FailureKind.UNAUTHORIZED])
def test_what_a_provider_refuses_is_shown_with_the_invoice(
    kind: FailureKind, box: Scenario, path: str, provider: UnsteadyProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = ProviderFailure(kind=kind, code="currency_not_supported", message="stripe does not take EUR")

    def refuse(*_: object) -> object:
        raise ProviderFailed(failure)

    monkeypatch.setattr(provider, "ask", refuse)
    invoice = bill(box)
    (detail,) = box.invoice(invoice)["error_details"]
    assert detail["details"] == {
        "payment_error": "currency_not_supported",
        "payment_error_message": "stripe does not take EUR",
    }
    assert state(box, invoice) == ("failed", 0)
    assert box.webhook_types("invoice.payment_failure") == ["invoice.payment_failure"]


def test_notices_that_nobody_understands_are_kept_for_a_look(
    box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    assert box.receive(path, b"[1]", SIGNED) == 200
    (kept,) = box.billing.payment_connections.notices().items
    assert (kept.status, kept.body) == ("unhandled", "[1]")


def test_the_provider_s_books_are_compared_with_ours(box: Scenario, path: str, provider: UnsteadyProvider) -> None:
    def compared() -> list[str]:
        since = datetime(2024, 1, 1, tzinfo=UTC)
        differing = compared_with_provider(box.billing._system, box.billing.organization, "main", since)
        return [difference.text for difference in differing]

    bill(box)
    box.travel_to("2024-03-06T00:00:00Z")
    assert compared() == []
    (key,) = provider.charges
    charged = provider.charges[key]
    provider.charges[key] = replace(charged, status="failed")
    assert compared() == ["failed there, succeeded here"]
    provider.charges[key] = replace(charged, id="ch_9")
    assert compared() == [
        "10000 EUR succeeded there, and are not known here",
        "10000 EUR succeeded here, and are not listed there",
    ]


def ask_for(box: Scenario, invoice_id: str) -> None:
    request = {"external_customer_id": "acme", "svc_invoice_ids": [invoice_id]}
    box.post("/payment_requests", payment_request=request)


def charged(provider: UnsteadyProvider) -> list[str]:
    return [charge.request.payable.type for charge in provider.charges.values()]


def test_an_invoice_is_not_charged_while_it_is_not_known_what_became_of_a_request_with_it(
    box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    invoice = bill(box, skip_psp=True)
    box.travel_to("2024-03-07T09:00:00Z")
    provider.script = ["lost", "away", "succeeded"]
    ask_for(box, invoice)
    box.ask("POST", f"/invoices/{invoice}/retry_payment")
    box.travel_to("2024-03-08T09:00:00Z")
    assert charged(provider) == ["PaymentRequest"]
    assert state(box, invoice) == ("succeeded", 10_000)


@pytest.mark.parametrize(("then", "expected"), [("succeeded", ["Invoice"]), ("failed", ["Invoice", "PaymentRequest"])])
def test_a_request_waits_until_it_is_known_what_became_of_its_invoice(
    then: str, expected: list[str], box: Scenario, path: str, provider: UnsteadyProvider
) -> None:
    provider.script, provider.then = ["lost", *["away"] * 60, "succeeded"], "processing"
    invoice = bill(box)
    box.travel_to("2024-03-06T09:00:00Z")
    ask_for(box, invoice)
    assert charged(provider) == ["Invoice"]
    provider.end(provider.charges, then)
    for message in provider.messages():
        assert box.receive(path, message, SIGNED) == 200
    provider.script = ["succeeded"]
    box.travel_to("2024-03-09T09:00:00Z")
    assert charged(provider) == expected
    assert state(box, invoice) == ("succeeded", 10_000)
