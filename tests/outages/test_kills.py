"""Acknowledged data is in the database, however the process ends and however many processes write to it."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import Any

import httpx
import psycopg
import pytest

from tests.service import ENVIRONMENT, Service

pytestmark = pytest.mark.slow

BATCH = 10


class Sender(threading.Thread):
    """Posts single events and batches in turn until the server is gone or there is nothing left to send."""

    def __init__(self, service: Service, name: str, limit: int, progress: threading.Semaphore) -> None:
        super().__init__()
        self._service, self._prefix, self._limit, self._progress = service, name, limit, progress
        self.acknowledged: list[str] = []
        self.refused: list[Any] = []

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self._service.key}"}
        with httpx.Client(base_url=self._service.announced["url"], headers=headers, timeout=60) as client:
            for number in range(self._limit):
                size = BATCH if number % 2 else 1
                names = [f"{self._prefix}-{number}-{size}-{place}" for place in range(size)]
                events = [{"transaction_id": name, "code": "c", "external_subscription_id": "s"} for name in names]
                path, body = ("/events/batch", {"events": events}) if size > 1 else ("/events", {"event": events[0]})
                try:
                    answer = client.post(f"/api/v1{path}", json=body)
                except httpx.TransportError:
                    return
                finally:
                    self._progress.release()
                if answer.status_code == 200:
                    self.acknowledged += names
                else:
                    self.refused.append(answer.json())


def stored(database: str) -> list[str]:
    """The transaction ids in the database; a file must be whole."""
    if database.startswith("postgresql:"):
        with psycopg.connect(database) as server:
            return [row[0] for row in server.execute("SELECT transaction_id FROM events")]
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in connection.execute("SELECT transaction_id FROM events")]


def test_killed_at_any_moment_it_keeps_all_that_it_acknowledged_and_no_half_batch(database: str) -> None:
    chance = random.Random(20240101)
    key: str | None = None
    acknowledged: set[str] = set()
    for life in range(4):
        progress = threading.Semaphore(0)
        with Service(database, key=key) as service:
            key = service.key
            senders = [Sender(service, f"{life}-{number}", 10_000, progress) for number in range(4)]
            for sender in senders:
                sender.start()
            for _ in range(chance.randint(1, 120)):
                progress.acquire()
            service.kill()
            for sender in senders:
                sender.join()
                assert sender.refused == []
                acknowledged.update(sender.acknowledged)
        kept = stored(database)
        assert len(kept) == len(set(kept))
        assert acknowledged <= set(kept)
        batches = {name.rsplit("-", 1)[0]: 0 for name in kept}
        for name in kept:
            batches[name.rsplit("-", 1)[0]] += 1
        assert all(count == int(batch.rsplit("-", 1)[1]) for batch, count in batches.items())
    assert acknowledged


def test_two_processes_write_to_one_database_and_take_each_event_once(database: str) -> None:
    progress = threading.Semaphore(0)
    with Service(database) as first, Service(database, key=first.key) as second:
        # Each process is sent events of its own, and both are sent the same ones.
        senders = [
            Sender(service, name, 30, progress)
            for service in (first, second)
            for name in ("both", service.announced["url"])
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
    acknowledged = [name for sender in senders for name in sender.acknowledged]
    assert len(acknowledged) == len(set(acknowledged)) == 3 * 15 * (1 + BATCH)
    assert sorted(stored(database)) == sorted(acknowledged)
    refused = [problem["error_details"] for sender in senders for problem in sender.refused]
    assert len(refused) == 30
    taken = {"transaction_id": ["value_already_exist"]}
    assert all(details in (taken, {str(place): taken for place in range(BATCH)}) for details in refused)


def test_several_processes_may_make_the_same_database_at_once(database: str) -> None:
    program = (
        "import sys\n"
        "from usagebill import Billing\n"
        "with Billing(sys.argv[1]) as billing:\n"
        "    print(billing.organization.id)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, database], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(outputs) == 1
