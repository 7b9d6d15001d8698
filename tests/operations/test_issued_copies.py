"""What is issued stays as it is: pages, lists, PDF and XML show copies, whatever is renamed afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import FRENCH_SELLER, Scenario, charge_on, fixed_charge_on, price_ranges

from usagebill.core.billing_entities import BillingEntityVersion
from usagebill.core.credit_notes import CreditNote
from usagebill.core.documents.cii import cii_text
from usagebill.core.documents.credit_notes import credit_note_content
from usagebill.core.documents.electronic import credit_note_document, invoice_document
from usagebill.core.documents.invoices import invoice_content
from usagebill.core.documents.ubl import ubl_text
from usagebill.core.invoices.records import Invoice
from usagebill.operations.documents.sources import credit_note_source, invoice_source
from usagebill.operations.invoice_custom_sections import InvoiceCustomSectionInput, create, update
from usagebill.operations.issuers import issuer
from usagebill.runtime.work import Reader


def graduated(first: str) -> dict[str, Any]:
    return {"graduated_ranges": price_ranges((0, 10, first, "1"), (11, None, "0.5", "2"))}


def plan(box: Scenario, code: str, metric: str, add_on: str) -> None:
    box.plan(
        charge_on(
            metric,
            "graduated",
            **graduated("1"),
            filters=[{"invoice_display_name": "Europe", "values": {"region": ["eu"]}, "properties": graduated("3")}],
        ),
        code=code,
        amount_cents=1000,
        fixed_charges=[fixed_charge_on(add_on, amount="5", units=2)],
        minimum_commitment={"amount_cents": 100_000, "invoice_display_name": "Promised"},
    )


def world(box: Scenario) -> None:
    """Two subscriptions on one invoice of February, a one-off invoice and a credit note, by an e-invoicing seller."""
    box.customer(
        name="Acme",
        country="FR",
        address_line1="1 rue",
        legal_name="Acme SA",
        metadata=[{"key": "desk", "value": "7", "display_in_invoice": True}],
        billing_configuration={"document_locale": "fr"},
    )
    box.billing.writing(
        lambda work: create(work, InvoiceCustomSectionInput(name="Note", code="note", details="d", display_name="N"))
    )
    box.entity(**FRENCH_SELLER, legal_name="Seller SA", email="s@s.example")
    box.entity(invoice_custom_section_codes=["note"], billing_configuration={"invoice_footer": "Thanks"})
    box.tax("20")
    metric = box.metric("calls", filters=[{"key": "region", "values": ["eu", "us"]}])
    seat = box.add_on("setup", 5000)
    for code, external_id, name in (("a", "sub-a", "First"), ("b", "sub-b", "")):
        plan(box, code, metric, seat)
        box.subscribe(code, external_id, name=name)
    coupon = {"name": "Ten", "code": "ten", "coupon_type": "percentage", "percentage_rate": "10"}
    box.post("/coupons", coupon={**coupon, "frequency": "forever", "expiration": "no_expiration"})
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "ten"})
    for region in ("eu", "us"):
        box.event("calls", "sub-a", value=15, region=region)
    one_off = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": [{"add_on_code": "setup"}]})
    [fee] = one_off["invoice"]["fees"]
    items = [{"fee_id": fee["svc_id"], "amount_cents": 100}]
    box.post(
        "/credit_notes",
        credit_note={"invoice_id": one_off["invoice"]["svc_id"], "credit_amount_cents": 120, "items": items},
    )
    box.travel_to("2024-02-01T01:00:00Z")


def change_everything(box: Scenario) -> None:
    box = box
    box.put("/taxes/vat", tax={"name": "Other tax", "code": "other", "rate": "25", "description": "new"})
    box.put("/billable_metrics/calls", billable_metric={"name": "Requests", "description": "new"})
    box.put("/add_ons/setup", add_on={"name": "Start", "code": "start", "amount_cents": 1})
    box.put("/coupons/ten", coupon={"name": "Eleven", "description": "new"})
    for code, name in (("a", "Zebra"), ("b", "Aardvark")):
        [charge] = box.get(f"/plans/{code}")["plan"]["charges"]
        changed = {
            "id": charge["svc_id"],
            "invoice_display_name": "Renamed",
            "properties": graduated("9"),
            "filters": [{"invoice_display_name": "EU", "values": {"region": ["eu"]}, "properties": graduated("8")}],
        }
        fields = {"name": name, "invoice_display_name": name, "amount_cents": 7, "description": "new"}
        box.put(f"/plans/{code}", plan={**fields, "charges": [changed]})
    box.put("/subscriptions/sub-a", subscription={"name": "Zoo"})
    box.put("/subscriptions/sub-b", subscription={"name": "Ant"})
    box.customer(
        name="Other",
        legal_name="Other GmbH",
        country="DE",
        address_line1="Weg 1",
        timezone="Asia/Tokyo",
        net_payment_term=44,
        metadata=[{"key": "floor", "value": "1", "display_in_invoice": True}],
        billing_configuration={"document_locale": "de", "invoice_grace_period": 4},
    )
    box.entity(
        name="New name",
        legal_name="New AG",
        country="DE",
        address_line1="Weg 2",
        billing_configuration={"invoice_footer": "Bye", "document_locale": "es"},
        timezone="America/New_York",
        document_number_prefix="NEW",
        document_numbering="per_billing_entity",
        einvoicing=False,
        email="new@s.example",
    )
    box.billing.writing(
        lambda work: update(work, "note", InvoiceCustomSectionInput(name="Other", details="x", display_name="X"))
    )


def shown(box: Scenario) -> dict[str, Any]:
    """All that the API and the documents say of what has been issued."""
    pages = {path: box.get(path) for path in ("/invoices", "/fees", "/credit_notes", "/customers/acme/invoices")}
    for kind in ("invoice", "credit_note"):
        for row in pages[f"/{kind}s"][f"{kind}s"]:
            path = f"/{kind}s/{row['svc_id']}"
            pages[path] = box.get(path)
            if kind == "invoice":
                pages[f"{path}/explain"] = box.get(f"{path}/explain")
    return {**pages, **box.billing.reading(documents)}


def documents(work: Reader) -> dict[str, Any]:
    documents: dict[str, Any] = {}
    for invoice in work.tx.find(Invoice):
        source = invoice_source(work, invoice)
        xml = invoice_document(source)
        documents[invoice.id] = (invoice_content(source), ubl_text(xml), cii_text(xml))
    for note in work.tx.find(CreditNote):
        of_note = credit_note_source(work, note)
        xml = credit_note_document(of_note)
        documents[note.id] = (credit_note_content(of_note), ubl_text(xml), cii_text(xml))
    return documents


@pytest.mark.parametrize("gone", [False, True])
def test_nothing_issued_changes_whatever_is_renamed_or_deleted(gone: bool) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        world(box)
        before = shown(box)
        if gone:
            for path in ("/subscriptions/sub-a", "/subscriptions/sub-b"):
                box.delete(f"{path}?on_termination_invoice=skip")
            before = shown(box)
            for path in ("/plans/a", "/plans/b", "/billable_metrics/calls", "/add_ons/setup", "/coupons/ten"):
                box.delete(path)
            box.delete("/taxes/vat")
        else:
            change_everything(box)
        after = shown(box)
        assert list(after) == list(before)
        for document, page in before.items():
            assert after[document] == page, document


def test_what_is_issued_next_shows_the_new_names() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        world(box)
        change_everything(box)
        box.travel_to("2024-03-06T00:00:00Z")
        latest = box.billing.reading(
            lambda work: invoice_content(
                invoice_source(work, max(work.tx.find(Invoice), key=lambda invoice: invoice.created_at))
            )
        )
        assert (latest.issuer.name, latest.recipient.name, latest.footer) == ("New AG", "Other GmbH", "Bye")


def test_runs_that_catch_up_with_a_change_of_the_billing_entity_share_the_copy_of_before_it() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        box.plan()
        box.add_on("x", 1)
        for number in range(3):
            customer = {"external_id": f"late {number}", "currency": "EUR"}
            box.post("/customers", customer=customer)
            box.subscribe(external_id=f"sub {number}", customer=customer["external_id"])
        box.jump_to("2024-02-03T00:00:00Z")
        box.post("/invoices", invoice={"external_customer_id": "acme", "fees": [{"add_on_code": "x"}]})
        box.jump_to("2024-02-04T00:00:00Z")
        box.entity(name="New")
        box.billing.run_due()
        versions, issued = box.billing.reading(lambda work: (work.tx.find(BillingEntityVersion), work.tx.find(Invoice)))
    # All were due before the change.
    assert len(versions) == 1
    assert {(invoice.invoice_type, invoice.issuer_version_id) for invoice in issued} == {
        ("one_off", versions[0].id),
        ("subscription", versions[0].id),
    }


def test_a_request_that_changes_nothing_makes_no_other_copy_of_the_billing_entity() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        box.add_on("x", 1)
        for day, name in enumerate(("Seller", "Seller", "Other", "Seller"), start=2):
            box.jump_to(f"2024-01-0{day}T00:00:00Z")
            box.entity(name=name)
            box.post("/invoices", invoice={"external_customer_id": "acme", "fees": [{"add_on_code": "x"}]})
        issued = box.billing.reading(lambda work: sorted(work.tx.find(Invoice), key=lambda invoice: invoice.created_at))
        names = box.billing.reading(
            lambda work: [issuer(work, invoice.billing_entity_id, invoice.issuer_version_id).name for invoice in issued]
        )
    assert names == ["Seller", "Seller", "Other", "Seller"]
    assert issued[0].issuer_version_id == issued[1].issuer_version_id
