"""Ids sort by their instant, and within an instant in the order they were made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from usagebill.process.ids import new_id, new_ids

NOW = datetime(2024, 1, 1, tzinfo=UTC)

_requests = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=30)


@given(_requests)
def test_ids_of_one_instant_sort_as_they_were_made_whatever_was_made_for_others_in_between(
    requests: list[tuple[int, int]],
) -> None:
    # Seconds apart, so that more ids than a millisecond has numbers for do not reach the next instant.
    made: dict[int, list[str]] = {}
    for second, count in requests:
        made.setdefault(second, []).extend(new_ids(NOW + timedelta(seconds=second), count))
    everything = [id for second in sorted(made) for id in made[second]]
    assert everything == sorted(set(everything))


def test_an_id_made_for_an_earlier_instant_disturbs_no_order() -> None:
    first = new_id(NOW)
    new_id(NOW - timedelta(days=1))
    assert first < new_id(NOW)
