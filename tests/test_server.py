"""The server's sockets and connections."""

from __future__ import annotations

import socket

from usagebill.server import bind


def test_answers_are_sent_at_once_not_when_the_client_acknowledges_their_beginning() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
