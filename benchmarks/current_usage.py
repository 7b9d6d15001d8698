"""Current usage of a subscription, by running states and by counting its events, at 10,000 and at many more.

The whole answer is measured: customer, subscription, plan, period, aggregation, price and taxes.

- By states at many events beside what it costs at 10,000: at most 3, alone and by 10 groups.
- Beside the bare SQL aggregate over the same rows, the one that a careful person would write by hand, through the same
  index, without exactness (it adds up floats): while events are counted at least half of its speed.
- What ingestion costs while all those states are kept up beside ingestion into a file without states and without the
  triggers that guard them: at most 1.1 times the processor time.

    python -m benchmarks.current_usage [events]
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.event_rows import START, sent

from usagebill.billing import Billing
from usagebill.clock import ManualClock
from usagebill.core.billable_metrics import BillableMetric
from usagebill.rating.current_usage import UsageOptions, current
from usagebill.storage.conditions import eq
from usagebill.work import Work

FEW = 10_000
EVENTS = 1_000_000
LOADED_AT_ONCE = 10_000
ROUNDS = 5
GROWTH_RATIO = 3
INGEST_RATIO = 1.1
INGESTED_BATCHES = 100

# aggregation type, its field, and the same thing in plain SQL
AGGREGATIONS = (
    ("count_agg", None, "COUNT(*)"),
    ("sum_agg", "amount", "SUM(json_extract(properties, '$.amount'))"),
    ("max_agg", "amount", "MAX(CAST(json_extract(properties, '$.amount') AS REAL))"),
    ("latest_agg", "amount", "json_extract(properties, '$.amount'), MAX(timestamp)"),
    ("unique_count_agg", "user", "COUNT(DISTINCT json_extract(properties, '$.user'))"),
)
PLANS: dict[str, dict[str, Any]] = {
    "alone": {"amount": "0.001"},
    "by 10 groups": {"amount": "0.001", "pricing_group_keys": ["zone"]},
}


def events(first: int, count: int, subscription: str) -> list[Any]:
    """Events of 10 zones, within one month however many there are."""
    rows: list[Any] = sent(first, count, subscription=subscription)
    for number, row in enumerate(rows, first):
        row["timestamp"] = 1704067200 + number % 2_500_000
        row["properties"]["zone"] = f"zone-{number % 10}"
    return rows


def prepared(path: Path, count: int) -> Billing:
    """Two subscriptions with so many events each in the current period, one of which is billed by groups."""
    billing = Billing(path, clock=ManualClock(START), deliver=False)
    billing.customers.upsert(external_id="acme", currency="EUR")
    metric = billing.billable_metrics.create(name="Calls", code="api_calls", aggregation_type="count_agg")
    for name, properties in PLANS.items():
        charge = {"billable_metric_id": metric.id, "charge_model": "standard", "properties": properties}
        billing.plans.create(
            name=name,
            code=name,
            interval="monthly",
            amount_cents=0,
            amount_currency="EUR",
            pay_in_advance=False,
            charges=[charge],
        )
        billing.subscriptions.create(external_customer_id="acme", external_id=name, plan_code=name)
        for first in range(0, count, LOADED_AT_ONCE):
            billing.events.ingest(events(first, LOADED_AT_ONCE, name))
    return billing


def best(act: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        act()
        times.append(time.perf_counter() - started)
    return min(times)


def aggregate_by(work: Work, aggregation_type: str, field: str | None) -> None:
    """Have the metric count the same events in another way."""
    metric = work.tx.first(BillableMetric, eq("code", "api_calls"))
    assert metric is not None
    work.tx.replace(replace(metric, aggregation_type=aggregation_type, field_name=field))


def roll_up(billing: Billing) -> None:
    while billing.roll_up_usage():
        pass


def measured(billing: Billing, plan: str) -> Iterator[tuple[str, float, float, str]]:
    """Of each aggregation the seconds by counting and by states, and whether both came to the same."""
    options = UsageOptions(external_subscription_id=plan)

    def ask() -> object:
        usage = billing.reading(lambda work: current(work, "acme", options))
        return usage.amount_cents, [result.tally for charge in usage.charges for result in charge.results]

    for aggregation_type, field, _ in AGGREGATIONS:
        billing.writing(lambda work, how=(aggregation_type, field): aggregate_by(work, *how))  # type: ignore[misc]
        # Series of other questions may answer this one too.
        billing.store.write(billing.organization.id, forget_states)
        counting, counted = best(ask), ask()
        roll_up(billing)
        yield aggregation_type, counting, best(ask), "same" if ask() == counted else "DIFFERENT"


def forget_states(tx: Any) -> None:
    tx._connection.execute("DELETE FROM usage_series")


def growth(folder: Path, many: int) -> None:
    with prepared(folder / "few.db", FEW) as few, prepared(folder / "many.db", many) as big:
        bare = sqlite3.connect(folder / "many.db")
        bare.execute("PRAGMA cache_size = -65536")
        bare.execute("PRAGMA mmap_size = 1073741824")
        print(f"current usage, ms: {FEW:,} and {many:,} events of one subscription, best of {ROUNDS} rounds")
        print(f"{'':32}{'counted':>20}{'by states':>20}   growth (at most {GROWTH_RATIO})   bare SQL (at least 0.5)")
        for plan in PLANS:
            rows = zip(measured(few, plan), measured(big, plan), AGGREGATIONS, strict=True)
            for (name, few_counted, few_stated, _), (_, counted, stated, same), (*_, sql) in rows:
                start = int(START.timestamp()) * 1_000_000
                statement = (
                    f"SELECT {sql} FROM events WHERE organization_id = ? AND external_subscription_id = ?"
                    " AND code = 'api_calls' AND timestamp BETWEEN ? AND ?"
                )
                if plan != "alone":
                    statement += " GROUP BY json_extract(properties, '$.zone')"
                bounds = (big.organization.id, plan, start, start + 31 * 86_400_000_000)
                floor = best(lambda: bare.execute(statement, bounds).fetchall())  # noqa: B023
                ratio = stated / few_stated
                print(
                    f"{name:18}{plan:14}{few_counted * 1000:8.1f} {counted * 1000:11.1f}"
                    f"{few_stated * 1000:9.1f} {stated * 1000:10.1f}"
                    f"   {ratio:8.2f}{'  OVER' if ratio > GROWTH_RATIO else ''}   {floor / counted:8.2f}   {same}"
                )
        bare.close()


def ingestion(folder: Path) -> None:
    """Processor time of the same batches into a file without states or triggers, and into one that keeps them up."""
    stated, plain = (prepared(folder / f"{name}.db", 20_000) for name in ("stated", "plain"))
    for plan in PLANS:
        for aggregation_type, field, _ in AGGREGATIONS[:2]:
            stated.writing(lambda work, how=(aggregation_type, field): aggregate_by(work, *how))  # type: ignore[misc]
            options = UsageOptions(external_subscription_id=plan)
            stated.reading(lambda work: current(work, "acme", options))  # noqa: B023
            roll_up(stated)
    plain.store.write(None, drop_triggers)
    seconds = {"stated": 0.0, "plain": 0.0}
    for batch in range(INGESTED_BATCHES):
        rows = events(20_000 + batch * 1000, 1000, "alone" if batch % 2 else "by 10 groups")
        for name, billing in (("stated", stated), ("plain", plain)):
            started = time.process_time()
            billing.events.ingest(rows)
            seconds[name] += time.process_time() - started
    ratio = seconds["stated"] / seconds["plain"]
    count = INGESTED_BATCHES * 1000
    print(
        f"ingestion, us an event: {seconds['plain'] / count * 1e6:.1f} without states,"
        f" {seconds['stated'] / count * 1e6:.1f} while 2 series of each subscription are kept up: ratio {ratio:.2f}"
        f" (at most {INGEST_RATIO})"
    )
    stated.close()
    plain.close()


def drop_triggers(tx: Any) -> None:
    for name in ("deleted", "changed"):
        tx._connection.execute(f"DROP TRIGGER usage_event_{name}")


def main() -> None:
    many = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    with tempfile.TemporaryDirectory() as folder:
        ingestion(Path(folder))
        growth(Path(folder), many)


if __name__ == "__main__":
    main()
