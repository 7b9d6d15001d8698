"""How the cost of usage grows: ratios of the same operation on much and on little data, in one run.

- Current usage of a charge with 50 filters beside that of a charge with none: at most 3. First the whole request, right
  after the import, and again once running totals are built, if there are enough events for any. Then counting itself,
  on 100,000 events; filters of two keys with 30,000 combinations of values.
- The events of a period that are paid in advance, after 10,000 beside after 100: at most 1.5, whatever is counted and
  however it is priced.
- Checking after an event whether it passed a threshold, at 300,000 events beside 1,000: at most 2, for every charge
  model, and while the threshold is far away. The first event causes a count of all of them.

CPU time, best of several rounds that alternate between the two sides.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.event_rows import START, sent

from usagebill.billing import Billing
from usagebill.fields import UsageThresholdFields
from usagebill.rating.current_usage import UsageOptions, current
from usagebill.runtime.clock import ManualClock

ROUNDS = 5
FILTERS, FILTERED_EVENTS, MANY_FILTERED = 50, 100_000, 1_000_000
EARLY, LATE, NEIGHBOURS, WARM_UP = 100, 10_000, 40, 8
FEW_EVENTS, MANY_EVENTS = 1_000, 300_000


def seconds(act: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time()
    act()
    return time.process_time() - started


def best(*acts: Callable[[], object]) -> list[float]:
    """The best time of each, in alternating rounds."""
    rounds = [[seconds(act) for act in acts] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def line(name: str, little: float, much: float, most: float | None) -> None:
    ratio = much / little
    verdict = "" if most is None else f" (at most {most})" if ratio <= most else f" (at most {most})  OVER"
    print(f"{name:56} {little * 1000:9.2f} ms {much * 1000:9.2f} ms   ratio {ratio:5.2f}{verdict}")


def opened(path: Path, metric: Mapping[str, Any], plans: Mapping[str, Sequence[Mapping[str, Any]]]) -> Billing:
    """Billing with a customer, one metric of `api_calls`, and a subscription `sub-<plan>` to each plan of charges."""
    billing = Billing(path, clock=ManualClock(START), deliver=False)
    billing.customers.upsert(external_id="acme", currency="EUR")
    made = billing.billable_metrics.create(name="Calls", code="api_calls", **metric)
    for code, charges in plans.items():
        plan_of(billing, made.id, code, charges)
        billing.subscriptions.create(external_customer_id="acme", external_id=f"sub-{code}", plan_code=code)
    return billing


def _of_metric(charges: Sequence[Any], metric_id: str) -> list[Any]:
    return [{"billable_metric_id": metric_id, **charge} for charge in charges]


def plan_of(billing: Billing, metric_id: str, code: str, charges: Sequence[Any]) -> None:
    """A monthly plan without a fee, with these charges for a metric."""
    billing.plans.create(
        name=code,
        code=code,
        interval="monthly",
        amount_cents=0,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=_of_metric(charges, metric_id),
    )


def load(billing: Billing, subscription: str, first: int, count: int) -> None:
    for start in range(first, first + count, 10_000):
        billing.events.ingest(sent(start, min(10_000, first + count - start), subscription=subscription))


def filters_as_seen(folder: Path) -> None:
    """50 filters of 100 users' events over a month beside none, with everything switched on."""
    users = [f"user-{number}" for number in range(FILTERS)]
    standard = {"charge_model": "standard", "properties": {"amount": "0.001"}}
    filtered = [{"values": {"user": [user]}, "properties": {"amount": "0.002"}} for user in users]
    plans: dict[str, list[dict[str, Any]]] = {"none": [standard], "one-key": [{**standard, "filters": filtered}]}
    for aggregation_type, field in _FILTERED:
        metric = {
            "aggregation_type": aggregation_type,
            "field_name": field,
            "filters": [{"key": "user", "values": users}],
        }
        sizes = (100, 1_000, 2_900, 9_900, FILTERED_EVENTS, *([MANY_FILTERED] if field is None else []))
        for count in sizes:
            with opened(folder / f"seen-{aggregation_type}-{count}.db", metric, plans) as billing:
                for plan in plans:
                    sent_events = min(count, FILTERED_EVENTS)
                    for first in range(0, sent_events, 10_000):
                        rows: list[Any] = sent(first, min(10_000, sent_events - first), subscription=f"sub-{plan}")
                        for number, row in enumerate(rows, first):
                            row["timestamp"] = 1704067200 + number * 2_500_000 // sent_events
                            row["properties"]["user"] = f"user-{number % 100}"
                        billing.events.ingest(rows)
                billing.store.write(None, lambda tx, times=count // FILTERED_EVENTS: copy_events(tx, times))  # type: ignore[misc]

                def usage(plan: str, billing: Billing = billing) -> Callable[[], object]:
                    options = UsageOptions(external_subscription_id=f"sub-{plan}")
                    return lambda: billing.reading(lambda work: current(work, "acme", options))

                none, one = best(*map(usage, plans))
                line(f"{aggregation_type} imported, {FILTERS} filters, {count:,} events", none, one, 3)
                while billing._system.roll_up_usage():
                    pass
                none, one = best(*map(usage, plans))
                line(f"{aggregation_type} later, {FILTERS} filters, {count:,} events", none, one, 3)


def copy_events(tx: Any, times: int) -> None:
    """Copy each event this many times, a second apart."""
    tx._connection.execute(
        "WITH RECURSIVE copies (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n + 1 < ?)"
        " INSERT INTO events SELECT NULL, id || '-' || n, organization_id, transaction_id || '-' || n, code,"
        " external_subscription_id, timestamp + n * 1000000, properties, precise_total_amount_cents, created_at, texts,"
        " millionths, long_numbers, in_advance, uncounted, unread_amount FROM events JOIN copies ON n < ?",
        (times, times),
    )


_FILTERED = (
    ("count_agg", None),
    ("sum_agg", "amount"),
    ("max_agg", "amount"),
    ("latest_agg", "amount"),
    ("unique_count_agg", "user"),
)


def filters(folder: Path) -> None:
    """50 filters on the user, which has 10,000 values, beside none."""
    users = [f"user-{number}" for number in range(FILTERS)]
    standard = {"charge_model": "standard", "properties": {"amount": "0.001"}}
    filtered = [{"values": {"user": [user]}, "properties": {"amount": "0.002"}} for user in users]
    by_region = [
        {"values": {"user": users[number::25], "region": [region]}, "properties": {"amount": "0.002"}}
        for number in range(17)
        for region in ("eu", "us", "ap")
    ][:FILTERS]
    declared = [
        {"values": {key: ["__ALL_FILTER_VALUES__"]}, "properties": {"amount": "0.002"}} for key in ("user", "region")
    ]
    keys: list[Any] = [{"key": "user", "values": users}, {"key": "region", "values": ["eu", "us", "ap"]}]
    for aggregation_type, field in _FILTERED:
        metric = {"aggregation_type": aggregation_type, "field_name": field, "filters": keys}
        plans: dict[str, list[dict[str, Any]]] = {
            "none": [standard],
            "one-key": [{**standard, "filters": filtered}],
            "two-keys": [{**standard, "filters": by_region}],
            "declared": [{**standard, "filters": declared}],
        }
        with opened(folder / f"filters-{aggregation_type}.db", metric, plans) as billing:
            for plan in plans:
                load(billing, f"sub-{plan}", 0, FILTERED_EVENTS)

            def usage(plan: str, billing: Billing = billing) -> Callable[[], object]:
                options = UsageOptions(external_subscription_id=f"sub-{plan}")
                return lambda: billing.reading(lambda work: current(work, "acme", options))

            none, one, two, all_declared = best(*map(usage, plans))
            line(f"{aggregation_type}, {FILTERS} filters of one key beside none", none, one, 3)
            line(f"{aggregation_type}, {FILTERS} filters of two keys beside none", none, two, 3)
            line(f"{aggregation_type}, filters of whatever is declared beside none", none, all_declared, 3)


_RANGES: list[dict[str, Any]] = [
    {"from_value": 0, "to_value": 10, "flat_amount": "1"},
    {"from_value": 11, "to_value": None, "flat_amount": "0"},
]
_METRICS: dict[str, dict[str, Any]] = {
    "count": {"aggregation_type": "count_agg"},
    "sum": {"aggregation_type": "sum_agg", "field_name": "amount"},
    "unique count": {"aggregation_type": "unique_count_agg", "field_name": "user"},
}
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "standard": ("standard", {"amount": "0.001"}),
    "graduated": ("graduated", {"graduated_ranges": [{**row, "per_unit_amount": "0.01"} for row in _RANGES]}),
    "package": ("package", {"amount": "1", "package_size": 100, "free_units": 10}),
    "percentage": ("percentage", {"rate": "1", "fixed_amount": "0.1"}),
    "percentage, free units": ("percentage", {"rate": "1", "fixed_amount": "0.1", "free_units_per_events": 10}),
    "percentage, bounds": ("percentage", {"rate": "1", "per_transaction_min_amount": "0.1"}),
    "graduated percentage": (
        "graduated_percentage",
        {"graduated_percentage_ranges": [{**row, "rate": "1"} for row in _RANGES]},
    ),
}
_BY_REGION = {"pricing_group_keys": ["region"]}
# Each event has a different device.
_BY_DEVICE = {"pricing_group_keys": ["device"]}


def charges_in_advance() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """A metric and a charge of each kind: every aggregation and model, then groups and filters."""
    kinds: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for metric_name, metric in _METRICS.items():
        for model_name, (model, properties) in _MODELS.items():
            if model_name == "percentage, bounds" and metric_name != "sum":
                continue
            kinds[f"{metric_name}, {model_name}"] = (metric, {"charge_model": model, "properties": properties})
    for metric_name, metric in _METRICS.items():
        model, properties = _MODELS["graduated"]
        grouped = {"charge_model": model, "properties": {**properties, **_BY_REGION}}
        kinds[f"{metric_name}, graduated by group"] = (metric, grouped)
        opening = {"charge_model": model, "properties": {**properties, **_BY_DEVICE}}
        kinds[f"{metric_name}, graduated, a new group each"] = (metric, opening)
        filtered = {
            "charge_model": model,
            "properties": properties,
            "filters": [{"values": {"region": [region]}, "properties": properties} for region in ("eu", "us")],
        }
        declared = {**metric, "filters": [{"key": "region", "values": ["eu", "us", "ap"]}]}
        kinds[f"{metric_name}, graduated by filter"] = (declared, filtered)
    return kinds


# For these, earlier events have fees too; for the others they have none.
_BILLED_FROM_THE_START = ("sum, graduated", "unique count, standard")


def in_advance(folder: Path) -> None:
    """An event after 100 and after 10,000 of its period, each with a fee of its own."""
    for name, (metric, charge) in charges_in_advance().items():
        path = folder / "in-advance.db"
        charges = [{**charge, "pay_in_advance": True, "invoiceable": False}]
        is_billed = name in _BILLED_FROM_THE_START
        first_charges: Sequence[Any] = charges if is_billed else []
        with opened(path, metric, {"few": first_charges, "many": first_charges}) as billing:

            def act(subscription: str, first: int, count: int = 1, billing: Billing = billing) -> None:
                events: list[Any] = sent(first, count, subscription=subscription)
                for event in events:
                    event["properties"]["device"] = event["transaction_id"]
                billing.events.ingest(events)
                billing.run_due()

            act("sub-few", 0, EARLY)
            for start in range(0, LATE, 1000):
                act("sub-many", start, 1000)
            if not is_billed:
                metric_id = billing.billable_metrics.get("api_calls").id
                for plan in ("few", "many"):
                    billing.plans.update(plan, charges=_of_metric(charges, metric_id))
            few: list[float] = []
            many: list[float] = []
            # The first events have no previous state to continue from.
            for step in range(-WARM_UP, NEIGHBOURS):
                times = [
                    seconds(partial(act, "sub-few", EARLY + WARM_UP + step)),
                    seconds(partial(act, "sub-many", LATE + WARM_UP + step)),
                ]
                if step >= 0:
                    few.append(times[0])
                    many.append(times[1])
            middle = NEIGHBOURS // 2
            line(f"in advance, {name}", sorted(few)[middle], sorted(many)[middle], 1.5)
        for file in folder.glob("in-advance.db*"):
            file.unlink()


_RANGES = [
    {"from_value": 0, "to_value": 1000, "per_unit_amount": "0.01", "flat_amount": "1"},
    {"from_value": 1001, "to_value": None, "per_unit_amount": "0.005", "flat_amount": "100"},
]
WATCHED: dict[str, dict[str, Any]] = {
    "standard": {"charge_model": "standard", "properties": {"amount": "0.001"}},
    "graduated": {"charge_model": "graduated", "properties": {"graduated_ranges": _RANGES}},
    "volume": {"charge_model": "volume", "properties": {"volume_ranges": _RANGES}},
    "by user": {"charge_model": "standard", "properties": {"amount": "0.001", "pricing_group_keys": ["user"]}},
}


def thresholds(folder: Path) -> None:
    """One more event of a subscription whose threshold is far away."""
    metric = {"aggregation_type": "sum_agg", "field_name": "amount"}
    for name, charge in WATCHED.items():
        with opened(folder / f"thresholds-{name}.db", metric, {"few": [charge], "many": [charge]}) as billing:
            load(billing, "sub-few", 0, FEW_EVENTS)
            load(billing, "sub-many", 0, MANY_EVENTS)
            for plan in ("few", "many"):
                threshold: list[UsageThresholdFields] = [{"amount_cents": 10**15, "threshold_display_name": "far away"}]
                billing.plans.update(plan, usage_thresholds=threshold)
            position = iter(range(MANY_EVENTS, MANY_EVENTS + 10_000))

            def one_more(subscription: str, position: Iterator[int] = position, billing: Billing = billing) -> None:
                billing.events.ingest(sent(next(position), 1, subscription=subscription))
                billing.run_due()

            few, many = best(partial(one_more, "sub-few"), partial(one_more, "sub-many"))
            line(f"threshold, {name}: {MANY_EVENTS:,} events beside {FEW_EVENTS:,}", few, many, 2)


PARTS: dict[str, Callable[[Path], None]] = {
    "filters_as_seen": filters_as_seen,
    "filters": filters,
    "in_advance": in_advance,
    "thresholds": thresholds,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    chosen = parser.parse_args().parts or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            PARTS[name](Path(folder))


if __name__ == "__main__":
    main()
