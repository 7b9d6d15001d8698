"""Jobs."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.jobs import Job
from usagebill.operations import failed_jobs
from usagebill.resources.bindings import Resource, Views, command, query
from usagebill.views.jobs import job_view


class Jobs(Resource):
    """What is done later, and what of it has failed or is late."""

    permission = "organization"

    views: ClassVar[Views] = {Job: job_view}

    list_waiting = query(failed_jobs.list_waiting)
    list_failed = query(failed_jobs.list_failed)
    overdue = query(failed_jobs.overdue)
    retry = command(failed_jobs.retry)
