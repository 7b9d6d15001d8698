"""The server's end closes every connection that it accepted."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from usagebill.http.connections import connection_class
from usagebill.server import Server


async def app(scope: object, receive: object, send: object) -> None:
    """Answers nothing: no request is made."""


def test_a_connection_accepted_as_the_server_stops_is_closed() -> None:
    """It is among the server's connections only after the others have been told to close."""
    connection = connection_class(10, head_seconds=60, body_seconds=60, answer_seconds=60)
    # Long enough to fail the test by its own limit, were the connection waited for.
    config = uvicorn.Config(
        app, http=connection, ws="none", log_config=None, lifespan="off", timeout_graceful_shutdown=3
    )

    async def stopped_while_arriving(listener: socket.socket) -> set[object]:
        server = Server(config, connections=10, drain_seconds=0, on_start=lambda: None)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])
        with socket.create_connection(listener.getsockname()):
            await asyncio.sleep(0)
            server._accept(listener)
            await server.shutdown([listener])
            return set(server.server_state.connections)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert asyncio.run(stopped_while_arriving(listener)) == set()
