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

from usagebill.bounded_http import Answer, Asking, Poster, PrivateAddress

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
def posting(timeout: float = 30, largest: int = 1000) -> Iterator[Poster]:
    poster = Poster(timeout, largest)
    try:
        yield poster
    finally:
        poster.close()


def test_a_request_and_its_answer() -> None:
    with Server(always(OK)) as server, posting() as poster:
        url = server.url.replace("http://", "http://user:p%40ss@")
        assert poster.post(url, {"X-Key": "1"}, b"body") == Answer(200, b"ok")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /hook?a=b HTTP/1.1"
    assert {f"Host: 127.0.0.1:{server.port}", "X-Key: 1", "Content-Length: 4"} <= set(lines)
    assert "Authorization: Basic dXNlcjpwQHNz" in lines
    assert body == b"body"


def test_a_get_and_the_headers_of_its_answer() -> None:
    answer = b"HTTP/1.1 404 Not Found\r\nRequest-Id: req_1\r\nX-Twice: a\r\nX-Twice: b\r\nContent-Length: 0\r\n\r\n"
    with Server(always(answer)) as server:
        asking = Asking(30, 1000)
        try:
            first_answer = asking.request("GET", server.url, {"X-Key": "1"})
        finally:
            asking.close()
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
        (b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, b"")),
        (b"HTTP/1.0 500 Oops\r\n\r\nall of it", Answer(500, b"all of it")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", Answer(200, b"half", is_whole=False)),
    ],
)
def test_answers_of_every_framing(answer: bytes, expected: Answer) -> None:
    with Server(always(answer, close=True)) as server, posting() as poster:
        assert poster.post(server.url, {}, b"") == expected


def test_a_connection_is_used_again_and_one_that_was_closed_meanwhile_is_not() -> None:
    def talk(server: Server, connection: socket.socket) -> None:
        for _ in range(2):
            server.read(connection)
            connection.sendall(OK)
        # The third request on it is read and not answered: the connection was about to close.
        server.read(connection)

    with Server(talk) as server, posting() as poster:
        for number in range(4):
            assert poster.post(server.url, {}, str(number).encode()).status == 200
        assert server.connections == 2


def test_no_cookie_is_kept_and_no_redirect_followed() -> None:
    answer = b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    with Server(always(answer)) as server, posting() as poster:
        for _ in range(2):
            assert poster.post(server.url, {}, b"").status == 302
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
    with Server(talk) as server, posting(timeout=0.2) as poster, pytest.raises(TimeoutError, match=r"within 0\.2 sec"):
        poster.post(server.url, {}, b"")


def test_a_body_that_drips_is_cut_at_the_deadline() -> None:
    with Server(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x")) as server, posting(0.2) as poster:
        answer = poster.post(server.url, {}, b"")
        assert (answer.status, answer.is_whole) == (200, False)
        asking = Asking(0.2, 100_000)
        with pytest.raises(TimeoutError, match="not complete"):
            asking.post(server.url, {}, b"")
        asking.close()


def test_more_than_the_largest_answer_is_not_read() -> None:
    with (
        Server(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", b"x" * 10_000)) as server,
        posting(30, largest=50_000) as poster,
    ):
        answer = poster.post(server.url, {}, b"")
        assert not answer.is_whole
        assert 50_000 < len(answer.body) < 2_000_000
        asking = Asking(30, 50_000)
        with pytest.raises(ValueError, match="too long"):
            asking.post(server.url, {}, b"")
        asking.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000, "too long"),
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes, reason: str) -> None:
    with Server(always(answer)) as server, posting() as poster, pytest.raises(ValueError, match=reason):
        poster.post(server.url, {}, b"")


def test_nobody_there() -> None:
    with socket.socket() as unused, posting() as poster:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            poster.post(f"http://127.0.0.1:{unused.getsockname()[1]}/", {}, b"")


@pytest.mark.parametrize("url", ["nowhere", "ftp://example.com/", "http://", "http://a\x01b/", "http://[::::]/"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with posting() as poster, pytest.raises(ValueError, match=r".+"):
        poster.post(url, {}, b"")


def test_a_header_with_a_line_break_is_refused() -> None:
    with Server(always(OK)) as server, posting() as poster:
        with pytest.raises(ValueError, match="X-Key"):
            poster.post(server.url, {"X-Key": "1\r\nX-Other: 2"}, b"")
        assert server.requests == []


# Private networks


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]"]
)
def test_a_private_address_is_not_connected_to_however_it_is_written(host: str) -> None:
    with Server(always(OK)) as server, posting() as poster:
        url = f"http://{host}:{server.port}/"
        with pytest.raises(PrivateAddress, match="not on the public internet"):
            poster.post(url, {}, b"", public_only=True)
        assert server.connections == 0
        # A connection that was made for those who may is not lent to those who may not.
        assert poster.post(url, {}, b"").status == 200
        with pytest.raises(PrivateAddress):
            poster.post(url, {}, b"", public_only=True)
        assert len(server.requests) == 1


def test_only_the_address_that_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(always(OK)) as server, posting(timeout=0.5) as poster:
        hosts: list[str] = []

        def rebinding(host: str, port: int, *_: object) -> list[tuple[object, ...]]:
            """Public at first, and the machine itself whenever it is asked again."""
            hosts.append(host)
            address = "192.88.99.77" if len(hosts) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))]

        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        url = f"http://rebinding.example:{server.port}/"
        with pytest.raises(OSError, match=r".*") as first:
            poster.post(url, {}, b"", public_only=True)
        assert not isinstance(first.value, PrivateAddress)
        with pytest.raises(PrivateAddress, match=r"rebinding.example \(127.0.0.1\)"):
            poster.post(url, {}, b"", public_only=True)
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
        with posting() as poster:
            assert poster.post(server.url, {}, b"x") == Answer(200, b"ok")
        monkeypatch.delenv("SSL_CERT_FILE")
        with posting() as poster, pytest.raises(ssl.SSLCertVerificationError):
            poster.post(server.url, {}, b"x")


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
    with Server(proxy) as between, Server(always(OK), certificate) as server, posting() as poster:
        monkeypatch.setenv("https_proxy", f"http://user:pass@127.0.0.1:{between.port}")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{between.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert poster.post(server.url, {"X-Key": "1"}, b"secret").status == 200
        assert between.requests[0].startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n".encode())
        assert b"Proxy-Authorization: Basic dXNlcjpwYXNz" in between.requests[0]
        assert b"X-Key" not in between.requests[0]
        assert server.requests[0].endswith(b"secret")
        assert poster.post("http://shop.example/hook", {}, b"plain").status == 200
        assert between.requests[1].startswith(b"POST http://shop.example/hook HTTP/1.1\r\nHost: shop.example\r\n")
        with pytest.raises(ConnectionError, match="403 Forbidden"):
            poster.post("https://127.0.0.1:1/", {}, b"")
        # Addresses spelled out in the URL are not left to the proxy.
        for url in ("http://169.254.169.254/", "https://127.1/", "http://localhost/"):
            with pytest.raises(PrivateAddress):
                poster.post(url, {}, b"", public_only=True)
        assert len(between.requests) == 3
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert poster.post(server.url, {}, b"direct").status == 200
        assert len(between.requests) == 3


@pytest.mark.parametrize("part", [b"X-Trailer: more\r\n", b"x" * 100], ids=["many trailers", "one without end"])
def test_trailers_of_an_answer_are_dropped_and_bounded(part: bytes) -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-First: "
    with Server(drip(start, part * 1_000)) as server, posting(30) as poster:
        answer = poster.post(server.url, {}, b"")
        assert (answer.status, answer.body, answer.is_whole) == (200, b"ok", False)
        assert set(answer.headers) == {"transfer-encoding"}


def test_a_trailer_of_an_answer_is_not_one_of_its_headers() -> None:
    talk = always(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nDate: x\r\n\r\n")
    with Server(talk) as server, posting(30) as poster:
        answer = poster.post(server.url, {}, b"")
        assert (answer.body, answer.is_whole, set(answer.headers)) == (b"ok", True, {"transfer-encoding"})
