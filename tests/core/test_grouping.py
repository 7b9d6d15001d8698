from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st
from tests.core.builders import stored_event

from usagebill.core.aggregation import fold
from usagebill.core.events import Event, JsonValue
from usagebill.core.grouping import charge_group_keys, group_of, grouped, grouped_by

NOW = datetime(2024, 3, 1, tzinfo=UTC)


def event(number: int = 1, **properties: JsonValue) -> Event:
    return stored_event(str(number), properties, at=NOW + timedelta(hours=number), created_at=NOW)


def test_missing_null_and_empty_values_are_one_group() -> None:
    events = [event(1), event(2, cloud=None), event(3, cloud=""), event(4, cloud="aws")]
    assert {group: len(members) for group, members in grouped(events, ["cloud"]).items()} == {(None,): 3, ("aws",): 1}


def test_values_are_compared_by_their_text() -> None:
    assert group_of(event(agent=1, live=True), ["agent", "live"]) == group_of(
        event(agent="1", live="true"), ["agent", "live"]
    )


def test_groups_come_in_the_order_of_their_first_event() -> None:
    events = [event(3, cloud="c"), event(2, cloud="a"), event(1, cloud="b"), event(4, cloud="a")]
    assert list(grouped(events, ["cloud"])) == [("b",), ("a",), ("c",)]


def test_groups_whose_first_events_share_an_instant_come_in_the_order_of_their_values() -> None:
    together = [
        stored_event(str(number), {"cloud": cloud}, at=NOW, created_at=NOW)
        for number, cloud in enumerate(["b", None, "a"])
    ]
    assert list(grouped([event(-1, cloud="c"), *together], ["cloud"])) == [("c",), ("a",), ("b",), (None,)]


def test_no_event_is_one_group_without_values() -> None:
    [(group, members)] = grouped([], ["cloud", "region"]).items()
    assert grouped_by(["cloud", "region"], group) == {"cloud": None, "region": None}
    assert members == []


def test_without_keys_there_is_one_group() -> None:
    assert list(grouped([event(1, cloud="a"), event(2)], [])) == [()]


def test_a_target_wallet_is_one_more_key() -> None:
    assert charge_group_keys(["cloud", "region", "cloud"]) == ("cloud", "region")
    assert charge_group_keys(["cloud"], accepts_target_wallet=True) == ("cloud", "target_wallet_code")
    assert charge_group_keys([], accepts_target_wallet=True) == ("target_wallet_code",)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "", None, 1]), st.integers(-9, 9)), max_size=15))
def test_groups_share_out_the_whole(rows: list[tuple[JsonValue, int]]) -> None:
    events = [event(number, cloud=cloud, value=value) for number, (cloud, value) in enumerate(rows)]
    groups = grouped(events, ["cloud"]).values()
    for kind in ("count_agg", "sum_agg"):
        parts = [fold(kind, members, field_name="value").units for members in groups]
        assert sum(parts) == fold(kind, events, field_name="value").units
