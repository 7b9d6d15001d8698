"""Code shared by all engines, independent of their SQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Set
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any


def instant_text(value: datetime) -> str:
    """The instant in UTC, to the microsecond: such texts sort as the instants do. ValueError without a zone."""
    if value.tzinfo is None:
        raise ValueError(f"an instant without a zone: {value}")
    return value.astimezone(UTC).isoformat(timespec="microseconds")


class OneTransaction:
    """Keeps each thread to one transaction at a time."""

    def __init__(self) -> None:
        self._thread = threading.local()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Raises RuntimeError if this thread has an open transaction: a second one would not see its changes, or would
        wait for it to end.
        """
        if getattr(self._thread, "is_open", False):
            raise RuntimeError("this thread has an open transaction: read and write through it until it ends")
        self._thread.is_open = True
        try:
            yield
        finally:
            self._thread.is_open = False


class EntitlingCommits:
    """The number of commits of this process that changed the entitlements of an organization of a database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def count(self, organization_ids: Set[str]) -> None:
        """Count a commit for each of these organizations."""
        with self._lock:
            for id in organization_ids:
                self._counts[id] = self._counts.get(id, 0) + 1

    def of(self, organization_id: str) -> int:
        return self._counts.get(organization_id, 0)


class RecordedRows:
    """The recorded rows of a statement, with the interface of a cursor."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = iter(rows)
        self.rowcount = len(rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)
