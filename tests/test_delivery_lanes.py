"""Webhooks beside each other and beside other work: slow, dead or forbidden endpoints delay nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.example_tasks import Talk
from tests.receiver import Receiver
from tests.service import ENVIRONMENT
from usagebill import Billing
from usagebill.core.errors import Invalid
from usagebill.core.jobs import Job
from usagebill.core.webhooks import WebhookEndpoint, WebhookMessage
from usagebill.operations import organizations
from usagebill.outside import delivery
from usagebill.outside.handlers import OUTSIDE, OutsideHandler
from usagebill.outside.job_host import JobHost
from usagebill.process.settings import Settings
from usagebill.system import System
from usagebill.worker import Worker


class Crowd:
    """A receiver that takes a while to answer, and notes how many requests it has at a time."""

    def __init__(self, seconds: float, status: int = 200) -> None:
        self.most = 0
        self.total = 0
        self.enough = threading.Event()
        self.expected = 0
        self._here = 0
        guard = threading.Lock()
        crowd = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                with guard:
                    crowd._here += 1
                    crowd.most = max(crowd.most, crowd._here)
                threading.Event().wait(seconds)
                with guard:
                    crowd._here -= 1
                    crowd.total += 1
                    if crowd.total == crowd.expected:
                        crowd.enough.set()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing is printed."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 200
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Crowd:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "billing.db"


@pytest.fixture
def billing(file: Path) -> Iterator[Billing]:
    with Billing(file, settings=Settings(webhook_timeout=60)) as billing:
        yield billing


def listen(billing: Billing, url: str) -> WebhookEndpoint:
    return billing.webhook_endpoints.create(webhook_url=url, event_types=["customer.created"])


def happen(billing: Billing, count: int) -> None:
    for number in range(count):
        billing.customers.upsert(external_id=f"c-{number}")


def statuses(billing: Billing, endpoint: WebhookEndpoint) -> list[str]:
    messages = billing.reading(lambda work: work.tx.find(WebhookMessage))
    return [message.status for message in messages if message.webhook_endpoint_id == endpoint.id]


def test_a_dead_endpoint_holds_up_neither_other_endpoints_nor_other_work(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    talked = threading.Event()

    def talk(host: JobHost, organization: object, job: Job, task: Talk) -> None:
        host.transact(lambda tx: tx.jobs.complete(job))
        talked.set()

    monkeypatch.setitem(OUTSIDE, Talk.kind, OutsideHandler(Talk, talk))
    with Receiver(0) as dead, Crowd(0) as healthy:
        healthy.expected = 60
        silent, quick = listen(billing, dead.url), listen(billing, healthy.url)
        happen(billing, 60)
        with Worker(billing):
            assert healthy.enough.wait(50)
            billing.writing(lambda work: work.schedule(Talk(name="x"), work.now))
            assert talked.wait(50)
            # Nothing was answered there, and few were tried: one that is dead does not use up the places of others.
            assert len(dead.received) <= 4
            dead.release()
        assert statuses(billing, quick) == ["succeeded"] * 60
        assert set(statuses(billing, silent)) <= {"pending", "retrying"}


def test_a_thread_that_begins_to_send_while_another_process_writes_a_lot_goes_on(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(System, "contention", property(lambda system: 1.0))
    monkeypatch.setattr(delivery, "_BUSY_SAMPLE_SECONDS", 0.0)
    # Made by this thread, which has been at work for longer than the one that sends.
    deliveries = billing._system.deliveries()
    waits: list[str] = []

    def wait() -> None:
        for number in ("first", "second"):
            deliveries.wait(0.0)
            waits.append(number)

    sender = threading.Thread(target=wait)
    sender.start()
    sender.join()
    assert waits == ["first", "second"]


def test_endpoints_without_messages_are_forgotten(billing: Billing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_MOST_KNOWN", 1)
    deliveries = billing._system.deliveries()
    for number in range(3):
        with Crowd(0) as receiver:
            endpoint = listen(billing, receiver.url)
            billing.customers.upsert(external_id=f"only {number}")
            while deliveries.step() or deliveries.is_busy:
                deliveries.wait(None)
            assert statuses(billing, endpoint) == ["succeeded"]
            billing.webhook_endpoints.delete(endpoint.id)
    # The next look finds that the others have none.
    assert len(deliveries._endpoints) <= 2
    deliveries.close()


@pytest.mark.slow
def test_an_endpoint_that_is_slow_but_answers_gets_more_at_a_time_within_bounds(billing: Billing) -> None:
    with Crowd(0.05) as slow:
        endpoint = listen(billing, slow.url)
        happen(billing, 300)
        billing.run_due()
        assert 4 < slow.most <= 32
        assert statuses(billing, endpoint) == ["succeeded"] * 300


def test_an_endpoint_that_asks_for_less_gets_less(billing: Billing) -> None:
    with Crowd(0.02, status=503) as full:
        listen(billing, full.url)
        happen(billing, 40)
        billing.run_due()
        assert full.most <= 4


def test_endpoints_that_do_not_answer_are_tried_one_message_at_a_time(file: Path) -> None:
    with Billing(file, settings=Settings(webhook_timeout=0.2)) as billing, Receiver(0) as dead:
        endpoint = listen(billing, dead.url)
        happen(billing, 10)
        billing.run_due()
        assert statuses(billing, endpoint) == ["retrying"] * 10
        assert len(dead.received) == 10


KILLED = """
import sys
from usagebill import Billing
from usagebill.worker import Worker
with Billing(sys.argv[1]) as billing, Worker(billing):
    sys.stdin.readline()
"""


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_no_message(database: str) -> None:
    with Receiver(*[200] * 20, 0) as receiver, Billing(database) as billing:
        endpoint = listen(billing, receiver.url)
        happen(billing, 60)
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, database], env=ENVIRONMENT, stdin=subprocess.PIPE, text=True
        )
        while len(receiver.received) < 22:
            receiver.came.wait(30)
            receiver.came.clear()
        process.kill()
        process.communicate()
        before = {delivery.headers["x-svc-unique-key"] for delivery in receiver.received}
        assert len(before) < 60
        # Another worker may take them once their leases have expired.
        receiver.statuses[:] = [200]
        billing.run_due(billing.clock.now() + timedelta(minutes=10))
        assert statuses(billing, endpoint) == ["succeeded"] * 60
        keys = [delivery.headers["x-svc-unique-key"] for delivery in receiver.received]
        assert set(keys) == {message.id for message in billing.reading(lambda work: work.tx.find(WebhookMessage))}
        # Only messages that were in flight may come twice.
        assert len(keys) - 60 <= 40


@pytest.mark.slow
def test_what_was_taken_up_and_not_sent_is_given_back_when_a_worker_stops(billing: Billing) -> None:
    with Crowd(0.05) as slow:
        endpoint = listen(billing, slow.url)
        happen(billing, 200)
        slow.expected = 20
        with Worker(billing):
            assert slow.enough.wait(50)
        left = statuses(billing, endpoint).count("pending")
        assert left == 200 - slow.total > 0
        # Nothing has to wait for a lease to expire.
        billing.run_due()
        assert (statuses(billing, endpoint), slow.total) == (["succeeded"] * 200, 200)


# Private networks


def share(billing: Billing) -> None:
    """A second organization in the same file."""
    billing.store.write(None, lambda tx: organizations.create(tx, billing.clock.now(), "Other"))


def test_organizations_that_share_a_server_do_not_reach_its_private_network(billing: Billing) -> None:
    with Receiver() as receiver:
        endpoint = listen(billing, receiver.url)
        share(billing)
        happen(billing, 1)
        billing.run_due()
        assert receiver.received == []
        (message,) = billing.webhooks.list_of_endpoint(endpoint.id).items
        assert (message.status, message.http_status) == ("retrying", None)
        assert message.response == "PrivateAddress: 127.0.0.1 (127.0.0.1) is not on the public internet"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:5432/",
        "http://169.254.169.254/latest",
        "https://[::1]/",
        "http://10.1.2.3/",
        "http://localhost/",
    ],
)
def test_an_address_that_is_private_by_its_name_is_refused_when_written(billing: Billing, url: str) -> None:
    endpoint = listen(billing, "https://example.com/hook")
    share(billing)
    with pytest.raises(Invalid) as refused:
        listen(billing, url)
    assert refused.value.details == {"webhook_url": ["address_not_public"]}
    with pytest.raises(Invalid):
        billing.webhook_endpoints.update(endpoint.id, webhook_url=url)
    assert [item.webhook_url for item in billing.webhook_endpoints.list().items] == ["https://example.com/hook"]


def test_an_endpoint_from_before_can_still_be_changed_in_other_ways(billing: Billing) -> None:
    endpoint = listen(billing, "http://127.0.0.1:1/")
    share(billing)
    assert billing.webhook_endpoints.update(endpoint.id, name="old").name == "old"


@pytest.mark.parametrize(("setting", "shared", "arrives"), [("allowed", True, 1), ("refused", False, 0)])
def test_the_installation_may_say_otherwise(file: Path, setting: Any, shared: bool, arrives: int) -> None:
    with Receiver() as receiver:
        with Billing(file) as billing:
            listen(billing, receiver.url)
            if shared:
                share(billing)
        with Billing(file, settings=Settings(private_networks=setting)) as billing:
            happen(billing, 1)
            billing.run_due()
        assert len(receiver.received) == arrives
