"""`usagebill.client`: the library from afar, with the same names, arguments, results and errors."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each
from tests.clients import ADDRESS, Answering, async_client_of, client_of
from tests.sample_records import NEVER, VERBS, in_order, invoiced, request_of, world
from tests.scenarios import Scenario, charge_on, plan_fields
from tests.service import Service
from usagebill import Billing
from usagebill.client import AsyncClient, Client, Retries, ServiceUnreachable
from usagebill.core.customers import Customer
from usagebill.core.errors import (
    BadRequest,
    BillingError,
    Forbidden,
    Invalid,
    NotAllowed,
    NotFound,
    PaymentRequired,
    Unauthorized,
)
from usagebill.core.events import Event
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Plan
from usagebill.http.app import endpoints, routes
from usagebill.http.parameters import query_parameters
from usagebill.process.settings import Settings
from usagebill.records import Pages
from usagebill.remote.answers import Answered
from usagebill.remote.calls import _by_operation, offered
from usagebill.resources import RESOURCES
from usagebill.resources.bindings import Operation

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


@pytest.fixture
def known(box: Scenario) -> dict[str, str]:
    """A record of most kinds, and the ids and codes of paths."""
    made = world(box)
    invoiced(box, made)
    return made


# What the library has as it is stored, and the API shows otherwise: texts of JSON as JSON, a name instead of none, a
# filter without its charge.
SHOWN_OTHERWISE = {
    "activity_object",
    "activity_object_changes",
    "device_info",
    "get_filter",
    "invoice_display_name",
    "list_filters",
    "request_body",
    "request_response",
    "resources",
}


def reads() -> list[tuple[str, str]]:
    """Every read of the library that a service offers."""
    return [
        (resource, verb)
        for resource in RESOURCES
        for verb in offered(resource)
        if isinstance(operation := vars(RESOURCES[resource])[verb], Operation)
        and _by_operation()[operation.function].method == "GET"
    ]


def differences(mine: Any, theirs: Any, place: str = "") -> list[str]:
    """What the client's result says other than the library's: where both have a field, it has one type and value."""
    if isinstance(theirs, (list, tuple)) and not hasattr(theirs, "_fields"):
        if len(mine) != len(theirs):
            return [f"{place}: {len(mine)} instead of {len(theirs)}"]
        pairs = zip(mine, theirs, strict=True)
        return [row for number, (a, b) in enumerate(pairs) for row in differences(a, b, f"{place}[{number}]")]
    if isinstance(mine, Answered):
        names = [key.removeprefix("svc_") for key in mine.answer]
        names = [name for name in names if hasattr(theirs, name)]
        return [
            row for name in names for row in differences(getattr(mine, name), getattr(theirs, name), f"{place}.{name}")
        ]
    if isinstance(theirs, Mapping):
        return (
            []
            if mine == json.loads(json.dumps(theirs, default=str)) or mine == theirs
            else [f"{place}: {mine!r} / {theirs!r}"]
        )
    if isinstance(theirs, datetime):
        # The API cuts instants to seconds.
        near = isinstance(mine, datetime) and mine.tzinfo is not None and abs(mine - theirs) < timedelta(seconds=1)
        return [] if near else [f"{place}: {mine!r} / {theirs!r}"]
    same = mine == theirs and (type(mine) is type(theirs) or not isinstance(theirs, Decimal))
    return [] if same else [f"{place}: {mine!r} / {theirs!r}"]


def test_every_read_gives_what_the_library_gives(box: Scenario, known: dict[str, str]) -> None:
    client, _, _ = client_of(box.billing)
    tried, wrong = 0, []
    for resource, verb in reads():
        operation = vars(RESOURCES[resource])[verb]
        path = [known.get(name) or known.get(resource) or "none" for name in operation.path]
        mine, theirs = getattr(client, resource), getattr(box.billing, resource)
        try:
            expected: Any = getattr(theirs, verb)(*path)
        except (NotFound, Forbidden, Invalid, BadRequest, NotAllowed) as problem:
            with pytest.raises(type(problem)) as raised:
                getattr(mine, verb)(*path)
            if raised.value.code != problem.code:
                wrong.append(f"{resource}.{verb}: {raised.value!r} / {problem!r}")
            continue
        got = getattr(mine, verb)(*path)
        tried += 1
        if isinstance(expected, Pages):
            if (got.total_count, got.page, got.per_page) != (expected.total_count, expected.page, expected.per_page):
                wrong.append(f"{resource}.{verb}: {got!r} / {expected!r}")
            got, expected = list(got), list(expected)
        wrong += differences(got, expected, f"{resource}.{verb}")
    unlike = {re.sub(r"\[\d+\]", "", row.split(":")[0]).split(".")[-1] for row in wrong}
    assert unlike <= SHOWN_OTHERWISE, [row for row in wrong if not any(name in row for name in SHOWN_OTHERWISE)]
    assert tried > 80


def test_every_change_of_the_api_can_be_made(box: Scenario, known: dict[str, str]) -> None:
    client, _, _ = client_of(box.billing)
    by_endpoint = {
        (endpoint.method, endpoint.path): (resource, verb)
        for resource in RESOURCES
        for verb in offered(resource)
        if isinstance(operation := vars(RESOURCES[resource])[verb], Operation)
        and (endpoint := _by_operation()[operation.function]) in endpoints()
    }
    made, gone = 0, []
    for method, endpoint in sorted(VERBS, key=in_order):
        name = by_endpoint.get((method, endpoint.path))
        if method == "GET" or name is None or (method, endpoint.path) in NEVER:
            continue
        address, body = request_of(method, endpoint, known)
        fields = body if endpoint.root is None or body is None else body[endpoint.root]
        if endpoint.many is not None and endpoint.many not in fields:
            fields = {endpoint.many: [fields]}
        address, _, query = address.partition("?")
        path = routes().match(method, address.removeprefix("/api/v1"))[1]
        try:
            result = getattr(getattr(client, name[0]), name[1])(
                *path.values(), **(fields or {}), **query_parameters(query)
            )
        except NotFound:
            gone.append(name)  # an earlier change took it away
            continue
        assert result is None or endpoint.view is not None, name
        made += 1
    assert len(gone) < 8, gone
    assert made > 120


def test_a_life_by_hand(box: Scenario) -> None:
    client, _, _ = client_of(box.billing)
    metric = client.billable_metrics.create(name="GB", code="gb", aggregation_type="sum_agg", field_name="gb")
    made = client.plans.create(**plan_fields(charge_on(metric.id, amount=Decimal("0.5")), code="pro"))
    client.customers.upsert(external_id="acme/1", currency="EUR")
    client.subscriptions.create(external_customer_id="acme/1", plan_code="pro", external_id="sub")
    used = {"gb": Decimal("2.5")}
    first = client.events.create(
        transaction_id="1", code="gb", external_subscription_id="sub", timestamp=box.now, properties=used
    )
    batch = client.events.create_batch(
        [{"transaction_id": "1", "code": "gb", "external_subscription_id": "sub"}], on_duplicate="skip"
    )
    usage = client.usage.current("acme/1", external_subscription_id="sub")
    customer = client.customers.get("acme/1")

    assert isinstance(made, Plan)
    assert made.charges[0].properties["amount"] == "0.5"
    assert isinstance(first, Event)
    assert first.timestamp == box.now
    assert first.properties == used
    assert batch.skipped is not None
    assert [(one.position, one.transaction_id) for one in batch.skipped] == [(0, "1")]
    assert usage.amount_cents == 125
    assert isinstance(customer, Customer)
    assert (customer.currency, customer.created_at.tzinfo) == ("EUR", UTC)
    assert customer == client.customers.upsert(external_id="acme/1")
    assert repr(customer).startswith("Customer(id=")
    assert client.view(customer)["external_id"] == "acme/1"
    assert json.loads(json.dumps(customer.json())) == client.view(customer)
    with pytest.raises(AttributeError, match="organization_id is not in this answer"):
        _ = customer.organization_id
    with pytest.raises(AttributeError, match="organization_id is not in this answer"):
        _ = first.organization_id
    with pytest.raises(AttributeError, match="a service does not offer"):
        _ = client.plans.compare  # type: ignore[attr-defined]
    with client.holds.hold("sub", code="gb", units=1) as held:
        held.capture(transaction_id="held")
    assert [hold.status for hold in client.holds.list()] == ["captured"]


def test_an_asynchronous_program_holds_usage_for_the_time_of_a_block(box: Scenario) -> None:
    box.customer()
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.post("/customers/acme/spend_limits", spend_limit={"code": "cap", "amount_cents": 300})

    async def hold() -> None:
        client = async_client_of(box.billing)
        async with client.holds.hold("sub", code="gb", units=2) as usage:
            with pytest.raises(PaymentRequired) as refused:
                async with client.holds.hold("sub", code="gb", units=2):
                    raise AssertionError("it was refused")
            assert refused.value.details["limit"]["remaining"] == "100.0"  # type: ignore[index]
            await usage.capture({"value": 3}, transaction_id="held")
        with pytest.raises(LookupError, match="nothing came of it"):
            async with client.holds.hold("sub", amount_cents=0):
                raise LookupError("nothing came of it")

    asyncio.run(hold())
    holds = box.get("/holds")["holds"]
    assert {(hold["status"], hold["exceeds_hold"]) for hold in holds} == {("captured", True), ("released", False)}
    assert [event["transaction_id"] for event in box.get("/events")["events"]] == ["held"]


REFUSALS: list[tuple[type[BillingError], str, Any]] = [
    (NotFound, "customer_not_found", lambda client: client.customers.get("nobody")),
    (Invalid, "validation_errors", lambda client: client.customers.upsert(external_id="b", currency="XXX")),
    (Invalid, "validation_errors", lambda client: client.events.create_batch([{"code": "gb"}, {"code": "gb"}])),
]


@each("kind,code,act", REFUSALS)
def test_refusals_are_the_library_s(kind: type[BillingError], code: str, act: Any, box: Scenario, acme: None) -> None:
    client, answering, pauses = client_of(box.billing)
    with pytest.raises(BillingError) as theirs:
        act(box.billing)
    with pytest.raises(type(theirs.value)) as mine:
        act(client)
    assert mine.value.code == theirs.value.code
    assert getattr(mine.value, "details", None) == getattr(theirs.value, "details", None)
    assert mine.value.message == theirs.value.message
    assert (len(answering.sent), pauses) == (1, [])


def test_arguments_are_checked_before_anything_is_sent(box: Scenario) -> None:
    client, answering, _ = client_of(box.billing)
    with pytest.raises(TypeError, match="did you mean external_id"):
        client.customers.upsert(exernal_id="acme")  # type: ignore[call-arg]
    assert answering.sent == []
    assert list(inspect.signature(client.customers.get).parameters) == ["external_id"]
    assert inspect.signature(client.events.create) == inspect.signature(box.billing.events.create)


def test_a_bad_key_is_refused(box: Scenario) -> None:
    with Client(ADDRESS, "wrong", transport=Answering(box.billing)) as client, pytest.raises(Unauthorized):
        client.customers.list()


@pytest.mark.parametrize("failure", ["lost", "unreached", 503, 429, 502])
def test_a_post_is_done_once_however_often_it_is_sent(failure: int | str, box: Scenario, acme: None) -> None:
    box.add_on("seat", 100)
    client, answering, pauses = client_of(box.billing, failure, failure)
    invoice = client.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "seat", "units": 2}])
    assert isinstance(invoice, Invoice)
    assert [one.id for one in client.invoices.list()] == [invoice.id]
    posts = [request for request in answering.sent if request.method == "POST"]
    assert len(posts) == 3
    assert len({request.headers["idempotency-key"] for request in posts}) == 1
    if isinstance(failure, int):
        assert all(7 <= pause < 8 for pause in pauses)
    else:
        assert 0 < pauses[0] < pauses[1] < 2


def test_a_delete_that_may_have_been_made_is_not_sent_again(box: Scenario, acme: None) -> None:
    client, answering, _ = client_of(box.billing, "lost")
    with pytest.raises(ServiceUnreachable, match="nothing came") as raised:
        client.customers.delete("acme")
    assert raised.value.may_have_been_made
    assert len(answering.sent) == 1
    again, answering, _ = client_of(box.billing, "unreached", 503)
    with pytest.raises(NotFound):
        again.customers.delete("acme")
    assert len(answering.sent) == 3


def test_it_gives_up(box: Scenario) -> None:
    client, answering, pauses = client_of(box.billing, *["unreached"] * 9)
    with pytest.raises(ServiceUnreachable, match="tried 4 times") as raised:
        client.customers.list()
    assert not raised.value.may_have_been_made
    assert (len(answering.sent), len(pauses)) == (4, 3)
    impatient, answering, _ = client_of(box.billing, 503, retries=Retries(longest_wait=5))
    with pytest.raises(ServiceUnreachable, match="503"):
        impatient.customers.list()
    assert len(answering.sent) == 1


def test_a_prefix_of_ids_is_the_service_s(tmp_path: Path) -> None:
    with Billing(tmp_path / "b.db", settings=Settings(id_prefix="lago_"), deliver=False) as billing:
        client, _, _ = client_of(billing)
        made = client.customers.upsert(external_id="acme", currency="EUR")
        assert made.id == billing.customers.get("acme").id
        client.invoices.list(external_customer_id="acme")


def test_lists_go_on_by_themselves(box: Scenario) -> None:
    for number in range(7):
        box.customer(f"c{number}")
    client, answering, _ = client_of(box.billing)
    page = client.customers.list(per_page=3)
    assert (len(page.items), page.total_count) == (3, 7)
    assert len({customer.external_id for customer in page}) == 7
    assert len(answering.sent) == 3


def test_asynchronous_programs_have_the_same(box: Scenario) -> None:
    for number in range(7):
        box.customer(f"c{number}")

    async def life() -> None:
        async with async_client_of(box.billing) as client:
            page = await client.customers.list(per_page=3)
            assert len({customer.external_id async for customer in page}) == 7
            with pytest.raises(TypeError, match="async for"):
                list(page)
            with pytest.raises(NotFound, match="customer_not_found"):
                await client.customers.get("nobody")
            made = await client.customers.upsert(external_id="new", currency="EUR")
            assert made.currency == "EUR"

    asyncio.run(life())


@pytest.mark.slow
def test_connections_of_a_served_one_are_kept(tmp_path: Path) -> None:
    with Service(tmp_path / "billing.db") as service:
        opened: list[object] = []
        with Client(service.announced["url"], service.key) as client:
            stream = client.__dict__["_http"]
            stream.event_hooks["response"] = [
                lambda response: opened.append(response.extensions["network_stream"].get_extra_info("socket").fileno())
            ]
            for number in range(5):
                client.customers.upsert(external_id=str(number), currency="EUR")
            assert client.customers.list().total_count == 5
        assert len(set(opened)) == 1

        async def listed() -> int:
            async with AsyncClient(service.announced["url"], service.key) as client:
                return (await client.customers.list()).total_count

        assert asyncio.run(listed()) == 5
