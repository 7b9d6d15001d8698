"""What is pushed to accounting systems and CRMs, when, and what becomes of what they do not take."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.books import Books, away, refused
from tests.scenarios import Scenario

from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.operations.invoices import one_off as one_off_invoices
from usagebill.operations.invoices.one_off import OneOffFeeInput, OneOffInput
from usagebill.runtime.work import Work


@pytest.fixture
def books() -> Books:
    return Books()


@pytest.fixture
def box(books: Books) -> Iterator[Scenario]:
    with Scenario(now="2024-03-01T12:00:00Z", bridge=books) as box:
        for kind, code in (("netsuite", "books"), ("hubspot", "crm")):
            box.billing.sync_connections.create(kind=kind, code=code, url=f"https://bridge.example/{code}")
        box.add_on("setup", 500)
        yield box


def link(code: str = "books", **fields: object) -> dict[str, object]:
    kind = {"books": "netsuite", "crm": "hubspot"}[code]
    return {"integration_type": kind, "integration_code": code, "sync_with_provider": True, **fields}


def later(box: Scenario, wait: timedelta) -> None:
    box.travel_to(box.clock.now() + wait)


def link_acme(box: Scenario, *links: dict[str, object], **fields: Any) -> Any:
    return box.customer(integration_customers=list(links or [link()]), **fields)


def one_off(box: Scenario) -> Any:
    fees = [{"add_on_code": "setup"}]
    return box.post("/invoices", invoice={"external_customer_id": "acme", "currency": "EUR", "fees": fees})["invoice"]


def documents(box: Scenario, **filters: Any) -> dict[str, str]:
    """Subject -> status."""
    listed = box.billing.synced_documents.list(**filters).items
    return {document.subject.value: document.status.value for document in listed}


def messages(box: Scenario, webhook_type: str) -> list[Any]:
    return [message for message in box.webhooks if message["webhook_type"] == webhook_type]


def pay(box: Scenario, invoice: Any, cents: int | None = None) -> Any:
    body = {"invoice_id": invoice["svc_id"], "amount_cents": cents or invoice["total_amount_cents"], "reference": "r"}
    return box.post("/payments", payment=body)["payment"]


def credit(box: Scenario, invoice: Any) -> Any:
    shown = box.get(f"/invoices/{invoice['svc_id']}")["invoice"]
    items = [{"fee_id": shown["fees"][0]["svc_id"], "amount_cents": 100}]
    note = {"invoice_id": invoice["svc_id"], "credit_amount_cents": 100, "items": items}
    return box.post("/credit_notes", credit_note=note)["credit_note"]


def test_a_linked_customer_is_pushed_and_known_by_what_it_is_called_there(box: Scenario, books: Books) -> None:
    link_acme(box, link(subsidiary_id="7"))
    (body,) = books.bodies("customer")
    assert body["connection"] == {"type": "netsuite", "code": "books"}
    assert (body["customer"]["external_id"], body["subsidiary_id"], body["version"]) == ("acme", "7", 1)
    (shown,) = box.get("/customers/acme")["customer"]["integration_customers"]
    assert shown["external_customer_id"].startswith("books-customer-")
    assert (shown["category"], shown["is_default"], shown["subsidiary_id"]) == ("accounting", True, "7")
    (created,) = messages(box, "customer.accounting_provider_created")
    assert created["customer"]["integration_customers"] == [shown]


def test_a_customer_that_is_known_there_is_not_pushed(box: Scenario, books: Books) -> None:
    link_acme(box, link(sync_with_provider=False, external_customer_id="ns-1"))
    invoice = one_off(box)
    assert books.subjects() == ["invoice"]
    (body,) = books.bodies("invoice")
    assert body["external_customer_id"] == "ns-1"
    assert body["invoice"]["number"] == invoice["number"]


def test_a_customer_is_pushed_again_once_it_has_changed(box: Scenario, books: Books) -> None:
    shown = link_acme(box)["integration_customers"][0]
    box.customer(integration_customers=[{"id": shown["svc_id"]}])
    assert len(books.bodies("customer")) == 1
    box.customer(name="Acme Ltd")
    first, second = books.bodies("customer")
    assert (second["customer"]["name"], second["version"]) == ("Acme Ltd", 2)
    assert second["svc_document_id"] == first["svc_document_id"]
    assert len(messages(box, "customer.accounting_provider_created")) == 1


@pytest.mark.parametrize(
    ("customer_type", "sent", "target", "email"),
    [
        ("individual", None, "contacts", "anna@acme.example"),
        ("company", None, "companies", None),
        (None, None, "companies", None),
        ("company", "contacts", "contacts", "anna@acme.example"),
    ],
)
def test_what_hubspot_keeps_a_customer_as(
    box: Scenario, customer_type: str | None, sent: str | None, target: str, email: str | None
) -> None:
    fields = {"customer_type": customer_type, "email": "anna@acme.example"}
    (shown,) = link_acme(box, link("crm", targeted_object=sent), **fields)["integration_customers"]
    assert (shown["targeted_object"], shown.get("email"), shown["category"]) == (target, email, "crm")
    assert len(messages(box, "customer.crm_provider_created")) == 1


def test_an_invoice_its_credit_note_and_its_payment_are_pushed_once(box: Scenario, books: Books) -> None:
    link_acme(box)
    invoice = one_off(box)
    note = credit(box, invoice)
    pay(box, invoice)
    assert books.subjects() == ["customer", "invoice", "credit_note", "payment"]
    kept = box.billing.synced_documents.list(subject="invoice").items[0]
    (pushed,) = books.bodies("credit_note")
    assert (pushed["credit_note"]["number"], pushed["external_invoice_id"]) == (note["number"], kept.external_id)
    (pushed,) = books.bodies("payment")
    assert (pushed["payment"]["amount_cents"], pushed["external_invoice_id"]) == (500, kept.external_id)
    assert set(documents(box).values()) == {"synced"}


def test_a_crm_has_customers_and_invoices_as_they_are_now(box: Scenario, books: Books) -> None:
    link_acme(box, link("crm"))
    invoice = one_off(box)
    credit(box, invoice)
    pay(box, invoice)
    box.post(f"/invoices/{invoice['svc_id']}/lose_dispute")
    assert books.subjects("crm") == ["customer", "invoice", "invoice", "invoice"]
    pushed_invoices = [body["invoice"] for body in books.bodies("invoice", "crm")]
    assert [shown["payment_status"] for shown in pushed_invoices] == ["pending", "succeeded", "succeeded"]
    assert pushed_invoices[2]["payment_dispute_lost_at"] is not None


def test_a_void_is_pushed_to_accounting_too(box: Scenario, books: Books) -> None:
    link_acme(box)
    invoice = one_off(box)
    box.post(f"/invoices/{invoice['svc_id']}/void")
    first, second = books.bodies("invoice")
    assert (first["invoice"]["status"], second["invoice"]["status"], second["version"]) == ("finalized", "voided", 2)


def test_drafts_are_pushed_once_they_are_issued(box: Scenario, books: Books) -> None:
    box.plan(amount_cents=1000)
    link_acme(box, billing_configuration={"invoice_grace_period": 3})
    box.subscribe()
    box.travel_to("2024-04-01T02:00:00Z")
    assert "invoice" not in books.subjects()
    box.travel_to("2024-04-05T02:00:00Z")
    (body,) = books.bodies("invoice")
    assert body["invoice"]["status"] == "finalized"


def test_partners_are_pushed_nowhere(box: Scenario, books: Books) -> None:
    link_acme(box, account_type="partner")
    one_off(box)
    assert books.pushed == []


@pytest.mark.parametrize(
    ("switch", "left_out"),
    [("sync_invoices", "invoice"), ("sync_credit_notes", "credit_note"), ("sync_payments", "payment")],
)
def test_a_switch_leaves_documents_out(box: Scenario, books: Books, switch: str, left_out: str) -> None:
    off: dict[str, Any] = {switch: False}
    box.billing.sync_connections.update("books", **off)
    link_acme(box)
    invoice = one_off(box)
    credit(box, invoice)
    pay(box, invoice)
    assert left_out not in books.subjects()
    assert "customer" in books.subjects()


# What goes wrong


def test_a_refused_invoice_shows_why_and_is_otherwise_as_it_was(box: Scenario, books: Books) -> None:
    link_acme(box)
    books.failures = [refused()]
    invoice = one_off(box)
    shown = box.get(f"/invoices/{invoice['svc_id']}")["invoice"]
    assert (shown["status"], shown["number"]) == ("finalized", invoice["number"])
    (detail,) = shown["error_details"]
    assert detail["error_code"] == "not_provided"
    assert detail["details"] == {
        "accounting_error": "account_closed",
        "accounting_error_message": "the account is closed",
        "integration_type": "netsuite",
        "integration_code": "books",
    }
    (failed,) = messages(box, "customer.accounting_provider_error")
    assert failed["accounting_provider_customer_error"] == {
        "svc_customer_id": shown["customer"]["svc_id"],
        "external_customer_id": "acme",
        "accounting_provider": "netsuite",
        "accounting_provider_code": "books",
        "provider_error": {"message": "the account is closed", "error_code": "account_closed"},
    }
    (document,) = box.get("/synced_documents?status=failed")["synced_documents"]
    box.post(f"/synced_documents/{document['svc_id']}/resend")
    assert box.get(f"/invoices/{invoice['svc_id']}")["invoice"]["error_details"] == []
    assert set(documents(box).values()) == {"synced"}
    # A second try of the same state has the same key.
    assert [body["version"] for body in books.bodies("invoice")] == [1, 1]


def test_a_crm_that_refuses_is_reported_in_the_same_words(box: Scenario, books: Books) -> None:
    books.failures = [refused()]
    link_acme(box, link("crm"))
    (failed,) = messages(box, "customer.crm_provider_error")
    error = failed["crm_provider_customer_error"]
    assert (error["accounting_provider"], error["accounting_provider_code"]) == ("hubspot", "crm")
    (detail,) = box.get("/customers/acme")["customer"]["error_details"]
    assert (detail["error_code"], detail["details"]["crm_error"]) == ("not_provided", "account_closed")


def test_a_refused_customer_and_all_that_waits_for_it(box: Scenario, books: Books) -> None:
    books.failures = [away()]
    link_acme(box)
    invoice = one_off(box)
    pay(box, invoice)
    assert documents(box) == {"customer": "retrying", "invoice": "pending", "payment": "pending"}
    books.failures = [refused("no_such_subsidiary")]
    later(box, timedelta(seconds=15))
    assert set(documents(box).values()) == {"failed"}
    (detail,) = box.get("/customers/acme")["customer"]["error_details"]
    assert detail["details"]["accounting_error"] == "no_such_subsidiary"
    (detail,) = box.get(f"/invoices/{invoice['svc_id']}")["invoice"]["error_details"]
    assert detail["details"]["accounting_error"] == "customer_missing"
    assert len(messages(box, "customer.accounting_provider_error")) == 3
    (document,) = box.billing.synced_documents.list(subject="customer").items
    box.billing.synced_documents.resend(document.id)
    assert set(documents(box).values()) == {"synced"}
    assert books.subjects() == ["customer", "customer", "customer", "invoice", "payment"]
    assert box.get("/customers/acme")["customer"]["error_details"] == []


def test_pauses_grow_until_three_days_have_passed(box: Scenario, books: Books) -> None:
    books.failures = [away()] * 18
    link_acme(box)
    started = box.clock.now()
    for expected in (1, 2, 3):
        (document,) = box.billing.synced_documents.list().items
        assert (document.status, document.attempts, document.error_code) == ("retrying", expected, "network_error")
        later(box, timedelta(seconds=15 * 4 ** (expected - 1)))
    assert messages(box, "customer.accounting_provider_error") == []
    later(box, timedelta(days=3))
    assert documents(box) == {"customer": "failed"}
    assert len(books.pushed) == 18
    assert box.clock.now() - started < timedelta(days=3.1)
    assert len(messages(box, "customer.accounting_provider_error")) == 1


def test_a_payment_of_an_invoice_that_was_never_to_be_pushed_lacks_it(box: Scenario, books: Books) -> None:
    box.customer()
    invoice = one_off(box)
    link_acme(box)
    pay(box, invoice)
    (failed,) = box.billing.synced_documents.list(status="failed").items
    assert (failed.subject, failed.error_code) == ("payment", "invoice_missing")
    box.post(f"/invoices/{invoice['svc_id']}/sync")
    assert books.subjects() == ["customer", "invoice", "payment"]
    assert set(documents(box).values()) == {"synced"}


def test_an_invoice_from_before_the_link_is_pushed_when_asked_for(box: Scenario, books: Books) -> None:
    box.customer()
    invoice = one_off(box)
    credit(box, invoice)
    path = f"/invoices/{invoice['svc_id']}/sync"
    assert box.post(path, status=405)["code"] == "not_linked"
    link_acme(box, link(), link("crm"))
    assert box.post(path)["invoice"]["number"] == invoice["number"]
    assert books.subjects() == ["customer", "invoice", "credit_note"]
    assert books.subjects("crm") == ["customer", "invoice"]
    (resynced,) = messages(box, "invoice.resynced")
    assert resynced["invoice"]["svc_id"] == invoice["svc_id"]
    # Again, with a version of its own, so that whoever keeps each key once takes it.
    box.post(path)
    assert [body["version"] for body in books.bodies("invoice")] == [1, 2]
    assert len(books.bodies("credit_note")) == 1


def test_a_wrong_key_is_reported_once_for_the_connection(box: Scenario, books: Books) -> None:
    link_acme(box)
    books.failures = [refused("status_401", "who are you?")] * 2
    one_off(box)
    one_off(box)
    (failed,) = messages(box, "integration.provider_error")
    assert failed["provider_error"] == {
        "svc_integration_id": box.billing.sync_connections.get("books").id,
        "provider": "netsuite",
        "provider_code": "books",
        "provider_error": {"message": "who are you?", "error_code": "status_401"},
    }
    assert box.billing.synced_documents.resend_failed() == 2
    assert len(books.kept) == 3


def test_what_changes_while_it_is_pushed_is_pushed_again(box: Scenario, books: Books) -> None:
    link_acme(box, link("crm"))
    books.meanwhile = lambda: box.billing.payments.create(
        invoice_id=box.billing.invoices.list().items[0].id, amount_cents=500, reference="r"
    )
    one_off(box)
    pushed_versions = [(body["version"], body["invoice"]["payment_status"]) for body in books.bodies("invoice", "crm")]
    assert pushed_versions == [(1, "pending"), (2, "succeeded")]
    assert set(documents(box).values()) == {"synced"}


def test_what_is_rolled_back_is_pushed_nowhere(box: Scenario, books: Books) -> None:
    link_acme(box)
    before = len(books.pushed)

    def undone(work: Work) -> None:
        sent = OneOffInput(external_customer_id="acme", fees=(OneOffFeeInput(add_on_code="setup"),))
        one_off_invoices.create(work, sent)
        raise RuntimeError("nothing of this stays")

    with pytest.raises(RuntimeError):
        box.billing.writing(undone)
    later(box, timedelta(days=1))
    assert len(books.pushed) == before
    assert documents(box) == {"customer": "synced"}


def test_a_customer_who_is_not_linked_any_more_gets_nothing_pushed(box: Scenario, books: Books) -> None:
    link_acme(box)
    books.failures = [away()]
    one_off(box)
    box.customer(integration_customers=[])
    later(box, timedelta(minutes=1))
    (failed,) = box.billing.synced_documents.list(status="failed").items
    assert (failed.subject, failed.error_code, len(books.bodies("invoice"))) == ("invoice", "not_linked", 1)


def test_the_end_of_a_connection_gives_up_what_waits(box: Scenario, books: Books) -> None:
    link_acme(box)
    books.failures = [away()]
    one_off(box)
    box.billing.sync_connections.delete("books")
    later(box, timedelta(days=1))
    assert len(books.bodies("invoice")) == 1
    (failed,) = box.billing.synced_documents.list(status="failed").items
    assert failed.error_code == "connection_deleted"
    with pytest.raises(NotAllowed, match="connection_deleted"):
        box.billing.synced_documents.resend(failed.id)
    assert box.billing.synced_documents.resend_failed() == 0
    assert box.get("/customers/acme")["customer"]["integration_customers"] == []
    with pytest.raises(NotFound, match="sync_connection_not_found"):
        box.billing.sync_connections.get("books")


def test_taxes_are_the_organizations_own_with_accounting_alone(box: Scenario) -> None:
    box.tax("20")
    link_acme(box, link(), link("crm"))
    assert one_off(box)["taxes_amount_cents"] == 100


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({"kind": "anrok"}, {"kind": ["value_is_invalid"]}),
        ({"kind": "sap"}, {"kind": ["value_is_invalid"]}),
        ({"code": ""}, {"code": ["value_is_mandatory"], "name": ["value_is_mandatory"]}),
        ({"url": "https://user:secret@bridge.example"}, {"url": ["url_is_invalid"]}),
        ({"api_key": "secret\n"}, {"api_key": ["value_is_invalid"]}),
        ({"default_targeted_object": "deals"}, {"default_targeted_object": ["value_is_invalid"]}),
        ({"code": "books"}, {"code": ["value_already_exist"]}),
    ],
)
def test_connections_that_are_refused(box: Scenario, fields: dict[str, Any], problems: dict[str, Any]) -> None:
    sent = {"kind": "netsuite", "code": "second", "url": "https://bridge.example", **fields}
    with pytest.raises(Invalid) as refusal:
        box.billing.sync_connections.create(**sent)
    assert refusal.value.details == problems


def test_the_key_of_a_connection_is_shown_nowhere(box: Scenario) -> None:
    made = box.billing.sync_connections.update("books", api_key="secret-key", name="Ours")
    assert (made.api_key, made.name) == ("secret-key", "Ours")
    assert "secret-key" not in repr(made)
    assert box.billing.view(made)["has_api_key"] is True
    assert "secret-key" not in str(box.billing.view(made))
    logs = box.get("/security_logs?to_date=2100-01-01&log_types[]=integration")["security_logs"]
    assert sorted(log["log_event"] for log in logs) == [*["integration.created"] * 2, "integration.updated"]
    assert "secret-key" not in str(logs)
