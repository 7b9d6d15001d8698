"""Numbers of sequences, which a transaction that buffers its writes takes from memory."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.locks import Locks
from usagebill.storage.postgresql.pending import Pending


class Sequences:
    """The sequences of organizations within one transaction; "" is the organization of those that all share."""

    def __init__(self, connection: Connection, locks: Locks | None, pending: Pending | None) -> None:
        self._connection = connection
        self._locks = locks
        self._pending = pending

    def next_number(self, organization_id: str, name: str, start: int = 1) -> int:
        """The number after the last one; `start` for the first."""
        pending = self._pending
        if pending is not None and pending.is_buffering and organization_id:
            # Nobody else takes a number while this transaction holds the organization's lock.
            number = organization_id, name
            last = pending.numbers.get(number)
            if last is None:
                last = self.last_numbers(organization_id, [name]).get(name)
            value = start if last is None else last + 1
            pending.take_number(number, value)
            return value
        row = self._connection.execute(
            "INSERT INTO sequences (organization_id, name, value) VALUES (?, ?, ?)"
            " ON CONFLICT (organization_id, name) DO UPDATE SET value = sequences.value + 1 RETURNING value",
            (organization_id, name, start),
        ).fetchone()
        assert row is not None
        if pending is not None:
            pending.numbers.pop((organization_id, name), None)
        return int(row[0])

    def raise_all(self, numbers: Sequence[tuple[str, str]]) -> None:
        """Raise the sequences of these organizations and names, in one statement."""
        if numbers:
            owners, names = zip(*numbers, strict=True)
            self._connection.of(None).execute(
                "INSERT INTO sequences (organization_id, name, value)"
                " SELECT o, n, 1 FROM unnest(?::text[], ?::text[]) AS raised (o, n)"
                " ON CONFLICT (organization_id, name) DO UPDATE SET value = sequences.value + 1",
                (list(owners), list(names)),
            )

    def last_numbers(self, organization_id: str, names: Sequence[str]) -> dict[str, int]:
        """The last number of each sequence that has one."""
        connection = self._connection
        if self._pending is not None and self._pending.is_buffering and self._locks is not None:
            # Buffered writes take no unknown numbers, so they need not be sent first.
            self._locks.take(organization_id)
            connection = Connection(connection.driver, None, connection.scope)
        rows = connection.execute(
            "SELECT name, value FROM sequences WHERE organization_id = ? AND name = ANY(?::text[])",
            (organization_id, list(names)),
        )
        return {name: int(value) for name, value in rows}
