"""Drawing: the job that makes documents, whose pages are drawn while no transaction is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.operations.documents.files import generate
from usagebill.work import Work

__all__ = ["Desk", "generate_documents"]

T = TypeVar("T")


class Desk(Protocol):
    """What drawing needs of the billing system that it is done for."""

    def writing(self, change: Callable[[Work], T], organization: Organization | None = None) -> T: ...


def generate_documents(desk: Desk, organization: Organization, job: Job) -> None:
    """Make the documents that the job's subject still lacks, as of when that was due."""
    desk.writing(lambda work: generate(work.at(job.due_at), job), organization)
