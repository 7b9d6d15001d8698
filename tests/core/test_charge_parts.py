"""The parts of a charge follow what it and its metric say now, even if those of a moment ago are still at hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from usagebill.core.billable_metrics import BillableMetric, MetricFilter
from usagebill.core.charge_parts import charge_parts
from usagebill.core.filters import ALL_FILTER_VALUES
from usagebill.core.plans import Charge, ChargeFilter

NOW = datetime(2024, 1, 1, tzinfo=UTC)
METRIC = BillableMetric(
    id="metric",
    organization_id="organization",
    name="Calls",
    code="calls",
    aggregation_type="count_agg",
    filters=(MetricFilter(key="cloud", values=("aws", "gcp")), MetricFilter(key="region", values=("eu", "us"))),
    created_at=NOW,
    updated_at=NOW,
)
FILTER = ChargeFilter(
    id="filter",
    values={"cloud": (ALL_FILTER_VALUES,), "region": ("eu",)},
    properties={"amount": "1"},
    created_at=NOW,
    updated_at=NOW,
)
CHARGE = Charge(
    id="charge",
    organization_id="organization",
    plan_id="plan",
    billable_metric_id="metric",
    code="calls",
    charge_model="standard",
    properties={"amount": "2", "pricing_group_keys": ["agent"]},
    filters=(FILTER,),
    created_at=NOW,
    updated_at=NOW,
)


def positions(charge: Charge, metric: BillableMetric, **values: str) -> tuple[int, ...]:
    index = charge_parts(charge, metric)[0].filters
    return index.of_values([values.get(key) for key in index.keys])


def test_a_change_at_the_same_instant_shows() -> None:
    filtered, rest = charge_parts(CHARGE, METRIC)
    assert (filtered.group_keys, rest.group_keys) == ((), ("agent",))
    assert positions(CHARGE, METRIC, cloud="aws", region="eu") == (0,)
    assert positions(CHARGE, METRIC, cloud="azure", region="eu") == (1,)
    wider = replace(METRIC, filters=(MetricFilter(key="cloud", values=("aws", "azure")), METRIC.filters[1]))
    assert positions(CHARGE, wider, cloud="azure", region="eu") == (0,)
    assert positions(CHARGE, METRIC, cloud="azure", region="eu") == (1,)
    dearer = replace(CHARGE, filters=(replace(FILTER, properties={"amount": "3"}),))
    assert charge_parts(dearer, METRIC)[0].raw_properties == {"amount": "3"}
    moved = replace(CHARGE, filters=(replace(FILTER, values={"region": ("us",)}),))
    assert positions(moved, METRIC, region="us") == (0,)
    assert positions(moved, METRIC, region="eu") == (1,)
    assert len(charge_parts(replace(CHARGE, filters=()), METRIC)) == 1


def test_values_are_shown_in_the_order_in_which_they_were_last_sent() -> None:
    assert charge_parts(CHARGE, METRIC)[0].display_name == "cloud, eu"
    turned = replace(CHARGE, filters=(replace(FILTER, values={"region": ("eu",), "cloud": (ALL_FILTER_VALUES,)}),))
    assert charge_parts(turned, METRIC)[0].display_name == "eu, cloud"
