"""The library's results: records with all API fields, lists that continue, and JSON of anything."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.scenarios import Scenario, charge_on, fixed_charge_on, plan_fields
from usagebill import Billing
from usagebill.core.invoices.records import Invoice
from usagebill.fields import ChargeProperties
from usagebill.records import further_fields
from usagebill.resources import VIEWS


@pytest.fixture(scope="module")
def billed() -> Iterator[Scenario]:
    """acme has been billed for March: 31.00 of the plan, 6.00 of usage, and a seat."""
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        seat = box.add_on("seat", 1000)
        calls = charge_on(box.metric("calls"), amount="0.5", code="calls")
        box.plan(calls, amount_cents=3100, fixed_charges=[fixed_charge_on(seat, amount="10", units=1, code="seat")])
        box.subscribe()
        box.event("calls", value=12)
        box.travel_to("2024-04-01T01:00:00Z")
        yield box


def test_an_invoice_has_what_the_api_shows(billed: Scenario) -> None:
    (invoice,) = billed.billing.invoices.list().items
    assert invoice.total_due_amount_cents == 600 + 1000 + 3100
    assert sorted((fee.fee_type, fee.amount_cents) for fee in invoice.fees) == [
        ("charge", 600),
        ("fixed_charge", 1000),
        ("subscription", 3100),
    ]
    assert {fee.external_customer_id for fee in invoice.fees} == {"acme"}
    assert invoice.customer is not None
    assert invoice.customer["external_id"] == "acme"
    with pytest.raises(AttributeError, match="Invoice has no attribute total_duo"):
        invoice.total_duo  # type: ignore[attr-defined]  # noqa: B018


def test_help_says_what_the_fields_of_a_record_mean(billed: Scenario) -> None:
    (invoice,) = billed.billing.invoices.list().items
    help_text = inspect.getdoc(invoice) or ""
    assert "total_due_amount_cents: The amount due." in help_text
    assert "status: The status of the invoice." in help_text


def test_a_plan_has_its_charges_and_a_subscription_its_plan(billed: Scenario) -> None:
    plan = billed.billing.plans.get("basic")
    assert [(charge.code, charge.billable_metric_code) for charge in plan.charges] == [("calls", "calls")]
    assert [(charge.code, charge.units) for charge in plan.fixed_charges] == [("seat", 1)]
    subscription = billed.billing.subscriptions.get("sub")
    assert (subscription.plan.name, subscription.external_customer_id) == ("Basic", "acme")


@pytest.mark.parametrize("kind", [kind for kind in VIEWS if further_fields(kind)], ids=lambda kind: kind.__name__)
def test_no_field_of_the_api_hides_one_of_the_record(kind: type) -> None:
    assert further_fields(kind).isdisjoint(field.name for field in dataclasses.fields(kind))


def test_a_record_equals_the_one_that_is_stored(billed: Scenario) -> None:
    (invoice,) = billed.billing.invoices.list().items
    (stored,) = billed.billing.reading(lambda reader: reader.tx.find(Invoice))
    assert isinstance(invoice, Invoice)
    assert invoice == stored
    assert stored == invoice
    assert invoice != dataclasses.replace(stored, number="other")
    assert dataclasses.replace(invoice, number="other").number == "other"


def test_what_else_the_api_shows_is_read_once_and_kept() -> None:
    with Billing() as billing:
        metric = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        plan = billing.plans.create(**plan_fields(code="p"))
        assert plan.charges == ()
        prices: ChargeProperties = {"amount": "1"}
        billing.plans.create_charge(
            "p", billable_metric_id=metric.id, charge_model="standard", code="c", properties=prices
        )
        assert plan.charges == ()
        assert len(billing.plans.get("p").charges) == 1


def test_a_list_goes_on_by_itself() -> None:
    with Billing() as billing:
        for number in range(7):
            billing.taxes.create(name="T", code=f"t{number}", rate=number)
        page = billing.taxes.list(per_page=3)
        assert len(page.items) == 3
        assert sorted(tax.code for tax in page) == [f"t{number}" for number in range(7)]
        assert len(list(billing.taxes.list(page=2, per_page=3))) == 4
        assert list(billing.taxes.list(page=9)) == []


def test_what_is_added_at_the_front_of_a_list_makes_nothing_appear_twice() -> None:
    with Billing() as billing:
        for number in range(4):
            billing.customers.upsert(external_id=f"c{number}")
        met = []
        for customer in billing.customers.list(per_page=2):
            met.append(customer.external_id)
            if len(met) == 2:
                billing.customers.upsert(external_id="new")
        assert sorted(met) == ["c0", "c1", "c2", "c3"]


def test_anything_that_an_operation_gives_is_plain_json(billed: Scenario) -> None:
    billing = billed.billing
    (invoice,) = billing.invoices.list().items
    customer = billing.customers.get("acme")
    values: list[object] = [
        invoice,
        invoice.fees,
        billing.invoices.list(),
        billing.invoices.explain(invoice.id),
        billing.usage.current("acme", external_subscription_id="sub"),
        billing.usage.past("acme", external_subscription_id="sub"),
        billing.subscriptions.lifetime_usage("sub"),
        billing.subscriptions.get("sub"),
        billing.plans.get("basic"),
        billing.plans.merge_metadata("basic", metadata={"team": "growth"}),
        billing.events.list(),
        billing.fees.events(invoice.fees[0].id),
        billing.credit_notes.estimate(
            invoice_id=invoice.id, items=[{"fee_id": invoice.fees[0].id, "amount_cents": 10}]
        ),
        billing.pricing_units.create(name="Credits", code="credits", short_name="CR"),
        billing.api_keys.create(name="spare"),
        billing.customers.portal_url("acme"),
        billing.analytics.mrr(),
        billing.entitlements.list_of_plan("basic"),
        billing.organizations.get(),
        billing.taxes.create(name="T", code="t", rate="19.6"),
        customer,
        None,
    ]
    for result in values:
        shown = billing.view(result)
        assert json.loads(json.dumps(shown)) == shown, type(result)
    assert billing.view(billing.taxes.get("t"))["rate"] == 19.6
    with pytest.raises(TypeError, match="a document has no JSON"):
        billing.view(b"%PDF")
    with pytest.raises(TypeError, match="a object has no JSON"):
        billing.view(object())


def test_a_number_that_no_float_holds_is_shown_with_all_its_digits() -> None:
    with Billing() as billing:
        event = billing.events.create(transaction_id="1", code="m", properties={"n": Decimal("0.1234567890123456789")})
        assert billing.view(event)["properties"] == {"n": "0.1234567890123456789"}
        event = billing.events.create(transaction_id="2", code="m", properties={"n": Decimal("0.1"), "k": 10})
        assert billing.view(event)["properties"] == {"n": 0.1, "k": 10}


def test_prices_are_numbers_or_texts_and_floats_are_refused_by_name() -> None:
    with Billing() as billing:
        metric = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")

        def made(amount: object, code: str) -> object:
            plan = billing.plans.create(**plan_fields(charge_on(metric.id, amount=amount), code=code))
            return plan.charges[0].properties["amount"]

        assert [made(2, "a"), made(Decimal("0.250"), "b"), made("1e-3", "c")] == ["2", "0.250", "1e-3"]
        with pytest.raises(TypeError, match=r"charges\[0\]\.properties\.amount is the float 0\.25"):
            made(0.25, "d")
        tiers: Any = [{"from_value": 0, "to_value": None, "per_unit_amount": 0.1, "flat_amount": "0"}]
        with pytest.raises(TypeError, match=r"properties\.volume_ranges\[0\]\.per_unit_amount is the float"):
            billing.plans.create_charge(
                "a",
                billable_metric_id=metric.id,
                charge_model="volume",
                code="v",
                properties={"volume_ranges": tiers},
            )
        assert billing.plans.list().total_count == 3
