from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import stored_event

from usagebill.core.aggregation import fold
from usagebill.core.events import Event, JsonValue
from usagebill.core.filters import (
    ALL_FILTER_VALUES,
    EventScope,
    FilterIndex,
    accepts,
    display_name,
    same_values,
    trimmed_values,
    undeclared_keys,
    values_errors,
)
from usagebill.core.grouping import grouped, grouped_by

NOW = datetime(2024, 3, 1, tzinfo=UTC)
ALL = (ALL_FILTER_VALUES,)


@dataclass(frozen=True)
class Filter:
    values: Mapping[str, tuple[str, ...]] = field(hash=False)
    id: str = "1"
    created_at: datetime = NOW


def event(number: int = 1, **properties: JsonValue) -> Event:
    return stored_event(str(number), properties)


def buckets(filters: Sequence[Filter], declared: Mapping[str, Sequence[str]]) -> list[EventScope]:
    index = FilterIndex(filters, declared)
    return [index.bucket(position) for position in range(len(filters))]


def default_bucket(filters: Sequence[Filter], declared: Mapping[str, Sequence[str]]) -> EventScope:
    """The events that match no filter."""
    return FilterIndex(filters, declared).bucket(len(filters))


def units(filters: list[Filter], declared: Mapping[str, tuple[str, ...]], events: list[Event]) -> list[Decimal]:
    """Units of each filter, then of the default bucket."""
    all_buckets = [*buckets(filters, declared), default_bucket(filters, declared)]
    return [
        fold("sum_agg", [event for event in events if accepts(bucket, event)], field_name="value").units
        for bucket in all_buckets
    ]


CLOUDS = {"cloud": ("aws", "gcp", "azure"), "region": ("us", "europe")}


class TestBuckets:
    def test_a_part_of_the_values_takes_its_events_from_the_whole(self) -> None:
        filters = [Filter({"cloud": ("aws", "gcp")}), Filter({"cloud": ("aws",)})]
        assert units(filters, CLOUDS, [event(value=10, cloud="aws"), event(value=7, cloud="gcp")]) == [7, 10, 0]

    def test_of_equal_filters_the_oldest_takes_everything(self) -> None:
        filters = [Filter({"cloud": ("aws",)}, "b", NOW + timedelta(days=1)), Filter({"cloud": ("aws",)}, "c")]
        assert units(filters, CLOUDS, [event(value=10, cloud="aws")]) == [0, 10, 0]
        of_one_instant = [Filter({"cloud": ("aws",)}, "b"), Filter({"cloud": ("aws",)}, "a")]
        assert units(of_one_instant, CLOUDS, [event(value=10, cloud="aws")]) == [0, 10, 0]

    def test_values_that_two_filters_share_without_nesting_count_in_both(self) -> None:
        filters = [Filter({"cloud": ("aws", "gcp")}), Filter({"cloud": ("gcp", "azure")})]
        assert units(filters, CLOUDS, [event(value=1, cloud="gcp"), event(value=2, cloud="aws")]) == [3, 1, 0]

    def test_filters_on_different_keys_both_count(self) -> None:
        filters = [Filter({"cloud": ("aws",)}), Filter({"region": ("us",)})]
        assert units(filters, CLOUDS, [event(value=1, cloud="aws", region="us")]) == [1, 1, 0]

    def test_any_value_means_any_declared_value(self) -> None:
        declared = {"scheme": ("visa", "mastercard")}
        filters = [Filter({"scheme": ALL})]
        events = [event(value=1, scheme="amex"), event(value=2, scheme="visa"), event(value=4)]
        assert units(filters, declared, events) == [2, 5]

    def test_numbers_match_their_text(self) -> None:
        assert units([Filter({"size": ("512",)})], {"size": ("512",)}, [event(value=1, size=512)]) == [1, 0]

    def test_a_set_of_filters_that_refine_one_another(self) -> None:
        declared = {"steps": ("25", "50", "75", "100"), "size": ("512", "1024"), "model": ("llama-2",)}
        filters = [
            Filter({"steps": ("25",), "size": ("512",), "model": ("llama-2",)}),
            Filter({"steps": ("25",), "size": ("512",)}),
            Filter({"steps": ALL, "size": ALL}),
            Filter({"size": ALL}),
            Filter({"size": ("512",)}),
        ]
        f1, f2, f3, _, f5 = (bucket.matches for bucket in buckets(filters, declared))
        assert [bucket.excludes for bucket in buckets(filters, declared)] == [
            (),
            (f1,),
            (f1, f2),
            (f1, f2, f3, f5),
            (f1, f2, f3),
        ]
        events = [
            event(value=1, steps="25", size="512", model="llama-2"),
            event(value=2, steps="25", size="512"),
            event(value=4, steps="50", size="512"),
            event(value=8, size="1024"),
            event(value=16, size="512"),
            event(value=32, size="2048", steps="25"),
        ]
        assert units(filters, declared, events) == [1, 2, 4, 8, 16, 32]

    def test_grouping_inside_a_filter(self) -> None:
        filters = [Filter({"cloud": ("aws",), "region": ALL})]
        declared = {"cloud": ("aws", "gcp"), "region": ("us", "europe", "asia")}
        events = [
            event(1, cloud="aws", region="us", country="us"),
            event(2, cloud="aws", region="europe", country="france"),
            event(3, cloud="aws", region="asia"),
            event(4, cloud="gcp", region="asia", country="china"),
        ]
        bucket, rest = *buckets(filters, declared), default_bucket(filters, declared)
        groups = grouped([event for event in events if accepts(bucket, event)], ["country"])
        assert [(grouped_by(["country"], group), len(members)) for group, members in groups.items()] == [
            ({"country": "france"}, 1),
            ({"country": "us"}, 1),
            ({"country": None}, 1),
        ]
        assert [event.id for event in events if accepts(rest, event)] == ["4"]

    def test_without_filters_the_default_bucket_takes_every_event(self) -> None:
        assert default_bucket([], CLOUDS) == EventScope(matches={})
        assert accepts(default_bucket([], CLOUDS), event())


class TestValidation:
    @pytest.mark.parametrize(
        ("values", "errors"),
        [
            ({"cloud": ["aws"], "region": [ALL_FILTER_VALUES]}, {}),
            ({}, {"values": ["value_is_mandatory"]}),
            ({"cloud": []}, {"values": ["value_is_mandatory"]}),
            ({"cloud": ["oracle"]}, {"values": ["value_is_invalid"]}),
            ({"cloud": ["aws", ALL_FILTER_VALUES]}, {"values": ["value_is_invalid"]}),
            (
                {"color": ["red"]},
                {"billable_metric_filter": ["relation_must_exist"], "values": ["value_is_invalid"]},
            ),
        ],
    )
    def test_codes(self, values: dict[str, list[str]], errors: dict[str, list[str]]) -> None:
        assert values_errors(values, CLOUDS) == errors

    def test_undeclared_values_of_an_event(self) -> None:
        assert undeclared_keys(event(cloud="oracle", region="us"), CLOUDS) == ("cloud",)
        assert undeclared_keys(event(cloud=None), CLOUDS) == ()


def test_the_default_name_lists_values_and_any_value_keys() -> None:
    assert display_name({"cloud": ("aws", "gcp"), "region": ALL}) == "aws, gcp, region"


def test_a_sent_filter_is_the_stored_one_by_keys_and_ordered_values() -> None:
    stored = {"cloud": ("aws", "gcp"), "region": ("us",)}
    assert same_values({"region": ["us"], "cloud": ["aws", "gcp"]}, stored)
    assert not same_values({"region": ["us"], "cloud": ["gcp", "aws"]}, stored)
    assert not same_values({"cloud": ["aws", "gcp"]}, stored)


def test_values_a_metric_stops_declaring_leave_its_charge_filters() -> None:
    declared = {"image_size": ("1024x1024", "512x512"), "steps": ("0-25", "26-50"), "model_name": ("llama-2",)}
    before = (
        {"image_size": ("512x152",), "steps": ("0-25",), "model_name": ("llama-2",)},
        {"image_size": ("512x152",), "steps": ("0-25",)},
        {"image_size": ALL, "steps": ALL},
        {"image_size": ALL},
        {"image_size": ("512x152",)},
        {"image_size": ("512x512", "512x152", "1024x1024")},
    )
    assert [trimmed_values(values, declared) for values in before] == [
        {"steps": ("0-25",), "model_name": ("llama-2",)},
        {"steps": ("0-25",)},
        {"image_size": ALL, "steps": ALL},
        {"image_size": ALL},
        None,
        {"image_size": ("512x512", "1024x1024")},
    ]
    assert trimmed_values({"image_size": ALL}, {"steps": ("0-25",)}) is None


VALUES = st.sampled_from(["a", "b", "c"])
DECLARED = {"x": ("a", "b", "c"), "y": ("a", "b")}
PROPERTIES = st.fixed_dictionaries({}, optional={"x": VALUES, "y": VALUES, "value": st.integers(-9, 9)})


def _numbered(rows: list[dict[str, JsonValue]]) -> list[Event]:
    return [event(number, **row) for number, row in enumerate(rows)]


EVENTS = st.lists(PROPERTIES, max_size=12).map(_numbered)  # type: ignore[arg-type]
FILTERS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "x": st.lists(VALUES, min_size=1, unique=True).map(tuple) | st.just(ALL),
            "y": st.lists(st.sampled_from(["a", "b"]), min_size=1, unique=True).map(tuple) | st.just(ALL),
        },
    ).filter(bool),
    max_size=5,
).map(lambda rows: [Filter(values, str(number)) for number, values in enumerate(rows)])


@given(FILTERS, EVENTS)
def test_no_event_is_lost(filters: list[Filter], events: list[Event]) -> None:
    every, rest = buckets(filters, DECLARED), default_bucket(filters, DECLARED)
    for event in events:
        assert any(accepts(bucket, event) for bucket in every) != accepts(rest, event)


@given(FILTERS, EVENTS)
def test_an_event_is_looked_up_where_the_buckets_hold_it(filters: list[Filter], events: list[Event]) -> None:
    index = FilterIndex(filters, DECLARED)
    every = [*buckets(filters, DECLARED), default_bucket(filters, DECLARED)]
    for event in events:
        assert list(index.of_event(event)) == [place for place, bucket in enumerate(every) if accepts(bucket, event)]


@given(FILTERS, EVENTS)
def test_an_index_of_the_same_definition_finds_the_same_positions(filters: list[Filter], events: list[Event]) -> None:
    index = FilterIndex(filters, DECLARED)
    same = FilterIndex.of_definition(index.definition)
    assert same.keys == index.keys
    assert same.definition == index.definition
    for event in events:
        assert same.of_event(event) == index.of_event(event)


def test_a_definition_lists_declared_values_and_tells_the_older_filter() -> None:
    younger, older = Filter({"x": ALL}, "2"), Filter({"x": ("a", ALL_FILTER_VALUES)}, "1")
    index = FilterIndex([younger, older], {"x": ("a", ALL_FILTER_VALUES)})
    same = FilterIndex.of_definition(index.definition)
    for value in ("a", ALL_FILTER_VALUES):
        assert same.of_values([value]) == index.of_values([value]) == (1,)
    assert same.of_values(["b"]) == index.of_values(["b"]) == (2,)
    literal = FilterIndex([Filter({"x": ALL})], {"x": ALL})
    assert FilterIndex.of_definition(literal.definition).of_values([ALL_FILTER_VALUES]) == (0,)
    assert FilterIndex.of_definition(literal.definition).of_values(["a"]) == (1,)


@given(st.lists(VALUES, unique=True), EVENTS)
def test_filters_that_do_not_overlap_share_out_the_whole(values: list[str], events: list[Event]) -> None:
    filters = [Filter({"x": (value,)}, value) for value in values]
    parts = units(filters, DECLARED, events)
    assert sum(parts) == fold("sum_agg", events, field_name="value").units


@given(FILTERS.flatmap(lambda filters: st.tuples(st.just(filters), st.permutations(filters))), EVENTS)
def test_the_order_of_filters_does_not_change_what_they_take(
    orders: tuple[list[Filter], list[Filter]], events: list[Event]
) -> None:
    filters, shuffled = orders
    taken = dict(zip([charge_filter.id for charge_filter in filters], units(filters, DECLARED, events), strict=False))
    assert taken == dict(
        zip([charge_filter.id for charge_filter in shuffled], units(shuffled, DECLARED, events), strict=False)
    )


def test_threads_that_share_an_index_see_the_same_buckets() -> None:
    values = [f"value-{number}" for number in range(50)]
    narrow = [Filter({"x": (value,), "y": ("a",)}, f"narrow {value}") for value in values]
    filters = [*(Filter({"x": (value,)}, value) for value in values), *narrow]
    declared = {"x": tuple(values), "y": ("a",)}
    last = len(values) - 1
    expected = EventScope(matches={"x": (values[last],)}, excludes=({"x": (values[last],), "y": ("a",)},))
    interval = sys.getswitchinterval()
    # Threads take turns so often that most rounds find an index that is not built in one go.
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            index, together = FilterIndex(filters, declared), threading.Barrier(2)
            seen: list[EventScope] = []

            def look(index: FilterIndex, together: threading.Barrier, seen: list[EventScope]) -> None:
                together.wait()
                seen.append(index.bucket(last))

            threads = [threading.Thread(target=look, args=(index, together, seen)) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert seen == [expected, expected]
    finally:
        sys.setswitchinterval(interval)
