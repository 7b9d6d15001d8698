"""The floor of `http_ingest`: the least a Python server must do to receive events and make them durable.

`python -m benchmarks.bare_server FILE` answers `POST /events` with one event and `POST /events/batch` with many, on the
address that it prints. Each request is parsed by msgspec, converted to rows of usagebill's own table, with its indexes
and durability, and answered once they are on disk. Requests that arrive together share one commit. Nothing is
validated, looked up, logged or scheduled, and no key is required.
"""

from __future__ import annotations

import socket
import sqlite3
import sys
import threading
import time
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from usagebill.storage.sqlite import SqliteStore

_COLUMNS = (
    *("id", "organization_id", "transaction_id", "code", "external_subscription_id", "timestamp", "properties"),
    *("precise_total_amount_cents", "created_at", "texts", "millionths", "long_numbers"),
)
_INSERT = f"INSERT INTO events ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_ORGANIZATION = "00000000-0000-4000-8000-000000000000"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def row_of(event: dict[str, Any]) -> tuple[object, ...]:
    """The row that usagebill stores for an event of the benchmark."""
    properties = event["properties"]
    return (
        "0190" + event["transaction_id"][4:],
        _ORGANIZATION,
        event["transaction_id"],
        event["code"],
        event["external_subscription_id"],
        event["timestamp"] * 1_000_000,
        _encode(properties).decode(),
        None,
        int(time.time() * 1_000_000),
        None,
        f'{{"amount":{round(float(properties["amount"]) * 1_000_000)}}}',
        None,
    )


class _Write:
    def __init__(self, rows: list[tuple[object, ...]]) -> None:
        self.rows = rows
        self.done = threading.Event()


class _File:
    """The only connection that writes. The first thread to get it commits for all that are waiting."""

    def __init__(self, path: str) -> None:
        SqliteStore(path).close()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA cache_size = -65536")
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._waiting: list[_Write] = []

    def store(self, rows: list[tuple[object, ...]]) -> None:
        """Returns once the rows are on disk."""
        write = _Write(rows)
        with self._guard:
            self._waiting.append(write)
        with self._turn:
            if write.done.is_set():
                return
            with self._guard:
                writes, self._waiting = self._waiting, []
            self._connection.execute("BEGIN IMMEDIATE")
            for other in writes:
                self._connection.executemany(_INSERT, other.rows)
            self._connection.execute("COMMIT")
            for other in writes:
                other.done.set()


def app(file: _File) -> Starlette:
    def taken(body: bytes) -> bytes:
        sent = _decode(body)
        events = [sent["event"]] if "event" in sent else sent["events"]
        file.store([row_of(event) for event in events])
        return _encode(sent)

    async def take(request: Request) -> Response:
        return Response(await run_in_threadpool(taken, await request.body()), media_type="application/json")

    return Starlette(routes=[Route(path, take, methods=["POST"]) for path in ("/events", "/events/batch")])


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    server = uvicorn.Server(
        uvicorn.Config(app(_File(sys.argv[1])), http="httptools", log_level="error", lifespan="off")
    )
    server.run([listener])


if __name__ == "__main__":
    main()
