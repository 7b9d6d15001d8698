"""A POST with an `Idempotency-Key` is done once, however often it is sent, and gives the same answer again."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.json_asserts import refused
from tests.sample_records import NEVER, VERBS, in_order, invoiced, request_of, world
from tests.scenarios import Scenario

from usagebill import Billing
from usagebill.core.api_logs import LEFT_OUT
from usagebill.core.errors import OutcomeUnknown
from usagebill.core.idempotency import IdempotentAnswer
from usagebill.http.api import Answer, Api, Request
from usagebill.http.app import routes
from usagebill.operations import api_keys, organizations
from usagebill.runtime.clock import ManualClock

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")

NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)
SALE: dict[str, Any] = {
    "external_customer_id": "acme",
    "currency": "EUR",
    "fees": [{"add_on_code": "setup", "units": 2}],
}


def sale(units: int = 2) -> dict[str, Any]:
    return {"invoice": {**SALE, "fees": [{"add_on_code": "setup", "units": units}]}}


class Client:
    """Sends requests with an idempotency key."""

    def __init__(self, billing: Billing, key: str) -> None:
        self.api = Api(billing, routes())
        self.key = key

    def send(self, idempotency_key: str, body: object, path: str = "invoices", query: str = "") -> Answer:
        headers = {"authorization": f"Bearer {self.key}", "idempotency-key": idempotency_key}
        sent = json.dumps(body).encode()
        return self.api.answer(Request(method="POST", path=f"/api/v1/{path}", query=query, headers=headers, body=sent))


def shop(url: str, clock: ManualClock | None = None) -> tuple[Billing, Client]:
    """A system that sells a setup to acme, and a client of it."""
    billing = Billing(url, deliver=False, clock=clock or ManualClock(NOW))
    billing.customers.upsert(external_id="acme", currency="EUR")
    billing.add_ons.create(name="Setup", code="setup", amount_cents=5000, amount_currency="EUR")
    return billing, Client(billing, billing.api_keys.create().value)


def test_a_repeated_sale_is_invoiced_once_and_answered_alike(url: str) -> None:
    billing, client = shop(url)
    with billing:
        first = client.send("order-1", sale())
        again = client.send("order-1", sale())
        assert (first.status, json.loads(first.body)["invoice"]["total_amount_cents"]) == (200, 10_000)
        assert (again.status, again.body) == (200, first.body)
        assert "idempotent-replayed" not in first.headers
        assert again.headers["idempotent-replayed"] == "true"
        assert len(billing.invoices.list().items) == 1
        # Another key, and none at all, is another sale.
        assert client.send("order-2", sale()).body != first.body
        billing.invoices.create_one_off(**SALE)
        assert len(billing.invoices.list().items) == 3


@pytest.mark.parametrize(
    "other",
    [
        {"body": sale(units=3)},
        {"body": sale(), "path": "invoices/preview"},
        {"body": sale(), "query": "a=b"},
    ],
)
def test_a_key_belongs_to_one_request(box: Scenario, other: dict[str, Any]) -> None:
    box.customer()
    box.add_on()
    client = Client(box.billing, box.api_key)
    assert client.send("order-1", sale()).status == 200
    answer = client.send("order-1", **other)
    assert refused((answer.status, json.loads(answer.body))) == {"idempotency_key": ["idempotency_key_reused"]}
    assert json.loads(answer.body)["message"] == (
        "idempotency_key: was sent with another request within 24 hours; send every request with a key of its own"
    )
    assert len(box.get("/invoices")["invoices"]) == 1


@pytest.mark.parametrize(
    ("key", "code"), [("", "value_is_mandatory"), ("k" * 256, "value_is_too_long"), ("a\0b", "invalid_format")]
)
def test_what_cannot_be_a_key_is_refused(box: Scenario, key: str, code: str) -> None:
    answer = Client(box.billing, box.api_key).send(key, {"customer": {"external_id": "acme"}}, "customers")
    assert refused((answer.status, json.loads(answer.body))) == {"idempotency_key": [code]}
    assert box.get("/customers")["customers"] == []


def test_a_request_that_was_refused_leaves_its_key_free(box: Scenario) -> None:
    client = Client(box.billing, box.api_key)
    assert client.send("order-1", sale()).status == 404
    box.customer()
    box.add_on()
    assert client.send("order-1", sale(units=-1)).status == 422
    sold = client.send("order-1", sale())
    assert sold.status == 200
    assert client.send("order-1", sale()).body == sold.body


def test_other_verbs_are_done_each_time(box: Scenario) -> None:
    box.customer(name="Acme")
    for name in ("Acme Inc.", "Acme Ltd."):
        change = {"billing_entity": {"name": name}}
        status, answer = box.request(
            "PUT", "/api/v1/billing_entities/default", json=change, headers={"idempotency-key": "rename"}
        )
        assert (status, answer["billing_entity"]["name"]) == (200, name)


def test_each_organization_has_its_own_keys(box: Scenario) -> None:
    other = box.billing.store.write(None, lambda tx: organizations.create(tx, box.now, "Other"))
    _, value = box.billing.writing(lambda work: api_keys.create(work), other)
    sent = {"customer": {"external_id": "acme"}}
    mine = Client(box.billing, box.api_key).send("k", sent, "customers")
    theirs = Client(box.billing, value).send("k", sent, "customers")
    assert (mine.status, theirs.status) == (200, 200)
    owners = [json.loads(answer.body)["customer"]["svc_id"] for answer in (mine, theirs)]
    assert len(set(owners)) == 2


def test_another_key_of_the_organization_gets_the_answer_only_if_it_may_send_the_request(box: Scenario) -> None:
    sent = {"customer": {"external_id": "acme"}}
    first = Client(box.billing, box.api_key).send("k", sent, "customers")
    values = [
        box.billing.writing(lambda work, name=name: api_keys.create(work, permissions={name: ("write",)}))[1]  # type: ignore[misc]
        for name in ("customer", "tax")
    ]
    assert Client(box.billing, values[0]).send("k", sent, "customers").body == first.body
    assert Client(box.billing, values[1]).send("k", sent, "customers").status == 403


def test_answers_are_kept_for_a_day(url: str) -> None:
    clock = ManualClock(NOW)
    billing, client = shop(url, clock)
    with billing:
        first = client.send("order-1", sale())
        clock.set(NOW + timedelta(hours=23, minutes=59))
        assert client.send("order-1", sale()).body == first.body
        clock.set(NOW + timedelta(hours=24))
        # Even if no worker has removed it by then.
        assert client.send("order-1", sale(units=3)).status == 200
        assert len(billing.invoices.list().items) == 2
        billing.run_due()
        assert stored(billing) == ["order-1"]
        clock.set(NOW + timedelta(hours=50))
        billing.run_due()
        assert stored(billing) == []
        assert billing.store.read(None, lambda tx: tx.jobs.lanes()) == {}


def stored(billing: Billing) -> list[str]:
    return billing.reading(lambda reader: [answer.key for answer in reader.tx.find(IdempotentAnswer)])


def test_the_value_of_an_api_key_is_stored_nowhere_and_so_not_shown_again(box: Scenario) -> None:
    client = Client(box.billing, box.api_key)
    first, again = (
        json.loads(client.send("k", {"api_key": {"name": "ci"}}, "api_keys").body)["api_key"] for _ in range(2)
    )
    assert again == {**first, "value": LEFT_OUT}
    kept = box.billing.reading(lambda reader: [answer.body for answer in reader.tx.find(IdempotentAnswer)])
    assert first["value"] not in str(kept)
    assert len(box.billing.api_keys.list().items) == 2


def test_a_repeat_is_a_request_of_its_own_in_the_log(box: Scenario) -> None:
    for _ in range(2):
        Client(box.billing, box.api_key).send("k", {"customer": {"external_id": "acme"}}, "customers")
    first, again = box.get("/api_logs")["api_logs"]
    assert first["request_id"] != again["request_id"]
    assert first["request_response"] == again["request_response"]


def test_every_post_is_done_once(box: Scenario) -> None:
    known = world(box)
    invoiced(box, known)
    repeated = 0
    for verb, endpoint in sorted(VERBS, key=in_order):
        # What anonymizes a customer erases its own answer as well.
        if verb != "POST" or (verb, endpoint.path) in NEVER or endpoint.path.endswith("/anonymize"):
            continue
        path, body = request_of(verb, endpoint, known)
        headers = {"idempotency-key": f"{verb} {path}"}
        first = box.request(verb, path, json=body, headers=headers)
        assert first[0] == 200, (path, first)
        again = box.request(verb, path, json=body, headers=headers)
        for field in endpoint.shown_once:
            first[1][endpoint.returns][field] = LEFT_OUT
        assert again == first, path
        repeated += 1
    assert repeated > 40


def interrupted(billing: Billing, chance: random.Random, patch: pytest.MonkeyPatch) -> None:
    """From now on, some writes fail before the commit, and others right after it."""
    write = billing.store.write

    def unreliable(organization_id: str | None, change: Callable[[Any], Any]) -> Any:
        fate = chance.choice(["well", "before", "after"])

        def broken(tx: Any) -> Any:
            result = change(tx)
            if fate == "before":
                raise ConnectionError
            return result

        result = write(organization_id, broken)
        if fate == "after":
            raise OutcomeUnknown("the connection was lost")
        return result

    patch.setattr(billing.store, "write", unreliable)


@pytest.mark.parametrize("seed", range(5))
def test_however_often_and_whenever_it_breaks_there_is_one_invoice(
    url: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    billing, client = shop(url)
    with billing:
        orders = [f"order-{number}" for number in range(3)]
        with monkeypatch.context() as patch:
            interrupted(billing, chance, patch)
            given: dict[str, set[bytes]] = {order: set() for order in orders}

            def insist(mine: list[str]) -> None:
                for order in mine:
                    while (answer := client.send(order, sale())).status != 200:
                        assert answer.status in (500, 503), answer.body
                    given[order].add(answer.body)

            # Both sell all of it, each in an order of its own.
            threads = [threading.Thread(target=insist, args=(mine,)) for mine in (orders, orders[::-1], orders)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert all(len(answers) == 1 for answers in given.values())
        told = {json.loads(body)["invoice"]["svc_id"] for answers in given.values() for body in answers}
        assert {invoice.id for invoice in billing.invoices.list().items} == told
        assert len(told) == len(orders)


def test_two_processes_that_sell_at_once_make_one_invoice(url: str) -> None:
    billing, client = shop(url)
    with billing, Billing(url, deliver=False, clock=ManualClock(NOW)) as other:
        clients = [client, Client(other, client.key)]
        for number in range(10):
            together = threading.Barrier(2)
            answers: list[Answer] = []

            def sell(mine: Client, order: str, start: threading.Barrier, told: list[Answer]) -> None:
                start.wait()
                told.append(mine.send(order, sale()))

            threads = [
                threading.Thread(target=sell, args=(mine, f"order-{number}", together, answers)) for mine in clients
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [answer.status for answer in answers] == [200, 200]
            assert answers[0].body == answers[1].body
        assert len(billing.invoices.list().items) == 10


def test_answers_about_an_anonymized_customer_are_erased_and_its_requests_not_done_again(box: Scenario) -> None:
    client = Client(box.billing, box.api_key)
    sent = {"customer": {"external_id": "acme", "name": "Ada Lovelace"}}
    client.send("k", sent, "customers")
    box.billing.customers.anonymize("acme")
    box.run_due()
    kept = box.billing.reading(lambda reader: [answer.body for answer in reader.tx.find(IdempotentAnswer)])
    assert "Ada" not in str(kept)
    assert client.send("k", sent, "customers").body.decode() == kept[0]
    assert "Ada" not in str(box.get("/customers"))
