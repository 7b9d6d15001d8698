"""A real HTTP server that receives webhook messages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: bytes


class Receiver:
    """Answers each request with the next of `statuses` (repeating the last) and keeps the requests.

    A status of 0 means no answer until the receiver is closed. `answer` is the body of its answers, or makes one from
    the request's body.
    """

    def __init__(self, *statuses: int, answer: bytes | Callable[[bytes], bytes] = b"thanks") -> None:
        self.statuses = list(statuses or (200,))
        self.received: list[Received] = []
        # Set when a request has arrived.
        self.came = threading.Event()
        self._released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append(Received(self.path, headers, body))
                receiver.came.set()
                turn = min(len(receiver.received), len(receiver.statuses)) - 1
                status = receiver.statuses[turn]
                if status == 0:
                    receiver._released.wait()
                    self.close_connection = True
                    return
                content = answer if isinstance(answer, bytes) else answer(body)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                if status != 204:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook?from=billing"

    def release(self) -> None:
        """Close the connections that were not answered."""
        self._released.set()

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
