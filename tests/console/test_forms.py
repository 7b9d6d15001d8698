"""Forms: what is typed is what is stored, and what cannot be read is refused in words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.cases import each
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario

from usagebill.console.charge_terms import TYPED_MODELS
from usagebill.console.forms import FORMS
from usagebill.core.users import Role

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")


@pytest.fixture
def admin(box: Scenario) -> Visitor:
    return Visitor(box.billing, invited(box.billing, "admin"))


def made(visitor: Visitor, path: str, **fields: str) -> str:
    """Where the form leads to that makes a record."""
    answer = visitor.send_form(path, **fields)
    assert answer.status_code == 303, re.findall(r'role="alert">(.*?)<', answer.text)
    return str(answer.headers["location"]).removeprefix("/console")


def test_a_first_invoice_is_made_with_forms_alone(box: Scenario, admin: Visitor) -> None:
    for path in ("metrics", "plans", "customers", "subscriptions"):
        assert f'href="/console/new/{path}"' in admin.page("/")
    assert made(admin, "/new/metrics", name="Calls", code="calls", aggregation_type="count_agg") == "/metrics/calls"
    plan = {"name": "Pro", "code": "pro", "amount_cents": "49", "amount_currency": "eur", "interval": "monthly"}
    assert made(admin, "/new/plans", **plan) == "/plans/pro"
    charge = {"metric": "calls", "code": "calls", "charge_model": "standard", "amount": "0.05", "step": "save"}
    assert made(admin, "/new/charges?plan=pro", **charge) == "/plans/pro"
    customer = {"external_id": "acme", "name": "Acme", "country": "DE", "currency": "EUR"}
    assert admin.page("/").count("✓") == 2
    assert made(admin, "/new/customers", **customer) == "/customers/acme"
    subscription = {"external_customer_id": "acme", "plan_code": "pro", "external_id": "s", "billing_time": "calendar"}
    assert made(admin, "/new/subscriptions", **subscription) == "/subscriptions/s"
    assert "four steps" not in admin.page("/")
    box.event("calls", "s")
    box.travel_to("2024-04-01T12:00:00Z")
    (invoice,) = box.invoices("acme")
    # 49.00 for 27 of 31 days, and a call.
    assert invoice["total_amount_cents"] == round(4900 * 27 / 31) + 5


def test_a_plan_is_changed_and_what_was_emptied_is_gone(box: Scenario, admin: Visitor) -> None:
    box.tax("20")
    box.plan(amount_cents=4900, name="Pro", description="Old", trial_period=7, tax_codes=["vat"])
    page = admin.page("/change/plans/basic")
    for text in ('value="49.00"', 'value="vat"', ">Old<", 'value="7"'):
        assert text in page
    fields = {"name": "Pro", "code": "basic", "amount_cents": "59.5", "amount_currency": "EUR", "interval": "monthly"}
    assert made(admin, "/change/plans/basic", **fields) == "/plans/basic"
    plan = box.get("/plans/basic")["plan"]
    assert (plan["amount_cents"], plan["taxes"]) == (5950, [])
    assert not plan["description"]
    assert not plan["trial_period"]
    refused = admin.send_form("/change/plans/basic", **{**fields, "name": ""})
    assert refused.status_code == 422
    assert "name" in refused.text.partition('role="alert"')[2]
    assert box.get("/plans/basic")["plan"]["name"] == "Pro"


def test_a_billing_entity_is_changed_with_how_its_invoices_look(box: Scenario, admin: Visitor) -> None:
    code = box.get("/billing_entities")["billing_entities"][0]["code"]
    page = admin.page(f"/change/entities/{code}")
    assert 'name="document_locale" value="en"' in page
    fields = {"name": "Nord", "country": "DE", "default_currency": "eur", "net_payment_term": "14", "timezone": "UTC"}
    configured = {"document_locale": "de", "invoice_grace_period": "3", "invoice_footer": "Amtsgericht Kiel"}
    prefix = {"document_number_prefix": "NORD"}
    assert made(admin, f"/change/entities/{code}", **fields, **configured, **prefix) == f"/entities/{code}"
    entity = box.get(f"/billing_entities/{code}")["billing_entity"]
    assert (entity["document_locale"], entity["invoice_grace_period"]) == ("de", 3)
    assert entity["invoice_footer"] == "Amtsgericht Kiel"
    assert (entity["name"], entity["net_payment_term"], entity["default_currency"]) == ("Nord", 14, "EUR")
    refused = admin.send_form(f"/change/entities/{code}", **fields, **prefix, document_locale="xx")
    assert refused.status_code == 422
    assert box.get(f"/billing_entities/{code}")["billing_entity"]["document_locale"] == "de"


def test_features_and_webhook_endpoints_are_made_and_changed(box: Scenario, admin: Visitor) -> None:
    assert made(admin, "/new/features", code="sso", name="Single sign-on") == "/features/sso"
    assert made(admin, "/change/features/sso", name="SSO", description="With SAML") == "/features/sso"
    assert box.get("/features/sso")["feature"]["description"] == "With SAML"
    where = {"webhook_url": "https://hooks.example/a", "signature_algo": "hmac"}
    page = made(admin, "/new/endpoints", **where)
    assert made(admin, page.replace("/endpoints/", "/change/endpoints/"), **{**where, "name": "Mine"}) == page
    (endpoint,) = box.get("/webhook_endpoints")["webhook_endpoints"]
    assert (endpoint["name"], endpoint["signature_algo"]) == ("Mine", "hmac")


@pytest.mark.parametrize("model", TYPED_MODELS)
def test_every_charge_model_is_made_and_changed_in_a_form(box: Scenario, admin: Visitor, model: str) -> None:
    typed, stored, _ = PRICES[model]
    box.metric("calls")
    box.plan(amount_cents=0, interval="monthly")
    fields = {"metric": "calls", "code": "c", "charge_model": model, **typed, "step": "save"}
    assert made(admin, "/new/charges?plan=basic", **fields) == "/plans/basic"
    (charge,) = box.get("/plans/basic")["plan"]["charges"]
    assert charge["charge_model"] == model
    assert {name: value for name, value in charge["properties"].items() if name in stored} == stored
    page = admin.page("/change/charges/c?plan=basic")
    for name, value in typed.items():
        assert f'name="{name}"' in page
        assert value.replace('"', "&#34;") in page
    assert made(admin, "/change/charges/c?plan=basic", **fields, invoice_display_name="Calls") == "/plans/basic"
    (changed,) = box.get("/plans/basic")["plan"]["charges"]
    assert changed["invoice_display_name"] == "Calls"
    assert changed["properties"] == charge["properties"]


_RANGES = {
    "range-0-to_value": "100",
    "range-0-per_unit_amount": "0.1",
    "range-1-per_unit_amount": "0.05",
    "range-1-flat_amount": "1",
}
_ROWS: list[dict[str, Any]] = [
    {"from_value": 0, "to_value": 100, "per_unit_amount": "0.1", "flat_amount": "0"},
    {"from_value": 100, "to_value": None, "per_unit_amount": "0.05", "flat_amount": "1"},
]
# Charge model -> what is typed, what is stored, and what 150 units (or events of 100 and 50) cost.
PRICES: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "standard": ({"amount": "0.05"}, {"amount": "0.05"}, "€7.50"),
    "graduated": (_RANGES, {"graduated_ranges": _ROWS}, "€13.50"),
    "volume": (_RANGES, {"volume_ranges": [_ROWS[0], {**_ROWS[1], "from_value": 101}]}, "€8.50"),
    "package": (
        {"amount": "5", "package_size": "100", "free_units": "10"},
        {"amount": "5", "package_size": 100, "free_units": 10},
        "€10.00",
    ),
    "percentage": (
        {"rate": "2.5", "fixed_amount": "0.1", "per_transaction_min_amount": "1.5"},
        {"rate": "2.5", "fixed_amount": "0.1", "per_transaction_min_amount": "1.5"},
        # 2.60, and 1.35 raised to 1.50.
        "€4.10",
    ),
    "graduated_percentage": (
        {"range-0-to_value": "100", "range-0-rate": "1", "range-1-rate": "2", "range-1-flat_amount": "3"},
        {
            "graduated_percentage_ranges": [
                {"from_value": 0, "to_value": 100, "rate": "1", "flat_amount": "0"},
                {"from_value": 100, "to_value": None, "rate": "2", "flat_amount": "3"},
            ]
        },
        "€5.00",
    ),
    "dynamic": ({}, {}, ""),
}


@pytest.mark.parametrize("model", TYPED_MODELS)
def test_the_price_sheet_computes_what_was_typed_and_stores_nothing(box: Scenario, admin: Visitor, model: str) -> None:
    typed, _, cost = PRICES[model]
    box.plan(amount_cents=0)
    asked = {"events": "100, 50"} if model == "percentage" else {"units": "150"}
    answer = admin.send_form("/new/charges?plan=basic", charge_model=model, **typed, **asked)
    assert answer.status_code == 200
    sheet = answer.text.partition('id="sheet"')[2]
    if cost:
        assert f'<span class="amount">{cost}</span>' in sheet
    else:
        assert "bring their own prices" in sheet
    assert box.get("/plans/basic")["plan"]["charges"] == []


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ({"amount": "1,5"}, "Price: “1,5” is no number"),
        ({"amount": "-1"}, "amount"),
        ({"amount": "1", "units": "x"}, "Units: “x” is no number"),
        ({"amount": "1", "units": "1e90"}, "Units: write a number"),
        ({}, "amount"),
        ({"charge_model": "graduated", "range-0-to_value": "10", "range-1-to_value": "5"}, "graduated_ranges"),
    ],
)
def test_prices_that_cannot_be_read_are_refused_in_words(
    box: Scenario, admin: Visitor, typed: dict[str, str], text: str
) -> None:
    box.metric("calls")
    box.plan(amount_cents=0)
    fields = {"metric": "calls", "code": "c", "charge_model": "standard", **typed}
    shown = admin.send_form("/new/charges?plan=basic", **fields)
    assert shown.status_code == 200
    assert text in shown.text.partition('id="sheet"')[2]
    if "units" not in typed:
        saved = admin.send_form("/new/charges?plan=basic", **fields, step="save")
        assert saved.status_code == 422
        assert 'role="alert"' in saved.text
        assert box.get("/plans/basic")["plan"]["charges"] == []


def test_a_new_customer_is_no_other_one(box: Scenario, admin: Visitor) -> None:
    box.customer(name="Acme")
    answer = admin.send_form("/new/customers", external_id="acme", name="Another")
    assert answer.status_code == 422
    assert "external_id" in answer.text.partition('role="alert"')[2]
    assert box.get("/customers/acme")["customer"]["name"] == "Acme"
    assert made(admin, "/change/customers/acme", name="Acme Ltd", net_payment_term="30") == "/customers/acme"
    customer = box.get("/customers/acme")["customer"]
    assert (customer["name"], customer["net_payment_term"]) == ("Acme Ltd", 30)


def test_coupons_taxes_and_add_ons_are_made_and_changed(box: Scenario, admin: Visitor) -> None:
    box.customer()
    coupon = {"coupon_type": "fixed_amount", "amount_cents": "10", "amount_currency": "EUR", "frequency": "once"}
    assert made(admin, "/new/coupons", name="Ten", code="ten", expiration="no_expiration", **coupon) == "/coupons/ten"
    assert made(admin, "/new/applied-coupons", external_customer_id="acme", coupon_code="ten") == "/applied-coupons"
    assert box.get("/applied_coupons")["applied_coupons"][0]["amount_cents"] == 1000
    assert made(admin, "/new/taxes", name="VAT", code="vat", rate="19.5", applied_to_organization="yes") == "/taxes/vat"
    assert made(admin, "/change/taxes/vat", name="VAT", code="vat", rate="20") == "/taxes/vat"
    tax = box.get("/taxes/vat")["tax"]
    assert (tax["rate"], tax["applied_to_organization"]) == (20, False)
    add_on = {"name": "Setup", "code": "setup", "amount_cents": "1000", "amount_currency": "JPY"}
    assert made(admin, "/new/add-ons", **add_on) == "/add-ons/setup"
    # A yen has no cents.
    assert box.get("/add_ons/setup")["add_on"]["amount_cents"] == 1000
    wallet = {"external_customer_id": "acme", "currency": "EUR", "rate_amount": "1", "granted_credits": "5"}
    path = made(admin, "/new/wallets", **wallet)
    assert "5" in admin.page(path)
    assert made(admin, path.replace("/wallets", "/change/wallets"), name="Gift") == path


@pytest.fixture
def reader(box: Scenario) -> Visitor:
    return Visitor(box.billing, invited(box.billing, Role.READ_ONLY))


@each("form", FORMS, ids=lambda form: form.path)
def test_a_form_is_for_those_who_may_write(admin: Visitor, reader: Visitor, form: Any) -> None:
    assert f"/new/{form.path}" in admin.page(f"/{form.path}")
    assert f"/new/{form.path}" not in reader.page(f"/{form.path}")
    admin.page(f"/new/{form.path}")
    reader.page(f"/new/{form.path}", status=403)
    assert reader.send_form(f"/new/{form.path}", name="x", code="x").status_code == 403
    assert admin.send_form(f"/new/{form.path}").status_code in (404, 422)
