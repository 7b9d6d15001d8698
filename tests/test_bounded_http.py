"""Outgoing requests, against careless and hostile servers."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from types import TracebackType

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from usagebill.outside.bounded_http import Answer, Asking, Poster, PrivateAddress

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Hands each connection to `talk`, which is given the socket and a way to read one request."""

    def __init__(self, talk: Callable[[Server, socket.socket], None], secure: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.closing = threading.Event()
        self._talk, self._secure = talk, secure
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http{'s' if secure else ''}://127.0.0.1:{self.port}/hook?a=b"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._secure is not None:
                connection = self._secure.wrap_socket(connection, server_side=True)
            with connection:
                self._talk(self, connection)
        except OSError:
            pass

    def read(self, connection: socket.socket) -> bytes:
        """One request, b"" where the connection was closed."""
        text = b""
        while b"\r\n\r\n" not in text:
            part = connection.recv(65536)
            if not part:
                return b""
            text += part
        head, _, body = text.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(body) < length:
            body += connection.recv(65536)
        self.requests.append(head + b"\r\n\r\n" + body)
        return self.requests[-1]


def always(answer: bytes, *, close: bool = False) -> Callable[[Server, socket.socket], None]:
    def talk(server: Server, connection: socket.socket) -> None:
        while server.read(connection):
            connection.sendall(answer)
            if close:
                return

    return talk


def drip(start: bytes, part: bytes) -> Callable[[Server, socket.socket], None]:
    """Sends a part again and again, for as long as the other end listens."""

    def talk(server: Server, connection: socket.socket) -> None:
        server.read(connection)
        connection.sendall(start)
        while not server.closing.wait(0.01):
            connection.sendall(part)

    return talk


@contextmanager
def asking(timeout: float = 30, largest: int = 1000) -> Iterator[Asking]:
    client = Asking(timeout, largest)
    try:
        yield client
    finally:
        client.close()


def test_a_request_and_its_answer() -> None:
    with Server(always(OK)) as server, asking() as client:
        url = server.url.replace("http://", "http://user:p%40ss@")
        assert client.answer("POST", url, {"X-Key": "1"}, b"body") == Answer(200, b"ok")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /hook?a=b HTTP/1.1"
    assert {f"Host: 127.0.0.1:{server.port}", "X-Key: 1", "Content-Length: 4"} <= set(lines)
    assert "Authorization: Basic dXNlcjpwQHNz" in lines
    assert body == b"body"


def test_a_get_and_the_headers_of_its_answer() -> None:
    answer = b"HTTP/1.1 404 Not Found\r\nRequest-Id: req_1\r\nX-Twice: a\r\nX-Twice: b\r\nContent-Length: 0\r\n\r\n"
    with Server(always(answer)) as server, asking() as client:
        first_answer = client.request("GET", server.url, {"X-Key": "1"})
    assert (first_answer.status, first_answer.headers["request-id"], first_answer.headers["x-twice"]) == (
        404,
        "req_1",
        "b",
    )
    assert server.requests[0].startswith(b"GET /hook?a=b HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", Answer(200, b"abc")),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx", Answer(201, b"x")),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK, Answer(200, b"ok")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, b"")),
        (b"HTTP/1.0 500 Oops\r\n\r\nall of it", Answer(500, b"all of it")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", Answer(200, b"half", is_whole=False)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", Answer(200, b"ab", is_whole=False)),
    ],
)
def test_answers_of_every_framing(answer: bytes, expected: Answer) -> None:
    with Server(always(answer, close=True)) as server, asking() as client:
        assert client.answer("POST", server.url, {}, b"") == expected


def test_a_connection_is_used_again_and_one_that_was_closed_meanwhile_is_not() -> None:
    def talk(server: Server, connection: socket.socket) -> None:
        for _ in range(2):
            server.read(connection)
            connection.sendall(OK)
        # The third request on it is read and not answered: the connection was about to close.
        server.read(connection)

    with Server(talk) as server, asking() as client:
        for number in range(4):
            assert client.answer("POST", server.url, {}, str(number).encode()).status == 200
        assert server.connections == 2


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 20", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"])
def test_a_head_that_is_cut_off_is_no_answer(answer: bytes) -> None:
    with Server(always(answer, close=True)) as server, asking() as client:
        with pytest.raises(ConnectionError, match="without an answer"):
            client.answer("POST", server.url, {}, b"")
        assert server.connections == 1


@pytest.mark.parametrize("together", [True, False])
def test_what_was_not_asked_for_is_no_answer_to_the_next_request(together: bool) -> None:
    forged = OK.replace(b"ok", b"no")
    has_sent = threading.Event()

    def talk(server: Server, connection: socket.socket) -> None:
        server.read(connection)
        connection.sendall(OK + forged if together else OK)
        if not together:
            connection.sendall(forged)
        has_sent.set()
        server.closing.wait(30)

    with Server(talk) as server, asking() as client:
        for connections in (1, 2):
            assert client.answer("POST", server.url, {}, b"") == Answer(200, b"ok")
            assert has_sent.wait(30)
            assert server.connections == connections


def test_a_server_that_answers_before_it_has_read_everything_is_heard() -> None:
    def talk(server: Server, connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        # It goes on reading, so that its answer is not lost with the connection.
        while connection.recv(65536):
            pass

    with Server(talk) as server, asking() as client:
        assert client.answer("POST", server.url, {}, b"x" * 5_000_000).status == 413


def test_at_most_so_many_requests_are_made_at_a_time_and_closing_cancels_all() -> None:
    asked = threading.Semaphore(0)

    def talk(server: Server, connection: socket.socket) -> None:
        server.read(connection)
        asked.release()
        server.closing.wait(30)

    with Server(talk) as server:
        poster = Poster(30, 1000, at_once=2)
        answers = [poster.send(server.url, {}, b"") for _ in range(5)]
        assert asked.acquire(timeout=30)
        assert asked.acquire(timeout=30)
        assert server.connections == 2
        poster.close()
        answers.append(poster.send(server.url, {}, b""))
        assert all(answer.cancelled() for answer in answers)
        assert server.connections == 2


def test_no_cookie_is_kept_and_no_redirect_followed() -> None:
    answer = b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    with Server(always(answer)) as server, asking() as client:
        for _ in range(2):
            assert client.answer("POST", server.url, {}, b"").status == 302
    assert len(server.requests) == 2
    assert not any(b"cookie" in request.lower() for request in server.requests)


@pytest.mark.parametrize(
    "talk",
    [
        drip(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
        drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        drip(b"H", b""),
    ],
)
def test_a_head_that_never_ends_is_given_up(talk: Callable[[Server, socket.socket], None]) -> None:
    with Server(talk) as server, asking(timeout=0.2) as client, pytest.raises(TimeoutError, match=r"within 0\.2 sec"):
        client.answer("POST", server.url, {}, b"")


def test_a_body_that_drips_is_cut_at_the_deadline() -> None:
    with Server(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x")) as server, asking(0.2) as client:
        answer = client.answer("POST", server.url, {}, b"")
        assert (answer.status, answer.is_whole) == (200, False)
        with pytest.raises(TimeoutError, match="not complete"):
            client.post(server.url, {}, b"")


def test_more_than_the_largest_answer_is_not_read() -> None:
    with (
        Server(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", b"x" * 10_000)) as server,
        asking(30, largest=50_000) as client,
    ):
        answer = client.answer("POST", server.url, {}, b"")
        assert not answer.is_whole
        assert 50_000 < len(answer.body) < 2_000_000
        with pytest.raises(ValueError, match="too long"):
            client.post(server.url, {}, b"")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000, "too long"),
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes, reason: str) -> None:
    with Server(always(answer)) as server, asking() as client, pytest.raises(ValueError, match=reason):
        client.answer("POST", server.url, {}, b"")


def test_nobody_there() -> None:
    with socket.socket() as unused, asking() as client:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            client.answer("POST", f"http://127.0.0.1:{unused.getsockname()[1]}/", {}, b"")


@pytest.mark.parametrize("url", ["nowhere", "ftp://example.com/", "http://", "http://a\x01b/", "http://[::::]/"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with asking() as client, pytest.raises(ValueError, match=r".+"):
        client.answer("POST", url, {}, b"")


def test_a_header_with_a_line_break_is_refused() -> None:
    with Server(always(OK)) as server, asking() as client:
        with pytest.raises(ValueError, match="X-Key"):
            client.answer("POST", server.url, {"X-Key": "1\r\nX-Other: 2"}, b"")
        assert server.requests == []


# Private networks


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]"]
)
def test_a_private_address_is_not_connected_to_however_it_is_written(host: str) -> None:
    with Server(always(OK)) as server, asking() as client:
        url = f"http://{host}:{server.port}/"
        with pytest.raises(PrivateAddress, match="not on the public internet"):
            client.answer("POST", url, {}, b"", public_only=True)
        assert server.connections == 0
        # A connection that was made for those who may is not lent to those who may not.
        assert client.answer("POST", url, {}, b"").status == 200
        with pytest.raises(PrivateAddress):
            client.answer("POST", url, {}, b"", public_only=True)
        assert len(server.requests) == 1


def test_only_the_address_that_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(always(OK)) as server, asking(timeout=0.5) as client:
        hosts: list[str] = []

        def rebinding(host: str, port: int, *_: object) -> list[tuple[object, ...]]:
            """Public at first, and the machine itself whenever it is asked again."""
            hosts.append(host)
            address = "192.88.99.77" if len(hosts) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))]

        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        url = f"http://rebinding.example:{server.port}/"
        with pytest.raises(OSError, match=r".*") as first:
            client.answer("POST", url, {}, b"", public_only=True)
        assert not isinstance(first.value, PrivateAddress)
        with pytest.raises(PrivateAddress, match=r"rebinding.example \(127.0.0.1\)"):
            client.answer("POST", url, {}, b"", public_only=True)
        assert hosts == ["rebinding.example"] * 2
        assert server.connections == 0


# TLS and proxies


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A context for servers at 127.0.0.1, whose certificate clients trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def test_certificates_are_checked(certificate: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(always(OK), certificate) as server:
        with asking() as client:
            assert client.answer("POST", server.url, {}, b"x") == Answer(200, b"ok")
        monkeypatch.delenv("SSL_CERT_FILE")
        with asking() as client, pytest.raises(ssl.SSLCertVerificationError):
            client.answer("POST", server.url, {}, b"x")


def pipe(source: socket.socket, target: socket.socket) -> None:
    try:
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def proxy(server: Server, connection: socket.socket) -> None:
    """Tunnels where asked to, and answers everything else itself."""
    request = server.read(connection)
    if not request.startswith(b"CONNECT "):
        connection.sendall(OK)
        return
    host, _, port = request.split()[1].decode().partition(":")
    if port == "1":
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        return
    with socket.create_connection((host, int(port))) as target:
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        back = threading.Thread(target=pipe, args=(target, connection), daemon=True)
        back.start()
        pipe(connection, target)
        back.join()


def test_a_proxy_of_the_environment_makes_the_connections(
    certificate: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(proxy) as between, Server(always(OK), certificate) as server, asking() as client:
        monkeypatch.setenv("https_proxy", f"http://user:pass@127.0.0.1:{between.port}")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{between.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert client.answer("POST", server.url, {"X-Key": "1"}, b"secret").status == 200
        assert between.requests[0].startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n".encode())
        assert b"Proxy-Authorization: Basic dXNlcjpwYXNz" in between.requests[0]
        assert b"X-Key" not in between.requests[0]
        assert server.requests[0].endswith(b"secret")
        assert client.answer("POST", "http://shop.example/hook", {}, b"plain").status == 200
        assert between.requests[1].startswith(b"POST http://shop.example/hook HTTP/1.1\r\nHost: shop.example\r\n")
        with pytest.raises(ConnectionError, match="403 Forbidden"):
            client.answer("POST", "https://127.0.0.1:1/", {}, b"")
        # Addresses spelled out in the URL are not left to the proxy.
        for url in ("http://169.254.169.254/", "https://127.1/", "http://localhost/"):
            with pytest.raises(PrivateAddress):
                client.answer("POST", url, {}, b"", public_only=True)
        assert len(between.requests) == 3
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert client.answer("POST", server.url, {}, b"direct").status == 200
        assert len(between.requests) == 3


@pytest.mark.parametrize("part", [b"X-Trailer: more\r\n", b"x" * 100], ids=["many trailers", "one without end"])
def test_trailers_of_an_answer_are_dropped_and_bounded(part: bytes) -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-First: "
    with Server(drip(start, part * 1_000)) as server, asking(30) as client:
        answer = client.answer("POST", server.url, {}, b"")
        assert (answer.status, answer.body, answer.is_whole) == (200, b"ok", False)
        assert set(answer.headers) == {"transfer-encoding"}


def test_a_trailer_of_an_answer_is_not_one_of_its_headers() -> None:
    talk = always(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nDate: x\r\n\r\n")
    with Server(talk) as server, asking(30) as client:
        answer = client.answer("POST", server.url, {}, b"")
        assert (answer.body, answer.is_whole, set(answer.headers)) == (b"ok", True, {"transfer-encoding"})
