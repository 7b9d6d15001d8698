"""Jobs that wait, and those that have failed and are not done yet: listed, and tried again."""

from __future__ import annotations

from usagebill.core.errors import NotFound
from usagebill.core.jobs import Job
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.queries.customers import customer_by_external_id
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging
from usagebill.runtime.work import Reader, Work
from usagebill.storage.ports import Page

_MOST_COUNTED = 10_000


def list_failed(reader: Reader, paging: Paging) -> Page[Job]:
    """The jobs that have failed at least once and are not done yet, in the order they were due."""
    jobs, size = reader.tx.jobs, paging.per_page
    found = jobs.failures(at_most=size, skipped=(paging.page - 1) * size)
    return Page(items=found, page=paging.page, per_page=size, total_count=jobs.count_failures())


@Input
class WaitingFilters:
    """Only the jobs of a customer, or all."""

    external_customer_id: Maybe[str] = ABSENT


def list_waiting(reader: Reader, options: WaitingFilters, paging: Paging) -> Page[Job]:
    """The jobs that are due or will be, and have not failed, in the order they are due. More than 10,000 are not
    counted. Raises `NotFound` for an unknown customer.
    """
    subject_id = None
    if options.external_customer_id:
        subject_id = customer_by_external_id(reader, options.external_customer_id).id
    jobs, size = reader.tx.jobs, paging.per_page
    found = jobs.to_come(subject_id=subject_id, at_most=size, skipped=(paging.page - 1) * size)
    count = jobs.count_to_come(subject_id=subject_id, at_most=_MOST_COUNTED + 1)
    return Page(
        items=found,
        page=paging.page,
        per_page=size,
        total_count=min(count, _MOST_COUNTED),
        total_count_is_exact=count <= _MOST_COUNTED,
    )


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
