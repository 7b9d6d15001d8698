"""Advisory locks: an organization has one writer at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from usagebill.storage.postgresql.connection import Connection, Rows

_LOW = 0xFFFFFFFF


def lock_key(name: str) -> int:
    """The lock's number, the same in every database."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, person=b"usagebill").digest(), "big", signed=True)


def is_held_by(connection: Connection, session: int, organization_id: str) -> bool:
    """Whether the session with this process id holds the organization's lock."""
    key = lock_key(organization_id)
    row = connection.execute(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = ? AND objsubid = 1"
        " AND classid::bigint = ? AND objid::bigint = ?"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        (session, key >> 32 & _LOW, key & _LOW),
    ).fetchone()
    return row is not None


class Locks:
    """The organizations that a transaction may write to. Locks are kept until it ends."""

    def __init__(self, connection: Connection, before_waiting: Callable[[Connection, str], None] | None = None) -> None:
        self._connection = connection
        self._before_waiting = before_waiting
        self.held: set[str] = set()
        # Until an organization's lock is held, others may change its rows that were read.
        self.when_taken: Callable[[], None] | None = None

    def take(self, organization_id: str) -> None:
        """Wait for the organization's lock."""
        if organization_id not in self.held:
            if self._before_waiting is not None:
                self._before_waiting(self._connection, organization_id)
            self._connection.execute("SELECT pg_advisory_xact_lock(?)", (lock_key(organization_id),))
            self._taken(organization_id)

    def take_if_free(self, organization_id: str) -> bool:
        """Take the lock if it is free; whether the transaction now has it."""
        if organization_id in self.held:
            return True
        row = self._connection.execute("SELECT pg_try_advisory_xact_lock(?)", (lock_key(organization_id),)).fetchone()
        if row is None or not row[0]:
            return False
        self._taken(organization_id)
        return True

    def _taken(self, organization_id: str) -> None:
        self.held.add(organization_id)
        if self.when_taken is not None:
            self.when_taken()


class Locked(Connection):
    """A connection that takes the organization's lock before the first statement."""

    def __init__(self, connection: Connection, locks: Locks, organization_id: str) -> None:
        super().__init__(connection.driver, connection.unsent, connection.scope, connection.beginning)
        self._locks = locks
        self._organization_id = organization_id

    def execute(self, sql: str, values: Sequence[Any] = (), *, anew: bool = False) -> Rows:
        self._locks.take(self._organization_id)
        return super().execute(sql, values, anew=anew)

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        self._locks.take(self._organization_id)
        return super().stream(sql, values)
