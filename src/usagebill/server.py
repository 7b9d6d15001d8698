"""The server: the API over HTTP, with a worker beside it, until it is told to stop."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from usagebill.billing import Billing
from usagebill.http.api import request_id
from usagebill.http.app import create_app
from usagebill.worker import Worker

__all__ = ["bind", "serve"]

# What the request line and the headers may hold together: several times what arrives at once, for a body may follow.
_LONGEST_HEAD = 1024 * 1024
_LAST_WORDS_SECONDS = 1.0


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at `host`, on a free port where `port` is 0. Raises `OSError` where it cannot."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.create_server((host, port), family=family, backlog=2048)
    # Connections inherit it. Without it the body of an answer waits for the client to acknowledge the head, 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _Protocol(HttpToolsProtocol):
    """Requests whose head is too long, or that are not HTTP, are refused in the words of the API."""

    _reads_head = True
    _head_bytes = 0
    _refused = False

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._reads_head:
            self._head_bytes += len(data)
            if self._head_bytes > _LONGEST_HEAD:
                self.send_400_response("")
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._reads_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._reads_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        body = b'{"status":400,"error":"Bad Request"}'
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\n"
            b"x-request-id: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (request_id("").encode(), len(body), body)
        )
        # Closed at once, with bytes unread, the connection would be reset and the answer lost on its way.
        self._refused = True
        self.transport.write_eof()
        self.loop.call_later(_LAST_WORDS_SECONDS, self.transport.close)


class _Server(uvicorn.Server):
    """Asked to terminate, it first goes on serving for a while in which `/ready` says that it is about to stop."""

    def __init__(self, config: uvicorn.Config, drain_seconds: float, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self.stopping = False
        self._drain_seconds = drain_seconds
        self._on_start = on_start
        self._stop_at: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and not self.stopping:
            self._stop_at = time.monotonic() + self._drain_seconds
        else:
            super().handle_exit(sig, frame)
        self.stopping = True

    async def on_tick(self, counter: int) -> bool:
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            self.should_exit = True
        return await super().on_tick(counter)


def serve(
    billing: Billing,
    listener: socket.socket,
    *,
    workers: int = 1,
    drain_seconds: float = 1.0,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests on `listener`, and do due jobs with so many workers, until SIGTERM or SIGINT.

    On SIGTERM `/ready` turns 503 and requests are still taken for `drain_seconds`, so that a load balancer can look
    elsewhere. Then, as on SIGINT at once, requests in flight finish, the workers finish their job, and this returns.
    """
    state: list[_Server] = []
    app = create_app(billing, log_requests=True, is_stopping=lambda: state[0].stopping)
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=30,
    )
    server = _Server(config, drain_seconds, on_start)
    state.append(server)
    # uvicorn raises the signal once more when it is done: it has been heard.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with ExitStack() as stack:
            for _ in range(workers):
                stack.enter_context(Worker(billing))
            server.run([listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
