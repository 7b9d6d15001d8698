"""EU taxes of customers: when they are assigned, how a number is checked, and what checks do to taxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.examples import examples
from tests.registry import Registry, rate_limited, unknown
from tests.scenarios import Scenario

from usagebill.core.taxes import Tax
from usagebill.core.vat import Registered, RegistryError, Unavailable, VatNumber
from usagebill.operations import taxes
from usagebill.storage.conditions import eq

NOW = "2026-01-15T12:00:00Z"


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def box(registry: Registry) -> Iterator[Scenario]:
    with Scenario(now=NOW, vat_registry=registry) as box:
        manage(box)
        yield box


def manage(box: Scenario, country: str = "FR", entity: str = "default", on: bool = True) -> None:
    fields = {"country": country, "eu_tax_management": on}
    box.put(f"/billing_entities/{entity}", billing_entity=fields)


def upsert(box: Scenario, external_id: str = "acme", **fields: object) -> list[str]:
    """The codes of the customer's taxes in the answer."""
    body = {"customer": {"external_id": external_id, **fields}}
    return codes(box.ask("POST", "/customers", body)["customer"])


def codes(shown: Any) -> list[str]:
    return [tax["code"] for tax in shown["taxes"]]


def now_taxed(box: Scenario, external_id: str = "acme") -> list[str]:
    return codes(box.get(f"/customers/{external_id}")["customer"])


def checks(box: Scenario) -> list[Any]:
    sent = [message for message in box.webhooks if message["webhook_type"] == "customer.vies_check"]
    return [message["customer"]["vies_check"] for message in sent]


# The switch


def all_taxes(box: Scenario) -> dict[str, Tax]:
    return {tax.code: tax for tax in box.billing.reading(lambda work: work.tx.find(Tax))}


def test_the_switch_gives_the_organization_47_taxes(box: Scenario) -> None:
    taxes = all_taxes(box)
    assert len(taxes) == 47
    assert all(tax.auto_generated for tax in taxes.values())
    shown = box.get("/taxes/svc_eu_fi_standard")["tax"]
    assert (shown["name"], shown["rate"], shown["applied_to_organization"]) == ("FI Standard", 25.5, False)
    assert box.get("/taxes/svc_eu_at_exception_mittelberg")["tax"]["name"] == "AT Mittelberg Standard"


def test_the_switch_once_more_restores_them_and_off_removes_nothing(box: Scenario) -> None:
    ids = {code: tax.id for code, tax in all_taxes(box).items()}
    box.put("/taxes/svc_eu_fr_standard", tax={"name": "Mine", "rate": 1, "description": "x"})
    manage(box, on=False)
    assert all_taxes(box)["svc_eu_fr_standard"].name == "Mine"
    manage(box)
    restored = all_taxes(box)
    assert (restored["svc_eu_fr_standard"].name, restored["svc_eu_fr_standard"].rate) == ("FR Standard", 20)
    assert {code: tax.id for code, tax in restored.items()} == ids


@pytest.mark.parametrize("country", ["US", None])
def test_only_sellers_in_the_eu_have_the_switch(box: Scenario, country: str | None) -> None:
    request = {"billing_entity": {"country": country, "eu_tax_management": True}}
    status, body = box.send("PUT", "/billing_entities/default", request)
    assert (status, body["error_details"]) == (422, {"eu_tax_management": ["billing_entity_must_be_in_eu"]})
    request = {"billing_entity": {"code": "other", "name": "Other", "country": country, "eu_tax_management": True}}
    status, body = box.send("POST", "/billing_entities", request)
    assert (status, body["error_details"]) == (422, {"eu_tax_management": ["billing_entity_must_be_in_eu"]})


def test_an_organization_has_the_switch_of_its_default_entity() -> None:
    with Scenario(now=NOW) as box:
        request = {"organization": {"country": "US", "eu_tax_management": True}}
        status, body = box.send("PUT", "/organizations", request)
        assert (status, body["error_details"]) == (422, {"eu_tax_management": ["org_must_be_in_eu"]})
        box.put("/organizations", organization={"country": "de", "eu_tax_management": True})
        assert len(all_taxes(box)) == 47
        assert upsert(box) == ["svc_eu_de_standard"]


def test_a_new_entity_may_have_the_switch_from_the_start() -> None:
    with Scenario(now=NOW) as box:
        fields = {"code": "italy", "name": "Italy", "country": "IT", "eu_tax_management": True}
        box.post("/billing_entities", billing_entity=fields)
        assert upsert(box, billing_entity_code="italy") == ["svc_eu_it_standard"]
        assert upsert(box, "other") == []


def test_rates_change_on_their_day_unless_somebody_has_set_another() -> None:
    with Scenario(now="2024-08-01T00:00:00Z") as box:
        manage(box, "FI")
        manage(box, "FI")
        box.put("/taxes/svc_eu_ee_standard", tax={"rate": 7})

        def rates() -> tuple[Decimal, ...]:
            taxes = all_taxes(box)
            return tuple(taxes[f"svc_eu_{country}_standard"].rate for country in ("fi", "sk", "ee", "ro"))

        assert rates() == (24, 20, 7, 19)
        box.travel_to("2024-08-31T23:59:59Z")
        assert rates() == (24, 20, 7, 19)
        box.travel_to("2024-09-01T00:00:00Z")
        assert rates() == (Decimal("25.5"), 20, 7, 19)
        box.travel_to("2026-01-01T00:00:00Z")
        assert rates() == (Decimal("25.5"), 23, 7, 21)


# Assignment


def test_without_the_switch_nobody_is_assigned_a_tax() -> None:
    with Scenario(now=NOW, vat_registry=Registry()) as box:
        assert upsert(box, country="IT") == []
        assert upsert(box, tax_identification_number="IT12345678901") == []
        assert checks(box) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"country": "US"}, "svc_eu_tax_exempt"),
        ({"country": "IT"}, "svc_eu_it_standard"),
        ({"country": "it"}, "svc_eu_it_standard"),
        ({}, "svc_eu_fr_standard"),
        ({"country": "ES", "zipcode": "35001"}, "svc_eu_es_exception_canary_islands"),
        ({"country": "ES", "zipcode": " 35 001 "}, "svc_eu_es_exception_canary_islands"),
        ({"country": "ES", "zipcode": "28001"}, "svc_eu_es_standard"),
        ({"country": "FR", "zipcode": "97200"}, "svc_eu_fr_standard"),
        (
            {"country": "FR", "zipcode": "97200", "tax_identification_number": "FR12345678901"},
            "svc_eu_fr_exception_martinique",
        ),
    ],
)
def test_address_decides_at_once(box: Scenario, registry: Registry, fields: dict[str, Any], expected: str) -> None:
    assert upsert(box, **fields) == [expected]
    assert (registry.asked, checks(box)) == ([], [])


def test_a_french_territory_with_a_number_of_no_valid_form_is_checked(box: Scenario) -> None:
    assert upsert(box, country="FR", zipcode="97200", tax_identification_number="INVALID123") == []
    assert checks(box) == [{"valid": False, "valid_format": False}]
    assert now_taxed(box) == ["svc_eu_fr_standard"]


def test_the_code_is_added_to_those_sent(box: Scenario) -> None:
    box.tax(5, "vat", applied_to_organization=False)
    assert upsert(box, country="IT", tax_codes=["vat"]) == ["vat", "svc_eu_it_standard"]
    assert upsert(box, country="ES", tax_codes=["svc_eu_es_standard", "vat"]) == ["svc_eu_es_standard", "vat"]
    assert upsert(box, country="IT") == ["svc_eu_it_standard"]
    assert upsert(box, country="ES", tax_codes=None) == ["svc_eu_es_standard"]
    assert upsert(box, country="IT", tax_codes=[]) == ["svc_eu_it_standard"]


def test_an_update_of_anything_else_leaves_the_taxes(box: Scenario) -> None:
    box.tax(5, "vat", applied_to_organization=False)
    upsert(box, country="IT", zipcode="00100")
    assert upsert(box, name="Acme", country="IT", zipcode="00100", tax_codes=["svc_eu_tax_exempt"]) == [
        "svc_eu_tax_exempt"
    ]
    assert upsert(box, name="Acme Inc") == ["svc_eu_tax_exempt"]
    assert upsert(box, zipcode="00100", tax_identification_number=None) == ["svc_eu_tax_exempt"]
    assert upsert(box, zipcode="00101") == ["svc_eu_it_standard"]


def test_a_country_written_differently_counts_as_changed(box: Scenario) -> None:
    upsert(box, country="FR", tax_codes=[])
    assert upsert(box, tax_codes=["svc_eu_tax_exempt"]) == ["svc_eu_tax_exempt"]
    assert upsert(box, country="FR") == ["svc_eu_tax_exempt"]
    assert upsert(box, country="fr") == ["svc_eu_fr_standard"]


def test_a_customer_with_other_taxes_only_is_assigned_one_on_any_update(box: Scenario) -> None:
    box.tax(5, "vat", applied_to_organization=False)
    upsert(box, country="IT")
    assert upsert(box, tax_codes=["vat"]) == ["vat"]
    assert upsert(box, name="Acme") == ["svc_eu_it_standard"]


def test_codes_of_the_eu_are_known_in_capitals(box: Scenario) -> None:
    box.tax(5, "SVC_EU_own", applied_to_organization=False)
    upsert(box, country="IT")
    assert upsert(box, tax_codes=["SVC_EU_own"]) == ["SVC_EU_own"]
    assert upsert(box, name="Acme") == ["SVC_EU_own"]


def test_existing_customers_are_left_alone_until_they_change() -> None:
    with Scenario(now=NOW) as box:
        upsert(box, country="IT")
        manage(box)
        assert now_taxed(box) == []
        assert upsert(box, name="Acme") == ["svc_eu_it_standard"]


def test_a_move_to_another_entity_decides_the_tax_again(box: Scenario) -> None:
    box.tax(5, "vat", applied_to_organization=False)
    for code, country, on in (("spain", "ES", True), ("plain", "ES", False)):
        fields = {"code": code, "name": code, "country": country, "eu_tax_management": on}
        box.post("/billing_entities", billing_entity=fields)
    assert upsert(box) == ["svc_eu_fr_standard"]
    assert upsert(box, billing_entity_code="spain") == ["svc_eu_es_standard"]
    assert upsert(box, tax_codes=["vat", "svc_eu_es_standard"]) == ["vat", "svc_eu_es_standard"]
    # Without the switch there, what is of the EU goes and the rest stays.
    assert upsert(box, billing_entity_code="plain") == ["vat"]
    assert upsert(box, billing_entity_code="spain", tax_codes=["vat"]) == ["vat", "svc_eu_es_standard"]
    assert upsert(box, billing_entity_code="plain", tax_codes=["svc_eu_es_standard"]) == ["svc_eu_es_standard"]


def test_a_tax_that_was_deleted_is_made_again_when_it_is_needed(box: Scenario) -> None:
    box.delete("/taxes/svc_eu_it_standard")
    assert upsert(box, country="IT") == ["svc_eu_it_standard"]
    assert box.get("/taxes/svc_eu_it_standard")["tax"]["rate"] == 22


def test_unknown_codes_are_refused_and_nothing_is_kept(box: Scenario) -> None:
    body = {"customer": {"external_id": "acme", "country": "IT", "tax_codes": ["nope"]}}
    assert box.send("POST", "/customers", body)[0] == 404
    assert box.send("GET", "/customers/acme")[0] == 404


# Checks


def test_a_number_of_no_valid_form_is_not_asked_for(box: Scenario, registry: Registry) -> None:
    assert upsert(box, country="IT") == ["svc_eu_it_standard"]
    assert upsert(box, tax_identification_number="IT123") == ["svc_eu_it_standard"]
    assert checks(box) == [{"valid": False, "valid_format": False}]
    assert now_taxed(box) == ["svc_eu_it_standard"]
    assert registry.asked == []


def test_a_life_of_numbers(box: Scenario, registry: Registry) -> None:
    box.tax(5, "banking_rates", applied_to_organization=False)
    upsert(box, country="IT", tax_identification_number="IT123")
    # What the customer is taxed with does not change before the answer.
    assert upsert(box, tax_identification_number="IT 12345678901") == ["svc_eu_it_standard"]
    assert now_taxed(box) == ["svc_eu_reverse_charge"]
    assert registry.asked == [VatNumber(prefix="IT", digits="12345678901")]
    message = box.webhooks[-1]
    assert (message["webhook_type"], message["object_type"]) == ("customer.vies_check", "customer")
    assert message["customer"]["external_id"] == "acme"
    assert message["customer"]["vies_check"]["country_code"] == "IT"
    assert message["customer"]["vies_check"]["vat_number"] == "12345678901"
    assert message["customer"]["vies_check"]["valid"] is True
    assert upsert(box, tax_codes=["banking_rates"]) == ["banking_rates"]
    assert upsert(box, tax_identification_number=None) == ["svc_eu_it_standard"]
    assert len(registry.asked) == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"country": "FR", "tax_identification_number": "FR12345678901"}, "svc_eu_fr_standard"),
        ({"country": "US", "tax_identification_number": "FR12345678901"}, "svc_eu_fr_standard"),
        ({"zipcode": "97200", "tax_identification_number": "FR12345678901"}, "svc_eu_fr_exception_martinique"),
        ({"country": "GR", "tax_identification_number": "EL123456789"}, "svc_eu_reverse_charge"),
        ({"country": "US", "tax_identification_number": "DE123456789"}, "svc_eu_reverse_charge"),
    ],
)
def test_the_country_of_a_registered_number_decides(box: Scenario, fields: dict[str, Any], expected: str) -> None:
    upsert(box, **fields)
    assert now_taxed(box) == [expected]


def test_a_number_that_nobody_knows_is_like_none(box: Scenario, registry: Registry) -> None:
    registry.answers = [unknown()]
    upsert(box, country="IT", tax_identification_number="IT12345678901")
    assert now_taxed(box) == ["svc_eu_it_standard"]
    assert checks(box) == [{"valid": False, "valid_format": True}]


def test_an_answer_replaces_all_taxes(box: Scenario) -> None:
    box.tax(5, "vat", applied_to_organization=False)
    assert upsert(box, tax_identification_number="IT12345678901", tax_codes=["vat"]) == ["vat"]
    assert now_taxed(box) == ["svc_eu_reverse_charge"]


def test_an_unchanged_number_is_not_checked_again(box: Scenario, registry: Registry) -> None:
    upsert(box, tax_identification_number="IT12345678901")
    upsert(box, name="Acme", tax_identification_number="IT12345678901")
    assert len(registry.asked) == 1
    upsert(box, zipcode="20100")
    assert len(registry.asked) == 2


@pytest.mark.parametrize("kind", list(RegistryError))
def test_a_registry_without_an_answer_is_asked_again(box: Scenario, registry: Registry, kind: RegistryError) -> None:
    registry.answers = [Unavailable(kind=kind, message="not now")]
    upsert(box, country="IT")
    upsert(box, tax_identification_number="IT12345678901")
    assert now_taxed(box) == ["svc_eu_it_standard"]
    assert checks(box) == [{"valid": False, "valid_format": True, "error": "not now"}]
    kept = box.billing.customers.get("acme").vat_check
    assert kept is not None
    assert (kept.attempts, kept.last_error) == (1, kind.value)
    registry.answers = [registry.known]
    box.travel_to("2026-01-15T12:05:00Z")
    assert now_taxed(box) == ["svc_eu_reverse_charge"]
    assert box.billing.customers.get("acme").vat_check is None


def test_waits_grow_to_an_hour_and_never_end(box: Scenario, registry: Registry) -> None:
    registry.answers = [rate_limited()]
    upsert(box, tax_identification_number="IT12345678901")
    expected_requests = 1
    for minutes, at in (
        (5, "12:05"),
        (5, "12:10"),
        (10, "12:20"),
        (20, "12:40"),
        (40, "13:20"),
        (60, "14:20"),
        (60, "15:20"),
    ):
        assert len(registry.asked) == expected_requests, minutes
        box.travel_to(f"2026-01-15T{at}:00Z")
        expected_requests += 1
        assert len(registry.asked) == expected_requests, at
    box.travel_to("2026-01-17T15:20:00Z")
    assert len(registry.asked) == expected_requests + 48
    assert len(checks(box)) == len(registry.asked)
    assert box.billing.reading(lambda work: work.tx.jobs.failures()) == []


def test_a_registry_that_fails_is_asked_again(box: Scenario, registry: Registry) -> None:
    registry.failure = RuntimeError("no such host")
    upsert(box, tax_identification_number="IT12345678901")
    assert checks(box) == [{"valid": False, "valid_format": True, "error": "RuntimeError: no such host"}]
    registry.failure = None
    box.travel_to("2026-01-15T12:05:00Z")
    assert now_taxed(box) == ["svc_eu_reverse_charge"]


def test_a_changed_number_is_checked_from_the_start(box: Scenario, registry: Registry) -> None:
    registry.answers = [rate_limited()]
    upsert(box, tax_identification_number="IT12345678901")
    box.travel_to("2026-01-15T12:12:00Z")
    upsert(box, tax_identification_number="DE123456789")
    kept = box.billing.customers.get("acme").vat_check
    assert kept is not None
    assert (kept.number, kept.attempts) == ("DE123456789", 1)
    # One check only is left: five minutes after its own first attempt.
    before = len(registry.asked)
    box.travel_to("2026-01-15T12:17:00Z")
    assert registry.asked[before:] == [VatNumber(prefix="DE", digits="123456789")]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"tax_identification_number": None}, "svc_eu_it_standard"),
        ({"country": "ES", "zipcode": "35001"}, "svc_eu_es_exception_canary_islands"),
    ],
)
def test_what_decides_at_once_ends_the_check(
    box: Scenario, registry: Registry, change: dict[str, Any], expected: str
) -> None:
    registry.answers = [rate_limited()]
    upsert(box, country="IT", tax_identification_number="IT12345678901")
    assert upsert(box, **change) == [expected]
    box.travel_to("2026-01-16T12:00:00Z")
    assert len(registry.asked) == 1
    assert now_taxed(box) == [expected]


def test_an_answer_that_comes_too_late_counts_for_nothing(box: Scenario, registry: Registry) -> None:
    registry.meanwhile = lambda: upsert(box, country="ES", zipcode="35001")
    upsert(box, country="IT", tax_identification_number="IT12345678901")
    assert now_taxed(box) == ["svc_eu_es_exception_canary_islands"]
    assert checks(box) == []
    assert box.billing.next_due(leased=True) is None


def test_without_a_registry_no_number_counts() -> None:
    with Scenario(now=NOW) as box:
        manage(box)
        upsert(box, country="IT", tax_identification_number="IT12345678901")
        assert now_taxed(box) == ["svc_eu_it_standard"]
        (sent,) = checks(box)
        assert (sent["valid"], sent["valid_format"]) == (False, True)
        assert sent["error"]
        upsert(box, tax_identification_number="nonsense")
        assert checks(box)[1] == {"valid": False, "valid_format": False}


def test_the_check_of_a_deleted_customer_goes_on(box: Scenario, registry: Registry) -> None:
    registry.answers = [rate_limited()]
    box.plan(amount_cents=10_000)
    upsert(box, country="IT", tax_identification_number="IT12345678901")
    box.subscribe()
    box.delete("/customers/acme")
    registry.answers = [registry.known]
    (pending,) = box.invoices()
    assert (pending["status"], pending["tax_status"]) == ("pending", "pending")
    box.travel_to("2026-01-15T12:05:00Z")
    (issued,) = box.invoices()
    assert (issued["status"], issued["taxes_amount_cents"]) == ("finalized", 0)
    assert [line["tax_code"] for line in issued["applied_taxes"]] == ["svc_eu_reverse_charge"]


def test_switching_off_ends_the_checks(box: Scenario, registry: Registry) -> None:
    registry.answers = [rate_limited()]
    upsert(box, country="IT")
    upsert(box, tax_identification_number="IT12345678901")
    manage(box, on=False)
    assert box.billing.customers.get("acme").vat_check is None
    box.travel_to("2026-01-16T12:00:00Z")
    assert (len(registry.asked), now_taxed(box)) == (1, ["svc_eu_it_standard"])


# Whatever happens to a customer

changes = st.fixed_dictionaries(
    {},
    optional={
        "country": st.sampled_from([None, "FR", "fr", "IT", "ES", "US"]),
        "zipcode": st.sampled_from([None, "35001", "97200", "10115"]),
        "tax_identification_number": st.sampled_from([None, "IT12345678901", "FR12345678901", "IT123", "DE123456789"]),
        "name": st.just("Acme"),
    },
)
answers: st.SearchStrategy[Callable[[], Any]] = st.sampled_from([unknown, rate_limited, lambda: Registry().known])


@pytest.mark.slow
@examples(50, deadline=None)
@given(st.lists(st.tuples(changes, answers), min_size=1, max_size=6))
def test_a_customer_ends_with_one_eu_tax_and_no_check(steps: list[tuple[dict[str, Any], Callable[[], Any]]]) -> None:
    registry = Registry()
    with Scenario(now=NOW, vat_registry=registry) as box:
        manage(box)
        for fields, answer in steps:
            registry.answers = [answer()]
            upsert(box, **fields)
        registry.answers = [registry.known]
        box.travel_to("2026-01-15T13:00:00Z")
        customer = box.billing.customers.get("acme")
        assert customer.vat_check is None
        (code,) = now_taxed(box)
        assert code.startswith("svc_eu_")
        # The same customer, made at once, pays the same tax.
        fields = {
            name: value
            for name in ("country", "zipcode", "tax_identification_number")
            if (value := getattr(customer, name)) is not None
        }
        if registry.answered_last(customer.tax_identification_number):
            upsert(box, "twin", **fields)
            assert now_taxed(box, "twin") == [code]


def test_known_answers_are_kept_in_full(box: Scenario, registry: Registry) -> None:
    registry.answers = [
        Registered(country_code="IT", vat_number="12345678901", details={"name": "ACME SPA", "address": "Via Roma 1"})
    ]
    upsert(box, tax_identification_number="IT12345678901")
    assert checks(box) == [
        {
            "valid": True,
            "valid_format": True,
            "name": "ACME SPA",
            "address": "Via Roma 1",
            "country_code": "IT",
            "vat_number": "12345678901",
        }
    ]


def test_drafts_are_recomputed_if_the_rate_of_a_tax_is_restored(box: Scenario) -> None:
    box.billing.customers.upsert(external_id="acme", billing_configuration={"invoice_grace_period": 3})
    box.plan(amount_cents=10_000, pay_in_advance=True)
    box.subscribe()
    assert [line["tax_rate"] for invoice in box.invoices() for line in invoice["applied_taxes"]] == [20]
    box.billing.writing(lambda work: taxes.update(work, "svc_eu_fr_standard", taxes.TaxInput(rate=Decimal(10))))
    box.travel_to("2026-01-15T12:06:00Z")
    assert [line["tax_rate"] for invoice in box.invoices() for line in invoice["applied_taxes"]] == [10]
    manage(box)
    box.travel_to("2026-01-15T12:12:00Z")
    assert [line["tax_rate"] for invoice in box.invoices() for line in invoice["applied_taxes"]] == [20]
    assert box.billing.reading(lambda work: work.tx.count(Tax, eq("auto_generated", True))) == 47


def test_the_reason_for_unknown_taxes_is_shown_until_they_are_known(box: Scenario, registry: Registry) -> None:
    registry.answers = [rate_limited(), rate_limited(), Registry.known]
    box.plan(amount_cents=1000, pay_in_advance=True)
    upsert(box, country="IT", tax_identification_number="IT12345678901", currency="EUR")
    box.subscribe()
    (waiting,) = box.invoices()
    for path, root in ((f"/invoices/{waiting['svc_id']}", "invoice"), ("/customers/acme", "customer")):
        (error,) = box.get(path)[root]["error_details"]
        assert error["error_code"] == "tax_error"
        assert error["details"] == {"tax_error": "rate_limit", "tax_error_message": "MS_MAX_CONCURRENT_REQ"}
    assert (waiting["status"], waiting["taxes_amount_cents"]) == ("pending", 0)
    box.travel_to("2026-01-15T12:30:00Z")
    for path, root in ((f"/invoices/{waiting['svc_id']}", "invoice"), ("/customers/acme", "customer")):
        assert box.get(path)[root]["error_details"] == []
    assert box.invoice(waiting["svc_id"])["status"] == "finalized"
