"""The reference is complete and correct: every field is described, every example is accepted, every required field is
needed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_type_hints, is_typeddict

import pytest
from jsonschema import Draft202012Validator
from tests.cases import each
from tests.input_fields import nested
from tests.sample_records import VERBS
from tests.scenarios import Scenario

from usagebill.core.invoices.payment_states import PaymentEvent
from usagebill.core.payments import Payment
from usagebill.http.app import endpoints
from usagebill.http.endpoints import Endpoint
from usagebill.http.openapi import document, operation_name
from usagebill.operations.payment_status import move_payment
from usagebill.queries.payments import paid_invoices
from usagebill.requests.reference import bare, field_of, hints_of, required_of, shown_field
from usagebill.requests.reference.answers import SHOWN
from usagebill.requests.reference.examples import EXAMPLES, IDS
from usagebill.requests.reference.fields import FIELDS
from usagebill.requests.reference.forms import FORMS
from usagebill.requests.reference.required import REQUIRED
from usagebill.requests.reference.structures import MODEL_PROPERTIES, EventFields
from usagebill.resources import RESOURCES, VIEWS
from usagebill.resources.bindings import Operation
from usagebill.runtime.work import Work

# The value of each `{name}` of a path in the sequence of examples, by the first part of the path if needed.
CODES = {
    "add_ons": "setup",
    "billable_metrics": "storage",
    "billing_entities": "default",
    "coupons": "welcome",
    "dunning_campaigns": "reminders",
    "features": "seats",
    "plans": "pro",
    "taxes": "vat",
    "customers": "second",
}
NAMED = {
    "wallet_code": "second",
    "charge_code": "storage",
    "fixed_charge_code": "support",
    "external_customer_id": "acme",
}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(endpoints())


def kinds() -> Iterator[type]:
    """Every input class that a request holds, and the parts of each."""
    waiting = [kind for endpoint in endpoints() for kind in (endpoint.body, endpoint.query) if kind is not None]
    waiting += [*MODEL_PROPERTIES.values(), EventFields]
    operations = [value for kind in RESOURCES.values() for value in vars(kind).values() if isinstance(value, Operation)]
    waiting += [kind for operation in operations for kind in operation.inputs.values()]
    met: set[type] = set()
    while waiting:
        kind = waiting.pop()
        if kind in met:
            continue
        met.add(kind)
        yield kind
        waiting += [inner[0] for hint in hints_of(kind).values() if (inner := nested(hint))]


def by_name(kind: object) -> str:
    return str(kind)


@each("kind", sorted(kinds(), key=by_name))
def test_no_field_is_without_a_description(kind: type) -> None:
    for name, hint in hints_of(kind).items():
        field = field_of(kind, name)
        assert field.about.endswith("."), name
        assert bare(hint) is not object, (
            f"{kind.__name__}.{name}: say in usagebill.requests.reference.structures what it takes"
        )


def test_no_description_is_of_a_field_that_is_gone() -> None:
    known = {kind.__name__: hints_of(kind) for kind in kinds()}
    names = {name for fields in known.values() for name in fields}
    gone = [key for key in FIELDS if "." not in key and key not in names]
    gone += [key for key in FIELDS if "." in key and key.split(".")[1] not in known.get(key.split(".")[0], {})]
    assert gone == []


def fields_below(schema: Any, place: str, schemas: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[Any]:
    """Every field of a schema at every depth: its place and its description."""
    if isinstance(schema, list):
        for option in schema:
            yield from fields_below(option, place, schemas, above)
    if not isinstance(schema, dict):
        return
    name = schema.get("$ref", "").rpartition("/")[2]
    if name:
        if name not in above:
            yield from fields_below(schemas[name], f"{place}<{name}>", schemas, (*above, name))
        return
    for field, described in schema.get("properties", {}).items():
        yield f"{place}.{field}", described
        yield from fields_below(described, f"{place}.{field}", schemas, above)
    for part in ("items", "additionalProperties", "anyOf", "oneOf", "allOf", "then"):
        yield from fields_below(schema.get(part), place, schemas, above)


def test_no_field_of_an_answer_or_message_is_without_a_description(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    answers = [
        (f"{method} {path} {status}", content["schema"])
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        for status, answer in operation["responses"].items()
        for content in (answer if "$ref" not in answer else described["components"]["responses"][status_name(answer)])
        .get("content", {})
        .values()
    ]
    sent = [
        (name, hook["post"]["requestBody"]["content"]["application/json"]["schema"])
        for name, hook in described["webhooks"].items()
    ]
    met: set[str] = set()
    for place, schema in [*answers, *sent]:
        for field, shown in fields_below(schema, place, schemas):
            about = shown.get("description", "")
            assert about.endswith("."), field
            # The effect of a list's filter does not describe the listed field.
            assert not about.startswith(("Only", "The same as", "Previews")), field
            met.add(field.rpartition("<")[2])
    assert len(met) > 2_000


def library_views() -> list[type]:
    """The views of records, including those that only the library has."""
    shown: list[Any] = [get_type_hints(view).get("return") for view in VIEWS.values()]
    return [kind for kind in shown if is_typeddict(kind)]


@each("view", library_views(), ids=by_name)
def test_no_field_of_a_record_is_without_a_description(view: type) -> None:
    for field in get_type_hints(view):
        about = shown_field(view.__name__.removesuffix("View"), field).about
        assert about.endswith("."), field
        assert not about.startswith(("Only", "The same as", "Previews")), field


def status_name(answer: dict[str, Any]) -> str:
    return str(answer["$ref"]).rpartition("/")[2]


def test_no_description_of_an_answer_is_of_a_field_that_is_gone(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    forms = {name: FORMS.get(name, name) for name in schemas}
    shown: dict[str, set[str]] = {}
    for name, schema in schemas.items():
        for known in (name, forms[name]):
            shown.setdefault(known, set()).update(schema.get("properties", ()))
    for view in library_views():
        shown.setdefault(view.__name__.removesuffix("View"), set()).update(get_type_hints(view))
    fields = {field for names in shown.values() for field in names}
    gone = [key for key in SHOWN if "." not in key and key not in fields]
    gone += [key for key in SHOWN if "." in key and key.split(".")[1] not in shown.get(key.split(".")[0], ())]
    assert gone == []
    # A meaning shared by requests and answers is described once.
    known = {name: field.about for name, field in SHOWN.items() if not isinstance(field, str)}
    assert [name for name, about in known.items() if name in FIELDS and FIELDS[name].about == about] == []
    assert [name for name in FORMS if name not in schemas] == []


def test_no_requirement_is_of_an_operation_that_is_gone() -> None:
    library = {f"{name}.{verb}" for name, kind in RESOURCES.items() for verb in vars(kind)}
    assert set(REQUIRED) <= library | {operation_name(endpoint) for endpoint in endpoints()}


def test_every_parameter_and_field_of_the_description_says_what_it_is(described: dict[str, Any]) -> None:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            for parameter in operation["parameters"]:
                assert parameter["description"], (method, path, parameter["name"])
            if "requestBody" in operation:
                assert "example" in operation["requestBody"]["content"]["application/json"], (method, path)


def resolved(described: dict[str, Any], schema: Any) -> dict[str, Any]:
    return {**schema, "components": described["components"]}


def body_schema(described: dict[str, Any], method: str, path: str) -> Any:
    operation = described["paths"][f"/api/v1{path}"][method.lower()]
    return operation["requestBody"]["content"]["application/json"]["schema"]


class Story:
    """The examples, sent in order to one sandbox: each is accepted, and none lacks what its operation needs."""

    def __init__(self, box: Scenario) -> None:
        self.box = box
        self.ids: dict[str, str] = {}

    def real(self, body: Any) -> Any:
        """A body with the ids that the answers gave."""
        if isinstance(body, dict):
            return {key: self.real(value) for key, value in body.items()}
        if isinstance(body, list):
            return [self.real(item) for item in body]
        names = {value: name for name, value in IDS.items()}
        return self.ids[names[body]] if isinstance(body, str) and body in names else body

    def path(self, endpoint: Endpoint) -> str:
        resource = endpoint.path.split("/")[1]
        path = endpoint.path
        if "{filter_id}" in path:
            parent = "/plans/pro" if resource == "plans" else "/subscriptions/acme-1"
            filters = self.box.get(f"{parent}/charges/storage/filters")["filters"]
            path = path.replace("{filter_id}", filters[0]["svc_id"])
        alert = "low" if "/wallets/" in path else "watch"
        path = path.replace("/alerts/{code}", f"/alerts/{alert}")
        limit = {"customers": "budget", "subscriptions": "monthly", "plans": "free"}.get(resource, "")
        path = path.replace("{spend_limit_code}", limit)
        if path.endswith("/anonymize"):
            path = path.replace("{external_id}", "leaver")
        path = path.replace("{external_id}", "acme-1" if resource == "subscriptions" else "acme")
        for name, value in {**NAMED, **self.ids, "code": CODES.get(resource, "")}.items():
            path = path.replace("{" + name + "}", value)
        return path

    def learn(self, endpoint: Endpoint, answer: Any) -> None:
        """Keep the ids that later examples need, and bring about what they are about."""
        box = self.box
        if endpoint.path == "/billable_metrics":
            self.ids["billable_metric"] = answer["billable_metric"]["svc_id"]
        elif endpoint.path == "/subscriptions":
            single: dict[str, Any] = {"charge_model": "standard", "code": "single", "properties": {"amount": "1"}}
            single |= {"billable_metric_id": self.ids["billable_metric"], "pay_in_advance": True, "invoiceable": False}
            box.post("/plans", plan={**EXAMPLES["POST /plans"]["plan"], "code": "other", "charges": [single]})
            box.post(
                "/subscriptions",
                subscription={"external_customer_id": "acme", "plan_code": "other", "external_id": "acme-2"},
            )
        elif endpoint.path == "/webhook_endpoints":
            self.ids["id"] = answer["webhook_endpoint"]["svc_id"]
        elif endpoint.path == "/api_keys":
            self.ids["api_key_id"] = answer["api_key"]["svc_id"]
        elif endpoint.path == "/wallets":
            self.ids["wallet"] = self.ids["wallet_id"] = answer["wallet"]["svc_id"]
        elif endpoint.path == "/invoices":
            invoice = answer["invoice"]
            self.ids |= {"invoice": invoice["svc_id"], "invoice_id": invoice["svc_id"]}
            self.ids |= {"fee": invoice["fees"][0]["svc_id"]}
            event = {"transaction_id": "x", "code": "storage", "external_subscription_id": "acme-2"}
            box.post("/events", event={**event, "properties": {"gb": 1}})
            free = [fee for fee in box.get("/fees")["fees"] if fee["svc_invoice_id"] is None]
            self.ids["fee_id"] = free[0]["svc_id"]
        elif endpoint.path == "/holds":
            self.ids["hold_id"] = answer["hold"]["svc_id"]
        elif endpoint.path == "/credit_notes":
            self.ids["credit_note_id"] = answer["credit_note"]["svc_id"]
        elif endpoint.path == "/payments":
            self.ids["payment_id"] = answer["payment"]["svc_id"]
            receipts = box.get("/payment_receipts")["payment_receipts"]
            self.ids["payment_receipt_id"] = receipts[0]["svc_id"]


def overpay(box: Scenario, payment_id: str) -> None:
    """The payment came through a provider, and was of a million cents more than it was recorded with."""
    connection = box.billing.payment_connections.create(kind="stripe", code="main", name="main", secret_key="sk_test_1")

    def act(work: Work) -> None:
        payment = work.tx.get(Payment, payment_id)
        assert payment is not None
        through = replace(payment, connection_id=connection.id, provider_payment_id="pi_1")
        work.tx.replace(replace(through, amount_cents=payment.amount_cents + 1_000_000))
        move_payment(work, paid_invoices(work, payment)[0], PaymentEvent.RECOUNTED)

    box.billing.writing(act)


@pytest.mark.now("2024-03-05T10:00:00Z")
def test_every_example_is_accepted_and_nothing_it_needs_is_left_out(box: Scenario, described: dict[str, Any]) -> None:
    rows = {
        f"{method} {endpoint.path}": endpoint
        for method, endpoint in VERBS
        if "requestBody" in described["paths"][f"/api/v1{endpoint.path}"][method.lower()]
    }
    assert {row.replace("PATCH", "PUT", 1) if row not in EXAMPLES else row for row in rows} == set(EXAMPLES)
    story = Story(box)
    for row, example in EXAMPLES.items():
        method, endpoint = row.split()[0], rows[row]
        if row == "POST /customers/{external_id}/anonymize":
            box.customer("leaver")
        if row == "PUT /plans/{code}/scheduled_prices/{version}":
            dearer = box.put("/plans/pro", plan={"amount_cents": 10**6, "effective": "2029-01-01"})["plan"]
            story.ids["version"] = str(dearer["scheduled_prices"][0]["version"])
        if row == "POST /payment_requests":
            box.travel_to("2024-05-01T00:00:00Z")
        if row == "POST /payments/{payment_id}/refund":
            overpay(box, story.ids["payment_id"])
        if row == "POST /invoices/{invoice_id}/void":
            # The note of the first invoice has paid other ones, which is why that one can be voided no more.
            invoice = box.post("/invoices", invoice=story.real(EXAMPLES["POST /invoices"])["invoice"])["invoice"]
            story.ids["invoice_id"] = invoice["svc_id"]
        body, path = story.real(example), f"/api/v1{story.path(endpoint)}"
        validator = Draft202012Validator(resolved(described, body_schema(described, method, endpoint.path)))
        assert [error.message for error in validator.iter_errors(example)] == [], row
        kinds = () if endpoint.body is None else (endpoint.body,)
        for field in required_of(operation_name(endpoint), kinds) if method == "POST" else ():
            less = copy.deepcopy(body)
            inside = less if endpoint.root is None else less[endpoint.root]
            if field not in inside:
                continue
            del inside[field]
            status, answer = box.request(method, path, json=less)
            assert status >= 400, (row, field, answer)
            assert not validator.is_valid(less), (row, field)
        status, answer = box.request(method, path, json=body)
        assert status == 200, (row, path, body, answer)
        story.learn(endpoint, answer)


def test_each_charge_model_has_a_schema_of_its_own(described: dict[str, Any]) -> None:
    charge = {"$ref": "#/components/schemas/NewChargeInput"}
    validator = Draft202012Validator(resolved(described, charge))
    named = {"billable_metric_id": IDS["billable_metric"], "charge_model": "package"}
    package = {"amount": "5", "package_size": 100, "free_units": 0}
    assert validator.is_valid({**named, "properties": package})
    assert validator.is_valid({**named, "properties": {}})
    for wrong in ({"amount": 5}, {"package_size": "100"}, {"free_units": 0.5}):
        assert not validator.is_valid({**named, "properties": {**package, **wrong}}), wrong
    assert not validator.is_valid({**named, "properties": {"amount": "5"}})
    assert not validator.is_valid({**named, "charge_model": "graduated", "properties": package})
    assert set(MODEL_PROPERTIES) == set(field_of(*charge_model()).values)


def charge_model() -> tuple[type, str]:
    """Where the names of charge models stand."""
    (kind,) = {kind for kind in kinds() if kind.__name__ == "ChargeInput"}
    return kind, "charge_model"
