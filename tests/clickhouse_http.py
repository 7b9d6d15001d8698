"""ClickHouse's HTTP interface in front of chdb's engine, in a separate process.

No package registry has a recent ClickHouse server. The engine is ClickHouse's, the interface is ours:
the statement comes from the parameter `query` and the body, settings from the other parameters, errors are answered
with the status and the header that ClickHouse uses.

    python -m tests.clickhouse_http FOLDER    # prints its port, and serves until its standard input ends
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

USER, PASSWORD = "billing", "secret"
_NO_SETTINGS = frozenset(
    {"query", "database", "query_id", "session_id", "client_protocol_version", "wait_end_of_query"}
)


@contextmanager
def serving(folder: str) -> Iterator[str]:
    """Host and port of a server that keeps its files in the folder, with user and password before them."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.clickhouse_http", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield f"{USER}:{PASSWORD}@127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.stdin.close()
        server.wait(30)
        server.stdout.close()


def main(folder: str) -> None:
    import chdb

    connection: Any = chdb.connect(folder)  # type: ignore[no-untyped-call]
    turn = threading.Lock()
    allowed = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parameters = dict(parse_qsl(urlsplit(self.path).query))
            if self.headers.get("Authorization") != allowed:
                self._say(
                    401, b"Code: 516. DB::Exception: Authentication failed", {"X-ClickHouse-Exception-Code": "516"}
                )
                return
            statement = (parameters.get("query", "") + "\n").encode() + body
            settings = {name: value for name, value in parameters.items() if name not in _NO_SETTINGS}
            try:
                with turn:
                    self._say(200, _run(statement.decode(), settings), {"X-ClickHouse-Summary": "{}"})
            except RuntimeError as problem:
                self._say(500, str(problem).encode(), {"X-ClickHouse-Exception-Code": "1"})

        def _say(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    def _run(statement: str, settings: dict[str, str]) -> bytes:
        set_here = []
        try:
            for name, value in settings.items():
                connection.query(f"SET {name} = '{value}'")
                set_here.append(name)
            return bytes(connection.query(statement, "TabSeparated").bytes())
        finally:
            for name in set_here:
                connection.query(f"SET {name} = DEFAULT")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    # The process that stopped it deletes its files.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
