"""Batches: the outcome of due jobs that share a commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from usagebill.core.jobs import Job
from usagebill.counts import Counts, CountWanted
from usagebill.ids import Ids
from usagebill.json_text import JsonObject
from usagebill.storage.ports import Snapshot

# The identity of a job: its organization and its key.
JobKey = tuple[str, str]

# How often a job is rerun for counts before it counts under the lock.
MOST_COUNTS = 50


class JobFailed(Exception):
    """A job raised; `job` names it, and `__cause__` is the error."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.kind} of {job.subject_id}, due {job.due_at.isoformat()}")
        self.job = job


class JobRuns:
    """The runs of one job: it is rolled back if it needs many events counted, and run again with the counts."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.ids = Ids()
        self._counted = 0

    def begin(self) -> None:
        """Begin another run."""
        self.counts.begin()
        self.ids.begin()

    def count(self, snapshot: Snapshot, wanted: CountWanted) -> None:
        """Count what the last run wanted."""
        self.counts.count(snapshot, wanted)
        self._counted += 1
        self.counts.is_patient = self._counted < MOST_COUNTS


@dataclass(slots=True)
class Batch:
    """The outcome of one commit of jobs. `gone` counts those that other workers did meanwhile; `wanted` is the count
    that the batch's last job needs first. `has_billed_usage`: an immediate job has billed usage.
    """

    done: int = 0
    gone: int = 0
    messages: list[JsonObject] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    failures: list[tuple[Job, Exception]] = field(default_factory=list)
    has_billed_usage: bool = False
    wanted: tuple[Job, JobRuns, CountWanted] | None = None
