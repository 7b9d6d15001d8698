"""Every operation refuses what it should: no key, a key without permission, unknown records, empty and odd bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import yaml
from tests.api_shapes import SHAPES
from tests.cases import each
from tests.json_asserts import for_programs
from tests.sample_records import NEVER, VERBS, in_order, invoiced, request_of, world
from tests.scenarios import Scenario

from usagebill.core.api_keys import RESOURCES
from usagebill.core.coupons import Coupon
from usagebill.core.customers import Customer
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import Tax
from usagebill.core.wallets import Wallet
from usagebill.http.api import Api, Request
from usagebill.http.app import routes
from usagebill.http.endpoints import Endpoint
from usagebill.http.openapi import operation_name
from usagebill.requests.reference.lookup import required_of
from usagebill.storage.event_queries import EventFilter

Row = tuple[str, Endpoint]


def named(row: Row) -> str:
    return f"{row[0]} {row[1].path}"


def path_to(endpoint: Endpoint, value: str) -> str:
    return "/api/v1" + re.sub(r"{\w+}", value, endpoint.path)


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        yield box


@pytest.fixture(scope="module")
def known(box: Scenario) -> dict[str, str]:
    return world(box)


def answer(box: Scenario, verb: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
    headers = None if key is None else {"authorization": f"Bearer {key}"}
    return box.request(verb, path, json=body, headers=headers)


@each("row", VERBS, ids=named)
def test_nobody_is_answered_without_a_key(box: Scenario, row: Row) -> None:
    verb, endpoint = row
    for key in ("nobody", ""):
        status, body = answer(box, verb, path_to(endpoint, "x"), {"x": 1}, key)
        assert (status, for_programs(body)) == (401, {"status": 401, "error": "Unauthorized"})


@pytest.fixture(scope="module")
def keys(box: Scenario) -> dict[str, str]:
    """For each permission, a key that has every other one."""
    made = {}
    for resource in RESOURCES:
        others = {name: ["read", "write"] for name in RESOURCES if name != resource}
        made[resource] = box.post("/api_keys", api_key={"name": resource, "permissions": others})["api_key"]["value"]
    return made


@each("row", VERBS, ids=named)
def test_a_key_without_the_permission_is_refused(box: Scenario, keys: dict[str, str], row: Row) -> None:
    verb, endpoint = row
    mode = "read" if verb == "GET" else "write"
    status, body = answer(box, verb, path_to(endpoint, "x"), {"x": 1}, keys[endpoint.permission])
    assert (status, body["code"]) == (403, f"{mode}_action_not_allowed_for_{endpoint.permission}")
    assert body["error"] == "Forbidden"


# An unknown customer has used nothing: an empty list.
EMPTY = {"/customers/{external_customer_id}/past_usage"}
NAMING = [row for row in VERBS if "{" in row[1].path and row[1].path not in EMPTY]


@each("row", NAMING, ids=named)
@each("unknown", ["unknown", "00000000-0000-4000-8000-000000000000"])
def test_a_record_that_does_not_exist_is_not_found(box: Scenario, row: Row, unknown: str) -> None:
    verb, endpoint = row
    query = "?external_subscription_id=unknown" if endpoint.path.endswith("_usage") else ""
    # A field that is known, so that the body is not what is refused.
    body: Any = None
    if endpoint.body is not None:
        first = attrs.fields(endpoint.body)[0].name
        body = {first: None} if endpoint.root is None else {endpoint.root: {first: None}}
    status, refused = answer(box, verb, path_to(endpoint, unknown) + query, body)
    assert (status, refused.get("error")) == (404, "Not Found"), refused
    assert refused["code"].endswith("_not_found")


ROOTED = [row for row in VERBS if row[1].root is not None]


@each("row", ROOTED, ids=named)
@each("body", [None, {}, {"other": 1}])
def test_a_body_without_its_root_is_a_bad_request(box: Scenario, row: Row, body: Any) -> None:
    verb, endpoint = row
    status, refused = answer(box, verb, path_to(endpoint, "unknown"), body)
    # Of some resources the missing record comes first.
    assert status in ((400, 404) if "{" in endpoint.path else (400,))
    if status == 400:
        assert refused["error"].endswith(f"or invalid: {endpoint.root}")


NEEDING = [
    (row, field)
    for row in VERBS
    if row[0] == "POST" and row[1].body is not None
    for field in required_of(operation_name(row[1]), [row[1].body])
]


@each("row,field", NEEDING, ids=lambda case: f"{named(case[0])} {case[1]}")
@each("value", [..., None, {}])
def test_a_field_that_is_needed_cannot_be_missing_or_of_another_kind(
    box: Scenario, known: dict[str, str], row: Row, field: str, value: Any
) -> None:
    verb, endpoint = row
    if field == "pay_in_advance" and value == {}:
        return  # whatever is no word for no is a yes
    path, body = request_of(verb, endpoint, known)
    fields = dict(body if endpoint.root is None else body.get(endpoint.root) or next(iter(body.values())))
    if value is ...:
        fields.pop(field, None)
    else:
        fields[field] = value
    before = counts(box)
    status, refused = answer(box, verb, path, fields if endpoint.root is None else {endpoint.root: fields})
    assert status in (400, 404, 422), refused
    assert counts(box) == before


def counts(box: Scenario) -> list[int]:
    """How many records of the kinds that requests make there are."""
    kinds = (Plan, Customer, Subscription, Invoice, Wallet, Coupon, Fee, Tax)
    billing = box.billing
    return billing.store.read(
        billing.organization.id,
        lambda tx: [*(tx.count(kind) for kind in kinds), tx.events.count(EventFilter())],
    )


# The errors in the reference's description, operation by operation


def nameless(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"{\w+}", "{}", path)


OURS = {(verb, nameless(endpoint.path)): endpoint for verb, endpoint in VERBS}


def described() -> list[tuple[str, str, int]]:
    """Verb, path and status of every error that the reference describes."""
    if not SHAPES.exists():
        return []
    reference = yaml.load(SHAPES.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    rows = [
        (verb.upper(), path, int(status))
        for path, about in reference["paths"].items()
        for verb, operation in about.items()
        if verb != "parameters"
        for status in operation["responses"]
        if status != "200"
    ]
    # Records that other requests need still exist, as far as possible.
    return sorted(rows, key=lambda row: in_order((row[0], OURS[row[0], nameless(row[1])])))


ODD: tuple[Any, ...] = ("unknown", -1, [], {}, [{}], "x" * 300, 10**30, None)


def with_odd_values(body: Any) -> Iterator[Any]:
    """Copies of a body in each of which one value is odd, at any depth."""
    if isinstance(body, dict):
        for name, value in body.items():
            yield from ({**body, name: odd} for odd in ODD)
            yield from ({**body, name: inner} for inner in with_odd_values(value))
    elif isinstance(body, list) and body:
        yield from ([inner, *body[1:]] for inner in with_odd_values(body[0]))


def requests(verb: str, endpoint: Endpoint, known: dict[str, str], status: int) -> Iterator[tuple[str, Any]]:
    """Requests of which one should be refused with the status."""
    path, body = request_of(verb, endpoint, known)
    bare, mark, query = path.partition("?")
    if status == 404 and "{" in endpoint.path:
        yield path_to(endpoint, "never-made") + mark + query, body
    if (verb, endpoint.path) in NEVER:
        yield path, body
    for field in reversed(attrs.fields(endpoint.query) if endpoint.query is not None else ()):
        for odd in ("unknown", "-1", "x" * 300, "2024-13-45"):
            yield f"{bare}?{query}&{field.name}={odd}", body
            yield f"{bare}?{query}&{field.name}[]={odd}", body
    if isinstance(body, dict):
        for odd in with_odd_values(body):
            yield path, odd
        if endpoint.body is not None and endpoint.root is not None:
            for field in attrs.fields(endpoint.body):
                for odd in ODD:
                    yield path, {endpoint.root: {**(body.get(endpoint.root) or {}), field.name: odd}}


# Requests for which odd values are not enough.
SPECIAL = {
    ("GET", "/wallet_transactions/{}/consumptions", 422): "/wallet_transactions/{void_id}/consumptions",
    ("GET", "/wallet_transactions/{}/fundings", 422): "/wallet_transactions/{wallet_transaction_id}/fundings",
    # The state of the record refuses it.
    ("PUT", "/credit_notes/{}/void", 405): "/credit_notes/{credit_note_id}/void",
    ("PUT", "/fees/{}", 405): "/fees/{fee_id}",
    ("DELETE", "/fees/{}", 405): "/fees/{fee_id}",
    ("DELETE", "/invoices/{}", 405): "/invoices/{invoice_id}",
    ("POST", "/invoices/{}/lose_dispute", 405): "/invoices/{draft_id}/lose_dispute",
    ("POST", "/invoices/{}/retry_payment", 405): "/invoices/{draft_id}/retry_payment",
}
# Errors that no request can bring about: nothing is sent that could be wrong, and no state refuses it.
NOTHING_TO_REFUSE = {
    ("GET", "/billing_entities", 422),
    ("GET", "/billing_entities/{}", 422),
    ("DELETE", "/wallets/{}", 422),
    ("DELETE", "/customers/{}/wallets/{}", 422),
    ("DELETE", "/webhook_endpoints/{}", 405),
}


@pytest.fixture(scope="module")
def months(box: Scenario, known: dict[str, str]) -> dict[str, str]:
    """The names of what months have brought, a voided credit note among it."""
    invoiced(box, known)
    box.put(f"/credit_notes/{known['credit_note_id']}/void")
    return known


@pytest.mark.slow
@pytest.mark.skipif(not SHAPES.exists(), reason="the reference's shapes are not beside this checkout")
@each("verb,path,status", [row for row in described() if row[2] in (404, 405, 422)])
def test_every_error_that_the_reference_describes_is_met(
    box: Scenario, months: dict[str, str], verb: str, path: str, status: int
) -> None:
    row = (verb, nameless(path), status)
    if row in NOTHING_TO_REFUSE:
        return
    endpoint = OURS[verb, nameless(path)]
    tried = requests(verb, endpoint, months, status)
    if row in SPECIAL:
        tried = iter([("/api/v1" + SPECIAL[row].format(**months), request_of(verb, endpoint, months)[1])])
    met = set()
    for address, body in tried:
        # A change of a subscription's charge gives it filters of its own.
        address = address.replace(months["filter_id"], current(box, endpoint, months)["filter_id"])
        answered, refused = box.request(verb, address, json=body)
        met.add(answered)
        if answered == status:
            assert refused["status"] == status
            return
    raise AssertionError(f"{verb} {path}: {sorted(met)} and never {status}")


def current(box: Scenario, endpoint: Endpoint, known: dict[str, str]) -> dict[str, str]:
    """The known ids, with a filter that still exists: changes of a charge replace its filters."""
    if "{filter_id}" not in endpoint.path:
        return known
    parent = "/plans/basic" if endpoint.path.startswith("/plans") else "/subscriptions/sub"
    filters = box.get(f"{parent}/charges/{known['charge_code']}/filters")["filters"]
    return {**known, "filter_id": filters[0]["svc_id"]} if filters else known


@each("row", [row for row in VERBS if row[1].body is not None], ids=named)
def test_a_body_that_is_no_json_is_a_bad_request(box: Scenario, row: Row) -> None:
    verb, endpoint = row
    headers = {"authorization": f"Bearer {box.api_key}"}
    request = Request(method=verb, path=path_to(endpoint, "x"), headers=headers, body=b'{"x": ')
    answered = Api(box.billing, routes()).answer(request)
    refusal = for_programs(json.loads(answered.body))
    assert (answered.status, refusal) == (400, {"status": 400, "error": "Bad Request"})
