"""The job queue. Whoever touches a job holds its organization's lock, so that nobody else does at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from usagebill.core.jobs import Job, LaneBacklog, QueueState
from usagebill.storage.job_queries import JOB_COLUMNS, JobQueries, job_of, job_row
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.locks import Locks
from usagebill.storage.postgresql.pending import Pending
from usagebill.storage.postgresql.rows import sql_value

_READY = "NOT failed AND run_at = due_at"
_HELD = "NOT failed AND run_at <> due_at"
_STATES = ((_READY, "due_at"), (_HELD, "run_at"))
# One index look-up per lane and state, however many jobs wait.
_EARLIEST = "SELECT l.lane, {} FROM unnest(?::text[]) l (lane)".format(
    ", ".join(
        f"(SELECT {column} FROM jobs WHERE {state} AND lane = l.lane ORDER BY {column} LIMIT 1)"
        for state, column in _STATES
    )
)


class PostgresJobs(JobQueries[Connection]):
    """See `storage.ports.JobQueue`. A snapshot takes no locks, and only reads."""

    def __init__(
        self,
        connection: Connection,
        organization_id: str | None,
        locks: Locks | None,
        pending: Pending | None = None,
    ) -> None:
        super().__init__(connection, organization_id, ready=_READY, held=_HELD)
        self._locks = locks
        self._pending = pending

    def _writes(self, job: Job) -> None:
        self._check_organization(job)
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

    def claim(self, now: datetime, *, immediate: bool = False) -> Job | None:
        return next(iter(self._claimed("", now, 1, immediate)), None)

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

    def lease(
        self, lane: str, now: datetime, until: datetime, *, at_most: int = 1, immediate: bool = False
    ) -> list[Job]:
        jobs = self._claimed(lane, now, at_most, immediate)
        if jobs:
            self._connection.execute(
                "UPDATE jobs SET run_at = ? WHERE id = ANY(?::text[])", (sql_value(until), [job.id for job in jobs])
            )
        return [replace(job, run_at=until) for job in jobs]

    def give_back(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._writes(job)
            self._connection.execute(
                f"UPDATE jobs SET run_at = due_at WHERE {_HELD} AND id = ? AND organization_id = ? AND run_at = ?",
                (job.id, job.organization_id, sql_value(job.run_at)),
            )

    def earliest(self, lanes: Sequence[str]) -> dict[str, datetime]:
        rows = self._connection.execute(_EARLIEST, (list(lanes),)).fetchall()
        return {
            lane: datetime.fromisoformat(min(instant for instant in instants if instant is not None))
            for lane, *instants in rows
            if any(instants)
        }

    def named(self, keys: Sequence[str]) -> list[Job]:
        rows = self._connection.execute(
            f"SELECT {JOB_COLUMNS} FROM jobs WHERE organization_id = ? AND key = ANY(?::text[])",
            (self._organization_id, list(keys)),
        )
        return [job_of(row) for row in rows.fetchall()]

    def complete(self, *jobs: Job) -> None:
        for job in jobs:
            self._writes(job)
            if self._pending is not None and self._pending.is_buffering:
                self._pending.complete(job.id)
                continue
            self._connection.execute(
                "DELETE FROM jobs WHERE id = ? AND organization_id = ?", (job.id, job.organization_id)
            )

    def cancel(self, key: str) -> None:
        if self._pending is not None and self._pending.is_buffering and self._organization_id is not None:
            if self._locks is not None:
                self._locks.take(self._organization_id)
            self._pending.cancel(self._organization_id, key)
            return
        self._connection.execute("DELETE FROM jobs WHERE organization_id = ? AND key = ?", (self._organization_id, key))

    def postpone(self, job: Job, run_at: datetime, error: str, *, failed: bool) -> None:
        self._writes(job)
        self._connection.execute(
            "UPDATE jobs SET run_at = ?, attempts = attempts + 1, error = ?, failed = ?"
            " WHERE id = ? AND organization_id = ?",
            (sql_value(run_at), sql_value(error), failed, job.id, job.organization_id),
        )

    def state(self, now: datetime) -> QueueState:
        at = sql_value(now)
        rows = self._connection.execute(
            "SELECT lane, COUNT(*), MIN(due_at) FROM jobs WHERE NOT failed AND run_at <= ? GROUP BY lane ORDER BY lane",
            (at,),
        ).fetchall()
        retrying, failed = self._connection.execute(
            "SELECT COUNT(*) FILTER (WHERE NOT failed AND run_at <> due_at AND run_at > ?),"
            " COUNT(*) FILTER (WHERE failed) FROM jobs WHERE error IS NOT NULL",
            (at,),
        ).fetchall()[0]
        return QueueState(
            backlog=tuple(
                LaneBacklog(lane=lane, due=due, oldest_due_at=datetime.fromisoformat(oldest))
                for lane, due, oldest in rows
            ),
            retrying=retrying,
            failed=failed,
            next_due_at=self.next_due(),
            workers=self._workers(),
        )

    def retry(self, id: str, run_at: datetime) -> bool:
        row = self._connection.execute("SELECT organization_id FROM jobs WHERE id = ?", (id,)).fetchone()
        if row is None or self._organization_id not in (None, row[0]):
            return False
        if self._locks is not None:
            self._locks.take(row[0])
        changed = self._connection.execute(
            "UPDATE jobs SET run_at = greatest(due_at, ?), attempts = 0, failed = FALSE WHERE id = ?",
            (sql_value(run_at), id),
        )
        return changed.rowcount == 1
