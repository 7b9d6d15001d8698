"""The audit finds each kind of error in receipts and payment requests, and nothing in those that are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.payment_provider import UnsteadyProvider, connect
from tests.scenarios import Scenario

from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.core.payments import Payment
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.operations.audit import audit
from usagebill.operations.payment_receipts import receipt_series
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq

pytestmark = pytest.mark.now("2024-03-01T00:00:00Z")

Plant = Callable[[Work], None]


class Undone(Exception):
    """Raised to undo what a test planted."""


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """Two customers; one has paid in three parts and is asked for two overdue invoices."""
    for external_id in ("acme", "other"):
        box.customer(external_id)
    box.add_on("setup", 10_000)
    invoices = []
    for external_id in ("acme", "acme", "other"):
        fees = [{"add_on_code": "setup"}]
        made = box.post("/invoices", invoice={"external_customer_id": external_id, "fees": fees})
        invoices.append(made["invoice"]["svc_id"])
    for place, cents in ((0, 100), (0, 200), (1, 300), (2, 10_000)):
        box.post("/payments", payment={"invoice_id": invoices[place], "amount_cents": cents, "reference": "r"})
    box.travel_to("2024-03-03T00:00:00Z")
    box.post("/payment_requests", payment_request={"external_customer_id": "acme", "svc_invoice_ids": invoices[:2]})
    return box


def receipt(work: Reader, at: int) -> PaymentReceipt:
    of_acme = eq("customer_id", acme(work).id)
    return work.tx.find(PaymentReceipt, of_acme, order=[asc("sequential_id")])[at]


def acme(work: Reader) -> Customer:
    customer = work.tx.first(Customer, eq("external_id", "acme"))
    assert customer is not None
    return customer


def request(work: Reader) -> PaymentRequest:
    return work.tx.find(PaymentRequest)[0]


def part(work: Reader) -> RequestedInvoice:
    return work.tx.find(RequestedInvoice, order=[asc("id")])[0]


def a_receipt_that_is_gone(work: Work) -> None:
    work.tx.delete(receipt(work, 1))


def the_last_receipt_gone(work: Work) -> None:
    work.tx.delete(receipt(work, -1))


def a_number_that_was_never_given(work: Work) -> None:
    work.tx.next_number(receipt_series(acme(work).id))


def a_number_of_another_form(work: Work) -> None:
    work.tx.replace(replace(receipt(work, 0), number="RCPT-1"))


def a_receipt_of_a_payment_that_failed(work: Work) -> None:
    payment = work.tx.get(Payment, receipt(work, 0).payment_id)
    assert payment is not None
    work.tx.replace(replace(payment, payment_status=ChargeStatus.FAILED))


def a_receipt_of_another_customers_payment(work: Work) -> None:
    payment = work.tx.get(Payment, receipt(work, 0).payment_id)
    other = work.tx.first(Customer, eq("external_id", "other"))
    assert payment is not None
    assert other is not None
    work.tx.replace(replace(payment, customer_id=other.id))


def a_payment_without_receipt(work: Work) -> None:
    payment = work.tx.get(Payment, receipt(work, 2).payment_id)
    assert payment is not None
    work.tx.insert(replace(payment, id=work.new_id()))


def a_cent_more_asked(work: Work) -> None:
    known = request(work)
    work.tx.replace(replace(known, amount_cents=known.amount_cents + 1))


def a_cent_less_of_one_invoice(work: Work) -> None:
    known = part(work)
    work.tx.replace(replace(known, amount_cents=known.amount_cents - 1))


def a_request_with_another_customers_invoice(work: Work) -> None:
    invoice = work.tx.get(Invoice, part(work).invoice_id)
    other = work.tx.first(Customer, eq("external_id", "other"))
    assert invoice is not None
    assert other is not None
    work.tx.replace(replace(invoice, customer_id=other.id))


def a_request_in_another_currency(work: Work) -> None:
    work.tx.replace(replace(request(work), currency="USD"))


def a_cent_that_nobody_paid(work: Work) -> None:
    work.tx.replace(replace(part(work), paid_cents=1))


def a_request_that_nobody_paid(work: Work) -> None:
    work.tx.replace(replace(request(work), payment_status=PaymentStatus.SUCCEEDED))


def a_paid_request_that_is_pending(work: Work) -> None:
    known = request(work)
    for requested in work.tx.find(RequestedInvoice):
        work.tx.replace(replace(requested, paid_cents=requested.amount_cents))
    work.tx.insert(
        Payment(
            id=work.new_id(),
            organization_id=work.organization.id,
            customer_id=known.customer_id,
            payment_request_id=known.id,
            amount_cents=known.amount_cents,
            amount_currency=known.currency,
            created_at=work.now,
            updated_at=work.now,
        )
    )


PLANTS: list[tuple[Plant, str]] = [
    (a_receipt_that_is_gone, "number_gap"),
    (a_receipt_that_is_gone, "receipt"),
    (the_last_receipt_gone, "receipt"),
    (a_number_that_was_never_given, "receipt"),
    (a_number_of_another_form, "receipt"),
    (a_receipt_of_a_payment_that_failed, "receipt"),
    (a_receipt_of_another_customers_payment, "receipt"),
    (a_payment_without_receipt, "receipt"),
    (a_cent_more_asked, "payment_request"),
    (a_cent_less_of_one_invoice, "payment_request"),
    (a_request_with_another_customers_invoice, "payment_request"),
    (a_request_in_another_currency, "payment_request"),
    (a_cent_that_nobody_paid, "payment_request"),
    (a_request_that_nobody_paid, "payment_request"),
    (a_paid_request_that_is_pending, "payment_request"),
]


def test_what_is_right_gives_no_finding(box: Scenario) -> None:
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize(("plant", "check"), PLANTS, ids=[f"{plant.__name__}-{check}" for plant, check in PLANTS])
def test_an_error_is_found(box: Scenario, plant: Plant, check: str) -> None:
    checks: set[str] = set()

    def look(work: Work) -> None:
        plant(work)
        checks.update(finding.check for finding in audit(work).findings)
        raise Undone

    with pytest.raises(Undone):
        box.billing.writing(look)
    assert check in checks


def test_two_requests_over_one_invoice_of_which_one_was_paid_are_no_finding() -> None:
    provider = UnsteadyProvider(script=["away"])
    with Scenario(now="2024-03-01T00:00:00Z", payment_providers=provider) as box:
        connect(box)
        box.add_on("setup", 10_000)
        fees = [{"add_on_code": "setup"}]
        body = {"external_customer_id": "acme", "fees": fees, "skip_psp": True}
        made = box.post("/invoices", invoice=body)["invoice"]
        box.travel_to("2024-03-03T00:00:00Z")
        ask = {"external_customer_id": "acme", "svc_invoice_ids": [made["svc_id"]]}
        for _ in range(2):
            box.post("/payment_requests", payment_request=ask)
        provider.script = ["succeeded"]
        box.travel_to("2024-03-05T00:00:00Z")
        requests = box.get("/payment_requests")["payment_requests"]
        assert [request["payment_status"] for request in requests] == ["succeeded", "succeeded"]
        assert [payment["amount_cents"] for payment in box.get("/payments")["payments"]] == [10_000]
        assert box.billing.audit().findings == ()
