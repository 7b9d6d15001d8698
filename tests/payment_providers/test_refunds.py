"""What was paid beyond what is due goes back, and the sale stays; refunds of notes find the payments they need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.payment_providers.test_lives import Life, living
from tests.payment_providers.test_one_debt import Doors
from tests.payment_servers.cashfree import CashfreeServer
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.server import Fault
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


@pytest.fixture
def doors(box: Scenario) -> Iterator[Doors]:
    stripe = StripeServer(now=lambda: box.now)
    with stripe:
        box.entity(name="Lumen", email="billing@lumen.example")
        doors = Doors(box, stripe, "EUR")
        doors.stripe = stripe
        yield doors


def overpaid(life: Life) -> list[tuple[str, int]]:
    """The overpaid invoices, as the list shows them, and what was paid of them."""
    listed = life._ask("GET", "/invoices?overpaid=true")["invoices"]
    others = life._ask("GET", "/invoices?overpaid=false")["invoices"]
    assert len(listed) + len(others) == len(life.box.invoices())
    return [(invoice["svc_id"], invoice["total_paid_amount_cents"]) for invoice in listed]


def refund(life: Life, payment: Any, **fields: Any) -> Any:
    made = life._ask("POST", f"/payments/{payment['svc_id']}/refund", **fields)["payment"]
    life.box.run_due()
    return life._ask("GET", f"/payments/{made['svc_id']}")["payment"]


def status_of(life: Life, payment: Any) -> str:
    status: str = life._ask("GET", f"/payments/{payment['svc_id']}")["payment"]["status"]
    return status


def refused(life: Life, payment: Any, **fields: Any) -> tuple[int, Any]:
    status, answer = life.box.request("POST", f"/api/v1/payments/{payment['svc_id']}/refund", json=fields)
    return status, answer.get("error_details") or answer["code"]


def paid_twice(doors: Doors) -> tuple[Any, Any]:
    """An invoice that was paid by hand and on a page, and the payment on the page."""
    invoice = doors.invoice()
    doors.page(invoice)
    doors.pay(invoice, 1050)
    doors.notice(doors.stripe.page_paid(next(iter(doors.pages()))))
    return invoice, next(payment for payment in doors.payments() if payment["type"] == "provider")


def test_a_payment_that_came_twice_goes_back_and_the_sale_stays(doors: Doors) -> None:
    invoice, payment = paid_twice(doors)
    assert overpaid(doors) == [(invoice["svc_id"], 2100)]
    assert doors.sent("invoice.overpaid") == ["invoice.overpaid"]
    (found,) = doors.box.billing.audit().findings
    assert (found.check, found.subject_id, found.found) == ("invoice_overpaid", invoice["svc_id"], "1050")

    assert refund(doors, payment)["status"] == "refunded"
    assert [item["amount"] for item in doors.stripe.refunds.values()] == [1050]
    doors.assert_paid(invoice)
    assert (doors.due_cents(), overpaid(doors)) == (0, [])
    assert doors.box.billing.audit().findings == ()
    assert refused(doors, payment) == (405, "nothing_to_refund")


def test_a_part_goes_back_as_often_as_there_is_more(doors: Doors) -> None:
    invoice = doors.invoice()
    doors.page(invoice)
    doors.notice(doors.stripe.page_paid(next(iter(doors.pages())), amount=2000))
    (payment,) = doors.payments()
    assert refused(doors, payment, amount_cents=951) == (422, {"amount_cents": ["value_is_out_of_range"]})
    assert refund(doors, payment, amount_cents=300)["status"] == "surplus_refunded"
    assert overpaid(doors) == [(invoice["svc_id"], 1700)]
    assert refused(doors, payment, amount_cents=651) == (422, {"amount_cents": ["value_is_out_of_range"]})
    doors.stripe.outcomes.append("pending")
    assert refund(doors, payment)["status"] == "surplus_refund_pending"
    # What is under way is not ordered twice.
    assert refused(doors, payment) == (405, "nothing_to_refund")
    doors.notice(doors.stripe.refund_event(list(doors.stripe.refunds)[-1], "succeeded"))
    doors.assert_paid(invoice)
    assert [item["amount"] for item in doors.stripe.refunds.values()] == [300, 650]
    assert doors.box.billing.audit().findings == ()


def test_what_is_due_does_not_go_back_without_a_credit_note(doors: Doors) -> None:
    invoice = doors.invoice()
    doors.page(invoice)
    doors.notice(doors.stripe.page_paid(next(iter(doors.pages()))))
    (payment,) = doors.payments()
    assert refused(doors, payment) == (405, "nothing_to_refund")
    doors.assert_paid(invoice)


def test_a_refund_that_failed_is_told_and_can_be_ordered_again(doors: Doors) -> None:
    invoice, payment = paid_twice(doors)
    doors.stripe.outcomes.append("not_refundable")
    assert refund(doors, payment)["status"] == "to_be_refunded"
    assert doors.sent("payment.refund_failure") == ["payment.refund_failure"]
    assert overpaid(doors) == [(invoice["svc_id"], 2100)]
    assert refund(doors, payment)["status"] == "refunded"
    assert overpaid(doors) == []
    assert len(doors.stripe.refunds) == 1


def test_what_a_provider_cannot_refund_is_given_back_by_hand(box: Scenario) -> None:
    cashfree = CashfreeServer(now=lambda: box.now)
    with living(box, cashfree, "INR") as life:
        invoice = life.invoice()
        life.page(invoice)
        (link,) = cashfree.links
        life.notice(cashfree.link_event(link, paid="20.00"))
        (payment,) = life.payments()
        assert refused(life, payment) == (405, "feature_not_supported")
        assert refund(life, payment, by_hand=True)["status"] == "surplus_refunded"
        life.assert_paid(invoice)
        assert box.billing.audit().findings == ()


def test_the_part_of_a_request_that_nobody_owed_goes_back(doors: Doors) -> None:
    first, second = doors.invoice(), doors.invoice()
    doors.box.travel_to("2024-03-07T12:00:00Z")
    session = doors.request_page(first, second)
    doors.notice(doors.stripe.page_paid(session, amount=2500))
    (payment,) = (item for item in doors.payments() if item["payment_status"] == "succeeded")
    assert overpaid(doors) == [(second["svc_id"], 1450)]
    assert refund(doors, payment)["status"] == "surplus_refunded"
    assert (overpaid(doors), doors.due_cents()) == ([], 0)
    assert [item["amount"] for item in doors.stripe.refunds.values()] == [400]
    assert doors.box.billing.audit().findings == ()


def paid_in_parts(doors: Doors) -> Any:
    """An invoice that was paid on two pages, 400 and then 650 cents."""
    invoice = doors.invoice()
    for cents in (400, 650):
        doors.page(invoice)
        doors.notice(doors.stripe.page_paid(list(doors.pages())[-1], amount=cents))
        doors.box.travel_to("2024-03-05T12:01:00Z")
    doors.assert_paid(invoice)
    return invoice


def test_a_refund_larger_than_the_newest_payment_is_spread_over_payments(doors: Doors) -> None:
    invoice = paid_in_parts(doors)
    note = doors.credit_note(invoice, 1000)
    assert note["refund_status"] == "succeeded"
    assert [item["amount"] for item in doors.stripe.refunds.values()] == [650, 350]
    assert doors.box.billing.audit().findings == ()


def test_the_part_of_a_note_s_refund_that_failed_is_ordered_again(doors: Doors) -> None:
    invoice = paid_in_parts(doors)
    doors.stripe.outcomes.extend(["succeeded", "not_refundable"])
    note = doors.credit_note(invoice, 1050)
    assert note["refund_status"] == "failed"
    doors._ask("POST", f"/credit_notes/{note['svc_id']}/retry_refund")
    doors.box.run_due()
    assert doors.refund_status(note)["refund_status"] == "succeeded"
    assert [item["amount"] for item in doors.stripe.refunds.values()] == [650, 400]
    status, answer = doors.box.request("POST", f"/api/v1/credit_notes/{note['svc_id']}/retry_refund")
    assert (status, answer["code"]) == (405, "no_refund_to_retry")
    assert doors.box.billing.audit().findings == ()


def test_a_late_payment_of_a_void_goes_back_once_it_can(doors: Doors) -> None:
    invoice = doors.invoice()
    doors.page(invoice)
    doors.void(invoice)
    doors.stripe.outcomes.append("not_refundable")
    doors.notice(doors.stripe.page_paid(next(iter(doors.pages()))))
    (payment,) = doors.payments()
    assert payment["status"] == "to_be_refunded"
    assert refund(doors, payment)["status"] == "refunded"
    assert doors.reread(invoice)["total_paid_amount_cents"] == 0
    assert doors.box.billing.audit().findings == ()


# What providers say of refunds


def test_a_notice_that_overtakes_the_answer_is_about_our_refund(doors: Doors) -> None:
    _, payment = paid_twice(doors)
    doors.stripe.befall(Fault.LOST, Fault.LOST, only="POST /v1/refunds")
    assert refund(doors, payment)["status"] == "refund_pending"
    (id,) = doors.stripe.refunds
    doors.notice(doors.stripe.refund_event(id, "succeeded"))
    assert status_of(doors, payment) == "refunded"
    doors.box.travel_to("2024-03-05T13:00:00Z")
    assert (status_of(doors, payment), len(doors.stripe.refunds)) == ("refunded", 1)


def test_a_notice_about_a_note_s_refund_that_overtakes_the_answer(box: Scenario) -> None:
    gocardless = GoCardlessServer(now=lambda: box.now)
    with living(box, gocardless, "GBP") as life:
        life.notice(gocardless.mandate_signed(next(iter(gocardless.customers)), "MD1"))
        invoice = life.invoice()
        (debit,) = gocardless.payments
        life.notice(gocardless.payment_event(debit, "paid_out"))
        gocardless.befall(Fault.LOST, Fault.LOST, only="POST /refunds")
        note = life.credit_note(invoice, 400)
        (id,) = gocardless.refunds
        about = {"resource_metadata": gocardless.refunds[id]["metadata"]}
        life.notice(gocardless.batch(gocardless.event("refunds", "paid", {"refund": id}, **about)))
        assert life.refund_status(note)["refund_status"] == "succeeded"
        box.travel_to("2024-03-05T13:00:00Z")
        assert (life.refund_status(note)["refund_status"], len(gocardless.refunds)) == ("succeeded", 1)


def test_a_refund_whose_money_came_back_has_failed(doors: Doors) -> None:
    invoice, payment = paid_twice(doors)
    assert refund(doors, payment)["status"] == "refunded"
    (id,) = doors.stripe.refunds
    late = doors.stripe.refund_event(id, "succeeded")
    doors.notice(doors.stripe.refund_event(id, "failed"))
    assert status_of(doors, payment) == "to_be_refunded"
    assert overpaid(doors) == [(invoice["svc_id"], 2100)]
    # An older notice comes late.
    doors.notice(late)
    assert status_of(doors, payment) == "to_be_refunded"
    assert doors.sent("payment.refund_failure", "invoice.overpaid") == [
        "invoice.overpaid",
        "payment.refund_failure",
        "invoice.overpaid",
    ]


def test_the_refund_of_a_note_whose_money_came_back_has_failed(doors: Doors) -> None:
    invoice = paid_in_parts(doors)
    note = doors.credit_note(invoice, 600)
    assert note["refund_status"] == "succeeded"
    (id,) = doors.stripe.refunds
    doors.notice(doors.stripe.refund_event(id, "failed"))
    assert doors.refund_status(note)["refund_status"] == "failed"
    assert doors.sent("credit_note.provider_refund_failure") == ["credit_note.provider_refund_failure"]


# What is refused


def test_money_that_the_bank_took_back_is_not_refunded(doors: Doors) -> None:
    invoice = paid_in_parts(doors)
    doors._ask("POST", f"/invoices/{invoice['svc_id']}/lose_dispute")
    items = [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 400}]
    note = {"invoice_id": invoice["svc_id"], "reason": "other", "items": items}
    sent = {"credit_note": {**note, "refund_amount_cents": 400}}
    status, answer = doors.box.request("POST", "/api/v1/credit_notes", json=sent)
    assert (status, answer["error_details"]) == (422, {"refund_amount_cents": ["dispute_lost"]})
    assert "the customer's bank has taken the money back" in answer["message"]
    estimate = doors._ask(
        "POST", "/credit_notes/estimate", credit_note={"invoice_id": invoice["svc_id"], "items": items}
    )
    assert estimate["estimated_credit_note"]["max_refundable_amount_cents"] == 0
    # Nor with a void.
    path, asked = f"/api/v1/invoices/{invoice['svc_id']}/void", {"generate_credit_note": True, "refund_amount": 400}
    status, answer = doors.box.request("POST", path, json=asked)
    assert (status, answer["error_details"]) == (422, {"refund_amount": ["dispute_lost"]})
    assert doors.reread(invoice)["status"] == "finalized"


def test_a_payment_that_came_twice_and_was_disputed_is_not_given_back_as_well(doors: Doors) -> None:
    invoice = doors.invoice()
    doors.page(invoice)
    session = next(iter(doors.pages()))
    doors.notice(doors.stripe.page_paid(session, amount=1350))
    (payment,) = doors.payments()
    doors.notice(doors.stripe.dispute_closed(payment["provider_payment_id"]))
    status, answer = doors.box.request("POST", f"/api/v1/payments/{payment['svc_id']}/refund")
    assert (status, answer["error_details"]) == (422, {"base": ["dispute_lost"]})
    assert doors.stripe.refunds == {}


def test_a_surplus_goes_back_after_a_dispute_was_won(doors: Doors) -> None:
    invoice = doors.invoice()
    doors.page(invoice)
    doors.notice(doors.stripe.page_paid(next(iter(doors.pages())), amount=1350))
    (payment,) = doors.payments()
    charge = payment["provider_payment_id"]
    doors.notice(doors.stripe.dispute_closed(charge))
    doors.notice(doors.stripe.dispute_event("funds_reinstated", charge, "won"))
    doors._ask("POST", f"/payments/{payment['svc_id']}/refund")
    doors.box.run_due()
    assert [refund["amount"] for refund in doors.stripe.refunds.values()] == [300]
    assert doors.payments()[0]["status"] == "dispute_won"
    assert doors.box.billing.audit().findings == ()


def test_a_payment_of_which_nothing_is_too_much_is_not_refunded(doors: Doors) -> None:
    invoice = paid_in_parts(doors)
    (payment, *_) = doors.payments()
    status, answer = doors.box.request("POST", f"/api/v1/payments/{payment['svc_id']}/refund")
    assert (status, answer["code"]) == (405, "nothing_to_refund")
    assert "(it is" not in answer["message"]
    assert doors.reread(invoice)["payment_status"] == "succeeded"


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("paid_at", "2024-03-05T12:00:01Z", "date_in_the_future"),
        ("amount_currency", "USD", "currencies_does_not_match"),
        ("currency", "USD", "currencies_does_not_match"),
    ],
)
def test_a_payment_by_hand_that_cannot_be_is_refused(doors: Doors, field: str, value: str, code: str) -> None:
    invoice = doors.invoice()
    payment = {"invoice_id": invoice["svc_id"], "amount_cents": 1050, "reference": "bank"}
    sent = {"payment": {**payment, field: value}}
    status, answer = doors.box.request("POST", "/api/v1/payments", json=sent)
    assert (status, answer["error_details"]) == (422, {field: [code]})
    assert doors.due_cents() == 1050
    right = {"paid_at": "2024-03-05T12:00:00Z", "amount_currency": "EUR", "currency": "EUR"}
    doors._ask("POST", "/payments", payment={**payment, **right})
    doors.assert_paid(invoice)


def test_a_part_of_a_refund_that_was_paid_back_is_in_the_books_before_the_rest(doors: Doors) -> None:
    invoice = paid_in_parts(doors)
    doors.stripe.outcomes.extend(["succeeded", "not_refundable"])
    doors.credit_note(invoice, 1050)
    assert [item["amount"] for item in doors.stripe.refunds.values()] == [650]
    movements = doors._ask("GET", "/ledger?per_page=100")["movements"]
    assert sum(row["amount_cents"] for row in movements if row["account"] == "cash") == 400
    assert doors.box.billing.audit().findings == ()
