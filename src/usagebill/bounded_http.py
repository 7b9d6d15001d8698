"""Bounded HTTP: the client of all outgoing requests, which limits the time and the length of their answers.

It follows no redirects and keeps no cookies. It makes many HTTP/1.1 requests at once on one thread, and checks the
address that it really connects to, not the name.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import certifi
import httptools

from usagebill.core.addresses import is_public, names_private

_PORTS = {"http": 80, "https": 443}
_LARGEST_HEAD = 64 * 1024
# The seconds that an idle connection is kept for another request: less than servers usually keep it.
_IDLE_SECONDS = 4.0
# While none of these changes, the proxies of the previous request are used again.
_PROXY_VARIABLES = tuple(
    name for scheme in ("http", "https", "all", "no") for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
)
_SAFE = "/?%:@!$&'()*+,;=~-._[]"
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_HEADER = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class PrivateAddress(OSError):
    """The address is not on the public internet, but only public ones are allowed."""


class _Unanswered(ConnectionError):
    """The connection was closed before any part of an answer arrived."""


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
        return cls(parts.scheme, host, parts.port or _PORTS[parts.scheme], path, _basic(parts))

    @property
    def authority(self) -> str:
        """Host and port as written in a request."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def _basic(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(words.encode()).decode()}"


def _proxy_for(target: _Target) -> _Target | None:
    """The proxy that the environment names (`HTTPS_PROXY`, `NO_PROXY` and the like)."""
    known = _proxies(tuple(map(os.environ.get, _PROXY_VARIABLES)))
    url = known.get(target.scheme) or known.get("all")
    if not url or proxy_bypass(target.host):
        return None
    return _Target.at(url if "://" in url else f"http://{url}")


@lru_cache(maxsize=1)
def _proxies(variables: tuple[str | None, ...]) -> dict[str, str]:
    # This reads the whole environment, which takes a fifth of the time of posting a message.
    return getproxies()


def _check_literal(host: str) -> None:
    """Refuse a host that is itself a private address; no name server is asked."""
    # 127.1, 0x7f000001 and 2130706433 are all 127.0.0.1.
    with suppress(OSError):
        host = socket.inet_ntoa(socket.inet_aton(host))
    if names_private(host):
        raise PrivateAddress(f"{host} is not on the public internet")


class _Connection(asyncio.Protocol):
    """A connection that serves one request after another."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._transport: asyncio.Transport
        self._parser: httptools.HttpResponseParser
        self._answered: asyncio.Future[Answer] | None = None
        self._status: int | None = None
        self._body = bytearray()
        self._headers: dict[str, str] = {}
        # Bytes that are not part of a body: the head, and since the body's latest part its framing and trailers.
        self._head_bytes = 0
        self._is_bounded = False
        self._closes: asyncio.TimerHandle | None = None
        self.is_open = True

    async def exchange(self, request: bytes, deadline: float) -> Answer:
        """The answer to a request. A partial answer at the deadline counts if it has a status."""
        loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._status, self._body, self._head_bytes, self._is_bounded = None, bytearray(), 0, False
        self._headers = {}
        answered: asyncio.Future[Answer] = loop.create_future()
        self._answered = answered
        self._transport.write(request)
        timer = loop.call_at(deadline, self._give_up)
        try:
            return await answered
        finally:
            timer.cancel()
            if not answered.done() or answered.cancelled():
                self.close()

    def rest(self) -> None:
        """Keep the connection open briefly for another request."""
        self._closes = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.close)

    def resume(self) -> None:
        if self._closes is not None:
            self._closes.cancel()

    def close(self) -> None:
        self.is_open = False
        self._transport.abort()

    def _give_up(self) -> None:
        self._end(is_whole=False, problem=TimeoutError("no answer in time"))

    def _end(self, *, is_whole: bool, problem: Exception) -> None:
        """End the answer with the part that has arrived, or with `problem` if nothing has."""
        answered, self._answered = self._answered, None
        if answered is None or answered.done():
            return
        if not is_whole:
            self.close()
        if self._status is None:
            answered.set_exception(problem)
        else:
            answered.set_result(Answer(self._status, bytes(self._body), is_whole, self._headers))

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answered is None:
            # An unsolicited answer.
            self.close()
            return
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._end(is_whole=False, problem=ValueError("the answer is not HTTP"))
        except httptools.HttpParserError as problem:
            self._end(is_whole=False, problem=ValueError(f"the answer is not HTTP: {problem}"))
        if self._head_bytes > _LARGEST_HEAD:
            self._end(is_whole=False, problem=ValueError("the answer's headers are too long"))
        if len(self._body) > self._largest:
            self._end(is_whole=False, problem=ValueError("the answer is too long"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        closed = _Unanswered(f"the connection was closed without an answer{f': {exc}' if exc else ''}")
        # Without a length, the body ends with the connection.
        self._end(is_whole=self._status is not None and not self._is_bounded, problem=closed)

    # Called by httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status is not None:
            # A trailer, which nobody reads.
            return
        lower = name.lower()
        if lower in (b"content-length", b"transfer-encoding"):
            self._is_bounded = True
        self._headers[lower.decode("latin-1")] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        # 1xx only announces the real answer.
        self._status = status if status >= 200 or status == 101 else None

    def on_body(self, body: bytes) -> None:
        self._body += body
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        if self._status is None:
            return
        if not self._parser.should_keep_alive():
            self.is_open = False
        self._end(is_whole=True, problem=ValueError("the answer is not HTTP"))


class Poster:
    """Sends requests to addresses, at most `at_once` at a time, on a thread of its own.

    `timeout` is in seconds for a whole request: the address look-up, connecting, writing, and reading the answer, of
    which at most `largest` bytes are read. With `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY` in the environment (unless
    `NO_PROXY` excludes the host) a proxy makes the connections.
    """

    def __init__(self, timeout: float, largest: int, *, at_once: int = 8) -> None:
        self._timeout = timeout
        self._largest = largest
        self._at_once = at_once
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._unsent: list[tuple[Coroutine[Any, Any, Answer], Future[Answer]]] = []
        self._tasks: set[asyncio.Future[None]] = set()
        self._ssl: ssl.SSLContext | None = None
        self._idle: dict[tuple[str, str, int, bool], list[_Connection]] = defaultdict(list)

    def post(self, url: str, headers: Mapping[str, str], content: bytes, *, public_only: bool = False) -> Answer:
        """Send a request and wait for the answer. Raises as `send` does."""
        return self.send(url, headers, content, public_only=public_only).result()

    def send(
        self, url: str, headers: Mapping[str, str], content: bytes, *, method: str = "POST", public_only: bool = False
    ) -> Future[Answer]:
        """A future of the answer to a request.

        It fails with `PrivateAddress` if `public_only` is set and the address is not public (behind a proxy, only if
        the URL itself spells such an address), with `TimeoutError` and other `OSError` if there is no answer, and with
        `ValueError` for an address or header that cannot be sent and for an answer that is not HTTP.
        """
        return self._run(self._exchange(method, url, headers, content, public_only))

    def _run(self, act: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        answer: Future[Answer] = Future()
        with self._guard:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # Names are looked up in threads, one for each request in flight, so that none waits for another's
                # look-up.
                self._loop.set_default_executor(ThreadPoolExecutor(self._at_once, "usagebill-names"))
                self._thread = threading.Thread(target=self._loop.run_forever, name="usagebill-posting", daemon=True)
                self._thread.start()
            self._unsent.append((act, answer))
            if len(self._unsent) == 1:
                # Waking the loop is a system call: once for all requests sent together.
                self._loop.call_soon_threadsafe(self._begin)
        return answer

    def _begin(self) -> None:
        with self._guard:
            unsent, self._unsent = self._unsent, []
        for act, answer in unsent:
            task = asyncio.ensure_future(_fulfil(act, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Abort the requests in flight."""
        with self._guard:
            loop, thread = self._loop, self._thread
            self._loop = None
        if loop is None or thread is None:
            return

        async def cancel_all() -> None:
            self._begin()
            # Lets requests that have just begun reach a point where they can be cancelled.
            await asyncio.sleep(0)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            for connections in self._idle.values():
                for connection in connections:
                    connection.resume()
                    connection.close()
            # Lets the transports close.
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(cancel_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, public_only: bool
    ) -> Answer:
        deadline = asyncio.get_running_loop().time() + self._timeout
        target = _Target.at(url)
        proxy = _proxy_for(target)
        request = _request(method, target, proxy, headers, content)
        key = (target.scheme, target.host, target.port, public_only)
        while True:
            connection = self._rested(key)
            is_used = connection is not None
            if connection is None:
                try:
                    async with asyncio.timeout_at(deadline):
                        connection = await self._connect(target, proxy, public_only, deadline)
                except TimeoutError:
                    raise TimeoutError(f"no connection to {target.host} within {self._timeout:g} seconds") from None
            try:
                answer = await connection.exchange(request, deadline)
            except _Unanswered:
                if is_used:
                    # The server closed the idle connection: that says nothing about this request.
                    continue
                raise
            except TimeoutError:
                raise TimeoutError(f"no answer from {target.host} within {self._timeout:g} seconds") from None
            if connection.is_open:
                connection.rest()
                self._idle[key].append(connection)
            else:
                connection.close()
            return answer

    def _rested(self, key: tuple[str, str, int, bool]) -> _Connection | None:
        connections = self._idle.pop(key, [])
        while connections:
            connection = connections.pop()
            if connection.is_open:
                connection.resume()
                if connections:
                    self._idle[key] = connections
                return connection
        return None

    async def _connect(self, target: _Target, proxy: _Target | None, public_only: bool, deadline: float) -> _Connection:
        loop = asyncio.get_running_loop()
        if proxy is None:
            opened = await self._open(target.host, target.port, public_only, deadline)
        else:
            # The proxy decides what it connects to; only addresses spelled out in the URL are checked here.
            if public_only:
                _check_literal(target.host)
            opened = await self._open(proxy.host, proxy.port, False, deadline)
        try:
            if proxy is not None and target.scheme == "https":
                await _tunnel(opened, target, proxy)
            secure = self._context() if target.scheme == "https" else None
            _, connection = await loop.create_connection(
                lambda: _Connection(self._largest),
                sock=opened,
                ssl=secure,
                server_hostname=target.host if secure else None,
            )
        except BaseException:
            opened.close()
            raise
        return connection

    async def _open(self, host: str, port: int, public_only: bool, deadline: float) -> socket.socket:
        """A socket connected to one of the host's addresses."""
        loop = asyncio.get_running_loop()
        known = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        allowed = [entry for entry in known if not public_only or is_public(str(entry[4][0]))]
        if not allowed:
            addresses = ", ".join(sorted({str(entry[4][0]) for entry in known}))
            raise PrivateAddress(f"{host} ({addresses}) is not on the public internet")
        problem: OSError = OSError(f"{host} has no address")
        for place, (family, kind, number, _, address) in enumerate(allowed):
            opened = socket.socket(family, kind, number)
            opened.setblocking(False)
            try:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # Each address gets a share of the time, so that a silent one does not use it all up.
                async with asyncio.timeout((deadline - loop.time()) / (len(allowed) - place)):
                    await loop.sock_connect(opened, address)
                return opened
            except OSError as failure:
                opened.close()
                problem = failure
            except BaseException:
                opened.close()
                raise
        raise problem

    def _context(self) -> ssl.SSLContext:
        if self._ssl is None:
            chosen = any(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
            self._ssl = ssl.create_default_context(cafile=None if chosen else certifi.where())
            self._ssl.set_alpn_protocols(["http/1.1"])
        return self._ssl


async def _fulfil(act: Coroutine[Any, Any, Answer], answer: Future[Answer]) -> None:
    try:
        answer.set_result(await act)
    except asyncio.CancelledError:
        answer.cancel()
        raise
    except Exception as problem:
        answer.set_exception(problem)


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


async def _tunnel(opened: socket.socket, target: _Target, proxy: _Target) -> None:
    """Have the proxy connect to the target. Raises ConnectionError if it does not."""
    loop = asyncio.get_running_loop()
    host = f"[{target.host}]" if ":" in target.host else target.host
    lines = [f"CONNECT {host}:{target.port} HTTP/1.1", f"Host: {host}:{target.port}"]
    if proxy.authorization is not None:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    await loop.sock_sendall(opened, "\r\n".join([*lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        part = await loop.sock_recv(opened, 4096)
        if not part or len(head) > _LARGEST_HEAD:
            raise ConnectionError("the proxy's answer is not valid HTTP")
        head += part
    status = head.split(None, 2)[1:2]
    if status != [b"200"]:
        raise ConnectionError(f"the proxy refused to connect: {head.splitlines()[0].decode(errors='replace')}")


class Asking:
    """A client for single requests: at most `timeout` seconds in total, and `largest` bytes of answer."""

    def __init__(self, timeout: float, largest: int) -> None:
        self._timeout = timeout
        self._largest = largest
        self._poster = Poster(timeout, largest)

    def close(self) -> None:
        self._poster.close()

    def post(self, url: str, headers: Mapping[str, str], content: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises as `request` does."""
        answer = self.request("POST", url, headers, content)
        return answer.status, answer.body

    def request(self, method: str, url: str, headers: Mapping[str, str], content: bytes = b"") -> Answer:
        """The whole answer. Raises what `Poster.send` does, `ValueError` if too long, `TimeoutError` if cut off."""
        answer = self._poster.send(url, headers, content, method=method).result()
        if len(answer.body) > self._largest:
            raise ValueError("the answer is too long")
        if not answer.is_whole:
            raise TimeoutError(f"the answer ended early, or was not complete within {self._timeout:g} seconds")
        return answer
