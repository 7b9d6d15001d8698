"""The job queue: a table of its own, claimed within the transaction that does the work."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from usagebill.core.jobs import Job, LaneBacklog, QueueState
from usagebill.storage.job_queries import JOB_COLUMNS, JobQueries, job_of, job_row
from usagebill.storage.sqlite.rows import sql_value

_READY = "failed = 0 AND run_at = due_at"
_HELD = "failed = 0 AND run_at <> due_at"
_STATES = ((_READY, "due_at"), (_HELD, "run_at"))
# One index look-up per lane and state, however many jobs wait.
_EARLIEST = "SELECT l.value, {} FROM json_each(?) l".format(
    ", ".join(
        f"(SELECT {column} FROM jobs WHERE {state} AND lane = l.value ORDER BY {column} LIMIT 1)"
        for state, column in _STATES
    )
)


class SqliteJobs(JobQueries[sqlite3.Connection]):
    """See `storage.ports.JobQueue`."""

    def __init__(self, connection: sqlite3.Connection, organization_id: str | None) -> None:
        super().__init__(connection, organization_id, ready=_READY, held=_HELD)

    def add(self, *jobs: Job) -> bool:
        for job in jobs:
            self._check_organization(job)
        cursor = self._connection.executemany(
            f"INSERT INTO jobs ({JOB_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT (organization_id, key) DO NOTHING",
            [job_row(job) for job in jobs],
        )
        return not jobs or cursor.rowcount == len(jobs)

    def claim(self, now: datetime, *, immediate: bool = False) -> Job | None:
        return next(iter(self._ready("", now, 1, immediate)), None)

    def _ready(self, lane: str, now: datetime, at_most: int, immediate: bool) -> list[Job]:
        """The first due jobs of a lane, including those that were held until now."""
        self._connection.execute(
            f"UPDATE jobs SET run_at = due_at WHERE {_HELD} AND lane = ? AND run_at <= ?", (lane, sql_value(now))
        )
        tests, values = [_READY, "lane = ?", "due_at <= ?"], [lane, sql_value(now)]
        if immediate:
            tests.append("immediate = 1")
        if self._organization_id is not None:
            tests.append("organization_id = ?")
            values.append(self._organization_id)
        rows = self._connection.execute(
            f"SELECT {JOB_COLUMNS} FROM jobs WHERE {' AND '.join(tests)} ORDER BY due_at, sequence LIMIT ?",
            (*values, at_most),
        ).fetchall()
        return [job_of(row) for row in rows]

    def lease(
        self, lane: str, now: datetime, until: datetime, *, at_most: int = 1, immediate: bool = False
    ) -> list[Job]:
        jobs = self._ready(lane, now, at_most, immediate)
        self._connection.executemany(
            "UPDATE jobs SET run_at = ? WHERE id = ?", [(sql_value(until), job.id) for job in jobs]
        )
        return [replace(job, run_at=until) for job in jobs]

    def give_back(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._check_organization(job)
        self._connection.executemany(
            f"UPDATE jobs SET run_at = due_at WHERE {_HELD} AND id = ? AND organization_id = ? AND run_at = ?",
            [(job.id, job.organization_id, sql_value(job.run_at)) for job in jobs],
        )

    def earliest(self, lanes: Sequence[str]) -> dict[str, datetime]:
        rows = self._connection.execute(_EARLIEST, (json.dumps(lanes),))
        return {
            lane: datetime.fromisoformat(min(instant for instant in instants if instant is not None))
            for lane, *instants in rows
            if any(instants)
        }

    def named(self, keys: Sequence[str]) -> list[Job]:
        rows = self._connection.execute(
            f"SELECT {JOB_COLUMNS} FROM jobs WHERE organization_id = ? AND key IN ({','.join('?' * len(keys))})",
            (self._organization_id, *keys),
        )
        return [job_of(row) for row in rows.fetchall()]

    def complete(self, *jobs: Job) -> None:
        for job in jobs:
            self._check_organization(job)
        self._connection.executemany(
            "DELETE FROM jobs WHERE id = ? AND organization_id = ?", [(job.id, job.organization_id) for job in jobs]
        )

    def cancel(self, key: str) -> None:
        self._connection.execute("DELETE FROM jobs WHERE organization_id = ? AND key = ?", (self._organization_id, key))

    def postpone(self, job: Job, run_at: datetime, error: str, *, failed: bool) -> None:
        self._check_organization(job)
        self._connection.execute(
            "UPDATE jobs SET run_at = ?, attempts = attempts + 1, error = ?, failed = ?"
            " WHERE id = ? AND organization_id = ?",
            (sql_value(run_at), error, failed, job.id, job.organization_id),
        )

    def state(self, now: datetime) -> QueueState:
        at = sql_value(now)
        backlog: list[LaneBacklog] = []
        for lane in ("", *self.lanes()):
            # Jobs held until now, for a retry or by a worker that died, are due too.
            row = self._connection.execute(
                "SELECT COUNT(*), MIN(due_at) FROM ("
                f"SELECT due_at FROM jobs WHERE {_READY} AND lane = ? AND due_at <= ?"
                f" UNION ALL SELECT due_at FROM jobs WHERE {_HELD} AND lane = ? AND run_at <= ?)",
                (lane, at, lane, at),
            ).fetchone()
            if row[0]:
                oldest = datetime.fromisoformat(row[1])
                backlog.append(LaneBacklog(lane=lane, due=row[0], oldest_due_at=oldest))
        retrying = self._connection.execute(
            f"SELECT COUNT(*) FROM jobs WHERE {_HELD} AND run_at > ? AND error IS NOT NULL", (at,)
        ).fetchone()[0]
        failed = self._connection.execute(
            "SELECT COUNT(*) FROM jobs INDEXED BY jobs_failed WHERE failed = 1"
        ).fetchone()[0]
        return QueueState(
            backlog=tuple(backlog),
            retrying=retrying,
            failed=failed,
            next_due_at=self.next_due(),
            workers=self._workers(),
        )

    def retry(self, id: str, run_at: datetime) -> bool:
        tests, values = "id = ?", [id]
        if self._organization_id is not None:
            tests, values = "id = ? AND organization_id = ?", [id, self._organization_id]
        changed = self._connection.execute(
            f"UPDATE jobs SET run_at = MAX(due_at, ?), attempts = 0, failed = 0 WHERE {tests}",
            (sql_value(run_at), *values),
        )
        return changed.rowcount == 1
