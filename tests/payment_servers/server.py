"""The common part of all fake servers: it keeps requests, honours keys, and injects faults."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

Json = Any


class Fault(Enum):
    """A fault that replaces the answer to a request."""

    SILENT = "no answer until the server closes"
    CLOSED = "the connection is closed; nothing was done"
    LOST = "everything is done, but the answer never arrives"
    HTML = "a page of some proxy comes with status 200"
    CUT = "the answer breaks off in the middle"
    EMPTY = "status 200 without a body"
    BUSY = "429"
    BROKEN = "500"


@dataclass(frozen=True)
class Call:
    """A request as received: `fields` are its form, JSON or query, `headers` in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    fields: Json
    body: bytes = b""

    @property
    def key(self) -> str | None:
        """The idempotency key, under the provider's name for it."""
        names = ("idempotency-key", "x-idempotency-key")
        return next((self.headers[name] for name in names if name in self.headers), None)

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Notice:
    """A message as the provider sends it."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def forged(self) -> Notice:
        """The same with other contents, under the same signature."""
        return Notice(self.body.replace(b'"', b' "', 1), self.headers)


class Refused(Exception):
    """The provider answers with an error."""

    def __init__(self, status: int, answer: Json) -> None:
        super().__init__(f"{status} {answer}")
        self.status = status
        self.answer = answer


class PaymentServer:
    """An account with a provider, served over HTTP on this machine.

    `faults` apply to the next requests, one each. `outcomes` are the results of the next charges.
    """

    kind: ClassVar[str]
    prefix: ClassVar[str] = ""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime(2024, 3, 5, 12, tzinfo=UTC)) -> None:
        self.now = now
        self.calls: list[Call] = []
        self.faults: deque[Fault] = deque()
        self._only = ""
        self._refusals: deque[tuple[int, str, str]] = deque()
        self.outcomes: deque[str] = deque()
        self._kept: dict[str, tuple[Json, tuple[int, Json]]] = {}
        self._guard = threading.Lock()
        self._released = threading.Event()
        self._count = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, text, is_cut = server._serve(self.command, self.path, headers, body)
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                for name, value in server.answer_headers().items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text[: len(text) // 2] if is_cut else text)
                self.close_connection = self.close_connection or is_cut

            def do_POST(self) -> None:
                self.do_GET()

            def do_PATCH(self) -> None:
                self.do_GET()

            def do_DELETE(self) -> None:
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{self.prefix}"

    @property
    def credentials(self) -> dict[str, str]:
        """The credentials of a connection to this account."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # Overridden by each kind

    def parsed(self, body: bytes) -> Json:
        """The fields of a body."""
        return json.loads(body)

    def queried(self, query: str) -> Json:
        """The fields of a query."""
        return dict(parse_qsl(query))

    def answer_headers(self) -> dict[str, str]:
        return {}

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        raise NotImplementedError

    def error(self, status: int, code: str, message: str) -> Json:
        """An error in the provider's own form."""
        raise NotImplementedError

    def route(self, call: Call) -> tuple[int, Json]:
        """Handle a request. Raises KeyError for a missing object, and `Refused`."""
        raise NotImplementedError

    def is_kept(self, status: int) -> bool:
        """Whether an answer with this status is repeated for the same key."""
        return status < 429

    def key_conflict(self, key: str) -> tuple[int, Json]:
        """The answer to a key that was used before with another request."""
        return 400, self.error(400, "idempotency_error", f"{key} was used with other parameters")

    def repeated(self, key: str, answer: tuple[int, Json]) -> tuple[int, Json]:
        """The answer to a repeated request."""
        return answer

    # Shared

    def new_id(self, start: str) -> str:
        self._count += 1
        return f"{start}{self._count}"

    def outcome(self, usual: str) -> str:
        return self.outcomes.popleft() if self.outcomes else usual

    def befall(self, *faults: Fault, only: str = "") -> None:
        """Have the next requests whose line starts with `only` go wrong, one each."""
        self.faults.extend(faults)
        self._only = only

    def error_once(self, status: int, code: str, message: str) -> None:
        """Have the next request refused in this way."""
        self._refusals.append((status, code, message))

    def forget_keys(self) -> None:
        """Forget all keys, as after a long time."""
        self._kept.clear()

    def lines(self) -> list[str]:
        """Every request so far, as `POST /v1/customers`."""
        return [call.line for call in self.calls]

    def asked(self, line: str) -> list[Call]:
        """The requests with this start of the line."""
        return [call for call in self.calls if call.line.startswith(line)]

    def _serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, bool]:
        parts = urlsplit(target)
        fields = self.parsed(body) if body else self.queried(parts.query)
        call = Call(method, parts.path.removeprefix(self.prefix), headers, fields, body)
        with self._guard:
            self.calls.append(call)
            fault = self.faults.popleft() if self.faults and call.line.startswith(self._only) else None
        if fault is Fault.SILENT:
            self._released.wait()
        if fault in (Fault.SILENT, Fault.CLOSED):
            return 0, b"", False
        if fault is Fault.BUSY:
            return 429, json.dumps(self.error(429, "rate_limit", "Too many requests")).encode(), False
        if fault is Fault.BROKEN:
            return 500, json.dumps(self.error(500, "api_error", "Something went wrong")).encode(), False
        if fault is Fault.HTML:
            return 200, b"<html>Bad gateway</html>", False
        if fault is Fault.EMPTY:
            return 200, b"", False
        with self._guard:
            status, answer = self._answer(call)
        return 0 if fault is Fault.LOST else status, json.dumps(answer).encode(), fault is Fault.CUT

    def _answer(self, call: Call) -> tuple[int, Json]:
        if not self.is_allowed(call.headers):
            return 401, self.error(401, "unauthorized", "The key is not valid")
        if self._refusals:
            status, code, message = self._refusals.popleft()
            return status, self.error(status, code, message)
        request = [call.line, call.fields]
        key = None if call.method == "GET" else call.key
        if key is not None and key in self._kept:
            before, answer = self._kept[key]
            return self.repeated(key, answer) if before == request else self.key_conflict(key)
        try:
            answer = self.route(call)
        except Refused as problem:
            answer = problem.status, problem.answer
        except KeyError as problem:
            answer = 404, self.error(404, "resource_missing", f"No such thing: {problem}")
        if key is not None and self.is_kept(answer[0]):
            self._kept[key] = request, answer
        return answer
