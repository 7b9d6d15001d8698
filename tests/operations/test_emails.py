"""E-mails of invoices and credit notes: what is sent by itself, what is sent when asked for, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import Any

import pytest
from pypdf import PdfReader
from tests.examples import mostly_slow
from tests.registry import Registry, rate_limited
from tests.scenarios import Scenario, charge_on

from usagebill.core.contacts import LOCALES
from usagebill.core.documents.files import Document
from usagebill.core.emails import Email
from usagebill.core.errors import Invalid, NotFound
from usagebill.operations import api_keys
from usagebill.operations.emails.resending import ResendInput, resend_invoice
from usagebill.operations.invoices.lifecycle import InvoiceVoid, void
from usagebill.process.settings import Settings
from usagebill.runtime.work import Work

BOTH = ["invoice.finalized", "credit_note.created"]


@pytest.fixture
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-01T00:00:00Z", settings=Settings(public_url="https://billing.example")) as box:
        box.entity(name="Lumen", email="billing@lumen.example", email_settings=BOTH)
        customer(box)
        box.add_on("setup", 10_000)
        yield box


def customer(box: Scenario, **fields: Any) -> None:
    box.customer(**{"name": "Acme", "email": "anna@acme.example", **fields})


def one_off(box: Scenario, **fields: Any) -> Any:
    body = {"external_customer_id": "acme", "fees": [{"add_on_code": "setup", **fields}]}
    return box.post("/invoices", invoice=body)["invoice"]


def credit_note(box: Scenario, invoice: Any, cents: int = 4000, **parts: int) -> Any:
    items = [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": cents}]
    body = {"invoice_id": invoice["svc_id"], "items": items, **(parts or {"credit_amount_cents": cents})}
    return box.post("/credit_notes", credit_note=body)["credit_note"]


def subjects(box: Scenario) -> list[str]:
    return [email.subject for email in box.emails]


def of(*invoices: Any) -> list[str]:
    return [f"Your Invoice from Lumen #{invoice['number']}" for invoice in invoices]


def of_notes(*notes: Any) -> list[str]:
    return [f"Your credit note from Lumen #{note['number']}" for note in notes]


def pdf_text(email: Email) -> str:
    (file,) = email.attachments
    return " ".join(" ".join(page.extract_text() for page in PdfReader(BytesIO(file.content)).pages).split())


# What is sent


def test_an_invoice_goes_to_its_customer_when_it_is_finalized(box: Scenario) -> None:
    customer(box, email="anna@acme.example, bob@acme.example")
    box.entity(email="billing@lumen.example,books@lumen.example")
    invoice = one_off(box)
    (email,) = box.emails
    assert subjects(box) == of(invoice)
    assert (email.sender_name, email.sender) == ("Lumen", "billing@lumen.example")
    assert email.reply_to == ("billing@lumen.example", "books@lumen.example")
    assert (email.to, email.cc, email.bcc) == (("anna@acme.example", "bob@acme.example"), (), ())
    assert email.sent_at == box.now
    (sent,) = box.get("/activity_logs?activity_types[]=email.sent")["activity_logs"]
    assert (sent["resource_type"], sent["resource_id"]) == ("Invoice", invoice["svc_id"])
    assert (sent["external_customer_id"], sent["activity_object"]["number"]) == ("acme", invoice["number"])
    url = box.invoice(invoice["svc_id"])["file_url"]
    assert url.startswith("https://billing.example/documents/")
    for passage in ("Total: €100.00", f"Invoice number: {invoice['number']}", "Issue date: Mar 1, 2024", url):
        assert passage in email.text
    for passage in ("€100.00", invoice["number"], "Mar 1, 2024", f'href="{url}"'):
        assert passage in email.html
    (file,) = email.attachments
    assert (file.name, file.content_type) == (f"invoice-{invoice['number']}.pdf", "application/pdf")
    assert file.content == box.billing.invoices.pdf(invoice["svc_id"])
    assert f"Invoice number {invoice['number']}" in pdf_text(email)


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("credit_amount_cents", "Credited on customer balance on Mar 1, 2024"),
        ("offset_amount_cents", "Offset on invoice {number} on Mar 1, 2024"),
        ("refund_amount_cents", "Refunded on Mar 1, 2024"),
    ],
)
def test_a_credit_note_says_how_it_was_given(box: Scenario, part: str, line: str) -> None:
    invoice = one_off(box)
    if part == "refund_amount_cents":
        box.post("/payments", payment={"invoice_id": invoice["svc_id"], "amount_cents": 10_000, "reference": "r"})
    note = credit_note(box, invoice, 4000, **{part: 4000})
    email = box.emails[-1]
    assert subjects(box) == of(invoice) + of_notes(note)
    for passage in (
        "Total: €40.00",
        f"Credit note number: {note['number']}",
        f"Invoice number: {invoice['number']}",
        "Issue date: Mar 1, 2024",
        line.format(number=invoice["number"]),
        box.get(f"/credit_notes/{note['svc_id']}")["credit_note"]["file_url"],
    ):
        assert passage in email.text
    (file,) = email.attachments
    assert file.name == f"credit_note-{note['number']}.pdf"
    assert file.content == box.billing.credit_notes.pdf(note["svc_id"])


@pytest.mark.parametrize("locale", mostly_slow(LOCALES, "fr", "zh-TW"))
def test_emails_are_in_the_language_of_the_document(box: Scenario, locale: str) -> None:
    customer(box, billing_configuration={"document_locale": locale})
    invoice = one_off(box)
    credit_note(box, invoice)
    assert [email.language for email in box.emails] == [locale, locale]
    assert all("Lumen" in email.subject for email in box.emails)
    assert len(set(subjects(box))) == 2
    if locale != "en":
        assert all("Your" not in email.subject for email in box.emails)
    amount = {"fr": "100,00 €", "de": "100,00 €", "pt-BR": "€ 100,00"}.get(locale)
    if amount:
        assert amount in box.emails[0].text


def test_a_document_is_made_once_for_all_emails(box: Scenario) -> None:
    invoice = one_off(box)
    box.entity(name="Renamed", legal_name="Renamed Ltd")
    box.post(f"/invoices/{invoice['svc_id']}/resend_email")
    first, second = box.emails
    assert first.attachments == second.attachments
    assert box.billing.reading(lambda work: work.tx.count(Document)) == 1
    generated = [message for message in box.webhooks if message["webhook_type"] == "invoice.generated"]
    assert len(generated) == 1
    # The letter is of today, the document of then.
    assert (second.sender_name, second.subject) == ("Renamed", f"Your Invoice from Renamed #{invoice['number']}")
    assert "Renamed" not in pdf_text(second)


def test_documents_made_at_once_are_those_that_are_sent() -> None:
    with Scenario(now="2024-03-01T00:00:00Z", settings=Settings(documents="at_once")) as box:
        box.entity(email="billing@lumen.example", email_settings=BOTH)
        customer(box)
        box.add_on("setup", 1)
        one_off(box)
        assert len(box.emails) == 1
        assert box.billing.reading(lambda work: work.tx.count(Document)) == 1


def test_names_with_line_breaks_make_no_headers(box: Scenario) -> None:
    box.entity(name="Lumen\r\nBcc: eve@evil.example")
    one_off(box)
    (email,) = box.emails
    assert email.sender_name == "Lumen Bcc: eve@evil.example"
    assert "\n" not in email.subject


# When it is sent by itself


def test_a_billing_run_sends_what_it_bills(box: Scenario) -> None:
    box.plan(amount_cents=3100)
    box.subscribe()
    box.travel_to("2024-05-01T01:00:00Z")
    assert subjects(box) == of(*box.invoices())
    assert len(box.emails) == 2
    assert [email.sent_at.isoformat() for email in box.emails] == [
        "2024-04-01T00:10:00+00:00",
        "2024-05-01T00:10:00+00:00",
    ]


def test_what_is_billed_late_is_dated_when_it_is_sent(box: Scenario) -> None:
    box.plan(amount_cents=3100)
    box.subscribe()
    box.jump_to("2024-04-07T00:00:00Z")
    box.run_due()
    (email,) = box.emails
    assert "Apr 1, 2024" in email.text
    assert email.sent_at == box.now


def test_a_draft_is_sent_when_it_is_finalized(box: Scenario) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    box.subscribe(external_id="other")
    first, second = box.invoices()
    assert (first["status"], box.emails) == ("draft", [])
    box.put(f"/invoices/{first['svc_id']}/finalize")
    assert len(box.emails) == 1
    box.travel_to("2024-03-05T00:00:00Z")
    assert sorted(subjects(box)) == sorted(of(*box.invoices()))
    assert len(box.emails) == 2
    assert second["status"] == "draft"


def test_the_credit_note_of_a_draft_is_sent_with_it(box: Scenario) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    (draft,) = box.invoices()
    credit_note(box, draft, 1000)
    assert box.emails == []
    box.put(f"/invoices/{draft['svc_id']}/finalize")
    (invoice,) = box.invoices()
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert subjects(box) == of(invoice) + of_notes(note)


def test_the_end_of_a_subscription_sends_its_credit_note(box: Scenario) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    box.travel_to("2024-03-16T00:00:00Z")
    box.delete("/subscriptions/sub")
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert of_notes(note)[0] in subjects(box)


def test_usage_paid_in_advance_and_thresholds_that_are_passed(box: Scenario) -> None:
    box.customer()
    box.plan(
        charge_on(box.metric("calls", "count_agg"), amount="1", pay_in_advance=True),
        charge_on(box.metric("gb"), amount="1"),
        usage_thresholds=[{"amount_cents": 1000}],
    )
    box.subscribe()
    box.event("calls")
    assert len(box.emails) == 1
    box.event("gb", value=12)
    assert subjects(box) == of(*box.invoices())
    assert box.invoices()[-1]["invoice_type"] == "progressive_billing"


def test_what_was_paid_already_is_not_sent(box: Scenario) -> None:
    box.customer()
    box.plan(
        charge_on(
            box.metric("seats", "unique_count_agg"),
            amount="1",
            pay_in_advance=True,
            invoiceable=False,
            regroup_paid_fees="invoice",
        )
    )
    box.subscribe()
    box.event("seats", value="a")
    (fee,) = box.get("/fees?fee_type=charge")["fees"]
    box.put(f"/fees/{fee['svc_id']}", fee={"payment_status": "succeeded"})
    box.travel_to("2024-04-01T12:00:00Z")
    invoices = {invoice["invoice_type"]: invoice for invoice in box.invoices()}
    assert invoices["advance_charges"]["fees_amount_cents"] == 100
    assert box.emails == []
    # Whoever asks for it gets it.
    box.post(f"/invoices/{invoices['advance_charges']['svc_id']}/resend_email")
    assert subjects(box) == of(invoices["advance_charges"])


def test_an_invoice_that_waits_for_taxes_is_sent_once_it_has_them() -> None:
    registry = Registry()
    registry.answers = [rate_limited()]
    with Scenario(now="2024-03-01T12:00:00Z", vat_registry=registry) as box:
        box.entity(name="Lumen", email="b@lumen.example", email_settings=BOTH, country="FR", eu_tax_management=True)
        customer(box, country="IT", tax_identification_number="IT12345678901")
        box.plan(amount_cents=3100, pay_in_advance=True)
        box.subscribe()
        assert box.emails == []
        registry.answers = [registry.known]
        box.travel_to("2024-03-01T12:05:00Z")
        assert subjects(box) == of(*box.invoices())


def test_a_regenerated_invoice_is_sent_again(box: Scenario) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    (first,) = box.invoices()
    box.post(f"/invoices/{first['svc_id']}/void")
    box.billing.invoices.regenerate(first["svc_id"], fees=[{"id": first["fees"][0]["svc_id"], "units": 2}])
    again = next(invoice for invoice in box.invoices() if invoice["status"] == "finalized")
    assert subjects(box) == of(first, again)


def test_a_void_sends_the_note_that_gives_something_back(box: Scenario) -> None:
    invoice = one_off(box)
    body = {"generate_credit_note": True, "credit_amount": 4000}
    box.ask("POST", f"/invoices/{invoice['svc_id']}/void", body)
    notes = box.get("/credit_notes")["credit_notes"]
    assert sorted(note["credit_status"] for note in notes) == ["available", "voided"]
    credited = [note for note in notes if note["credit_status"] == "available"]
    assert subjects(box) == of(invoice) + of_notes(*credited)


def test_a_preview_sends_nothing(box: Scenario) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.post("/invoices/preview", customer={"external_id": "acme"}, plan_code="basic")
    box.run_due()
    assert box.emails == []


@pytest.mark.parametrize("sent", [[], ["invoice.finalized"], ["credit_note.created"], ["payment_receipt.created"]])
def test_only_what_is_switched_on_is_sent(box: Scenario, sent: list[str]) -> None:
    box.entity(email_settings=sent)
    invoice = one_off(box)
    note = credit_note(box, invoice)
    wanted = of(invoice) if "invoice.finalized" in sent else []
    assert subjects(box) == wanted + (of_notes(note) if "credit_note.created" in sent else [])


@pytest.mark.parametrize("who", ["customer", "entity"])
def test_nothing_is_sent_without_an_address_of_both(box: Scenario, who: str) -> None:
    if who == "customer":
        customer(box, email=None)
    else:
        box.entity(email=None)
    credit_note(box, one_off(box))
    assert box.emails == []
    assert box.billing.next_due(leased=True) is None


def test_an_invoice_of_nothing_is_not_sent(box: Scenario) -> None:
    invoice = one_off(box, unit_amount_cents=0)
    assert (invoice["status"], invoice["fees_amount_cents"], box.emails) == ("finalized", 0, [])


def test_an_invoice_that_credit_pays_in_full_is_sent(box: Scenario) -> None:
    credit_note(box, one_off(box))
    box.plan(amount_cents=4000, pay_in_advance=True)
    box.subscribe()
    invoice = box.invoices()[-1]
    assert (invoice["fees_amount_cents"], invoice["total_amount_cents"]) == (4000, 0)
    assert subjects(box)[-1:] == of(invoice)


def test_what_was_undone_is_not_sent(box: Scenario) -> None:
    """The invoice is voided before anybody could send it."""
    id = one_off(box)["svc_id"]
    del box.emails[:]

    def ask_and_void(work: Work) -> None:
        resend_invoice(work, id, ResendInput())
        void(work, id, InvoiceVoid())

    box.billing.writing(ask_and_void)
    assert box.emails == []
    assert box.billing.next_due(leased=True) is None


def test_nothing_remains_of_a_request_that_failed(box: Scenario) -> None:
    invoice = one_off(box)

    def fail(work: Work) -> None:
        resend_invoice(work, invoice["svc_id"], ResendInput())
        raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError):
        box.billing.writing(fail)
    box.run_due()
    assert subjects(box) == of(invoice)


def test_settings_that_there_are_not_are_refused(box: Scenario) -> None:
    for sent in (["invoice.sent"], [*BOTH, "nonsense"]):
        body = {"billing_entity": {"email_settings": sent}}
        answer = box.ask("PUT", "/billing_entities/default", body, status=422)
        assert answer["error_details"] == {"email_settings": ["unsupported_value"]}


# Asked for


@pytest.mark.parametrize(
    "body", [None, {}, {"to": []}, {"to": [], "cc": [], "bcc": []}, {"to": None}, [], {"to": [None]}]
)
def test_without_recipients_it_goes_to_the_customer_as_it_is_now(box: Scenario, body: object) -> None:
    invoice = one_off(box)
    customer(box, email="new@acme.example")
    box.entity(email="new@lumen.example")
    assert box.ask("POST", f"/invoices/{invoice['svc_id']}/resend_email", body) is None
    email = box.emails[-1]
    assert (email.to, email.cc, email.bcc) == (("new@acme.example",), (), ())
    assert (email.sender, email.reply_to) == ("new@lumen.example", ("new@lumen.example",))
    assert subjects(box) == of(invoice, invoice)
    assert len({email.id for email in box.emails}) == 2


@pytest.mark.parametrize("kind", ["invoices", "credit_notes"])
def test_it_goes_to_whom_it_is_asked_for(box: Scenario, kind: str) -> None:
    invoice = one_off(box)
    id = invoice["svc_id"] if kind == "invoices" else credit_note(box, invoice)["svc_id"]
    body = {"to": ["dora@x.example", "jörg@x.example"], "cc": ["emil@x.example"], "bcc": ["fay@x.example"]}
    assert box.ask("POST", f"/{kind}/{id}/resend_email", body) is None
    email = box.emails[-1]
    assert (email.to, email.cc, email.bcc) == (
        ("dora@x.example", "jörg@x.example"),
        ("emil@x.example",),
        ("fay@x.example",),
    )
    assert "anna@acme.example" not in email.recipients


def test_it_is_sent_as_often_as_it_is_asked_for(box: Scenario) -> None:
    invoice = one_off(box)
    for _ in range(3):
        box.post(f"/invoices/{invoice['svc_id']}/resend_email", to=["dora@x.example"])
    assert len({email.id for email in box.emails}) == 4


def test_an_invoice_of_nothing_is_sent_when_asked_for(box: Scenario) -> None:
    invoice = one_off(box, unit_amount_cents=0)
    box.post(f"/invoices/{invoice['svc_id']}/resend_email")
    assert subjects(box) == of(invoice)


def test_the_library_resends_too(box: Scenario) -> None:
    invoice = one_off(box)
    note = credit_note(box, invoice)
    box.billing.invoices.resend_email(invoice["svc_id"], to=["dora@x.example"], bcc=("fay@x.example",))
    box.billing.credit_notes.resend_email(note["svc_id"])
    first, second = box.emails[-2:]
    assert (first.to, first.bcc) == (("dora@x.example",), ("fay@x.example",))
    assert second.to == ("anna@acme.example",)
    with pytest.raises(Invalid):
        box.billing.invoices.resend_email(invoice["svc_id"], to="dora@x.example")
    with pytest.raises(NotFound):
        box.billing.invoices.resend_email("none")


# What is refused, in this order


def refused(box: Scenario, path: str, body: object = None, status: int = 422) -> Any:
    before = len(box.emails)
    answer = box.ask("POST", f"{path}/resend_email", body, status=status)
    assert len(box.emails) == before
    return answer["code"] if status != 422 else answer["error_details"]


@pytest.mark.parametrize("kind", ["invoice", "credit_note"])
def test_errors_are_reported_in_the_order_of_the_checks(box: Scenario, kind: str) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    (draft,) = box.invoices()
    note = credit_note(box, draft, 1000)
    path = f"/invoices/{draft['svc_id']}" if kind == "invoice" else f"/credit_notes/{note['svc_id']}"
    everything_wrong = {"to": ["nobody"], "cc": "x", "bcc": ["y"]}
    box.entity(email=None, email_settings=[])
    customer(box, email=None)
    for unknown in (f"/{kind}s/none", f"/{kind}s/00000000-0000-7000-8000-000000000000"):
        assert refused(box, unknown, everything_wrong, 404) == f"{kind}_not_found"
    assert refused(box, path, everything_wrong, 405) == f"{kind}_not_finalized"
    box.put(f"/invoices/{draft['svc_id']}/finalize")
    assert refused(box, path, everything_wrong, 405) == "email_settings_disabled"
    other = [setting for setting in BOTH if not setting.startswith(kind)]
    box.entity(email_settings=other)
    assert refused(box, path, everything_wrong, 405) == "email_settings_disabled"
    box.entity(email_settings=BOTH)
    assert refused(box, path, everything_wrong) == {"billing_entity": ["must have email configured"]}
    box.entity(email="billing@lumen.example")
    assert refused(box, path, everything_wrong) == {"cc": ["must_be_an_array"]}
    assert refused(box, path, {"to": "a@x.example", "cc": 1, "bcc": {}}) == {
        "to": ["must_be_an_array"],
        "cc": ["must_be_an_array"],
        "bcc": ["must_be_an_array"],
    }
    without: tuple[object, ...] = (None, {"to": []}, {"cc": ["nobody"]})
    for body in without:
        assert refused(box, path, body) == {"to": ["must have at least one recipient"]}
    assert refused(box, path, {"to": ["a", "b@x.example", "c@"], "cc": ["d"], "bcc": ["e@x.example"]}) == {
        "to": ["invalid email format: a, c@"],
        "cc": ["invalid email format: d"],
    }
    box.post(f"{path}/resend_email", to=["b@x.example"])
    assert box.emails[-1].to == ("b@x.example",)


def test_a_voided_invoice_is_not_sent(box: Scenario) -> None:
    invoice = one_off(box)
    box.post(f"/invoices/{invoice['svc_id']}/void")
    assert refused(box, f"/invoices/{invoice['svc_id']}", status=405) == "invoice_not_finalized"


def test_a_deleted_draft_is_unknown(box: Scenario) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    (draft,) = box.invoices()
    note = credit_note(box, draft, 1000)
    box.delete(f"/invoices/{draft['svc_id']}")
    assert refused(box, f"/invoices/{draft['svc_id']}", status=404) == "invoice_not_found"
    assert refused(box, f"/credit_notes/{note['svc_id']}", status=404) == "credit_note_not_found"


@pytest.mark.parametrize("kind", ["invoice", "credit_note"])
def test_a_key_needs_the_permission_of_what_is_sent(box: Scenario, kind: str) -> None:
    invoice = one_off(box)
    id = invoice["svc_id"] if kind == "invoice" else credit_note(box, invoice)["svc_id"]
    for permissions, status in (
        ({kind: ("read",)}, 403),
        ({"customer": ("read", "write")}, 403),
        ({kind: ("write",)}, 200),
    ):
        _, value = box.billing.writing(partial(api_keys.create, permissions=permissions))
        key = {"authorization": f"Bearer {value}"}
        answered, answer = box.request("POST", f"/api/v1/{kind}s/{id}/resend_email", headers=key)
        assert answered == status
        if status == 403:
            assert answer["code"] == f"write_action_not_allowed_for_{kind}"
