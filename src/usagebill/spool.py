"""A spool: events are written to a small file first, and sent to a served usagebill in the background.

spool = Spool(Client("https://billing.example.com", "the-api-key"), "events.spool")
spool.add(transaction_id="1", code="calls", external_subscription_id="acme-pro")
"""

from __future__ import annotations

import atexit
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from usagebill.client import Client, Retries
from usagebill.core.errors import BadRequest, BillingError, Invalid
from usagebill.outbox import Outbox
from usagebill.process.logs import Log, plain_traceback
from usagebill.remote.calls import create_batch

T = TypeVar("T")
# As many as a service takes at once, unless it is told otherwise.
_BATCH: Final = 100
_LONGEST_PAUSE: Final = 60.0
_BUSY_SECONDS: Final = 30.0
_ONCE: Final = Retries(attempts=1)
_log = Log("usagebill.spool")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEvent:
    """An event that the service refused, kept aside, and why (its `details`)."""

    event: Mapping[str, Any]
    problem: object
    refused_at: datetime


class Spool:
    """Events on their way to a service. `add` returns once an event is durable in the file `path`; a thread sends what
    is there every so many seconds, in batches. Neither a service that is away nor a process that dies loses any: what
    is left is sent after the next start, and an event that is sent twice is stored once.

    An event that the service refuses is kept aside (`refused`) and logged, and holds up no other. Any other refusal (a
    key that is not valid, say) holds up all, and is logged until it has passed. Several processes may use one file. At
    the end of the process, or of the `with` block, what is left is sent for at most `exit_seconds`.
    """

    def __init__(self, client: Client, path: str | Path, *, every: float = 1.0, exit_seconds: float = 5.0) -> None:
        self._client = client
        self._path = str(path)
        self._every = every
        self._exit_seconds = exit_seconds
        self._outbox = Outbox("usagebill_spool")
        self._lock = threading.Lock()
        self._batch = _BATCH
        self._open()
        atexit.register(self.close)

    def _open(self) -> None:
        # A process that was forked has neither the thread nor the right to use the connection.
        self._process = os.getpid()
        self._file = self._connected()
        self._outbox.create_table(self._file)
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS usagebill_spool_refused (id TEXT NOT NULL PRIMARY KEY,"
            " refused_at TEXT NOT NULL, event TEXT NOT NULL, problem TEXT NOT NULL)"
        )
        self._stopping = threading.Event()
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._keep_sending, name="usagebill-spool", daemon=True)
        self._thread.start()

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def add(
        self,
        *,
        transaction_id: str,
        code: str,
        external_subscription_id: str,
        properties: Mapping[str, object] | None = None,
        timestamp: datetime | None = None,
        precise_total_amount_cents: Decimal | str | None = None,
    ) -> None:
        """Write an event down (`events.create`); it is durable once this returns, after a write to the disk. In `async
        def`: `await asyncio.to_thread(spool.add, ...)`. `timestamp` is when the usage was, by default now.

        Raises ValueError for a timestamp without a zone, TypeError for a property that JSON does not have.
        """
        self._using(
            lambda file: self._outbox.add(
                file,
                transaction_id=transaction_id,
                code=code,
                external_subscription_id=external_subscription_id,
                properties=properties,
                timestamp=timestamp,
                precise_total_amount_cents=precise_total_amount_cents,
            )
        )

    def _using(self, act: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._process != os.getpid():
                self._open()
            return act(self._file)

    def waiting(self) -> int:
        """The number of events that are not sent yet."""
        return self._using(self._outbox.count)

    def refused(self) -> Sequence[RefusedEvent]:
        """The events that the service refused, in the order of their refusal."""
        rows = self._using(
            lambda file: file.execute(
                "SELECT event, problem, refused_at FROM usagebill_spool_refused ORDER BY refused_at, id"
            ).fetchall()
        )
        return [
            RefusedEvent(event=_read(event), problem=_read(problem), refused_at=datetime.fromisoformat(refused_at))
            for event, problem, refused_at in rows
        ]

    def retry_refused(self) -> int:
        """Send the refused events again, once what was wrong is mended; returns their number."""
        return self._using(self._put_back)

    def _put_back(self, file: sqlite3.Connection) -> int:
        file.execute("BEGIN IMMEDIATE")
        file.execute(
            "INSERT OR IGNORE INTO usagebill_spool (id, added_at, event)"
            " SELECT id, refused_at, event FROM usagebill_spool_refused"
        )
        count = file.execute("DELETE FROM usagebill_spool_refused").rowcount
        file.execute("COMMIT")
        return count

    def delete_refused(self) -> int:
        """Forget the refused events; returns their number."""
        return self._using(lambda file: file.execute("DELETE FROM usagebill_spool_refused").rowcount)

    def close(self) -> None:
        """Send what is left, for at most `exit_seconds`; the rest stays in the file."""
        atexit.unregister(self.close)
        if self._process != os.getpid() or self._stopping.is_set():
            return
        self._deadline = monotonic() + self._exit_seconds
        self._stopping.set()
        self._thread.join(self._exit_seconds)
        with self._lock:
            left = self._outbox.count(self._file)
            if left:
                _log.warning("events_left_in_spool", path=self._path, count=left)
            if not self._thread.is_alive():
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What the thread does

    def _keep_sending(self) -> None:
        stopping, pause, failed = self._stopping, self._every, False
        with closing(self._connected()) as file:
            while True:
                is_last = stopping.wait(pause)
                try:
                    while (self._deadline is None or monotonic() < self._deadline) and self._send(file):
                        pass
                except Exception as problem:
                    # Whatever it is, the thread goes on: nobody else would send the events.
                    if not failed or is_last:
                        known = isinstance(problem, (BillingError, sqlite3.Error))
                        details = {} if known else {"exception": plain_traceback(problem)}
                        _log.error("spool_failing", path=self._path, reason=str(problem), **details)
                    pause, failed = min(2 * pause, max(_LONGEST_PAUSE, self._every)), True
                else:
                    if failed:
                        _log.info("spool_works_again", path=self._path)
                    pause, failed = self._every, False
                if is_last:
                    return

    def _send(self, file: sqlite3.Connection) -> bool:
        """Send the first events; whether there were any."""
        rows = self._outbox.oldest(file, self._batch)
        if not rows:
            return False
        refused: Mapping[int, object] = {}
        try:
            self._client.send(create_batch(map(_sent, (text for _, text in rows)), on_duplicate="skip"), retries=_ONCE)
        except (BadRequest, Invalid) as problem:
            refused = _refused_places(getattr(problem, "details", str(problem)), len(rows))
        except (TypeError, ValueError) as problem:
            # One that cannot even be sent.
            refused = _refused_places(str(problem), len(rows))
        else:
            self._batch = min(_BATCH, 2 * self._batch)
            self._outbox.remove(file, [id for id, _ in rows])
            return True
        if refused:
            for place, why in refused.items():
                _log.error("event_refused", path=self._path, sent=rows[place][1], problem=why)
            self._keep_aside(file, [(*rows[place], why) for place, why in refused.items()])
        else:
            # Not because of one event, so perhaps because of their number or length, and else fewer find it.
            self._batch = len(rows) // 2
        return True

    def _keep_aside(self, file: sqlite3.Connection, refused: Sequence[tuple[str, str, object]]) -> None:
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        file.execute("BEGIN IMMEDIATE")
        file.executemany(
            "INSERT OR REPLACE INTO usagebill_spool_refused (id, refused_at, event, problem) VALUES (?, ?, ?, ?)",
            [(id, now, text, json.dumps(why, default=str)) for id, text, why in refused],
        )
        self._outbox.remove(file, [id for id, _, _ in refused])
        file.execute("COMMIT")


def _refused_places(details: Any, count: int) -> Mapping[int, object]:
    """Which events of a batch are refused, and why; none if the batch is refused as a whole."""
    if count == 1:
        return {0: details}
    if isinstance(details, Mapping) and details and all(key.isdecimal() and int(key) < count for key in details):
        return {int(place): why for place, why in details.items()}
    return {}


def _read(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _sent(text: str) -> Mapping[str, object]:
    event = _read(text)
    return {**event, "timestamp": datetime.fromisoformat(event["timestamp"])}
