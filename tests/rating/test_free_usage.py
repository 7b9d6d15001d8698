"""Percentages with a free part cost what all events one by one come to, though only the first ones are read."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.examples import examples
from tests.scenarios import Scenario, charge_on, filter_on
from tests.storage.eager_states import eager_states

from usagebill.core.events import Event, numeric_value
from usagebill.rating import free_usage, usage

START = datetime(2024, 3, 1, tzinfo=UTC)

values = st.decimals("-3", "20", places=3) | st.sampled_from(["0", "1" + "0" * 14, "0.0000001", "none"])
used = st.lists(
    st.tuples(values, st.sampled_from(["eu", "us", "asia"]), st.integers(0, 9 * 24 * 60)), min_size=1, max_size=14
)
frees = st.sampled_from(
    [
        {"free_units_per_events": 1},
        {"free_units_per_events": 3},
        {"free_units_per_total_aggregation": "7.5"},
        {"free_units_per_total_aggregation": "100000"},
        {"free_units_per_events": 2, "free_units_per_total_aggregation": "9"},
    ]
)


def sold(box: Scenario, free: dict[str, Any], *, grouped: bool, filtered: bool, recurring: bool) -> None:
    filters = [{"key": "region", "values": ["eu", "us", "asia"]}]
    metric = box.metric("gb", recurring=recurring, filters=filters)
    terms: dict[str, Any] = {"rate": "1.7", "fixed_amount": "0.31", **free}
    if grouped:
        terms["pricing_group_keys"] = ["team"]
    apart = [filter_on({"region": ["eu"]}, **{**terms, "free_units_per_events": 2})] if filtered else []
    box.customer()
    box.plan(charge_on(metric, "percentage", filters=apart, **terms))
    box.subscribe()


def in_any_order(usage: Any) -> Any:
    """Usage without the order of its groups: of those that begin at the same instant, either may come first."""
    for charge in usage["charges_usage"]:
        charge["grouped_usage"].sort(key=lambda group: json.dumps(group["grouped_by"]))
    return usage


@pytest.mark.slow
@examples(25, deadline=None)
@given(
    used=used, free=frees, grouped=st.booleans(), filtered=st.booleans(), recurring=st.booleans(), kept=st.booleans()
)
def test_a_free_part_is_used_up_as_if_every_event_was_read(
    used: list[tuple[Any, str, int]],
    free: dict[str, Any],
    grouped: bool,
    filtered: bool,
    recurring: bool,
    kept: bool,
) -> None:
    with eager_states() if kept else nullcontext(), Scenario(START) as box:
        sold(box, free, grouped=grouped, filtered=filtered, recurring=recurring)
        box.travel_to("2024-03-10T00:00:00Z")
        box.events(
            "gb",
            *(
                {
                    "at": (START + timedelta(minutes=minutes)).timestamp(),
                    "value": str(value),
                    "region": region,
                    "team": f"t{number % 2}",
                }
                for number, (value, region, minutes) in enumerate(used)
            ),
        )
        if kept:
            box.usage()
            box.billing.run_due()
        read_in_part = in_any_order(box.usage())
        with pytest.MonkeyPatch.context() as one_by_one:
            one_by_one.setattr(usage, "_needs_events", lambda charge, metric, terms: True)
            assert in_any_order(box.usage()) == read_in_part


@pytest.mark.parametrize(
    ("free", "read"), [({"free_units_per_events": 3}, 3), ({"free_units_per_total_aggregation": "7"}, 4)]
)
def test_no_more_events_are_read_than_use_up_the_free_part(
    free: dict[str, Any], read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: list[Decimal | None] = []

    def number(event: Event, field: str | None) -> Decimal | None:
        values.append(numeric_value(event, field))
        return values[-1]

    with Scenario(START) as box:
        sold(box, free, grouped=False, filtered=False, recurring=False)
        box.travel_to("2024-03-10T00:00:00Z")
        box.events("gb", *({"at": START.timestamp() + minute, "value": 2} for minute in range(50)))
        monkeypatch.setattr(free_usage, "numeric_value", number)
        assert box.usage()["charges_usage"][0]["units"] == "100.0"
    assert len(values) == read
