"""What usage costs as it grows: ratios of the same thing done on much and on little, in one run.

- Current usage of a charge with 50 filters beside that of a charge with none, on 100,000 events: at most 3. Filters of
  two keys are asked about events with 30,000 combinations of values, which costs 4 to 5.
- The events of a period that are paid in advance, after 10,000 beside after 100: at most 1.5. A standard charge keeps
  that; where a price depends on all that was used before, or on whether a value is there, all of it is counted.
- Looking after an event whether it passed a threshold, at 300,000 events beside 1,000: at most 2. All of them are still
  counted.

CPU time, best of several rounds that alternate between the two sides.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.event_rows import START, sent

from usagebill.billing import Billing
from usagebill.clock import ManualClock
from usagebill.rating.current_usage import UsageOptions, current

ROUNDS = 5
FILTERS, FILTERED_EVENTS = 50, 100_000
EARLY, LATE, NEIGHBOURS = 100, 10_000, 50
FEW_EVENTS, MANY_EVENTS = 1_000, 300_000


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


IN_ADVANCE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "standard": (
        {"aggregation_type": "sum_agg", "field_name": "amount"},
        {"charge_model": "standard", "properties": {"amount": "0.001"}},
    ),
    "graduated": (
        {"aggregation_type": "sum_agg", "field_name": "amount"},
        {
            "charge_model": "graduated",
            "properties": {
                "graduated_ranges": [
                    {"from_value": 0, "to_value": None, "per_unit_amount": "0.01", "flat_amount": "1"},
                ]
            },
        },
    ),
    "unique count": (
        {"aggregation_type": "unique_count_agg", "field_name": "user"},
        {"charge_model": "standard", "properties": {"amount": "1"}},
    ),
}


def in_advance(folder: Path) -> None:
    """An event after 100 and after 10,000 of its period, each with a fee of its own."""
    for name, (metric, charge) in IN_ADVANCE.items():
        charges = [{**charge, "pay_in_advance": True, "invoiceable": False}]
        with opened(folder / f"advance-{name}.db", metric, {"plan": charges}) as billing:

            def more(first: int, billing: Billing = billing) -> None:
                billing.events.ingest(sent(first, 1, subscription="sub-plan"))
                billing.run_due()

            def bulk(first: int, end: int, billing: Billing = billing) -> None:
                for start in range(first, end, 100):
                    billing.events.ingest(sent(start, min(100, end - start), subscription="sub-plan"))
                    billing.run_due()

            bulk(0, EARLY)
            early = sorted(seconds(partial(more, at)) for at in range(EARLY, EARLY + NEIGHBOURS))
            bulk(EARLY + NEIGHBOURS, LATE)
            late = sorted(seconds(partial(more, at)) for at in range(LATE, LATE + NEIGHBOURS))
            middle = NEIGHBOURS // 2
            line(f"in advance, {name}: event {LATE:,} beside {EARLY}", early[middle], late[middle], 1.5)


def thresholds(folder: Path) -> None:
    """One more event of a subscription with a threshold that is far away."""
    metric = {"aggregation_type": "sum_agg", "field_name": "amount"}
    standard = {"charge_model": "standard", "properties": {"amount": "0.001"}}
    with opened(folder / "thresholds.db", metric, {"few": [standard], "many": [standard]}) as billing:
        load(billing, "sub-few", 0, FEW_EVENTS)
        load(billing, "sub-many", 0, MANY_EVENTS)
        for plan in ("few", "many"):
            threshold = [{"amount_cents": 10**15, "threshold_display_name": "far away"}]
            billing.plans.update(plan, usage_thresholds=threshold)
        position = iter(range(MANY_EVENTS, MANY_EVENTS + 10_000))

        def one_more(subscription: str) -> Callable[[], object]:
            def act() -> None:
                billing.events.ingest(sent(next(position), 1, subscription=subscription))
                billing.run_due()

            return act

        few, many = best(one_more("sub-few"), one_more("sub-many"))
        line(f"threshold: {MANY_EVENTS:,} events beside {FEW_EVENTS:,}", few, many, 2)


PARTS: dict[str, Callable[[Path], None]] = {"filters": filters, "in_advance": in_advance, "thresholds": thresholds}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS), choices=[*PARTS, []])
    chosen = parser.parse_args().parts
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            PARTS[name](Path(folder))


if __name__ == "__main__":
    main()
