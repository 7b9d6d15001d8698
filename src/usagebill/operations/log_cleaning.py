"""Log cleaning: a job removes entries older than the installation's retention."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.api_logs import ApiLog
from usagebill.core.security_logs import SecurityLog
from usagebill.core.tasks import CleanLogs
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, less

_TOGETHER = 1000
# The most entries deleted per transaction, so that nobody waits long for it.
_AT_MOST = 5000


def _kept(reader: Reader) -> Iterator[tuple[type, timedelta]]:
    """Each log with a retention, and that retention."""
    settings = reader.settings
    for kind, days in (
        (ActivityLog, settings.activity_log_days),
        (ApiLog, settings.api_log_days),
        (SecurityLog, settings.security_log_days),
    ):
        if days is not None:
            yield kind, timedelta(days=days)


def _next_end(reader: Reader, *, of_new: bool) -> datetime | None:
    """The instant at which the next entry of any log expires; `of_new` counts an entry made now in empty logs."""
    ends = []
    for kind, kept in _kept(reader):
        oldest = reader.tx.first(kind, order=[asc("logged_at")])
        if oldest is not None or of_new:
            ends.append((reader.now if oldest is None else oldest.logged_at) + kept)
    return min(ends, default=None)


def schedule(work: Work, *, of_new: bool = True) -> None:
    """Schedule the removal of entries as soon as one expires by current settings.

    Workers call this when they start, and the job reschedules itself as long as there are entries.
    """
    task = CleanLogs(organization_id=work.organization.id)
    work.cancel(task)
    end = _next_end(work, of_new=of_new)
    if end is not None:
        # A moment later: an entry of exactly that age is still shown.
        work.schedule(task, max(work.now, end) + timedelta(seconds=1))


def clean(work: Work, task: CleanLogs) -> None:
    """Remove the entries that are too old, some thousands at a time."""
    budget = _AT_MOST
    for kind, kept in _kept(work):
        while budget:
            old: list[object] = work.tx.find(kind, less("logged_at", work.now - kept), limit=min(budget, _TOGETHER))
            if not old:
                break
            work.tx.delete(*old)
            budget -= len(old)
    schedule(work, of_new=False)
