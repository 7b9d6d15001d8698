"""Jobs that have failed and are not done yet: listed, and tried again."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.errors import NotFound
from usagebill.core.jobs import Job
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.runtime.work import Reader, Work


def list_failed(reader: Reader) -> Sequence[Job]:
    """The jobs that have failed at least once and are not done yet, in the order they were due."""
    return reader.tx.jobs.failures()


def overdue(reader: Reader) -> Job | None:
    """The first job that is due and not done, whether or not it has failed; None if billing is up to date."""
    return reader.tx.jobs.overdue(None, reader.now)


@without_backlog(Unrelated.OWN_INSTANT)
def retry(work: Work, job_id: str) -> Job:
    """Give a failed job a fresh set of attempts, from now on. Raises `NotFound`."""
    failed = {job.id: job for job in work.tx.jobs.failures()}
    if job_id not in failed:
        raise NotFound("job", job_id)
    work.tx.jobs.retry(job_id, work.now)
    return failed[job_id]
