"""Rows of jobs, and the queries of the job queue that every engine makes alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from usagebill.core.jobs import Job
from usagebill.storage.every_engine import instant_text

JOB_COLUMNS: Final = (
    "id, organization_id, kind, subject_id, key, due_at, run_at, created_at, immediate, lane, payload, attempts,"
    " error, failed"
)
# After the name of every lane.
LAST_LANE: Final = chr(0x10FFFF)

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def job_of(row: Sequence[Any]) -> Job:
    """The job whose `JOB_COLUMNS` are `row`."""
    return Job(
        id=row[0],
        organization_id=row[1],
        kind=row[2],
        subject_id=row[3],
        key=row[4],
        due_at=datetime.fromisoformat(row[5]),
        run_at=datetime.fromisoformat(row[6]),
        created_at=datetime.fromisoformat(row[7]),
        immediate=bool(row[8]),
        lane=row[9],
        payload=_decode(row[10]),
        attempts=row[11],
        error=row[12],
        failed=bool(row[13]),
    )


def job_row(job: Job) -> tuple[Any, ...]:
    """The values of `JOB_COLUMNS`."""
    return (
        job.id,
        job.organization_id,
        job.kind,
        job.subject_id,
        job.key,
        instant_text(job.due_at),
        instant_text(job.run_at),
        instant_text(job.created_at),
        job.immediate,
        job.lane,
        _encode(job.payload).decode(),
        job.attempts,
        job.error,
        job.failed,
    )


class _Connection(Protocol):
    def execute(self, sql: str, values: Any = ..., /) -> Any: ...


C = TypeVar("C", bound=_Connection)


class JobQueries(ABC, Generic[C]):
    """Queries of `storage.ports.JobQueue` that have the same SQL in every engine.

    `ready` is the SQL of jobs that only wait for their `due_at`, `held` of those that a retry or a lease holds until a
    later `run_at`. Held jobs have an index of their own, so that claims skip them. `stored` is how a value is stored.
    """

    def __init__(
        self, connection: C, organization_id: str | None, *, ready: str, held: str, stored: Callable[[object], Any]
    ) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._ready_jobs = ready
        self._held_jobs = held
        self._stored = stored
        self._states = ((ready, "due_at"), (held, "run_at"))

    def _writes(self, job: Job) -> None:
        """A job is about to be written."""
        if self._organization_id not in (None, job.organization_id):
            raise PermissionError(f"a job of organization {job.organization_id} in one of {self._organization_id}")

    @abstractmethod
    def _claimed(self, lane: str, now: datetime, at_most: int, immediate: bool) -> list[Job]:
        """The first due jobs of a lane, including those that were held until now."""

    def claim(self, now: datetime, *, immediate: bool = False) -> Job | None:
        return next(iter(self._claimed("", now, 1, immediate)), None)

    def lease(
        self, lane: str, now: datetime, until: datetime, *, at_most: int = 1, immediate: bool = False
    ) -> list[Job]:
        jobs = self._claimed(lane, now, at_most, immediate)
        for job in jobs:
            self._connection.execute("UPDATE jobs SET run_at = ? WHERE id = ?", (self._stored(until), job.id))
        return [replace(job, run_at=until) for job in jobs]

    def give_back(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._writes(job)
            self._connection.execute(
                f"UPDATE jobs SET run_at = due_at WHERE {self._held_jobs} AND id = ? AND organization_id = ?"
                " AND run_at = ?",
                (job.id, job.organization_id, self._stored(job.run_at)),
            )

    def complete(self, *jobs: Job) -> None:
        for job in jobs:
            self._writes(job)
            self._connection.execute(
                "DELETE FROM jobs WHERE id = ? AND organization_id = ?", (job.id, job.organization_id)
            )

    def cancel(self, key: str) -> None:
        self._connection.execute("DELETE FROM jobs WHERE organization_id = ? AND key = ?", (self._organization_id, key))

    def postpone(self, job: Job, run_at: datetime, error: str, *, failed: bool = False, counts: bool = True) -> None:
        self._writes(job)
        self._connection.execute(
            "UPDATE jobs SET run_at = ?, attempts = attempts + ?, error = ?, failed = ?"
            " WHERE id = ? AND organization_id = ?",
            (self._stored(run_at), int(counts), self._stored(error), failed, job.id, job.organization_id),
        )

    def every(self) -> list[Job]:
        rows = self._connection.execute(
            f"SELECT {JOB_COLUMNS} FROM jobs WHERE organization_id = ? ORDER BY sequence", (self._organization_id,)
        ).fetchall()
        return [job_of(row) for row in rows]

    def release(self, error: str) -> None:
        self._connection.execute(
            "UPDATE jobs SET run_at = due_at, error = NULL WHERE organization_id = ? AND error = ?",
            (self._organization_id, self._stored(error)),
        )

    def retry(self, id: str, run_at: datetime) -> bool:
        job = self._first("id = ?", [id])
        if job is None or self._organization_id not in (None, job.organization_id):
            return False
        self._writes(job)
        changed = self._connection.execute(
            "UPDATE jobs SET run_at = CASE WHEN due_at > ? THEN due_at ELSE ? END, attempts = 0, failed = ?"
            " WHERE id = ?",
            (self._stored(run_at), self._stored(run_at), False, id),
        )
        return bool(changed.rowcount == 1)

    def earliest(self, lanes: Sequence[str]) -> dict[str, datetime]:
        if not lanes:
            return {}
        # One index look-up per lane and state, however many jobs wait.
        firsts = ", ".join(
            f"(SELECT {column} FROM jobs WHERE {state} AND lane = l.lane ORDER BY {column} LIMIT 1)"
            for state, column in self._states
        )
        asked = " UNION ALL ".join(["SELECT CAST(? AS text) AS lane"] * len(lanes))
        rows = self._connection.execute(f"SELECT l.lane, {firsts} FROM ({asked}) l", tuple(lanes)).fetchall()
        return {
            lane: datetime.fromisoformat(min(instant for instant in instants if instant is not None))
            for lane, *instants in rows
            if any(instants)
        }

    def ready(self, now: datetime, at_most: int) -> list[Job]:
        waiting, values = self._waiting_jobs()
        rows = self._connection.execute(
            f"SELECT {JOB_COLUMNS} {waiting} AND due_at <= ? ORDER BY due_at, sequence LIMIT ?",
            (*values, instant_text(now), at_most),
        ).fetchall()
        return [job_of(row) for row in rows]

    def _waiting_jobs(self) -> tuple[str, list[str]]:
        """The jobs without a lane that are not held until later, as SQL with its values."""
        scope, values = (
            ("", []) if self._organization_id is None else (" AND organization_id = ?", [self._organization_id])
        )
        return f"FROM jobs WHERE {self._ready_jobs} AND lane = ''{scope}", values

    def lanes(self, prefix: str = "") -> dict[str, datetime]:
        first: dict[str, str] = {}
        for state, column in self._states:
            # One index look-up per lane, however many jobs wait in it.
            after, lane = (">=" if prefix else ">"), prefix
            while row := self._connection.execute(
                f"SELECT lane, {column} FROM jobs WHERE {state} AND lane {after} ? AND lane < ?"
                f" ORDER BY lane, {column} LIMIT 1",
                (lane, prefix + LAST_LANE),
            ).fetchone():
                after, lane = ">", row[0]
                first[lane] = min(row[1], first.get(lane, row[1]))
        return {lane: datetime.fromisoformat(instant) for lane, instant in first.items()}

    def next_due(self, *, leased: bool | None = None) -> datetime | None:
        waiting = [] if leased is False else list(self.lanes().values())
        if not leased:
            for state, column in self._states:
                row = self._connection.execute(
                    f"SELECT {column} FROM jobs WHERE {state} AND lane = '' ORDER BY {column} LIMIT 1"
                ).fetchone()
                if row is not None:
                    waiting.append(datetime.fromisoformat(row[0]))
        return min(waiting, default=None)

    def next_of(self, kind: str, now: datetime) -> tuple[datetime, int] | None:
        waiting, values = self._waiting_jobs()
        row = self._connection.execute(
            f"SELECT due_at, COUNT(*) {waiting} AND due_at > ? AND kind = ? GROUP BY due_at ORDER BY due_at LIMIT 1",
            (*values, instant_text(now), kind),
        ).fetchone()
        return None if row is None else (datetime.fromisoformat(row[0]), row[1])

    def overdue(
        self,
        subject_ids: Collection[str] | None,
        now: datetime,
        *,
        but_of: Collection[str] = (),
    ) -> Job | None:
        tests, values = "organization_id = ? AND lane = '' AND due_at <= ?", [self._organization_id, instant_text(now)]
        if subject_ids is not None:
            tests += f" AND subject_id IN ({', '.join('?' * len(subject_ids))})"
            values += subject_ids
        if but_of:
            tests += f" AND subject_id NOT IN ({', '.join('?' * len(but_of))})"
            values += but_of
        return self._first(f"{tests} ORDER BY due_at, sequence", values)

    def overdue_of(self, kinds: Collection[str], now: datetime) -> list[Job]:
        rows = self._connection.execute(
            f"SELECT {JOB_COLUMNS} FROM jobs WHERE organization_id = ? AND lane = '' AND due_at <= ?"
            f" AND kind IN ({', '.join('?' * len(kinds))}) ORDER BY due_at, sequence",
            (self._organization_id, instant_text(now), *kinds),
        ).fetchall()
        return [job_of(row) for row in rows]

    def waiting(self, kind: str, subject_id: str) -> Job | None:
        return self._first(
            "organization_id = ? AND subject_id = ? AND kind = ? ORDER BY due_at, sequence",
            [self._organization_id, subject_id, kind],
        )

    def get(self, key: str) -> Job | None:
        return self._first("organization_id = ? AND key = ?", [self._organization_id, key])

    def _first(self, tests: str, values: Sequence[Any]) -> Job | None:
        row = self._connection.execute(f"SELECT {JOB_COLUMNS} FROM jobs WHERE {tests} LIMIT 1", values).fetchone()
        return None if row is None else job_of(row)

    def failures(self, *, job_id: str | None = None, at_most: int | None = None, skipped: int = 0) -> list[Job]:
        tests, values = self._failed()
        if job_id is not None:
            tests, values = f"{tests} AND id = ?", [*values, job_id]
        page = "" if at_most is None else f" LIMIT {int(at_most)} OFFSET {int(skipped)}"
        rows = self._connection.execute(
            f"SELECT {JOB_COLUMNS} FROM jobs WHERE {tests} ORDER BY due_at, sequence{page}", values
        ).fetchall()
        return [job_of(row) for row in rows]

    def count_failures(self) -> int:
        tests, values = self._failed()
        row = self._connection.execute(f"SELECT count(*) FROM jobs WHERE {tests}", values).fetchone()
        return 0 if row is None else int(row[0])

    def to_come(self, *, subject_id: str | None, at_most: int, skipped: int = 0) -> list[Job]:
        # Each part in the order of an index: there is a job for each customer, and few with a lane.
        tests, values = self._to_come(subject_id)
        first, page = int(at_most) + int(skipped), f"LIMIT {int(at_most)} OFFSET {int(skipped)}"
        parts = (
            f"SELECT * FROM (SELECT {JOB_COLUMNS}, sequence FROM jobs WHERE {tests} AND {lane}"
            f" ORDER BY due_at, sequence LIMIT {first}) AS {name}"
            for name, lane in (("without", "lane = ''"), ("lanes", "lane > ''"))
        )
        rows = self._connection.execute(
            f"SELECT {JOB_COLUMNS} FROM ({' UNION ALL '.join(parts)}) AS jobs ORDER BY due_at, sequence {page}",
            [*values, *values],
        ).fetchall()
        return [job_of(row) for row in rows]

    def count_to_come(self, *, subject_id: str | None, at_most: int) -> int:
        tests, values = self._to_come(subject_id)
        row = self._connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM jobs WHERE {tests} LIMIT {int(at_most)}) AS jobs", values
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _to_come(self, subject_id: str | None) -> tuple[str, list[Any]]:
        tests, values = "organization_id = ? AND error IS NULL", [self._organization_id]
        return (tests, values) if subject_id is None else (f"{tests} AND subject_id = ?", [*values, subject_id])

    def _failed(self) -> tuple[str, list[Any]]:
        """The condition for failed jobs, and its values."""
        if self._organization_id is None:
            return "error IS NOT NULL", []
        return "organization_id = ? AND error IS NOT NULL", [self._organization_id]
