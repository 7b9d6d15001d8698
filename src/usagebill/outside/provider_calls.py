"""Calls to payment providers: the jobs that charge, run errands and process notices, while no transaction is open."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from usagebill.core.errors import NotFound
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.payment_audit import Difference, differences
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import AskPaymentProvider, CollectPayment
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.provider_requests import (
    Charged,
    FailureKind,
    ListCharges,
    Notice,
    NoticeRejected,
    Outcome,
    ProviderErrand,
    ProviderFailed,
    ProviderFailure,
    Request,
    Unhandled,
    as_known,
)
from usagebill.operations import charges, provider_errands, provider_notices
from usagebill.outside.calls import Call
from usagebill.outside.job_host import JobHost, PaymentProviders
from usagebill.process.logs import Log
from usagebill.runtime.work import Work
from usagebill.storage.conditions import at_least, eq
from usagebill.storage.ports import Transaction

A = TypeVar("A")
# More than the difference between clocks, and than the time of a charge.
_APART = timedelta(hours=1)
_log = Log("usagebill.payments")


def answer_of(
    providers: PaymentProviders | None, connection: PaymentConnection, request: Request[A]
) -> A | ProviderFailure:
    """The provider's answer, or what its failure says (`as_known`). Raises nothing."""
    if providers is None:
        message = "there is no payment provider to ask"
        return ProviderFailure(kind=FailureKind.UNREACHABLE, code="no_payment_provider", message=message)
    try:
        return providers.ask(connection, request)
    except ProviderFailed as problem:
        return as_known(request, problem.failure)
    except Exception as problem:
        # A substitute for a provider may fail in any way: the request may have succeeded.
        message = f"no answer: {type(problem).__name__}"
        return ProviderFailure(kind=FailureKind.UNREACHABLE, code="network_error", message=message)


def _charged(host: JobHost, sent: charges.Sent) -> Charged | ProviderFailure:
    return answer_of(host.payment_providers, sent.connection, sent.charge)


CHARGES = Call(CollectPayment, charges.prepare, _charged, charges.conclude)


_Errand = tuple[PaymentConnection, Request[Any] | Notice]


def _prepare(work: Work, job: Job, task: AskPaymentProvider) -> _Errand | None:
    if task.errand is ProviderErrand.NOTICE:
        return provider_notices.prepare(work, job, task)
    return provider_errands.prepare(work, job, task)


def _ask(host: JobHost, errand: _Errand) -> object | ProviderFailure:
    connection, request = errand
    if isinstance(request, Notice):
        return _outcomes(host, connection, request)
    return answer_of(host.payment_providers, connection, request)


def _conclude(work: Work, job: Job, task: AskPaymentProvider, errand: _Errand, answer: Any) -> None:
    conclude = provider_notices.conclude if task.errand is ProviderErrand.NOTICE else provider_errands.conclude
    conclude(work, job, task, errand[0], answer)


# All requests to providers except charges, and the translation of their notices.
ERRANDS = Call(AskPaymentProvider, _prepare, _ask, _conclude)


def _outcomes(host: JobHost, connection: PaymentConnection, notice: Notice) -> tuple[Outcome, ...] | ProviderFailure:
    if host.payment_providers is None:
        return ProviderFailure(kind=FailureKind.UNREACHABLE, code=None, message="there is no payment provider to ask")
    try:
        return host.payment_providers.outcomes(connection, notice, host.clock.now())
    except ProviderFailed as problem:
        return problem.failure
    except Exception as problem:
        # It lacks a field that such notices have: only an operator can tell what it means.
        return (Unhandled(reason=f"it cannot be read: {type(problem).__name__}", known=False),)


def receive_notice(
    host: JobHost, kind: str, organization_id: str, code: str | None, headers: Mapping[str, str], body: bytes
) -> bool:
    """Store the events of an incoming message for processing at once; False if it is not genuine."""

    def look(tx: Transaction) -> tuple[Organization, PaymentConnection] | None:
        organization = tx.get(Organization, organization_id)
        if organization is None:
            return None
        of_code = [eq("code", code)] if code else []
        connections = tx.scoped(organization_id).find(PaymentConnection, eq("kind", kind), *of_code, limit=2)
        return (organization, connections[0]) if len(connections) == 1 else None

    known = host.ask(look)
    if known is None or host.payment_providers is None:
        return False
    organization, connection = known
    try:
        notices = host.payment_providers.notices(connection, headers, body, host.clock.now())
    except NoticeRejected as problem:
        _log.warning("notice_rejected", connection=connection.code, kind=kind, reason=str(problem))
        return False
    host.writing(lambda work: provider_notices.keep(work, connection, notices), organization)
    return True


def compared_with_provider(host: JobHost, organization: Organization, code: str, since: datetime) -> list[Difference]:
    """The differences between our payments and refunds and those of the connection's provider, from `since` on.

    Raises `NotFound` for the connection, and `ProviderFailed` if the provider does not return its list.
    """
    until = host.clock.now()

    def look(tx: Transaction) -> tuple[PaymentConnection, list[Payment], list[RefundAttempt]]:
        scoped = tx.scoped(organization.id)
        connection = scoped.first(PaymentConnection, eq("code", code))
        if connection is None:
            raise NotFound("payment_connection", code)
        of_connection = eq("connection_id", connection.id)
        # A charge is made after its payment record, and a refund after both.
        recent = of_connection, at_least("created_at", since - _APART)
        return connection, scoped.find(Payment, *recent), scoped.find(RefundAttempt, *recent)

    # The list first: otherwise charges made meanwhile would be missing from it.
    connection, _, _ = host.ask(look)
    answer = answer_of(host.payment_providers, connection, ListCharges(since=since, until=until + _APART))
    if isinstance(answer, ProviderFailure):
        raise ProviderFailed(answer)
    _, payments, refunds = host.ask(look)
    return differences(payments, answer.charges, refunds, since=since, until=until)
