"""Counts by filters from the index: events count by their values, whatever the metric declared when they came."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.storage.events_contract import ChargeFilter, Organization, event, new_organization, second

from usagebill.core.filters import ALL_FILTER_VALUES, FilterIndex
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.sqlite import SqliteStore
from usagebill.storage.sqlite.events import filter_values

DECLARED = {"region": ("eu", "us"), "tier": ("free", "paid")}
FILTERS: Sequence[Mapping[str, tuple[str, ...]]] = (
    {"region": ("eu",)},
    {"region": ("us",), "tier": ("paid",)},
)


@pytest.fixture
def organization(tmp_path: Path) -> Organization:
    return new_organization(SqliteStore(tmp_path / "billing.db"))


def append(
    organization: Organization, *properties: Mapping[str, object], declared: Mapping[str, Sequence[str]] = DECLARED
) -> None:
    first = organization.ask(lambda tx: tx.events.stored())
    organization.append(
        *(
            event(organization.id, number, dict(sent), at=second(number))  # type: ignore[arg-type]
            for number, sent in enumerate(properties, first)
        ),
        declared=declared,
    )


def counts(
    organization: Organization,
    filters: Sequence[Mapping[str, tuple[str, ...]]] = FILTERS,
    declared: Mapping[str, Sequence[str]] = DECLARED,
) -> dict[int, int]:
    """Events by the position of their filter."""
    index = FilterIndex([ChargeFilter(str(place), values) for place, values in enumerate(filters)], declared)
    question = EventQuery(code="calls", external_subscription_id="sub")
    tallies = organization.ask(lambda tx: tx.events.tallies_by_bucket(question, index))
    return {position: int(groups[()].units) for position, groups in tallies.items()}


def run(organization: Organization, statement: str) -> None:
    with sqlite3.connect(organization.store.path) as connection:  # type: ignore[attr-defined]
        connection.execute(statement)


def test_a_count_by_filters_reads_the_index_alone(organization: Organization) -> None:
    append(
        organization,
        {"region": "eu"},
        {"region": "us"},
        {"region": "us", "tier": "paid"},
        {"region": "mars", "tier": "paid"},
        {"tier": None},
    )
    assert counts(organization) == {0: 1, 1: 1, 2: 3}
    # Nobody would see this change: no event is looked into.
    run(organization, "DROP TRIGGER event_filter_values_edited")
    run(organization, 'UPDATE events SET properties = \'{"region":"eu"}\'')
    assert counts(organization) == {0: 1, 1: 1, 2: 3}


@pytest.mark.parametrize("column", ["properties", "texts"])
def test_events_that_are_edited_by_hand_count_as_they_are(organization: Organization, column: str) -> None:
    append(organization, {"region": "us"}, {"region": "us"}, {"region": "us"})
    run(organization, f'UPDATE events SET {column} = \'{{"region":"eu"}}\' WHERE sequence = 2')
    assert counts(organization) == {0: 1, 2: 2}


def test_values_that_are_declared_later_count_for_earlier_events_too(organization: Organization) -> None:
    append(organization, {"region": "eu"}, {"region": "mars"}, {"region": "mars"})
    wider = {**DECLARED, "region": ("mars", "eu", "us")}
    filters = [{"region": ("mars",)}, {"region": (ALL_FILTER_VALUES,)}]
    assert counts(organization, filters, wider) == {0: 2, 1: 1}
    append(organization, {"region": "mars"}, {"region": "us"}, {"region": "venus"}, declared=wider)
    assert counts(organization, filters, wider) == {0: 3, 1: 2, 2: 1}
    # And what is declared no longer counts for no filter.
    narrower = {"region": ("mars",)}
    append(organization, {"region": "mars"}, {"region": "us"}, declared=narrower)
    assert counts(organization, filters[1:], narrower) == {0: 4, 1: 4}


def test_keys_that_are_declared_later_count_for_earlier_events_too(organization: Organization) -> None:
    append(organization, {"region": "eu", "tier": "paid"}, {"tier": "free"}, declared={"region": ("eu",)})
    append(organization, {"region": "eu", "tier": "paid"}, {"tier": "free"})
    assert counts(organization, [{"tier": ("free",)}]) == {0: 2, 1: 2}


def test_events_of_metrics_without_filters_count_once_there_are_some(organization: Organization) -> None:
    append(organization, {"region": "eu"}, {"region": "us"}, declared={})
    append(organization, {"region": "eu"})
    assert counts(organization) == {0: 2, 2: 1}


@pytest.mark.parametrize(
    "declared", [{"region": tuple(map(str, range(1_001)))}, {str(key): ("a", "b") for key in range(40)}]
)
def test_a_metric_may_declare_more_than_is_numbered(
    organization: Organization, declared: dict[str, tuple[str, ...]]
) -> None:
    append(organization, {"region": "7"}, {"region": "8"}, {"3": "b"}, declared=declared)
    assert counts(organization, [{"region": ("7",)}, {"3": ("b",)}], declared) == {0: 1, 1: 1, 2: 1}


def test_a_metric_may_change_more_often_than_is_numbered(
    organization: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filter_values, "_NUMBERINGS_AT_MOST", 2)
    for count in range(1, 5):
        regions = tuple(f"r{number}" for number in range(count))
        append(organization, *[{"region": region} for region in regions], declared={"region": regions})
    assert counts(organization, [{"region": ("r0",)}, {"region": ("r3",)}]) == {0: 4, 1: 1, 2: 5}


def test_organizations_are_numbered_apart(organization: Organization) -> None:
    other = Organization(organization.store, "other")
    append(other, {"region": "us"}, {"region": "eu"}, declared={"region": ("us", "eu")})
    organization.append(
        event(organization.id, 3, {"region": "eu"}), declared={"tier": ("free",), "region": ("eu", "mars")}
    )
    assert counts(organization) == {0: 1}
    assert counts(other) == {0: 1, 2: 1}


def test_a_refused_batch_leaves_nothing(organization: Organization) -> None:
    append(organization, {"region": "eu"})
    again = event(organization.id, 0, {"region": "us"})
    new = event(organization.id, 1, {"region": "us"})
    assert organization.append(new, again, declared={"region": ("us",)}) == [1]
    assert counts(organization) == {0: 1}
    assert organization.append(new, declared={"region": ("us",)}) == []
    assert counts(organization, [{"region": ("us",)}]) == {0: 1, 1: 1}
