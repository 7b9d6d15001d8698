"""The seller's own words in e-mails: over the API, in the console, and in what customers get."""

from __future__ import annotations

import pytest
from tests.cases import each
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")
ENTITY = "/billing_entities/default"
GERMAN = {
    "kind": "invoice",
    "locale": "de",
    "subject": "{entity}: Rechnung {number}\r\nBcc: eve@evil.example",
    "intro": "Liebe Leute von {customer},\r\n\r\nes sind {amount} & <b>Steuern</b>.",
    "closing": "Bis bald\r\nEure Lumen",
}


@pytest.fixture
def seller(box: Scenario) -> Scenario:
    """A seller that sends invoices, with a German customer and an English one whose name has a name in braces."""
    box.put(
        ENTITY,
        billing_entity={"name": "Lumen", "email": "billing@lumen.example", "email_settings": ["invoice.finalized"]},
    )
    box.post("/add_ons", add_on={"name": "Setup", "code": "setup", "amount_cents": 5000, "amount_currency": "EUR"})
    for id, name, locale in (("gmbh", "Acme GmbH", "de"), ("ltd", "{amount} Ltd", "en")):
        customer = {"external_id": id, "name": name, "email": f"{id}@acme.example", "currency": "EUR"}
        box.post("/customers", customer={**customer, "billing_configuration": {"document_locale": locale}})
    return box


def bill(seller: Scenario, customer: str) -> None:
    seller.post("/invoices", invoice={"external_customer_id": customer, "fees": [{"add_on_code": "setup", "units": 1}]})
    seller.run_due()


def own(seller: Scenario) -> list[dict[str, str | None]]:
    shown: list[dict[str, str | None]] = seller.get(ENTITY)["billing_entity"]["email_texts"]
    return shown


def test_an_email_has_the_sellers_words_for_its_kind_and_language_alone(seller: Scenario) -> None:
    seller.put(ENTITY, billing_entity={"email_texts": [GERMAN]})
    bill(seller, "gmbh")
    bill(seller, "ltd")
    german, english = seller.emails
    assert german.subject == f"Lumen: Rechnung {german.subject.split()[2]} Bcc: eve@evil.example"
    assert "Liebe Leute von Acme GmbH,\n\nes sind 50,00 € & <b>Steuern</b>.".replace(" €", "\xa0€") in german.text
    assert german.text.rstrip().endswith("Bis bald\nEure Lumen")
    assert "<p>Liebe Leute von Acme GmbH,</p>\n<p>es sind" in german.html
    assert "&amp; &lt;b&gt;Steuern&lt;/b&gt;" in german.html
    assert "<p>Bis bald<br>Eure Lumen</p>" in german.html
    assert "<b>Steuern" not in german.html
    # The facts are still there.
    assert "Gesamt" in german.text or "50,00" in german.text
    assert english.subject.startswith("Your Invoice from Lumen")
    assert english.attachments


def test_a_name_in_braces_of_a_customer_is_not_filled_in(seller: Scenario) -> None:
    seller.put(ENTITY, billing_entity={"email_texts": [{**GERMAN, "locale": "en", "intro": "Dear {customer}, {x"}]})
    bill(seller, "ltd")
    assert "Dear {amount} Ltd, {x" in seller.emails[0].text


def test_a_payment_request_is_in_the_sellers_words(seller: Scenario) -> None:
    text = {
        "kind": "payment_request",
        "locale": "de",
        "intro": "Hallo {customer}, {amount} fehlen.",
        "closing": "Danke",
    }
    seller.put(ENTITY, billing_entity={"email_texts": [text], "net_payment_term": 1})
    bill(seller, "gmbh")
    invoice = seller.get("/invoices")["invoices"][0]
    seller.travel_to("2024-04-05T10:00:00Z")
    asked = {"external_customer_id": "gmbh", "svc_invoice_ids": [invoice["svc_id"]], "email": "gmbh@acme.example"}
    seller.post("/payment_requests", payment_request=asked)
    seller.run_due()
    email = seller.emails[-1]
    assert email.text.startswith("Hallo Acme GmbH, 50,00\xa0€ fehlen.\n")
    assert email.text.rstrip().endswith("Danke")
    assert "Hallo Acme GmbH, 50,00" in email.html
    assert invoice["number"] in email.text


@each(
    "text,code",
    [
        ({"subject": "{total}"}, "placeholder_is_unknown"),
        ({"subject": "{entity.email}"}, "placeholder_is_unknown"),
        ({"kind": "payment_request", "intro": "{number}"}, "placeholder_is_unknown"),
        ({"intro": "{}"}, "placeholder_is_unknown"),
        ({"kind": "sign_in", "intro": "a"}, "value_is_invalid"),
        ({"locale": "tlh", "intro": "a"}, "not_a_valid_language_code"),
        ({"subject": "a" * 201}, "value_is_too_long"),
        ({"closing": "a" * 2001}, "value_is_too_long"),
    ],
)
def test_a_text_that_cannot_be_sent_is_refused_and_changes_nothing(
    seller: Scenario, text: dict[str, str], code: str
) -> None:
    seller.put(ENTITY, billing_entity={"email_texts": [GERMAN]})
    before = own(seller)
    wanted = {"billing_entity": {"name": "Other", "email_texts": [{"kind": "invoice", "locale": "en", **text}]}}
    refused = seller.ask("PUT", ENTITY, wanted, status=422)
    assert refused["error_details"] == {"email_texts": [code]}
    assert (own(seller), seller.get(ENTITY)["billing_entity"]["name"]) == (before, "Lumen")


def test_one_text_for_a_kind_and_language(seller: Scenario) -> None:
    refused = seller.ask("PUT", ENTITY, {"billing_entity": {"email_texts": [GERMAN, GERMAN]}}, status=422)
    assert refused["error_details"] == {"email_texts": ["value_already_exist"]}
    seller.put(ENTITY, billing_entity={"email_texts": [{**GERMAN, "subject": " ", "intro": None, "closing": ""}]})
    assert own(seller) == []


def test_texts_are_written_tried_and_taken_back_in_the_console(seller: Scenario) -> None:
    admin = Visitor(seller.billing, invited(seller.billing, "admin"))
    assert 'href="/console/entities/default/emails"' in admin.page("/entities/default")
    assert "Invoice, de: as it comes" in admin.page("/entities/default/emails")
    place = "/entities/default/emails/invoice/de"
    assert "Ihre Rechnung" in admin.page(place) or "Rechnung" in admin.page(place)
    typed = {"subject": "Von {entity}", "intro": "Hallo {customer}\r\n<b>", "closing": ""}
    tried = admin.send_form(place, step="preview", **typed)
    assert tried.status_code == 200
    assert "Von Lumen" in tried.text
    assert "Hallo Acme\n&lt;b&gt;" in tried.text
    assert own(seller) == []
    wrong = admin.send_form(place, step="save", **{**typed, "subject": "{total}"})
    assert wrong.status_code == 422
    assert "in braces" in wrong.text
    assert 'value="{total}"' in wrong.text
    assert own(seller) == []
    seller.put(ENTITY, billing_entity={"email_texts": [{**GERMAN, "locale": "fr"}]})
    assert admin.send_form(place, step="save", **typed).headers["location"] == "/console/entities/default/emails"
    assert [(text["locale"], text["intro"]) for text in own(seller)] == [
        ("fr", GERMAN["intro"].replace("\r\n", "\n")),
        ("de", "Hallo {customer}\n<b>"),
    ]
    assert "Invoice, de: own" in admin.page("/entities/default/emails")
    assert "Back to the default" in admin.page(place)
    admin.send_form(place, step="reset")
    assert [text["locale"] for text in own(seller)] == ["fr"]
    for kind in ("credit_note", "payment_receipt", "payment_request", "usage_level"):
        for locale in ("en", "zh-TW"):
            assert "<h2>Preview</h2>" in admin.page(f"/entities/default/emails/{kind}/{locale}")
    for path in ("/entities/default/emails/invoice/xx", "/entities/default/emails/sign_in/en", "/entities/none/emails"):
        assert admin.ask("GET", path).status_code == 404
    finance = Visitor(seller.billing, invited(seller.billing, "finance"))
    for path in ("/entities/default/emails", place):
        assert finance.ask("GET", path).status_code == 403
    assert finance.send_form(place, step="save", **typed).status_code == 403
