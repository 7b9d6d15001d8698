"""Actions on payments, credit notes and receipts, and voids of what was paid: each does what its page showed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.console.test_invoice_actions import effect, one_off
from tests.console.visitor import Visitor, invited
from tests.payment_providers.test_one_debt import Doors
from tests.payment_providers.test_refunds import paid_twice
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


@pytest.fixture
def doors(box: Scenario) -> Iterator[Doors]:
    stripe = StripeServer(now=lambda: box.now)
    with stripe:
        box.entity(name="Lumen", email="billing@lumen.example")
        doors = Doors(box, stripe, "EUR")
        doors.stripe = stripe
        yield doors


def test_a_refund_of_a_payment_shows_what_the_invoice_keeps_and_is_asked_of_the_provider(doors: Doors) -> None:
    box = doors.box
    invoice, payment = paid_twice(doors)
    finance = Visitor(box.billing, invited(box.billing, "finance"))
    path = f"/payments/{payment['svc_id']}/refund"
    assert f'href="/console{path}"' in finance.page(f"/payments/{payment['svc_id']}")
    assert ("Paid", "€21.00", "€10.50") in effect(finance.page(path))
    part = {"amount_cents": "4.00", "by_hand": ""}
    page = finance.send_form(path, **part).text
    assert ("Paid", "€21.00", "€17.00") in effect(page)
    assert not doors.stripe.refunds
    too_much = finance.send_form(
        path, amount_cents="10.51", shown_for=urlencode({"amount_cents": "10.51", "by_hand": ""})
    )
    assert too_much.status_code == 422
    assert not doors.stripe.refunds
    assert finance.send_form(path, **part, shown_for=urlencode(part)).status_code == 303
    box.run_due()
    assert [item["amount"] for item in doors.stripe.refunds.values()] == [400]
    assert box.invoice(invoice["svc_id"])["total_paid_amount_cents"] == 1700
    by_hand = {"amount_cents": "", "by_hand": "yes"}
    assert finance.send_form(path, **by_hand, shown_for=urlencode(by_hand)).status_code == 303
    box.run_due()
    assert len(doors.stripe.refunds) == 1
    assert box.invoice(invoice["svc_id"])["total_paid_amount_cents"] == 1050
    reader = Visitor(box.billing, invited(box.billing, "read_only"))
    assert path not in reader.page(f"/payments/{payment['svc_id']}")
    assert reader.send_form(path).status_code == 403


@pytest.fixture
def admin(box: Scenario, acme: None) -> Visitor:
    box.add_on("seat", 10_000)
    return Visitor(box.billing, invited(box.billing, "admin"))


def paid(box: Scenario) -> Any:
    """An invoice of 100.00 euros that was paid by hand."""
    invoice = one_off(box)
    box.post("/payments", payment={"invoice_id": invoice["svc_id"], "amount_cents": 10_000, "reference": "transfer"})
    return invoice


def test_a_payment_by_hand_is_not_refunded_here(box: Scenario, admin: Visitor) -> None:
    paid(box)
    (payment,) = box.get("/payments")["payments"]
    assert "/refund" not in admin.page(f"/payments/{payment['svc_id']}")
    assert "not possible now" in admin.page(f"/payments/{payment['svc_id']}/refund")


def test_a_paid_invoice_is_voided_with_what_goes_back(box: Scenario, admin: Visitor) -> None:
    invoice = paid(box)
    path = f"/invoices/{invoice['svc_id']}/void"
    shown = {name: (now, then) for name, now, then in effect(admin.page(path))}
    assert shown["Status"] == ("Finalized", "Voided")
    too_much = {"refund_amount": "60", "credit_amount": "50"}
    assert admin.send_form(path, **too_much, shown_for=urlencode(too_much)).status_code == 422
    given = {"refund_amount": "60", "credit_amount": "40"}
    assert admin.send_form(path, **given, shown_for=urlencode(given)).status_code == 303
    assert box.invoice(invoice["svc_id"])["status"] == "voided"
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert (note["refund_amount_cents"], note["credit_amount_cents"]) == (6000, 4000)


def test_a_credit_note_is_voided_and_shows_what_is_lost(box: Scenario, admin: Visitor) -> None:
    invoice = one_off(box)
    items = [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 2500}]
    sent = {"invoice_id": invoice["svc_id"], "credit_amount_cents": 2500, "items": items, "reason": "other"}
    note = box.post("/credit_notes", credit_note=sent)["credit_note"]
    page = admin.page(f"/credit-notes/{note['svc_id']}")
    for action in ("void", "email", "pdf"):
        assert f'href="/console/credit-notes/{note["svc_id"]}/{action}"' in page
    assert admin.ask("GET", f"/credit-notes/{note['svc_id']}/pdf").content.startswith(b"%PDF")
    path = f"/credit-notes/{note['svc_id']}/void"
    assert ("Left for the next invoices", "€25.00", "€0.00") in effect(admin.page(path))
    assert box.get(f"/credit_notes/{note['svc_id']}")["credit_note"]["balance_amount_cents"] == 2500
    assert admin.send_form(path).status_code == 303
    assert box.get(f"/credit_notes/{note['svc_id']}")["credit_note"]["credit_status"] == "voided"
    assert "not possible now" in admin.page(path)
    assert "not possible now" in admin.page(f"/credit-notes/{note['svc_id']}/retry-refund")


def test_credit_notes_and_receipts_are_sent_by_email(box: Scenario) -> None:
    box.entity(
        email="billing@lumen.example",
        email_settings=["invoice.finalized", "credit_note.created", "payment_receipt.created"],
    )
    box.customer(email="acme@customers.example")
    box.add_on("seat", 10_000)
    admin = Visitor(box.billing, invited(box.billing, "admin"))
    invoice = paid(box)
    items = [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 2500}]
    sent = {"invoice_id": invoice["svc_id"], "credit_amount_cents": 2500, "items": items, "reason": "other"}
    note = box.post("/credit_notes", credit_note=sent)["credit_note"]
    (receipt,) = box.get("/payment_receipts")["payment_receipts"]
    box.run_due()
    for path in (f"/credit-notes/{note['svc_id']}", f"/receipts/{receipt['svc_id']}"):
        box.emails.clear()
        assert f"{path}/email" in admin.page(path)
        assert admin.send_form(f"{path}/email", to="ada@example.com").headers["location"] == f"/console{path}"
        box.run_due()
        assert [email.to for email in box.emails] == [("ada@example.com",)]
    assert admin.ask("GET", f"/receipts/{receipt['svc_id']}/pdf").content.startswith(b"%PDF")


def test_an_invoice_that_failed_is_made_again(box: Scenario, admin: Visitor) -> None:
    invoice = one_off(box)
    path = f"/invoices/{invoice['svc_id']}/retry"
    assert f'{path}"' not in admin.page(f"/invoices/{invoice['svc_id']}")

    def fail(work: Work) -> None:
        (stored,) = work.tx.find(Invoice)
        work.tx.replace(replace(stored, status=InvoiceStatus.FAILED, number=""))

    box.billing.writing(fail)
    assert f'href="/console{path}"' in admin.page(f"/invoices/{invoice['svc_id']}")
    # No provider is asked for its taxes any more, so the next run of jobs issues it.
    assert ("Status", "Failed", "Pending") in effect(admin.page(path))
    assert box.invoice(invoice["svc_id"])["status"] == "failed"
    assert admin.send_form(path).status_code == 303
    assert box.invoice(invoice["svc_id"])["status"] == "finalized"
