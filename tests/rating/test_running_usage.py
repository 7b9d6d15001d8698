"""Events paid in advance cost what a count of everything before them says, whatever order they come in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st
from tests.examples import examples
from tests.scenarios import charge_in_advance_on, filter_on, plan_fields, price_ranges

from usagebill.billing import Billing
from usagebill.core.fees import Fee
from usagebill.fields import MetricFilterFields
from usagebill.rating import events as pricing, running_usage
from usagebill.runtime.clock import ManualClock
from usagebill.storage.conditions import eq

pytestmark = pytest.mark.slow

START = datetime(2024, 3, 1, tzinfo=UTC)
METRICS: dict[str, dict[str, Any]] = {
    "count": {"aggregation_type": "count_agg"},
    "sum": {"aggregation_type": "sum_agg", "field_name": "value"},
    "recurring sum": {"aggregation_type": "sum_agg", "field_name": "value", "recurring": True},
    "unique": {"aggregation_type": "unique_count_agg", "field_name": "user"},
    "recurring unique": {"aggregation_type": "unique_count_agg", "field_name": "user", "recurring": True},
}
RANGES = price_ranges((0, 2, "0.02", "0.01"), (3, 6, "0.013", "1"), (7, None, "0.1", "3"))
RATES = price_ranges((0, 3, "2.5", "0.3"), (4, None, "0.7", "2"), unit="rate")
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "standard": ("standard", {"amount": "0.0137"}),
    "graduated": ("graduated", {"graduated_ranges": RANGES}),
    "package": ("package", {"amount": "7", "package_size": 3, "free_units": 4}),
    "graduated percentage": ("graduated_percentage", {"graduated_percentage_ranges": RATES}),
    "percentage": ("percentage", {"rate": "1.5", "fixed_amount": "0.25"}),
    "free events": ("percentage", {"rate": "1.5", "fixed_amount": "0.25", "free_units_per_events": 2}),
    "free units": ("percentage", {"rate": "1.5", "fixed_amount": "0.2", "free_units_per_total_aggregation": "4.5"}),
    "bounds": ("percentage", {"rate": "1.5", "fixed_amount": "0.25", "per_transaction_min_amount": "0.3"}),
    "bounds, free events": (
        "percentage",
        {"rate": "9", "fixed_amount": "0.1", "free_units_per_events": 2, "per_transaction_max_amount": "0.3"},
    ),
    "bounds, free units": (
        "percentage",
        {"rate": "9", "free_units_per_total_aggregation": "4.5", "per_transaction_max_amount": "0.3"},
    ),
}
SAME = {"id", "subscription_id", "external_subscription_id", "customer_id", "created_at", "updated_at"}
_numbers = count(1)


class House:
    """Two subscriptions that get the same events: usage of the second is counted from the start each time."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock(START)
        self.billing = Billing(path, clock=self.clock, deliver=False)
        self.billing.customers.upsert(external_id="acme", currency="EUR")
        regions: list[MetricFilterFields] = [{"key": "region", "values": ["eu", "us", "ap"]}]
        self.metrics = {
            name: self.billing.billable_metrics.create(name=name, code=name, filters=regions, **metric).id
            for name, metric in METRICS.items()
        }

    def charge(self, metric: str, model: str, *, grouped: bool, filtered: bool, dearer: bool) -> Any:
        charge_model, properties = MODELS[model]
        if dearer and model == "package":
            properties = {**properties, "amount": "9"}
        if grouped:
            properties = {**properties, "pricing_group_keys": ["team"]}
        filters = [filter_on({"region": ["eu"]}, **properties), filter_on({"region": ["us"]}, **properties)]
        charge = charge_in_advance_on(self.metrics[metric], charge_model, code="usage", **properties)
        return {**charge, "filters": filters} if filtered else charge

    def fees(self, name: str) -> dict[str, dict[str, Any]]:
        fees = self.billing.reading(lambda work: work.tx.find(Fee, eq("external_subscription_id", name)))
        return {
            f"{fee.event_transaction_id}": {key: value for key, value in asdict(fee).items() if key not in SAME}
            for fee in fees
            if fee.event_transaction_id is not None
        }


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("running") / "billing.db")
    with house.billing:
        yield house


@pytest.fixture
def counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of subscriptions called `again-...` do not go on from running usage."""

    def bring_forward(*args: Any) -> Any:
        question = args[5]
        if question.external_subscription_id.startswith("anew"):
            return None
        return running_usage.bring_forward(*args)

    monkeypatch.setattr(pricing, "bring_forward", bring_forward)


one_event = st.fixed_dictionaries(
    {
        "at": st.integers(0, 40),
        "value": st.sampled_from(["1", "2.5", "0.001", "-2", "-0.5", "7", "0", "123456789012345678.0000001"]),
        "user": st.sampled_from(["a", "b", "c"]),
        "region": st.sampled_from(["eu", "us", "ap", "elsewhere"]),
        "team": st.sampled_from(["x", "y", ""]),
        "operation_type": st.sampled_from(["add", "add", "remove"]),
    }
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["nothing", "nothing", "nothing", "process", "upgrade", "price", "month"]),
        st.lists(one_event, min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=8,
)


@examples(60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    metric=st.sampled_from(sorted(METRICS)),
    model=st.sampled_from(sorted(MODELS)),
    grouped=st.booleans(),
    filtered=st.booleans(),
    steps=steps,
)
def test_fees_are_those_of_a_full_count(
    house: House,
    counted_anew: None,
    metric: str,
    model: str,
    grouped: bool,
    filtered: bool,
    steps: list[tuple[str, list[dict[str, Any]]]],
) -> None:
    """Late events, several at once, removals and values below zero, after downtime, upgrades and changes of prices."""
    number = next(_numbers)
    billing, clock = house.billing, house.clock
    charge = house.charge(metric, model, grouped=grouped, filtered=filtered, dearer=False)
    for code, amount in ((f"small-{number}", 0), (f"large-{number}", 1000)):
        billing.plans.create(**plan_fields(charge, code=code, amount_cents=amount))
    names = [f"kept-{number}", f"anew-{number}"]
    started = clock.now()
    for name in names:
        billing.subscriptions.create(
            external_customer_id="acme", external_id=name, plan_code=f"small-{number}", subscription_at=started
        )
    transaction = count()
    for action, events in steps:
        clock.set(clock.now() + (timedelta(days=31) if action == "month" else timedelta(seconds=1)))
        if action == "upgrade":
            at = clock.now()
            for name in names:
                # An upgrade bills, which moves the clock.
                clock.set(at)
                billing.subscriptions.create(external_customer_id="acme", external_id=name, plan_code=f"large-{number}")
        elif action == "price":
            dearer = house.charge(metric, model, grouped=not grouped, filtered=filtered, dearer=True)
            billing.plans.update(f"small-{number}", charges=[dearer])
        now = int(clock.now().timestamp())
        ids = [next(transaction) for _ in events]
        for name in names:
            billing.events.ingest(
                [
                    {
                        "transaction_id": f"t{id}",
                        "code": metric,
                        "external_subscription_id": name,
                        "timestamp": max(now - event["at"], int(started.timestamp())),
                        "properties": {key: value for key, value in event.items() if key != "at"},
                    }
                    for id, event in zip(ids, events, strict=True)
                ]
            )
        if action == "process":
            billing.run_due()
    billing.run_due()
    kept, anew = (house.fees(name) for name in names)
    for name in names:
        billing.subscriptions.terminate(name)
    billing.run_due()
    assert kept == anew
    assert kept
