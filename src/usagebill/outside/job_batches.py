"""Batches: the outcome of due jobs that share a commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from usagebill.core.jobs import Job
from usagebill.process.json_text import JsonObject
from usagebill.runtime.ahead import Ahead, Wanted


class JobFailed(Exception):
    """A job raised; `job` names it, and `__cause__` is the error."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.kind} of {job.subject_id}, due {job.due_at.isoformat()}")
        self.job = job


@dataclass(slots=True)
class Batch:
    """The outcome of one commit of jobs. `wanted` is what its last job wants computed first. `divides_time`: an
    immediate job has billed usage. `is_cut`: others may wait for the lock.
    """

    done: int = 0
    messages: list[JsonObject] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    failures: list[tuple[Job, Exception]] = field(default_factory=list)
    divides_time: bool = False
    is_cut: bool = False
    wanted: tuple[Job, Ahead, Wanted] | None = None
