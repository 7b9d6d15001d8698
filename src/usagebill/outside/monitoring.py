"""The daily log of events that are not billed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

from usagebill.core.jobs import Job
from usagebill.core.monitoring_tasks import CountUnbilledEvents
from usagebill.core.organizations import Organization
from usagebill.core.unbilled import UnbilledTally
from usagebill.operations import unbilled_events
from usagebill.outside.job_host import JobHost
from usagebill.process.logs import Log
from usagebill.runtime.work import Work

_DAY = timedelta(days=1)
_log = Log("usagebill.events")


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
        unbilled_events.schedule(work, counted_at=job.due_at, counted=_by_reason(total))

    host.writing(again, organization)


def _by_reason(tallies: Iterable[UnbilledTally]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for tally in tallies:
        counted[str(tally.reason)] += tally.events_count
    return dict(counted)
