"""Fields that nothing reads: refused by the library, by the API on request, and otherwise logged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast, get_args, get_origin

import pytest
from structlog.testing import capture_logs

from tests.cases import each
from tests.input_fields import nested, put
from tests.scenarios import Scenario, charge_on, plan_fields
from usagebill import Billing
from usagebill.core.errors import Invalid
from usagebill.fields import EventFields, ExpressionEventFields
from usagebill.http.app import endpoints
from usagebill.http.openapi import document
from usagebill.process.settings import Settings
from usagebill.requests.reference import hints_of, is_price
from usagebill.requests.reference.structures import MODEL_PROPERTIES
from usagebill.resources import RESOURCES
from usagebill.resources.bindings import Operation

pytestmark = pytest.mark.beyond_reference

METRIC = "00000000-0000-0000-0000-000000000000"
RANGES = [{"from_value": 0, "to_value": None, "per_unit_amount": "1", "flat_amount": "0"}]


def plan(**fields: Any) -> dict[str, Any]:
    return {**plan_fields(amount_cents=100), **fields}


def charged(**fields: Any) -> dict[str, Any]:
    charge = {"billable_metric_id": METRIC, "charge_model": "standard", "properties": {"amount": "1"}}
    return plan(charges=[{**charge, **fields}])


# Resource and verb, what is sent, the path of what is wrong, and what may have been meant.
UNKNOWN: dict[str, tuple[str, dict[str, Any], str, str | None]] = {
    "a field": ("plans.create", plan(intervall="monthly"), "intervall", "interval"),
    "that stands inside another": (
        "customers.upsert",
        {"external_id": "acme", "document_locale": "fr"},
        "document_locale",
        "billing_configuration.document_locale",
    ),
    "of a charge": ("plans.create", charged(propertis={}), "charges[0].propertis", "properties"),
    "of a filter": ("plans.create", charged(filters=[{"valus": {}}]), "charges[0].filters[0].valus", "values"),
    "a property": ("plans.create", charged(properties={"amont": "1"}), "charges[0].properties.amont", "amount"),
    "a property of another model": (
        "plans.create",
        charged(properties={"amount": "1", "package_size": 10}),
        "charges[0].properties.package_size",
        None,
    ),
    "of a range": (
        "plans.create",
        charged(charge_model="graduated", properties={"graduated_ranges": [*RANGES, {"flat_amont": "0"}]}),
        "charges[0].properties.graduated_ranges[1].flat_amont",
        "flat_amount",
    ),
    "a property of a filter": (
        "plans.create",
        charged(filters=[{"values": {"a": ["b"]}, "properties": {"volume_ranges": []}}]),
        "charges[0].filters[0].properties.volume_ranges",
        None,
    ),
    "of a commitment": (
        "plans.create",
        plan(minimum_commitment={"amount_cent": 1}),
        "minimum_commitment.amount_cent",
        "amount_cents",
    ),
    "of a threshold": (
        "plans.create",
        plan(usage_thresholds=[{"amount_cents": 1}, {"recuring": True}]),
        "usage_thresholds[1].recuring",
        "recurring",
    ),
    "of a customer's configuration": (
        "customers.upsert",
        {"external_id": "acme", "billing_configuration": {"invoice_grace_perod": 3}},
        "billing_configuration.invoice_grace_perod",
        "invoice_grace_period",
    ),
    "of a metric's filter": (
        "billable_metrics.create",
        {"name": "M", "code": "m", "aggregation_type": "count_agg", "filters": [{"key": "a", "value": ["b"]}]},
        "filters[0].value",
        "values",
    ),
    "of an override": (
        "subscriptions.create",
        {"external_customer_id": "acme", "plan_code": "basic", "plan_overrides": {"amount_cnts": 1}},
        "plan_overrides.amount_cnts",
        "amount_cents",
    ),
    "of a one-off fee": (
        "invoices.create_one_off",
        {"external_customer_id": "acme", "fees": [{"add_on_cod": "a"}]},
        "fees[0].add_on_cod",
        "add_on_code",
    ),
    "of a wallet's rule": (
        "wallets.create",
        {"external_customer_id": "acme", "rate_amount": "1", "recurring_transaction_rules": [{"triger": "interval"}]},
        "recurring_transaction_rules[0].triger",
        "trigger",
    ),
    "of a payment method": (
        "wallets.create",
        {"external_customer_id": "acme", "payment_method": {"payment_method_typ": "manual"}},
        "payment_method.payment_method_typ",
        "payment_method_type",
    ),
    "of an event": (
        "events.create",
        {"transaction_id": "a", "code": "m", "propertis": {"gb": 1}},
        "propertis",
        "properties",
    ),
}
CUT: dict[str, tuple[str, dict[str, Any], str]] = {
    "cents of a plan": ("plans.create", plan(amount_cents=9.99), "amount_cents"),
    "cents as text": ("plans.create", plan(amount_cents="9.99"), "amount_cents"),
    "a commitment": ("plans.create", plan(minimum_commitment={"amount_cents": 0.5}), "minimum_commitment.amount_cents"),
    "a charge's minimum": ("plans.create", charged(min_amount_cents=1.5), "charges[0].min_amount_cents"),
    "a threshold": ("plans.create", plan(usage_thresholds=[{"amount_cents": 1.5}]), "usage_thresholds[0].amount_cents"),
    "an add-on": (
        "add_ons.create",
        {"name": "A", "code": "a", "amount_cents": 9.99, "amount_currency": "EUR"},
        "amount_cents",
    ),
    "days": ("customers.upsert", {"external_id": "acme", "net_payment_term": 1.5}, "net_payment_term"),
}
NEGATIVE: dict[str, tuple[str, dict[str, Any], str]] = {
    "a plan": ("plans.create", plan(amount_cents=-1), "amount_cents"),
    "a commitment": ("plans.create", plan(minimum_commitment={"amount_cents": -1}), "amount_cents"),
    "a threshold": ("plans.create", plan(usage_thresholds=[{"amount_cents": -1}]), "amount_cents"),
    "an add-on": (
        "add_ons.create",
        {"name": "A", "code": "a", "amount_cents": -5, "amount_currency": "EUR"},
        "amount_cents",
    ),
}


@pytest.fixture
def billing() -> Iterator[Billing]:
    with Billing(deliver=False) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        yield billing


def call(billing: Billing, verb: str, fields: dict[str, Any]) -> Any:
    resource, name = verb.split(".")
    return getattr(getattr(billing, resource), name)(**fields)


@pytest.mark.parametrize(("verb", "fields", "path", "near"), UNKNOWN.values(), ids=UNKNOWN)
def test_the_library_refuses_unknown_names_at_every_depth(
    billing: Billing, verb: str, fields: dict[str, Any], path: str, near: str | None
) -> None:
    with pytest.raises(TypeError) as refused:
        call(billing, verb, fields)
    assert str(refused.value) == f"unknown argument {path}" + (f"; did you mean {near}?" if near else "")


def test_events_of_a_batch_are_looked_at_too(billing: Billing) -> None:
    events: list[EventFields] = [{"transaction_id": str(number), "code": "m"} for number in range(3)]
    with pytest.raises(TypeError, match="unknown argument propertis"):
        billing.events.ingest([*events, cast(Any, {"transaction_id": "x", "code": "m", "propertis": {}})])
    with pytest.raises(TypeError, match="ingest takes a list of events; create takes one"):
        billing.events.ingest(cast(Any, events[0]))
    with pytest.raises(TypeError, match="an event is an object with its fields, not 'calls'"):
        billing.events.ingest([*events, cast(Any, "calls")])
    assert billing.events.list().total_count == 0


@pytest.mark.parametrize(("verb", "fields", "path"), CUT.values(), ids=CUT)
def test_the_library_refuses_fractions_where_none_can_be(
    billing: Billing, verb: str, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(Invalid) as refused:
        call(billing, verb, fields)
    assert refused.value.details == {path: ["value_is_not_an_integer"]}


@pytest.mark.parametrize(("verb", "fields", "field"), NEGATIVE.values(), ids=NEGATIVE)
def test_negative_cents_are_refused_where_none_can_be(
    billing: Billing, verb: str, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        call(billing, verb, fields)
    assert refused.value.details == {field: ["value_is_out_of_range"]}


@pytest.mark.parametrize(
    "fields",
    [
        plan(amount_cents=100.0),
        plan(amount_cents="100"),
        plan(metadata={"anything": "goes"}),
        plan(charges=[]),
        plan(minimum_commitment=None),
    ],
)
def test_what_is_read_is_not_refused(billing: Billing, fields: dict[str, Any]) -> None:
    assert billing.plans.create(**fields).code == "basic"


def test_null_properties_of_other_models_are_what_clients_send(billing: Billing) -> None:
    metric = billing.billable_metrics.create(name="M", code="m", aggregation_type="count_agg")
    properties = {"amount": "1", "package_size": None, "graduated_ranges": None, "pricing_group_keys": ["cloud"]}
    made = billing.plans.create(**charged(billable_metric_id=metric.id, properties=properties))
    assert made.code == "basic"


def test_properties_of_events_hold_whatever_their_sender_likes(billing: Billing) -> None:
    event: ExpressionEventFields = {"code": "m", "properties": {"gb": 1}}
    assert billing.billable_metrics.evaluate_expression(expression="event.properties.gb + 1", event=event)


Place = tuple[str | int, ...]


def objects_in(kind: type, above: Place = (), model: str = "standard") -> Iterator[tuple[Place, str]]:
    """Every place in an input at which an object with known fields stands, and the charge model that prices there."""
    yield above, model
    for name, hint in hints_of(kind).items():
        if is_price(hint):
            for priced in MODEL_PROPERTIES:
                if priced != "custom" and MODEL_PROPERTIES[priced] in get_args(hint):
                    yield from objects_in(MODEL_PROPERTIES[priced], (*above, name), priced)
        elif (inner := nested(hint)) and (get_origin(hint) in (list, tuple) or hint is inner[0]):
            yield from objects_in(inner[0], (*above, name, 0) if inner[1] else (*above, name), model)


def planted(kind: type, place: Place, model: str) -> tuple[dict[str, Any], str]:
    """A request with an unknown field at a place, and how that is named."""
    body: dict[str, Any] = put({}, place, {"planted": 1})
    for depth, step in enumerate(place):
        if step == "properties" and (depth > 1 or "charge_model" in hints_of(kind)):
            owner = place[:depth] if "filters" not in place else place[: place.index("filters")]
            body = put(body, (*owner, "charge_model"), model)
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in (*place, "planted"))
    return body, steps.removeprefix(".")


# Classes that anything may stand in.
OPEN = {"CloudEventFields"}
OPERATIONS = [
    (operation, kind)
    for resource in RESOURCES.values()
    for operation in vars(resource).values()
    if isinstance(operation, Operation)
    for kind in operation.inputs.values()
    if not any(inner[0].__name__ in OPEN for hint in hints_of(kind).values() if (inner := nested(hint)))
]


@each("operation,kind", OPERATIONS, ids=lambda case: f"{case[0].name} {case[1].__name__}")
def test_no_operation_of_the_library_ignores_an_unknown_field(operation: Operation[Any], kind: type) -> None:
    for place, model in objects_in(kind):
        body, path = planted(kind, place, model)
        with pytest.raises(TypeError, match=re.escape(f"unknown argument {path}")):
            operation.arguments(["x"] * len(operation.path), body)


# HTTP

STRICT = {"usagebill-strict": "true"}


def test_the_api_is_lenient_and_says_so_in_the_log() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box, capture_logs() as logs:
        box.customer()
        assert logs == []
        metric = box.metric("m", "count_agg")
        body = {"plan": plan(charges=[{**charge_on(metric, amount="1"), "propertis": {}}], amount_cents=9.99)}
        status, shown = box.request("POST", "/api/v1/plans", json=body)
        assert (status, shown["plan"]["amount_cents"]) == (200, 9)
        (line,) = [line for line in logs if line["event"] == "ignored_fields"]
        assert line["log_level"] == "warning"
        assert (line["method"], line["path"]) == ("POST", "/plans")
        assert line["fields"] == ["charges[0].propertis"]
        assert line["cut_to_integers"] == ["amount_cents"]
        logs.clear()
        # Once an hour, not with each request.
        for number in range(3):
            event = {"transaction_id": str(number), "code": "m", "external_subscription_id": "s", "propertis": {}}
            assert box.request("POST", "/api/v1/events", json={"event": event})[0] == 200
        assert [line["fields"] for line in logs if line["event"] == "ignored_fields"] == [["propertis"]]
        box.travel_to("2024-03-05T11:00:01Z")
        box.request("POST", "/api/v1/events", json={"event": {**event, "transaction_id": "x"}})
        assert len([line for line in logs if line["event"] == "ignored_fields"]) == 2


REFUSED: dict[str, tuple[str, str, Any, dict[str, list[str]]]] = {
    "a field": ("POST", "/customers", {"customer": {"external_id": "a", "nam": "A"}}, {"nam": ["unknown_field"]}),
    "beside the root": (
        "POST",
        "/customers",
        {"customer": {"external_id": "a"}, "custom": 1},
        {"custom": ["unknown_field"]},
    ),
    "of an event": (
        "POST",
        "/events",
        {"event": {"transaction_id": "a", "code": "m", "propertis": {}}},
        {"propertis": ["unknown_field"]},
    ),
    "in a batch": (
        "POST",
        "/events/batch",
        {"events": [{"transaction_id": "a", "code": "m"}, {"transaction_id": "b", "code": "m", "cod": 1}]},
        {"events[1].cod": ["unknown_field"]},
    ),
    "a parameter of a list": ("GET", "/customers?currencys[]=EUR", None, {"currencys": ["unknown_field"]}),
    "a fraction of a cent": (
        "POST",
        "/add_ons",
        {"add_on": {"name": "A", "code": "a", "amount_cents": 9.99, "amount_currency": "EUR"}},
        {"amount_cents": ["value_is_not_an_integer"]},
    ),
}


@pytest.mark.parametrize(("verb", "path", "body", "errors"), REFUSED.values(), ids=REFUSED)
def test_a_strict_request_gets_422_and_changes_nothing(
    verb: str, path: str, body: Any, errors: dict[str, list[str]]
) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        status, refused = box.request(verb, f"/api/v1{path}", json=body, headers=STRICT)
        assert (status, refused["code"], refused["error_details"]) == (422, "validation_errors", errors)
        if "propertis" in errors:
            assert refused["message"] == "propertis: is not a field; did you mean properties?"
        assert box.get("/customers")["meta"]["total_count"] == 0
        assert box.get("/events")["meta"]["total_count"] == 0
        assert box.request(verb, f"/api/v1{path}", json=body)[0] == 200


def test_strictness_can_be_the_servers_rule() -> None:
    body = {"customer": {"external_id": "a", "nam": "A"}}
    with Scenario(now="2024-03-05T10:00:00Z", settings=Settings(strict=True)) as box:
        assert box.request("POST", "/api/v1/customers", json=body)[0] == 422
        lenient = {"usagebill-strict": "false"}
        assert box.request("POST", "/api/v1/customers", json=body, headers=lenient)[0] == 200
        assert json.dumps(box.get("/customers?per_page=1&page=1"))


def shown_objects(schema: Any, schemas: Any, above: Place = ()) -> Iterator[Place]:
    """The way to every object with known fields in a described body."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "properties" in schema:
        yield above
        for name, field in schema["properties"].items():
            if name != "properties":  # those of charge models are looked at above
                yield from shown_objects(field, schemas, (*above, name))
    elif "items" in schema:
        yield from shown_objects(schema["items"], schemas, (*above, 0))


def bodies() -> Iterator[Any]:
    described = document(endpoints())
    for endpoint in endpoints():
        operation = described["paths"][f"/api/v1{endpoint.path}"][endpoint.method.lower()]
        if endpoint.body is not None and endpoint.many is None:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            places = list(shown_objects(schema, described["components"]["schemas"]))
            yield endpoint.method, endpoint.path, places


@pytest.fixture(scope="module")
def strict_box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T10:00:00Z", settings=Settings(strict=True)) as box:
        yield box


@each("method,path,places", bodies(), ids=lambda case: f"{case[0]} {case[1]}")
def test_no_strict_request_has_an_unknown_field_ignored(
    strict_box: Scenario, method: str, path: str, places: list[Place]
) -> None:
    assert places
    root = places[1][:1] if len(places) > 1 else ()
    for place in places:
        body = put({}, place, {"planted": 1})
        if place and place[:1] != root:
            body = put(body, root, {"external_id": "sub"})  # options beside the resource
        status, refused = strict_box.request(method, f"/api/v1{path}", json=body)
        assert status == 422, (place, refused)
        named = [field for field in refused["error_details"] if field.endswith("planted")]
        assert named, (place, refused)
        assert refused["error_details"][named[0]] == ["unknown_field"]


def test_a_cloud_event_may_have_extensions() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/meter", "type": "calls", "subject": "sub", "traceparent": "0"}
    with Scenario(now="2024-03-05T10:00:00Z", settings=Settings(strict=True)) as box:
        assert box.request("POST", "/api/v1/events/cloudevents", json=event)[0] == 200
        assert box.request("POST", "/api/v1/events/cloudevents", json=[{**event, "id": "2"}])[0] == 200
