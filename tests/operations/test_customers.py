"""Customers: upsert, what each field accepts, what a change does to drafts, lists, and what ends with a customer."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from tests.builders import add_draft, add_period, add_plan
from tests.json_asserts import accepted, for_programs, missing, refused
from tests.money import share
from tests.scenarios import Scenario

from usagebill.core.coupons import AppliedCoupon
from usagebill.core.invoices.records import Invoice
from usagebill.core.subscriptions import Subscription
from usagebill.operations import customers, invoice_custom_sections
from usagebill.queries.customers import customer_by_external_id
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

PATH = "/customers"


def post(box: Scenario, **fields: object) -> tuple[int, Any]:
    return box.send("POST", PATH, {"customer": {"external_id": "acme", **fields}})


def upsert(box: Scenario, **fields: object) -> Any:
    return accepted(post(box, **fields), "customer")


def listed(box: Scenario, query: str) -> list[str]:
    return sorted(customer["external_id"] for customer in box.get(f"{PATH}?{query}")["customers"])


def add_entity(box: Scenario, code: str, **fields: Any) -> None:
    def act(work: Work) -> None:
        default = customers.default_entity(work)
        work.tx.insert(replace(default, id=work.new_id(), code=code, **fields))

    box.billing.writing(act)


EVERYTHING = {
    "name": "ACME Inc.",
    "firstname": "Ada",
    "lastname": "Lovelace",
    "customer_type": "company",
    "account_type": "partner",
    "currency": "EUR",
    "email": "billing@acme.example,cfo@acme.example",
    "phone": "+33 1",
    "url": "https://acme.example",
    "logo_url": "https://acme.example/logo.png",
    "legal_name": "ACME",
    "legal_number": "123",
    "tax_identification_number": "FR123",
    "address_line1": "1 rue",
    "address_line2": "2nd floor",
    "city": "Paris",
    "state": "IDF",
    "zipcode": "75001",
    "country": "FR",
    "timezone": "Europe/Paris",
    "net_payment_term": 30,
    "finalize_zero_amount_invoice": "skip",
}


def test_every_field_comes_back_as_it_was_sent(box: Scenario) -> None:
    shipping = {"address_line1": "3 rue", "city": "Lyon", "zipcode": "69001", "country": "fr"}
    settings = {
        "invoice_grace_period": 3,
        "document_locale": "fr",
        "subscription_invoice_issuing_date_anchor": "current_period_end",
        "subscription_invoice_issuing_date_adjustment": "keep_anchor",
    }
    shown = upsert(box, **EVERYTHING, shipping_address=shipping, billing_configuration=settings)
    assert {key: shown[key] for key in EVERYTHING} == EVERYTHING
    assert shown["shipping_address"] == {"address_line2": None, "state": None, **shipping, "country": "FR"}
    assert {key: shown["billing_configuration"][key] for key in settings} == settings
    assert (shown["sequential_id"], shown["slug"].split("-")[-1]) == (1, "001")
    assert shown["slug"].startswith(box.billing.organization.document_number_prefix)
    assert shown["applicable_timezone"] == "Europe/Paris"
    assert shown["billing_entity_code"] == "default"
    assert shown["created_at"] == "2024-03-05T00:00:00Z"
    empty = ("taxes", "integration_customers", "applicable_invoice_custom_sections", "error_details", "metadata")
    assert [shown[key] for key in empty] == [[]] * 5
    assert box.get(f"{PATH}/acme")["customer"] == shown


def test_second_post_changes_what_is_sent_and_clears_what_is_null(box: Scenario) -> None:
    created = upsert(box, **EVERYTHING, shipping_address={"city": "Lyon", "country": "FR"})
    box.jump_to("2024-03-06T00:00:00Z")
    shown = upsert(box, name="New", email=None, currency=None, timezone=None, shipping_address={"city": "Nice"})
    assert shown == {
        **created,
        "name": "New",
        "email": None,
        "currency": None,
        "timezone": None,
        "applicable_timezone": "UTC",
        "shipping_address": {**created["shipping_address"], "city": "Nice"},
        "updated_at": "2024-03-06T00:00:00Z",
    }
    assert [message["webhook_type"] for message in box.webhooks] == ["customer.created", "customer.updated"]
    assert upsert(box, external_id="second")["sequential_id"] == 2


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"external_id": None}, {"external_id": ["value_is_mandatory"]}),
        ({"name": "x" * 256}, {"name": ["value_is_too_long"]}),
        ({"country": "XX"}, {"country": ["not_a_valid_country_code"]}),
        ({"shipping_address": {"country": "XX"}}, {"shipping_country": ["not_a_valid_country_code"]}),
        ({"currency": "eur"}, {"currency": ["value_is_invalid"]}),
        ({"email": "joão.silva@"}, {"email": ["invalid_email_format"]}),
        ({"email": "a@b.example,,"}, {"email": ["invalid_email_format"]}),
        ({"timezone": "Europe/Atlantis"}, {"timezone": ["invalid_timezone"]}),
        ({"timezone": "../etc/passwd"}, {"timezone": ["invalid_timezone"]}),
        ({"timezone": "America/Argentina"}, {"timezone": ["invalid_timezone"]}),
        ({"net_payment_term": -1}, {"net_payment_term": ["value_is_out_of_range"]}),
        ({"net_payment_term": "soon"}, {"net_payment_term": ["is not a number"]}),
        ({"customer_type": "robot"}, {"customer_type": ["value_is_invalid"]}),
        ({"account_type": "friend"}, {"account_type": ["value_is_invalid"]}),
        ({"finalize_zero_amount_invoice": "never"}, {"finalize_zero_amount_invoice": ["invalid_value"]}),
        ({"billing_configuration": {"invoice_grace_period": -1}}, {"invoice_grace_period": ["value_is_out_of_range"]}),
        ({"billing_configuration": {"document_locale": "xx"}}, {"document_locale": ["not_a_valid_language_code"]}),
        (
            {"billing_configuration": {"subscription_invoice_issuing_date_anchor": "full_moon"}},
            {"subscription_invoice_issuing_date_anchor": ["value_is_invalid"]},
        ),
        (
            {"billing_configuration": {"subscription_invoice_issuing_date_adjustment": "x"}},
            {"subscription_invoice_issuing_date_adjustment": ["value_is_invalid"]},
        ),
        ({"metadata": [{"key": str(n), "value": "v"} for n in range(6)]}, {"metadata": ["invalid_count"]}),
        (
            {"metadata": [{"key": "k" * 21, "value": "v" * 101}]},
            {"key": ["value_is_too_long"], "value": ["value_is_too_long"]},
        ),
        ({"metadata": [{"value": ""}]}, {"key": ["value_is_mandatory"], "value": ["value_is_mandatory"]}),
        ({"metadata": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]}, {"key": ["value_already_exist"]}),
        (
            {"integration_customers": [{"integration_type": "xero"}, {"integration_type": "xero"}]},
            {"integration_customers": ["invalid_count_per_integration_type"]},
        ),
        (
            {"skip_invoice_custom_sections": True, "invoice_custom_section_codes": ["a"]},
            {"invoice_custom_sections": ["skip_sections_and_selected_ids_sent_together"]},
        ),
        (
            {"billing_configuration": {"payment_provider": "stripe", "sync_with_provider": True}},
            {"base": ["payment_provider_not_found"]},
        ),
        (
            {"external_id": "", "name": "Foo Bar", "currency": "invalid"},
            {"currency": ["value_is_invalid"], "external_id": ["value_is_mandatory"]},
        ),
    ],
)
def test_what_no_customer_can_have_is_refused(box: Scenario, fields: dict[str, object], details: object) -> None:
    assert refused(post(box, **fields)) == details
    assert box.get(PATH)["customers"] == []
    assert upsert(box, external_id="next")["sequential_id"] == 1


def test_texts_are_tidied(box: Scenario) -> None:
    shown = upsert(
        box,
        email=" foo\u200cbar@example.com ",
        name="A\0B",
        country="de",
        city="",
        billing_configuration={"payment_provider": "stripe"},
    )
    assert (shown["email"], shown["name"], shown["country"], shown["city"]) == (
        "foobar@example.com",
        "AB",
        "DE",
        None,
    )
    assert shown["billing_configuration"]["payment_provider"] is None
    assert upsert(box, email="joão.silva@exam\u2011ple.com")["email"] == "joão.silva@exam-ple.com"


def test_body_of_no_customer_is_a_bad_request(box: Scenario) -> None:
    bodies: tuple[object, ...] = ({}, {"customer": "x"}, {"customer": {}}, {"customer": {"a": 1}}, {"customer": None})
    for body in bodies:
        status, answer = box.send("POST", PATH, body)
        error = "BadRequest: param is missing or the value is empty or invalid: customer"
        assert (status, for_programs(answer)) == (400, {"status": 400, "error": error})


def test_null_resets_the_option_for_empty_invoices(box: Scenario) -> None:
    upsert(box, finalize_zero_amount_invoice="finalize")
    assert upsert(box, finalize_zero_amount_invoice=None)["finalize_zero_amount_invoice"] == "inherit"


def test_billing_entity_is_changed_by_code_and_null_is_the_default_one(box: Scenario) -> None:
    add_entity(box, "france", timezone="Europe/Paris")
    assert missing(post(box, billing_entity_code="spain")) == "billing_entity"
    created = upsert(box, billing_entity_code="france")
    assert (created["billing_entity_code"], created["applicable_timezone"]) == ("france", "Europe/Paris")
    assert upsert(box, name="x")["billing_entity_code"] == "france"
    assert upsert(box, billing_entity_code=None)["billing_entity_code"] == "default"
    assert missing(post(box, billing_entity_code="spain")) == "billing_entity"


def test_archived_billing_entity_takes_no_customers(box: Scenario) -> None:
    add_entity(box, "old", archived_at=box.now)
    assert missing(post(box, billing_entity_code="old")) == "billing_entity"


def test_account_type_is_fixed_once_something_was_sold(box: Scenario) -> None:
    assert upsert(box, account_type="partner")["account_type"] == "partner"
    assert upsert(box, account_type="customer")["account_type"] == "customer"
    box.billing.writing(lambda work: add_draft(work, customer_by_external_id(work, "acme")))
    assert upsert(box, account_type="partner")["account_type"] == "customer"


# Metadata


def items(shown: Any) -> list[tuple[str, str, bool]]:
    return [(entry["key"], entry["value"], entry["display_in_invoice"]) for entry in shown["metadata"]]


def test_metadata_is_replaced_by_id(box: Scenario) -> None:
    created = upsert(box, metadata=[{"key": "A", "value": "1", "display_in_invoice": True}, {"key": "B", "value": "2"}])
    assert items(created) == [("A", "1", True), ("B", "2", False)]
    first = created["metadata"][0]["svc_id"]
    changed = upsert(box, metadata=[{"id": first, "key": "new key", "value": "v"}, {"key": "Added", "value": "w"}])
    assert items(changed) == [("new key", "v", False), ("Added", "w", False)]
    assert changed["metadata"][0]["svc_id"] == first
    assert items(upsert(box, name="x", metadata=None)) == items(changed)
    assert items(upsert(box, metadata=[])) == []


def test_key_sent_again_without_its_id_is_taken(box: Scenario) -> None:
    upsert(box, name="before", metadata=[{"key": "A", "value": "1"}])
    again = post(box, name="after", metadata=[{"key": "A", "value": "2"}])
    assert refused(again) == {"key": ["value_already_exist"]}
    shown = box.get(f"{PATH}/acme")["customer"]
    assert (shown["name"], items(shown)) == ("before", [("A", "1", False)])


# Taxes, sections


def test_tax_codes_replace_the_taxes_and_refresh_drafts(box: Scenario) -> None:
    for code in ("vat", "city"):
        box.tax("10", applied_to_organization=False, name=code, code=code)
    shown = upsert(box, tax_codes=["city", "vat"])
    assert [tax["code"] for tax in shown["taxes"]] == ["city", "vat"]
    assert [tax["code"] for tax in box.get(PATH)["customers"][0]["taxes"]] == ["city", "vat"]
    box.billing.writing(lambda work: add_draft(work, customer_by_external_id(work, "acme")))
    assert upsert(box, name="x", tax_codes=None)["taxes"] == shown["taxes"]
    assert not draft(box).refresh_wanted
    assert missing(post(box, tax_codes=["vat", "none"])) == "tax"
    assert upsert(box, tax_codes=[])["taxes"] == []
    assert draft(box).refresh_wanted


def sections(shown: Any) -> list[str]:
    return [section["code"] for section in shown["applicable_invoice_custom_sections"]]


def test_custom_sections_are_selected_skipped_or_inherited(box: Scenario) -> None:
    def prepare(work: Work) -> None:
        for code in ("b", "a", "entity"):
            section = invoice_custom_sections.InvoiceCustomSectionInput(name=code, code=code, details="text")
            invoice_custom_sections.create(work, section)
        entity = customers.default_entity(work)
        ids = invoice_custom_sections.ids_of_codes(work, ["entity"])
        work.tx.replace(replace(entity, invoice_custom_section_ids=ids))

    box.billing.writing(prepare)
    assert sections(upsert(box)) == ["entity"]
    assert sections(upsert(box, invoice_custom_section_codes=["b", "unknown", "a"])) == ["a", "b"]
    skipped = upsert(box, skip_invoice_custom_sections=True)
    assert (sections(skipped), skipped["skip_invoice_custom_sections"]) == ([], True)
    assert sections(upsert(box, skip_invoice_custom_sections=False)) == ["entity"]
    upsert(box, skip_invoice_custom_sections=True)
    back = upsert(box, invoice_custom_section_codes=["a"])
    assert (sections(back), back["skip_invoice_custom_sections"]) == (["a"], False)
    assert sections(upsert(box, invoice_custom_section_codes=[])) == ["entity"]


# Drafts


def draft(box: Scenario) -> Invoice:
    (only,) = box.billing.reading(lambda work: work.tx.find(Invoice))
    return only


def add_draft_of_acme(box: Scenario, reason: str = "subscription_periodic") -> None:
    def act(work: Work) -> None:
        invoice = add_draft(
            work,
            customer_by_external_id(work, "acme"),
            issuing_date=date(2024, 3, 8),
            payment_due_date=date(2024, 4, 7),
            expected_finalization_date=date(2024, 3, 8),
            net_payment_term=30,
        )
        add_period(work, invoice, add_plan(work).id, invoicing_reason=reason)

    box.billing.writing(act)


def dates(invoice: Invoice) -> tuple[str, str, str]:
    expected = invoice.expected_finalization_date
    assert expected is not None
    return invoice.issuing_date.isoformat(), invoice.payment_due_date.isoformat(), expected.isoformat()


def test_drafts_move_with_the_grace_period(box: Scenario) -> None:
    upsert(box, net_payment_term=30, billing_configuration={"invoice_grace_period": 3})
    add_draft_of_acme(box)
    upsert(box, billing_configuration={"invoice_grace_period": 5})
    assert dates(draft(box)) == ("2024-03-10", "2024-04-09", "2024-03-10")
    upsert(box, billing_configuration={"invoice_grace_period": None, "document_locale": "fr"})
    assert draft(box).issuing_date == date(2024, 3, 5)


def test_drafts_move_with_anchor_and_adjustment(box: Scenario) -> None:
    upsert(box, net_payment_term=30, billing_configuration={"invoice_grace_period": 3})
    add_draft_of_acme(box)
    settings = {
        "subscription_invoice_issuing_date_anchor": "current_period_end",
        "subscription_invoice_issuing_date_adjustment": "keep_anchor",
    }
    upsert(box, billing_configuration=settings)
    assert dates(draft(box)) == ("2024-03-04", "2024-04-03", "2024-03-08")
    upsert(box, billing_configuration={"subscription_invoice_issuing_date_anchor": None})
    assert dates(draft(box)) == ("2024-03-05", "2024-04-04", "2024-03-08")


def test_draft_of_a_first_invoice_moves_with_the_grace_period_alone(box: Scenario) -> None:
    upsert(box, net_payment_term=30, billing_configuration={"invoice_grace_period": 3})
    add_draft_of_acme(box, "subscription_starting")
    upsert(box, billing_configuration={"subscription_invoice_issuing_date_adjustment": "keep_anchor"})
    assert dates(draft(box)) == ("2024-03-08", "2024-04-07", "2024-03-08")


def test_drafts_stay_where_nothing_that_dates_them_changes(box: Scenario) -> None:
    upsert(box, net_payment_term=30, billing_configuration={"invoice_grace_period": 3})
    add_draft_of_acme(box)
    upsert(box, net_payment_term=0, name="x", billing_configuration={"document_locale": "fr"})
    assert dates(draft(box)) == ("2024-03-08", "2024-04-07", "2024-03-08")


def test_draft_without_grace_left_is_finalized_at_once(box: Scenario) -> None:
    # The worked example W3 of the catalog, with a metered plan of no usage.
    box.jump_to("2022-12-15T00:00:00Z")
    upsert(box, currency="EUR", billing_configuration={"invoice_grace_period": 3})
    box.billing.writing(lambda work: add_plan(work, pay_in_advance=True, amount_cents=1000))
    body = {"subscription": {"external_customer_id": "acme", "plan_code": "basic", "external_id": "s1"}}
    box.ask("POST", "/subscriptions", body)
    assert draft(box).status == "draft"
    box.jump_to("2022-12-16T00:00:00Z")
    upsert(box, billing_configuration={"invoice_grace_period": 0})
    assert draft(box).status == "finalized"


# Lists


def test_lists_are_filtered(box: Scenario) -> None:
    add_entity(box, "france")
    upsert(box, external_id="a", name="Alpha 100%", currency="EUR", country="FR", state="IDF", zipcode="1")
    upsert(box, external_id="b", firstname="Alpine", currency="USD", country="US", state="CA", zipcode="2")
    upsert(
        box,
        external_id="c",
        legal_name="c_d",
        billing_entity_code="france",
        customer_type="company",
        tax_identification_number="FR1",
        account_type="partner",
        metadata=[{"key": "tier", "value": "gold"}, {"key": "crm", "value": "7"}],
    )
    upsert(box, external_id="d", customer_type="individual", metadata=[{"key": "tier", "value": "basic"}])
    for query, expected in {
        "": "abcd",
        "external_id=a": "a",
        "external_id=a&search_term=zzz": "a",
        "search_term=%20ALP%20": "ab",
        "search_term=%25": "a",
        "search_term=c_": "c",
        "search_term=%20": "abcd",
        "currencies[]=EUR&currencies[]=USD": "ab",
        "currencies=EUR": "abcd",
        "countries[]=FR": "a",
        "states[]=CA": "b",
        "zipcodes[]=2": "b",
        "billing_entity_codes[]=france": "c",
        "billing_entity_codes[]=france&billing_entity_codes[]=default": "abcd",
        "account_type[]=partner": "c",
        "customer_type=individual": "d",
        "has_customer_type=true": "cd",
        "has_customer_type=false": "ab",
        "has_tax_identification_number=true": "c",
        "has_tax_identification_number=false": "abd",
        "metadata[tier]=gold": "c",
        "metadata[tier]=gold&metadata[crm]=8": "",
        "metadata[tier]=gold&metadata[crm]=7": "c",
        "metadata[crm]=": "abd",
        "metadata[crm]=&metadata[tier]=basic": "d",
    }.items():
        assert "".join(listed(box, query)) == expected, query


@pytest.mark.parametrize(
    ("query", "details"),
    [
        ("customer_type=robot", {"customer_type": ["must be one of: company, individual"]}),
        ("account_type[]=customer&account_type[]=x", {"account_type": {"1": ["must be one of: customer, partner"]}}),
        ("has_customer_type=maybe", {"has_customer_type": ["must be one of: true, false"]}),
        (
            "has_customer_type=false&customer_type=company",
            {"customer_type": ["must be nil when has_customer_type is false"]},
        ),
    ],
)
def test_filters_that_say_nothing_are_refused(box: Scenario, query: str, details: object) -> None:
    assert refused(box.send("GET", f"{PATH}?{query}")) == details


def test_unknown_codes_in_filters_list_what_there_is(box: Scenario) -> None:
    (text,) = refused(box.send("GET", f"{PATH}?countries[]=XX"))["countries"]["0"]
    assert text.startswith("must be one of: AD, AE, AF,")
    assert "currencies" in refused(box.send("GET", f"{PATH}?currencies[]=XXX"))
    assert missing(box.send("GET", f"{PATH}?billing_entity_codes[]=none")) == "billing_entity"
    nested = {"metadata": {"nested": {"a": "b"}}}
    assert refused(box.send("GET", PATH, nested)) == {"metadata": {"nested": ["must be a string"]}}
    refused_request = box.send("GET", f"{PATH}?metadata[nested][deeper]=x")
    assert refused(refused_request) == {"metadata": {"nested": ["must be a string"]}}


# Deletion


def test_deleted_customer_is_gone_and_its_id_is_free(box: Scenario) -> None:
    created = upsert(box)
    gone = box.delete(f"{PATH}/acme")["customer"]
    assert gone == created
    for method in ("GET", "DELETE"):
        assert missing(box.send(method, f"{PATH}/acme")) == "customer"
    assert box.get(PATH)["customers"] == []
    assert [message["webhook_type"] for message in box.webhooks] == ["customer.created"]
    again = upsert(box)
    assert (again["sequential_id"], again["svc_id"] != created["svc_id"]) == (2, True)


def test_what_the_customer_has_ends_with_it(box: Scenario) -> None:
    upsert(box, currency="EUR", billing_configuration={"invoice_grace_period": 3})
    box.billing.writing(lambda work: add_plan(work, amount_cents=3100))
    box.billing.writing(lambda work: add_plan(work, code="other", amount_cents=100))
    for external_id, plan, start in (("s1", "basic", None), ("later", "other", "2024-06-01T00:00:00Z")):
        sent = {"external_customer_id": "acme", "plan_code": plan, "external_id": external_id, "subscription_at": start}
        body = {"subscription": {key: value for key, value in sent.items() if value}}
        box.ask("POST", "/subscriptions", body)
    coupon = {"name": "C", "code": "c", "coupon_type": "percentage", "percentage_rate": "10", "frequency": "forever"}
    box.post("/coupons", coupon={**coupon, "expiration": "no_expiration"})
    applied = {"applied_coupon": {"external_customer_id": "acme", "coupon_code": "c"}}
    box.ask("POST", "/applied_coupons", applied)
    box.travel_to("2024-03-15T00:00:00Z")
    box.delete(f"{PATH}/acme")

    def statuses(kind: Any) -> set[str]:
        return set(box.billing.reading(lambda work: [record.status for record in work.tx.find(kind)]))

    assert statuses(Subscription) == {"terminated", "canceled"}
    assert statuses(AppliedCoupon) == {"terminated"}
    assert draft(box).status == "draft"
    box.travel_to("2024-03-15T00:05:00Z")
    assert draft(box).status == "finalized"
    assert draft(box).fees_amount_cents == share(3100, 11, 31)
    finalized = [message for message in box.webhooks if message["webhook_type"] == "invoice.created"]
    assert [message["invoice"]["customer"]["external_id"] for message in finalized] == ["acme"]


def test_moving_to_another_time_zone_moves_the_next_bill(box: Scenario) -> None:
    upsert(box, currency="EUR")
    box.billing.writing(lambda work: add_plan(work, amount_cents=3100))
    body = {"subscription": {"external_customer_id": "acme", "plan_code": "basic", "external_id": "s1"}}
    box.ask("POST", "/subscriptions", body)

    def next_bill() -> str:
        due = box.billing.next_due()
        assert due is not None
        return due.isoformat()

    before = next_bill()
    upsert(box, timezone="Asia/Tokyo")
    after = next_bill()
    assert (before[:10], after[:10]) == ("2024-04-01", "2024-03-31")


def test_checkout_needs_a_payment_provider(box: Scenario) -> None:
    upsert(box)
    assert refused(box.send("POST", f"{PATH}/acme/checkout_url")) == {"base": ["no_linked_payment_provider"]}
    assert missing(box.send("POST", f"{PATH}/none/checkout_url")) == "customer"
