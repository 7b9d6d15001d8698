"""The job queue: a table of its own, claimed within the transaction that does the work."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from usagebill.core.jobs import Job, LaneBacklog, QueueState
from usagebill.storage.sql.jobs import JOB_COLUMNS, JobQueries, job_of, job_row
from usagebill.storage.sqlite.rows import sql_value

_READY = "failed = 0 AND run_at = due_at"
_HELD = "failed = 0 AND run_at <> due_at"


class SqliteJobs(JobQueries[sqlite3.Connection]):
    """See `storage.ports.JobQueue`."""

    def __init__(self, connection: sqlite3.Connection, organization_id: str | None) -> None:
        super().__init__(connection, organization_id, ready=_READY, held=_HELD, stored=sql_value)

    def add(self, *jobs: Job) -> bool:
        for job in jobs:
            self._writes(job)
        cursor = self._connection.executemany(
            f"INSERT INTO jobs ({JOB_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT (organization_id, key) DO NOTHING",
            [job_row(job) for job in jobs],
        )
        return not jobs or cursor.rowcount == len(jobs)

    def _claimed(self, lane: str, now: datetime, at_most: int, immediate: bool) -> list[Job]:
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
            f"SELECT kind, COUNT(*) FROM jobs WHERE {_HELD} AND run_at > ? AND error IS NOT NULL GROUP BY kind", (at,)
        ).fetchall()
        failed = self._connection.execute(
            "SELECT kind, COUNT(*) FROM jobs INDEXED BY jobs_failed WHERE failed = 1 GROUP BY kind"
        ).fetchall()
        return QueueState(
            backlog=tuple(backlog),
            retrying_by_kind=dict(retrying),
            failed_by_kind=dict(failed),
            next_due_at=self.next_due(),
        )
