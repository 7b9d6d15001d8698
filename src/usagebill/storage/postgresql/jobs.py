"""The job queue. Whoever touches a job holds its organization's lock, so that nobody else does at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from usagebill.core.jobs import Job, LaneBacklog, QueueState
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.locks import Locks
from usagebill.storage.postgresql.pending import Pending
from usagebill.storage.postgresql.rows import sql_value
from usagebill.storage.sql.jobs import JOB_COLUMNS, JobQueries, job_of, job_row

_READY = "NOT failed AND run_at = due_at"
_HELD = "NOT failed AND run_at <> due_at"


class PostgresJobs(JobQueries[Connection]):
    """See `storage.ports.JobQueue`. A snapshot takes no locks, and only reads."""

    def __init__(
        self,
        connection: Connection,
        organization_id: str | None,
        locks: Locks | None,
        pending: Pending | None = None,
    ) -> None:
        super().__init__(connection, organization_id, ready=_READY, held=_HELD, stored=sql_value)
        self._locks = locks
        self._pending = pending

    def _writes(self, job: Job) -> None:
        super()._writes(job)
        if self._locks is not None:
            self._locks.take(job.organization_id)

    def add(self, *jobs: Job) -> bool:
        added = [self._add(job) for job in jobs]
        return all(added)

    def _add(self, job: Job) -> bool:
        self._writes(job)
        row = job_row(job)
        if self._pending is not None and self._pending.is_buffering:
            return self._pending.add(job.organization_id, job.key, row)
        added = self._connection.execute(
            f"INSERT INTO jobs ({JOB_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT (organization_id, key) DO NOTHING",
            row,
        )
        return added.rowcount == 1

    def _claimed(self, lane: str, now: datetime, at_most: int, immediate: bool) -> list[Job]:
        """The first due jobs of a lane, of organizations that nobody else writes to.

        If others write to all of them, this waits for the first one, unless somebody may be waiting for this
        transaction.
        """
        if self._locks is None or self._organization_id is not None:
            return self._ready(lane, now, at_most, immediate, ())
        busy: list[str] = []
        while True:
            jobs = self._ready(lane, now, at_most, immediate, busy)
            waiting = {job.organization_id for job in jobs} - self._locks.held
            if not waiting:
                if jobs or not busy or self._locks.held:
                    return jobs
                self._locks.take(busy[0])
                busy = busy[1:]
                continue
            for organization_id in waiting:
                # Read again even if the lock was free: jobs read before it was taken may be done by now.
                if not self._locks.take_if_free(organization_id):
                    busy.append(organization_id)

    def _ready(self, lane: str, now: datetime, at_most: int, immediate: bool, left_out: Sequence[str]) -> list[Job]:
        # Both ready jobs and those that were held until now.
        also = " AND immediate" if immediate else ""
        values: list[Any] = []
        if self._organization_id is not None:
            also += " AND organization_id = ?"
            values.append(self._organization_id)
        if left_out:
            also += " AND organization_id <> ALL(?::text[])"
            values.append(list(left_out))
        at = sql_value(now)
        held = self._connection.execute(
            f"SELECT 1 FROM jobs WHERE {_HELD} AND lane = ? AND run_at <= ?{also} LIMIT 1", (lane, at, *values)
        ).fetchone()
        first = f"SELECT sequence, {JOB_COLUMNS} FROM jobs WHERE {_READY} AND lane = ? AND due_at <= ?{also}"
        bound = (lane, at, *values)
        if held is not None:
            first += (
                f" UNION ALL SELECT sequence, {JOB_COLUMNS} FROM jobs WHERE {_HELD} AND lane = ? AND run_at <= ?{also}"
            )
            bound += bound
        rows = self._connection.execute(f"{first} ORDER BY due_at, sequence LIMIT ?", (*bound, at_most)).fetchall()
        return [job_of(row[1:]) for row in rows]

    def complete(self, *jobs: Job) -> None:
        if self._pending is None or not self._pending.is_buffering:
            super().complete(*jobs)
            return
        for job in jobs:
            self._writes(job)
            self._pending.complete(job.id)

    def cancel(self, key: str) -> None:
        if self._pending is not None and self._pending.is_buffering and self._organization_id is not None:
            if self._locks is not None:
                self._locks.take(self._organization_id)
            self._pending.cancel(self._organization_id, key)
            return
        super().cancel(key)

    def state(self, now: datetime) -> QueueState:
        at = sql_value(now)
        rows = self._connection.execute(
            "SELECT lane, COUNT(*), MIN(due_at) FROM jobs WHERE NOT failed AND run_at <= ? GROUP BY lane ORDER BY lane",
            (at,),
        ).fetchall()
        unwell = self._connection.execute(
            "SELECT kind, COUNT(*) FILTER (WHERE NOT failed AND run_at <> due_at AND run_at > ?),"
            " COUNT(*) FILTER (WHERE failed) FROM jobs WHERE error IS NOT NULL GROUP BY kind",
            (at,),
        ).fetchall()
        return QueueState(
            backlog=tuple(
                LaneBacklog(lane=lane, due=due, oldest_due_at=datetime.fromisoformat(oldest))
                for lane, due, oldest in rows
            ),
            retrying_by_kind={kind: retrying for kind, retrying, _ in unwell if retrying},
            failed_by_kind={kind: failed for kind, _, failed in unwell if failed},
            next_due_at=self.next_due(),
        )
