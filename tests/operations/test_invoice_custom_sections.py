"""Invoice custom sections as library calls: codes, changes, and what deleting one takes along."""

from __future__ import annotations

import pytest
from tests.scenarios import Scenario

from usagebill.core.errors import Invalid, NotFound
from usagebill.core.invoice_custom_sections import InvoiceCustomSection
from usagebill.operations import billing_entities, customers, invoice_custom_sections
from usagebill.operations.invoice_custom_sections import InvoiceCustomSectionInput
from usagebill.queries.customers import customer_by_external_id
from usagebill.requests.inputs import Paging

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")


def create(box: Scenario, code: str, **fields: str | None) -> InvoiceCustomSection:
    section = InvoiceCustomSectionInput(**{"name": code.title(), "code": code, **fields})
    return box.billing.writing(lambda work: invoice_custom_sections.create(work, section))


def test_sections_are_made_changed_and_listed_by_name(box: Scenario) -> None:
    create(box, "bank", details="IBAN", display_name="Bank account")
    create(box, "about")
    change = InvoiceCustomSectionInput(details="BIC", description=None)
    changed = box.billing.writing(lambda work: invoice_custom_sections.update(work, "bank", change))
    assert (changed.details, changed.display_name, changed.name) == ("BIC", "Bank account", "Bank")
    page = box.billing.reading(lambda work: invoice_custom_sections.list_all(work, Paging()))
    assert [item.code for item in page.items] == ["about", "bank"]


def test_names_and_codes_are_needed_and_codes_are_unique(box: Scenario) -> None:
    create(box, "bank")
    with pytest.raises(Invalid) as problem:
        create(box, "bank", name=None)
    assert problem.value.details == {"name": ["value_is_mandatory"], "code": ["value_already_exist"]}
    with pytest.raises(Invalid) as problem:
        create(box, "")
    assert problem.value.details == {"name": ["value_is_mandatory"], "code": ["value_is_mandatory"]}


def test_deleted_section_is_selected_nowhere(box: Scenario) -> None:
    create(box, "bank")
    create(box, "kept")
    codes = ("bank", "kept")
    entity_input = billing_entities.BillingEntityInput(invoice_custom_section_codes=codes)
    customer_input = customers.CustomerInput(external_id="acme", invoice_custom_section_codes=codes)
    box.billing.writing(lambda work: billing_entities.update(work, "default", entity_input))
    box.billing.writing(lambda work: customers.upsert(work, customer_input))
    box.billing.writing(lambda work: invoice_custom_sections.delete(work, "bank"))
    kept = box.billing.reading(lambda work: invoice_custom_sections.get(work, "kept")).id
    assert box.billing.reading(lambda work: customer_by_external_id(work, "acme")).invoice_custom_section_ids == (kept,)
    assert box.billing.reading(lambda work: customers.default_entity(work)).invoice_custom_section_ids == (kept,)
    with pytest.raises(NotFound, match="invoice_custom_section_not_found"):
        box.billing.reading(lambda work: invoice_custom_sections.get(work, "bank"))
    create(box, "bank")
