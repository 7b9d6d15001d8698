"""The service on a full disk: it refuses writes, answers reads, says so, and goes on once there is room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg
import pytest

from tests.asgi import send
from usagebill import Billing
from usagebill.core.errors import StorageFull
from usagebill.http.app import create_app
from usagebill.operations import api_keys
from usagebill.runtime.clock import ManualClock
from usagebill.storage import failures
from usagebill.storage.sqlite import SqliteStore

START = datetime(2024, 1, 1, tzinfo=UTC)
FEBRUARY = datetime(2024, 2, 1, 1, tzinfo=UTC)


@contextmanager
def full_disk(billing: Billing, database: str) -> Iterator[None]:
    """There is no room for another page; PostgreSQL fails with what it says then."""
    store = billing.store
    if not isinstance(store, SqliteStore):
        with psycopg.connect(database, autocommit=True) as server:
            server.execute(
                "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
            )
            for table in ("customers", "invoices"):
                server.execute(f"CREATE TRIGGER no_room BEFORE INSERT ON {table} EXECUTE FUNCTION no_room()")
            yield
            server.execute("DROP FUNCTION no_room() CASCADE")
        return
    pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
    store._writer.execute(f"PRAGMA max_page_count = {pages}")
    yield
    store._writer.execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_is_said_until_it_has_room_again(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Billing(empty_database) as billing:
        app = create_app(billing)
        _, key = billing.writing(lambda work: api_keys.create(work, "x"))
        headers = {"Authorization": f"Bearer {key}"}
        large = {"customer": {"external_id": "large", "name": "x" * 200, "metadata": []}}
        with full_disk(billing, empty_database):
            answers = []
            for number in range(300):
                body = {"customer": {**large["customer"], "external_id": f"c{number}"}}
                answers.append(send(app, "POST", "/api/v1/customers", json=body, headers=headers))
                if answers[-1].status_code != 200:
                    break
            told = answers[-1].json()
            assert (answers[-1].status_code, told["code"]) == (507, "storage_full")
            assert told["error"] == "Insufficient Storage"
            assert told["message"].startswith("the database has no room left on its disk, and nothing was changed")
            assert send(app, "GET", "/ready").json() == {"status": "storage_full"}
            assert send(app, "GET", "/health").status_code == 200
            page = send(app, "GET", "/api/v1/customers", headers=headers)
            assert page.json()["meta"]["total_count"] == len(answers) - 1
        assert send(app, "POST", "/api/v1/customers", json=large, headers=headers).status_code == 200
        monkeypatch.setattr(failures, "_FULL_SECONDS", 0.0)
        assert billing.store.reachability.failure is None


def test_a_job_that_meets_a_full_disk_keeps_all_its_attempts(empty_database: str) -> None:
    clock = ManualClock(START)
    with Billing(empty_database, clock=clock) as billing:
        billing.plans.create(
            code="basic", name="x", interval="monthly", amount_cents=100, amount_currency="EUR", pay_in_advance=False
        )
        for number in range(40):
            billing.customers.upsert(external_id=f"c{number}")
            billing.subscriptions.create(external_customer_id=f"c{number}", plan_code="basic", external_id=f"s{number}")
        billing.run_due()
        clock.set(FEBRUARY)
        with full_disk(billing, empty_database):
            for _ in range(10):
                with pytest.raises(StorageFull):
                    billing.run_due()
        state = billing.store.read(None, lambda tx: tx.jobs.state(clock.now()))
        assert (state.failed, state.retrying) == (0, 0)
        billing.run_due()
        assert billing.invoices.list().total_count == 40
        assert billing.audit().findings == ()
