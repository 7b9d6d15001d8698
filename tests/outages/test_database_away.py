"""The service while PostgreSQL is stopped, killed, frozen or unreachable: it says so at once, and recovers at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest

from tests.outages.servers import Line, OwnServer, eventually, freeze, own_server, thaw
from tests.service import Service
from usagebill import Billing
from usagebill.core.errors import DatabaseUnavailable, OutcomeUnknown
from usagebill.http.api import Api, Request
from usagebill.http.app import routes
from usagebill.storage.postgresql import PostgresStore, engine

pytestmark = [pytest.mark.slow, pytest.mark.second_engine]

METRICS = {"Authorization": "Bearer monitor"}
# Nothing hangs: the most that anything may take here, in seconds, on a machine however busy.
AWAY = BACK = 30.0
CLIENTS = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    with own_server() as server:
        yield server


@pytest.fixture
def database(server: OwnServer) -> str:
    return server.new_database()


def customer(id: str) -> dict[str, Any]:
    return {"customer": {"external_id": id, "name": "Acme"}}


def is_back(billing: Billing) -> bool:
    try:
        billing.customers.list()
    except DatabaseUnavailable:
        return False
    return True


def test_a_stopped_database_is_said_at_once_and_used_again_at_once(server: OwnServer, database: str) -> None:
    with Service(database, "--metrics-key", "monitor") as service:
        web = service.client
        assert web.post("/api/v1/customers", json=customer("before")).status_code == 200
        assert web.get("/ready").json() == {"status": "ok"}
        assert "usagebill_database_up 1.0" in web.get("/metrics", headers=METRICS).text
        server.stop("fast")
        try:
            eventually(lambda: web.get("/ready").status_code == 503, AWAY)
            assert web.get("/ready").json() == {"status": "database_unavailable"}
            assert web.get("/health").json()["message"] == "Success"
            # Many at once: none waits behind the others.
            answers: list[httpx.Response] = []

            def ask(number: int) -> None:
                answers.append(web.post("/api/v1/customers", json=customer(f"during-{number}"), timeout=AWAY))

            threads = [threading.Thread(target=ask, args=(number,)) for number in range(30)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(answers) == 30
            for answer in [*answers, web.get("/api/v1/customers", timeout=AWAY)]:
                told = answer.json()
                assert (answer.status_code, told["code"], answer.headers["retry-after"]) == (
                    503,
                    "database_unavailable",
                    "5",
                )
                assert told["message"].startswith("the database does not answer, and nothing was changed")
            assert "usagebill_database_up 0.0" in web.get("/metrics", headers=METRICS, timeout=AWAY).text
        finally:
            server.start()
        eventually(lambda: web.get("/api/v1/customers").status_code == 200, BACK)
        eventually(lambda: web.get("/ready").status_code == 200, BACK)
        assert web.post("/api/v1/customers", json=customer("after")).status_code == 200
        stored = {one["external_id"] for one in web.get("/api/v1/customers?per_page=100").json()["customers"]}
        assert stored >= {"before", "after"}
        assert not any(id.startswith("during") for id in stored)
        code, log = service.stop()
    assert code == 0
    events = [line["event"] for line in log]
    away = next(line for line in log if line["event"] == "database_unreachable")
    assert (away["level"], away["database"]) == ("error", database.replace("postgres@", ""))
    assert "0x" not in json.dumps(log)
    assert events.count("database_unreachable") == events.count("database_reachable_again") == 1
    assert next(line for line in log if line["event"] == "database_reachable_again")["seconds"] >= 0
    assert [line for line in log if line["event"] == "worker_step_failed"] == []


def test_killed_connections_are_replaced_without_an_error(server: OwnServer, database: str) -> None:
    with Billing(database) as billing, psycopg.connect(server.url, autocommit=True) as other:
        for number in range(3):
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'usagebill'")
            billing.customers.upsert(external_id=f"killed-{number}")
            assert billing.customers.get(f"killed-{number}").external_id == f"killed-{number}"


@pytest.mark.parametrize("silence", ["line", "server"])
def test_a_silent_database_is_noticed_though_its_connections_stay_open(
    server: OwnServer, database: str, silence: str
) -> None:
    line = Line(server.port)
    try:
        with Service(database.replace(str(server.port), str(line.port))) as service:
            web = service.client
            assert web.get("/ready").status_code == 200
            frozen = server.process if silence == "server" else None
            if frozen is not None:
                # Its other processes go on, but answer no new connections; those of the requests are frozen as well.
                with psycopg.connect(server.url, autocommit=True) as look:
                    ids = [row[0] for row in look.execute(CLIENTS)]
                for process in (frozen, *ids):
                    freeze(process)
            line.is_silent = silence == "line"
            try:
                answer = web.get("/api/v1/customers", timeout=AWAY)
                assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
                assert web.get("/health", timeout=AWAY).status_code == 200
                assert web.get("/ready", timeout=AWAY).status_code == 503
            finally:
                line.is_silent = False
                if frozen is not None:
                    for process in (frozen, *ids):
                        thaw(process)
            eventually(lambda: web.get("/api/v1/customers").status_code == 200, BACK)
            eventually(lambda: web.get("/ready").status_code == 200, BACK)
    finally:
        line.close()


def test_a_connection_that_breaks_during_the_commit_leaves_the_outcome_unknown(
    server: OwnServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Billing(database) as billing, psycopg.connect(server.url, autocommit=True) as other:
        commit = engine._commit

        def cut(driver: Any) -> None:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (driver.info.backend_pid,))
            commit(driver)

        monkeypatch.setattr(engine, "_commit", cut)
        with pytest.raises(OutcomeUnknown):
            billing.customers.upsert(external_id="unknown")
        monkeypatch.undo()
        assert billing.customers.upsert(external_id="unknown").external_id == "unknown"


def test_an_outcome_that_is_unknown_is_known_to_the_repeat_with_the_same_key(
    server: OwnServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Billing(database) as billing, psycopg.connect(server.url, autocommit=True) as other:
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.add_ons.create(name="Setup", code="setup", amount_cents=5000, amount_currency="EUR")
        sent = {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup"}]}
        headers = {"authorization": f"Bearer {billing.api_keys.create().value}"}
        commit = engine._commit

        def cut(driver: Any, *, is_done: bool) -> None:
            if is_done:
                commit(driver)
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (driver.info.backend_pid,))
            commit(driver)

        for is_done, invoices in ((False, 1), (True, 2)):
            request = Request(
                method="POST",
                path="/api/v1/invoices",
                headers={**headers, "idempotency-key": f"order-{invoices}"},
                body=json.dumps({"invoice": sent}).encode(),
            )
            api = Api(billing, routes())
            with monkeypatch.context() as patch:
                patch.setattr(engine, "_commit", partial(cut, is_done=is_done))
                lost = api.answer(request)
            assert (lost.status, json.loads(lost.body)["code"]) == (503, "outcome_unknown")
            told = api.answer(request)
            assert told.status == 200
            assert told.headers.get("idempotent-replayed") == ("true" if is_done else None)
            assert len(billing.invoices.list().items) == invoices


def test_a_job_that_meets_an_absent_database_keeps_all_its_attempts(server: OwnServer, database: str) -> None:
    now = datetime.now(UTC)
    with Billing(database) as billing:
        billing.plans.create(
            code="basic",
            name="Basic",
            interval="monthly",
            amount_cents=100,
            amount_currency="EUR",
            pay_in_advance=False,
        )
        billing.customers.upsert(external_id="worked")
        billing.subscriptions.create(external_customer_id="worked", plan_code="basic", external_id="worked")
        due = now.replace(year=now.year + 1)
        server.stop("fast")
        try:
            with pytest.raises(DatabaseUnavailable):
                billing.run_due(due)
        finally:
            server.start()
        eventually(lambda: is_back(billing), BACK)
        failed: list[object] = []
        assert billing.run_due(on_failure=lambda job, problem: failed.append((job, problem))) >= 0
        assert failed == []


def test_a_missing_server_is_refused_in_seconds_not_waited_for() -> None:
    with own_server() as server:
        store = PostgresStore(server.url)
        server.stop()
        began = time.monotonic()
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable):
                store.read(None, lambda tx: tx.jobs.next_due())
        assert time.monotonic() - began < AWAY
        store.close()
