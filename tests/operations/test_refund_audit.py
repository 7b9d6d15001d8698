"""The audit finds each kind of error in refunds and payments under way, and nothing in those that are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.payment_provider import UnsteadyProvider, connect
from tests.scenarios import Scenario

from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import MoneyBack, Payment, RefundAttempt
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.operations.audit import audit
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq

Plant = Callable[[Work], None]


class Undone(Exception):
    """Raised to undo what a test planted."""


@pytest.fixture
def box() -> Iterator[Scenario]:
    """A customer whose invoice of 100.00 was charged, and 30.00 of it refunded; and another one, who paid by hand."""
    provider = UnsteadyProvider()
    with Scenario(now="2024-03-05T09:00:00Z", payment_providers=provider) as box:
        connect(box)
        box.customer("other")
        box.add_on("seat", 10_000)
        invoices = []
        for external_id in ("acme", "other"):
            fees = [{"add_on_code": "seat"}]
            made = box.post("/invoices", invoice={"external_customer_id": external_id, "currency": "EUR", "fees": fees})
            invoices.append(made["invoice"]["svc_id"])
        box.post("/payments", payment={"invoice_id": invoices[1], "amount_cents": 10_000, "reference": "cash"})
        item = {"fee_id": box.invoice(invoices[0])["fees"][0]["svc_id"], "amount_cents": 3000}
        note = {"invoice_id": invoices[0], "reason": "other", "refund_amount_cents": 3000, "items": [item]}
        box.post("/credit_notes", credit_note=note)
        yield box


def refund(reader: Reader) -> RefundAttempt:
    (attempt,) = reader.tx.find(RefundAttempt)
    return attempt


def payment(reader: Reader) -> Payment:
    paid = reader.tx.get(Payment, refund(reader).payment_id)
    assert paid is not None
    return paid


def note(reader: Reader) -> CreditNote:
    (issued,) = reader.tx.find(CreditNote)
    return issued


def invoice(reader: Reader) -> Invoice:
    paid = reader.tx.get(Invoice, refund(reader).invoice_id)
    assert paid is not None
    return paid


def other(reader: Reader) -> Customer:
    customer = reader.tx.first(Customer, eq("external_id", "other"))
    assert customer is not None
    return customer


def a_refund_of_another_customers_payment(work: Work) -> None:
    work.tx.replace(replace(payment(work), customer_id=other(work).id))


def a_refund_of_a_payment_that_failed(work: Work) -> None:
    work.tx.replace(replace(payment(work), payment_status=ChargeStatus.FAILED))


def a_refund_of_another_customers_note(work: Work) -> None:
    work.tx.replace(replace(note(work), customer_id=other(work).id))


def a_refund_of_a_cent_more(work: Work) -> None:
    work.tx.replace(replace(refund(work), amount_cents=3001))


def a_refund_in_another_currency(work: Work) -> None:
    work.tx.replace(replace(refund(work), currency="USD"))


def a_note_that_does_not_know_of_its_refund(work: Work) -> None:
    work.tx.replace(replace(note(work), refund_status=PaymentStatus.PENDING))


def a_note_that_waits_for_a_refund_that_failed(work: Work) -> None:
    work.tx.replace(replace(note(work), refund_status=PaymentStatus.PENDING))
    work.tx.replace(replace(refund(work), refund_status=PaymentStatus.FAILED))


def a_refund_that_nobody_asks_for(work: Work) -> None:
    work.tx.replace(replace(refund(work), refund_status=PaymentStatus.PENDING, provider_refund_id=None))


def a_payment_refunded_beyond_its_amount(work: Work) -> None:
    work.tx.insert(replace(refund(work), id=work.new_id(), amount_cents=7001, provider_refund_id="re_2"))


def a_part_of_what_is_to_be_given_back(work: Work) -> None:
    work.tx.replace(replace(refund(work), credit_note_id=None))
    work.tx.replace(replace(payment(work), status=MoneyBack.DONE))


def money_given_back_that_is_not_marked(work: Work) -> None:
    work.tx.replace(replace(refund(work), credit_note_id=None, amount_cents=10_000))


def money_kept_that_nobody_was_to_pay(work: Work) -> None:
    work.tx.replace(replace(invoice(work), status=InvoiceStatus.CLOSED))


def a_charge_that_nobody_asks_about(work: Work) -> None:
    work.tx.replace(replace(payment(work), unanswered=True, status="pending", payment_status=ChargeStatus.PENDING))


def an_invoice_that_is_paid_and_does_not_say_so(work: Work) -> None:
    work.tx.replace(replace(invoice(work), payment_status=PaymentStatus.FAILED))


def an_invoice_that_was_paid_twice(work: Work) -> None:
    paid = payment(work)
    again = replace(paid, id=work.new_id(), provider_payment_id="pi_again", status="succeeded")
    work.tx.insert(again)
    work.tx.replace(replace(invoice(work), total_paid_amount_cents=2 * paid.amount_cents))


PLANTS: list[tuple[Plant, str]] = [
    (a_refund_of_another_customers_payment, "refund"),
    (a_refund_of_a_payment_that_failed, "refund"),
    (a_refund_of_another_customers_note, "refund"),
    (a_refund_of_a_cent_more, "refund"),
    (a_refund_in_another_currency, "refund"),
    (a_note_that_does_not_know_of_its_refund, "refund"),
    (a_note_that_waits_for_a_refund_that_failed, "refund"),
    (a_refund_that_nobody_asks_for, "refund"),
    (a_payment_refunded_beyond_its_amount, "payment"),
    (a_part_of_what_is_to_be_given_back, "refund"),
    (money_given_back_that_is_not_marked, "refund"),
    (money_kept_that_nobody_was_to_pay, "payment"),
    (a_charge_that_nobody_asks_about, "payment"),
    (an_invoice_that_is_paid_and_does_not_say_so, "invoice_paid"),
    (an_invoice_that_was_paid_twice, "invoice_overpaid"),
]


def test_what_is_right_gives_no_finding(box: Scenario) -> None:
    assert box.billing.audit().findings == ()


def test_a_note_marked_as_refunded_by_hand_gives_no_finding(box: Scenario) -> None:
    def refused_and_refunded_by_hand(work: Work) -> None:
        work.tx.replace(replace(refund(work), refund_status=PaymentStatus.FAILED))

    box.billing.writing(refused_and_refunded_by_hand)
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize(("plant", "check"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_each_kind_of_error_is_found(box: Scenario, plant: Plant, check: str) -> None:
    def tried(work: Work) -> None:
        plant(work)
        seen.extend(finding.check for finding in audit(work).findings)
        raise Undone

    seen: list[str] = []
    with pytest.raises(Undone):
        box.billing.writing(tried)
    assert check in seen
