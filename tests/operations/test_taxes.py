"""Taxes: rates attached by code, and whom a change of one concerns."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.builders import add_charge, add_draft, add_fixed_charge, add_plan
from tests.json_asserts import missing, refused
from tests.money import gross
from tests.scenarios import Scenario, charge_on

from usagebill.core.add_ons import AddOn
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Charge, FixedCharge, MinimumCommitment, Plan
from usagebill.operations import customers
from usagebill.runtime.work import Reader, Work

NOW = datetime(2024, 3, 5, tzinfo=UTC)

pytestmark = pytest.mark.now(NOW)


def create(box: Scenario, **fields: object) -> dict[str, Any]:
    sent = {"name": "VAT", "code": "vat", "rate": "20", **fields}
    shown: dict[str, Any] = box.post("/taxes", tax=sent)["tax"]
    return shown


def change(box: Scenario, **fields: object) -> Any:
    return box.put("/taxes/vat", tax=fields)["tax"]


def draft_of(box: Scenario, external_id: str, *tax_ids: str) -> None:
    """A customer with these taxes of its own and one draft."""

    def act(work: Work) -> None:
        customer = customers.upsert(work, customers.CustomerInput(external_id=external_id))
        work.tx.replace(replace(customer, tax_ids=tax_ids))
        add_draft(work, customer)

    box.billing.writing(act)


def drafts_to_refresh(box: Scenario) -> set[str]:
    return box.billing.reading(
        lambda work: {invoice.number for invoice in work.tx.find(Invoice) if invoice.refresh_wanted}
    )


def test_created_tax_is_shown_with_its_exact_rate(box: Scenario) -> None:
    shown = create(box, rate="8.875", description="New York City")
    assert shown["rate"] == 8.875
    assert {key: shown[key] for key in ("name", "code", "description", "applied_to_organization", "created_at")} == {
        "name": "VAT",
        "code": "vat",
        "description": "New York City",
        "applied_to_organization": False,
        "created_at": "2024-03-05T00:00:00Z",
    }
    assert shown["applied_to_billing_entities_codes"] == []
    assert box.get("/taxes/vat")["tax"] == shown
    assert box.webhooks == []


def test_rate_may_be_a_number_or_its_text(box: Scenario) -> None:
    assert [create(box, code=str(rate), rate=rate)["rate"] for rate in (0, 19.6, "5")] == [0.0, 19.6, 5.0]


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"name": ""}, {"name": ["value_is_mandatory"]}),
        ({"code": None}, {"code": ["value_is_mandatory"]}),
        ({"rate": None}, {"rate": ["value_is_mandatory"]}),
        ({"rate": "a lot"}, {"rate": ["is not a number"]}),
    ],
)
def test_incomplete_tax_is_refused(box: Scenario, fields: dict[str, object], details: object) -> None:
    sent = {"name": "VAT", "code": "vat", "rate": "20", **fields}
    assert refused(box.send("POST", "/taxes", {"tax": sent})) == details


def test_code_is_unique_until_its_tax_is_deleted(box: Scenario) -> None:
    create(box)
    again = {"tax": {"name": "VAT", "code": "vat", "rate": "19"}}
    assert refused(box.send("POST", "/taxes", again)) == {"code": ["value_already_exist"]}
    box.delete("/taxes/vat")
    assert box.ask("POST", "/taxes", again)["tax"]["rate"] == 19.0


def test_applied_to_organization_means_the_default_billing_entity(box: Scenario) -> None:
    shown = create(box, applied_to_organization=True)
    assert shown["applied_to_organization"] is True
    assert shown["applied_to_billing_entities_codes"] == ["default"]
    assert change(box, name="Value added")["applied_to_organization"] is True
    assert change(box, applied_to_organization=False)["applied_to_billing_entities_codes"] == []
    assert change(box, applied_to_organization=True)["applied_to_billing_entities_codes"] == ["default"]


def test_lists_go_by_name(box: Scenario) -> None:
    for name in ("b", "c", "a"):
        create(box, name=name, code=name)
    assert [tax["code"] for tax in box.send("GET", "/taxes")[1]["taxes"]] == ["a", "b", "c"]


def test_changing_a_tax_refreshes_the_drafts_of_those_who_pay_it(box: Scenario) -> None:
    vat = create(box)["svc_id"]
    other = create(box, code="other")["svc_id"]
    draft_of(box, "own", vat)
    draft_of(box, "own_other", other)
    draft_of(box, "inherits")
    change(box, rate="21")
    assert drafts_to_refresh(box) == {"own-DRAFT"}
    change(box, applied_to_organization=True)
    assert drafts_to_refresh(box) == {"own-DRAFT", "inherits-DRAFT"}


def test_detaching_from_the_organization_refreshes_those_who_inherited_it(box: Scenario) -> None:
    create(box, applied_to_organization=True)
    draft_of(box, "inherits")
    change(box, applied_to_organization=False)
    assert drafts_to_refresh(box) == {"inherits-DRAFT"}


def test_deleted_tax_is_taken_off_everything_that_had_it(box: Scenario) -> None:
    vat = create(box, applied_to_organization=True)["svc_id"]
    kept = create(box, code="kept", applied_to_organization=True)["svc_id"]
    both = (vat, kept)
    draft_of(box, "own", *both)

    def tax_everything(work: Work) -> None:
        commitment = MinimumCommitment(
            id=work.new_id(), amount_cents=1, created_at=work.now, updated_at=work.now, tax_ids=both
        )
        plan = add_plan(work, tax_ids=both, minimum_commitment=commitment)
        add_charge(work, plan_id=plan.id, billable_metric_id=work.new_id(), tax_ids=both)
        add_fixed_charge(work, plan_id=plan.id, add_on_id=work.new_id(), tax_ids=both)

    box.billing.writing(tax_everything)
    box.add_on("a", 1, name="a", tax_codes=["vat", "kept"])
    shown = box.delete("/taxes/vat")["tax"]
    assert (shown["code"], shown["applied_to_organization"]) == ("vat", False)

    def everything(work: Reader) -> list[tuple[str, ...]]:
        kinds: tuple[Any, ...] = (BillingEntity, Customer, Plan, Charge, FixedCharge, AddOn)
        commitments = [plan.minimum_commitment for plan in work.tx.find(Plan)]
        return [taxed.tax_ids for kind in kinds for taxed in work.tx.find(kind)] + [
            commitment.tax_ids for commitment in commitments if commitment is not None
        ]

    assert box.billing.reading(everything) == [(kept,)] * 7
    assert drafts_to_refresh(box) == {"own-DRAFT"}
    assert missing(box.send("GET", "/taxes/vat")) == "tax"
    assert missing(box.send("DELETE", "/taxes/vat")) == "tax"


@pytest.mark.parametrize("level", ["plan", "charge", "customer"])
def test_a_draft_loses_a_deleted_tax_within_five_minutes_whatever_it_was_taxed_by(level: str) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        codes: dict[str, Any] = {"tax_codes": ["vat"]}
        create(box)
        box.customer(**(codes if level == "customer" else {}), billing_configuration={"invoice_grace_period": 3})
        charge = charge_on(box.metric("gb"), amount="1", **(codes if level == "charge" else {}))
        box.plan(charge, **(codes if level == "plan" else {}))
        box.subscribe()
        box.event("gb", value=10)
        box.travel_to("2024-02-01T01:00:00Z")
        assert [invoice["total_amount_cents"] for invoice in box.get("/invoices")["invoices"]] == [gross(10 * 100, 20)]
        box.delete("/taxes/vat")["tax"]
        box.travel_to("2024-02-01T01:05:00Z")
        assert [invoice["total_amount_cents"] for invoice in box.get("/invoices")["invoices"]] == [10 * 100]
