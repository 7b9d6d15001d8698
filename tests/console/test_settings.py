"""Settings and checks: dunning campaigns, connections with their errors, and the audit."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import pytest
from pypdf import PdfReader
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario, charge_on

from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payments import NoticeStatus, ProviderNotice
from usagebill.core.users import Role
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")


@pytest.fixture
def admin(box: Scenario) -> Visitor:
    return Visitor(box.billing, invited(box.billing, "admin"))


def test_a_dunning_campaign_is_made_and_changed(box: Scenario, admin: Visitor) -> None:
    fields = {"name": "Friendly", "code": "friendly", "days_between_attempts": "3", "max_attempts": "4"}
    sent = {**fields, "thresholds": "eur: 50.00\nJPY: 5000", "bcc_emails": "ada@example.com"}
    made = admin.send_form("/new/dunning-campaigns", **sent)
    assert made.headers["location"] == "/console/dunning-campaigns/friendly"
    campaign = box.get("/dunning_campaigns/friendly")["dunning_campaign"]
    # A yen has no cents.
    assert campaign["thresholds"] == [
        {"amount_cents": 5000, "currency": "EUR"},
        {"amount_cents": 5000, "currency": "JPY"},
    ]
    assert (campaign["max_attempts"], campaign["bcc_emails"]) == (4, ["ada@example.com"])
    page = admin.page("/change/dunning-campaigns/friendly")
    assert "EUR: 50.00\nJPY: 5000</textarea>" in page
    assert (
        admin.send_form("/change/dunning-campaigns/friendly", **{**sent, "thresholds": "EUR: 9.99"}).status_code == 303
    )
    campaign = box.get("/dunning_campaigns/friendly")["dunning_campaign"]
    assert campaign["thresholds"] == [{"amount_cents": 999, "currency": "EUR"}]
    for wrong in ("EUR", "EUR: x", "EUR:", "XXY: 1", "EUR: 0.001"):
        refused = admin.send_form("/change/dunning-campaigns/friendly", **{**sent, "thresholds": wrong})
        assert refused.status_code == 422, wrong
        assert 'role="alert"' in refused.text
    assert box.get("/dunning_campaigns/friendly")["dunning_campaign"] == campaign


def test_connections_are_listed_with_their_errors_and_without_their_secrets(box: Scenario, admin: Visitor) -> None:
    secret = "sk_test_" + "5ecret" * 4
    box.billing.payment_connections.create(kind="stripe", code="cards", name="Cards", secret_key=secret)
    assert "where `url` says that one is" in admin.page("/needs").partition("Cards cannot be reached")[2]

    def fail(work: Work) -> None:
        (connection,) = work.tx.find(PaymentConnection)
        work.tx.replace(replace(connection, connect_error="The key is not valid"))
        notice = ProviderNotice(
            id=work.new_id(),
            organization_id=work.organization.id,
            connection_id=connection.id,
            event_id="evt_1",
            type="charge.strange",
            status=NoticeStatus.UNHANDLED,
            reason="no such payment",
            body="{}",
            created_at=work.now,
            updated_at=work.now,
        )
        work.tx.insert(notice)

    box.billing.writing(fail)
    reader = Visitor(box.billing, invited(box.billing, Role.READ_ONLY))
    for visitor in (admin, reader):
        needs = visitor.page("/needs")
        assert "Cards cannot be reached" in needs
        assert "Payment notices to look at: 1" in needs
        listed = visitor.page("/payment-connections")
        assert "The key is not valid" in listed
        assert "no such payment" in visitor.page("/notices?status=unhandled")
        for page in (needs, listed, visitor.page("/payment-connections/cards"), visitor.page("/notices")):
            assert secret not in page
    for path in ("/tax-connections", "/sync-connections", "/synced-documents"):
        assert "Nothing here yet" in reader.page(path)


def test_the_audit_says_what_it_recounted_and_what_differs(box: Scenario, admin: Visitor) -> None:
    box.plan(charge_on(box.metric("calls"), amount="1"), amount_cents=3000)
    box.customer()
    box.subscribe()
    box.event("calls", value="4")
    box.travel_to("2024-04-01T12:00:00Z")
    visitor = Visitor(box.billing, invited(box.billing, Role.READ_ONLY))
    assert "Everything agrees" not in visitor.page("/audit")
    page = visitor.send_form("/audit").text
    assert "Everything agrees" in page
    for kind in ("Usage fees", "Subscription fees"):
        assert f'<td data-label="Fees">{kind}</td><td class="number" data-label="Recounted">1</td>' in page

    def spoil(work: Work) -> None:
        (invoice,) = work.tx.find(Invoice)
        work.tx.replace(replace(invoice, total_amount_cents=invoice.total_amount_cents + 1))

    box.billing.writing(spoil)
    (found, *_) = box.billing.audit().findings
    page = visitor.send_form("/audit").text
    assert "found." in page.partition('role="status"')[2].partition("</p>")[0]
    assert found.subject in page
    assert f'<td class="number" data-label="Expected">{found.expected}</td>' in page


def text_of(pdf: bytes) -> str:
    return " ".join(page.extract_text() for page in PdfReader(BytesIO(pdf)).pages)


def test_an_invoice_is_shown_as_it_would_look_before_settings_are_saved(box: Scenario, admin: Visitor) -> None:
    code = box.get("/billing_entities")["billing_entities"][0]["code"]
    page = admin.page(f"/change/entities/{code}")
    assert f'formaction="/console/entities/{code}/sample"' in page
    fields = {"name": "Nord", "document_locale": "de", "invoice_footer": "Amtsgericht Kiel", "timezone": "UTC"}
    before = box.get(f"/billing_entities/{code}")["billing_entity"]
    assert admin.send_form(f"/entities/{code}/sample", **fields).status_code == 404
    box.customer()
    box.add_on("seat", 10_000)
    fees = [{"add_on_code": "seat", "units": 1}]
    invoice = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]
    answer = admin.send_form(f"/entities/{code}/sample", **fields)
    assert answer.headers["content-type"] == "application/pdf"
    words = text_of(answer.content)
    for text in ("Nord", "Rechnung", "Amtsgericht Kiel", invoice["number"]):
        assert text in words, text
    # Nothing of it is kept: the invoice is as it was issued.
    assert box.get(f"/billing_entities/{code}")["billing_entity"] == before
    issued = text_of(admin.ask("GET", f"/invoices/{invoice['svc_id']}/pdf").content)
    assert "Amtsgericht Kiel" not in issued
    assert admin.send_form(f"/entities/{code}/sample", **{**fields, "document_locale": "xx"}).status_code == 422
    reader = Visitor(box.billing, invited(box.billing, Role.READ_ONLY))
    assert reader.send_form(f"/entities/{code}/sample", **fields).status_code == 403
