"""Money that comes for a payment request, some of whose invoices were voided meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.operations.subscriptions.test_activation import Gate
from tests.payment_provider import PRESENT, UnsteadyProvider, connect
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

from usagebill.core.payments import Payment, RefundAttempt, SurplusBack
from usagebill.core.provider_requests import Charge, PayableType, Refund
from usagebill.operations.audit import audit
from usagebill.operations.payables import find_payable
from usagebill.runtime.work import Work

SIGNED = {"Signature": PRESENT}


class SentRequest:
    """Invoices of 4.00 and 2.00 that are overdue, and a request for both that is being charged."""

    def __init__(self, box: Scenario, provider: UnsteadyProvider) -> None:
        self.box, self.provider = box, provider
        self.path = connect(box)
        box.add_on("setup", 100)
        box.put("/billing_entities/default", billing_entity={"net_payment_term": 2})
        # Nothing is collected before it is asked for.
        provider.script = ["failed", "failed"]
        self.first, self.second = self._invoice(4), self._invoice(2)
        box.travel_to("2024-03-08T09:00:00Z")
        assert [self.invoice(id)["payment_overdue"] for id in (self.first, self.second)] == [True, True]
        provider.script = ["processing"]
        ids = [self.first, self.second]
        request = {"external_customer_id": "acme", "svc_invoice_ids": ids}
        self.id = box.post("/payment_requests", payment_request=request)["payment_request"]["svc_id"]

    def _invoice(self, units: int) -> str:
        fees = [{"add_on_code": "setup", "units": units}]
        made = self.box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]
        self.box.run_due()
        return str(made["svc_id"])

    def invoice(self, id: str) -> Any:
        return self.box.invoice(id)

    def void(self, *ids: str) -> None:
        for id in ids:
            self.box.post(f"/invoices/{id}/void")

    def charge(self) -> int:
        """Have the request charged: the cents that the provider was asked for."""
        self.box.run_due()
        self.box.travel_to("2024-03-08T10:00:00Z")
        (charge,) = (call for call in self.provider.calls if isinstance(call, Charge) and call.payable.id == self.id)
        return charge.amount_cents

    def report(self) -> None:
        for message in self.provider.messages():
            assert self.box.receive(self.path, message, SIGNED) == 200
        self.box.run_due()

    def pay(self) -> None:
        """The provider says that the charge of the request has succeeded, twice."""
        self.end("succeeded")

    def end(self, status: str) -> None:
        self.provider.end(self.provider.charges, status)
        self.report()
        self.report()

    def payment(self) -> tuple[str, str, int]:
        (paid,) = (paid for paid in self.box.get("/payments")["payments"] if paid["svc_payable_id"] == self.id)
        return paid["payment_status"], paid["status"], paid["amount_cents"]

    def standing(self, id: str) -> tuple[str, str, int]:
        invoice = self.invoice(id)
        return invoice["status"], invoice["payment_status"], invoice["total_paid_amount_cents"]

    def status(self) -> str:
        return str(self.box.get(f"/payment_requests/{self.id}")["payment_status"])

    def collectable(self) -> tuple[int, bool]:
        collectable = self.box.billing.reading(lambda work: find_payable(work, PayableType.PAYMENT_REQUEST, self.id))
        assert collectable is not None
        return collectable.due_cents, collectable.is_collectable

    def refunds(self) -> list[int]:
        return [call.amount_cents for call in self.provider.calls if isinstance(call, Refund)]

    def receipts(self) -> int:
        return len(self.box.get("/payment_receipts")["payment_receipts"])

    def check(self) -> None:
        assert self.box.billing.reading(audit).findings == ()


@pytest.fixture
def provider() -> UnsteadyProvider:
    """It cancels nothing: whatever was begun there goes on."""
    return UnsteadyProvider()


@pytest.fixture
def sent_request(provider: UnsteadyProvider) -> Iterator[SentRequest]:
    with Scenario(now="2024-03-05T09:00:00Z", payment_providers=provider) as box:
        yield SentRequest(box, provider)


def test_what_came_for_a_voided_invoice_is_paid_back_and_the_rest_pays_the_other(sent_request: SentRequest) -> None:
    assert sent_request.charge() == 600
    sent_request.void(sent_request.second)
    sent_request.pay()
    assert sent_request.payment() == ("succeeded", "surplus_refund_pending", 600)
    assert sent_request.refunds() == [200]
    assert sent_request.standing(sent_request.first) == ("finalized", "succeeded", 400)
    assert sent_request.standing(sent_request.second)[0] == "voided"
    assert sent_request.standing(sent_request.second)[2] == 200
    assert (sent_request.status(), sent_request.receipts()) == ("succeeded", 1)
    sent_request.check()
    sent_request.provider.end(sent_request.provider.refunds, "succeeded")
    sent_request.report()
    assert sent_request.payment() == ("succeeded", "surplus_refunded", 600)
    assert sent_request.refunds() == [200]
    sent_request.check()


def test_a_refund_of_a_surplus_that_the_provider_refuses_is_left_to_a_person(sent_request: SentRequest) -> None:
    sent_request.charge()
    sent_request.void(sent_request.first)
    sent_request.pay()
    sent_request.provider.end(sent_request.provider.refunds, "failed")
    sent_request.report()
    assert sent_request.refunds() == [400]
    assert sent_request.payment() == ("succeeded", "surplus_to_be_refunded", 600)
    assert sent_request.standing(sent_request.second) == ("finalized", "succeeded", 200)
    sent_request.check()


def test_a_payment_of_invoices_that_were_all_voided_is_paid_back_in_full(sent_request: SentRequest) -> None:
    sent_request.charge()
    sent_request.void(sent_request.first, sent_request.second)
    sent_request.pay()
    assert sent_request.payment() == ("succeeded", "refund_pending", 600)
    assert sent_request.refunds() == [400, 200]
    assert (sent_request.status(), sent_request.receipts()) == ("pending", 0)
    sent_request.check()


def test_a_request_comes_to_what_is_due_of_the_invoices_that_were_not_voided(sent_request: SentRequest) -> None:
    sent_request.charge()
    sent_request.end("failed")
    assert sent_request.collectable() == (600, True)
    sent_request.void(sent_request.second)
    assert sent_request.collectable() == (400, True)
    sent_request.void(sent_request.first)
    assert sent_request.collectable() == (0, False)
    sent_request.check()


def test_the_charge_of_a_request_is_canceled_once_none_of_its_invoices_is_to_be_paid() -> None:
    with Scenario(now="2024-03-05T09:00:00Z") as box, StripeServer(now=lambda: box.now) as stripe:
        Gate(box, stripe)
        box.add_on("setup", 100)
        stripe.outcomes += ["failed", "failed", "processing"]
        ids = []
        for units in (4, 2):
            fees = [{"add_on_code": "setup", "units": units}]
            made = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]
            box.run_due()
            ids.append(made["svc_id"])
        box.travel_to("2024-03-08T09:00:00Z")
        box.post("/payment_requests", payment_request={"external_customer_id": "acme", "svc_invoice_ids": ids})
        box.run_due()
        assert [intent["status"] for intent in stripe.intents.values()][-1] == "processing"
        box.post(f"/invoices/{ids[0]}/void")
        box.run_due()
        assert [intent["status"] for intent in stripe.intents.values()][-1] == "processing"
        box.post(f"/invoices/{ids[1]}/void")
        box.run_due()
        assert [intent["status"] for intent in stripe.intents.values()][-1] == "canceled"


def test_the_audit_finds_a_surplus_that_is_said_to_be_paid_back_and_is_not(sent_request: SentRequest) -> None:
    sent_request.charge()
    sent_request.void(sent_request.second)
    sent_request.pay()

    def spoil(work: Work) -> None:
        (attempt,) = work.tx.find(RefundAttempt)
        work.tx.replace(replace(attempt, amount_cents=600))

    def forget(work: Work) -> None:
        (attempt,) = work.tx.find(RefundAttempt)
        payment = work.tx.get(Payment, attempt.payment_id)
        assert payment is not None
        work.tx.delete(attempt)
        work.tx.replace(replace(payment, status=SurplusBack.DONE))

    sent_request.box.billing.writing(spoil)
    assert [finding.detail for finding in sent_request.box.billing.reading(audit).findings] == ["status of the payment"]
    sent_request.box.billing.writing(forget)
    assert [finding.detail for finding in sent_request.box.billing.reading(audit).findings] == [
        "refunds without a credit note"
    ]
