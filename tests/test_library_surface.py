"""What a program meets first: names of the package, what `dir` and `help` show, records as JSON, errors of values."""

from __future__ import annotations

import ast
import inspect
import json
from datetime import UTC, datetime
from typing import Any

import pytest

import usagebill
from usagebill import Billing, BillingError, Invalid, ManualClock
from usagebill.resources import RESOURCES

NOW = datetime(2024, 3, 1, tzinfo=UTC)


def test_errors_and_clock_are_names_of_the_package() -> None:
    errors = [name for name in dir(usagebill) if isinstance(getattr(usagebill, name), type)]
    assert {"Billing", "ManualClock", "NotFound", "PaymentRequired", "Settings"} <= set(errors)
    with Billing(clock=ManualClock(NOW)) as billing, pytest.raises(usagebill.NotFound) as refused:
        billing.customers.get("nobody")
    assert isinstance(refused.value, BillingError)


PUBLIC = {
    *("aio", "clock", "organization", "settings", "store"),
    *("audit", "close", "next_due", "on_immediate", "receive_notice", "run_due", "view", "within"),
    *("reading", "writing"),
}


def test_a_program_and_an_editor_are_shown_resources_and_a_dozen_methods() -> None:
    """What an editor shows is in the class: nothing hides a name from it but an underscore."""
    with Billing() as billing:
        assert {name for name in dir(billing) if not name.startswith("_")} == PUBLIC | set(RESOURCES)
    source = ast.parse(inspect.getsource(usagebill.billing))
    (defined,) = (node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "Billing")
    given = {
        node.attr for node in ast.walk(defined) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    methods = {node.name for node in defined.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in given | methods if not name.startswith("_")} == PUBLIC


def test_the_fields_of_an_event_are_arguments_that_help_lists() -> None:
    with Billing() as billing:
        named = list(inspect.signature(billing.events.create).parameters)
        assert named[:2] == ["transaction_id", "code"]
        assert {"external_subscription_id", "properties", "timestamp", "enforce", "on_duplicate"} <= set(named)
        assert "properties: Values for the metric" in (billing.events.create.__doc__ or "")


def test_a_record_is_shown_as_json() -> None:
    with Billing(clock=ManualClock(NOW)) as billing:
        customer = billing.customers.upsert(external_id="acme", currency="EUR")
        assert customer.json() == billing.view(customer)
        assert json.loads(json.dumps(customer.json()))["external_id"] == "acme"


def test_a_number_that_is_none_is_named_with_its_property() -> None:
    event: dict[str, Any] = {"transaction_id": "1", "code": "calls", "external_subscription_id": "s"}
    batch: Any = [event, {**event, "properties": {"tokens": float("inf")}}]
    with Billing() as billing:
        with pytest.raises(Invalid, match=r"properties\.tokens: nan is not a finite number"):
            billing.events.create(**event, properties={"tokens": float("nan")})
        with pytest.raises(Invalid, match=r"events\[1\].properties.tokens: inf is not a finite number"):
            billing.events.create_batch(batch)


def test_a_property_that_is_null_is_no_misspelling() -> None:
    with Billing() as billing:
        billing.billable_metrics.create(name="T", code="t", aggregation_type="sum_agg", field_name="tokens")
        plan: dict[str, Any] = {
            "name": "P",
            "code": "p",
            "interval": "monthly",
            "amount_cents": 0,
            "amount_currency": "EUR",
        }
        price: Any = {"billable_metric_code": "t", "charge_model": "standard", "properties": {"amount": "1"}}
        billing.plans.create(**plan, pay_in_advance=False, charges=[price])
        billing.customers.upsert(external_id="acme")
        billing.subscriptions.create(external_customer_id="acme", plan_code="p", external_id="s")
        for id, tokens in (("null", None), ("text", "many")):
            sent: dict[str, Any] = {"transaction_id": id, "code": "t", "external_subscription_id": "s"}
            billing.events.create(**sent, properties={"tokens": tokens})
        assert sorted(event.message for event in billing.events.unbilled()) == [
            "the metric 't' needs the property 'tokens', which is null or empty",
            "the property 'tokens' of the metric 't' is not a number such as 12.5: many",
        ]


def test_details_are_always_by_field() -> None:
    with Billing() as billing:
        metric: dict[str, Any] = {"name": "M", "code": "m", "aggregation_type": "sum_agg", "field_name": "ms"}
        billing.billable_metrics.create(**metric, expression="event.properties.a / event.properties.b")
        event: dict[str, Any] = {"transaction_id": "1", "code": "m", "external_subscription_id": "s"}
        with pytest.raises(Invalid) as refused:
            billing.events.create(**event, properties={"a": 1, "b": 0})
        assert list(refused.value.details) == ["base"]
