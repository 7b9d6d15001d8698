"""Usage noted in an application's own database, in its own transactions, and taken from there by usagebill: for
databases that cannot share a transaction with it, such as SQLite, MySQL or another server.

It imports nothing but the standard library, so that a program that only notes usage starts as fast as before.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import uuid4

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
# How the drivers of databases mark the values of a statement (PEP 249), by their `paramstyle`.
_MARKS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}", "named": ":{}"}


class Outbox:
    """A table of the application's database with events that usagebill has yet to take.

    Connections are SQLAlchemy's (a `Connection` or a `Session`; those of asynchronous programs in `run_sync`),
    Django's, or those of any driver that follows PEP 249: sqlite3, psycopg, PyMySQL, mysqlclient, ... The caller's
    transaction is neither begun nor ended.
    """

    def __init__(self, table: str = "usagebill_outbox") -> None:
        if _NAME.fullmatch(table) is None:
            raise ValueError(f"{table!r} cannot be the name of the table: letters, digits and underscores, 63 at most")
        self.table = table

    def create_table(self, connection: Any) -> None:
        """Make the table, if there is none. Some databases commit what was open before (MySQL), so do it at start."""
        run(
            connection,
            f"CREATE TABLE IF NOT EXISTS {self.table} (id VARCHAR(32) NOT NULL PRIMARY KEY,"
            " added_at VARCHAR(32) NOT NULL, event TEXT NOT NULL)",
        )

    def add(
        self,
        connection: Any,
        *,
        transaction_id: str,
        code: str,
        external_subscription_id: str,
        properties: Mapping[str, object] | None = None,
        timestamp: datetime | None = None,
        precise_total_amount_cents: Decimal | str | None = None,
    ) -> None:
        """Note an event (`billing.events.create`) in the caller's open transaction: if that is rolled back, there is
        none. `timestamp` is when the usage was, by default now.

        Raises ValueError for a timestamp without a zone, TypeError for a property that JSON does not have.
        """
        now = datetime.now(UTC)
        used_at = now if timestamp is None else timestamp
        if used_at.tzinfo is None:
            raise ValueError(f"timestamp: {used_at} has no zone; use datetime.now(UTC), for instance")
        event: dict[str, object] = {
            "transaction_id": transaction_id,
            "code": code,
            "external_subscription_id": external_subscription_id,
            "timestamp": used_at.astimezone(UTC).isoformat(),
            "properties": dict(properties or {}),
        }
        if precise_total_amount_cents is not None:
            event["precise_total_amount_cents"] = str(precise_total_amount_cents)
        run(
            connection,
            f"INSERT INTO {self.table} (id, added_at, event) VALUES (?, ?, ?)",
            (uuid4().hex, now.isoformat(timespec="microseconds"), json.dumps(event, default=_decimal, allow_nan=False)),
        )

    def oldest(self, connection: Any, most: int) -> list[tuple[str, str]]:
        """The ids and the texts of the events that were added first."""
        rows = run(connection, f"SELECT id, event FROM {self.table} ORDER BY added_at, id LIMIT {most}")
        return [(str(id), str(text)) for id, text in rows]

    def remove(self, connection: Any, ids: Sequence[str]) -> None:
        """Remove events that are stored elsewhere now."""
        run(connection, f"DELETE FROM {self.table} WHERE id IN ({','.join('?' * len(ids))})", ids)

    def count(self, connection: Any) -> int:
        """The number of events."""
        [(count,)] = run(connection, f"SELECT COUNT(*) FROM {self.table}")
        return int(count)


def _decimal(value: object) -> str:
    """A `Decimal` as text, so that nothing of it is lost; whatever else JSON does not have is refused."""
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{value!r} cannot be a property of an event: {type(value).__name__} is no type of JSON")


def run(connection: Any, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Run a statement, with `?` for each value, on a connection of any of the kinds that `Outbox` takes; its rows."""
    if hasattr(connection, "sync_session") or hasattr(connection, "sync_connection"):
        raise TypeError("an asynchronous connection: await connection.run_sync(lambda open: outbox.add(open, ...))")
    if hasattr(connection, "exec_driver_sql") or hasattr(connection, "get_bind"):
        from sqlalchemy import text

        names = [f"v{number}" for number in range(len(values))]
        result = connection.execute(text(_marked(sql, ":v{}", first=0)), dict(zip(names, values, strict=True)))
        return [tuple(row) for row in result] if result.returns_rows else []
    mark = _mark(connection)
    cursor = connection.cursor()
    if inspect.iscoroutinefunction(cursor.execute):
        raise TypeError(
            "an asynchronous connection of a driver: use SQLAlchemy's, whose `run_sync` gives one to a function"
        )
    try:
        cursor.execute(_marked(sql, mark, first=1), tuple(values))
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
    finally:
        cursor.close()


def _mark(connection: Any) -> str:
    """How the connection's driver marks a value."""
    if hasattr(connection, "ensure_connection"):  # Django's, whatever is below it
        return "%s"
    for kind in type(connection).__mro__:
        parts = kind.__module__.split(".")
        for end in range(len(parts), 0, -1):
            style = getattr(sys.modules.get(".".join(parts[:end])), "paramstyle", None)
            if style in _MARKS:
                return _MARKS[style]
    name = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise TypeError(f"a connection of SQLAlchemy, Django or a driver that follows PEP 249 is needed, not {name}")


def _marked(sql: str, mark: str, *, first: int) -> str:
    start, *rest = sql.split("?")
    return start + "".join(mark.format(number) + part for number, part in enumerate(rest, first))
