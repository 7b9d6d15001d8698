"""Logs are kept as long as the installation says."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.scenarios import Scenario

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.api_logs import ApiLog
from usagebill.core.security_logs import SecurityLog
from usagebill.core.tasks import CleanLogs
from usagebill.operations import log_cleaning
from usagebill.process.settings import Settings

KEPT = Settings(activity_log_days=10, api_log_days=5, security_log_days=None, listed_log_days=None)


def counts(box: Scenario) -> tuple[int, int, int]:
    return box.billing.reading(
        lambda work: (work.tx.count(ActivityLog), work.tx.count(ApiLog), work.tx.count(SecurityLog))
    )


def next_cleaning(box: Scenario) -> datetime | None:
    key = CleanLogs(organization_id=box.billing.organization.id).key
    job = box.billing.reading(lambda work: work.tx.jobs.get(key))
    return None if job is None else job.due_at


def test_each_log_is_cleaned_by_its_own_days() -> None:
    with Scenario(now="2024-03-05T00:00:00Z", settings=KEPT) as box:
        box.billing.writing(log_cleaning.schedule)
        box.metric("calls")
        box.jump_to("2024-03-08T00:00:00Z")
        box.metric("seats")
        assert counts(box) == (2, 2, 1)
        box.travel_to("2024-03-10T00:00:00Z")
        assert counts(box) == (2, 2, 1)
        box.travel_to("2024-03-10T00:00:01Z")
        assert counts(box) == (2, 1, 1)
        box.travel_to("2024-03-13T00:00:01Z")
        assert counts(box) == (2, 0, 1)
        box.travel_to("2024-04-01T00:00:00Z")
        assert counts(box) == (0, 0, 1)


def test_a_shorter_time_holds_as_soon_as_a_worker_starts_with_it() -> None:
    with Scenario(now="2024-03-05T00:00:00Z", settings=Settings(activity_log_days=300, api_log_days=300)) as box:
        box.metric("calls")
        box.billing.writing(log_cleaning.schedule)
        before = next_cleaning(box)
        box.billing._system.settings = KEPT
        box.billing.writing(log_cleaning.schedule)
        after = next_cleaning(box)
        assert before is not None
        assert after == box.now + timedelta(days=5, seconds=1)
        assert after < before


def test_nothing_is_planned_where_everything_is_kept_for_ever() -> None:
    kept = Settings(activity_log_days=None, api_log_days=None, security_log_days=None)
    with Scenario(now="2024-03-05T00:00:00Z", settings=kept) as box:
        box.metric("calls")
        box.billing.writing(log_cleaning.schedule)
        assert next_cleaning(box) is None
