"""What a job costs does not depend on how many others wait: each question is answered from the head of an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.examples import mostly_slow
from tests.storage.contract import NOW, Tenant, new_tenant, second

from usagebill.core.jobs import Job
from usagebill.storage.ports import Transaction
from usagebill.storage.sqlite import SqliteStore

WAITING = 3_000


@pytest.fixture
def tenant(tmp_path: Path) -> Iterator[Tenant]:
    store = SqliteStore(tmp_path / "billing.db")
    yield new_tenant(store)
    store.close()


def steps(tenant: Tenant, act: Callable[[Transaction], object]) -> int:
    """How many instructions of SQLite's virtual machine `act` takes, in hundreds."""
    writer: sqlite3.Connection = tenant.store._writer  # type: ignore[attr-defined]
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    def act_counted(tx: Transaction) -> None:
        writer.set_progress_handler(count, 100)
        act(tx)
        writer.set_progress_handler(None, 100)

    # As a worker asks: across all organizations.
    tenant.store.write(None, act_counted)
    return taken


def wait_for_a_retry(tenant: Tenant, *jobs: Job) -> None:
    def act(tx: Transaction) -> None:
        for job in jobs:
            tx.jobs.add(job)
            tx.jobs.postpone(job, NOW + timedelta(days=1), "nobody answers", failed=False)

    tenant.write(act)


QUESTIONS: dict[str, Callable[[Transaction, str], object]] = {
    "claim": lambda tx, _: tx.jobs.claim(NOW),
    "claim immediate": lambda tx, _: tx.jobs.claim(NOW, immediate=True),
    "lease": lambda tx, _: tx.jobs.lease("lane", NOW, second(60)),
    "lanes": lambda tx, _: tx.jobs.lanes(),
    "earliest": lambda tx, _: tx.jobs.earliest(["lane", "another"]),
    "next_due": lambda tx, _: tx.jobs.next_due(),
    "overdue": lambda tx, tenant: tx.scoped(tenant).jobs.overdue(None, NOW),
}


@pytest.mark.parametrize("question", mostly_slow(QUESTIONS, "earliest"))
def test_jobs_that_wait_for_a_retry_cost_the_others_nothing(tenant: Tenant, question: str) -> None:
    def add_some(tx: Transaction) -> None:
        for lane in ("", "lane", "other"):
            tx.jobs.add(tenant.job(lane=lane, immediate=True))
            tx.jobs.add(tenant.job(lane=lane, immediate=True))

    other = new_tenant(tenant.store)
    tenant.write(add_some)
    alone = steps(tenant, lambda tx: QUESTIONS[question](tx, tenant.id))
    for lane in ("", "lane"):
        wait_for_a_retry(other, *[other.job(at=second(-9), lane=lane, immediate=True) for _ in range(WAITING)])
    assert steps(tenant, lambda tx: QUESTIONS[question](tx, tenant.id)) <= alone + 3
