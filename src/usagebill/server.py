"""The server: the API over HTTP and a worker, until it is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from usagebill import __version__
from usagebill.billing import Billing
from usagebill.core.processes import ProcessKind
from usagebill.http.app import FIRST_SEGMENTS, create_app
from usagebill.http.connections import MOST_LEAVING, allow_files, connection_class, look_after
from usagebill.http.proxies import LOOPBACK, BehindProxies, checked_networks, checked_root
from usagebill.process.logs import Log
from usagebill.runtime.clock import MovedByHand
from usagebill.worker import Worker

_BACKLOG = 2048
# How long no connection is accepted once too many are open, or files are lacking.
_ACCEPT_PAUSE_SECONDS = 0.01
_TICKS_A_SECOND = 10
_BETWEEN_WARNINGS_SECONDS = 10.0
_log = Log("usagebill.server")


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at `host`, on a free port if `port` is 0. Raises `OSError` if it cannot."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    # Connections inherit it. Without it, the body of an answer waits 40 ms for the client to acknowledge the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def bind_unix(path: Path) -> socket.socket:
    """A socket that listens at a path, for its owner and group. It replaces one that a dead server has left there.

    Raises `OSError` if it cannot, such as when another server listens.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        if path.is_socket() and not _is_answered(path):
            path.unlink()
        listener.bind(str(path))
        path.chmod(0o660)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True


class Server(uvicorn.Server):
    """On SIGTERM it keeps serving for a while, during which `/ready` reports that it is about to stop."""

    def __init__(
        self, config: uvicorn.Config, connections: int, drain_seconds: float, on_start: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.stopping = False
        self._drain_seconds = drain_seconds
        self._on_start = on_start
        self._stop_at: float | None = None
        self._looked_at = time.monotonic()
        self._began = time.monotonic()
        self._signal: str | None = None
        self._has_told_end = False
        self._told_at = -_BETWEEN_WARNINGS_SECONDS
        self._most_open = connections + MOST_LEAVING
        # Few enough that a request is read before later connections could push its own out.
        self._accepted_at_once = max(1, min(MOST_LEAVING, connections // 4))
        # Accepted, but not among the connections yet.
        self._arriving: set[asyncio.Task[Any]] = set()
        self._is_accepting = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # No listener for uvicorn: asyncio would accept connections until no file is left.
        await super().startup([])
        for listener in sockets or ():
            listener.setblocking(False)
            self._start_accepting(listener)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._is_accepting = False
        for listener in sockets or ():
            asyncio.get_running_loop().remove_reader(listener)
        # uvicorn closes the connections that it has; one made afterwards would be waited for as if it were at work.
        await asyncio.gather(*self._arriving, return_exceptions=True)
        await super().shutdown(sockets)

    def _start_accepting(self, listener: socket.socket) -> None:
        # The server may have stopped during a pause.
        if self._is_accepting:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Accept some of the connections that wait; pause if there are as many as there may be."""
        for _ in range(self._accepted_at_once):
            if len(self.server_state.connections) + len(self._arriving) >= self._most_open:
                self._pause_accepting(listener)
                return
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                self._tell(problem)
                self._pause_accepting(listener)
                return
            accepted.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._connect(accepted))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(self._new_connection, accepted)

    def _new_connection(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        connection: asyncio.Protocol = protocol(self.config, self.server_state, self.lifespan.state)
        return connection

    def _pause_accepting(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(_ACCEPT_PAUSE_SECONDS, self._start_accepting, listener)

    def _tell(self, problem: OSError) -> None:
        if time.monotonic() - self._told_at >= _BETWEEN_WARNINGS_SECONDS:
            self._told_at = time.monotonic()
            _log.error("connections_not_accepted", reason=str(problem))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # No line of the log here: the signal may have come while one is written.
        self._signal = self._signal or signal.Signals(sig).name
        if sig == signal.SIGTERM and not self.stopping:
            self._stop_at = time.monotonic() + self._drain_seconds
        else:
            super().handle_exit(sig, frame)
        self.stopping = True

    @property
    def end(self) -> dict[str, object]:
        """Why the server ends, and for how many seconds it has served, for the log."""
        return {"signal": self._signal, "seconds": round(time.monotonic() - self._began, 1)}

    async def on_tick(self, counter: int) -> bool:
        if self.stopping and not self._has_told_end:
            self._has_told_end = True
            _log.info("server_stopping", signal=self._signal, drain_seconds=self._drain_seconds)
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            self.should_exit = True
        if counter % _TICKS_A_SECOND == 0:
            now = time.monotonic()
            look_after(self.server_state.connections, now - self._looked_at)
            self._looked_at = now
        return await super().on_tick(counter)


def address_of(listener: socket.socket) -> str:
    """Where a listener is reached: `http://host:port`, or `unix:` and the path of its socket."""
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return f"unix:{name}"
    host, port = name[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def about(billing: Billing) -> dict[str, object]:
    """What a process is that works on a database, for the log: its version, that of the schema, and its settings."""
    return {
        "version": __version__,
        "schema": billing.store.schema,
        "process": os.getpid(),
        "database": billing.store.reachability.database,
        "settings": billing.settings.changed(),
    }


def serve(
    billing: Billing,
    listener: socket.socket,
    *,
    workers: int = 1,
    connections: int = 1000,
    head_seconds: float = 15.0,
    body_seconds: float = 20.0,
    answer_seconds: float = 60.0,
    drain_seconds: float = 10.0,
    keep_alive_seconds: int = 75,
    trusted_proxies: Sequence[str] = LOOPBACK,
    root_path: str = "",
    on_start: Callable[[], None] = lambda: None,
    sandbox: MovedByHand | None = None,
) -> None:
    """Answer requests on `listener`, and run due jobs with this many workers, until SIGTERM or SIGINT.

    At most `connections` are open at a time, fewer if the system permits fewer open files: the one silent for longest
    makes room for a new one. A request's head must arrive within `head_seconds`, its body within `body_seconds` and one
    more for each 16 KiB. A client that reads nothing of an answer for `answer_seconds` is disconnected, and one that
    asks nothing more for `keep_alive_seconds`: longer than proxies keep theirs, so that it is they who end them.

    `trusted_proxies` (addresses and networks) may say who a client is; all paths may begin with `root_path`
    (`proxies.BehindProxies`).

    On SIGTERM `/ready` turns 503 and requests are still accepted for `drain_seconds`, so that a load balancer can move
    them elsewhere. Then, as on SIGINT at once, requests in flight finish, the workers finish their job, and this
    returns.
    """
    state: list[Server] = []
    connections = allow_files(connections)
    app = BehindProxies(
        create_app(billing, log_requests=True, is_stopping=lambda: state[0].stopping, sandbox=sandbox),
        trusted=checked_networks(trusted_proxies),
        root=checked_root(root_path, FIRST_SEGMENTS),
        on_this_machine=listener.family == socket.AF_UNIX,
    )

    def started() -> None:
        _log.info(
            "server_started",
            **about(billing),
            address=address_of(listener),
            root_path=root_path,
            workers=workers,
            limits={
                "connections": connections,
                "head_seconds": head_seconds,
                "body_seconds": body_seconds,
                "answer_seconds": answer_seconds,
                "drain_seconds": drain_seconds,
                "keep_alive_seconds": keep_alive_seconds,
            },
            trusted_proxies=list(trusted_proxies),
        )
        on_start()

    config = uvicorn.Config(
        app,
        http=connection_class(connections, head_seconds, body_seconds, answer_seconds),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=30,
    )
    server = Server(config, connections, drain_seconds, started)
    state.append(server)
    # uvicorn raises the signal once more when it is done; it has been handled.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with ExitStack() as stack:
            billing._system.presence.begin(ProcessKind.SERVER)
            for _ in range(workers):
                stack.enter_context(Worker(billing))
            server.run([listener])
        _log.info("server_stopped", **server.end)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
