"""Jobs that have failed and are not done yet: listed, and tried again."""

from __future__ import annotations

from usagebill.core.errors import NotFound
from usagebill.core.jobs import Job
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.requests.inputs import Paging
from usagebill.runtime.work import Reader, Work
from usagebill.storage.ports import Page


def list_failed(reader: Reader, paging: Paging) -> Page[Job]:
    """The jobs that have failed at least once and are not done yet, in the order they were due."""
    jobs, size = reader.tx.jobs, paging.per_page
    found = jobs.failures(at_most=size, skipped=(paging.page - 1) * size)
    return Page(items=found, page=paging.page, per_page=size, total_count=jobs.count_failures())


def overdue(reader: Reader) -> Job | None:
    """The first job that is due and not done, whether or not it has failed; None if billing is up to date."""
    return reader.tx.jobs.overdue(None, reader.now)


@without_backlog(Unrelated.OWN_INSTANT)
def retry(work: Work, job_id: str) -> Job:
    """Give a failed job a fresh set of attempts, from now on. Raises `NotFound`."""
    found = work.tx.jobs.failures(job_id=job_id)
    if not found:
        raise NotFound("job", job_id)
    work.tx.jobs.retry(job_id, work.now)
    return found[0]
