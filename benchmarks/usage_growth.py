"""What usage costs as it grows: ratios of the same thing done on much and on little, in one run.

- Current usage of a charge with 50 filters beside that of a charge with none, on 100,000 events: at most 3. Filters of
  two keys are asked about events with 30,000 combinations of values, which costs 4 to 5.

CPU time, best of several rounds that alternate between the two sides.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.event_rows import START, sent

from usagebill.billing import Billing
from usagebill.clock import ManualClock
from usagebill.rating.current_usage import UsageOptions, current

ROUNDS = 5
FILTERS, FILTERED_EVENTS = 50, 100_000


def seconds(act: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time()
    act()
    return time.process_time() - started


def best(*acts: Callable[[], object]) -> list[float]:
    """The best time of each, all of them tried in turn."""
    rounds = [[seconds(act) for act in acts] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def line(name: str, little: float, much: float, most: float) -> None:
    ratio = much / little
    verdict = "" if ratio <= most else "  OVER"
    print(f"{name:44} {little * 1000:9.2f} ms {much * 1000:9.2f} ms   ratio {ratio:5.2f} (at most {most}){verdict}")


def opened(path: Path, metric: Mapping[str, Any], plans: Mapping[str, Sequence[Mapping[str, Any]]]) -> Billing:
    """Billing with a customer, one metric of `api_calls`, and a subscription `sub-<plan>` to each plan of charges."""
    billing = Billing(path, clock=ManualClock(START), deliver=False)
    billing.customers.upsert(external_id="acme", currency="EUR")
    made = billing.billable_metrics.create(name="Calls", code="api_calls", **metric)
    for code, charges in plans.items():
        billing.plans.create(
            name=code,
            code=code,
            interval="monthly",
            amount_cents=0,
            amount_currency="EUR",
            pay_in_advance=False,
            charges=[{"billable_metric_id": made.id, **charge} for charge in charges],
        )
        billing.subscriptions.create(external_customer_id="acme", external_id=f"sub-{code}", plan_code=code)
    return billing


def load(billing: Billing, subscription: str, first: int, count: int) -> None:
    for start in range(first, first + count, 10_000):
        billing.events.ingest(sent(start, min(10_000, first + count - start), subscription=subscription))


def filters(folder: Path) -> None:
    """50 filters by the user, which has 10,000 values, beside none."""
    users = [f"user-{number}" for number in range(FILTERS)]
    standard = {"charge_model": "standard", "properties": {"amount": "0.001"}}
    filtered = [{"values": {"user": [user]}, "properties": {"amount": "0.002"}} for user in users]
    by_region = [
        {"values": {"user": users[number::25], "region": [region]}, "properties": {"amount": "0.002"}}
        for number in range(17)
        for region in ("eu", "us", "ap")
    ][:FILTERS]
    keys = [{"key": "user", "values": users}, {"key": "region", "values": ["eu", "us", "ap"]}]
    for aggregation_type, field in (("sum_agg", "amount"), ("unique_count_agg", "user"), ("max_agg", "amount")):
        metric = {"aggregation_type": aggregation_type, "field_name": field, "filters": keys}
        plans: dict[str, list[dict[str, Any]]] = {
            "none": [standard],
            "one-key": [{**standard, "filters": filtered}],
            "two-keys": [{**standard, "filters": by_region}],
        }
        with opened(folder / f"filters-{aggregation_type}.db", metric, plans) as billing:
            for plan in plans:
                load(billing, f"sub-{plan}", 0, FILTERED_EVENTS)

            def usage(plan: str, billing: Billing = billing) -> Callable[[], object]:
                options = UsageOptions(external_subscription_id=f"sub-{plan}")
                return lambda: billing.reading(lambda work: current(work, "acme", options))

            none, one, two = best(usage("none"), usage("one-key"), usage("two-keys"))
            line(f"{aggregation_type}, {FILTERS} filters of one key beside none", none, one, 3)
            line(f"{aggregation_type}, {FILTERS} filters of two keys beside none", none, two, 3)


PARTS: dict[str, Callable[[Path], None]] = {"filters": filters}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS), choices=[*PARTS, []])
    chosen = parser.parse_args().parts
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            PARTS[name](Path(folder))


if __name__ == "__main__":
    main()
