"""200 random queries of usage have the answers that they had when `usage_oracle.json` was made, counted from events and
answered from running states.

`python -m tests.storage.test_usage_oracle` makes the file; with other answers than before only if these were wrong.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.postgresql import server_url
from tests.storage.eager_states import eager_states
from tests.storage.events_contract import START, ChargeFilter, event

from usagebill.core.aggregation import AggregateResult
from usagebill.core.events import Event, JsonValue
from usagebill.core.filters import EventScope, FilterIndex
from usagebill.storage.event_queries import COUNTED, Arrival, EventQuery, Exclusion
from usagebill.storage.ports import Store
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.sqlite import SqliteStore

FILE = Path(__file__).with_name("usage_oracle.json")
ORGANIZATION, QUERIES = "organization-oracle", 200
ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu")
REGIONS = ("eu", "us", "ap", "sa")
TIERS = ("free", "pro")
VALUES: tuple[JsonValue, ...] = (
    *("1", "2", "0.5", "-3", "0.000001", "999999999999.5", "0.12345678901234567890", "9" * 40, "-" + "9" * 30),
    *(4, -1, Decimal("1.50"), 10**14, "none", None, ""),
)


def made_events() -> list[Event]:
    """Three months of events: at any time, on borders of hours, days and months, late, and received late."""
    chance, events = Random(34), []
    for number in range(1500):
        at = START + timedelta(microseconds=chance.randrange(90 * 86_400) * 1_000_000)
        match chance.randrange(6):
            case 0:
                at = at.replace(minute=chance.choice((0, 15, 30, 45)), second=0)
            case 1:
                at = at.replace(hour=0, minute=0, second=0)
            case 2:
                at += timedelta(microseconds=chance.choice((1, 500_000, 999_999)))
        properties: dict[str, JsonValue] = {"value": chance.choice(VALUES[: chance.choice((5, len(VALUES)))])}
        for key, texts in (("region", (*REGIONS, "", "elsewhere")), ("tier", TIERS)):
            if chance.random() < 0.9:
                properties[key] = chance.choice(texts)
        properties["user"] = f"user-{chance.randrange(60)}"
        code = "seats" if number % 5 == 0 else "calls"
        if code == "seats" and chance.random() < 0.3:
            properties["operation_type"] = chance.choice(("add", "remove", "remove", "other"))
        late = timedelta(seconds=chance.choice((0, 1, 5)), days=chance.choice((0,) * 30 + (3, 20)))
        cents = Decimal(chance.randrange(10_000)) / 1000 if chance.random() < 0.5 else None
        events.append(event(ORGANIZATION, number, properties, at=at, received=at + late, code=code, cents=cents))
    return sorted(events, key=lambda item: item.created_at)


def made_queries(events: list[Event]) -> Iterator[tuple[EventQuery, FilterIndex | None]]:
    chance = Random(43)
    for number in range(QUERIES):
        zone = ZoneInfo(chance.choice(ZONES))
        begins = datetime(2024, chance.choice((1, 2, 3)), chance.choice((1, 1, 1, 15, 28)), tzinfo=zone)
        length = timedelta(days=chance.choice((1, 7, 29, 31, 60)))
        earliest: datetime | None = begins.astimezone(UTC)
        latest: datetime | None = (begins + length).astimezone(UTC) - timedelta(microseconds=1)
        border = chance.choice(events)
        fields: dict[str, Any] = {}
        match chance.randrange(9):
            case 0:
                earliest = latest = None
            case 1:
                earliest = border.timestamp
            case 2:
                latest = begins.astimezone(UTC) + timedelta(milliseconds=1500, days=10)
            case 3:
                fields["known_at"] = begins.astimezone(UTC) + timedelta(days=chance.choice((5, 31, 40)))
            case 4:
                arrival = Arrival(at=border.created_at, id=border.id)
                exclusion = Exclusion(end=begins.astimezone(UTC) + timedelta(seconds=1), received_to=arrival)
                fields["excluded"] = (exclusion,)
            case 5:
                fields["until"] = Arrival(at=border.created_at, id=border.id)
            case 6:
                fields[chance.choice(("up_to", "before"))] = border
        aggregation_type = sorted(COUNTED)[number % len(COUNTED)]
        if aggregation_type == "weighted_sum_agg" and earliest is not None and chance.random() < 0.5:
            fields["held_from"] = earliest
        field_name = None if aggregation_type == "count_agg" else "user" if "unique" in aggregation_type else "value"
        filters = None
        if number % 3 == 0:
            values = [
                {"region": tuple(chance.sample(REGIONS, chance.choice((1, 2)))), **({"tier": ("pro",)} if more else {})}
                for more in (chance.random() < 0.5 for _ in range(chance.choice((1, 3, 5))))
            ]
            filters = FilterIndex([ChargeFilter(str(place), its) for place, its in enumerate(values)], {})
        elif number % 3 == 1:
            fields["bucket"] = EventScope(matches={"tier": ("pro",)}, excludes=({"region": ("eu", "us")},))
        if chance.random() < 0.2:
            fields["only"] = {"region": ("eu", None)}
        yield (
            EventQuery(
                code=chance.choice(("calls", "calls", "seats")),
                external_subscription_id="sub",
                aggregation_type=aggregation_type,
                field_name=field_name,
                earliest=earliest,
                latest=latest,
                group_keys=chance.choice(((), (), ("region",), ("tier", "region"))),
                amounts=aggregation_type == "sum_agg" and chance.random() < 0.5,
                **fields,
            ),
            filters,
        )


def shown(tally: AggregateResult) -> list[str | int | None]:
    """An answer by value: engines show decimals of sums differently, but for weighted ones."""
    numbers = (f"{number.normalize():f}" for number in (tally.units, tally.amount_cents, tally.moment))
    return [*numbers, tally.events_count, None if tally.last_at is None else tally.last_at.isoformat()]


def answers(store: Store, queries: list[tuple[EventQuery, FilterIndex | None]]) -> list[Any]:
    """Their answers, by position and group, in the order of the groups."""

    def answer(question: EventQuery, filters: FilterIndex | None) -> list[Any]:
        def ask(tx: Any) -> Any:
            log = tx.events
            return {0: log.tallies(question)} if filters is None else log.tallies_by_bucket(question, filters)

        buckets = store.read(ORGANIZATION, ask)
        return [
            [position, [[list(group), shown(tally)] for group, tally in buckets[position].items()]]
            for position in sorted(buckets)
        ]

    return [answer(question, filters) for question, filters in queries]


@contextmanager
def filled(engine: str, folder: Path) -> Iterator[tuple[Store, list[Event]]]:
    """A store of the engine with the events."""
    events = made_events()
    with temporary_database(server_url()) if engine == "postgresql" else _nothing() as url:
        store: Store = SqliteStore(folder / "billing.db") if url is None else PostgresStore(url)
        for first in range(0, len(events), 250):
            store.write(ORGANIZATION, lambda tx, first=first: tx.events.append(events[first : first + 250]))  # type: ignore[misc]
        yield store, events
        store.close()


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def test_usage_is_what_it_was(engine: str, tmp_path: Path) -> None:
    wanted = json.loads(FILE.read_text())
    with eager_states(), filled(engine, tmp_path) as (store, events):
        queries = list(made_queries(events))
        assert answers(store, queries) == wanted
        while store.roll_up_usage():
            pass
        assert answers(store, queries) == wanted
        assert store.read(ORGANIZATION, lambda tx: list(tx.events.state_faults())) == []


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, filled("sqlite", Path(folder)) as (store, events):
        made = answers(store, list(made_queries(events)))
    FILE.write_text("[\n" + ",\n".join(json.dumps(item) for item in made) + "\n]\n")


if __name__ == "__main__":
    main()
