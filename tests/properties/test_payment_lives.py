"""Random lives of invoices with an unsteady provider: nobody is charged twice, and both books agree to the cent."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import examples
from tests.payment_provider import PRESENT, Killed, UnsteadyProvider, connect
from tests.scenarios import Scenario
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.statuses import ChargeStatus, PaymentStatus

pytestmark = pytest.mark.slow

_OUTCOMES = st.sampled_from(["succeeded", "processing", "declined", "away", "lost", "killed"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("bill"), st.integers(1, 9999)),
        st.tuples(st.just("pay"), st.integers(1, 9999)),
        st.tuples(st.just("retry"), st.integers(0, 9)),
        st.tuples(st.just("refund"), st.integers(1, 9999)),
        st.tuples(st.just("void"), st.integers(0, 9)),
        st.tuples(st.just("end"), st.integers(0, 1)),
        st.tuples(st.just("tell"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.integers(1, 400)),
        st.tuples(st.just("ask"), st.integers(1, 3)),
    ),
    min_size=2,
    max_size=14,
)


class Life:
    """A life of invoices, step by step, at a provider that does as it likes."""

    def __init__(self, box: Scenario, provider: UnsteadyProvider, path: str) -> None:
        self.box = box
        self.provider = provider
        self.path = path
        self.told: list[bytes] = []

    def invoices(self) -> list[dict[str, object]]:
        return self.box.invoices()

    def act(self, name: str, number: int) -> None:
        # A process that dies leaves what it was at to the next.
        with suppress(Killed):
            getattr(self, name)(number)

    def bill(self, cents: int) -> None:
        fee = {"add_on_code": "seat", "unit_amount_cents": cents, "units": 1}
        self.box.post("/invoices", invoice={"external_customer_id": "acme", "currency": "EUR", "fees": [fee]})

    def pay(self, cents: int) -> None:
        for invoice in self.invoices():
            if invoice["payment_status"] != "succeeded" and invoice["status"] == "finalized":
                amount = min(cents, int(str(invoice["total_due_amount_cents"])))
                sent = {"invoice_id": invoice["svc_id"], "amount_cents": amount, "reference": "cash"}
                self.box.send("POST", "/payments", {"payment": sent})
                return

    def retry(self, index: int) -> None:
        invoices = self.invoices()
        if invoices:
            self.box.send("POST", f"/invoices/{invoices[index % len(invoices)]['svc_id']}/retry_payment")

    def refund(self, cents: int) -> None:
        for invoice in self.invoices():
            if invoice["payment_status"] == "succeeded":
                fees = invoice["fees"]
                assert isinstance(fees, list)
                item = {"fee_id": fees[0]["svc_id"], "amount_cents": cents}
                note = {"invoice_id": invoice["svc_id"], "refund_amount_cents": cents, "items": [item]}
                self.box.send("POST", "/credit_notes", {"credit_note": {**note, "reason": "other"}})
                return

    def void(self, index: int) -> None:
        invoices = self.invoices()
        if invoices:
            self.box.send("POST", f"/invoices/{invoices[index % len(invoices)]['svc_id']}/void")

    def end(self, well: int) -> None:
        self.provider.end(self.provider.charges, "succeeded" if well else "failed")
        self.provider.end(self.provider.refunds, "succeeded" if well else "failed")

    def tell(self, index: int) -> None:
        """Messages come late, again, or not at all."""
        self.told += self.provider.messages()
        if self.told:
            status = self.box.receive(self.path, self.told[index % len(self.told)], {"signature": PRESENT})
            assert status == 200

    def ask(self, most: int) -> None:
        """A payment request over invoices that are overdue, on the next day."""
        self.wait(1440)
        overdue = [invoice for invoice in self.invoices() if invoice["payment_overdue"]]
        ids = [invoice["svc_id"] for invoice in overdue[:most]]
        if ids:
            request = {"external_customer_id": "acme", "svc_invoice_ids": ids}
            self.box.send("POST", "/payment_requests", {"payment_request": request})

    def wait(self, minutes: int) -> None:
        self.box.travel_to(self.box.now.fromtimestamp(self.box.now.timestamp() + 60 * minutes, self.box.now.tzinfo))


@examples(25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=st.lists(_OUTCOMES, min_size=1, max_size=12), steps=_STEPS, well=st.booleans())
def test_both_books_agree_whatever_goes_wrong(script: list[str], steps: list[tuple[str, int]], well: bool) -> None:
    provider = UnsteadyProvider(script=[*script, "succeeded"])
    with Scenario(now="2024-03-05T09:00:00Z", payment_providers=provider) as box:
        box.add_on("seat", 100)
        life = Life(box, provider, connect(box))
        for name, number in steps:
            life.act(name, number)
        # In the end everybody has said everything.
        provider.script = ["succeeded"]
        for _ in range(3):
            life.act("wait", 200)
            life.end(int(well))
            for message in reversed(provider.messages()):
                assert box.receive(life.path, message, {"signature": PRESENT}) == 200
        _check(box, provider)


def _check(box: Scenario, provider: UnsteadyProvider) -> None:
    payments = box.billing.reading(lambda reader: reader.tx.find(Payment))
    parts = box.billing.reading(lambda reader: reader.tx.find(RequestedInvoice))
    attempts = box.billing.reading(lambda reader: reader.tx.find(RefundAttempt))
    refunds = [refund for refund in attempts if refund.refund_status == PaymentStatus.SUCCEEDED]
    # What was not due any more is given back without a note.
    returned = [refund for refund in refunds if refund.credit_note_id is None]
    for request in box.billing.reading(lambda reader: reader.tx.find(PaymentRequest)):
        paid = [p for p in payments if p.payment_request_id == request.id and p.payment_status == "succeeded"]
        collected = [payment.amount_cents for payment in paid]
        assert collected == provider.succeeded_cents(request.id)
        assert len(collected) <= 1
        assert sum(part.paid_cents for part in parts if part.payment_request_id == request.id) == sum(collected)
    for invoice in box.invoices():
        id = str(invoice["svc_id"])
        paid = [p for p in payments if p.invoice_id == id and p.payment_status == ChargeStatus.SUCCEEDED]
        requested = [part.paid_cents for part in parts if part.invoice_id == id and part.paid_cents]
        back = sum(refund.amount_cents for refund in returned if refund.invoice_id == id)
        assert (
            invoice["total_paid_amount_cents"] == sum(payment.amount_cents for payment in paid) + sum(requested) - back
        )
        collected = [payment.amount_cents for payment in paid if not payment.is_manual]
        assert sorted(collected) == sorted(provider.succeeded_cents(id))
        # Nobody is charged twice for an invoice, by itself or with others.
        assert len(collected) + len(requested) <= 1
        offset = invoice["total_amount_cents"] - invoice["total_paid_amount_cents"] - invoice["total_due_amount_cents"]
        if invoice["status"] == "finalized":
            settled = invoice["total_paid_amount_cents"] + offset >= invoice["total_amount_cents"]
            assert (invoice["payment_status"] == "succeeded") == settled
    theirs = sum(refund.request.amount_cents for refund in provider.refunds.values() if refund.status == "succeeded")
    # A note is refunded once all its parts are; a part that was paid by hand is given back by hand.
    assert theirs == sum(refund.amount_cents for refund in refunds)
    # Nothing is left hanging: what is pending waits for somebody, not for an answer.
    assert not [payment for payment in payments if payment.unanswered]
    overpaid = {("invoice_overpaid", i["svc_id"]) for i in box.invoices() if i["total_due_amount_cents"] < 0}
    assert {(found.check, found.subject_id) for found in box.billing.audit().findings} == overpaid
