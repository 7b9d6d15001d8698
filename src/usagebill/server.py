"""The server: the API over HTTP, with a worker beside it, until it is told to stop."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

import uvicorn

from usagebill.billing import Billing
from usagebill.http.app import create_app
from usagebill.worker import Worker

__all__ = ["bind", "serve"]


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at `host`, on a free port where `port` is 0. Raises `OSError` where it cannot."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family, backlog=2048)


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
