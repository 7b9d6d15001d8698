"""Nothing is written or billed by a clock that jumped back, or far ahead, until it is right or confirmed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from tests.asgi import send
from tests.json_asserts import for_programs
from tests.scenarios import plan_fields
from tests.service import Service, command
from usagebill import Billing
from usagebill.core.errors import ClockRefused
from usagebill.http.app import create_app
from usagebill.operations import api_keys
from usagebill.process.settings import Settings
from usagebill.runtime.clock import ManualClock, SystemClock
from usagebill.worker import Worker

START = datetime(2026, 3, 1, tzinfo=UTC)
BEHIND, AHEAD = timedelta(minutes=-6), timedelta(days=101)


class MachineClock(SystemClock):
    """The machine's clock, as far as billing can tell."""

    def __init__(self) -> None:
        self.shown = START

    def now(self) -> datetime:
        return self.shown


@pytest.fixture
def clock() -> MachineClock:
    return MachineClock()


@pytest.fixture
def billing(tmp_path: Path, clock: MachineClock) -> Iterator[Billing]:
    """A file in which a customer waits for the bill of March."""
    with Billing(tmp_path / "billing.db", clock=clock, deliver=False) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.plans.create(**plan_fields(amount_cents=900))
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="s1")
        billing.run_due()
        yield billing


def bills(billing: Billing) -> int:
    return billing.invoices.list().total_count


def test_nothing_is_written_by_a_clock_that_is_behind(billing: Billing, clock: MachineClock) -> None:
    clock.shown = START + BEHIND
    for act in (
        lambda: billing.customers.upsert(external_id="late"),
        billing.run_due,
        billing._system.run_batch,
        billing._system.reach_out,
    ):
        with pytest.raises(ClockRefused, match="0:06:00 behind the newest instant in the database"):
            act()
    assert billing.customers.list().total_count == 1
    clock.shown = START + timedelta(minutes=-4)
    billing.customers.upsert(external_id="late")
    assert billing.customers.list().total_count == 2


def test_nothing_is_billed_by_a_clock_that_is_far_ahead_until_somebody_confirms_it(
    billing: Billing, clock: MachineClock
) -> None:
    clock.shown = START + AHEAD
    # A change of a customer would bill what is overdue of it.
    for act in (billing.run_due, lambda: billing.customers.upsert(external_id="acme", name="Acme")) * 2:
        with pytest.raises(ClockRefused, match="101 days, 0:00:00 ahead of the newest instant"):
            act()
    assert bills(billing) == 0
    billing._system.clock_watch.confirm()
    billing.run_due()
    assert bills(billing) == 3


def test_a_clock_that_was_ahead_and_is_put_right_is_confirmed_too(billing: Billing, clock: MachineClock) -> None:
    clock.shown = START + timedelta(days=20)
    billing.customers.upsert(external_id="acme", name="Acme")
    clock.shown = START + timedelta(hours=1)
    with pytest.raises(ClockRefused):
        billing.customers.upsert(external_id="acme", name="Acme Ltd")
    billing._system.clock_watch.confirm()
    billing.customers.upsert(external_id="acme", name="Acme Ltd")
    assert billing.customers.get("acme").name == "Acme Ltd"


def test_a_month_without_anything_to_do_is_no_jump_while_a_worker_runs(billing: Billing, clock: MachineClock) -> None:
    billing.subscriptions.terminate("s1")
    billing.run_due()
    before = bills(billing)
    for _ in range(20):
        clock.shown += timedelta(days=90)
        billing._system.run_batch()
    billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="s2")
    clock.shown += timedelta(days=31)
    billing.run_due()
    assert bills(billing) > before


def test_the_watch_goes_by_what_other_processes_saw(tmp_path: Path, billing: Billing, clock: MachineClock) -> None:
    elsewhere = MachineClock()
    elsewhere.shown = START + AHEAD
    with Billing(tmp_path / "billing.db", clock=elsewhere, deliver=False) as other:
        with pytest.raises(ClockRefused):
            other.run_due()
        billing._system.clock_watch.confirm()
        with pytest.raises(ClockRefused):
            other.run_due()
        clock.shown = START + AHEAD
        billing._system.clock_watch.confirm()
        other.run_due()
        assert bills(other) == 3


def test_how_far_ahead_is_far_is_a_setting(tmp_path: Path, billing: Billing, clock: MachineClock) -> None:
    clock.shown = START + AHEAD
    with Billing(
        tmp_path / "billing.db", clock=clock, deliver=False, settings=Settings(clock_ahead_days=102)
    ) as patient:
        patient.run_due()
        assert bills(patient) == 3


def test_other_clocks_than_the_machines_are_not_watched(tmp_path: Path, billing: Billing) -> None:
    with Billing(tmp_path / "billing.db", clock=ManualClock(START + timedelta(days=400)), deliver=False) as travelling:
        travelling.run_due()
        assert bills(travelling) == 13
    with Billing(tmp_path / "billing.db", clock=ManualClock(START - timedelta(days=400)), deliver=False) as early:
        early.customers.upsert(external_id="early")


def test_a_file_says_at_once_that_the_clock_is_wrong_and_once_a_minute(tmp_path: Path, billing: Billing) -> None:
    wrong = MachineClock()
    wrong.shown = START + AHEAD
    structlog.reset_defaults()
    with (
        capture_logs() as lines,
        Billing(tmp_path / "billing.db", clock=wrong, deliver=False) as opened,
        Worker(opened, poll_seconds=0.001),
    ):
        for _ in range(50):
            with pytest.raises(ClockRefused):
                opened.customers.upsert(external_id="acme")
    (line,) = (line for line in lines if line["event"] == "clock_is_ahead")
    assert line["log_level"] == "error"
    assert "usagebill clock --confirm" in line["reason"]
    assert len(lines) == 1


def test_the_api_answers_503_to_writes_and_goes_on_reading(billing: Billing, clock: MachineClock) -> None:
    _, key = billing.writing(lambda work: api_keys.create(work))
    clock.shown = START + BEHIND
    app, headers = create_app(billing), {"Authorization": f"Bearer {key}"}
    refused = send(app, "POST", "/api/v1/customers", json={"customer": {"external_id": "b"}}, headers=headers)
    assert refused.status_code == 503
    assert for_programs(refused.json()) == {"status": 503, "error": "Service Unavailable", "code": "clock_is_behind"}
    assert refused.headers["retry-after"] == "60"
    assert send(app, "GET", "/api/v1/customers/acme", headers=headers).status_code == 200


def move(file: Path, **distance: float) -> None:
    """Have the file believe that the newest instant was so far from now."""
    connection = sqlite3.connect(file)
    newest = (datetime.now(UTC) + timedelta(**distance)).isoformat(timespec="microseconds")
    connection.execute("INSERT OR REPLACE INTO clock (id, newest) VALUES (1, ?)", (newest,))
    connection.commit()
    connection.close()


def command_answer(*arguments: str) -> tuple[int, Any]:
    done = command(*arguments, "--json", check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


@pytest.mark.slow
def test_commands_refuse_and_confirm(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    with Service(file):
        pass
    for distance, code in (({"days": -110}, "clock_is_ahead"), ({"hours": 1}, "clock_is_behind")):
        move(file, **distance)
        status, text = command_answer("run-due", "--db", str(file))
        assert status == 1
        assert "usagebill clock --confirm" in text
        status, answer = command_answer("clock", "--db", str(file))
        assert (status, answer["problem"]) == (1, code)
        assert command_answer("clock", "--confirm", "--db", str(file))[1]["problem"] is None
        assert command_answer("run-due", "--db", str(file)) == (0, {"done": 0, "failed": []})


@pytest.mark.slow
def test_the_command_says_that_a_file_was_billed_ahead_of_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    with Billing(path, deliver=False) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        plan: dict[str, Any] = {
            "name": "P",
            "code": "p",
            "interval": "monthly",
            "amount_cents": 100,
            "amount_currency": "EUR",
        }
        billing.plans.create(**plan, pay_in_advance=False)
        billing.subscriptions.create(external_customer_id="acme", plan_code="p", external_id="sub")
        assert command_answer("clock", "--db", str(path))[1]["billed_ahead"] is None
        later = datetime.now(UTC) + timedelta(days=40)
        billing.run_due(now=later)
    ahead = command_answer("clock", "--db", str(path))[1]["billed_ahead"]
    assert datetime.now(UTC) < datetime.fromisoformat(ahead) <= later
