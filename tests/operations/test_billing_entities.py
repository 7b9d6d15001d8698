"""Billing entities and organizations: what they accept, what customers inherit, which drafts follow."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from tests.builders import add_draft, add_period, add_plan
from tests.json_asserts import accepted, missing, refused
from tests.scenarios import Scenario

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.invoices.records import Invoice
from usagebill.operations import customers, invoice_custom_sections
from usagebill.queries.customers import customer_by_external_id
from usagebill.runtime.work import Reader, Work

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

PATH = "/billing_entities"


def post(box: Scenario, **fields: object) -> tuple[int, Any]:
    body = {"billing_entity": {"code": "france", "name": "ACME France", **fields}}
    return box.send("POST", PATH, body)


def create(box: Scenario, **fields: object) -> Any:
    return accepted(post(box, **fields), "billing_entity")


def put(box: Scenario, entity: str = "default", **fields: object) -> tuple[int, Any]:
    return box.send("PUT", f"{PATH}/{entity}", {"billing_entity": fields})


def change(box: Scenario, entity: str = "default", **fields: object) -> Any:
    return accepted(put(box, entity, **fields), "billing_entity")


def test_new_entity_has_defaults(box: Scenario) -> None:
    shown = create(box)
    assert {key: shown[key] for key in shown if key not in ("svc_id", "document_number_prefix")} == {
        "code": "france",
        "name": "ACME France",
        "default_currency": "USD",
        "document_locale": "en",
        "document_numbering": "per_customer",
        "finalize_zero_amount_invoice": True,
        "invoice_footer": None,
        "invoice_grace_period": 0,
        "subscription_invoice_issuing_date_anchor": "next_period_start",
        "subscription_invoice_issuing_date_adjustment": "align_with_finalization_date",
        "is_default": False,
        "net_payment_term": 0,
        "address_line1": None,
        "address_line2": None,
        "city": None,
        "state": None,
        "country": None,
        "zipcode": None,
        "email": None,
        "phone": None,
        "legal_name": None,
        "legal_number": None,
        "tax_identification_number": None,
        "timezone": "UTC",
        "email_settings": [],
        "einvoicing": False,
        "eu_tax_management": False,
        "logo_url": None,
        "portal_color": None,
        "portal_frame_origins": [],
        "portal_spend_limits": False,
        "email_texts": [],
        "applied_dunning_campaign_code": None,
        "created_at": "2024-03-05T00:00:00Z",
        "updated_at": "2024-03-05T00:00:00Z",
        "taxes": [],
        "selected_invoice_custom_sections": [],
    }
    assert shown["document_number_prefix"] == f"ACM-{shown['svc_id'][-4:].upper()}"
    assert box.get(f"{PATH}/france")["billing_entity"] == shown


def test_every_field_comes_back_as_it_was_sent(box: Scenario) -> None:
    plain = {
        "default_currency": "EUR",
        "document_numbering": "per_billing_entity",
        "document_number_prefix": "FR-1",
        "finalize_zero_amount_invoice": False,
        "net_payment_term": 30,
        "address_line1": "1 rue",
        "city": "Paris",
        "country": "FR",
        "email": "a@b.example,c@d.example",
        "phone": "1",
        "legal_name": "ACME SAS",
        "tax_identification_number": "FR1",
        "zipcode": "75002",
        "timezone": "Europe/Paris",
        "email_settings": ["invoice.finalized"],
        "einvoicing": True,
    }
    configuration = {
        "invoice_footer": "Thanks",
        "document_locale": "fr",
        "invoice_grace_period": 3,
        "subscription_invoice_issuing_date_anchor": "current_period_end",
        "subscription_invoice_issuing_date_adjustment": "keep_anchor",
    }
    shown = create(box, **plain, billing_configuration=configuration)
    assert {key: shown[key] for key in plain} == plain
    assert {key: shown[key] for key in configuration} == configuration
    changed = change(box, "france", code="x", country="de", document_number_prefix="fr-2", address_line1=None)
    assert (changed["code"], changed["country"], changed["document_number_prefix"]) == ("france", "DE", "FR-2")
    assert (changed["address_line1"], changed["city"]) == (None, "Paris")


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"name": ""}, {"name": ["value_is_mandatory"]}),
        ({"code": None}, {"code": ["value_is_mandatory"]}),
        ({"code": "default"}, {"code": ["value_already_exist"]}),
        ({"country": "XX"}, {"country": ["not_a_valid_country_code"]}),
        ({"default_currency": "XXX"}, {"default_currency": ["value_is_invalid"]}),
        ({"billing_configuration": {"document_locale": "xx"}}, {"document_locale": ["not_a_valid_language_code"]}),
        ({"billing_configuration": {"invoice_footer": "x" * 601}}, {"invoice_footer": ["value_is_too_long"]}),
        ({"billing_configuration": {"invoice_grace_period": -1}}, {"invoice_grace_period": ["value_is_out_of_range"]}),
        ({"email": "nobody"}, {"email": ["invalid_email_format"]}),
        ({"document_number_prefix": "12345678901"}, {"document_number_prefix": ["value_is_too_long"]}),
        ({"document_number_prefix": ""}, {"document_number_prefix": ["value_is_too_short"]}),
        ({"net_payment_term": -1}, {"net_payment_term": ["value_is_out_of_range"]}),
        ({"timezone": "Moon/Base"}, {"timezone": ["invalid_timezone"]}),
        ({"finalize_zero_amount_invoice": None}, {"finalize_zero_amount_invoice": ["value_is_invalid"]}),
        ({"email_settings": ["invoice.eaten"]}, {"email_settings": ["unsupported_value"]}),
        ({"einvoicing": True}, {"einvoicing": ["country_must_be_present"]}),
        ({"einvoicing": True, "country": "US"}, {"einvoicing": ["country_not_supported"]}),
        ({"einvoicing": True, "country": "FR"}, {"tax_identification_number": ["value_is_mandatory"]}),
        (
            {"einvoicing": True, "country": "FR", "tax_identification_number": "12345"},
            {"tax_identification_number": ["value_is_invalid"]},
        ),
        (
            {"einvoicing": True, "country": "DE", "tax_identification_number": "DE1", "city": " "},
            {field: ["value_is_mandatory"] for field in ("email", "phone", "city", "zipcode")},
        ),
        ({"eu_tax_management": True, "country": "US"}, {"eu_tax_management": ["billing_entity_must_be_in_eu"]}),
        ({"logo": "https://acme.example/logo.png"}, {"logo": ["invalid_content_type"]}),
        ({"logo": "data:image/png;base64,%"}, {"logo": ["invalid_content_type"]}),
        (
            {"logo": "data:image/png;base64," + base64.b64encode(b"0" * (800 * 1024 + 1)).decode()},
            {"logo": ["invalid_size"]},
        ),
    ],
)
def test_what_no_entity_can_have_is_refused(box: Scenario, fields: dict[str, object], details: object) -> None:
    assert refused(post(box, **fields)) == details
    assert len(box.get(PATH)["billing_entities"]) == 1


def test_list_has_active_entities_oldest_first_without_meta(box: Scenario) -> None:
    box.jump_to("2024-03-06T00:00:00Z")
    create(box)
    status, body = box.send("GET", PATH)
    assert (status, list(body)) == (200, ["billing_entities"])
    assert [(entity["code"], entity["is_default"]) for entity in body["billing_entities"]] == [
        ("default", True),
        ("france", False),
    ]

    def archive(work: Work) -> None:
        work.tx.replace(replace(customers.default_entity(work), archived_at=work.now))

    box.billing.writing(archive)
    listed = box.get(PATH)["billing_entities"]
    assert [(entity["code"], entity["is_default"]) for entity in listed] == [("france", True)]
    assert box.get(f"{PATH}/default")["billing_entity"]["is_default"] is False


def test_unknown_entity_is_not_found_even_without_a_body(box: Scenario) -> None:
    assert missing(box.send("GET", f"{PATH}/none")) == "billing_entity"
    assert missing(box.send("PUT", f"{PATH}/none", {})) == "billing_entity"
    assert box.send("PUT", f"{PATH}/default", {})[0] == 400


def test_taxes_and_sections_are_replaced(box: Scenario) -> None:
    box.tax("20", applied_to_organization=False)
    section = invoice_custom_sections.InvoiceCustomSectionInput(name="Bank", code="bank")
    box.billing.writing(lambda work: invoice_custom_sections.create(work, section))
    shown = change(box, tax_codes=["VAT"], invoice_custom_section_codes=["bank", "unknown"])
    assert [tax["code"] for tax in shown["taxes"]] == ["vat"]
    assert [shown_section["code"] for shown_section in shown["selected_invoice_custom_sections"]] == ["bank"]
    assert missing(put(box, tax_codes=["none"])) == "tax"
    shown = change(box, tax_codes=[], invoice_custom_section_codes=[])
    assert (shown["taxes"], shown["selected_invoice_custom_sections"]) == ([], [])


# Drafts


def draft_of(box: Scenario, external_id: str, **fields: Any) -> None:
    def act(work: Work) -> None:
        customer = customers.upsert(work, customers.CustomerInput(external_id=external_id))
        customer = replace(customer, **fields)
        work.tx.replace(customer)
        invoice = add_draft(
            work,
            customer,
            issuing_date=date(2024, 3, 8),
            payment_due_date=date(2024, 3, 8),
            expected_finalization_date=date(2024, 3, 8),
        )
        add_period(work, invoice, add_plan(work).id)

    box.billing.writing(act)


def due_dates(box: Scenario) -> dict[str, tuple[str, str]]:
    drafts = box.billing.reading(lambda work: work.tx.find(Invoice))
    return {
        draft.number.removesuffix("-DRAFT"): (draft.issuing_date.isoformat(), draft.payment_due_date.isoformat())
        for draft in drafts
    }


def test_drafts_of_those_who_inherit_follow_the_entity(box: Scenario) -> None:
    change(box, billing_configuration={"invoice_grace_period": 3})
    draft_of(box, "inherits")
    draft_of(box, "own", invoice_grace_period=3, net_payment_term=0)
    change(box, net_payment_term=10)
    assert due_dates(box) == {"inherits": ("2024-03-08", "2024-03-18"), "own": ("2024-03-08", "2024-03-08")}
    change(box, billing_configuration={"invoice_grace_period": 5})
    assert due_dates(box) == {"inherits": ("2024-03-10", "2024-03-20"), "own": ("2024-03-08", "2024-03-08")}


def test_new_taxes_refresh_the_drafts_of_the_entity(box: Scenario) -> None:
    box.tax("20", applied_to_organization=False)
    draft_of(box, "a")
    change(box, name="x")

    def wanted() -> list[bool]:
        return box.billing.reading(lambda work: [invoice.refresh_wanted for invoice in work.tx.find(Invoice)])

    assert wanted() == [False]
    change(box, tax_codes=["vat"])
    assert wanted() == [True]


# The organization


def test_organization_shows_its_default_entity(box: Scenario) -> None:
    shown = box.get("/organizations")["organization"]
    assert (shown["name"], shown["svc_id"]) == ("Default organization", box.billing.organization.id)
    assert (shown["webhook_url"], shown["webhook_urls"]) == ("", [])
    assert (shown["default_currency"], shown["timezone"]) == ("USD", "UTC")


def test_organization_changes_with_its_default_entity(box: Scenario) -> None:
    create(box)
    body = {
        "organization": {
            "country": "fr",
            "default_currency": "eur",
            "document_numbering": "per_organization",
            "document_number_prefix": "acme",
            "net_payment_term": 30,
            "timezone": "Europe/Paris",
            "email": "billing@acme.example",
            "billing_configuration": {"invoice_grace_period": 3, "invoice_footer": "Thanks", "document_locale": "fr"},
            "webhook_url": "https://acme.example/hook",
        }
    }
    shown = box.ask("PUT", "/organizations", body)["organization"]
    expected = {
        **body["organization"],
        "country": "FR",
        "default_currency": "EUR",
        "document_number_prefix": "ACME",
        "webhook_urls": ["https://acme.example/hook"],
    }
    assert {key: shown[key] for key in expected} == expected
    assert box.get("/organizations")["organization"] == shown
    entity = box.get(f"{PATH}/default")["billing_entity"]
    assert (entity["document_numbering"], entity["document_number_prefix"]) == ("per_billing_entity", "ACME")
    assert (entity["invoice_grace_period"], entity["country"]) == (3, "FR")
    assert box.get(f"{PATH}/france")["billing_entity"]["country"] is None
    assert box.billing.customers.upsert(external_id="a").slug == "ACME-001"


def test_webhook_url_is_that_of_the_oldest_endpoint(box: Scenario) -> None:
    def put(url: object) -> tuple[int, Any]:
        return box.send("PUT", "/organizations", {"organization": {"webhook_url": url}})

    accepted(put("https://a.example"), "organization")
    box.jump_to("2024-03-06T00:00:00Z")
    other = {"webhook_endpoint": {"webhook_url": "https://b.example"}}
    box.ask("POST", "/webhook_endpoints", other)
    shown = accepted(put("https://c.example"), "organization")
    assert (shown["webhook_url"], shown["webhook_urls"]) == (
        "https://c.example",
        ["https://c.example", "https://b.example"],
    )
    assert refused(put("nowhere")) == {"webhook_url": ["url_is_invalid"]}


def test_organization_refuses_what_its_entity_refuses(box: Scenario) -> None:
    for fields, details in (
        ({"timezone": "Moon/Base"}, {"timezone": ["invalid_timezone"]}),
        ({"document_numbering": "per_moon"}, {"document_numbering": ["value_is_invalid"]}),
        ({"document_number_prefix": "12345678901"}, {"document_number_prefix": ["value_is_too_long"]}),
    ):
        assert refused(box.send("PUT", "/organizations", {"organization": fields})) == details


def test_new_time_zone_of_the_entity_moves_the_next_bill_of_those_who_inherit_it(box: Scenario) -> None:
    box.billing.writing(lambda work: add_plan(work, amount_cents=3100))
    for external_id, zone in (("inherits", None), ("own", "UTC")):
        customer = {"customer": {"external_id": external_id, "currency": "EUR", "timezone": zone}}
        box.ask("POST", "/customers", customer)["customer"]
        box.subscribe(external_id=external_id, customer=external_id)
    change(box, timezone="Asia/Tokyo")
    box.travel_to("2024-03-31T20:00:00Z")

    def billed() -> list[str]:
        def numbers(work: Reader) -> list[str]:
            customers_billed = [customer_by_external_id(work, name) for name in ("inherits", "own")]
            invoices = {invoice.customer_id for invoice in work.tx.find(Invoice)}
            return [customer.external_id for customer in customers_billed if customer.id in invoices]

        return box.billing.reading(numbers)

    assert billed() == ["inherits"]
    box.travel_to("2024-04-01T02:00:00Z")
    assert billed() == ["inherits", "own"]


def test_entity_of_another_organization_does_not_exist(box: Scenario) -> None:
    assert box.billing.reading(lambda work: work.tx.scoped("another").find(BillingEntity)) == []
