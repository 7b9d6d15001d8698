"""The billing runs of a batch read together what they need: none asks the database for a record alone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.test_run_oracle import START, price_lists, run, sign_up, use
from usagebill import Billing, system
from usagebill.core.jobs import Job
from usagebill.core.tasks import BillCustomer
from usagebill.queries import billing_runs
from usagebill.runtime.ahead import Ahead
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.storage.ports import Transaction
from usagebill.storage.sqlite.transaction import SqliteTransaction
from usagebill.system import System

MANY = 10
FEBRUARY = datetime(2024, 2, 1, 1, tzinfo=UTC)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Counter[str]]:
    """The records that each billing run reads from the database, by kind."""
    runs: list[Counter[str]] = []
    read, act = SqliteTransaction._rows, System._do

    def noted(tx: SqliteTransaction, kind: Any, *args: Any) -> Any:
        if runs:
            runs[-1][kind.__name__] += 1
        return read(tx, kind, *args)

    def begun(system: System, tx: Transaction, job: Job, ahead: Ahead) -> Work:
        if job.kind == BillCustomer.kind:
            runs.append(Counter())
        return act(system, tx, job, ahead)

    def ended(*args: Any) -> Any:
        # What is read for the next ones is not this one's.
        if runs:
            runs.append(Counter())
        return preload(*args)

    preload = billing_runs.preload
    monkeypatch.setattr(SqliteTransaction, "_rows", noted)
    monkeypatch.setattr(System, "_do", begun)
    monkeypatch.setattr(billing_runs, "preload", ended)
    monkeypatch.setattr(system, "_LONGEST", 1000.0)
    return runs


@pytest.mark.parametrize(
    ("plan", "kind"), [("graduated", "plain"), ("filters", "coupon"), ("fixed", "units"), ("groups", "plain")]
)
def test_a_run_asks_for_no_record_alone(tmp_path: Path, asked: list[Counter[str]], plan: str, kind: str) -> None:
    with Billing(tmp_path / "billing.db", clock=ManualClock(START), deliver=False) as billing:
        clock: Any = billing.clock
        price_lists(billing)
        for number in range(MANY):
            sign_up(billing, f"c{number}", plan, kind)
            use(billing, f"c{number}", number, START)
        clock.set(START + timedelta(days=2))
        run(billing)
        asked.clear()
        clock.set(FEBRUARY)
        # As many are read together as the last batch has done.
        billing._system._last_batch = MANY
        billing._system.run_batch(strict=True)
        last = dict(asked[-1])
        assert billing.invoices.list(per_page=100).total_count >= MANY
    # The first one also asks for the plan, which it shares with the others.
    assert last == {}
