"""States by the filters of a charge: few, whatever values events have, and the same answers as from the events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.examples import mostly_slow
from tests.storage.events_contract import ChargeFilter, Organization, event, new_organization, second

from usagebill.core.aggregation import AggregateResult
from usagebill.core.filters import FilterIndex
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.sqlite import SqliteStore
from usagebill.storage.sqlite.events import bucket_answers, state_answers, states
from usagebill.storage.usage_series import shape_of

KINDS = ("count_agg", "sum_agg", "max_agg", "latest_agg", "unique_count_agg", "weighted_sum_agg")
QUESTION = EventQuery(code="calls", external_subscription_id="sub", aggregation_type="sum_agg", field_name="value")
BEGINS = second(0)
# Several keys, overlapping values, and one filter that takes events of another.
FILTERS = (
    ChargeFilter("1", {"user": ("u1", "u2"), "region": ("eu",)}),
    ChargeFilter("2", {"user": ("u2", "u3"), "region": ("eu", "us")}),
    ChargeFilter("3", {"user": ("u4",), "region": ("us",), "tier": ("a",)}),
    ChargeFilter("4", {"region": ("ap",)}),
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """A store that builds series however few events there are."""
    monkeypatch.setattr(states, "_is_dense", lambda connection, pair, shape: True)
    monkeypatch.setattr(state_answers, "WORTH_A_SERIES", 0)
    monkeypatch.setattr(state_answers, "_is_large", lambda connection, organization_id, subscription: True)
    store = SqliteStore(tmp_path / "billing.db")
    yield store
    store.close()


def filled(store: SqliteStore, count: int = 400) -> Organization:
    organization = new_organization(store)
    append(organization, 0, count)
    return organization


def append(
    organization: Organization,
    first: int,
    count: int,
    *,
    begins: datetime = BEGINS,
    apart: timedelta = timedelta(minutes=1),
) -> None:
    """Events that are received a minute apart, each of its own user if its number is even."""
    organization.append(
        *(
            event(
                organization.id,
                number,
                {
                    "value": f"{number % 13}.5",
                    "user": f"user-{number}" if number % 2 == 0 else f"u{number % 5}",
                    "region": ("eu", "us", "ap", "zz")[number % 7 % 4],
                    "tier": "ab"[number % 3 % 2],
                },
                at=begins + number * apart,
                received=second(60 * number),
            )
            for number in range(first, first + count)
        )
    )


def tallies(organization: Organization, question: EventQuery, index: FilterIndex) -> dict[int, dict[Any, Any]]:
    return organization.ask(lambda tx: tx.events.tallies_by_bucket(question, index))


def counted(
    store: SqliteStore, organization: Organization, question: EventQuery, index: FilterIndex
) -> dict[int, dict[Any, AggregateResult]]:
    """The same from the events alone."""
    return bucket_answers.answer_by_bucket(store._writer, organization.id, question, index)


def rows(store: SqliteStore, table: str) -> int:
    return int(store._writer.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])


def roll_up(store: SqliteStore) -> None:
    while store.read(None, lambda tx: tx.is_usage_behind()):
        store.write(None, lambda tx: tx.roll_up_usage())


@pytest.mark.parametrize("group_keys", mostly_slow([(), ("tier",)], ("tier",)))
@pytest.mark.parametrize("aggregation_type", KINDS)
def test_states_by_filters_answer_as_the_events_do(
    store: SqliteStore, aggregation_type: str, group_keys: tuple[str, ...]
) -> None:
    organization, index = filled(store), FilterIndex(FILTERS, {})
    question = replace(QUESTION, aggregation_type=aggregation_type, group_keys=group_keys)
    for earliest, latest in ((None, None), (second(500), None), (second(5_000), second(19_000))):
        varied = replace(question, earliest=earliest, latest=latest)
        wanted = counted(store, organization, varied, index)
        assert tallies(organization, varied, index) == wanted
        roll_up(store)
        assert tallies(organization, varied, index) == wanted
    # Events that are not rolled up yet.
    append(organization, 400, 30)
    assert tallies(organization, question, index) == counted(store, organization, question, index)
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


@pytest.mark.parametrize("aggregation_type", KINDS[:4])
def test_periods_of_any_length_are_answered_as_from_events(store: SqliteStore, aggregation_type: str) -> None:
    organization, index = new_organization(store), FilterIndex(FILTERS, {})
    begins = datetime(1969, 9, 1, tzinfo=UTC)
    # A year, on both sides of 1970.
    append(organization, 0, 350, begins=begins, apart=timedelta(hours=25))
    question = replace(QUESTION, aggregation_type=aggregation_type)
    tallies(organization, question, index)
    roll_up(store)
    numbers = Random(1)
    for _ in range(40):
        start = begins + timedelta(minutes=numbers.randrange(500_000))
        varied = replace(
            question,
            earliest=numbers.choice((None, start)),
            latest=numbers.choice((None, start + timedelta(days=numbers.choice((1, 9, 17, 31, 100, 365))))),
            known_at=numbers.choice((None, None, second(60 * numbers.randrange(350)))),
        )
        assert tallies(organization, varied, index) == counted(store, organization, varied, index)
    # The widest slices are used.
    right = tallies(organization, question, index)
    store._writer.execute(f"DELETE FROM usage_states WHERE series > {3 * 2**40} AND dims = '[\"3\"]'")
    store._writer.commit()
    assert tallies(organization, question, index) != right


def test_of_events_at_one_instant_each_filter_has_the_latest_of_its_own(store: SqliteStore) -> None:
    organization, index = filled(store, 20), FilterIndex(FILTERS, {})
    users = ("u1", "u2", "u3", "u2", "nobody")
    organization.append(
        *(
            event(organization.id, number, {"value": number, "user": user, "region": "eu"}, at=second(5_000))
            for number, user in enumerate(users, 100)
        )
    )
    question = replace(QUESTION, aggregation_type="latest_agg")
    for _ in ("events", "states"):
        latest = tallies(organization, question, index)
        assert {position: latest[position][()].units for position in (0, 1, 4)} == {0: 103, 1: 103, 4: 104}
        assert latest == counted(store, organization, question, index)
        roll_up(store)


@pytest.mark.parametrize("aggregation_type", ["count_agg", "sum_agg", "unique_count_agg"])
def test_answers_come_from_the_states(store: SqliteStore, aggregation_type: str) -> None:
    organization, index = filled(store), FilterIndex(FILTERS, {})
    question = replace(QUESTION, aggregation_type=aggregation_type)
    right = tallies(organization, question, index)
    roll_up(store)
    store._writer.execute("DELETE FROM usage_states WHERE dims = '[\"3\"]'")
    store._writer.commit()
    assert tallies(organization, question, index) == {
        position: groups for position, groups in right.items() if position != 3
    }


def test_there_is_a_state_for_each_filter_however_many_values_there_are(store: SqliteStore) -> None:
    organization, index = filled(store), FilterIndex(FILTERS, {})
    tallies(organization, QUESTION, index)
    roll_up(store)
    dims = store._writer.execute("SELECT DISTINCT dims FROM usage_states ORDER BY dims").fetchall()
    # Two filters share some events.
    assert dims == [('["0"]',), ('["0,1"]',), ('["1"]',), ('["2"]',), ('["3"]',), ('["4"]',)]
    # 7 hours, their day, and one slice of 4, of 16 and of 64 days.
    assert rows(store, "usage_states") <= 6 * (7 + 4)


def test_other_filters_have_another_series_and_equal_ones_the_same(store: SqliteStore) -> None:
    organization = filled(store)
    for filters in (FILTERS, FILTERS, FILTERS[:2], tuple(replace(item, id="9" + item.id) for item in FILTERS)):
        index = FilterIndex(filters, {})
        tallies(organization, QUESTION, index)
        roll_up(store)
        assert tallies(organization, QUESTION, index) == counted(store, organization, QUESTION, index)
    assert rows(store, "usage_series") == 2


def test_the_oldest_series_by_filters_makes_room_once_there_are_twice_as_many_events(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "MAX_SERIES", 2)
    organization = filled(store, 100)
    indexes = [FilterIndex(FILTERS[:number], {}) for number in (1, 2, 3)]
    of_index = partial(tallies, organization, QUESTION)
    for index in indexes:
        of_index(index)
        roll_up(store)
    series = "SELECT id FROM usage_series ORDER BY id"
    assert store._writer.execute(series).fetchall() == [(1,), (2,)]
    append(organization, 100, 100)
    of_index(indexes[2])
    roll_up(store)
    assert store._writer.execute(series).fetchall() == [(2,), (3,)]
    for index in indexes:
        assert of_index(index) == counted(store, organization, QUESTION, index)
    # A series that is keyed by properties stays.
    monkeypatch.setattr(states, "MAX_SERIES", 0)
    store._writer.execute("UPDATE usage_series SET keys = '[\"region\"]' WHERE id = 2")
    store._writer.execute("DELETE FROM usage_series WHERE id > 2")
    store._writer.commit()
    append(organization, 200, 200)
    of_index(indexes[0])
    roll_up(store)
    assert store._writer.execute(series).fetchall() == [(2,)]


def test_filters_of_very_many_values_or_keys_are_kept_by_properties() -> None:
    few, many = (FilterIndex([ChargeFilter("1", {"x": tuple(map(str, range(n)))})], {}) for n in (1_000, 10_000))
    wide = FilterIndex([ChargeFilter(str(n), {f"key-{n}": ("1",)}) for n in range(51)], {})
    by_filters, by_values = (shape_of(QUESTION, index, by_positions=True) for index in (few, many))
    assert by_filters is not None
    assert by_values is not None
    assert (by_filters.keys, by_filters.filters) == ((), few.definition)
    assert (by_values.keys, by_values.filters) == (("x",), None)
    assert by_filters.by_properties == by_values
    assert shape_of(QUESTION, wide, by_positions=True) is None
