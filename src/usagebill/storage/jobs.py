"""Jobs as the queue stores them, and their tasks."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import msgspec

from usagebill.core.jobs import Job
from usagebill.core.tasks import Task, payload_of

T = TypeVar("T", bound=Task)


def job_of(
    task: Task, *, id: str, organization_id: str, due_at: datetime, created_at: datetime, lane: str | None = None
) -> Job:
    """The job that does the task at `due_at`: leased in the lane of its kind, unless another is named.

    A job that is due when it is created, or was before, is immediate.
    """
    return Job(
        id=id,
        organization_id=organization_id,
        kind=task.kind,
        subject_id=getattr(task, task.subject_field),
        key=task.job_key(id, due_at),
        due_at=due_at,
        run_at=due_at,
        created_at=created_at,
        immediate=due_at <= created_at,
        lane=lane or (task.kind if task.leased else ""),
        payload=payload_of(task),
    )


def task_of(task_type: type[T], job: Job) -> T:
    """The task of a job of this type's kind. Raises `ValueError` if the payload is not that of such a task."""
    try:
        return msgspec.convert({**job.payload, task_type.subject_field: job.subject_id}, task_type)
    except msgspec.ValidationError as problem:
        raise ValueError(f"the payload of a {job.kind} job: {problem}") from problem
