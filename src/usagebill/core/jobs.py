"""Jobs: work to be done later, as records with a due instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from usagebill.core.instants import MICROSECOND

# A job that fails this often is left, with its error, for a person to retry.
ATTEMPTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Something to do at `due_at` (UTC). Its effects and its completion commit together.

    `key` is unique within the organization: writing the same job twice writes it once. The job acts as of `due_at`,
    whenever it actually runs; `run_at` is the next attempt. `immediate` marks a job that follows directly from an
    operation, which does not wait for it. Jobs with a `lane` talk to an outside service: they are leased, run outside a
    transaction, and are done at least once instead of exactly once. The lane names the receiver, so that a slow one
    holds up only its own lane.
    """

    id: str
    organization_id: str
    kind: str
    subject_id: str
    key: str
    due_at: datetime
    run_at: datetime
    created_at: datetime
    immediate: bool = False
    lane: str = ""
    payload: Mapping[str, object] = field(default_factory=dict)
    attempts: int = 0
    error: str | None = None
    failed: bool = False


def known_at(job: Job, now: datetime | None) -> datetime:
    """The instant up to which the events that the job counts were received. `now` is the time that the clock shows.

    A scheduled job leaves out those of the very instant it is due, which may come before or after it has run. A job
    that is run ahead of the clock cannot know what comes later.
    """
    due = job.due_at if job.immediate else job.due_at - MICROSECOND
    return due if now is None else min(due, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneBacklog:
    """The due jobs of a lane ("" for those without one): their number, and the earliest due instant."""

    lane: str
    due: int
    oldest_due_at: datetime

    def age(self, now: datetime) -> timedelta:
        """How long the first of them has waited."""
        return max(timedelta(), now - self.oldest_due_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The state of the queue: jobs that are due and not running, and by kind those that wait for a retry, or failed for
    good.
    """

    backlog: tuple[LaneBacklog, ...]
    retrying_by_kind: Mapping[str, int]
    failed_by_kind: Mapping[str, int]
    next_due_at: datetime | None

    @property
    def retrying(self) -> int:
        """The number of jobs that failed and wait for another try."""
        return sum(self.retrying_by_kind.values())

    @property
    def failed(self) -> int:
        """The number of jobs that failed for good."""
        return sum(self.failed_by_kind.values())

    @property
    def due(self) -> int:
        """The number of due jobs."""
        return sum(lane.due for lane in self.backlog)

    @property
    def oldest_due_at(self) -> datetime | None:
        """When the earliest of them was due."""
        return min((lane.oldest_due_at for lane in self.backlog), default=None)

    def age_of_oldest(self, now: datetime) -> timedelta:
        """How long the earliest due job has waited; zero if none is due."""
        oldest = self.oldest_due_at
        return timedelta() if oldest is None else max(timedelta(), now - oldest)


def retry_delay(attempts: int) -> timedelta:
    """How long to wait after `attempts` failed attempts: 1 minute, doubling, at most 1 hour."""
    return timedelta(minutes=min(60, 2 ** max(0, attempts - 1)))
