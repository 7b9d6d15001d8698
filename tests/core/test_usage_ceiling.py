"""Which events that are not counted yet a ceiling of usage is computed from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from usagebill.core.usage_ceiling import MOST_EVENTS, NewUsage, names_of, received_after

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
