"""Where one subscription follows another of the same external id: which of them share a second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.core.builders import subscription

from usagebill.core.handover import handover, own_since
from usagebill.core.subscriptions import Subscription

START = datetime(2025, 6, 10, 12, 0, 0, 400_000, tzinfo=UTC)
SECOND = START.replace(microsecond=0)
END = datetime(2025, 6, 20, 8, 30, 0, 700_000, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def current(**fields: Any) -> Subscription:
    return subscription(**{"id": "b", "started_at": START, "terminated_at": END, **fields})


def other(**fields: Any) -> Subscription:
    return subscription(**{"id": "a", "started_at": START - timedelta(days=9), "terminated_at": START, **fields})


def predecessors(*others: Subscription, recurring: bool = False, earliest: datetime | None = START) -> list[str]:
    met = handover(current(), others, recurring=recurring, earliest=earliest, latest=END)
    return [predecessor.id for predecessor in met.predecessors]


@pytest.mark.parametrize(
    ("fields", "met"),
    [
        ({}, True),
        ({"terminated_at": SECOND}, True),
        ({"terminated_at": SECOND - MILLISECOND}, False),
        ({"terminated_at": START + MILLISECOND}, False),
        ({"terminated_at": None}, False),
        ({"customer_id": "another"}, True),
        ({"started_at": START, "id": "a"}, True),
        ({"started_at": START, "id": "c"}, False),
    ],
)
def test_who_ended_in_the_second_in_which_a_subscription_starts(fields: dict[str, Any], met: bool) -> None:
    assert predecessors(other(**fields)) == ([other(**fields).id] if met else [])


def test_a_later_period_meets_nobody_at_its_start() -> None:
    assert predecessors(other(), earliest=START + timedelta(days=3)) == []


def test_usage_counts_from_the_whole_second_of_the_start() -> None:
    met = handover(current(), [other()], recurring=False, earliest=START, latest=END)
    assert met.earliest == SECOND


def test_what_is_carried_over_counts_on_both_sides_unless_it_was_another_customer_s() -> None:
    theirs = other(customer_id="another")
    assert predecessors(other(), recurring=True) == []
    assert predecessors(theirs, recurring=True, earliest=None) == ["a"]
    met = handover(current(), [other()], recurring=True, earliest=None, latest=END)
    assert met.earliest is None
    assert handover(current(), [theirs], recurring=True, earliest=None, latest=END).earliest == SECOND


@pytest.mark.parametrize(
    ("started_at", "latest", "recurring", "followed"),
    [
        (END, END, False, True),
        (END.replace(microsecond=999_000), END, False, True),
        (END.replace(microsecond=0), END, False, False),
        (END + timedelta(seconds=1), END, False, False),
        (None, END, False, False),
        (END, END - timedelta(days=1), False, False),
        (END, END, True, False),
    ],
)
def test_who_starts_in_the_second_in_which_a_subscription_ends(
    started_at: datetime | None, latest: datetime, recurring: bool, followed: bool
) -> None:
    following = other(id="c", started_at=started_at, terminated_at=None)
    met = handover(current(), [following], recurring=recurring, earliest=START, latest=latest)
    assert met.is_followed is followed


def test_one_that_goes_on_is_followed_by_nobody() -> None:
    running = current(terminated_at=None)
    assert not handover(running, [other(started_at=END)], recurring=False, earliest=START, latest=END).is_followed


def test_an_external_id_is_ones_own_since_the_last_other_customer_s_end() -> None:
    earlier = other(id="0", customer_id="another", terminated_at=START - timedelta(days=5))
    assert own_since(current(), [earlier, other(customer_id="third")]) == START
    assert own_since(current(), [earlier, other()]) == START - timedelta(days=5)
    assert own_since(current(), [other()]) is None
