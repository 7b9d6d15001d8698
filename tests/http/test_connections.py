"""Connections that send nothing or half a request, or are too many: they end, and delay nobody else."""

from __future__ import annotations

import json
import resource
import select
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from tests.json_asserts import for_programs
from tests.service import Service, command_here

# Tests that start a separate server process, which imports everything again.
own_server = pytest.mark.slow
# What a server says when it starts and stops.
OF_SERVERS = {"server_started", "server_stopping", "server_stopped"}
TIMED_OUT = {"status": 408, "error": "Request Timeout"}


def connect(service: Service, sent: bytes = b"") -> socket.socket:
    """A connection over which `sent` has been sent."""
    host, port = service.announced["url"].removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.sendall(sent)
    return connection


def received(connection: socket.socket) -> bytes:
    """Everything that comes until the other side ends the connection."""
    parts = b""
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            parts += part
    return parts


def body_of(answer: bytes) -> object:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def head(service: Service, *more: str, key: bool = True) -> bytes:
    lines = ["POST /api/v1/customers HTTP/1.1", "Host: x", *more]
    if key:
        lines.append(f"Authorization: Bearer {service.key}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    file = tmp_path_factory.mktemp("impatient") / "billing.db"
    with Service(file, "--head-seconds", "0.3", "--body-seconds", "0.3") as running:
        yield running


@own_server
@pytest.mark.parametrize("sent", [b"GET /rea", b"GET /ready HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_half_a_head_is_not_waited_for_for_ever(impatient: Service, sent: bytes) -> None:
    with connect(impatient, sent) as connection:
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert for_programs(body_of(answer)) == TIMED_OUT


@own_server
def test_a_connection_that_asks_nothing_more_is_kept_as_long_as_the_setting_says(tmp_path: Path) -> None:
    asked = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with (
        Service(tmp_path / "billing.db", "--keep-alive-seconds", "1") as service,
        connect(service, asked) as connection,
    ):
        assert received(connection).startswith(b"HTTP/1.1 200 OK\r\n")
    # Longer than proxies keep theirs.
    assert "USAGEBILL_KEEP_ALIVE_SECONDS; default: 75" in " ".join(command_here("serve", "--help-all").split())


@own_server
def test_nor_is_half_a_head_that_follows_another_request(impatient: Service) -> None:
    with connect(impatient, b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n") as connection:
        answers = b""
        while b'{"status":"ok"}' not in answers:
            answers += connection.recv(65536)
        connection.sendall(b"GET /rea")
        assert for_programs(body_of(received(connection))) == TIMED_OUT


@own_server
def test_a_connection_that_says_nothing_ends(impatient: Service) -> None:
    with connect(impatient) as connection:
        assert received(connection) == b""


@own_server
def test_half_a_body_is_not_waited_for_for_ever(impatient: Service) -> None:
    with connect(impatient, head(impatient, "Content-Length: 100") + b'{"customer": ') as connection:
        assert for_programs(body_of(received(connection))) == TIMED_OUT


@own_server
def test_a_body_may_take_long_that_goes_on(impatient: Service) -> None:
    """40 parts, each of which earns the time that the next one needs."""
    with connect(impatient, head(impatient, "Transfer-Encoding: chunked", "Connection: close")) as connection:
        for _ in range(40):
            connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        connection.sendall(b'2b\r\n{"customer": {"external_id": "a-slow-one"}}\r\n0\r\n\r\n')
        assert received(connection).startswith(b"HTTP/1.1 200 OK\r\n")


@own_server
def test_who_takes_nothing_of_an_answer_is_left(tmp_path: Path) -> None:
    """The only connection is held by a client that requests more than the buffers hold, and reads nothing."""
    with Service(tmp_path / "billing.db", "--connections", "1", "--answer-seconds", "1") as service:
        host, port = service.announced["url"].removeprefix("http://").split(":")
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((host, int(port)))
            deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
            assert deaf.recv(4) == b"HTTP"
            statuses = [ready(service)]
            while statuses[-1] != 200:
                statuses.append(ready(service))
            # At first it was at work, and so kept its place.
            assert statuses[0] == 503
            assert received(deaf).count(b"HTTP/1.1 200") < 200


def ready(service: Service) -> int:
    with connect(service, b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") as connection:
        return int(received(connection).split()[1])


@own_server
def test_the_key_is_looked_at_before_a_long_body_is_sent(tmp_path: Path) -> None:
    with Service(tmp_path / "billing.db") as service:
        for announced in ("Content-Length: 9000000", "Content-Length: 900000000"):
            with connect(service, head(service, announced, key=False)) as connection:
                assert connection.recv(65536).startswith(b"HTTP/1.1 401 Unauthorized\r\n")
        with connect(service, head(service, "Content-Length: 900000000")) as connection:
            assert received(connection).startswith(b"HTTP/1.1 413 Request Entity Too Large\r\n")


@own_server
def test_silent_connections_shut_nobody_out(tmp_path: Path) -> None:
    with Service(tmp_path / "billing.db", "--connections", "20") as service, ExitStack() as open_ones:
        for _ in range(200):
            open_ones.enter_context(connect(service))
        assert httpx.get(service.announced["url"] + "/ready").status_code == 200
        assert service.client.post("/api/v1/customers", json={"customer": {"external_id": "a"}}).status_code == 200
        _, log = service.stop()
    full = [line for line in log if line["event"] == "connections_full"]
    assert [line["most"] for line in full] == [20] * len(full)
    assert 0 < len(log) < 20


@contextmanager
def open_files(most: int) -> Iterator[None]:
    """Processes that are started within may have this many files open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@own_server
def test_a_burst_of_silent_connections_takes_no_files_from_others(tmp_path: Path) -> None:
    """All of them wait when the server gets to them, and together they are more than the files it may have."""
    with ExitStack() as stack:
        with open_files(500):
            service = Service(tmp_path / "billing.db", "--connections", "100", "--head-seconds", "600")
        stack.enter_context(service)
        service.process.send_signal(signal.SIGSTOP)
        for _ in range(900):
            stack.enter_context(connect(service))
        service.process.send_signal(signal.SIGCONT)
        assert httpx.get(service.announced["url"] + "/ready", timeout=60).status_code == 200
        for number in range(3):
            body = {"customer": {"external_id": f"customer-{number}"}}
            assert service.client.post("/api/v1/customers", json=body).status_code == 200
        _, log = service.stop()
    assert {line["event"] for line in log} - OF_SERVERS == {"connections_full", "request"}


@own_server
def test_a_burst_while_every_connection_is_busy_takes_no_files_from_them(tmp_path: Path) -> None:
    body = b'{"customer": {"external_id": "a"}}'
    with ExitStack() as stack:
        with open_files(400):
            service = Service(tmp_path / "billing.db", "--connections", "1")
        stack.enter_context(service)
        busy = stack.enter_context(
            connect(service, head(service, f"Content-Length: {len(body)}", "Expect: 100-continue"))
        )
        assert busy.recv(65536).startswith(b"HTTP/1.1 100")
        service.process.send_signal(signal.SIGSTOP)
        refused = [stack.enter_context(connect(service)) for _ in range(600)]
        service.process.send_signal(signal.SIGCONT)
        busy.sendall(body)
        assert busy.recv(65536).startswith(b"HTTP/1.1 200")
        assert refused[0].recv(65536).startswith(b"HTTP/1.1 503")
        _, log = service.stop()
    assert {line["event"] for line in log} - OF_SERVERS == {"connections_full", "request"}


@own_server
def test_a_request_is_refused_while_every_connection_is_busy(tmp_path: Path) -> None:
    with Service(tmp_path / "billing.db", "--connections", "2") as service:
        half = head(service, "Content-Length: 50", "Expect: 100-continue")
        with connect(service, half) as first, connect(service, half) as second:
            # Both are at work once their bodies are asked for.
            assert first.recv(65536).startswith(b"HTTP/1.1 100")
            assert second.recv(65536).startswith(b"HTTP/1.1 100")
            with connect(service) as third:
                assert for_programs(body_of(received(third))) == {"status": 503, "error": "Service Unavailable"}


@own_server
def test_reads_and_health_do_not_wait_for_those_who_wait_to_write(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    with Service(file) as service:
        assert service.client.post("/api/v1/customers", json={"customer": {"external_id": "a"}}).status_code == 200
        # Another process writes, and takes its time.
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        codes: list[int] = []

        def write(number: int) -> None:
            body = b'{"customer": {"external_id": "customer-%d"}}' % number
            with connect(
                service, head(service, f"Content-Length: {len(body)}", "Connection: close") + body
            ) as connection:
                codes.append(int(received(connection).split()[1]))

        writers = [threading.Thread(target=write, args=(number,)) for number in range(100)]
        for writer in writers:
            writer.start()
        for path in ("/health", "/ready", "/api/v1/customers", "/api/v1/customers/a") * 10:
            assert service.client.get(path).status_code == 200
        assert codes == []
        other.execute("ROLLBACK")
        other.close()
        for writer in writers:
            writer.join()
        assert codes == [200] * 100


@own_server
def test_the_first_use_of_a_key_is_noted_though_it_only_reads_while_others_write(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    with Service(file) as service:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert service.client.get("/api/v1/customers").status_code == 200
        assert other.execute("SELECT last_used_at FROM api_keys").fetchall() == [(None,)]
        other.execute("ROLLBACK")
        # Whatever is still to be noted is noted before the end.
        service.stop()
        assert other.execute("SELECT count(*) FROM api_keys WHERE last_used_at IS NOT NULL").fetchone() == (1,)
        other.close()


LONG = b'{"customer": {"external_id": "a"}}'.ljust(100_000)


def long_one(service: Service) -> socket.socket:
    """A connection over which the head of a request with a long body has been sent."""
    return connect(service, head(service, f"Content-Length: {len(LONG)}", "Expect: 100-continue", "Connection: close"))


def of_another_organization(service: Service, file: Path) -> dict[str, str]:
    made = json.loads(command_here("organizations", "create", "Hooli", "--db", str(file), "--json"))
    return {"Authorization": f"Bearer {made['api_key']['value']}"}


@own_server
def test_long_bodies_that_come_slowly_delay_only_those_of_their_organization(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    with Service(file, "--body-seconds", "600") as service, ExitStack() as stack:
        other = of_another_organization(service, file)
        slow = [stack.enter_context(long_one(service)) for _ in range(20)]
        # Two of them are asked for their bodies; whichever is first.
        asked: list[socket.socket] = []
        while len(asked) < 2:
            asked += select.select([one for one in slow if one not in asked], [], [], 60)[0]
        assert len(asked) == 2
        assert service.client.post("/api/v1/customers", content=LONG, headers=other).status_code == 200
        assert select.select([one for one in slow if one not in asked], [], [], 0)[0] == []
        for one in slow:
            one.sendall(LONG)
        for one in slow:
            assert received(one).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


@own_server
def test_long_bodies_whose_answers_take_long_delay_only_those_of_their_organization(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    with Service(file) as service, ExitStack() as stack:
        other = of_another_organization(service, file)
        # Another process writes, and takes its time.
        writing = stack.enter_context(closing(sqlite3.connect(file, isolation_level=None)))
        writing.execute("BEGIN IMMEDIATE")
        waiting = [stack.enter_context(long_one(service)) for _ in range(2)]
        for one in waiting:
            assert one.recv(65536).startswith(b"HTTP/1.1 100")
            one.sendall(LONG)
        answer = service.client.request("GET", "/api/v1/customers", content=LONG, headers=other)
        assert answer.status_code == 200
        writing.execute("ROLLBACK")
        for one in waiting:
            assert received(one).startswith(b"HTTP/1.1 200 OK\r\n")


CHUNKED = b"2\r\n{}\r\n0\r\n"


@own_server
@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize(
    "rest",
    [CHUNKED + b"X-One: 1\r\n\r\n", CHUNKED + b"X-Endless: " + b"x" * 400_000, b"2;" + b"x" * 400_000],
    ids=["a trailer", "a trailer without end", "a chunk extension without end"],
)
def test_what_comes_beside_a_body_is_refused(impatient: Service, rest: bytes, key: bool) -> None:
    """Of what a client goes on sending, no more than 64 KiB and what one read brings is kept."""
    with connect(impatient, head(impatient, "Transfer-Encoding: chunked", key=key)) as connection:
        with suppress(ConnectionError):
            connection.sendall(rest)
        answer = received(connection)
    assert int(answer.split()[1]) == 431
    assert b"trailers" in answer
    assert impatient.client.get("/ready").status_code == 200
