"""Bounded HTTP: the client of all outgoing requests, which limits the time and the length of their answers.

It follows no redirects and keeps no cookies, and it checks the address that it really connects to, not the name.
`http.client` reads the answers, from sockets that know how long and how much they may be read.
"""

from __future__ import annotations

import base64
import io
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPException, HTTPResponse
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import certifi

from usagebill.core.addresses import is_public, names_private

S = TypeVar("S", bound=socket.socket)
_PORTS = {"http": 80, "https": 443}
_LARGEST_HEAD = 64 * 1024
# The bytes of a body that are read at a time.
_PART = 64 * 1024
# The seconds that an idle connection is kept for another request: less than servers usually keep it.
_IDLE_SECONDS = 4.0
_SAFE = "/?%:@!$&'()*+,;=~-._[]"
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_HEADER = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# Scheme, host, port, and whether the address has to be public.
_Key: TypeAlias = tuple[str, str, int, bool]


class PrivateAddress(OSError):
    """The address is not on the public internet, but only public ones are allowed."""


class _Unanswered(ConnectionError):
    """The connection was closed before the head of an answer was complete."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`is_whole` is False if the rest of the body was too long, too slow, or cut off.

    `headers` have lower-case names; of a repeated one, the last value.
    """

    status: int
    body: bytes
    is_whole: bool = True
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class _Target:
    """The server to connect to, and the path to request."""

    scheme: str
    host: str
    port: int
    path: str
    authorization: str | None

    @classmethod
    def at(cls, url: str) -> _Target:
        """Raises ValueError for an address that cannot be posted to."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(f"not an http:// or https:// address: {url}")
        host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
        if not _HOST.fullmatch(host):
            raise ValueError(f"not a host name: {host}")
        path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
        words = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
        basic = None if parts.username is None else f"Basic {base64.b64encode(words).decode()}"
        return cls(parts.scheme, host, parts.port or _PORTS[parts.scheme], path, basic)

    @property
    def authority(self) -> str:
        """Host and port as written in a request."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def proxy(self) -> _Target | None:
        """The proxy that the environment names (`HTTPS_PROXY`, `NO_PROXY` and the like)."""
        known = getproxies()
        url = known.get(self.scheme) or known.get("all")
        if not url or proxy_bypass(self.host):
            return None
        return _Target.at(url if "://" in url else f"http://{url}")


def _check_literal(host: str) -> None:
    """Refuse a host that is itself a private address; no name server is asked."""
    # 127.1, 0x7f000001 and 2130706433 are all 127.0.0.1.
    with suppress(OSError):
        host = socket.inet_ntoa(socket.inet_aton(host))
    if names_private(host):
        raise PrivateAddress(f"{host} is not on the public internet")


def is_private(url: str) -> bool:
    """Whether a URL leads to no address on the public internet, as this machine's resolver knows its host.

    False for a URL that cannot be sent to, and a host without an address.
    """
    try:
        host = _Target.at(url).host
        _check_literal(host)
        known = socket.getaddrinfo(host, None)
    except PrivateAddress:
        return True
    except (OSError, ValueError):
        return False
    return not any(is_public(str(entry[4][0])) for entry in known)


def _left(deadline: float) -> float:
    """The seconds until a deadline. Raises TimeoutError if it has passed."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("no answer in time")
    return seconds


class _Incoming(io.RawIOBase):
    """The bytes that arrive on a socket: until `deadline` (None: only those that are there), and at most `room`."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self.deadline: float | None = None
        self.room = 0
        self.is_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.room <= 0:
            raise ValueError("the answer is too long")
        self._socket.settimeout(0 if self.deadline is None else _left(self.deadline))
        count = self._socket.recv_into(buffer)
        self.room -= count
        self.is_ended = count == 0
        return count


class _Reader(io.BufferedReader):
    """Stays open: each `HTTPResponse` closes the file that it has read."""

    def close(self) -> None:
        pass


class _Connection:
    """A connection that serves one request after another, all with the same key."""

    def __init__(self, opened: socket.socket, key: _Key) -> None:
        self.socket = opened
        self.key = key
        self.is_reusable = False
        self.rests_since = 0.0
        self._incoming = _Incoming(opened)
        self._reader = _Reader(self._incoming)

    def makefile(self, mode: str) -> _Reader:
        """What `HTTPResponse` reads."""
        return self._reader

    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has arrived that was not asked for."""
        self._incoming.deadline, self._incoming.room = None, 1
        try:
            self._reader.peek(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    def exchange(self, method: str, request: bytes, largest: int, deadline: float) -> Answer:
        """The answer to a request. A partial answer counts if its head is complete."""
        self.is_reusable = False
        response = self.ask(method, request, deadline)
        self._incoming.room = _LARGEST_HEAD + 2 * largest
        body, is_whole = bytearray(), False
        with suppress(OSError, ValueError, HTTPException):
            while len(body) <= largest:
                part = response.read1(_PART)
                body += part
                if not part:
                    is_whole = not response.length and not (response.chunked and self._incoming.is_ended)
                    break
        self.is_reusable = is_whole and not response.will_close and response.status >= 200
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, bytes(body), is_whole, headers)

    def ask(self, method: str, request: bytes, deadline: float) -> HTTPResponse:
        """Send a request and read the head of its answer."""
        # A server that closes the connection early may have answered before.
        with suppress(BrokenPipeError, ConnectionResetError):
            rest = memoryview(request)
            while rest:
                self.socket.settimeout(_left(deadline))
                rest = rest[self.socket.send(rest) :]
        self._incoming.deadline, self._incoming.room = deadline, _LARGEST_HEAD
        status = 100
        try:
            # 1xx only announces the real answer.
            while status < 200 and status != 101:
                response = HTTPResponse(self, method=method)  # type: ignore[arg-type]
                response.begin()
                status = response.status
        except (ConnectionResetError, HTTPException) as problem:
            if not self._incoming.is_ended and not isinstance(problem, ConnectionResetError):
                raise ValueError(f"the answer is not HTTP, or its head is too long: {problem}") from None
            raise _Unanswered(f"the connection was closed without an answer: {problem}") from None
        if self._incoming.is_ended:
            raise _Unanswered("the connection was closed without an answer")
        return response


class Asking:
    """A client that makes each request in the thread of its caller, and keeps connections for the next ones.

    `timeout` is in seconds for a whole request: the address look-up, connecting, writing, and reading the answer, of
    which little more than `largest` bytes are read. With `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY` in the environment
    (unless `NO_PROXY` excludes the host) a proxy makes the connections. Names are looked up `at_once` at a time.
    """

    def __init__(self, timeout: float, largest: int, *, at_once: int = 8) -> None:
        self._timeout = timeout
        self._largest = largest
        # Looking up a name knows no deadline: whoever waits for it does.
        self._names = ThreadPoolExecutor(at_once, "usagebill-names")
        self._guard = threading.Lock()
        self._opened: WeakSet[socket.socket] = WeakSet()
        self._idle: list[_Connection] = []
        self.is_closed = False

    def close(self) -> None:
        """Abort the requests in flight."""
        with self._guard:
            self.is_closed = True
            opened, idle, self._idle = list(self._opened), self._idle, []
        for known in opened:
            with suppress(OSError):
                known.shutdown(socket.SHUT_RDWR)
        for connection in idle:
            connection.socket.close()
        self._names.shutdown(wait=False, cancel_futures=True)

    def post(self, url: str, headers: Mapping[str, str], content: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises as `request` does."""
        answer = self.request("POST", url, headers, content)
        return answer.status, answer.body

    def request(self, method: str, url: str, headers: Mapping[str, str], content: bytes = b"") -> Answer:
        """The whole answer. Raises as `answer` does, `ValueError` if too long, `TimeoutError` if cut off."""
        answer = self.answer(method, url, headers, content)
        if len(answer.body) > self._largest:
            raise ValueError("the answer is too long")
        if not answer.is_whole:
            raise TimeoutError(f"the answer ended early, or was not complete within {self._timeout:g} seconds")
        return answer

    def answer(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, *, public_only: bool = False
    ) -> Answer:
        """The answer, as far as it has arrived.

        Raises `PrivateAddress` if `public_only` is set and the address is not public (behind a proxy, only if the URL
        itself spells such an address), `TimeoutError` and other `OSError` if there is no answer, and `ValueError` for
        an address or header that cannot be sent and for an answer that is not HTTP.
        """
        deadline = time.monotonic() + self._timeout
        target = _Target.at(url)
        proxy = target.proxy
        request = _request(method, target, proxy, headers, content)
        key = (target.scheme, target.host, target.port, public_only)
        while True:
            connection = self._rested(key)
            is_used = connection is not None
            try:
                if connection is None:
                    connection = self._connected(target, proxy, key, deadline)
                return connection.exchange(method, request, self._largest, deadline)
            except _Unanswered:
                # A server that has closed an idle connection says nothing about this request.
                if not is_used:
                    raise
            except TimeoutError:
                missing = "connection to" if connection is None else "answer from"
                raise TimeoutError(f"no {missing} {target.host} within {self._timeout:g} seconds") from None
            finally:
                if connection is not None:
                    self._rest(connection)

    def _rested(self, key: _Key) -> _Connection | None:
        """An idle connection, if there is one for such requests."""
        while True:
            with self._guard:
                connection = next((idle for idle in reversed(self._idle) if idle.key == key), None)
                if connection is None:
                    return None
                self._idle.remove(connection)
            if connection.is_quiet():
                return connection
            connection.socket.close()

    def _rest(self, connection: _Connection) -> None:
        """Keep a connection for another request if it can serve one, and close those that nobody has wanted."""
        now = connection.rests_since = time.monotonic()
        with self._guard:
            known = [*self._idle, connection]
            self._idle = [idle for idle in known if idle.is_reusable and idle.rests_since > now - _IDLE_SECONDS]
            closed = known if self.is_closed else [idle for idle in known if idle not in self._idle]
        for unwanted in closed:
            unwanted.socket.close()

    def _connected(self, target: _Target, proxy: _Target | None, key: _Key, deadline: float) -> _Connection:
        """A connection to the target."""
        public_only = key[-1]
        if proxy is None:
            opened = self._open(target.host, target.port, public_only, deadline)
        else:
            # The proxy decides what it connects to; only addresses spelled out in the URL are checked here.
            if public_only:
                _check_literal(target.host)
            opened = self._open(proxy.host, proxy.port, False, deadline)
        if target.scheme == "http":
            return _Connection(opened, key)
        try:
            if proxy is not None:
                tunnel = _Connection(opened, key).ask("CONNECT", _tunnel(target, proxy), deadline)
                if tunnel.status != 200:
                    raise ConnectionError(f"the proxy refused to connect: {tunnel.status} {tunnel.reason}")
            opened.settimeout(_left(deadline))
            opened = self._tls.wrap_socket(opened, server_hostname=target.host, do_handshake_on_connect=False)
            self._noted(opened).do_handshake()
            return _Connection(opened, key)
        except BaseException:
            opened.close()
            raise

    def _open(self, host: str, port: int, public_only: bool, deadline: float) -> socket.socket:
        """A socket connected to one of the host's addresses."""
        looked_up = self._names.submit(socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
        known = looked_up.result(_left(deadline))
        allowed = [entry for entry in known if not public_only or is_public(str(entry[4][0]))]
        if not allowed:
            addresses = ", ".join(sorted({str(entry[4][0]) for entry in known}))
            raise PrivateAddress(f"{host} ({addresses}) is not on the public internet")
        problem: OSError = OSError(f"{host} has no address")
        for place, (family, kind, number, _, address) in enumerate(allowed):
            opened = self._noted(socket.socket(family, kind, number))
            try:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # Each address gets a share of the time, so that a silent one does not use it all up.
                opened.settimeout(_left(deadline) / (len(allowed) - place))
                opened.connect(address)
                return opened
            except OSError as failure:
                opened.close()
                problem = failure
        raise problem

    def _noted(self, opened: S) -> S:
        """The socket, which `close` will shut down."""
        with self._guard:
            self._opened.add(opened)
            if not self.is_closed:
                return opened
        opened.close()
        raise ConnectionAbortedError("the client was closed")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        chosen = any(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
        context = ssl.create_default_context(cafile=None if chosen else certifi.where())
        context.set_alpn_protocols(["http/1.1"])
        return context


def _request(method: str, target: _Target, proxy: _Target | None, headers: Mapping[str, str], content: bytes) -> bytes:
    fields = {
        "Host": target.authority,
        "User-Agent": "usagebill",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Content-Length": str(len(content)),
    }
    if target.authorization is not None:
        fields["Authorization"] = target.authorization
    path = target.path
    if proxy is not None and target.scheme == "http":
        path = f"http://{target.authority}{path}"
        if proxy.authorization is not None:
            fields["Proxy-Authorization"] = proxy.authorization
    lines = [f"{method} {path} HTTP/1.1"]
    for name, value in {**fields, **headers}.items():
        if not _HEADER.fullmatch(value):
            raise ValueError(f"the header {name} has characters that cannot be sent")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def _tunnel(target: _Target, proxy: _Target) -> bytes:
    """What has a proxy connect to the target."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    lines = [f"CONNECT {host}:{target.port} HTTP/1.1", f"Host: {host}:{target.port}"]
    if proxy.authorization is not None:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return "\r\n".join([*lines, "", ""]).encode()


class Poster:
    """Sends requests, each in a thread, at most `at_once` at a time: further ones wait for their turn.

    `timeout` and `largest` are those of `Asking`; the time of a request begins with its turn.
    """

    def __init__(self, timeout: float, largest: int, *, at_once: int = 8) -> None:
        self._asking = Asking(timeout, largest, at_once=at_once)
        self._threads = ThreadPoolExecutor(at_once, "usagebill-posting")

    def send(
        self, url: str, headers: Mapping[str, str], content: bytes, *, public_only: bool = False
    ) -> Future[Answer]:
        """A future of the answer to a POST, which fails as `Asking.answer` does and is cancelled by `close`."""
        answer: Future[Answer] = Future()

        def act() -> None:
            try:
                answer.set_result(self._asking.answer("POST", url, headers, content, public_only=public_only))
            except Exception as problem:
                if self._asking.is_closed:
                    answer.cancel()
                else:
                    answer.set_exception(problem)

        try:
            self._threads.submit(act)
        except RuntimeError:
            # `close` has been called.
            answer.cancel()
        return answer

    def close(self) -> None:
        """Abort the requests in flight."""
        self._asking.close()
        self._threads.shutdown()
