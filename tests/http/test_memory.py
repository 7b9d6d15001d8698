"""What callers can invent, such as names, keys and verbs, does not fill the memory of a process."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from usagebill import Billing
from usagebill.http.app import endpoints
from usagebill.http.metrics import Metrics
from usagebill.http.strictness import Strictness
from usagebill.process.rate_limit import RateLimit
from usagebill.process.throttle import Throttle
from usagebill.storage.sql.usage_totals import MissingSeries, Shape

NOW = datetime(2024, 3, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


def unknown_fields() -> Callable[[int], object]:
    strictness = Strictness(always=False)
    (plans,) = (known for known in endpoints() if (known.method, known.path) == ("POST", "/plans"))
    return lambda turn: strictness.check(plans, {}, {"plan": {f"{turn:1000}": 1}}, {}, "key", NOW)


def requests_of_new_keys() -> Callable[[int], object]:
    limit = RateLimit(10)
    return lambda turn: limit.count(f"key {turn:500}", NOW + timedelta(seconds=turn))


def verbs() -> Callable[[int], object]:
    metrics = Metrics(Billing(), "key")
    return lambda turn: metrics.observe(f"VERB{turn}", "/plans", 405, 0.01)


@pytest.mark.parametrize("begun", [unknown_fields, requests_of_new_keys, verbs])
def test_a_thousand_more_names_take_no_more_memory(begun: Callable[[], Callable[[int], object]]) -> None:
    act = begun()
    for turn in range(1200):
        act(turn)
    tracemalloc.start()
    try:
        for turn in range(1200, 2400):
            act(turn)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Were each kept, it would take 500 bytes at the least.
    assert grown < 1200 * 250


def test_a_name_passes_once_an_hour_and_again_once_it_is_forgotten() -> None:
    throttle = Throttle(HOUR, most=2)
    assert [throttle.passes(name, NOW) for name in ("a", "a", "b", "b")] == [True, False, True, False]
    assert not throttle.passes("a", NOW + HOUR - timedelta(microseconds=1))
    assert throttle.passes("a", NOW + HOUR)
    # "b" was asked about longest ago.
    assert throttle.passes("c", NOW + HOUR)
    assert not throttle.passes("a", NOW + HOUR)
    assert throttle.passes("b", NOW + timedelta(minutes=1))


def test_series_that_nobody_creates_are_not_noted_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("usagebill.storage.sql.usage_totals._MOST_MISSING", 2)
    missing, shape = MissingSeries(), Shape("sum", "units", ())
    for subscription in "abc":
        missing.note(("acme", subscription, "api"), shape, 5_000)
    assert [pair for pair, _ in missing.take(None)] == [("acme", "a", "api"), ("acme", "b", "api")]
    missing.note(("acme", "c", "api"), shape, 5_000)
    assert [pair for pair, _ in missing.take(None)] == [("acme", "c", "api")]
