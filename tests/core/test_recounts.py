"""What may have changed a recount since the line was made, in tables."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.core.builders import NOW, invoice, stored_event, subscription

from usagebill.core.recounts import is_alone, is_changed_beside

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("status", "created_at", "finalized_at", "voided_at", "is_changed"),
    [
        ("finalized", NOW, NOW, None, False),
        ("finalized", NOW, NOW + HOUR, None, True),
        ("voided", NOW, NOW, NOW + HOUR, True),
        ("voided", NOW, NOW, NOW + HOUR / 2, False),
        # It is not issued yet, or was made at the same instant: either may have come first.
        ("draft", NOW, None, None, True),
        ("finalized", NOW + HOUR / 2, NOW + HOUR / 2, None, True),
    ],
)
def test_another_invoice_changes_a_recount_if_it_changed_after_the_count(
    status: str, created_at: datetime, finalized_at: datetime | None, voided_at: datetime | None, is_changed: bool
) -> None:
    other = invoice(id="other", status=status, created_at=created_at, finalized_at=finalized_at, voided_at=voided_at)
    recounted = invoice(created_at=NOW + HOUR / 2)
    assert is_changed_beside(other, recounted, NOW + HOUR) is is_changed


@pytest.mark.parametrize(
    ("ended_before", "starts_after", "is_event_alone"),
    [
        (None, None, True),
        (timedelta(hours=25), None, False),
        (timedelta(hours=27), None, True),
        (None, timedelta(hours=25), False),
        (None, timedelta(hours=27), True),
    ],
)
def test_either_plan_may_have_billed_an_event_around_a_plan_change(
    ended_before: timedelta | None, starts_after: timedelta | None, is_event_alone: bool
) -> None:
    event = stored_event("e", {})
    current = subscription(started_at=NOW - 30 * HOUR, created_at=NOW - 90 * HOUR)
    subscriptions = [current]
    if ended_before is not None:
        current = subscription(started_at=NOW - ended_before, created_at=NOW - 90 * HOUR)
        earlier = subscription(
            id="earlier",
            status="terminated",
            started_at=NOW - 80 * HOUR,
            created_at=NOW - 90 * HOUR,
            terminated_at=NOW - ended_before,
        )
        subscriptions = [current, earlier]
    if starts_after is not None:
        subscriptions.append(subscription(id="later", started_at=NOW + starts_after, created_at=NOW - 90 * HOUR))
    assert is_alone(subscriptions, current, event) is is_event_alone


def test_an_event_of_another_subscription_is_not_its_own() -> None:
    assert not is_alone(
        [subscription(started_at=NOW + HOUR)], subscription(started_at=NOW + HOUR), stored_event("e", {})
    )
