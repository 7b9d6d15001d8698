"""Numbers of invoices: one sequence for each customer, one for the billing entity, none with gaps or repeats."""

from __future__ import annotations

import pytest
from tests.scenarios import Scenario

from usagebill.core.invoices.records import Invoice

pytestmark = pytest.mark.now("2024-01-31T23:30:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    box.billing.billing_entities.update("default", document_number_prefix="acme")
    box.billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
    for name in ("one", "two"):
        box.billing.customers.upsert(external_id=name, currency="EUR", account_type="customer")
    box.billing.customers.upsert(external_id="partner", currency="EUR", account_type="partner")
    return box


def issue(box: Scenario, customer: str) -> Invoice:
    return box.billing.invoices.create_one_off(external_customer_id=customer, fees=[{"add_on_code": "setup"}])


def by_entity(box: Scenario, on: bool = True) -> None:
    box.billing.billing_entities.update("default", document_numbering="per_billing_entity" if on else "per_customer")


def test_each_customer_s_invoices_are_counted(box: Scenario) -> None:
    numbers = [issue(box, customer).number for customer in ("one", "two", "one", "partner")]
    assert numbers == ["ACME-001-001", "ACME-002-001", "ACME-001-002", "ACME-003-001"]


def test_an_entity_counts_the_invoices_of_all_its_customers_since_ever(box: Scenario) -> None:
    issue(box, "one")
    by_entity(box)
    assert [issue(box, customer).number for customer in ("two", "one")] == ["ACME-202401-002", "ACME-202401-003"]
    by_entity(box, on=False)
    assert [issue(box, customer).number for customer in ("two", "one")] == ["ACME-002-002", "ACME-001-003"]
    by_entity(box)
    assert issue(box, "one").number == "ACME-202401-006"


def test_the_sequence_of_an_entity_goes_on_from_all_that_was_issued_before(box: Scenario) -> None:
    """Three customers, an invoice a month each; the prefix and the way of counting change from month to month."""
    box.billing.customers.upsert(external_id="three", currency="EUR")

    def month(start: str, *customers: str) -> list[str]:
        box.jump_to(start)
        return [issue(box, customer).number for customer in customers or ("one", "two", "three")]

    assert month("2023-07-05T00:00:00Z") == ["ACME-001-001", "ACME-002-001", "ACME-004-001"]
    assert month("2023-08-05T00:00:00Z") == ["ACME-001-002", "ACME-002-002", "ACME-004-002"]
    assert month("2023-09-05T00:00:00Z") == ["ACME-001-003", "ACME-002-003", "ACME-004-003"]
    by_entity(box)
    box.billing.billing_entities.update("default", document_number_prefix="new")
    assert month("2023-10-05T00:00:00Z") == ["NEW-202310-010", "NEW-202310-011", "NEW-202310-012"]
    by_entity(box, on=False)
    assert month("2023-11-05T00:00:00Z") == ["NEW-001-005", "NEW-002-005", "NEW-004-005"]
    assert month("2023-11-06T00:00:00Z", "two") == ["NEW-002-006"]
    by_entity(box)
    assert month("2023-12-05T00:00:00Z") == ["NEW-202312-017", "NEW-202312-018", "NEW-202312-019"]
    assert month("2024-01-05T00:00:00Z") == ["NEW-202401-020", "NEW-202401-021", "NEW-202401-022"]


def test_self_billed_invoices_stay_out_of_the_entity_s_sequence(box: Scenario) -> None:
    by_entity(box)
    assert issue(box, "partner").number == "ACME-003-001"
    assert issue(box, "one").number == "ACME-202401-001"


def test_the_month_is_that_of_the_entity_s_time_zone_and_numbers_go_on(box: Scenario) -> None:
    by_entity(box)
    assert issue(box, "one").number == "ACME-202401-001"
    box.billing.billing_entities.update("default", timezone="Asia/Tokyo")
    assert issue(box, "one").number == "ACME-202402-002"


def test_what_is_refused_takes_no_number(box: Scenario) -> None:
    issue(box, "one")
    refused = {"external_customer_id": "one", "fees": [{"add_on_code": "setup", "units": "many"}]}
    assert box.send("POST", "/invoices", {"invoice": refused})[0] == 422
    assert issue(box, "one").number == "ACME-001-002"
