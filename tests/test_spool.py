"""A spool: no event is lost or billed twice, whatever dies, and one that is refused holds up no other."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.clients import Answering, client_of
from tests.scenarios import plan_fields
from tests.service import ENVIRONMENT, Service
from usagebill import Billing
from usagebill.process.settings import Settings
from usagebill.spool import Spool

USED: dict[str, Any] = {"code": "calls", "external_subscription_id": "acme-pro"}


def prepared(billing: Any) -> None:
    billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
    billing.customers.upsert(external_id="acme", currency="EUR")
    billing.plans.create(**plan_fields(code="pro"))
    billing.subscriptions.create(external_customer_id="acme", plan_code="pro", external_id="acme-pro")


@pytest.fixture
def billing(tmp_path: Path) -> Iterator[Billing]:
    with Billing(tmp_path / "billing.db", deliver=False) as opened:
        prepared(opened)
        yield opened


def stored(billing: Billing) -> list[str]:
    return sorted(event.transaction_id for event in billing.events.list())


def until(done: Callable[[], object]) -> None:
    """Wait for what the thread of a spool does."""
    give_up = time.monotonic() + 60
    while not done():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def spool_of(
    billing: Billing, path: Path, *failures: int | str, every: float = 0.01, exit_seconds: float = 30
) -> tuple[Spool, Answering]:
    client, answering, _ = client_of(billing, *failures)
    return Spool(client, path / "events.spool", every=every, exit_seconds=exit_seconds), answering


def test_events_are_sent_in_batches_as_they_were_added(billing: Billing, tmp_path: Path) -> None:
    spool, answering = spool_of(billing, tmp_path, every=60)
    used_at = datetime(2024, 3, 1, 12, 30, 15, 250000, tzinfo=UTC)
    with spool:
        spool.add(transaction_id="first", **USED, properties={"gb": Decimal("0.1"), "cloud": "aws"}, timestamp=used_at)
        for number in range(150):
            spool.add(transaction_id=str(number), **USED)
        assert spool.waiting() == 151
        assert stored(billing) == []
    assert len(stored(billing)) == 151
    assert len(answering.sent) == 2
    first = billing.events.get("first")
    assert (first.timestamp, first.properties) == (used_at, {"gb": "0.1", "cloud": "aws"})


@pytest.mark.parametrize("failure", ["unreached", "lost", 503, 500, 401])
def test_nothing_is_lost_while_the_service_is_away(billing: Billing, tmp_path: Path, failure: int | str) -> None:
    with capture_logs() as logs:
        spool, answering = spool_of(billing, tmp_path, *[failure] * 3)
        with spool:
            for number in range(5):
                spool.add(transaction_id=str(number), **USED)
            until(lambda: not spool.waiting())
    assert stored(billing) == list("01234")
    assert [entry["event"] for entry in logs] == ["spool_failing", "spool_works_again"]
    assert spool.__dict__["_thread"].is_alive() is False
    assert "idempotency-key" not in answering.sent[0].headers


def test_refused_events_are_kept_aside_and_hold_up_no_other(billing: Billing, tmp_path: Path) -> None:
    with capture_logs() as logs:
        spool, _ = spool_of(billing, tmp_path, every=60)
        with spool:
            spool.add(transaction_id="1", **USED)
            spool.add(transaction_id="", **USED)
            spool.add(transaction_id="3", **USED)
            file = spool.__dict__["_file"]
            file.execute("INSERT INTO usagebill_spool VALUES ('x', '', '{\"timestamp\": \"garbled\"}')")
        assert stored(billing) == ["1", "3"]
    assert [entry["event"] for entry in logs] == ["event_refused"] * 2
    again, _ = spool_of(billing, tmp_path)
    with again:
        garbled, refused = again.refused()
        assert garbled.event == {"timestamp": "garbled"}
        assert refused.event["transaction_id"] == ""
        assert refused.problem == {"transaction_id": ["value_is_mandatory"]}
        assert again.waiting() == 0
        assert again.retry_refused() == 2
        until(lambda: len(again.refused()) == 2)
        assert again.delete_refused() == 2
        assert (again.refused(), again.waiting()) == ([], 0)


def test_a_service_that_takes_fewer_at_once_gets_fewer(tmp_path: Path) -> None:
    with Billing(tmp_path / "b.db", settings=Settings(events_per_batch=7), deliver=False) as billing:
        prepared(billing)
        spool, _ = spool_of(billing, tmp_path)
        with spool:
            for number in range(40):
                spool.add(transaction_id=str(number), **USED)
        assert len(stored(billing)) == 40
        assert spool.__dict__["_batch"] <= 100


def test_what_is_left_at_the_end_is_sent_after_the_next_start(billing: Billing, tmp_path: Path) -> None:
    with capture_logs() as logs:
        spool, _ = spool_of(billing, tmp_path, *["unreached"] * 99, exit_seconds=1)
        with spool:
            spool.add(transaction_id="1", **USED)
    assert ("events_left_in_spool", 1) in [(entry["event"], entry.get("count")) for entry in logs]
    with spool_of(billing, tmp_path)[0] as again:
        until(lambda: not again.waiting())
    assert stored(billing) == ["1"]


def test_an_end_takes_no_longer_than_it_may(billing: Billing, tmp_path: Path) -> None:
    """Though the service keeps its answer to itself."""
    client, answering, _ = client_of(billing)
    go_on, asked = threading.Event(), threading.Event()
    answer = answering.handle_request

    def slow(request: Any) -> Any:
        asked.set()
        go_on.wait(60)
        return answer(request)

    answering.handle_request = slow  # type: ignore[method-assign]
    spool = Spool(client, tmp_path / "events.spool", every=0.01, exit_seconds=0.2)
    spool.add(transaction_id="1", **USED)
    assert asked.wait(60)
    spool.close()
    assert not go_on.is_set()
    go_on.set()
    until(lambda: stored(billing) == ["1"])
    spool.__dict__["_thread"].join(60)


CHILD = """
import sys
from usagebill.client import Client
from usagebill.spool import Spool

url, key, path, name = sys.argv[1:]
spool = Spool(Client(url, key), path, every=0.02)
number = 0
while True:
    spool.add(transaction_id=f"{name}-{number}", code="calls", external_subscription_id="acme-pro")
    print(f"{name}-{number}", file=sys.stderr, flush=True)  # logs are on the other
    number += 1
"""


@pytest.mark.slow
def test_killed_processes_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """Both the program and the service are killed, again and again."""
    database, path, added = tmp_path / "billing.db", tmp_path / "events.spool", []
    with Billing(database, deliver=False) as billing:
        prepared(billing)
    service, key = Service(database), None
    chance = random.Random(39)
    try:
        key = service.key
        port = service.announced["url"].rsplit(":", 1)[1]
        for life in range(4):
            child = subprocess.Popen(
                [sys.executable, "-c", CHILD, service.announced["url"], key, str(path), str(life)],
                env=ENVIRONMENT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert child.stderr is not None
            added += [child.stderr.readline().strip() for _ in range(chance.randrange(20, 200))]
            if life % 2:
                service.process.send_signal(signal.SIGKILL)
                service.process.communicate()
                added += [child.stderr.readline().strip() for _ in range(20)]
            child.kill()
            added += child.stderr.read().split()
            child.stderr.close()
            child.wait()
            if life % 2:
                service.__exit__(None, None, None)
                service = Service(database, "--port", port, key=key)
    finally:
        service.__exit__(None, None, None)
    with Billing(database, deliver=False) as billing:
        spool, _ = spool_of(billing, tmp_path)
        with spool:
            pass
        kept = [event.transaction_id for event in billing.events.list(per_page=1000)]
        assert len(kept) == len(set(kept))
        # The last one of a life may be written down, and its name not printed whole.
        assert {name for name in added if name} <= set(kept)
        assert len(set(kept) - set(added)) <= 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_a_spool_of_its_own(billing: Billing, tmp_path: Path) -> None:
    spool, _ = spool_of(billing, tmp_path, every=60)
    with spool:
        spool.add(transaction_id="parent", **USED)
        child = os.fork()
        if child == 0:
            try:
                spool.add(transaction_id="child", **USED)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert spool.waiting() == 2
    assert stored(billing) == ["child", "parent"]
