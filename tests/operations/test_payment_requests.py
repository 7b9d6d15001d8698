"""Payment requests: what may be asked for together, what it comes to, and who is written to about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.examples import mostly_slow
from tests.scenarios import Scenario

from usagebill.core.contacts import LOCALES
from usagebill.core.documents.words import words_of
from usagebill.operations.payment_requests import PaymentRequestInput, create
from usagebill.operations.payments import PaymentInput, create as record_payment
from usagebill.process.settings import Settings
from usagebill.runtime.work import Work


@pytest.fixture
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-01T00:00:00Z", settings=Settings(public_url="https://billing.example")) as box:
        box.entity(name="Lumen", email="billing@lumen.example")
        box.customer(name="Acme", email="anna@acme.example, bob@acme.example", net_payment_term=2)
        box.add_on("setup", 100)
        yield box


def one_off(box: Scenario, units: int = 1, customer: str = "acme", **fields: Any) -> Any:
    fees = [{"add_on_code": "setup", "units": units}]
    return box.post("/invoices", invoice={"external_customer_id": customer, "fees": fees, **fields})["invoice"]


def ask(box: Scenario, *invoices: Any, status: int = 200, **fields: Any) -> Any:
    ids = [invoice["svc_id"] for invoice in invoices]
    body = {"external_customer_id": "acme", "svc_invoice_ids": ids, **fields}
    answer = box.post("/payment_requests", payment_request=body, status=status)
    return answer["payment_request"] if status == 200 else answer


def pay(box: Scenario, invoice: Any, cents: int, status: int = 200) -> Any:
    payment = {"invoice_id": invoice["svc_id"], "amount_cents": cents, "reference": "transfer"}
    return box.post("/payments", payment=payment, status=status)


def requests(box: Scenario, query: str = "") -> list[Any]:
    return list(box.get(f"/payment_requests{query}")["payment_requests"])


# Made


def test_a_request_asks_for_what_is_left_of_each_invoice(box: Scenario) -> None:
    first, second = one_off(box, 200), one_off(box, 500)
    pay(box, first, 10_000)
    items = [{"fee_id": second["fees"][0]["svc_id"], "amount_cents": 7_500}]
    note = {"invoice_id": second["svc_id"], "offset_amount_cents": 5_000, "credit_amount_cents": 2_500}
    box.post("/credit_notes", credit_note={**note, "items": items})
    box.travel_to("2024-03-04T01:00:00Z")
    made = ask(box, first, second)
    left = [200 * 100 - 10_000, 500 * 100 - 5_000]
    assert (made["amount_cents"], made["amount_currency"], made["payment_status"]) == (sum(left), "EUR", "pending")
    assert made["email"] == "anna@acme.example, bob@acme.example"
    assert [invoice["total_due_amount_cents"] for invoice in made["invoices"]] == left
    (message,) = [message for message in box.webhooks if message["webhook_type"] == "payment_request.created"]
    assert message["payment_request"] == made


def test_a_request_alone_is_read_as_its_fields_and_under_its_name(box: Scenario) -> None:
    invoice = one_off(box)
    box.travel_to("2024-03-04T01:00:00Z")
    made = ask(box, invoice)
    assert box.get(f"/payment_requests/{made['svc_id']}") == {**made, "payment_request": made}
    missing = box.get("/payment_requests/7b199d93-2663-4e68-beca-203aefcd019b", status=404)
    assert missing["code"] == "payment_request_not_found"


def test_what_became_overdue_while_no_worker_ran_can_be_asked_for(box: Scenario) -> None:
    invoice = one_off(box)
    box.jump_to("2024-03-09T00:00:00Z")
    assert ask(box, invoice)["amount_cents"] == 100


def test_invoices_that_cannot_be_asked_for_together(box: Scenario) -> None:
    euros = one_off(box)
    box.post("/billing_entities", billing_entity={"name": "Other", "code": "other"})
    of_other = one_off(box, billing_entity_code="other")
    voided = one_off(box)
    box.travel_to("2024-03-04T01:00:00Z")
    box.post(f"/invoices/{voided['svc_id']}/void")
    assert ask(box, euros, of_other, status=405)["code"] == "invoices_have_different_billing_entities"
    assert ask(box, euros, voided, status=405)["code"] == "invoices_not_overdue"
    assert ask(box, euros, one_off(box), status=405)["code"] == "invoices_not_overdue"
    assert ask(box, euros, email="nobody", status=422)["error_details"] == {"email": ["invalid_email_format"]}
    assert requests(box) == []
    assert box.emails == []


def test_an_invoice_listed_twice_is_asked_for_once(box: Scenario) -> None:
    invoice = one_off(box)
    box.travel_to("2024-03-04T01:00:00Z")
    made = ask(box, invoice, invoice)
    assert (made["amount_cents"], len(made["invoices"])) == (100, 1)


def test_the_invoices_of_others_are_left_out(box: Scenario) -> None:
    box.customer("other")
    mine, theirs = one_off(box), one_off(box, customer="other")
    box.travel_to("2024-03-04T01:00:00Z")
    assert [invoice["svc_id"] for invoice in ask(box, mine, theirs)["invoices"]] == [mine["svc_id"]]
    assert ask(box, theirs, status=404)["code"] == "invoice_not_found"
    assert ask(box, mine, external_customer_id="nobody", status=404)["code"] == "customer_not_found"
    assert ask(box, mine, external_customer_id=None, status=404)["code"] == "customer_not_found"


# Listed


def test_requests_are_listed_by_customer_status_currency_and_billing_entity(box: Scenario) -> None:
    box.customer("other", net_payment_term=2)
    mine, theirs = one_off(box), one_off(box, customer="other")
    box.travel_to("2024-03-04T01:00:00Z")
    first = ask(box, mine)["svc_id"]
    second = ask(box, theirs, external_customer_id="other")["svc_id"]
    refusals = {
        query: {request["svc_id"] for request in requests(box, f"?{query}")}
        for query in (
            "external_customer_id=acme",
            "external_customer_id=nobody",
            "payment_status=pending",
            "payment_status=succeeded",
            "currency=EUR",
            "currency=USD",
            "billing_entity_codes[]=default",
        )
    }
    assert refusals == {
        "external_customer_id=acme": {first},
        "external_customer_id=nobody": set(),
        "payment_status=pending": {first, second},
        "payment_status=succeeded": set(),
        "currency=EUR": {first, second},
        "currency=USD": set(),
        "billing_entity_codes[]=default": {first, second},
    }
    of_customer = box.get("/customers/other/payment_requests")["payment_requests"]
    assert [request["svc_id"] for request in of_customer] == [second]
    assert box.get("/customers/nobody/payment_requests", status=404)["code"] == "customer_not_found"
    assert box.get("/payment_requests?billing_entity_codes[]=no", status=404)["code"] == "billing_entity_not_found"
    assert box.get("/payment_requests?payment_status=lost", status=422)["error_details"]


# Sent


def test_the_customer_is_written_to(box: Scenario) -> None:
    first, second = one_off(box), one_off(box, 1234)
    box.billing.invoices.pdf(first["svc_id"])
    url = box.invoice(first["svc_id"])["file_url"]
    box.travel_to("2024-03-04T01:00:00Z")
    ask(box, first, second)
    (email,) = box.emails
    assert email.subject == "Your overdue balance from Lumen"
    assert (email.to, email.bcc) == (("anna@acme.example", "bob@acme.example"), ())
    assert (email.sender, email.reply_to) == ("billing@lumen.example", ("billing@lumen.example",))
    assert email.attachments == ()
    for passage in (
        "Hello Acme,",
        "within 2 days",
        "Amount due: €1,235.00",
        f"- {first['number']}: €1.00 {url}",
        f"- {second['number']}: €1,234.00",
    ):
        assert passage in email.text
    assert f'<a href="{url}">{first["number"]}</a>' in email.html


@pytest.mark.parametrize(("days", "terms"), [(0, "due on receipt"), (1, "within 1 day "), (30, "within 30 days")])
def test_the_terms_are_those_of_the_invoices(box: Scenario, days: int, terms: str) -> None:
    box.customer(net_payment_term=days)
    invoice = one_off(box)
    box.customer(net_payment_term=7)
    box.travel_to("2024-04-10T00:00:00Z")
    ask(box, invoice)
    assert terms in box.emails[-1].text


@pytest.mark.parametrize("locale", mostly_slow(LOCALES, "fr", "zh-TW"))
def test_the_letter_is_in_the_language_of_the_customer(box: Scenario, locale: str) -> None:
    box.customer(name="<b>東京 & Söhne</b>", billing_configuration={"document_locale": locale})
    invoice = one_off(box)
    box.travel_to("2024-03-04T01:00:00Z")
    ask(box, invoice)
    (email,) = box.emails
    words = words_of(locale)
    assert email.language == locale
    assert email.subject == words.overdue_email.format(entity="Lumen")
    for passage in (words.overdue_invoices, words.amount_due, words.ignore_if_paid, "<b>東京 & Söhne</b>"):
        assert passage in email.text
    assert "<b>東京" not in email.html
    assert words.pay_now not in email.text


@pytest.mark.parametrize("who", ["customer", "entity"])
def test_nobody_is_written_to_without_an_address_of_both(box: Scenario, who: str) -> None:
    if who == "customer":
        box.customer(email=None)
    else:
        box.entity(email=None)
    invoice = one_off(box)
    box.travel_to("2024-03-04T01:00:00Z")
    made = ask(box, invoice)
    assert (made["email"] is None) == (who == "customer")
    assert box.emails == []


def test_whoever_paid_before_the_letter_went_out_is_not_written_to(box: Scenario) -> None:
    invoice = one_off(box)
    box.travel_to("2024-03-04T01:00:00Z")

    def ask_and_pay(work: Work) -> None:
        create(work, PaymentRequestInput(external_customer_id="acme", svc_invoice_ids=(invoice["svc_id"],)))
        record_payment(work, PaymentInput(invoice_id=invoice["svc_id"], amount_cents=100, reference="cash"))

    box.billing.writing(ask_and_pay)
    box.run_due()
    assert box.emails == []


# Paid by hand


def test_paying_the_invoices_by_hand_leaves_the_request_as_it_is(box: Scenario) -> None:
    invoice = one_off(box)
    box.travel_to("2024-03-04T01:00:00Z")
    made = ask(box, invoice)
    pay(box, invoice, 40)
    assert requests(box)[0]["amount_cents"] == 100
    assert ask(box, invoice)["amount_cents"] == 60
    pay(box, invoice, 60)
    shown = box.get(f"/payment_requests/{made['svc_id']}")
    assert (shown["payment_status"], shown["invoices"][0]["payment_status"]) == ("pending", "succeeded")
    assert ask(box, invoice, status=405)["code"] == "invoices_not_overdue"
