"""Stalled billing is visible in `usagebill status`, `/metrics`, `/ready` and the workers' log lines."""

from __future__ import annotations

import json
import platform
import re
import sqlite3
import sys
import threading
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from tests.asgi import send
from tests.example_tasks import Act
from tests.postgresql import new_database
from tests.receiver import Receiver
from tests.scenarios import plan_fields
from usagebill import Billing, __version__
from usagebill.cli import main
from usagebill.core.event_shipments import EventShipment
from usagebill.core.processes import Process, ProcessKind
from usagebill.http.app import create_app
from usagebill.http.metrics import Metrics
from usagebill.operations import api_keys, unbilled_events
from usagebill.operations.jobs import HANDLERS, Handler
from usagebill.operations.standing import standing
from usagebill.process.settings import Settings
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.storage.sqlite.schema import VERSION
from usagebill.worker import Worker

pytestmark = pytest.mark.beyond_reference

NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)


def break_down(work: Work, task: Act) -> None:
    raise RuntimeError("broken")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "billing.db"
    Billing(path).close()
    return str(path)


def status(file: str, *arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(main, ["status", "--db", file, "--json", *arguments])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def leave(file: str, ago: timedelta, *names: str) -> None:
    """Jobs that have been due for so long, and that nobody does."""
    with Billing(file) as billing:

        def schedule(work: Work) -> None:
            for name in names:
                work.schedule(Act(name=name), work.now - ago)

        billing.writing(schedule)


def test_a_file_with_nothing_to_do_is_fine(file: str) -> None:
    report = status(file)
    assert (report["ok"], report["problems"], report["processes"]) == (True, [], [])
    assert report["jobs"]["due"] == 0
    assert report["jobs"]["oldest_due_seconds"] == 0
    text = CliRunner().invoke(main, ["status", "--db", file]).stdout
    assert text.splitlines()[-1] == "ok"
    assert "unbilled  none\n" in text
    assert "next run  none" in text
    assert report["events_unbilled"] == {}


def test_status_tells_the_count_of_unbilled_events_with_its_time(file: str) -> None:
    clock = ManualClock(NOW)
    with Billing(file, clock=clock) as billing:
        billing.writing(unbilled_events.schedule)
        billing.events.create(transaction_id="t1", external_subscription_id="nobody", code="calls")
        clock.set(NOW + timedelta(days=1))
        billing.run_due()
        counted = standing(billing.store, billing.clock.now())
        assert (counted.unbilled, counted.unbilled_at) == ({"subscription_not_found": 1}, clock.now())
        billing.events.create(transaction_id="t2", external_subscription_id="nobody", code="calls")
    # What came since the worker's count is told too.
    report = status(file, "--max-age", str(10**9))
    assert report["events_unbilled"] == {"subscription_not_found": 2}
    assert report["events_unbilled_counted_at"] > "2024-03-06T12:00:00Z"
    text = CliRunner().invoke(main, ["status", "--db", file]).stdout
    assert "unbilled  2 subscription_not_found\n" in text


def test_status_tells_when_unbilled_events_were_counted_if_they_are_many_to_look_through(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unbilled_events, "_COUNTED_WHILE_ONE_WAITS", 1)
    clock = ManualClock(NOW)
    with Billing(file, clock=clock) as billing:
        billing.writing(unbilled_events.schedule)
        for code in ("calls", "bytes"):
            billing.events.create(transaction_id=code, external_subscription_id="nobody", code=code)
        clock.set(NOW + timedelta(days=1))
        billing.run_due()
    text = CliRunner().invoke(main, ["status", "--db", file]).stdout
    assert "unbilled  2 subscription_not_found at 2024-03-06T12:00:00Z, when they were last counted; `usagebill" in text


def test_status_tells_the_next_run_and_its_size(file: str) -> None:
    with Billing(file) as billing:
        billing.plans.create(**plan_fields(code="plan", amount_cents=100))
        for name in ("a", "b", "c"):
            billing.customers.upsert(external_id=name, currency="EUR", timezone="UTC" if name != "c" else "Asia/Tokyo")
            billing.subscriptions.create(external_customer_id=name, external_id=name, plan_code="plan")
        first = billing.clock.now().date().replace(day=1)
    following = (first + timedelta(days=32)).replace(day=1)
    run = status(file)["next_run"]
    # Billed ten minutes into the month. Tokyo's begins nine hours earlier, unless that has passed.
    assert run in (
        {"at": f"{following - timedelta(days=1)}T15:10:00Z", "customers": 1},
        {"at": f"{following}T00:10:00Z", "customers": 2},
    )
    text = CliRunner().invoke(main, ["status", "--db", file]).stdout
    assert f"next run  {run['at']}, {run['customers']} customers" in text


def test_room_in_a_file_that_nothing_uses_is_said_if_it_is_worth_returning(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE of_before (id); INSERT INTO of_before VALUES (zeroblob(3 << 20))")
        assert status(file)["unused_bytes"] < 1 << 20
        connection.execute("DROP TABLE of_before")
    assert 3 << 20 <= status(file)["unused_bytes"] < 4 << 20
    said = "file      3 MiB of it hold nothing: VACUUM returns them to the disk"
    assert said not in CliRunner().invoke(main, ["status", "--db", file]).stdout
    monkeypatch.setattr("usagebill.cli.status._WORTH_RETURNING", 3 << 20)
    assert said in CliRunner().invoke(main, ["status", "--db", file]).stdout.splitlines()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM")
    assert status(file)["unused_bytes"] == 0


def test_jobs_that_nobody_does_are_a_standstill(file: str) -> None:
    leave(file, timedelta(minutes=10), "a", "b")
    report = status(file, code=1)
    assert report["jobs"]["due"] == 2
    assert 600 <= report["jobs"]["oldest_due_seconds"] < 700
    assert report["problems"] == [
        f"2 jobs are due, the first for {timedelta(seconds=report['jobs']['oldest_due_seconds'])}",
        "no worker runs",
    ]
    assert report["jobs"]["lanes"] == [{"lane": "billing", "due": 2, "oldest_due_seconds": pytest.approx(600, abs=100)}]
    assert status(file, "--max-age", "3600")["ok"]
    done = CliRunner().invoke(main, ["status", "--db", file])
    assert re.search(r"^waiting   billing: 2, the first for 0:1\d:\d\d$", done.stdout, re.MULTILINE)
    assert (done.exit_code, "problem   2 jobs are due" in done.stdout) == (1, True)


def test_failed_jobs_are_a_problem_until_they_are_retried(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, break_down))
    clock = ManualClock(datetime.now(UTC))
    with Billing(file, clock=clock) as billing:
        billing.writing(lambda work: work.schedule(Act(name="a"), work.now))
        billing.run_due()
        assert standing(billing.store, billing.clock.now()).queue.retrying == 1
        assert standing(billing.store, billing.clock.now()).problems(timedelta(minutes=5)) == []
        while (due := billing.next_due()) is not None:
            clock.set(due)
            billing.run_due()
        assert standing(billing.store, billing.clock.now()).queue.failed == 1
        assert standing(billing.store, billing.clock.now()).problems(timedelta(minutes=5)) == [
            "1 jobs have failed: see `usagebill jobs list`"
        ]
        (job,) = billing.store.read(None, lambda tx: tx.jobs.failures())
        monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, lambda work, task: None))
        billing.store.write(None, lambda tx: tx.jobs.retry(job.id, clock.now()))
        billing.run_due()
        assert standing(billing.store, billing.clock.now()).problems(timedelta(minutes=5)) == []


def test_status_only_reads_and_knows_who_ran_jobs(file: str) -> None:
    leave(file, timedelta(seconds=1), "a")
    before = Path(file).read_bytes()
    assert status(file)["jobs"]["last_done_at"] is None
    assert Path(file).read_bytes() == before
    handlers = dict(HANDLERS)
    HANDLERS[Act.kind] = Handler(Act, lambda work, task: None)
    try:
        assert CliRunner().invoke(main, ["run-due", "--db", file]).exit_code == 0
    finally:
        HANDLERS.clear()
        HANDLERS.update(handlers)
    report = status(file)
    assert report["jobs"]["last_done_at"] is not None
    (run,) = report["processes"]
    assert run["name"].startswith("run-due on ")
    # It has ended, as it should.
    assert (run["live"], run["missing"]) == (False, False)
    assert run["stopped_at"] == run["seen_at"] >= run["started_at"]


def seen(id: str, at: datetime, **said: Any) -> Process:
    worker = Process(
        id=id, name=id, kind=ProcessKind.WORKER, workers=1, version="0.1.0", schema=64, started_at=at, seen_at=at
    )
    return replace(worker, **said)


def test_processes_are_forgotten_after_a_week() -> None:
    clock = ManualClock(NOW)
    with Billing(clock=clock) as billing:
        billing._system.transact(lambda tx: tx.note_process(seen("a", NOW)))
        clock.set(NOW + timedelta(seconds=31))
        assert [process.name for process in standing(billing.store, clock.now()).processes] == ["a"]
        assert standing(billing.store, clock.now()).live == ()
        clock.set(NOW + timedelta(days=8))
        billing._system.transact(lambda tx: tx.note_process(seen("b", clock.now())))
        assert [process.name for process in standing(billing.store, clock.now()).processes] == ["b"]


def test_status_tells_dead_processes_from_those_that_run(file: str) -> None:
    now = datetime.now(UTC)
    with Billing(file) as billing:
        for process in (
            seen("here:1:aaaa", now),
            seen("gone:2:bbbb", now - timedelta(minutes=10), kind=ProcessKind.SERVER, workers=0),
            seen("gone:3:cccc", now - timedelta(minutes=10)),
            seen("ended:4:dddd", now - timedelta(minutes=10), stopped_at=now - timedelta(minutes=10)),
        ):
            billing._system.transact(partial(lambda tx, process: tx.note_process(process), process=process))
    text = CliRunner().invoke(main, ["status", "--db", file]).stdout.splitlines()
    assert "workers   1" in text
    assert "worker    here:1:aaaa  usagebill 0.1.0, schema 64, 1 worker" in text
    # The server had no successor; the worker that runs took the place of the dead one.
    (died,) = [line for line in text if line.startswith("died")]
    assert died.startswith("died      server gone:2:bbbb  last seen ")
    assert "ended:4:dddd" not in "".join(text)
    told = {process["name"]: (process["live"], process["missing"]) for process in status(file)["processes"]}
    assert told == {
        "here:1:aaaa": (True, False),
        "gone:2:bbbb": (False, True),
        "gone:3:cccc": (False, False),
        "ended:4:dddd": (False, False),
    }


def test_consumers_that_fail_fall_behind_or_died_show_where_operators_look(file: str) -> None:
    now = datetime.now(UTC)
    consumer = partial(seen, kind=ProcessKind.CONSUMER, workers=0)
    with Billing(file) as billing:
        for process in (
            consumer("here:1:aaaa", now, consumes="nats:USAGE", waiting=0),
            consumer("here:2:bbbb", now, consumes="kafka:usage", failing="OSError: no route"),
            consumer("here:3:cccc", now, consumes="file:/in", waiting=7, waits_since=now - timedelta(minutes=10)),
            consumer("gone:4:dddd", now - timedelta(minutes=10), consumes="nats:OTHER"),
        ):
            billing._system.transact(partial(lambda tx, process: tx.note_process(process), process=process))
        text = Metrics(billing, "key").text().decode()
    assert 'usagebill_consumer_waiting{source="file:/in"} 7.0' in text
    assert 'usagebill_consumer_failing{source="kafka:usage"} 1.0' in text
    assert 'usagebill_consumer_failing{source="nats:USAGE"} 0.0' in text
    assert 'usagebill_processes_missing{kind="consumer"} 1.0' in text
    shown = CliRunner().invoke(main, ["status", "--db", file])
    assert shown.exit_code == 1
    for line in (
        "consumer  here:1:aaaa  usagebill 0.1.0, schema 64, nats:USAGE: 0 messages wait",
        "problem   the consumer here:2:bbbb of kafka:usage fails: OSError: no route",
        "problem   7 messages wait in file:/in, some of them for 0:10:0",
        "problem   the consumer of nats:OTHER has died: gone:4:dddd",
    ):
        assert line in shown.stdout, line
    report = json.loads(CliRunner().invoke(main, ["status", "--json", "--db", file]).stdout)
    assert {process["name"]: process["waiting"] for process in report["processes"]}["here:3:cccc"] == 7


def test_a_worker_writes_one_line_for_a_batch_and_leaves_a_trace(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    finished = threading.Event()

    def act(work: Work, task: Act) -> None:
        done.append(task.name)
        if len(done) == 120:
            finished.set()

    monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, act))
    leave(file, timedelta(seconds=1), *map(str, range(120)))
    with capture_logs() as logs, Billing(file) as billing:
        with Worker(billing):
            assert finished.wait(60)
            (process,) = standing(billing.store, billing.clock.now()).processes
            assert (process.kind, process.workers, process.is_live(billing.clock.now())) == ("program", 1, True)
        (process,) = standing(billing.store, billing.clock.now()).processes
        assert process.last_done_at is not None
        assert process.workers == 0
    lines = [line for line in logs if line["event"] == "jobs_done" and line["kind"] == "billing"]
    assert sum(line["jobs"] for line in lines) >= 120
    # Not one for each job, nor for each commit of some.
    assert len(lines) <= 4
    assert {line["log_level"] for line in lines} == {"info"}


# HTTP

SECRET = {"authorization": "Bearer scraper"}


def families(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        sample.name: {
            tuple(other.labels.values()): other.value for other in family.samples if other.name == sample.name
        }
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Client:
    """Sends requests to the app of a billing system."""

    def __init__(self, billing: Billing) -> None:
        self._app = create_app(billing)

    def get(self, path: str, **rest: Any) -> httpx.Response:
        return send(self._app, "GET", path, **rest)

    def post(self, path: str, **rest: Any) -> httpx.Response:
        return send(self._app, "POST", path, **rest)


def test_metrics_need_their_own_key() -> None:
    with Billing() as billing:
        assert Client(billing).get("/metrics").status_code == 404
    with Billing(settings=Settings(metrics_key="scraper")) as billing:
        web = Client(billing)
        for headers in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic scraper"}):
            assert web.get("/metrics", headers=headers).status_code == 401
        assert web.get("/metrics", headers=SECRET).status_code == 200
    assert "scraper" not in repr(Settings(metrics_key="scraper"))


def test_metrics_count_requests_jobs_invoices_events_and_webhooks() -> None:
    clock = ManualClock(NOW)
    with Billing(clock=clock, settings=Settings(metrics_key="scraper"), deliver=False) as billing:
        _, key = billing.writing(api_keys.create)
        web = Client(billing)
        mine = {"authorization": f"Bearer {key}"}
        billing.webhook_endpoints.create(webhook_url="https://listener.example")
        for external_id in ("a", "b"):
            body = {"customer": {"external_id": external_id, "currency": "EUR"}}
            assert web.post("/api/v1/customers", headers=mine, json=body).status_code == 200
        assert web.get("/api/v1/customers/a", headers=mine).status_code == 200
        assert web.get("/api/v1/customers/none", headers=mine).status_code == 404
        assert web.get("/api/v1/nothing", headers=mine).status_code == 404
        event = {"transaction_id": "t", "code": "calls", "external_subscription_id": "sub"}
        assert web.post("/api/v1/events", headers=mine, json={"event": event}).status_code == 200
        billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
        billing.invoices.create_one_off(external_customer_id="a", fees=[{"add_on_code": "setup"}])
        billing.writing(lambda work: work.schedule(Act(name="a"), work.now - timedelta(minutes=3)))
        answer = web.get("/metrics", headers=SECRET)
        assert answer.headers["content-type"].startswith("text/plain; version=")
        metrics = families(answer.text)
        requests = metrics["usagebill_http_requests_total"]
        assert requests["POST", "/api/v1/customers", "200"] == 2
        # Paths are those of operations, so that there are few.
        assert requests["GET", "/api/v1/customers/{external_id}", "200"] == 1
        assert requests["GET", "/api/v1/customers/{external_id}", "404"] == 1
        assert requests["GET", "other", "404"] == 1
        assert metrics["usagebill_http_request_duration_seconds_count"]["POST", "/api/v1/customers"] == 2
        assert metrics["usagebill_events_total"][()] == 1
        # They have not been counted yet, which is another thing than none.
        assert "usagebill_events_unbilled" not in metrics
        assert "usagebill_events_unbilled_counted_timestamp_seconds" not in metrics
        assert metrics["usagebill_invoices"]["finalized",] == 1
        assert metrics["usagebill_webhook_messages"]["pending",] > 0
        assert metrics["usagebill_jobs_due"]["billing",] >= 1
        assert metrics["usagebill_jobs_due"]["deliver_webhook",] > 0
        assert metrics["usagebill_jobs_oldest_due_age_seconds"]["billing",] == 180
        assert metrics["usagebill_jobs_failed"] == {("bill_customer",): 0, ("send_email",): 0}
        assert metrics["usagebill_workers"][()] == 0


def test_metrics_tell_the_program_and_its_process(file: str) -> None:
    with Billing(file, settings=Settings(metrics_key="scraper")) as billing:
        metrics = families(Client(billing).get("/metrics", headers=SECRET).text)
        ((labels, value),) = metrics["usagebill_build_info"].items()
        assert (sorted(labels), value) == (sorted((__version__, str(VERSION), platform.python_version())), 1)
        # A file has no server to be connected to.
        assert "usagebill_database_connections" not in metrics
        if sys.platform == "linux":
            assert metrics["process_start_time_seconds"][()] < datetime.now(UTC).timestamp()
            assert metrics["process_resident_memory_bytes"][()] > 1_000_000


@pytest.mark.second_engine
def test_metrics_tell_the_connections_to_a_server() -> None:
    with new_database() as url, Billing(url, settings=Settings(metrics_key="scraper")) as billing:
        metrics = families(Client(billing).get("/metrics", headers=SECRET).text)
        assert metrics["usagebill_database_connections"] == {("used",): 0, ("idle",): pytest.approx(1, abs=1)}
        assert metrics["usagebill_database_connections_most"][()] == 20
        assert metrics["usagebill_database_connections_awaited"][()] == 0


def test_jobs_that_are_retried_or_given_up_are_told_by_kind(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, break_down))
    leave(file, timedelta(seconds=1), "a", "b")
    with Billing(file, settings=Settings(metrics_key="scraper")) as billing:
        billing.run_due()
        metrics = families(Client(billing).get("/metrics", headers=SECRET).text)
        assert metrics["usagebill_jobs_retrying"][Act.kind,] == 2
        assert (Act.kind,) not in metrics["usagebill_jobs_failed"]
    assert status(file)["jobs"]["retrying_by_kind"] == {Act.kind: 2}


def test_endpoints_that_fail_are_named_until_they_accept_a_message(tmp_path: Path) -> None:
    path, clock = tmp_path / "billing.db", ManualClock(NOW)
    with (
        Billing(path, clock=clock, settings=Settings(metrics_key="scraper")) as billing,
        Receiver(500, 500, 200) as receiver,
        Receiver() as fine,
    ):
        for one in (receiver, fine):
            billing.webhook_endpoints.create(webhook_url=one.url)
        assert standing(billing.store, NOW).failing_endpoints == ()
        billing.customers.upsert(external_id="acme")
        billing.run_due()
        clock.set(NOW + timedelta(minutes=1))
        billing.run_due()
        (failing,) = standing(billing.store, clock.now()).failing_endpoints
        assert (failing.webhook_url, failing.failing_since) == (receiver.url, NOW)
        assert families(Client(billing).get("/metrics", headers=SECRET).text)[
            "usagebill_webhook_endpoints_failing"
        ] == {(): 1}
        report = status(str(path), code=1)
        assert report["webhooks_failing"] == [
            {
                "organization_id": billing.organization.id,
                "webhook_endpoint_id": failing.id,
                "webhook_url": receiver.url,
                "failing_since": "2024-03-05T12:00:00Z",
            }
        ]
        assert f"webhooks to {receiver.url} have failed since 2024-03-05 12:00 UTC" in str(report["problems"])
        assert "webhooks to" not in str(standing(billing.store, clock.now()).problems(timedelta(minutes=5)))
        # Nobody changed the endpoint: that it fails is no event of security.
        assert billing.security_logs.list(to_date="2100-01-01", log_events=["webhook_endpoint.updated"]).items == []
        clock.set(NOW + timedelta(minutes=10))
        billing.run_due()
        assert standing(billing.store, clock.now()).failing_endpoints == ()


def test_events_that_an_event_store_was_not_sent_are_seen(file: str) -> None:
    received_at = datetime.now(UTC) - timedelta(minutes=10)
    with Billing(file, clock=ManualClock(received_at)) as billing:
        billing.events.create(transaction_id="t1", external_subscription_id="sub", code="calls")
        billing.events.create(transaction_id="t2", external_subscription_id="sub", code="calls")
        shipment = EventShipment(
            id="shipment",
            organization_id=billing.organization.id,
            event_store_id="store",
            created_at=received_at,
            updated_at=received_at,
        )
        billing.store.write(billing.organization.id, lambda tx: tx.insert(shipment))
    # It is being filled: nothing is asked of it yet.
    (store,) = status(file)["event_stores"]
    assert (store["waiting"], store["waits_since"], store["counts"]) == (2, f"{received_at:%Y-%m-%dT%H:%M:%SZ}", False)

    def change(**changes: Any) -> None:
        with Billing(file) as billing:
            known = replace(shipment, **changes)
            billing.store.write(billing.organization.id, lambda tx: tx.replace(known))

    change(is_read=True)
    (problem,) = status(file, code=1)["problems"]
    assert re.fullmatch(r"2 events were not sent to the event store for 0:10:\d\d \(organization .*\)", problem)
    assert status(file, "--max-age", "3600")["ok"]
    text = CliRunner().invoke(main, ["status", "--db", file]).stdout
    assert f"shipping  2 events wait, the first since {store['waits_since']}; the event store counts" in text
    settings = Settings(metrics_key="scraper")
    with Billing(file, clock=ManualClock(received_at + timedelta(seconds=40)), settings=settings) as billing:
        metrics = families(Client(billing).get("/metrics", headers=SECRET).text)
        assert metrics["usagebill_events_unshipped"]["store",] == 2
        assert metrics["usagebill_events_unshipped_age_seconds"]["store",] == 40
        assert metrics["usagebill_event_store_faults"]["store",] == 0
    change(is_read=True, shipped_to=2)
    assert status(file)["event_stores"][0]["waiting"] == 0
    change(is_read=True, shipped_to=2, fault="part of what it held is gone")
    (problem,) = status(file, code=1)["problems"]
    assert problem.endswith("part of what it held is gone")


def test_ready_fails_while_jobs_are_overdue_if_set_to() -> None:
    clock = ManualClock(NOW)
    with Billing(clock=clock, settings=Settings(ready_max_age=300)) as billing:
        web = Client(billing)
        billing.writing(lambda work: work.schedule(Act(name="a"), work.now))
        assert web.get("/ready").json() == {"status": "ok"}
        clock.set(NOW + timedelta(seconds=301))
        answer = web.get("/ready")
        assert (answer.status_code, answer.json()) == (503, {"status": "jobs are overdue", "oldest_due_seconds": 301})
    with Billing(clock=clock) as billing:
        billing.writing(lambda work: work.schedule(Act(name="a"), work.now - timedelta(days=1)))
        assert Client(billing).get("/ready").status_code == 200
