"""Prorated usage of many events is put together from that of local days, to the same cents as event by event."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, price_ranges

from usagebill.rating import prorated_usage, usage

pytestmark = pytest.mark.now("2024-02-12T07:30:00Z")

NOW = datetime(2024, 4, 20, 10, tzinfo=UTC)
RANGES = price_ranges((0, 100, "1", "0"), (101, None, "0.5", "10"))


def charges(metric: str) -> list[dict[str, Any]]:
    filters = [
        {"values": {"region": ["eu"]}, "properties": {"amount": "3", "pricing_group_keys": ["team"]}},
        {"values": {"region": ["eu", "us"], "team": ["a"]}, "properties": {"amount": "5"}},
    ]
    return [
        charge_on(metric, amount="1", prorated=True, pricing_group_keys=["team"]),
        charge_on(metric, amount="2", prorated=True, filters=filters),
        charge_on(metric, "volume", volume_ranges=RANGES, prorated=True),
        charge_on(metric, amount="4", prorated=True, pay_in_advance=True, invoiceable=False),
    ]


ZONES = ["UTC", "Asia/Kolkata", "America/New_York"]


@pytest.fixture(params=ZONES)
def used(box: Scenario, request: pytest.FixtureRequest) -> Scenario:
    """A subscription with events of two months, some of them before and some in the seconds in which a day begins."""
    return filled(box, request.param, "sum_agg")


@pytest.fixture(params=ZONES)
def used_values(box: Scenario, request: pytest.FixtureRequest) -> Scenario:
    """The same, of a metric that counts the values, also with graduated prices."""
    return filled(box, request.param, "unique_count_agg")


def filled(box: Scenario, zone: str, aggregation_type: str) -> Scenario:
    box.customer(timezone=zone)
    keys = [{"key": "region", "values": ["eu", "us"]}, {"key": "team", "values": ["a", "b"]}]
    metric = box.metric(
        "disk", aggregation_type, recurring=True, rounding_function="round", rounding_precision=4, filters=keys
    )
    graduated = charge_on(metric, "graduated", graduated_ranges=price_ranges((0, 2, "1", "3"), (3, None, "0.5", "0")))
    counts_values = aggregation_type == "unique_count_agg"
    box.plan(*charges(metric), *([{**graduated, "prorated": True}] if counts_values else []))
    box.subscribe(subscription_at="2024-02-12T07:30:00Z")
    numbers = Random(7)
    days = [
        datetime(2024, 2, 12, 7, 30, tzinfo=UTC) + timedelta(minutes=30 * numbers.randrange(3200)) for _ in range(50)
    ]
    midnights = [datetime(2024, 3, 31, hour, minute, tzinfo=UTC) for hour in (4, 5, 18) for minute in (0, 30)]
    instants = [at + timedelta(microseconds=numbers.choice((0, 0, -1))) for at in (*days, *midnights) if at <= NOW]
    box.travel_to("2024-04-20T10:00:00Z")
    for start in range(0, len(instants), 50):
        box.events(
            "disk",
            *(
                {
                    "at": at.timestamp(),
                    "value": str(numbers.randrange(20))
                    if counts_values
                    else numbers.choice(("7", "-3.25", "0.1", "x")),
                    "region": numbers.choice(("eu", "us", "jp")),
                    "team": numbers.choice(("a", "b", "c")),
                }
                for at in instants[start : start + 50]
            ),
        )
    return box


def test_usage_is_that_of_the_single_events(used: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> list[Any]:
        projected = used.get("/customers/acme/projected_usage?external_subscription_id=sub")
        return [used.usage(), used.usage("&group[team]=b"), used.usage("&skip_grouping=true"), projected]

    by_events = seen()
    assert any("." in line["units"].removesuffix(".0") for line in by_events[0]["charges_usage"])
    monkeypatch.setattr(usage, "_WORTH_DAYS", 0)
    assert seen() == by_events
    scans: list[object] = []
    monkeypatch.setattr(usage, "_from_events", lambda *given: scans.append(given))
    assert seen() == by_events
    assert scans == []


def test_unique_counts_are_those_of_the_single_events(used_values: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> list[Any]:
        projected = used_values.get("/customers/acme/projected_usage?external_subscription_id=sub")
        return [used_values.usage(), used_values.usage("&group[team]=b"), projected]

    by_events = seen()
    assert any(line["amount_cents"] % 100 for line in by_events[0]["charges_usage"])
    monkeypatch.setattr(usage, "_WORTH_DAYS", 0)
    monkeypatch.setattr(prorated_usage, "_EVENTS_PER_VALUE", 0)
    scans: list[object] = []
    from_events = usage._from_events

    def from_single_events(*given: Any) -> Any:
        scans.append(given)
        return from_events(*given)

    monkeypatch.setattr(usage, "_from_events", from_single_events)
    assert seen() == by_events
    assert scans == []
    # With a value that was removed, single events decide.
    at = datetime(2024, 4, 18, 12, tzinfo=UTC).timestamp()
    used_values.events("disk", {"at": at, "value": "3", "region": "eu", "team": "a", "operation_type": "remove"})
    removed = seen()
    assert scans
    monkeypatch.undo()
    assert seen() == removed


@pytest.mark.slow
def test_fees_are_those_of_the_single_events(used: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_WORTH_DAYS", 0)
    used.travel_to("2024-05-02T00:00:00Z")
    fees = [fee for fee in used.usage_fees() if fee["amount_cents"]]
    assert fees
    monkeypatch.undo()
    # Every fee is counted again, from its events.
    assert used.billing.audit().findings == ()


@pytest.mark.slow
def test_fees_of_unique_counts_are_those_of_the_single_events(
    used_values: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "_WORTH_DAYS", 0)
    monkeypatch.setattr(prorated_usage, "_EVENTS_PER_VALUE", 0)
    used_values.travel_to("2024-05-02T00:00:00Z")
    assert [fee for fee in used_values.usage_fees() if fee["amount_cents"]]
    monkeypatch.undo()
    assert used_values.billing.audit().findings == ()
