"""Which events that are not counted yet a ceiling of usage is computed from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from usagebill.core.usage_ceiling import (
    MOST_EVENTS,
    NewUsage,
    UsageCount,
    counted_until,
    names_of,
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
    [(None, []), (NOON - timedelta(seconds=1), ["a", "b"]), (NOON, ["b"]), (NOON + timedelta(seconds=1), [])],
)
def test_what_came_after_a_count(known_at: datetime | None, later: list[str]) -> None:
    noted = [new_usage("a"), new_usage("b", at=NOON + timedelta(seconds=1))]
    assert [new.transaction_ids for new in received_after(noted, known_at)] == [(name,) for name in later]


@pytest.mark.parametrize(
    ("noted", "is_recount", "until"),
    [
        # Nothing was noted before the first count, so it includes everything.
        ([new_usage("a")], False, None),
        ([], True, None),
        ([new_usage("b", at=NOON + timedelta(seconds=1)), new_usage("a")], True, NOON + timedelta(seconds=1)),
    ],
)
def test_a_recount_includes_the_latest_noted_event(
    noted: list[NewUsage], is_recount: bool, until: datetime | None
) -> None:
    assert counted_until(noted, is_recount=is_recount) == until


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
