"""Events for benchmarks, and the floor for ingestion: the same rows stored by `executemany`."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from usagebill.fields import EventFields
from usagebill.storage.sqlite import SqliteStore

START = datetime(2024, 1, 1, tzinfo=UTC)
_COLUMNS_SQL = "SELECT name FROM pragma_table_info('events') WHERE name != 'sequence'"


def sent(first: int, count: int, *, subscription: str = "sub-1") -> list[EventFields]:
    """Events as a caller sends them: 2 seconds apart, three properties, 10,000 users, UUIDs as transaction ids."""
    return [
        {
            "transaction_id": f"{number * 2654435761 % 2**32:08x}-{number:04x}-4000-8000-{number * 40503:012x}",
            "code": "api_calls",
            "external_subscription_id": subscription,
            "timestamp": 1704067200 + number * 2,
            "properties": {
                "amount": f"{number % 1000}.{number % 100:02}",
                "user": f"user-{number % 10_000}",
                "region": ("eu", "us", "ap")[number % 3],
            },
        }
        for number in range(first, first + count)
    ]


def stored_rows(path: Path) -> list[tuple[Any, ...]]:
    """All rows of a file's table of events, in the order they were stored."""
    connection = sqlite3.connect(path)
    try:
        names = ", ".join(name for (name,) in connection.execute(_COLUMNS_SQL))
        return connection.execute(f"SELECT {names} FROM events ORDER BY sequence").fetchall()
    finally:
        connection.close()


def _batches(rows: Sequence[tuple[Any, ...]], size: int) -> Iterator[Sequence[tuple[Any, ...]]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def executemany_seconds(path: Path, rows: Sequence[tuple[Any, ...]], size: int) -> float:
    """Seconds that bare SQLite takes to store `rows` in a new file with the same table, indexes and durability.

    One transaction a batch of `size` rows, each synchronised to disk before the next begins.
    """
    SqliteStore(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -65536")
    names = [name for (name,) in connection.execute(_COLUMNS_SQL)]
    statement = f"INSERT INTO events ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    started = time.perf_counter()
    for batch in _batches(rows, size):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(statement, batch)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return seconds
