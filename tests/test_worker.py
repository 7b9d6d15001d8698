"""Workers run due jobs by themselves, each job once, however many workers there are."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from tests.example_tasks import Act, Follow, Talk
from tests.service import ENVIRONMENT
from usagebill import Billing
from usagebill.core.jobs import Job
from usagebill.operations.jobs import HANDLERS, Handler
from usagebill.outside.handlers import OUTSIDE, OutsideHandler
from usagebill.outside.job_host import JobHost
from usagebill.runtime.work import Work
from usagebill.worker import Worker

JOBS = 1000
COUNTING = """
import sys
from usagebill import Billing
from usagebill.operations.jobs import HANDLERS, Handler
from tests.example_tasks import Act
HANDLERS[Act.kind] = Handler(Act, lambda work, task: work.tx.next_number("counted"))
with Billing(sys.argv[1]) as billing:
    print("ready", flush=True)
    sys.stdin.readline()
    done = 0
    while some := billing._system.run_batch():
        done += some
    print(done)
"""


@pytest.mark.slow
def test_two_processes_on_one_file_do_each_job_once(tmp_path: Path) -> None:
    file = str(tmp_path / "billing.db")
    with Billing(file) as billing:
        billing.writing(lambda work: [work.schedule(Act(name=str(number)), work.now) for number in range(JOBS)])
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", COUNTING, file],
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        done = [int(worker.communicate(timeout=60)[0]) for worker in workers]
        assert sum(done) == JOBS
        assert billing.next_due() is None
        assert billing.writing(lambda work: work.tx.next_number("counted")) == JOBS + 1


def test_jobs_that_talk_to_the_outside_are_done_by_one_worker_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    all_seen = threading.Event()

    def talk(host: JobHost, organization: object, job: Job, task: Talk) -> None:
        seen.append(task.name)
        host.transact(lambda tx: tx.jobs.complete(job))
        if len(seen) == 50:
            all_seen.set()

    monkeypatch.setitem(OUTSIDE, Talk.kind, OutsideHandler(Talk, talk))
    with Billing(tmp_path / "billing.db") as billing:
        billing.writing(lambda work: [work.schedule(Talk(name=str(number)), work.now) for number in range(50)])
        with Worker(billing), Worker(billing):
            assert all_seen.wait(30)
        assert sorted(seen, key=int) == [str(number) for number in range(50)]


def test_a_job_that_breaks_outside_waits_for_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def talk(host: JobHost, organization: object, job: Job, task: Talk) -> None:
        tries.append(task.name)
        if len(tries) == 1:
            raise ConnectionError("nobody there")
        host.transact(lambda tx: tx.jobs.complete(job))

    monkeypatch.setitem(OUTSIDE, Talk.kind, OutsideHandler(Talk, talk))
    with Billing() as billing:
        billing.writing(lambda work: work.schedule(Talk(name="one"), work.now))
        assert billing.run_due() == 1
        (failure,) = billing.store.read(None, lambda tx: tx.jobs.failures())
        assert (failure.attempts, failure.error) == (1, "ConnectionError: nobody there")
        assert billing.run_due() == 0
        assert billing.run_due(failure.run_at) == 1
        assert (tries, billing.next_due()) == (["one", "one"], None)


def test_a_write_wakes_the_worker_and_a_broken_job_does_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()

    def act(work: Work, task: Act) -> None:
        if task.name == "broken":
            raise ZeroDivisionError
        work.schedule(Follow(name=task.name), work.now)

    monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, act))
    monkeypatch.setitem(HANDLERS, Follow.kind, Handler(Follow, lambda work, task: done.set()))
    # It polls once in a thousand seconds: only being woken can bring it to work.
    with Billing(tmp_path / "billing.db") as billing:
        with Worker(billing, poll_seconds=1000):
            billing.writing(lambda work: work.schedule(Act(name="broken"), work.now))
            billing.writing(lambda work: work.schedule(Act(name="sound"), work.now))
            assert done.wait(30)
        assert [job.error for job in billing.store.read(None, lambda tx: tx.jobs.failures())] == ["ZeroDivisionError: "]


def test_what_is_done_as_of_an_earlier_instant_wakes_the_worker_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, lambda work, task: done.set()))

    def settle_backlog(work: Work) -> None:
        earlier = work.at(work.now - timedelta(days=1))
        earlier.schedule(Act(name="x"), earlier.now)

    with Billing(tmp_path / "billing.db") as billing, Worker(billing, poll_seconds=1000):
        billing.writing(settle_backlog)
        assert done.wait(30)


def test_jobs_of_other_processes_are_seen_without_being_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, lambda work, task: done.set()))
    file = tmp_path / "billing.db"
    with Billing(file) as mine, Billing(file) as other, Worker(mine, poll_seconds=0.01):
        other.writing(lambda work: work.schedule(Act(name="x"), work.now))
        assert done.wait(30)
