"""Handlers of jobs that call outside services, or take long: one row for each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from usagebill.core.jobs import Job
from usagebill.core.monitoring_tasks import CompareWithProviders, CountUnbilledEvents
from usagebill.core.organizations import Organization
from usagebill.core.sync_connections import PushDocument
from usagebill.core.tasks import (
    AskTaxProvider,
    CheckVatNumber,
    GenerateDocuments,
    SendEmail,
    Task,
)
from usagebill.outside.bridge import push_document
from usagebill.outside.calls import Call
from usagebill.outside.drawing import generate_documents
from usagebill.outside.job_host import JobHost
from usagebill.outside.mail import send_email
from usagebill.outside.monitoring import compare_with_providers, count_unbilled_events
from usagebill.outside.provider_calls import CHARGES, ERRANDS
from usagebill.outside.tax_provider import ask_tax_provider
from usagebill.outside.vat_registry import check_vat_number
from usagebill.storage.jobs import task_of

L = TypeVar("L", bound=Task)


@dataclass(frozen=True, slots=True)
class OutsideHandler(Generic[L]):
    """The handler of a type of leased task, run at least once, while no transaction is open."""

    task_type: type[L]
    act: Callable[[JobHost, Organization, Job, L], None]

    def perform(self, host: JobHost, organization: Organization, job: Job) -> None:
        """Perform the job's task."""
        self.act(host, organization, job, task_of(self.task_type, job))


def _outside(
    task_type: type[L], act: Callable[[JobHost, Organization, Job, L], None]
) -> tuple[str, OutsideHandler[Any]]:
    return task_type.kind, OutsideHandler(task_type, act)


# Webhooks are separate: `delivery.Deliveries`.
OUTSIDE: dict[str, OutsideHandler[Any]] = dict(
    (
        _outside(CheckVatNumber, check_vat_number),
        _outside(GenerateDocuments, generate_documents),
        _outside(SendEmail, send_email),
        _outside(AskTaxProvider, ask_tax_provider),
        _outside(PushDocument, push_document),
        _outside(CountUnbilledEvents, count_unbilled_events),
        _outside(CompareWithProviders, compare_with_providers),
    )
)

# Jobs that make one request each: many share a commit.
CALLS: dict[str, Call[Any, Any, Any]] = {call.task_type.kind: call for call in (CHARGES, ERRANDS)}
