"""Drawing: the job that makes documents, whose pages are drawn while no transaction is open."""

from __future__ import annotations

from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.tasks import GenerateDocuments
from usagebill.operations.documents.files import generate
from usagebill.outside.job_host import JobHost


def generate_documents(host: JobHost, organization: Organization, job: Job, task: GenerateDocuments) -> None:
    """Make the documents that the subject still lacks, as of the instant when the job was due."""
    host.writing(lambda work: generate(work.at(job.due_at), job, task), organization)
