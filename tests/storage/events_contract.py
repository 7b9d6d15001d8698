"""The contract of every storage engine for events. An engine's test module subclasses it and defines `store`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import given, strategies as st
from tests.examples import examples
from tests.storage.contract import ENGINES

from usagebill.core.aggregation import AggregateResult, Changes, counts, fold, fold_events
from usagebill.core.events import Event, JsonValue, property_text
from usagebill.core.filters import EventScope, FilterIndex
from usagebill.core.grouping import Group, grouped
from usagebill.storage.event_queries import (
    COUNTED,
    Arrival,
    Counted,
    CountedAs,
    EventFilter,
    EventQuery,
    EventRange,
    Exclusion,
    Lacking,
    concerns,
)
from usagebill.storage.ports import Store, Transaction

D = Decimal
T = TypeVar("T")
START = datetime(2024, 1, 1, tzinfo=UTC)
_organizations = count(1)

KEYS = ("value", "region", "operation_type", 'a "quoted" key', "tab\tbed", "é.[0]", "", "it's")
NUMBERS: tuple[JsonValue, ...] = (
    *("0.1", "0.2", "-0.3", "007", "12", "-0", "0.000001", "0.0000001", "999999999999.999999", "1000000000000"),
    *("123456789012345678901234567890", "0.12345678901234567890", "9" * 64, "9" * 65, "-" + "9" * 63),
    *(0, 1, -1, 10**12, -(10**12) + 1, 10**30, D("1.50"), D("1E+3"), D("1E-7"), D("0.10"), D("-0.0"), D("1E+40")),
    *(D("1E-62"), D("1E-63"), D("1E+2000"), D("12345678901234567890.5")),
)
LIST: JsonValue = [1, "b"]
OBJECT: JsonValue = {"b": 1, "a": [D("1.0"), None]}
ODD: tuple[JsonValue, ...] = (
    *("1e3", "+5", ".5", "5.", " 5", "5 ", "1,5", "", "-", ".", "1.2.3", "1-2", "٣", "abc", "true", "null", "[1]"),
    *(None, True, False, LIST, [], {}, OBJECT, "add", "remove", "x\ny", 'x"y', "é", "\\"),
)
values = st.sampled_from(NUMBERS + ODD)
operations = st.sampled_from([None, "add", "remove", "remove", "other", "", True])
instants = st.integers(0, 6).map(lambda seconds: START + timedelta(seconds=seconds, microseconds=seconds))
arrivals = st.builds(Arrival, at=instants, id=st.integers(0, 12).map(lambda number: f"{number:06}"))
texts = st.sampled_from([text for value in NUMBERS + ODD if (text := property_text(value)) is not None])


History = list[tuple[datetime, datetime, dict[str, JsonValue], Decimal | None]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Timestamps, arrivals, properties and prices of events, from few values so that they often coincide."""
    pool = st.sampled_from(draw(st.lists(values, min_size=1, max_size=4)))
    keys = st.sampled_from(["value", "value", *draw(st.lists(st.sampled_from(KEYS), max_size=3))])
    prices = st.sampled_from([None, D("0.1"), D("1E-15"), D("123456789012345.5")])
    events = []
    for _ in range(draw(st.integers(0, 12))):
        properties: dict[str, JsonValue] = draw(st.dictionaries(keys, pool, max_size=3))
        if draw(st.booleans()):
            properties["operation_type"] = draw(operations)
        events.append((draw(instants), draw(instants), properties, draw(prices)))
    return events


matches = st.dictionaries(st.sampled_from(KEYS), st.lists(texts, max_size=4).map(tuple), max_size=2)
some_bucket = st.builds(
    lambda wanted, excludes: EventScope(matches=wanted, excludes=tuple(excludes)),
    st.one_of(st.just({}), matches),
    st.lists(matches, max_size=2),
)


def second(number: int) -> datetime:
    return START + timedelta(seconds=number)


def event(
    organization_id: str,
    number: int,
    properties: dict[str, JsonValue] | None = None,
    *,
    at: datetime = START,
    received: datetime | None = None,
    transaction_id: str | None = None,
    subscription: str | None = "sub",
    code: str = "calls",
    cents: Decimal | None = None,
) -> Event:
    return Event(
        id=f"{number:06}",
        organization_id=organization_id,
        transaction_id=transaction_id or f"t{number}",
        code=code,
        external_subscription_id=subscription,
        timestamp=at,
        properties=properties or {},
        precise_total_amount_cents=cents,
        created_at=received or START,
    )


def folded(question: EventQuery, events: Iterable[Event]) -> AggregateResult:
    """The core's fold of the events in the scope of the query."""
    if question.aggregation_type == CountedAs.WEIGHTED_SUM:
        changes = Changes(field_name=question.field_name, start=question.held_from)
        return changes.result(fold_events(changes, events))
    return fold(question.aggregation_type, events, field_name=question.field_name)


def expected(question: EventQuery, events: Iterable[Event]) -> dict[Group, AggregateResult]:
    """The results of the core's folds."""
    results = {}
    counting = [
        event
        for event in events
        if concerns(question, event) and counts(question.aggregation_type, question.field_name, event)
    ]
    for group, members in grouped(counting, question.group_keys).items():
        tally = folded(question, members)
        results[group] = tally if question.amounts else replace(tally, amount_cents=D(0))
    return results


def digits(tallies: Mapping[Group, AggregateResult]) -> dict[Group, tuple[str, str]]:
    """Units and moments with all their decimals, zeros too."""
    return {group: (str(tally.units), str(tally.moment)) for group, tally in tallies.items()}


@dataclass(frozen=True)
class ChargeFilter:
    id: str
    values: Mapping[str, tuple[str, ...]]
    created_at: datetime = START


class Organization:
    """The events of one organization of a store."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.id = name

    def append(self, *events: Event) -> list[int]:
        codes = {event.code for event in events}
        return self.store.write(self.id, lambda tx: tx.events.append(events, in_advance=codes))

    def ask(self, question: Callable[[Transaction], T]) -> T:
        return self.store.read(self.id, question)

    def tallies(self, **fields: Any) -> dict[Group, AggregateResult]:
        question = EventQuery(code="calls", external_subscription_id="sub", **fields)
        return self.ask(lambda tx: tx.events.tallies(question))

    def units(self, aggregation_type: str, **fields: Any) -> Decimal:
        return self.tallies(aggregation_type=aggregation_type, field_name="value", **fields)[()].units


def new_organization(store: Store) -> Organization:
    return Organization(store, f"organization-{next(_organizations)}")


class EventsContract:
    """Subclasses define the class-scoped fixture `store`."""

    @pytest.fixture
    def organization(self, store: Store) -> Organization:
        return new_organization(store)

    @pytest.fixture
    def other(self, store: Store) -> Organization:
        return new_organization(store)

    # Appending

    def test_what_is_stored_comes_back_as_it_was(self, organization: Organization) -> None:
        stored = [
            event(
                organization.id,
                number,
                {key: value},
                at=START + timedelta(microseconds=number),
                cents=D("0.000000000000001"),
            )
            for number, (key, value) in enumerate((key, value) for key in KEYS for value in NUMBERS + ODD)
        ]
        assert organization.append(*stored) == []
        question = EventQuery(code="calls", external_subscription_id="sub")
        assert organization.ask(lambda tx: list(tx.events.scan(question))) == stored

    def test_the_text_forms_of_properties_survive_storage(self, organization: Organization) -> None:
        organization.append(
            *(event(organization.id, number, {"value": value}) for number, value in enumerate(NUMBERS + ODD))
        )
        question = EventQuery(code="calls", external_subscription_id="sub")
        read = organization.ask(lambda tx: list(tx.events.scan(question)))
        assert [property_text(event.properties["value"]) for event in read] == [property_text(v) for v in NUMBERS + ODD]

    @pytest.mark.parametrize("year", [1, 1969, 1970, 9999])
    def test_any_instant_of_the_calendar_is_kept_to_the_microsecond(
        self, organization: Organization, year: int
    ) -> None:
        at = datetime(year, 6, 30, 23, 59, 59, 999_999, tzinfo=UTC)
        organization.append(event(organization.id, 1, at=at))
        stored = organization.ask(lambda tx: tx.events.get("t1"))
        assert stored is not None
        assert stored.timestamp == at

    def test_a_transaction_id_is_taken_once_per_subscription(self, organization: Organization) -> None:
        assert organization.append(event(organization.id, 1, transaction_id="t")) == []
        assert organization.append(event(organization.id, 2, transaction_id="t", subscription="another")) == []
        assert organization.append(
            event(organization.id, 3), event(organization.id, 4, transaction_id="t"), event(organization.id, 5)
        ) == [1]
        assert organization.ask(lambda tx: tx.events.count(EventFilter())) == 2

    def test_repeats_within_one_append_are_named(self, organization: Organization) -> None:
        repeated = [event(organization.id, number, transaction_id="t") for number in range(3)]
        assert organization.append(*repeated) == [1, 2]
        assert organization.ask(lambda tx: tx.events.count(EventFilter())) == 0

    def test_events_without_a_subscription_never_collide(self, organization: Organization) -> None:
        assert (
            organization.append(*(event(organization.id, n, transaction_id="t", subscription=None) for n in range(3)))
            == []
        )
        assert organization.append(event(organization.id, 9, transaction_id="t", subscription=None)) == []

    def test_a_refused_append_leaves_what_the_transaction_did_before(self, organization: Organization) -> None:
        def change(tx: Transaction) -> list[int]:
            tx.events.append([event(organization.id, 1)])
            return tx.events.append([event(organization.id, 2), event(organization.id, 1)])

        assert organization.store.write(organization.id, change) == [1]
        assert organization.ask(lambda tx: tx.events.count(EventFilter())) == 1

    def test_a_failed_transaction_leaves_no_event(self, organization: Organization) -> None:
        def change(tx: Transaction) -> None:
            tx.events.append([event(organization.id, 1)])
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            organization.store.write(organization.id, change)
        assert organization.ask(lambda tx: tx.events.get("t1")) is None

    # Organizations

    def test_an_organization_sees_its_own_events_only(self, organization: Organization, other: Organization) -> None:
        other.append(event(other.id, 1, {"value": 5, "region": "eu"}))
        question = EventQuery(code="calls", external_subscription_id="sub")
        assert organization.ask(lambda tx: tx.events.get("t1")) is None
        assert organization.ask(lambda tx: tx.events.named("sub", ["t1"])) == []
        assert organization.ask(lambda tx: tx.events.find(EventFilter())) == []
        assert organization.ask(lambda tx: tx.events.count(EventFilter())) == 0
        assert organization.ask(lambda tx: list(tx.events.received(START, START + timedelta(days=1)))) == []
        assert organization.ask(lambda tx: list(tx.events.scan(question))) == []
        for aggregation_type in COUNTED:
            assert organization.units(aggregation_type) == 0
        assert organization.tallies(group_keys=("region",)) == {(None,): AggregateResult()}
        assert organization.append(event(organization.id, 1)) == []

    def test_an_event_of_another_organization_is_not_taken(
        self, organization: Organization, other: Organization
    ) -> None:
        with pytest.raises(PermissionError):
            organization.append(event(organization.id, 1), event(other.id, 2))
        assert organization.ask(lambda tx: tx.events.count(EventFilter())) == 0
        assert other.ask(lambda tx: tx.events.count(EventFilter())) == 0

    def test_events_are_never_asked_for_across_organizations(self, organization: Organization) -> None:
        organization.append(event(organization.id, 1))
        with pytest.raises(PermissionError):
            organization.store.read(None, lambda tx: tx.events.get("t1"))

    # Lists

    def test_lists_are_newest_first_then_by_transaction_id(self, organization: Organization) -> None:
        later = START + timedelta(seconds=1)
        organization.append(
            *(event(organization.id, number, at=at) for number, at in ((3, START), (1, START), (2, later), (4, later)))
        )
        events = organization.ask(lambda tx: tx.events.find(EventFilter()))
        assert [event.transaction_id for event in events] == ["t2", "t4", "t1", "t3"]
        page = organization.ask(lambda tx: tx.events.find(EventFilter(), limit=2, offset=1))
        assert [event.transaction_id for event in page] == ["t4", "t1"]

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            (EventFilter(), "t1 t2 t3 t4"),
            (EventFilter(code="other"), "t3"),
            (EventFilter(external_subscription_id="sub"), "t1 t2 t3"),
            (EventFilter(external_subscription_id="sub", code="calls"), "t1 t2"),
            (EventFilter(timestamp_from=second(2)), "t2 t3 t4"),
            (EventFilter(timestamp_to=second(2)), "t1 t2"),
            (
                EventFilter(timestamp_from=START + timedelta(seconds=2), timestamp_to=START + timedelta(seconds=3)),
                "t2 t3",
            ),
            (
                EventFilter(
                    timestamp_from=datetime(1960, 1, 1, tzinfo=UTC), timestamp_to=datetime(1970, 1, 1, tzinfo=UTC)
                ),
                "",
            ),
        ],
    )
    def test_filters_combine_and_bounds_are_inclusive(
        self, organization: Organization, wanted: EventFilter, expected: str
    ) -> None:
        organization.append(
            event(organization.id, 1, at=START + timedelta(seconds=1)),
            event(organization.id, 2, at=START + timedelta(seconds=2)),
            event(organization.id, 3, at=START + timedelta(seconds=3), code="other"),
            event(organization.id, 4, at=START + timedelta(seconds=4), subscription=None),
        )
        events = organization.ask(lambda tx: tx.events.find(wanted))
        assert sorted(event.transaction_id for event in events) == expected.split()
        assert organization.ask(lambda tx: tx.events.count(wanted)) == len(events)

    @pytest.mark.parametrize(
        ("at_most", "bounds", "size"),
        [
            (10, {}, 4),
            (3, {}, 3),
            (0, {}, 0),
            (10, {"earliest": second(2)}, 3),
            (10, {"latest": second(2)}, 2),
            (10, {"earliest": second(2), "latest": second(3)}, 2),
        ],
    )
    def test_how_many_a_question_is_about_is_said_up_to_a_limit(
        self, organization: Organization, at_most: int, bounds: dict[str, Any], size: int
    ) -> None:
        organization.append(*(event(organization.id, number, at=second(number)) for number in range(1, 5)))
        organization.append(
            event(organization.id, 5, code="storage"), event(organization.id, 6, subscription="another")
        )
        question = EventQuery(code="calls", external_subscription_id="sub", **bounds)
        assert organization.ask(lambda tx: tx.events.size(question, at_most=at_most)) == size

    def test_one_is_found_by_its_transaction_id(self, organization: Organization) -> None:
        organization.append(
            event(organization.id, 1, transaction_id="a/b é"), event(organization.id, 2, subscription=None)
        )
        stored = organization.ask(lambda tx: tx.events.get("a/b é"))
        assert stored == event(organization.id, 1, transaction_id="a/b é")
        assert organization.ask(lambda tx: tx.events.get("T2")) is None

    def test_several_are_found_by_subscription_and_transaction_id(self, organization: Organization) -> None:
        organization.append(
            *(event(organization.id, number, at=START - timedelta(seconds=number)) for number in range(1200))
        )
        organization.append(event(organization.id, 5000, transaction_id="t1", subscription="another"))
        names = [f"t{number}" for number in range(100, 1300)]
        events = organization.ask(lambda tx: tx.events.named("sub", names))
        assert [event.transaction_id for event in events] == [f"t{number}" for number in range(1199, 99, -1)]

    def test_events_are_removed_by_subscription_and_transaction_id(
        self, organization: Organization, other: Organization
    ) -> None:
        for one in (organization, other):
            one.append(*(event(one.id, number, {"value": number}) for number in range(1200)))
        organization.append(event(organization.id, 5000, transaction_id="t1", subscription="another"))
        names = ["absent", *(f"t{number}" for number in range(1199))]
        organization.store.write(organization.id, lambda tx: tx.events.remove("sub", names))
        left = organization.ask(lambda tx: tx.events.find(EventFilter()))
        assert sorted((event.external_subscription_id, event.transaction_id) for event in left) == [
            ("another", "t1"),
            ("sub", "t1199"),
        ]
        assert organization.units("sum_agg") == 1199
        assert other.units("count_agg") == 1200
        # One that was removed is no duplicate.
        assert organization.append(event(organization.id, 6000, transaction_id="t5")) == []

    def test_received_is_about_arrival_and_leaves_its_end_out(self, organization: Organization) -> None:
        hour = timedelta(hours=1)
        for number in range(4):
            organization.append(event(organization.id, number, at=START - 30 * hour, received=START + number * hour))
        events = organization.ask(lambda tx: list(tx.events.received(START + hour, START + 3 * hour)))
        assert sorted(event.transaction_id for event in events) == ["t1", "t2"]

    # Aggregations

    def test_decimals_add_up_exactly(self, organization: Organization) -> None:
        organization.append(event(organization.id, 1, {"value": "0.1"}), event(organization.id, 2, {"value": D("0.2")}))
        assert organization.units("sum_agg") == D("0.3")

    def test_thirtydigits_survive(self, organization: Organization) -> None:
        organization.append(
            event(organization.id, 1, {"value": "123456789012345678901234567890"}),
            event(organization.id, 2, {"value": "0.1"}),
        )
        assert organization.units("sum_agg") == D("123456789012345678901234567890.1")
        assert organization.units("max_agg") == D("123456789012345678901234567890")

    def test_a_sum_beyond_64_bits_is_exact(self, organization: Organization) -> None:
        organization.append(
            *(event(organization.id, number, {"value": "-999999999999.999999"}) for number in range(30))
        )
        assert organization.units("sum_agg") == D("-999999999999.999999") * 30
        assert organization.tallies(aggregation_type="sum_agg", field_name="value", group_keys=("region",)) == {
            (None,): AggregateResult(units=D("-29999999999999.99997"), events_count=30)
        }

    def test_the_latest_is_by_timestamp_then_arrival_then_id(self, organization: Organization) -> None:
        organization.append(
            event(organization.id, 1, {"value": 1}, at=second(1), received=second(5)),
            event(organization.id, 2, {"value": 2}, at=second(1), received=second(9)),
            event(organization.id, 3, {"value": 3}, at=second(1), received=second(7)),
            event(organization.id, 4, {"value": 4}, at=second(0), received=second(9)),
            event(organization.id, 0, {"value": 5}, at=second(1), received=second(9)),
        )
        assert organization.units("latest_agg") == 2
        assert organization.tallies(aggregation_type="latest_agg", field_name="value", group_keys=("region",)) == {
            (None,): AggregateResult(units=D(2), events_count=5)
        }

    def test_an_aggregation_that_needs_the_events_is_not_counted(self, organization: Organization) -> None:
        with pytest.raises(ValueError, match="custom_agg"):
            organization.tallies(aggregation_type="custom_agg", field_name="value")

    def test_a_weighted_sum_keeps_as_many_decimals_as_were_sent(self, organization: Organization) -> None:
        """The average level is shown with decimals that depend on them."""
        numbers: tuple[JsonValue, ...] = ("1.50", "-1.500", "2", D("0.1250"), "x", 7)
        regions = ("eu", "eu", "us", "us", "us", None)
        organization.append(
            *(
                event(organization.id, number, {"value": value, "region": region}, at=second(number))
                for number, (value, region) in enumerate(zip(numbers, regions, strict=True))
            )
        )
        question = EventQuery(
            code="calls",
            external_subscription_id="sub",
            aggregation_type="weighted_sum_agg",
            field_name="value",
            held_from=second(1),
        )
        (whole,) = organization.ask(lambda tx: tx.events.tallies(question)).values()
        at_start = (START - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        moment = D("9.1250") * at_start + 10**6 * (2 * 2 + D("0.1250") * 3 + 7 * 5)
        assert (str(whole.units), str(whole.moment)) == ("9.1250", str(moment))
        assert (whole.events_count, whole.last_at) == (5, second(5))
        for grouped_by in ((), ("region",)):
            wanted = replace(question, group_keys=grouped_by)
            index = FilterIndex([ChargeFilter("eu", {"region": ("eu",)})], {})
            tallies = organization.ask(lambda tx: tx.events.tallies(wanted))  # noqa: B023
            buckets = organization.ask(lambda tx: tx.events.tallies_by_bucket(wanted, index))  # noqa: B023
            events = organization.ask(lambda tx: list(tx.events.scan(question)))
            assert digits(tallies) == digits(expected(wanted, events))
            for position in range(2):
                in_bucket = replace(wanted, bucket=index.bucket(position))
                assert digits(buckets[position]) == digits(expected(in_bucket, events))

    def test_groups_come_in_the_order_of_their_first_events(self, organization: Organization) -> None:
        organization.append(
            event(organization.id, 1, {"region": "us"}, at=START + timedelta(seconds=2)),
            event(organization.id, 2, {"region": "eu"}, at=START + timedelta(seconds=1)),
            event(organization.id, 3, at=START + timedelta(seconds=1)),
        )
        assert list(organization.tallies(group_keys=("region",))) == [("eu",), (None,), ("us",)]

    @pytest.mark.parametrize(
        ("aggregation_type", "units"),
        [("count_agg", 6), ("sum_agg", 3), ("max_agg", 2), ("latest_agg", 2), ("unique_count_agg", 2)],
    )
    @pytest.mark.parametrize("bucket", [EventScope(matches={}), EventScope(matches={"plan": ("a",)})])
    def test_events_that_do_not_count_open_no_group(
        self, organization: Organization, aggregation_type: str, units: int, bucket: EventScope
    ) -> None:
        # Not a number or, for a unique count, no value or no known operation.
        nothing: tuple[dict[str, JsonValue], ...] = (
            {"operation_type": "other", "value": "abc"},
            {"operation_type": "other"},
            {"value": None, "operation_type": "add"},
            {},
        )
        counting: tuple[dict[str, JsonValue], ...] = ({"value": 1}, {"value": "2"})
        organization.append(
            *(
                event(organization.id, n, {**properties, "region": "us", "plan": "a"}, at=second(n))
                for n, properties in enumerate(nothing)
            ),
            *(
                event(organization.id, 10 + n, {**properties, "region": "eu", "plan": "a"}, at=second(10 + n))
                for n, properties in enumerate(counting)
            ),
            event(organization.id, 20, {"region": "jp", "plan": "b"}),
        )
        counted = {"aggregation_type": aggregation_type, "field_name": "value", "bucket": bucket}
        grouped_units = {
            group: tally.units for group, tally in organization.tallies(**counted, group_keys=("region",)).items()
        }
        if aggregation_type == "count_agg":
            expected_groups = {("us",): D(4), ("eu",): D(2)}
            if not bucket.matches:
                expected_groups |= {("jp",): D(1)}
            assert grouped_units == expected_groups
        else:
            assert grouped_units == {("eu",): D(units)}
            assert organization.tallies(**counted)[()].units == units
        nothing_counts = {**counted, "bucket": EventScope(matches={"region": ("us",)})}
        if aggregation_type != "count_agg":
            assert organization.tallies(**nothing_counts, group_keys=("region",)) == {(None,): AggregateResult()}

    @pytest.mark.slow
    @examples(100, deadline=None, suppress_health_check=ENGINES)
    @given(
        history=histories(),
        aggregation_type=st.sampled_from(sorted(COUNTED)),
        field_name=st.one_of(st.just("value"), st.sampled_from([None, *KEYS])),
        earliest=st.one_of(st.none(), instants),
        latest=st.one_of(st.none(), instants),
        known_at=st.one_of(st.none(), st.none(), instants),
        excluded=st.lists(
            st.builds(Exclusion, start=st.one_of(st.none(), instants), end=instants, received_to=arrivals), max_size=2
        ).map(tuple),
        until=st.one_of(st.none(), arrivals),
        position=st.one_of(st.none(), st.tuples(st.booleans(), st.integers(0, 11))),
        bucket=st.one_of(st.just(EventScope(matches={})), some_bucket),
        only=st.one_of(
            st.just({}),
            st.dictionaries(
                st.sampled_from(KEYS), st.lists(st.one_of(st.none(), texts), max_size=3).map(tuple), max_size=1
            ),
        ),
        group_keys=st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(tuple),
        amounts=st.booleans(),
        held_from=st.one_of(st.none(), instants),
    )
    def test_answers_are_those_of_the_folds(
        self,
        store: Store,
        history: History,
        aggregation_type: str,
        field_name: str | None,
        earliest: datetime | None,
        latest: datetime | None,
        known_at: datetime | None,
        excluded: tuple[Exclusion, ...],
        until: Arrival | None,
        position: tuple[bool, int] | None,
        bucket: EventScope,
        only: dict[str, tuple[str | None, ...]],
        group_keys: tuple[str, ...],
        amounts: bool,
        held_from: datetime | None,
    ) -> None:
        organization = new_organization(store)
        events = [
            event(organization.id, number, properties, at=at, received=received, cents=cents)
            for number, (at, received, properties, cents) in enumerate(history)
        ]
        noise = [
            event(organization.id, 100, {"value": 1}, code="other"),
            event(organization.id, 101, {"value": 1}, subscription="other"),
        ]
        organization.append(*events, *noise)
        place = events[position[1]] if position and position[1] < len(events) else None
        question = EventQuery(
            code="calls",
            external_subscription_id="sub",
            aggregation_type=aggregation_type,
            field_name=field_name,
            earliest=earliest,
            latest=latest,
            known_at=known_at,
            excluded=excluded,
            until=until,
            up_to=place if position and position[0] else None,
            before=place if position and not position[0] else None,
            bucket=bucket,
            only=only,
            group_keys=group_keys,
            amounts=amounts,
            held_from=held_from,
        )
        tallies = organization.ask(lambda tx: tx.events.tallies(question))
        assert tallies == expected(question, events)
        if aggregation_type == CountedAs.WEIGHTED_SUM:
            assert digits(tallies) == digits(expected(question, events))
        scanned = organization.ask(lambda tx: list(tx.events.scan(question)))
        assert scanned == sorted(
            (event for event in events if concerns(question, event)), key=lambda event: event.order
        )

    @pytest.mark.slow
    @examples(100, deadline=None, suppress_health_check=ENGINES)
    @given(
        history=histories(),
        filters=st.lists(matches.filter(lambda wanted: bool(wanted) and all(wanted.values())), max_size=5),
        aggregation_type=st.sampled_from(sorted(COUNTED)),
        latest=st.one_of(st.none(), instants),
        group_keys=st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(tuple),
        amounts=st.booleans(),
    )
    def test_the_answers_of_all_buckets_in_one_pass_are_those_of_each(
        self,
        store: Store,
        history: History,
        filters: list[dict[str, tuple[str, ...]]],
        aggregation_type: str,
        latest: datetime | None,
        group_keys: tuple[str, ...],
        amounts: bool,
    ) -> None:
        organization = new_organization(store)
        events = [
            event(organization.id, number, properties, at=at, received=received, cents=cents)
            for number, (at, received, properties, cents) in enumerate(history)
        ]
        organization.append(*events)
        index = FilterIndex([ChargeFilter(str(place), values) for place, values in enumerate(filters)], {})
        question = EventQuery(
            code="calls",
            external_subscription_id="sub",
            aggregation_type=aggregation_type,
            field_name="value",
            latest=latest,
            group_keys=group_keys,
            amounts=amounts,
        )
        tallies = organization.ask(lambda tx: tx.events.tallies_by_bucket(question, index))
        for position in range(len(index) + 1):
            wanted = expected(replace(question, bucket=index.bucket(position)), events)
            if position in tallies:
                assert tallies[position] == wanted
            else:
                assert all(tally.units == 0 and tally.events_count == 0 for tally in wanted.values())

    def test_an_excluded_filter_without_values_excludes_nothing(self, organization: Organization) -> None:
        organization.append(
            *(event(organization.id, number, {"region": "eu"}, at=second(number)) for number in range(3))
        )
        for keys in (("region",), ("region", "model")):
            bucket = EventScope(matches={}, excludes=(dict.fromkeys(keys, ()), {"region": ("us",)}))
            assert organization.units("count_agg", bucket=bucket) == 3

    @pytest.mark.slow
    @pytest.mark.parametrize("keys", [("model",), ("model", "region")])
    def test_thousands_of_filters_and_of_values_are_no_limit(
        self, organization: Organization, keys: tuple[str, ...]
    ) -> None:
        organization.append(
            *(
                event(organization.id, n, {"value": 1, "model": f"m{n}", "region": "eu"}, at=second(n))
                for n in range(0, 60_000, 997)
            )
        )
        filters = [
            ChargeFilter(str(n), {"model": (f"m{n}",), **({"region": ("eu",)} if "region" in keys else {})})
            for n in range(10_000)
        ]
        index = FilterIndex(
            [*filters, ChargeFilter("many", {"model": tuple(f"m{n}" for n in range(10_000, 50_000))})], {}
        )
        question = EventQuery(
            code="calls", external_subscription_id="sub", aggregation_type="sum_agg", field_name="value"
        )
        tallies = organization.ask(lambda tx: tx.events.tallies_by_bucket(question, index))
        events = range(0, 60_000, 997)
        assert set(tallies) == {*(n for n in events if n < 10_000), 10_000, 10_001}
        assert tallies[10_000][()].units == sum(10_000 <= n < 50_000 for n in events)
        assert tallies[10_001][()].units == sum(n >= 50_000 for n in events)
        for position in (0, 10_000, 10_001):
            of_bucket = replace(question, bucket=index.bucket(position))
            assert organization.ask(lambda tx: tx.events.tallies(of_bucket)) == tallies[position]  # noqa: B023

    @pytest.mark.parametrize("aggregation_type", ["count_agg", "sum_agg", "latest_agg", "unique_count_agg"])
    def test_a_hundred_keys_of_filters_are_no_limit(self, organization: Organization, aggregation_type: str) -> None:
        events = [
            event(organization.id, n, {"value": n, f"k{n}": "yes", "k0": "yes"}, at=second(n)) for n in range(105)
        ]
        organization.append(*events)
        values: list[dict[str, tuple[str, ...]]] = [{f"k{n}": ("yes", "no", "perhaps")} for n in range(100)]
        values += [{"k0": ("yes",), f"k{n}": ("yes",)} for n in (1, 39, 40, 41, 99)]
        index = FilterIndex([ChargeFilter(str(n), accepted) for n, accepted in enumerate(values)], {})
        question = EventQuery(
            code="calls", external_subscription_id="sub", aggregation_type=aggregation_type, field_name="value"
        )
        tallies = organization.ask(lambda tx: tx.events.tallies_by_bucket(question, index))
        assert set(tallies) == {0, *range(100, 105)} | ({*range(2, 100)} - {1, 39, 40, 41, 99})
        for position in tallies:
            assert tallies[position] == expected(replace(question, bucket=index.bucket(position)), events)

    @pytest.mark.slow
    @examples(50, deadline=None, suppress_health_check=ENGINES)
    @given(value=st.one_of(st.from_regex(r"[-+0-9. eE_]{0,20}", fullmatch=True), st.text(max_size=20), values))
    def test_what_is_a_number_is_decided_as_the_core_does(self, store: Store, value: JsonValue) -> None:
        if isinstance(value, str) and ("\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
            return  # never accepted as part of an event
        organization = new_organization(store)
        sent = event(organization.id, 1, {"value": value})
        organization.append(sent)
        for aggregation_type in COUNTED:
            tally = organization.tallies(aggregation_type=aggregation_type, field_name="value")[()]
            question = EventQuery(
                code="calls",
                external_subscription_id="sub",
                aggregation_type=aggregation_type,
                field_name="value",
            )
            assert tally == folded(question, [sent])

    @pytest.mark.slow
    @examples(300, deadline=None, suppress_health_check=ENGINES)
    @given(
        history=histories(),
        counted=st.integers(0, 12),
        places=st.tuples(st.integers(0, 12), st.integers(0, 12)),
        known_at=instants,
        earliest=st.one_of(st.none(), instants),
        bucket=some_bucket,
    )
    def test_changes_are_all_that_a_count_has_to_be_corrected_by(
        self,
        store: Store,
        history: History,
        counted: int,
        places: tuple[int, int],
        known_at: datetime,
        earliest: datetime | None,
        bucket: EventScope,
    ) -> None:
        organization = new_organization(store)
        events = [
            event(organization.id, number, properties, at=at, received=received, cents=cents)
            for number, (at, received, properties, cents) in enumerate(history)
        ]
        if not events:
            return
        organization.append(event(organization.id, 100, {"value": 1}, code="other"), *events)
        question = EventQuery(
            code="calls", external_subscription_id="sub", earliest=earliest, known_at=known_at, bucket=bucket
        )
        before, order = (events[min(place, len(events) - 1)].order for place in places)
        latest = max(event.order for event in events)
        sequence_of = {
            event.id: sequence
            for sequence, event in organization.ask(
                lambda tx: list(tx.events.changes(replace(question, known_at=None), None, latest))
            )
        }
        scanned = organization.ask(lambda tx: list(tx.events.scan(replace(question, known_at=None))))
        assert {event.id for event in scanned} == set(sequence_of)
        # Only events received by then are counted.
        known = organization.ask(lambda tx: tx.events.known_up_to(question, 0))
        sequence = min(sequence_of.get(f"{counted:06}", known), known)
        changes = organization.ask(
            lambda tx: list(tx.events.changes(question, Counted(order=before, sequence=sequence), order, at_most=100))
        )
        assert len({place for place, _ in changes}) == len(changes)
        assert all(sequence_of[event.id] == place for place, event in changes)
        for stored_event in scanned:
            was_counted = stored_event.order <= before and sequence_of[stored_event.id] <= sequence
            is_asked = stored_event.order <= order and stored_event.created_at <= known_at
            assert was_counted == is_asked or stored_event in [event for _, event in changes]

    def test_events_up_to_the_first_that_was_not_known_are_known(
        self, organization: Organization, other: Organization
    ) -> None:
        organization.append(
            event(organization.id, 1),
            event(organization.id, 2, code="other", received=second(9)),
            event(organization.id, 3),
        )
        other.append(event(other.id, 4, received=second(9)))
        organization.append(
            event(organization.id, 5, received=second(5)), event(organization.id, 6, received=second(1))
        )

        def known(at: int, sequence: int = 0) -> int:
            question = EventQuery(code="calls", external_subscription_id="sub", known_at=second(at))
            return organization.ask(lambda tx: tx.events.known_up_to(question, sequence))

        everything = EventQuery(code="calls", external_subscription_id="sub")
        stored = organization.ask(
            lambda tx: sorted(place for place, _ in tx.events.changes(everything, None, (second(99), second(99), "")))
        )
        assert known(1) == stored[2] - 1
        assert known(5) == stored[3]
        assert known(5, sequence=stored[3]) == stored[3]

    def test_the_latest_event_that_lay_ahead_of_the_clock(
        self, organization: Organization, other: Organization
    ) -> None:
        organization.append(
            event(organization.id, 1, at=second(5), received=second(1)),
            event(organization.id, 2, at=second(7), received=second(4)),
            event(organization.id, 3, at=second(9), received=second(9)),
            event(organization.id, 4, at=second(8), received=second(1), code="other"),
            event(organization.id, 5, at=second(8), received=second(1), subscription="other"),
        )
        other.append(event(other.id, 6, at=second(8), received=second(1)))

        def latest(received_before: int, earliest: int = 0, latest: int = 99) -> datetime | None:
            bounds = second(earliest), second(latest), second(received_before)
            return organization.ask(lambda tx: tx.events.latest_ahead("sub", "calls", *bounds))

        assert latest(99) == second(7)
        assert latest(4) == second(5)
        assert latest(99, latest=6) == second(5)
        assert latest(1) is latest(99, earliest=8) is None

    # Ranges

    def test_senders_and_ranges_say_what_a_look_at_every_event_says(
        self, organization: Organization, other: Organization
    ) -> None:
        places = [(None, "calls"), (None, "gb"), ("", "calls"), ("a", "calls"), ("a", "gb"), ("b", "é")]
        stored = [
            event(organization.id, number, {}, at=START + timedelta(seconds=number % 7), subscription=name, code=code)
            for number, (name, code) in enumerate(places * 10)
        ]
        amounts = [(None, None), (None, "12,50"), (Decimal("12.5"), None), (None, "$3"), (Decimal(0), None)]
        stored = [
            sent._replace(precise_total_amount_cents=amount, unread_amount=unread)
            for sent, (amount, unread) in zip(stored, amounts * 12, strict=True)
        ]
        marked = {event.id for number, event in enumerate(stored) if number % 4 == 0}
        organization.store.write(organization.id, lambda tx: tx.events.append(stored, uncounted=marked))
        other.append(event(other.id, 1, {}))
        assert organization.ask(lambda tx: set(tx.events.senders())) == set(places)
        assert organization.ask(lambda tx: list(tx.events.senders(code="gb"))) == [(None, "gb"), ("a", "gb")]
        assert organization.ask(lambda tx: list(tx.events.senders(external_subscription_id="a"))) == [
            ("a", "calls"),
            ("a", "gb"),
        ]
        uncounted = {(event.external_subscription_id, event.code) for event in stored if event.id in marked}
        assert organization.ask(lambda tx: set(tx.events.senders(uncounted=True))) == uncounted
        of_gb = [event for event in stored if (event.external_subscription_id, event.code) == ("a", "gb")]
        (named, *_) = [event for event in of_gb if event.timestamp > START + timedelta(seconds=4)]
        ranges = [
            EventRange(external_subscription_id=None, code="calls", earliest=START + timedelta(seconds=2)),
            EventRange(external_subscription_id="a", code="gb", latest=START + timedelta(seconds=4)),
            EventRange(external_subscription_id="", code="calls", lacking=Lacking.COUNTABLE_PROPERTY),
            EventRange(external_subscription_id="b", code="é", received_before=START),
            EventRange(external_subscription_id="a", code="calls", lacking=Lacking.AMOUNT),
            EventRange(external_subscription_id="a", code="calls", lacking=Lacking.READABLE_AMOUNT),
            EventRange(external_subscription_id="nobody", code="calls"),
            EventRange(external_subscription_id="a", code="gb", event_id=named.id),
        ]

        def is_unpriced(event: Event) -> bool:
            return event.id not in marked and event.precise_total_amount_cents is None

        lacks: dict[Lacking | None, Callable[[Event], bool]] = {
            None: lambda _: True,
            Lacking.COUNTABLE_PROPERTY: lambda event: event.id in marked,
            Lacking.AMOUNT: lambda event: is_unpriced(event) and event.unread_amount is None,
            Lacking.READABLE_AMOUNT: lambda event: is_unpriced(event) and event.unread_amount is not None,
        }

        def holds(wanted: EventRange, event: Event) -> bool:
            return (
                (event.external_subscription_id, event.code) == (wanted.external_subscription_id, wanted.code)
                and (wanted.earliest is None or wanted.earliest <= event.timestamp)
                and (wanted.latest is None or event.timestamp <= wanted.latest)
                and (wanted.received_before is None or event.created_at < wanted.received_before)
                and lacks[wanted.lacking](event)
                and wanted.event_id in (None, event.id)
            )

        expected = sorted(
            ((place, event) for event in stored for place, wanted in enumerate(ranges) if holds(wanted, event)),
            key=lambda item: (-item[1].timestamp.timestamp(), item[1].transaction_id),
        )
        assert expected
        assert organization.ask(lambda tx: tx.events.in_ranges(ranges, limit=1000)) == expected
        assert organization.ask(lambda tx: tx.events.in_ranges(ranges, limit=3, offset=2)) == expected[2:5]
        counted = organization.ask(lambda tx: tx.events.count_in_ranges(ranges))
        assert counted == [sum(place == number for place, _ in expected) for number in range(len(ranges))]
        late = organization.ask(lambda tx: tx.events.count_in_ranges(ranges, received_from=START + timedelta(days=999)))
        assert late == [0] * len(ranges)

    def test_events_are_marked_again_if_a_metric_is_created_or_changed(self, organization: Organization) -> None:
        stored = [event(organization.id, number, {"value": number}) for number in range(10)]
        organization.append(*stored, event(organization.id, 99, {}, code="gb"))
        everything = EventRange(external_subscription_id="sub", code="calls", lacking=Lacking.COUNTABLE_PROPERTY)

        def marked() -> list[int]:
            return organization.ask(lambda tx: tx.events.count_in_ranges([everything]))

        organization.store.write(
            organization.id, lambda tx: tx.events.mark("calls", lambda event: int(str(event.properties["value"])) < 4)
        )
        assert marked() == [4]
        organization.store.write(
            organization.id, lambda tx: tx.events.mark("calls", lambda event: event.properties["value"] == 9)
        )
        assert marked() == [1]
        assert organization.ask(lambda tx: list(tx.events.senders(uncounted=True))) == [("sub", "calls")]
        organization.store.write(organization.id, lambda tx: tx.events.mark("nothing", lambda event: True))
        assert marked() == [1]
