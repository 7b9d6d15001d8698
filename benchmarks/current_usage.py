"""Current usage of a subscription with 1,000,000 events, beside the bare SQL aggregate over the same rows.

The whole answer is measured: customer, subscription, plan, period, aggregation, price and taxes. The floor is the one
aggregate that a careful person would write by hand, through the same index, without exactness: it adds up floats.
Each aggregation should keep at least half of the floor's speed.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.event_rows import START, sent

from usagebill.billing import Billing
from usagebill.clock import ManualClock
from usagebill.core.billable_metrics import BillableMetric
from usagebill.rating.current_usage import UsageOptions, current
from usagebill.storage.conditions import eq
from usagebill.work import Work

EVENTS = 1_000_000
LOADED_AT_ONCE = 10_000
ROUNDS = 5
FLOOR_RATIO = 0.5

# aggregation type, its field, and the same thing in plain SQL
AGGREGATIONS = (
    ("count_agg", None, "COUNT(*)"),
    ("sum_agg", "amount", "SUM(json_extract(properties, '$.amount'))"),
    ("unique_count_agg", "user", "COUNT(DISTINCT json_extract(properties, '$.user'))"),
)


def prepared(path: Path) -> Billing:
    """A subscription whose current period holds all the events."""
    billing = Billing(path, clock=ManualClock(START), deliver=False)
    billing.customers.upsert(external_id="acme", currency="EUR")
    metric = billing.billable_metrics.create(name="Calls", code="api_calls", aggregation_type="count_agg")
    billing.plans.create(
        name="Plan",
        code="plan",
        interval="monthly",
        amount_cents=0,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=[
            {"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "0.001"}},
        ],
    )
    billing.subscriptions.create(external_customer_id="acme", external_id="sub-1", plan_code="plan")
    for first in range(0, EVENTS, LOADED_AT_ONCE):
        billing.events.ingest(sent(first, LOADED_AT_ONCE))
    return billing


def best(act: Callable[[], object]) -> float:
    found = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        act()
        found.append(time.perf_counter() - started)
    return min(found)


def aggregate_by(work: Work, aggregation_type: str, field: str | None) -> None:
    """Have the metric count the same events in another way."""
    metric = work.tx.first(BillableMetric, eq("code", "api_calls"))
    assert metric is not None
    work.tx.replace(replace(metric, aggregation_type=aggregation_type, field_name=field))


def measured(billing: Billing, bare: sqlite3.Connection, aggregation_type: str, field: str | None, sql: str) -> str:
    """A line of the table."""
    billing.writing(lambda work: aggregate_by(work, aggregation_type, field))
    options = UsageOptions(external_subscription_id="sub-1")
    ours = best(lambda: billing.reading(lambda work: current(work, "acme", options)))
    statement = (
        f"SELECT {sql} FROM events WHERE organization_id = ? AND external_subscription_id = 'sub-1'"
        " AND code = 'api_calls' AND timestamp BETWEEN ? AND ?"
    )
    start = int(START.timestamp()) * 1_000_000
    bounds = (billing.organization.id, start, start + 31 * 86_400_000_000)
    theirs = best(lambda: bare.execute(statement, bounds).fetchone())
    return f"{aggregation_type:18} usage {ours:7.3f} s   bare {theirs:7.3f} s   ratio {theirs / ours:5.2f}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "usage.db"
        with prepared(path) as billing:
            bare = sqlite3.connect(path)
            bare.execute("PRAGMA cache_size = -65536")
            bare.execute("PRAGMA mmap_size = 1073741824")
            print(f"{EVENTS:,} events of one subscription, best of {ROUNDS} rounds (at least {FLOOR_RATIO})")
            for aggregation_type, field, sql in AGGREGATIONS:
                print(measured(billing, bare, aggregation_type, field, sql))
            bare.close()


if __name__ == "__main__":
    main()
