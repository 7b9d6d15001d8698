"""What is issued stays as it is: pages, lists, PDF and XML show copies, whatever is renamed afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from tests.price_list import PriceList
from tests.scenarios import ask

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
from usagebill.testing import Sandbox
from usagebill.work import Work


def graduated(first: str) -> dict[str, Any]:
    return {
        "graduated_ranges": [
            {"from_value": 0, "to_value": 10, "per_unit_amount": first, "flat_amount": "1"},
            {"from_value": 11, "to_value": None, "per_unit_amount": "0.5", "flat_amount": "2"},
        ]
    }


def plan(list_: PriceList, code: str, metric: str, add_on: str) -> None:
    list_.plan(
        {
            "billable_metric_id": metric,
            "charge_model": "graduated",
            "properties": graduated("1"),
            "filters": [{"invoice_display_name": "Europe", "values": {"region": ["eu"]}, "properties": graduated("3")}],
        },
        code=code,
        amount_cents=1000,
        fixed_charges=[{"add_on_id": add_on, "charge_model": "standard", "units": 2, "properties": {"amount": "5"}}],
        minimum_commitment={"amount_cents": 100_000, "invoice_display_name": "Promised"},
    )


def world(box: Sandbox) -> PriceList:
    """Two subscriptions on one invoice of February, a one-off invoice and a credit note, by an e-invoicing seller."""
    list_ = PriceList(
        box,
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
    entity(box, country="FR", einvoicing=True, legal_name="Seller SA", email="s@s.example")
    entity(box, invoice_custom_section_codes=["note"], billing_configuration={"invoice_footer": "Thanks"})
    list_.post("/taxes", tax={"name": "VAT", "code": "vat", "rate": "20", "applied_to_organization": True})
    metric = list_.metric("calls", filters=[{"key": "region", "values": ["eu", "us"]}])
    add_on = {"name": "Setup", "code": "setup", "amount_cents": 5000, "amount_currency": "EUR"}
    seat = list_.post("/add_ons", add_on=add_on)["add_on"]["svc_id"]
    for code, external_id, name in (("a", "sub-a", "First"), ("b", "sub-b", "")):
        plan(list_, code, metric, seat)
        list_.subscribe(code, external_id, name=name)
    coupon = {"name": "Ten", "code": "ten", "coupon_type": "percentage", "percentage_rate": "10"}
    list_.post("/coupons", coupon={**coupon, "frequency": "forever", "expiration": "no_expiration"})
    list_.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "ten"})
    for region in ("eu", "us"):
        list_.event("calls", "sub-a", value=15, region=region)
    one_off = list_.post("/invoices", invoice={"external_customer_id": "acme", "fees": [{"add_on_code": "setup"}]})
    [fee] = one_off["invoice"]["fees"]
    items = [{"fee_id": fee["svc_id"], "amount_cents": 100}]
    list_.post(
        "/credit_notes",
        credit_note={"invoice_id": one_off["invoice"]["svc_id"], "credit_amount_cents": 120, "items": items},
    )
    box.travel_to("2024-02-01T01:00:00Z")
    return list_


def entity(box: Sandbox, **fields: Any) -> None:
    code = ask(box, "GET", "/billing_entities")["billing_entities"][0]["code"]
    ask(box, "PUT", f"/billing_entities/{code}", {"billing_entity": fields})


def change_everything(list_: PriceList) -> None:
    box = list_.box
    ask(box, "PUT", "/taxes/vat", {"tax": {"name": "Other tax", "code": "other", "rate": "25", "description": "new"}})
    ask(box, "PUT", "/billable_metrics/calls", {"billable_metric": {"name": "Requests", "description": "new"}})
    ask(box, "PUT", "/add_ons/setup", {"add_on": {"name": "Start", "code": "start", "amount_cents": 1}})
    ask(box, "PUT", "/coupons/ten", {"coupon": {"name": "Eleven", "description": "new"}})
    for code, name in (("a", "Zebra"), ("b", "Aardvark")):
        [charge] = list_.get(f"/plans/{code}")["plan"]["charges"]
        changed = {
            "id": charge["svc_id"],
            "invoice_display_name": "Renamed",
            "properties": graduated("9"),
            "filters": [{"invoice_display_name": "EU", "values": {"region": ["eu"]}, "properties": graduated("8")}],
        }
        fields = {"name": name, "invoice_display_name": name, "amount_cents": 7, "description": "new"}
        ask(box, "PUT", f"/plans/{code}", {"plan": {**fields, "charges": [changed]}})
    ask(box, "PUT", "/subscriptions/sub-a", {"subscription": {"name": "Zoo"}})
    ask(box, "PUT", "/subscriptions/sub-b", {"subscription": {"name": "Ant"}})
    list_.post(
        "/customers",
        customer={
            "external_id": "acme",
            "name": "Other",
            "legal_name": "Other GmbH",
            "country": "DE",
            "address_line1": "Weg 1",
            "currency": "USD",
            "timezone": "Asia/Tokyo",
            "net_payment_term": 44,
            "metadata": [{"key": "floor", "value": "1", "display_in_invoice": True}],
            "billing_configuration": {"document_locale": "de", "invoice_grace_period": 4},
        },
    )
    entity(
        box,
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


def shown(list_: PriceList) -> dict[str, Any]:
    """All that the API and the documents say of what has been issued."""
    pages = {path: list_.get(path) for path in ("/invoices", "/fees", "/credit_notes", "/customers/acme/invoices")}
    for kind in ("invoice", "credit_note"):
        for row in pages[f"/{kind}s"][f"{kind}s"]:
            path = f"/{kind}s/{row['svc_id']}"
            pages[path] = list_.get(path)
            if kind == "invoice":
                pages[f"{path}/explain"] = list_.get(f"{path}/explain")
    return {**pages, **list_.box.billing.reading(documents)}


def documents(work: Work) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for invoice in work.tx.find(Invoice):
        source = invoice_source(work, invoice)
        xml = invoice_document(source)
        found[invoice.id] = (invoice_content(source), ubl_text(xml), cii_text(xml))
    for note in work.tx.find(CreditNote):
        of_note = credit_note_source(work, note)
        xml = credit_note_document(of_note)
        found[note.id] = (credit_note_content(of_note), ubl_text(xml), cii_text(xml))
    return found


@pytest.mark.parametrize("gone", [False, True])
def test_nothing_issued_changes_whatever_is_renamed_or_deleted(gone: bool) -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        list_ = world(box)
        before = shown(list_)
        if gone:
            for path in ("/subscriptions/sub-a", "/subscriptions/sub-b"):
                ask(box, "DELETE", f"{path}?on_termination_invoice=skip")
            before = shown(list_)
            for path in ("/plans/a", "/plans/b", "/billable_metrics/calls", "/add_ons/setup", "/coupons/ten"):
                ask(box, "DELETE", path)
            ask(box, "DELETE", "/taxes/vat")
        else:
            change_everything(list_)
        after = shown(list_)
        assert list(after) == list(before)
        for what, page in before.items():
            assert after[what] == page, what


def test_what_is_issued_next_shows_the_new_names() -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        list_ = world(box)
        change_everything(list_)
        box.travel_to("2024-03-06T00:00:00Z")
        latest = box.billing.reading(
            lambda work: invoice_content(
                invoice_source(work, max(work.tx.find(Invoice), key=lambda invoice: invoice.created_at))
            )
        )
        assert (latest.issuer.name, latest.recipient.name, latest.footer) == ("New AG", "Other GmbH", "Bye")


def test_a_billing_entity_is_copied_once_a_change_also_by_runs_that_catch_up() -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        list_ = PriceList(box)
        list_.plan()
        list_.post("/add_ons", add_on={"name": "X", "code": "x", "amount_cents": 1, "amount_currency": "EUR"})
        for number in range(3):
            customer = {"external_id": f"late {number}", "currency": "EUR"}
            list_.post("/customers", customer=customer)
            list_.subscribe(external_id=f"sub {number}", external_customer_id=customer["external_id"])
        box.jump_to("2024-02-03T00:00:00Z")
        list_.post("/invoices", invoice={"external_customer_id": "acme", "fees": [{"add_on_code": "x"}]})
        box.jump_to("2024-02-04T00:00:00Z")
        entity(box, name="New")
        box.billing.run_due()
        versions, issued = box.billing.reading(lambda work: (work.tx.find(BillingEntityVersion), work.tx.find(Invoice)))
    assert len(versions) == 2
    assert len({invoice.issuer_version_id for invoice in issued if invoice.invoice_type == "subscription"}) == 1


def test_a_request_that_changes_nothing_makes_no_other_copy_of_the_billing_entity() -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        list_ = PriceList(box)
        list_.post("/add_ons", add_on={"name": "X", "code": "x", "amount_cents": 1, "amount_currency": "EUR"})
        for day, name in enumerate(("Seller", "Seller", "Other", "Seller"), start=2):
            box.jump_to(f"2024-01-0{day}T00:00:00Z")
            entity(box, name=name)
            list_.post("/invoices", invoice={"external_customer_id": "acme", "fees": [{"add_on_code": "x"}]})
        issued = box.billing.reading(lambda work: sorted(work.tx.find(Invoice), key=lambda one: one.created_at))
        names = box.billing.reading(lambda work: [issuer(work, one, one.issuer_version_id).name for one in issued])
    assert names == ["Seller", "Seller", "Other", "Seller"]
    assert issued[0].issuer_version_id == issued[1].issuer_version_id
