"""What is checked once a day: events that are not billed, and the books of payment providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from usagebill.core.jobs import Job
from usagebill.core.monitoring_tasks import CompareWithProviders, CountUnbilledEvents
from usagebill.core.organizations import Organization
from usagebill.core.provider_requests import ProviderFailed
from usagebill.core.unbilled import UnbilledTally
from usagebill.operations import provider_audits, unbilled_events
from usagebill.outside.job_host import JobHost
from usagebill.outside.provider_calls import compared_with_provider
from usagebill.process.logs import Log
from usagebill.runtime.work import Work

_DAY = timedelta(days=1)
_log = Log("usagebill.events")
_payment_log = Log("usagebill.payments")


def count_unbilled_events(host: JobHost, organization: Organization, job: Job, task: CountUnbilledEvents) -> None:
    """Log how many events are not billed, by reason: a warning if any came within the last day."""
    since = host.clock.now() - _DAY
    recent, total = host.reading(
        lambda reader: (
            unbilled_events.tallies(reader, received_from=since),
            unbilled_events.tallies(reader),
        ),
        organization,
    )
    if total:
        log = _log.warning if recent else _log.info
        log(
            "events_unbilled",
            organization=organization.id,
            last_day=sum(tally.events_count for tally in recent),
            last_day_by_reason=_by_reason(recent),
            total=sum(tally.events_count for tally in total),
            total_by_reason=_by_reason(total),
        )

    def again(work: Work) -> None:
        work.tx.jobs.complete(job)
        unbilled_events.schedule(work, due_at=job.due_at, counted=_by_reason(total))

    host.writing(again, organization)


def compare_with_providers(host: JobHost, organization: Organization, job: Job, task: CompareWithProviders) -> None:
    """Compare the payments and refunds of the last days with each provider's list, and log every difference.

    Before, look-ups are ordered for whatever has none (`provider_audits.order_look_ups`).
    """
    now = host.clock.now()
    host.writing(provider_audits.order_look_ups, organization)
    differences: dict[str, int] = {}
    failures: dict[str, str] = {}
    connections, days = host.reading(provider_audits.compared, organization)
    for connection in connections:
        try:
            differing = compared_with_provider(host, organization, connection.code, now - days)
        except ProviderFailed as problem:
            failures[connection.code] = problem.failure.message
            _payment_log.warning("provider_not_compared", connection=connection.code, reason=problem.failure.message)
            continue
        standing = host.reading(partial(provider_audits.standing_differences, differences=differing), organization)
        differences[connection.code] = len(standing)
        for difference in standing:
            _payment_log.warning(
                "provider_differs",
                connection=connection.code,
                payment=difference.payment_id,
                provider_payment=difference.provider_payment_id,
                reason=difference.text,
            )
    last = replace(task, compared_at=now, differences=differences, failures=failures)

    def again(work: Work) -> None:
        work.tx.jobs.complete(job)
        provider_audits.schedule(work, last, due_at=job.due_at)

    host.writing(again, organization)


def _by_reason(tallies: Iterable[UnbilledTally]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for tally in tallies:
        counted[str(tally.reason)] += tally.events_count
    return dict(counted)
