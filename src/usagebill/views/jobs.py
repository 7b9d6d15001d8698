"""Jobs as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.jobs import Job
from usagebill.queries.customers import find_customer
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class JobView(TypedDict):
    svc_id: Id
    kind: str
    subject_id: Id
    external_customer_id: str | None
    due_at: Instant
    attempts: int
    next_try_at: Instant | None
    error: str | None


def job_view(reader: Reader, job: Job) -> JobView:
    """A job; one without `next_try_at` has failed, and is not tried again by itself."""
    customer = find_customer(reader, job.subject_id)
    return {
        "svc_id": job.id,
        "kind": job.kind,
        "subject_id": job.subject_id,
        "external_customer_id": None if customer is None else customer.external_id,
        "due_at": instant_text(job.due_at),
        "attempts": job.attempts,
        "next_try_at": None if job.failed else instant_text(job.run_at),
        "error": job.error,
    }
