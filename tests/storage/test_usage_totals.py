"""Running totals answer as the events do, whatever happens: late events, roll-ups, deletions, crashes, edits."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import psycopg
import pytest
from hypothesis import given, strategies as st
from tests.examples import examples, mostly_slow
from tests.postgresql import server_url
from tests.storage.eager_states import eager_states
from tests.storage.events_contract import (
    KEYS,
    START,
    ChargeFilter,
    EventsContract,
    History,
    Organization,
    arrivals,
    digits,
    event,
    expected,
    histories,
    new_organization,
    second,
    some_bucket,
)

from usagebill.core.aggregation import AggregateResult
from usagebill.core.events import Event
from usagebill.core.filters import EventScope, FilterIndex
from usagebill.storage.event_queries import COUNTED, EventQuery, Exclusion
from usagebill.storage.event_rows import microseconds
from usagebill.storage.ports import Store
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.postgresql.events.dialect import DIALECT as POSTGRES
from usagebill.storage.sql import usage_totals
from usagebill.storage.sql.counting import Dialect, EventCounts, results_of_all
from usagebill.storage.sqlite import SqliteStore
from usagebill.storage.sqlite.events.dialect import DIALECT as SQLITE, prepare

T = TypeVar("T")
AnyStore = SqliteStore | PostgresStore
D = Decimal


def rolled_up(store: Store) -> None:
    while store.roll_up_usage():
        pass


class StatedSqlite(SqliteStore):
    """A store that asks everything twice: of the events, and once there are states that can answer."""

    def read(self, organization_id: str | None, question: Callable[[Any], T]) -> T:
        super().read(organization_id, question)
        if organization_id is not None:
            while super().read(None, lambda tx: tx.is_usage_behind()):
                self.write(None, lambda tx: tx.roll_up_usage())
        return super().read(organization_id, question)


class StatedPostgres(PostgresStore):
    """The same on a server."""

    def read(self, organization_id: str | None, question: Callable[[Any], T]) -> T:
        super().read(organization_id, question)
        if organization_id is not None:
            rolled_up(self)
        return super().read(organization_id, question)


ENGINES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)]


@contextmanager
def opened(engine: str, folder: Path, *, stated: bool = False) -> Iterator[AnyStore]:
    """An empty store of this engine."""
    if engine == "postgresql":
        with temporary_database(server_url()) as url:
            server = (StatedPostgres if stated else PostgresStore)(url)
            yield server
            server.close()
        return
    store = (StatedSqlite if stated else SqliteStore)(":memory:" if engine == "memory" else folder / "billing.db")
    yield store
    store.close()


@pytest.fixture(scope="class")
def eager() -> Iterator[None]:
    with eager_states(at_once=3, max_waiting=5):
        yield


@pytest.fixture(scope="class", params=["memory", *ENGINES])
def store(eager: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyStore]:
    with opened(request.param, tmp_path_factory.mktemp("store"), stated=True) as store:
        yield store


class TestEventsWithStates(EventsContract):
    pass


def asked_of_events(store: AnyStore, organization: Organization, question: EventQuery) -> dict[Any, AggregateResult]:
    """What the question comes to if all of its events are counted."""

    def counted(connection: Any, dialect: Dialect) -> dict[Any, AggregateResult]:
        return results_of_all(question, EventCounts(connection, dialect, organization.id).counted(question))

    if isinstance(store, SqliteStore):
        return counted(store._writer, SQLITE)
    return store.ask(lambda connection: counted(connection, POSTGRES))


@pytest.fixture(params=ENGINES)
def few(eager: None, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    with opened(request.param, tmp_path) as store:
        yield store


def calls(
    organization: Organization, count: int, first: int = 0, *, cents: Decimal | None = None, **properties: Any
) -> list[Event]:
    return [
        event(
            organization.id,
            number,
            {"value": number, "region": "eu" if number % 3 else "us", **properties},
            at=second(number),
            cents=cents,
        )
        for number in range(first, first + count)
    ]


def run(store: AnyStore, statement: str) -> None:
    """Somebody edits the database by hand."""
    if isinstance(store, PostgresStore):
        with psycopg.connect(store.url, autocommit=True) as server:
            server.execute(statement.encode())
        return
    connection = sqlite3.connect(store.path)
    prepare(connection)
    connection.execute(statement)
    connection.commit()
    connection.close()


def edited(store: AnyStore, edits: Mapping[str, str] | str) -> None:
    """The same, with a statement for each engine if theirs differ."""
    if not isinstance(edits, str):
        edits = edits["postgresql" if isinstance(store, PostgresStore) else "sqlite"]
    run(store, edits)


def counted(store: AnyStore, rows: str) -> int:
    """How many of these rows there are, such as `usage_series WHERE built_to IS NULL`."""
    sql = f"SELECT COUNT(*) FROM {rows}"
    if isinstance(store, PostgresStore):
        return int(store.ask(lambda connection: connection.execute(sql).fetchall())[0][0])
    return int(store._writer.execute(sql).fetchone()[0])


def prepared(store: AnyStore, *, cents: Decimal | None = None, **fields: Any) -> tuple[Organization, EventQuery]:
    """An organization with 20 events, each with a price of so many cents, and a question that its states can answer."""
    organization = new_organization(store)
    organization.append(*calls(organization, 20, cents=cents))
    question = EventQuery(
        code="calls",
        external_subscription_id="sub",
        field_name="value",
        **{"aggregation_type": "sum_agg", **fields},
    )
    organization.ask(lambda tx: tx.events.tallies(question))
    rolled_up(store)
    return organization, question


def units(organization: Organization, question: EventQuery) -> Decimal:
    return organization.ask(lambda tx: tx.events.tallies(question))[()].units


def test_a_planted_error_shows_in_answers_is_found_and_is_gone_once_rebuilt(few: AnyStore) -> None:
    organization, question = prepared(few)
    assert units(organization, question) == sum(range(20))
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []
    edited(
        few,
        {
            "sqlite": "UPDATE usage_totals SET total = exact_added(total, '1') WHERE key = '[]'",
            "postgresql": "UPDATE usage_totals SET total = total + 1 WHERE key = '[]'",
        },
    )
    assert units(organization, question) == sum(range(20)) + 1
    (fault,) = organization.ask(lambda tx: list(tx.events.state_faults()))
    # An hour, and its day.
    assert (fault.external_subscription_id, fault.code, fault.kind, fault.differing) == ("sub", "calls", "numbers", 2)
    assert organization.store.write(organization.id, lambda tx: tx.events.rebuild_states()) == 1
    assert units(organization, question) == sum(range(20))
    rolled_up(few)
    assert units(organization, question) == sum(range(20))
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM usage_totals",
        "UPDATE usage_totals SET top = '1'",
        "UPDATE usage_totals SET received_at = 0",
        "DELETE FROM usage_totals WHERE width = 86400000000",
        "UPDATE usage_totals SET n = n + 1 WHERE width = 86400000000",
        "UPDATE usage_totals SET last_at = last_at - 1 WHERE width = 86400000000",
        {
            "sqlite": "INSERT INTO usage_totals SELECT series, width, bucket, key, 'x', n, total, top, moment, paid,"
            " first_at, first_sequence, last_at, received_at, spoken FROM usage_totals",
            "postgresql": "INSERT INTO usage_totals SELECT series, width, bucket, 'x', organization_id, key, 'x', n,"
            " total, top, moment, paid, first_at, first_sequence, last_at, received_at, spoken FROM usage_totals",
        },
    ],
)
def test_states_that_were_edited_are_found(few: AnyStore, edit: Mapping[str, str] | str) -> None:
    organization, _ = prepared(few)
    edited(few, edit)
    assert organization.ask(lambda tx: list(tx.events.state_faults())) != []


@pytest.mark.parametrize("group_keys", [(), ("region",)])
@pytest.mark.parametrize(
    ("edits", "moved"),
    [
        (
            {
                "sqlite": "UPDATE usage_totals SET moment = exact_added(moment, '1000000')",
                "postgresql": "UPDATE usage_totals SET moment = moment + 1000000",
            },
            (0, 10**6),
        ),
        (
            {
                "sqlite": "UPDATE usage_totals SET total = exact_added(total, '0.50')",
                "postgresql": "UPDATE usage_totals SET total = total + 0.50",
            },
            (D("0.50"), 0),
        ),
    ],
)
def test_weighted_sums_are_answered_from_states(
    few: AnyStore, edits: Mapping[str, str], moved: tuple[Decimal, int], group_keys: tuple[str, ...]
) -> None:
    organization, question = prepared(
        few, aggregation_type="weighted_sum_agg", held_from=START - timedelta(days=1), group_keys=group_keys
    )
    tallies = organization.ask(lambda tx: tx.events.tallies(question))
    assert tallies == asked_of_events(few, organization, question)
    assert sum(tally.units for tally in tallies.values()) == sum(range(20))
    edited(few, edits)
    wrong = organization.ask(lambda tx: tx.events.tallies(question))
    assert {group: (tally.units - moved[0], tally.moment - moved[1]) for group, tally in wrong.items()} == {
        group: (tally.units, tally.moment) for group, tally in tallies.items()
    }
    (fault,) = organization.ask(lambda tx: list(tx.events.state_faults()))
    assert fault.kind == "weighted numbers"
    organization.store.write(organization.id, lambda tx: tx.events.rebuild_states())
    rolled_up(few)
    assert organization.ask(lambda tx: tx.events.tallies(question)) == tallies
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


def test_a_weighted_sum_is_kept_with_the_decimals_that_were_sent(few: AnyStore) -> None:
    organization, question = prepared(few, aggregation_type="weighted_sum_agg")
    for number, value in ((100, "1.50"), (101, "-1.5000"), (102, "0.000")):
        organization.append(event(organization.id, number, {"value": value}, at=second(number)))
    for _ in range(2):
        (tally,) = organization.ask(lambda tx: tx.events.tallies(question)).values()
        assert str(tally.units) == "190.0000"
        rolled_up(few)
    edited(
        few,
        {
            "sqlite": "UPDATE usage_totals SET total = exact_added(total, '0.00000')",
            "postgresql": "UPDATE usage_totals SET total = total + 0.00000",
        },
    )
    assert organization.ask(lambda tx: list(tx.events.state_faults())) != []


@pytest.mark.parametrize("group_keys", [(), ("region",)])
def test_prices_sent_with_events_are_added_up_from_states(few: AnyStore, group_keys: tuple[str, ...]) -> None:
    organization, question = prepared(few, cents=D("0.000000000000001"), amounts=True, group_keys=group_keys)
    tallies = organization.ask(lambda tx: tx.events.tallies(question))
    assert tallies == asked_of_events(few, organization, question)
    assert sum(tally.amount_cents for tally in tallies.values()) == D("0.00000000000002")
    edited(
        few,
        {
            "sqlite": "UPDATE usage_totals SET paid = exact_added(paid, '7')",
            "postgresql": "UPDATE usage_totals SET paid = paid + 7",
        },
    )
    wrong = organization.ask(lambda tx: tx.events.tallies(question))
    assert all(tally.amount_cents == tallies[group].amount_cents + 7 for group, tally in wrong.items())
    (fault,) = organization.ask(lambda tx: list(tx.events.state_faults()))
    assert fault.kind == "numbers"
    organization.store.write(organization.id, lambda tx: tx.events.rebuild_states())
    rolled_up(few)
    assert organization.ask(lambda tx: tx.events.tallies(question)) == tallies


@pytest.mark.parametrize(
    ("other", "amounts"), [("sum_agg", False), ("sum_agg", True), ("max_agg", False), ("weighted_sum_agg", False)]
)
@pytest.mark.parametrize("group_keys", [(), ("region",)])
def test_a_count_and_numbers_of_the_same_events_are_both_kept_up(
    few: AnyStore, group_keys: tuple[str, ...], other: str, amounts: bool
) -> None:
    organization, count = prepared(few, aggregation_type="count_agg", group_keys=group_keys, cents=D("0.5"))
    numbers = replace(count, aggregation_type=other, amounts=amounts)
    index = FilterIndex([ChargeFilter("eu", {"region": ("eu",)}), ChargeFilter("rest", {"region": ("us", "ap")})], {})

    def ask(question: EventQuery) -> tuple[object, object]:
        return organization.ask(lambda tx: (tx.events.tallies(question), tx.events.tallies_by_bucket(question, index)))

    ask(count), ask(numbers)
    rolled_up(few)
    for first, properties in (
        (100, {}),
        (200, {"value": None}),
        (300, {"value": "no number"}),
        (400, {"value": "0.1"}),
    ):
        organization.append(*calls(organization, 7, first, cents=D("0.25"), **properties))
        rolled_up(few)
        for question in (count, numbers):
            by_states = ask(question)
            assert by_states[0] == asked_of_events(few, organization, question)
        organization.append(
            event(organization.id, first + 50, {"value": "1" * 14 + ".5", "region": "ap"}, at=second(1))
        )
        rolled_up(few)
    # 20 + 4 x (7 + 1), whether they have a number or not.
    assert sum(tally.units for tally in organization.ask(lambda tx: tx.events.tallies(count)).values()) == 52
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


@pytest.mark.parametrize("aggregation", ["count_agg", "sum_agg", "unique_count_agg"])
def test_groups_whose_first_events_share_an_instant_have_one_order(few: AnyStore, aggregation: str) -> None:
    """The group us has an event that was stored before the others, but happened later."""
    organization = new_organization(few)
    question = EventQuery(
        code="calls",
        external_subscription_id="sub",
        aggregation_type=aggregation,
        field_name="value",
        group_keys=("region",),
    )
    instants = [("us", 7200), ("us", 0), ("eu", 0), ("eu", 7200), (None, 0), ("ap", 1)]
    organization.append(
        *(
            event(organization.id, number, {"value": number, "region": region}, at=second(at))
            for number, (region, at) in enumerate(instants * 4)
        )
    )
    wanted = [("eu",), ("us",), (None,), ("ap",)]
    assert list(asked_of_events(few, organization, question)) == wanted
    for _ in range(2):
        assert list(organization.ask(lambda tx: tx.events.tallies(question))) == wanted
        rolled_up(few)


def test_many_subscriptions_with_different_series_are_rolled_up_together(few: AnyStore) -> None:
    organization = new_organization(few)
    # Of 18 subscriptions, six have a count and a sum, six only a count, and six only a sum.
    kinds = (("count_agg", "sum_agg"), ("count_agg",), ("sum_agg",))
    questions = [
        EventQuery(code="calls", external_subscription_id=f"sub-{number}", aggregation_type=kind, field_name="value")
        for number in range(18)
        for kind in kinds[number % 3]
    ]

    def send(first: int) -> None:
        sent = (
            event(
                organization.id,
                first + number,
                {"value": None if number % 5 == 0 else f"{number}.5"},
                at=second(number * 1000),
                subscription=f"sub-{number % 18}",
            )
            for number in range(90)
        )
        organization.append(*sent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage_totals, "AT_ONCE", 45)
        send(0)
        for question in questions:
            organization.ask(partial(tallies_of, question))
        rolled_up(few)
        send(100)
        rolled_up(few)
    for question in questions:
        assert organization.ask(partial(tallies_of, question)) == asked_of_events(few, organization, question)
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


def over_months(store: AnyStore) -> tuple[Organization, EventQuery]:
    """An organization with 300 events, 25 hours apart from September 1969 on, which are counted by region."""
    organization = new_organization(store)
    organization.append(
        *(
            event(
                organization.id,
                number,
                {"value": f"{number}.000000{number % 9}", "region": f"region-{number % 4}"},
                at=datetime(1969, 9, 1, tzinfo=UTC) + number * timedelta(hours=25),
                received=second(number),
                cents=D(number) / 7000,
            )
            for number in range(300)
        )
    )
    question = EventQuery(
        code="calls",
        external_subscription_id="sub",
        aggregation_type="sum_agg",
        field_name="value",
        group_keys=("region",),
    )
    for aggregation_type in ("sum_agg", "count_agg", "weighted_sum_agg"):
        for amounts in (False, True):
            varied = replace(question, aggregation_type=aggregation_type, amounts=amounts)
            organization.ask(partial(tallies_of, varied))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage_totals, "AT_ONCE", 40)
        rolled_up(store)
    return organization, question


def tallies_of(question: EventQuery, tx: Any) -> dict[Any, AggregateResult]:
    answer: dict[Any, AggregateResult] = tx.events.tallies(question)
    return answer


def test_periods_of_any_length_are_answered_as_from_events(few: AnyStore) -> None:
    organization, question = over_months(few)
    numbers = Random(1)
    for _ in range(60):
        start = datetime(1969, 8, 25, tzinfo=UTC) + timedelta(minutes=numbers.randrange(400_000))
        varied = replace(
            question,
            aggregation_type=numbers.choice(("count_agg", "sum_agg", "max_agg", "latest_agg", "weighted_sum_agg")),
            amounts=numbers.choice((False, True)),
            held_from=numbers.choice((None, start, start + timedelta(minutes=30))),
            earliest=numbers.choice((None, start)),
            latest=numbers.choice((None, start + timedelta(days=numbers.choice((1, 9, 31, 100, 365))))),
            known_at=numbers.choice((None, None, second(numbers.randrange(320)))),
            group_keys=numbers.choice(((), ("region",))),
            only=numbers.choice(({}, {"region": ("region-1", "region-3")})),
        )
        tallies = organization.ask(partial(tallies_of, varied))
        assert list(tallies.items()) == list(asked_of_events(few, organization, varied).items())
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


@pytest.mark.parametrize("by_filters", [False, True])
def test_groups_of_values_that_also_came_before_the_period_are_answered_from_states(
    few: AnyStore, by_filters: bool
) -> None:
    # Three regions in turn, from a day before the period on; the last of them is alone for the period's first hours.
    organization = new_organization(few)
    sent = [(second(3600 * hour), ("eu", "us", "ap")[hour % 3 if hour < 24 else 2]) for hour in range(30)]
    sent += [(second(3600 * hour), ("us", "eu", "ap")[hour % 3]) for hour in range(30, 60)]
    organization.append(
        *(
            event(organization.id, number, {"user": f"user-{number % 7}", "region": region}, at=at)
            for number, (at, region) in enumerate(sent)
        )
    )
    question = EventQuery(
        code="calls",
        external_subscription_id="sub",
        aggregation_type="unique_count_agg",
        field_name="user",
        earliest=second(24 * 3600),
        group_keys=("region",),
    )
    filters = FilterIndex([ChargeFilter(id="f", values={"user": ("user-1", "user-2", "user-6")}, created_at=START)], {})

    def tallies() -> dict[Any, Any]:
        if not by_filters:
            return organization.ask(partial(tallies_of, question))
        return organization.ask(lambda tx: tx.events.tallies_by_bucket(question, filters))

    def ordered(answer: dict[Any, Any]) -> list[Any]:
        return [(name, list(inner.items()) if by_filters else inner) for name, inner in answer.items()]

    by_events = tallies()
    if not by_filters:
        assert list(by_events) == [("ap",), ("us",), ("eu",)]
    rolled_up(few)
    assert ordered(tallies()) == ordered(by_events)
    # It is the states that are counted: one value less is one less in each region.
    edited(few, "DELETE FROM usage_totals WHERE value = 'user-1'")
    assert tallies() != by_events


def a_week_of_calls(store: AnyStore) -> Organization:
    """An organization with seven days of calls, four an hour."""
    organization = new_organization(store)
    organization.append(
        *(
            event(
                organization.id,
                number,
                {"value": number % 13, "region": f"region-{number % 3}"},
                at=second(900 * number),
            )
            for number in range(7 * 96)
        )
    )
    return organization


WEEK = EventQuery(code="calls", external_subscription_id="sub", aggregation_type="sum_agg", field_name="value")


@pytest.mark.parametrize(
    "begins",
    [
        pytest.param(3 * 86_400 + 5 * 3600 + 1800, id="half an hour off"),
        pytest.param(3 * 86_400 + 5 * 3600 + 754, id="within a quarter"),
        pytest.param(3 * 86_400 + 5 * 3600, id="on the hour"),
    ],
)
def test_periods_that_begin_at_any_time_are_answered_from_totals_and_the_events_of_cut_hours(
    few: AnyStore, begins: int
) -> None:
    organization = a_week_of_calls(few)
    by_groups = replace(WEEK, group_keys=("region",))
    organization.ask(partial(tallies_of, by_groups))
    rolled_up(few)
    period = replace(by_groups, earliest=second(begins))
    assert organization.ask(partial(tallies_of, period)) == asked_of_events(few, organization, period)
    # Late events are added to them.
    organization.append(
        *(
            event(organization.id, 1000 + number, {"value": 5}, at=second(begins + 400 * number))
            for number in range(-6, 6)
        )
    )
    for _ in range(2):
        assert organization.ask(partial(tallies_of, period)) == asked_of_events(few, organization, period)
        rolled_up(few)
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []
    numbers = Random(3)
    for _ in range(30):
        first = numbers.randrange(7 * 96) * 900 + numbers.choice((0, 0, 60))
        varied = replace(
            by_groups,
            aggregation_type=numbers.choice(("sum_agg", "max_agg", "latest_agg")),
            earliest=second(first),
            latest=second(first + numbers.randrange(5 * 86_400)),
        )
        tallies = organization.ask(partial(tallies_of, varied))
        assert list(tallies.items()) == list(asked_of_events(few, organization, varied).items())


def test_an_error_in_an_hour_is_found(few: AnyStore) -> None:
    organization, begins = a_week_of_calls(few), second(3 * 86_400 + 5 * 3600)
    period = replace(WEEK, earliest=begins)
    right = units(organization, period)
    rolled_up(few)
    at = f"WHERE first_at = {microseconds(begins)} AND width = 3600000000"
    edited(
        few,
        {
            "sqlite": f"UPDATE usage_totals SET total = exact_added(total, '1') {at}",
            "postgresql": f"UPDATE usage_totals SET total = total + 1 {at}",
        },
    )
    assert units(organization, period) == right + 1
    (fault,) = organization.ask(lambda tx: list(tx.events.state_faults()))
    assert fault.differing == 1


@pytest.mark.parametrize(
    ("edit", "left"),
    [
        ("DELETE FROM events WHERE sequence = 7", 184),
        ("DELETE FROM events WHERE sequence > 15", 105),
        ("DELETE FROM events", 0),
        ("UPDATE events SET timestamp = timestamp + 1000000000000 WHERE sequence = 7", 184),
        ("UPDATE events SET code = 'other' WHERE sequence = 7", 184),
        ("UPDATE events SET sequence = 1000 WHERE sequence = 7", 190),
        (
            {
                "sqlite": "UPDATE events SET millionths = '{\"value\": 5000000}' WHERE sequence = 7",
                "postgresql": 'UPDATE events SET numbers = \'{"value": "5"}\' WHERE sequence = 7',
            },
            189,
        ),
    ],
)
def test_events_that_are_edited_by_hand_count_as_they_are(
    few: AnyStore, edit: Mapping[str, str] | str, left: int
) -> None:
    organization, question = prepared(few, latest=second(1_000_000))
    edited(few, edit)
    assert units(organization, question) == left
    organization.append(*calls(organization, 5, first=100))
    assert units(organization, question) == left + 510
    rolled_up(few)
    assert counted(few, "usage_series") == 0
    organization.store.write(organization.id, lambda tx: tx.events.rebuild_states())
    assert units(organization, question) == left + 510
    rolled_up(few)
    assert counted(few, "usage_series WHERE built_to IS NULL") == 1
    assert units(organization, question) == left + 510
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


def test_a_backup_of_an_organization_that_is_put_back_into_its_old_places_counts(few: AnyStore) -> None:
    organization, question = prepared(few)
    run(few, "CREATE TABLE backup AS SELECT * FROM events WHERE sequence <= 10")
    run(few, "DELETE FROM events WHERE sequence <= 10")
    assert units(organization, question) == sum(range(10, 20))
    rolled_up(few)
    run(few, "INSERT INTO events SELECT * FROM backup")
    run(few, "DROP TABLE backup")
    assert units(organization, question) == sum(range(20))
    rolled_up(few)
    assert units(organization, question) == sum(range(20))
    organization.store.write(organization.id, lambda tx: tx.events.rebuild_states())
    rolled_up(few)
    assert units(organization, question) == sum(range(20))


@pytest.mark.parametrize(
    ("earliest", "latest", "known_at"),
    [
        (None, None, None),
        (0, 40 * 3600, None),
        (5400, 20 * 86_400, None),
        (3 * 86_400, 9 * 86_400 - 1, None),
        (3 * 86_400 + 7, 9 * 86_400 + 5 * 3600, None),
        (0, 11 * 86_400, 6 * 86_400),
        (50_000, 51_000, None),
        (30 * 86_400, 31 * 86_400, None),
    ],
)
@pytest.mark.parametrize("aggregation_type", mostly_slow(["count_agg", "sum_agg", "max_agg", "latest_agg"], "sum_agg"))
def test_whole_days_whole_hours_and_single_events_make_up_an_answer(
    few: AnyStore, aggregation_type: str, earliest: int | None, latest: int | None, known_at: int | None
) -> None:
    organization = new_organization(few)
    count = 170
    # An event every 100 minutes for twelve days; each ninth is received two days late.
    organization.append(
        *(
            event(
                organization.id,
                number,
                {"value": (number * 37) % 101, "region": ("eu", "us", "ap")[number % 3]},
                at=second(number * 6000),
                received=second(number * 6000 + (172_800 if number % 9 == 0 else 0)),
            )
            for number in range(count)
        )
    )
    question = EventQuery(
        code="calls",
        external_subscription_id="sub",
        aggregation_type=aggregation_type,
        field_name="value",
        earliest=None if earliest is None else second(earliest),
        latest=None if latest is None else second(latest),
        known_at=None if known_at is None else second(known_at),
        group_keys=("region",),
    )
    organization.ask(lambda tx: tx.events.tallies(question))
    rolled_up(few)
    organization.append(
        event(organization.id, 999, {"value": 500, "region": "eu"}, at=second(4 * 86_400), received=second(5 * 86_400))
    )
    for _ in range(2):
        assert organization.ask(lambda tx: tx.events.tallies(question)) == asked_of_events(few, organization, question)
        rolled_up(few)
    assert counted(few, f"(SELECT DISTINCT bucket FROM usage_totals WHERE width = {usage_totals.DAY}) days") == 12
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


def test_a_metric_that_counts_another_field_is_answered_by_states_of_that_field(few: AnyStore) -> None:
    organization, question = prepared(few)
    other = replace(question, field_name="weight")
    organization.append(*calls(organization, 10, first=50, weight=2))
    for _ in range(2):
        assert units(organization, other) == 20
        assert units(organization, replace(other, aggregation_type="max_agg")) == 2
        rolled_up(few)


def test_states_of_an_undone_write_are_undone_with_it(few: AnyStore) -> None:
    organization, question = prepared(few)

    def change(tx: Any) -> None:
        tx.events.append(calls(organization, 50, first=100))
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        few.write(organization.id, change)
    assert units(organization, question) == sum(range(20))
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


def test_many_different_questions_have_no_end_of_series(few: AnyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_totals, "MAX_SERIES", 3)
    organization, question = prepared(few)
    for number in range(10):
        organization.ask(lambda tx: tx.events.tallies(replace(question, group_keys=(f"key-{number}",))))  # noqa: B023
    rolled_up(few)
    assert counted(few, "usage_series") == 3
    for number in range(10):
        keyed = replace(question, group_keys=(f"key-{number}",))
        assert organization.ask(lambda tx: tx.events.tallies(keyed)) == asked_of_events(few, organization, keyed)  # noqa: B023


def test_totals_that_save_nothing_are_dropped_and_not_begun_again(
    few: AnyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_totals, "EVENTS_PER_ROW", 2)
    organization, question = prepared(few, group_keys=("transaction",))
    assert counted(few, "usage_series WHERE built_to IS NULL") == 1
    organization.append(
        *(event(organization.id, 100 + n, {"value": 1, "transaction": f"{n}"}, at=second(n)) for n in range(40))
    )
    organization.store.write(organization.id, lambda tx: tx.events.rebuild_states())
    rolled_up(few)
    for first, events in ((200, 59), (300, 61)):
        assert counted(few, "usage_totals") == counted(few, "usage_series") == 0
        organization.append(*calls(organization, events, first=first))
        assert organization.ask(partial(tallies_of, question)) == asked_of_events(few, organization, question)
        rolled_up(few)
    # There are twice as many events, most of them without a transaction.
    assert counted(few, "usage_series WHERE built_to IS NULL") == 1
    assert organization.ask(partial(tallies_of, question)) == asked_of_events(few, organization, question)


def test_sums_with_more_digits_than_six_are_kept_exactly(few: AnyStore) -> None:
    organization = new_organization(few)
    question = EventQuery(code="calls", external_subscription_id="sub", aggregation_type="sum_agg", field_name="value")
    organization.append(*(event(organization.id, n, {"value": "0.000000000123"}, at=second(n)) for n in range(30)))
    organization.ask(lambda tx: tx.events.tallies(question))
    rolled_up(few)
    organization.append(event(organization.id, 99, {"value": "123456789012345678901234567890"}, at=second(3)))
    rolled_up(few)
    assert units(organization, question) == D("123456789012345678901234567890.00000000369")
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


# On a server


@pytest.fixture
def machines(eager: None) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two stores of one database, which know nothing of each other."""
    with temporary_database(server_url()) as url:
        first, second = PostgresStore(url), PostgresStore(url)
        yield first, second
        first.close()
        second.close()


@pytest.mark.second_engine
def test_machines_that_roll_up_while_others_send_and_ask_count_each_event_once(
    machines: tuple[PostgresStore, PostgresStore],
) -> None:
    organization, question = prepared(machines[0])
    other = Organization(machines[1], organization.id)
    seen: list[Decimal] = []

    def send() -> None:
        for first in range(100, 160, 3):
            organization.append(*calls(organization, 3, first=first, value=1))

    def ask() -> None:
        for _ in range(40):
            seen.append(units(other, question))
            # As a bill does, under the organization's lock.
            seen.append(other.store.write(other.id, lambda tx: tx.events.tallies(question))[()].units)

    acts: list[Callable[[], None]] = [send, ask, *(partial(rolled_up, store) for store in machines)]
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(seen) == 80
    # Three events at a time, and never one twice or too late.
    assert seen == sorted(seen)
    assert {(value - 190) % 3 for value in seen} == {0}
    assert units(organization, question) == sum(range(20)) + 60
    for store in machines:
        rolled_up(store)
    assert units(other, question) == sum(range(20)) + 60
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []


@pytest.mark.second_engine
def test_emptied_events_leave_no_usage_behind(machines: tuple[PostgresStore, PostgresStore]) -> None:
    organization, question = prepared(machines[0])
    run(machines[0], "TRUNCATE events")
    assert units(organization, question) == 0
    assert counted(machines[0], "usage_series") == 0


@pytest.mark.second_engine
def test_an_edit_counts_if_it_is_made_from_another_schema(machines: tuple[PostgresStore, PostgresStore]) -> None:
    organization, question = prepared(machines[0])
    run(machines[0], "SET search_path = pg_catalog; DELETE FROM public.events WHERE sequence = 7")
    assert units(organization, question) == sum(range(20)) - 6


@pytest.mark.second_engine
def test_other_organizations_keep_their_states_if_events_are_edited(
    machines: tuple[PostgresStore, PostgresStore],
) -> None:
    (edited_one, question), (other, _) = prepared(machines[0]), prepared(machines[0])
    run(machines[0], f"DELETE FROM events WHERE organization_id = '{edited_one.id}' AND sequence = 7")
    assert (units(edited_one, question), units(other, question)) == (sum(range(20)) - 6, sum(range(20)))
    assert counted(machines[0], f"usage_series WHERE organization_id = '{other.id}'") == 1


@pytest.mark.parametrize("aggregation_type", ["sum_agg", "unique_count_agg"])
def test_properties_may_be_longer_than_an_index_takes(few: AnyStore, aggregation_type: str) -> None:
    organization, question = prepared(few)
    long = [f"{'x' * 10_000}{number}" for number in range(3)]
    organization.append(
        *(event(organization.id, 100 + n, {"value": 1, "region": long[n % 3]}, at=second(n)) for n in range(9))
    )
    grouped = replace(question, aggregation_type=aggregation_type, group_keys=("region",))
    by_field = replace(question, aggregation_type="unique_count_agg", field_name="region")
    for _ in range(2):
        for wanted in (grouped, by_field):
            tallies = organization.ask(lambda tx: tx.events.tallies(wanted))  # noqa: B023
            assert tallies == asked_of_events(few, organization, wanted)
        rolled_up(few)
    assert counted(few, "usage_series WHERE built_to IS NULL") == 3


# Random lives

hours = st.integers(0, 60).map(lambda minutes: START + timedelta(minutes=20 * minutes, microseconds=minutes))
questions = st.builds(
    EventQuery,
    code=st.just("calls"),
    external_subscription_id=st.just("sub"),
    aggregation_type=st.sampled_from(sorted(COUNTED)),
    field_name=st.sampled_from(["value", "value", "region"]),
    earliest=st.one_of(st.none(), hours),
    latest=st.one_of(st.none(), hours),
    known_at=st.one_of(st.none(), st.none(), hours),
    excluded=st.lists(
        st.builds(Exclusion, start=st.one_of(st.none(), st.none(), hours), end=hours, received_to=arrivals), max_size=2
    ).map(tuple),
    until=st.one_of(st.none(), st.none(), arrivals),
    bucket=st.one_of(st.just(EventScope(matches={})), some_bucket),
    only=st.one_of(st.just({}), st.dictionaries(st.sampled_from(KEYS[:2]), st.just((None, "1", "eu")), max_size=1)),
    group_keys=st.sampled_from([(), (), ("region",), ("region", "value")]),
    amounts=st.sampled_from([False, False, True]),
    held_from=st.one_of(st.none(), hours),
)
filters = st.lists(
    st.sampled_from(
        [
            {"region": ("eu",)},
            {"region": ("us", "ap")},
            {"region": ("eu",), "value": ("1", "0.1")},
            {"value": ("1", "12", "add")},
            {"it's": ("1",)},
        ]
    ),
    max_size=3,
)
# (what is done, with what): a part of a history, a question, an edit by hand.
actions = st.one_of(
    st.tuples(st.just("append"), histories()),
    st.tuples(st.just("lose"), histories()),
    st.tuples(st.just("roll up"), st.integers(1, 3)),
    st.tuples(st.just("ask"), questions),
    st.tuples(st.just("ask"), questions),
    st.tuples(st.just("filter"), st.tuples(questions, filters)),
    st.tuples(st.just("delete"), st.integers(0, 40)),
    st.tuples(st.just("rebuild"), st.none()),
)


def at_hours(organization: Organization, history: History, first: int) -> list[Event]:
    """The events of a history, hours apart in place of seconds, so that they lie in many slices."""
    return [
        event(
            organization.id,
            first + number,
            {"region": ("eu", "us")[number % 2], **properties},
            at=START + (at - START) * 3000,
            received=START + (received - START) * 3000,
            cents=cents,
        )
        for number, (at, received, properties, cents) in enumerate(history)
    ]


lives = st.lists(actions, min_size=4, max_size=14)


@pytest.mark.slow
@examples(80, deadline=None)
@given(life=lives)
def test_whatever_happens_answers_are_those_of_the_folds(eager: None, life: Sequence[tuple[str, Any]]) -> None:
    store = SqliteStore(":memory:")
    live(store, life)
    store.close()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresStore]:
    with temporary_database(server_url()) as url:
        store = PostgresStore(url)
        yield store
        store.close()


@pytest.mark.slow
@pytest.mark.second_engine
@examples(25, deadline=None)
@given(life=lives)
def test_they_are_on_a_server_too(eager: None, server: PostgresStore, life: Sequence[tuple[str, Any]]) -> None:
    live(server, life)


def live(store: AnyStore, life: Sequence[tuple[str, Any]]) -> None:
    """Do all of it to a new organization, and hold every answer against the folds."""
    organization = new_organization(store)
    events: list[Event] = []
    number = 0
    questions: list[tuple[EventQuery, list[dict[str, tuple[str, ...]]] | None]] = []

    def look(question: EventQuery, filters: list[dict[str, tuple[str, ...]]] | None) -> None:
        if filters is None:
            tallies = organization.ask(lambda tx: tx.events.tallies(question))
            wanted = expected(question, events) or {(None,) * len(question.group_keys): AggregateResult()}
            assert tallies == wanted
            if question.aggregation_type == "weighted_sum_agg":
                assert digits(tallies) == digits(wanted)
            assert list(tallies) == list(wanted) == list(asked_of_events(store, organization, question))
            return
        index = FilterIndex([ChargeFilter(str(place), values) for place, values in enumerate(filters)], {})
        question = replace(question, bucket=EventScope(matches={}))
        buckets = organization.ask(lambda tx: tx.events.tallies_by_bucket(question, index))
        for position in range(len(index) + 1):
            wanted = expected(replace(question, bucket=index.bucket(position)), events)
            if position in buckets:
                assert buckets[position] == wanted
                if question.aggregation_type == "weighted_sum_agg":
                    assert digits(buckets[position]) == digits(wanted)
            else:
                assert all(tally.units == 0 and tally.events_count == 0 for tally in wanted.values())

    for kind, argument in life:
        match kind:
            case "append":
                new = at_hours(organization, argument, number)
                organization.append(*new)
                events += new
                number += len(new)
            case "lose":

                def lost(tx: Any, new: Sequence[Event]) -> None:
                    tx.events.append(new)
                    (tx.events.roll_up if isinstance(store, PostgresStore) else tx.roll_up_usage)()
                    raise ArithmeticError

                with pytest.raises(ArithmeticError):
                    store.write(organization.id, lambda tx: lost(tx, at_hours(organization, argument, 5000)))  # noqa: B023
            case "roll up":
                for _ in range(argument):
                    store.roll_up_usage()
            case "ask":
                questions.append((argument, None))
                look(argument, None)
            case "filter":
                questions.append(argument)
                look(*argument)
            case "delete":
                gone = [event.id for event in events if int(event.id) % 40 == argument]
                if gone:
                    listed = ", ".join(f"'{id}'" for id in gone)
                    delete = f"DELETE FROM events WHERE organization_id = '{organization.id}' AND id IN ({listed})"
                    if isinstance(store, SqliteStore):
                        store._writer.execute(delete)
                    else:
                        run(store, delete)
                events = [event for event in events if event.id not in gone]
            case "rebuild":
                store.write(organization.id, lambda tx: tx.events.rebuild_states())
    for rest in (False, True):
        if rest:
            rolled_up(store)
        for question, filters in questions:
            look(question, filters)
    assert organization.ask(lambda tx: list(tx.events.state_faults())) == []
