"""Payments by hand, through providers and of requests, in any order: every cent received is on an invoice, once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from tests.examples import examples
from tests.scenarios import Scenario
from usagebill.core.invoices.payment_states import PaymentEvent
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.core.payments import GIVEN_BACK, SURPLUS_BACK, Payment
from usagebill.core.provider_requests import PayableType
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.operations.payables import find_payable, move
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq

pytestmark = pytest.mark.slow

CONNECTION = "connection"
_EVENTS = {
    ChargeStatus.SUCCEEDED: (PaymentEvent.CHARGE_SUCCEEDED, PaymentEvent.NOTICE_SUCCEEDED),
    ChargeStatus.PROCESSING: (PaymentEvent.CHARGE_PROCESSING, PaymentEvent.NOTICE_PROCESSING),
    ChargeStatus.FAILED: (PaymentEvent.CHARGE_FAILED, PaymentEvent.NOTICE_FAILED),
}
_PLACES = st.integers(0, 3)
_STEPS = st.one_of(
    st.tuples(st.just("by hand"), _PLACES, st.integers(1, 150)),
    st.tuples(st.just("ask"), st.sets(_PLACES, min_size=1), st.none()),
    st.tuples(st.just("credit"), _PLACES, st.integers(1, 60)),
    st.tuples(st.just("void"), _PLACES, st.none()),
    st.tuples(
        st.just("collected"),
        st.integers(0, 2),
        st.tuples(st.sampled_from(list(_EVENTS)), st.booleans(), st.sampled_from([None, 0, 1, 7, 400, 10_000])),
    ),
)


def connect(work: Work) -> None:
    """A connection to a provider that has collected the payments of requests."""
    work.tx.insert(
        PaymentConnection(
            id=CONNECTION,
            organization_id=work.organization.id,
            kind="stripe",
            code="main",
            name="Main",
            created_at=work.now,
            updated_at=work.now,
        )
    )


def collected(work: Work, at: int, status: ChargeStatus, of_notice: bool, amount: int | None) -> None:
    """What a provider says of a payment of a request: of all that is due, or of some other amount."""
    requests = work.tx.find(PaymentRequest)
    if not requests:
        return
    request = requests[at % len(requests)]
    collectable = find_payable(work, PayableType.PAYMENT_REQUEST, request.id)
    assert collectable is not None
    cents = collectable.due_cents if amount is None else amount
    if cents == 0:
        return
    payment = Payment(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=request.customer_id,
        payment_request_id=request.id,
        connection_id=CONNECTION,
        amount_cents=cents,
        amount_currency=request.currency,
        created_at=work.now,
        updated_at=work.now,
        status=status.value,
        payment_status=status,
    )
    work.tx.insert(payment)
    move(work, collectable, _EVENTS[status][of_notice], payment)


def check(reader: Reader) -> None:
    payments = reader.tx.find(Payment, eq("payment_status", ChargeStatus.SUCCEEDED))
    invoices = reader.tx.find(Invoice)
    assert sum(invoice.total_paid_amount_cents for invoice in invoices) == sum(paid.amount_cents for paid in payments)
    assert sorted(receipt.payment_id for receipt in reader.tx.find(PaymentReceipt)) == sorted(
        paid.id for paid in payments if paid.status not in GIVEN_BACK
    )
    for invoice in invoices:
        if invoice.payment_status == PaymentStatus.SUCCEEDED:
            assert invoice.due_cents <= 0
            assert not invoice.payment_overdue
    for request in reader.tx.find(PaymentRequest):
        parts = reader.tx.find(RequestedInvoice, eq("payment_request_id", request.id))
        received = sum(paid.amount_cents for paid in payments if paid.payment_request_id == request.id)
        assert sum(part.paid_cents for part in parts) == received
        after_void = any(
            invoice.voided_at is not None and invoice.id in {part.invoice_id for part in parts} for invoice in invoices
        )
        returned = [paid for paid in payments if paid.status in (*GIVEN_BACK, *SURPLUS_BACK)]
        assert after_void or not any(paid.payment_request_id == request.id for paid in returned)
        if request.payment_status == PaymentStatus.SUCCEEDED:
            assert all(
                invoice.due_cents <= 0 for invoice in invoices if invoice.id in {part.invoice_id for part in parts}
            )


@examples(25, deadline=None)
@given(st.lists(_STEPS, min_size=1, max_size=12))
@example([("ask", {0}, None), ("void", 0, None), ("collected", 0, (ChargeStatus.SUCCEEDED, False, 1))])
def test_every_cent_received_is_on_an_invoice_and_has_a_receipt(steps: list[tuple[str, Any, Any]]) -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        box.billing.writing(connect)
        box.add_on("setup", 1)
        invoices = []
        for units in (100, 50, 75, 300):
            fees = [{"add_on_code": "setup", "units": units}]
            made = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]
            invoices.append((made["svc_id"], made["fees"][0]["svc_id"]))
        box.travel_to("2024-03-03T00:00:00Z")
        for word, place, more in steps:
            if word == "by hand":
                payment = {"invoice_id": invoices[place][0], "amount_cents": more, "reference": "r"}
                status, _ = box.send("POST", "/payments", {"payment": payment})
            elif word == "ask":
                ids = [invoices[at][0] for at in sorted(place)]
                request = {"external_customer_id": "acme", "svc_invoice_ids": ids}
                status, _ = box.send("POST", "/payment_requests", {"payment_request": request})
            elif word == "credit":
                id, fee = invoices[place]
                items = [{"fee_id": fee, "amount_cents": more}]
                note = {"invoice_id": id, "offset_amount_cents": more, "items": items}
                status, _ = box.send("POST", "/credit_notes", {"credit_note": note})
            elif word == "void":
                status, _ = box.send("POST", f"/invoices/{invoices[place][0]}/void", {})
            else:
                box.billing.writing(lambda work, at=place, amounts=more: collected(work, at, *amounts))  # type: ignore[misc]
                box.run_due()
                status = 200
            # 403: a payment for a voided invoice.
            assert status in (200, 403, 405, 422)
            box.billing.reading(check)
        overpaid = {invoice["svc_id"] for invoice in box.invoices() if invoice["total_due_amount_cents"] < 0}
        assert {(found.check, found.subject_id) for found in box.billing.audit().findings} == {
            ("invoice_overpaid", id) for id in overpaid
        }
