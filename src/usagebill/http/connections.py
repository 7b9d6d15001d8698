"""Connections of the server: limits on silence, on the size of requests, and on the number of connections."""

from __future__ import annotations

import resource
from collections.abc import Iterable
from http import HTTPStatus
from time import monotonic
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from usagebill.http.api import request_id
from usagebill.process.json_text import encode_json
from usagebill.process.logs import Log

# The most bytes of request line and headers together: several times what arrives at once, because a body may follow.
_LONGEST_HEAD = 1024 * 1024
# Bytes of a body's message without any of its content: what says how long its parts are, or follows the last.
_LONGEST_FRAMING = 64 * 1024
# How much of an unread body is dropped, so that its sender sees the answer.
_MOST_DROPPED_BYTES = 80 * 1024 * 1024
# A body may take one more second for each of these many bytes.
_BODY_BYTES_A_SECOND = 16 * 1024
_LAST_WORDS_SECONDS = 1.0
_BETWEEN_WARNINGS_SECONDS = 10.0
# Files that the process has open besides connections: the database once per reader, logs, outgoing requests.
_OTHER_FILES = 256
# Connections beyond the most that are open while they are being refused or closed.
MOST_LEAVING = 100
_MESSAGES = {
    HTTPStatus.BAD_REQUEST: "the request is not HTTP, or its head is too long; send HTTP/1.1 with a head below 1 MiB",
    HTTPStatus.REQUEST_TIMEOUT: "the rest of the request did not come in time; send it again, without a pause",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        "headers after a body (trailers) are not read, nor 64 KiB between two of its parts; send all headers before it"
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: "all connections are busy; try again in a second (`serve --connections`)",
}
_log = Log("usagebill.connections")


class Connection(HttpToolsProtocol):
    """Refuses requests that are not HTTP, or with too long a head, as the API does; closes after too long a silence."""

    most: ClassVar[int]
    head_seconds: ClassVar[float]
    body_seconds: ClassVar[float]
    answer_seconds: ClassVar[float]
    _warned_at: ClassVar[float] = -_BETWEEN_WARNINGS_SECONDS

    _reads_head = True
    _head_bytes = 0
    _body_bytes = 0
    # Of these, the body itself, and those since its latest part.
    _content_bytes = 0
    _framing_bytes = 0
    _refused = False
    # Made to leave for want of room: it is no longer counted, though its file is still open.
    _leaving = False
    # The start of the current wait, for a head or a body.
    _since = 0.0
    _unsent = 0
    _unsent_since = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = monotonic()
        if len(self.connections) > self.most:
            self._make_room()

    def _make_room(self) -> None:
        """Close the connection that has been silent for longest; refuse this one if none is silent."""
        connections: Iterable[Any] = self.connections
        staying = [connection for connection in connections if not connection._leaving]
        if len(staying) <= self.most:
            return
        silent = [connection for connection in staying if connection is not self and connection.is_silent]
        self._warn(len(silent))
        if silent:
            victim = min(silent, key=lambda connection: connection._since)
            # At once: the connection is lost only after all others that arrived together have been made.
            victim._leaving = True
            victim.transport.abort()
        else:
            self._leaving = True
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def _warn(self, silent: int) -> None:
        now = monotonic()
        if now - Connection._warned_at >= _BETWEEN_WARNINGS_SECONDS:
            Connection._warned_at = now
            _log.warning("connections_full", most=self.most, silent=silent)

    @property
    def is_silent(self) -> bool:
        """Whether no request of this connection is being answered, and no body is being received."""
        return self._reads_head and (self.cycle is None or self.cycle.response_complete) and not self.pipeline

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._reads_head:
            if not self._head_bytes:
                self._since = monotonic()
            self._head_bytes += len(data)
            if self._head_bytes > _LONGEST_HEAD:
                self._refuse(HTTPStatus.BAD_REQUEST)
                return
        else:
            self._body_bytes += len(data)
            if self._is_answered and self._body_bytes > _MOST_DROPPED_BYTES:
                self.transport.close()
                return
            self._framing_bytes += len(data)
        super().data_received(data)
        if not self._reads_head and self._framing_bytes > _LONGEST_FRAMING and not self._refused:
            self._refuse_framing()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reads_head:
            super().on_header(name, value)
        elif not self._refused:
            self._refuse_framing()

    def _refuse_framing(self) -> None:
        if self.cycle is not None and self.cycle.response_started:
            self.transport.close()
        else:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._reads_head, self._body_bytes, self._since = False, 0, monotonic()
        self._content_bytes = self._framing_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._content_bytes += len(body)
        self._framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._reads_head, self._head_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._since = monotonic()
        super().on_response_complete()

    @property
    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def look_after(self, now: float, passed: float) -> None:
        """Close the connection if it has been idle for too long; `passed` is in seconds since the last call."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent or not unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > self.answer_seconds:
            self.transport.abort()
        if self._refused:
            return
        if self._reads_head:
            # Between two requests uvicorn's keep-alive limit applies.
            if self.is_silent and (self._head_bytes or self.cycle is None) and now - self._since > self.head_seconds:
                self._give_up()
        elif self.flow.read_paused:
            # The server itself is not reading.
            self._since += passed
        elif now - self._since > self.body_seconds + self._content_bytes / _BODY_BYTES_A_SECOND:
            self._give_up()

    def _give_up(self) -> None:
        if self._head_bytes and not self._is_answered_in_part:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.close()

    @property
    def _is_answered_in_part(self) -> bool:
        return not self._reads_head and self.cycle is not None and self.cycle.response_started

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST)

    def _refuse(self, status: HTTPStatus) -> None:
        body = encode_json({"status": int(status), "error": status.phrase, "message": _MESSAGES[status]})
        later = b"retry-after: 1\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else b""
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json; charset=utf-8\r\n"
            b"x-request-id: %b\r\ncontent-length: %d\r\n%bconnection: close\r\n\r\n%b"
            % (status, status.phrase.encode(), request_id("").encode(), len(body), later, body)
        )
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            # Tells the reader of the request that the rest will not come.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        # If closed at once, with bytes unread, the connection would be reset and the answer lost on its way.
        self.transport.write_eof()
        self.loop.call_later(_LAST_WORDS_SECONDS, self.transport.close)


def connection_class(most: int, head_seconds: float, body_seconds: float, answer_seconds: float) -> type[Connection]:
    """The connection class of a server with at most `most` connections at a time.

    A head has `head_seconds` from its first byte, or from the start of the connection; a body `body_seconds`, and one
    more for each 16 KiB. A client that reads nothing of an answer for `answer_seconds` is disconnected.
    """
    limits = {
        "most": most,
        "head_seconds": head_seconds,
        "body_seconds": body_seconds,
        "answer_seconds": answer_seconds,
    }
    return type("Connection", (Connection,), limits)


def look_after(connections: Iterable[Any], passed: float) -> None:
    """Check all connections; `passed` is in seconds since the last call."""
    now = monotonic()
    for connection in tuple(connections):
        connection.look_after(now, passed)


def allow_files(connections: int) -> int:
    """Allow this process to have this many connections open, or as many as the system permits; returns their number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + MOST_LEAVING + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    allowed = max(1, soft - MOST_LEAVING - _OTHER_FILES)
    _log.warning("fewer_connections", wanted=connections, allowed=allowed, open_files=soft)
    return allowed
