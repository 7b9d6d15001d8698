"""Money that comes for a top-up, or another invoice, that was voided meanwhile: it is shown and given back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.operations.subscriptions.test_activation import Gate
from tests.payment_provider import PRESENT, UnsteadyProvider, connect
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

from usagebill.core.provider_requests import Refund
from usagebill.operations.audit import audit

SIGNED = {"Signature": PRESENT}
WALLET = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR"}


@pytest.fixture
def provider() -> UnsteadyProvider:
    """It cancels nothing: whatever was begun there goes on."""
    return UnsteadyProvider()


@pytest.fixture
def box(provider: UnsteadyProvider) -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T09:00:00Z", payment_providers=provider) as box:
        yield box


def report(box: Scenario, path: str, provider: UnsteadyProvider) -> None:
    for message in provider.messages():
        assert box.receive(path, message, SIGNED) == 200


def wallet_of(box: Scenario) -> Any:
    (wallet,) = box.get("/wallets?external_customer_id=acme")["wallets"]
    return wallet


def purchase_of(box: Scenario) -> Any:
    (purchase,) = box.get(f"/wallets/{wallet_of(box)['svc_id']}/wallet_transactions")["wallet_transactions"]
    return purchase


def payments(box: Scenario) -> list[tuple[str, str, int]]:
    return [
        (payment["payment_status"], payment["status"], payment["amount_cents"])
        for payment in box.get("/payments")["payments"]
    ]


def bought(box: Scenario, provider: UnsteadyProvider) -> tuple[str, str]:
    """A wallet whose purchase of 10.00 is being charged: the path of notices, and the id of its invoice."""
    path = connect(box)
    provider.script = ["processing"]
    box.post("/wallets", wallet={**WALLET, "paid_credits": "10"})
    box.travel_to("2024-03-05T09:05:00Z")
    (invoice,) = box.get("/invoices")["invoices"]
    assert (invoice["invoice_type"], invoice["payment_status"]) == ("credit", "pending")
    return path, invoice["svc_id"]


def test_money_that_comes_for_a_voided_top_up_is_paid_back_and_brings_no_credits(
    box: Scenario, provider: UnsteadyProvider
) -> None:
    path, invoice_id = bought(box, provider)
    box.post(f"/invoices/{invoice_id}/void")
    provider.end(provider.charges, "succeeded")
    for _ in range(2):
        report(box, path, provider)
    box.travel_to("2024-03-05T10:00:00Z")
    (refund,) = (call for call in provider.calls if isinstance(call, Refund))
    assert (refund.amount_cents, refund.credit_note_id) == (1000, None)
    assert payments(box) == [("succeeded", "refund_pending", 1000)]
    provider.end(provider.refunds, "succeeded")
    report(box, path, provider)
    assert payments(box) == [("succeeded", "refunded", 1000)]
    assert (wallet_of(box)["balance_cents"], purchase_of(box)["status"]) == (0, "pending")
    invoice = box.invoice(invoice_id)
    assert (invoice["status"], invoice["payment_status"], invoice["total_paid_amount_cents"]) == (
        "voided",
        "pending",
        0,
    )
    assert box.get("/payment_receipts")["payment_receipts"] == []
    assert box.billing.reading(audit).findings == ()


def test_money_for_a_top_up_that_failed_first_and_was_voided_then_is_paid_back(
    box: Scenario, provider: UnsteadyProvider
) -> None:
    path, invoice_id = bought(box, provider)
    (key,) = provider.charges
    assert box.receive(path, json.dumps(["charge", "ch_1", key, "failed"]).encode(), SIGNED) == 200
    box.post(f"/invoices/{invoice_id}/void")
    assert box.receive(path, json.dumps(["charge", "ch_1", key, "succeeded"]).encode(), SIGNED) == 200
    assert payments(box) == [("succeeded", "refund_pending", 1000)]
    assert (wallet_of(box)["balance_cents"], purchase_of(box)["status"]) == (0, "failed")
    assert box.billing.reading(audit).findings == ()


def test_money_for_any_other_voided_invoice_is_paid_back_too(box: Scenario, provider: UnsteadyProvider) -> None:
    path = connect(box)
    provider.script = ["processing"]
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    box.travel_to("2024-03-05T09:05:00Z")
    (invoice,) = box.get("/invoices")["invoices"]
    box.post(f"/invoices/{invoice['svc_id']}/void")
    provider.end(provider.charges, "succeeded")
    report(box, path, provider)
    assert payments(box) == [("succeeded", "refund_pending", invoice["total_amount_cents"])]
    assert box.invoice(invoice["svc_id"])["payment_status"] == "pending"
    assert box.billing.reading(audit).findings == ()


def test_the_charge_of_a_top_up_that_is_voided_is_canceled_at_the_provider() -> None:
    with Scenario(now="2024-03-05T09:00:00Z") as box, StripeServer(now=lambda: box.now) as stripe:
        Gate(box, stripe)
        stripe.outcomes.append("processing")
        box.post("/wallets", wallet={**WALLET, "paid_credits": "10"})
        box.travel_to("2024-03-05T09:05:00Z")
        (invoice,) = box.get("/invoices")["invoices"]
        box.post(f"/invoices/{invoice['svc_id']}/void")
        box.run_due()
        assert [intent["status"] for intent in stripe.intents.values()] == ["canceled"]
        assert (wallet_of(box)["balance_cents"], purchase_of(box)["status"]) == (0, "failed")
        assert box.billing.reading(audit).findings == ()
