"""A request that takes too long to compute is ended, says so, and has changed nothing."""

from __future__ import annotations

import json
import sqlite3
import threading
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from anyio import create_task_group, run, to_thread
from tests.asgi import send
from tests.postgresql import new_database
from tests.scenarios import Scenario

from usagebill import Billing
from usagebill.core.errors import DeadlinePassed
from usagebill.http.api import Api, Request
from usagebill.http.app import create_app, routes
from usagebill.process.settings import Settings
from usagebill.runtime.work import Work
from usagebill.storage import deadline
from usagebill.storage.ports import Transaction

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")

# Of no interest to the sum, and tens of seconds long.
LONG = {
    "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 300000000) SELECT COUNT(*) FROM n",
    "postgresql": "SELECT pg_sleep(60)",
}


def run_long(tx: Any) -> None:
    tx._connection.execute(LONG["sqlite" if isinstance(tx._connection, sqlite3.Connection) else "postgresql"])


def one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second."""
    monkeypatch.setattr(deadline, "monotonic", count().__next__)


def test_a_statement_is_ended_and_the_next_ones_work(url: str) -> None:
    with Billing(url, deliver=False) as billing:
        for run in (billing.store.read, billing.store.write):
            with deadline.within(0.2), pytest.raises(DeadlinePassed):
                run(billing.organization.id, run_long)
        billing.customers.upsert(external_id="acme")
        assert billing.customers.get("acme").external_id == "acme"


def test_what_was_written_before_the_deadline_is_undone(url: str) -> None:
    def change(work: Work) -> None:
        work.tx.next_number("cars")
        run_long(work.tx)

    with Billing(url, deliver=False) as billing:
        with deadline.within(0.2), pytest.raises(DeadlinePassed):
            billing.writing(change)
        assert billing.writing(lambda work: work.tx.next_number("cars")) == 1


def test_a_statement_that_somebody_else_ends_is_not_taken_for_late() -> None:
    with new_database() as url, Billing(url, deliver=False) as billing:

        def ended(tx: Any) -> None:
            tx._connection.execute("SET LOCAL statement_timeout = 1")
            tx._connection.execute(LONG["postgresql"])

        with deadline.within(60), pytest.raises(psycopg.errors.QueryCanceled):
            billing.store.write(billing.organization.id, ended)


def test_writes_that_share_a_commit_have_deadlines_of_their_own(tmp_path: Path) -> None:
    with Billing(tmp_path / "billing.db", deliver=False) as billing:
        entered, go_on = threading.Event(), threading.Event()
        outcomes: dict[str, object] = {}

        def first(tx: Transaction) -> None:
            entered.set()
            assert go_on.wait(60)

        def other(name: str, ends: float | None) -> None:
            def change(tx: Transaction) -> int:
                number = tx.next_number(name)
                deadline.check()
                return number

            try:
                with deadline.until(ends):
                    outcomes[name] = billing.store.write(billing.organization.id, change)
            except DeadlinePassed as problem:
                outcomes[name] = problem.code

        threads = [
            threading.Thread(target=billing.store.write, args=(None, first)),
            *(threading.Thread(target=other, args=case) for case in (("late", 0.0), ("in time", None), ("too", None))),
        ]
        threads[0].start()
        assert entered.wait(60)
        for thread in threads[1:]:
            thread.start()
        while len(billing.store._waiting) < 3:  # type: ignore[attr-defined]
            pass
        go_on.set()
        for thread in threads:
            thread.join()
        assert outcomes == {"late": "deadline_passed", "in time": 1, "too": 1}
        assert billing.store.write(billing.organization.id, lambda tx: tx.next_number("late")) == 1


def test_the_answer_says_so_whatever_was_asked() -> None:
    with Scenario(now="2024-03-05T12:00:00Z", settings=Settings(request_timeout=1e-9)) as box:
        key = box.billing.api_keys.create().value
        for method, path, body in (
            ("GET", "customers", None),
            ("POST", "customers", {"customer": {"external_id": "acme"}}),
            ("DELETE", "customers/acme", None),
        ):
            told = Api(box.billing, routes()).answer(
                Request(
                    method=method,
                    path=f"/api/v1/{path}",
                    headers={"authorization": f"Bearer {key}"},
                    body=b"" if body is None else json.dumps(body).encode(),
                )
            )
            answer = json.loads(told.body)
            assert (told.status, answer["error"], answer["code"]) == (503, "Service Unavailable", "deadline_passed")
            assert answer["message"] == (
                "the answer took longer to compute than a request may, and nothing was changed; ask for less at a time,"
                " or again later"
            )
            assert told.headers["retry-after"] == "60"
        assert box.billing.customers.list().items == []


def test_wherever_it_is_ended_an_invoice_is_issued_whole_or_not_at_all(
    box: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.add_on("setup")
    box.customer()
    sent = {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup"}] * 5}
    statuses = []
    for steps in count(1, 3):
        box.billing._system.settings = Settings(request_timeout=steps)
        with monkeypatch.context() as patch:
            one_after_another(patch)
            status, _ = box.send("POST", "/invoices", {"invoice": sent})
        statuses.append(status)
        if status == 200:
            break
        assert box.get("/invoices")["invoices"] == []
    assert statuses[:5] == [503] * 5
    (invoice,) = box.get("/invoices")["invoices"]
    assert (invoice["sequential_id"], invoice["total_amount_cents"]) == (1, 500)


def test_a_period_that_is_billed_ahead_of_a_request_is_billed_once_however_often_it_is_ended(
    box: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.plan(amount_cents=1000)
    box.customer()
    box.subscribe()
    box.jump_to("2024-04-02T00:00:00Z")
    statuses = set()
    for steps in range(2, 60, 4):
        box.billing._system.settings = Settings(request_timeout=steps)
        with monkeypatch.context() as patch:
            one_after_another(patch)
            status, _ = box.send("POST", "/customers", {"customer": {"external_id": "acme", "name": "A"}})
            statuses.add(status)
    box.billing._system.settings = Settings()
    box.run_due()
    assert 503 in statuses
    assert len(box.get("/invoices")["invoices"]) == 1


def test_what_an_outside_service_has_been_asked_for_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    one_after_another(monkeypatch)

    def change(work: Work) -> bytes:
        drawn = work.drawn("picture", lambda: lambda: b"drawn")
        for _ in range(100):
            work.tx.next_number("pictures")
        return drawn

    with Billing(deliver=False) as billing, deadline.within(50):
        assert billing.writing(change) == b"drawn"
        assert deadline.current() is None


def test_pages_of_customers_end_too(box: Scenario) -> None:
    box.customer()
    url = box.get("/customers/acme/portal_url")["customer"]["portal_url"]
    box.billing._system.settings = Settings(request_timeout=1e-9)
    answer = send(create_app(box.billing), "GET", url.removeprefix(box.billing.settings.public_url))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")


def test_requests_of_one_key_leave_threads_to_those_of_others(tmp_path: Path) -> None:
    with Billing(tmp_path / "billing.db", deliver=False) as billing:
        busy, other = (billing.api_keys.create().value for _ in range(2))
        go_on, waiting, read = threading.Event(), threading.Semaphore(0), billing._system.reading

        def reading(question: Any, organization: Any = None) -> Any:
            if not go_on.is_set():
                waiting.release()
                go_on.wait(60)
            return read(question, organization)

        async def ask() -> list[int]:
            transport = httpx.ASGITransport(create_app(billing))
            async with (
                httpx.AsyncClient(transport=transport, base_url="http://x") as client,
                create_task_group() as group,
            ):
                codes: list[int] = []

                async def get(key: str) -> None:
                    answer = await client.get("/api/v1/customers", headers={"authorization": f"Bearer {key}"})
                    codes.append(answer.status_code)

                for _ in range(60):
                    group.start_soon(get, busy)
                for _ in range(20):
                    await to_thread.run_sync(waiting.acquire)
                billing._system.reading = read  # type: ignore[method-assign]
                await get(other)
                answered = list(codes)
                go_on.set()
            return answered

        billing._system.reading = reading  # type: ignore[method-assign]
        assert run(ask) == [200]
