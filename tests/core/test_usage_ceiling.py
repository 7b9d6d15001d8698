"""Which events that are not counted yet a ceiling of usage is computed from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from usagebill.core.usage_ceiling import (
    MOST_EVENTS,
    NewUsage,
    UsageCount,
    names_of,
    next_check_at,
    received_after,
    renewed,
)

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def new_usage(*transaction_ids: str, many: bool = False, at: datetime = NOON) -> NewUsage:
    return NewUsage(
        id="new",
        organization_id="organization",
        subscription_id="subscription",
        transaction_ids=None if many else transaction_ids,
        created_at=at,
    )


HALF = tuple(map(str, range(MOST_EVENTS // 2)))


@pytest.mark.parametrize(
    ("noted", "names"),
    [
        ([], []),
        ([new_usage("a", "b"), new_usage("c")], ["a", "b", "c"]),
        ([new_usage(*HALF), new_usage(*HALF)], [*HALF, *HALF]),
        ([new_usage(*HALF), new_usage(*HALF), new_usage("one more")], None),
        ([new_usage("a"), new_usage(many=True)], None),
    ],
)
def test_too_many_events_are_counted_and_not_named(noted: list[NewUsage], names: list[str] | None) -> None:
    assert names_of(noted) == names


@pytest.mark.parametrize(
    ("known_at", "later"),
    [(NOON - timedelta(seconds=1), ["a", "b"]), (NOON, ["b"]), (NOON + timedelta(seconds=1), [])],
)
def test_what_came_after_a_count(known_at: datetime, later: list[str]) -> None:
    noted = [new_usage("a"), new_usage("b", at=NOON + timedelta(seconds=1))]
    assert [new.transaction_ids for new in received_after(noted, known_at)] == [(name,) for name in later]


@pytest.mark.parametrize(
    ("seconds", "at"),
    [([5], 5), ([70, 7, 0], 7), ([60, 0], 60), ([61, 0], 0)],
)
def test_usage_of_the_first_minute_is_checked_together(seconds: list[int], at: int) -> None:
    later = [new_usage("a", at=NOON + timedelta(seconds=second)) for second in seconds]
    assert next_check_at(later) == NOON + timedelta(seconds=at)


def count(id: str, amount_cents: int, at: datetime = NOON) -> UsageCount:
    return UsageCount(
        id=id,
        organization_id="organization",
        subscription_id="subscription",
        fingerprint="fingerprint",
        amount_cents=amount_cents,
        is_volatile=False,
        charges=(),
        created_at=at,
        updated_at=at,
    )


LATER = NOON + timedelta(hours=1)


@pytest.mark.parametrize(
    ("stored", "kept_id", "created_at", "updated_at"),
    [(None, "new", LATER, LATER), (count("old", 5), "old", NOON, LATER), (count("new", 7, LATER), "new", LATER, LATER)],
)
def test_a_new_count_takes_the_place_of_the_stored_one(
    stored: UsageCount | None, kept_id: str, created_at: datetime, updated_at: datetime
) -> None:
    kept = renewed(stored, count("new", 7, LATER), LATER)
    assert (kept.id, kept.amount_cents, kept.created_at, kept.updated_at) == (kept_id, 7, created_at, updated_at)
