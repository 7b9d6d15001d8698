"""Batches: what has become of the due jobs that share a commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from usagebill.core.jobs import Job
from usagebill.counts import CountWanted
from usagebill.json_text import JsonObject
from usagebill.rehearsals import JobRuns

__all__ = ["Batch", "JobFailed"]


class JobFailed(Exception):
    """A job raised; `job` names it and the cause follows."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.kind} of {job.subject_id}, due {job.due_at.isoformat()}")
        self.job = job


@dataclass(slots=True)
class Batch:
    """The outcome of one commit of jobs. `gone` counts those that other workers did meanwhile; `wanted` is what the job
    that the batch ended at needs counted first.
    """

    done: int = 0
    gone: int = 0
    messages: list[JsonObject] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    failures: list[tuple[Job, Exception]] = field(default_factory=list)
    wanted: tuple[Job, JobRuns, CountWanted] | None = None
