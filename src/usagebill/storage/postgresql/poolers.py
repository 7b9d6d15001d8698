"""Poolers between usagebill and the server, such as PgBouncer: a connection has to keep its session."""

from __future__ import annotations

from collections.abc import Callable

from usagebill.storage.ports import UnusableServer
from usagebill.storage.postgresql.pool import Driver

_SHARED = (
    "the pooler in front of PostgreSQL gives each transaction another session (PgBouncer: pool_mode = transaction);"
    " usagebill prepares statements and makes settings per session: use pool_mode = session, or connect to the server"
)
# Transactions of each connection. A pooler gives the next one the session that was used last; other clients may have
# taken it meanwhile.
_TRIES = 5


def check_sessions(driver: Driver, connect: Callable[[], Driver]) -> None:
    """Raises `UnusableServer` if connections do not keep a session of the server to themselves."""
    first = _session(driver)
    # The id in the greeting is the server's own, or that of a pooler.
    if first == driver.info.backend_pid:
        return
    with connect() as other:
        for _ in range(_TRIES):
            if _session(other) == first or _session(driver) != first:
                raise UnusableServer(_SHARED)


def _session(driver: Driver) -> int:
    row = driver.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    return int(row[0])
