"""Current usage of a subscription, by running totals and by counting its events, at 10,000 and at many more.

The whole request is measured: customer, subscription, plan, period, aggregation, price and taxes.

- By states at many events beside what it costs at 10,000: at most 3, alone and by 10 groups. Events are a second apart,
  so that 10,000 of them are 3 hours, 1,000,000 are 12 days, and from 2,500,000 on a month is filled again and again.
- By counting, against a handwritten SQL aggregate over the same rows and index, which is not exact (it adds floats): at
  least half its speed.
- A charge with 50 filters beside the same charge without, by states of the same events of 100 users: at most 3. The
  period is a calendar month, or begins on the 12th, so that slices of several days are cut at its start.
- What ingestion costs while a count and a sum of each subscription are kept up, alone, by 10 groups or by 9 filters,
  beside ingestion into a file without states and without the triggers that guard them: at most 1.1 times the processor
  time, for requests of 1, 100 and 1,000 events, rolled up by writers or by a worker.

The first 10,000 events come in through the library and all others are copied from them in SQL, so that the curve up to
5,000,000 takes some minutes. Above 1,000,000 nothing is counted for comparison, and states are made at 10,000 and kept
up from then on.

    python -m benchmarks.current_usage [events ...]
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.event_rows import START, sent
from benchmarks.usage_growth import opened, plan_of

from usagebill.billing import Billing
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.filters import FilterIndex
from usagebill.core.plans import Charge
from usagebill.fields import ChargeFields, ChargeProperties
from usagebill.rating.current_usage import UsageOptions, current
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.sql.usage_totals import AT_ONCE

FEW = 10_000
SIZES = (100_000, 1_000_000)
COUNTED_AT_MOST = 1_000_000
COPIED_AT_ONCE = 250_000
LOADED_AT_ONCE = 10_000
ROUNDS = 5
GROWTH_RATIO = 3
FILTERS, FILTERED_ROUNDS, FILTER_RATIO = 50, 15, 3
INGEST_RATIO = 1.1
# Events of a request, and of a round: as many as make a writer roll up.
INGESTED = (1, 100, 1_000)
OF_ROUND = 10_000
INGEST_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Priced:
    """A filter of a charge: the values that it prices, by key."""

    id: str
    values: Mapping[str, tuple[str, ...]]
    created_at: datetime = START


@dataclass(frozen=True, slots=True)
class Counted:
    """A metric's aggregation and the charge model that prices it; `sql` is the same thing in plain SQL."""

    aggregation_type: str
    field: str | None
    sql: str
    charge_model: str = "standard"

    @property
    def name(self) -> str:
        return self.aggregation_type if self.charge_model == "standard" else self.charge_model


AMOUNT = "json_extract(properties, '$.amount')"
AGGREGATIONS = (
    Counted("count_agg", None, "COUNT(*)"),
    Counted("sum_agg", "amount", f"SUM({AMOUNT})"),
    Counted("max_agg", "amount", f"MAX(CAST({AMOUNT} AS REAL))"),
    Counted("latest_agg", "amount", f"{AMOUNT}, MAX(timestamp)"),
    Counted("unique_count_agg", "user", "COUNT(DISTINCT json_extract(properties, '$.user'))"),
    Counted("weighted_sum_agg", "amount", f"SUM({AMOUNT}), SUM({AMOUNT} * timestamp)"),
    Counted("sum_agg", "amount", f"SUM({AMOUNT}), SUM(precise_total_amount_cents)", "dynamic"),
)
PLANS: dict[str, ChargeProperties] = {
    "alone": {"amount": "0.001"},
    "by 10 groups": {"amount": "0.001", "pricing_group_keys": ["zone"]},
}


def events(first: int, count: int, subscription: str, *, priced: bool = False) -> list[Any]:
    """Events of 10 zones, within one month however many there are; `priced` have a price of their own."""
    rows: list[Any] = sent(first, count, subscription=subscription)
    for number, row in enumerate(rows, first):
        row["timestamp"] = 1704067200 + number % 2_500_000
        row["properties"]["zone"] = f"zone-{number % 10}"
        if priced:
            row["precise_total_amount_cents"] = f"{number % 100}.{number % 1000:03}"
    return rows


def prepared(path: Path | str, count: int, plans: Sequence[str] = tuple(PLANS), *, priced: bool = False) -> Billing:
    """A subscription to each plan, with this many events each in the current period."""
    billing = Billing(path, clock=ManualClock(START), deliver=False)
    billing.customers.upsert(external_id="acme", currency="EUR")
    metric = billing.billable_metrics.create(name="Calls", code="api_calls", aggregation_type="count_agg")
    for name in plans:
        charge: ChargeFields = {"billable_metric_id": metric.id, "charge_model": "standard", "properties": PLANS[name]}
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
        for first in range(0, min(count, FEW), LOADED_AT_ONCE):
            billing.events.ingest(events(first, LOADED_AT_ONCE, name, priced=priced))
    return billing


def fill(billing: Billing, count: int) -> None:
    """Copy the first events until there are this many; existing states are updated meanwhile."""
    for first in range(FEW, count, COPIED_AT_ONCE):
        rest = min(COPIED_AT_ONCE, count - first)
        billing.store.write(None, lambda tx, window=(first, rest): copy_events(tx, *window))  # type: ignore[misc]
        roll_up(billing)


def copy_events(tx: Any, first: int, count: int) -> None:
    """Add this many stored events of the subscription, a second apart within the month."""
    tx._connection.execute(
        "WITH RECURSIVE numbers (number) AS (VALUES (?) UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < ?)"
        " INSERT INTO events SELECT NULL, printf('00000000-0000-7000-8000-%012x', number), organization_id,"
        " printf('copy-%012d', number), code, external_subscription_id, ? + (number % 2500000) * 1000000,"
        " properties, precise_total_amount_cents, created_at, texts, millionths, long_numbers, in_advance, uncounted,"
        " unread_amount"
        " FROM numbers JOIN events ON sequence = number % ? + 1",
        (first, first + count, 1704067200 * 1_000_000, FEW),
    )


def best(act: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """The least time of some rounds; CPU time of this process unless another clock says otherwise."""
    times = []
    for _ in range(ROUNDS):
        started = clock()
        act()
        times.append(clock() - started)
    return min(times)


def count_by(billing: Billing, counted: Counted, plan: str) -> None:
    """Change the aggregation and the price of the same events, as a whole or by groups."""

    def change(work: Work) -> None:
        metric, charge = work.tx.first(BillableMetric, eq("code", "api_calls")), work.tx.first(Charge)
        assert metric is not None
        assert charge is not None
        work.tx.replace(replace(metric, aggregation_type=counted.aggregation_type, field_name=counted.field))
        properties: Mapping[str, object] = PLANS[plan]
        if counted.charge_model != "standard":
            properties = {key: value for key, value in properties.items() if key != "amount"}
        work.tx.replace(replace(charge, charge_model=counted.charge_model, properties=properties))

    billing.writing(change)


def roll_up(billing: Billing) -> None:
    while billing._system.roll_up_usage():
        pass


def measured(billing: Billing, plan: str, *, counts: bool) -> Iterator[tuple[float | None, float, str]]:
    """For each aggregation, the seconds by counting and by states made afterwards, and whether both agree; or only the
    seconds by existing states.
    """
    ask = asking(billing)
    for aggregation in AGGREGATIONS:
        count_by(billing, aggregation, plan)
        if not counts:
            # States that were not worth it at 10,000 events, with hardly more events than values, are made now.
            ask()
            roll_up(billing)
            yield None, best(ask), ""
            continue
        # Series of other queries may answer this one too.
        billing.store.write(billing.organization.id, forget_states)
        counting, counted = best(ask), ask()
        roll_up(billing)
        yield counting, best(ask), "same" if ask() == counted else "DIFFERENT"


def asking(billing: Billing) -> Callable[[], object]:
    """A function that requests the subscription's usage and returns all counted units."""
    options = UsageOptions(external_subscription_id="alone")

    def ask() -> object:
        usage = billing.reading(lambda work: current(work, "acme", options))
        return usage.amount_cents, [result.tally for charge in usage.charges for result in charge.results]

    return ask


def have_states(billing: Billing) -> None:
    """Run every query once, so that states exist from these events on."""
    for plan in PLANS:
        for aggregation in AGGREGATIONS:
            count_by(billing, aggregation, plan)
            asking(billing)()
            roll_up(billing)


def forget_states(tx: Any) -> None:
    tx._connection.execute("DELETE FROM usage_series")
    tx._connection.execute("DELETE FROM usage_totals")


def growth(folder: Path, sizes: Sequence[int]) -> None:
    """The curve: one file for each size, dropped once it is measured."""
    few: dict[tuple[str, str], float] = {}
    print(
        f"current usage, ms of CPU, best of {ROUNDS} rounds: events of one subscription; growth at most {GROWTH_RATIO}"
    )
    print(f"{'':32}{'events':>10}{'counted':>10}{'by states':>10}{'growth':>8}      bare SQL (at least 0.5)")
    for size in (FEW, *sizes):
        path = folder / f"{size}.db"
        counts = size <= COUNTED_AT_MOST
        with prepared(path, size, ["alone"], priced=True) as billing:
            if not counts:
                have_states(billing)
            fill(billing, size)
            for plan in PLANS:
                rows = zip(measured(billing, plan, counts=counts), AGGREGATIONS, strict=True)
                for (counted, stated, same), aggregation in rows:
                    name = aggregation.name
                    ratio = stated / few.setdefault((name, plan), stated)
                    over = "OVER" if ratio > GROWTH_RATIO else ""
                    beside = (
                        ""
                        if counted is None
                        else f"{bare_seconds(path, billing, plan, aggregation.sql) / counted:8.2f}"
                    )
                    shown = "" if counted is None else f"{counted * 1000:.1f}"
                    print(
                        f"{name:18}{plan:14}{size:10,}{shown:>10}{stated * 1000:10.1f}{ratio:8.2f} {over:4}"
                        f"{beside:>10}   {same}",
                        flush=True,
                    )
        for left in folder.glob(f"{size}.db*"):
            left.unlink()


def by_filters(folder: Path, sizes: Sequence[int]) -> None:
    """CPU time with and without filters, in turn: the best of each counts."""
    print(f"current usage by states, ms of CPU: 50 filters beside none, at most {FILTER_RATIO}")
    users = [f"user-{number}" for number in range(FILTERS)]
    standard = {"charge_model": "standard", "properties": {"amount": "0.001"}}
    filtered = [{"values": {"user": [user]}, "properties": {"amount": "0.002"}} for user in users]
    plans: dict[str, Sequence[dict[str, Any]]] = {"none": [standard], "filtered": [{**standard, "filters": filtered}]}
    for aggregation in AGGREGATIONS:
        if aggregation.charge_model != "standard":
            continue
        declared = {
            "aggregation_type": aggregation.aggregation_type,
            "field_name": aggregation.field,
            "filters": [{"key": "user", "values": users}],
            **({"weighted_interval": "seconds"} if aggregation.name == "weighted_sum_agg" else {}),
        }
        for size in sizes:
            for begins in ("2024-01-01", "2023-12-12"):
                path = folder / f"filters-{aggregation.name}-{size}-{begins}.db"
                with opened(path, declared, {}) as billing:
                    filter_plans(billing, plans, begins)
                    for first in range(0, size, LOADED_AT_ONCE):
                        for plan in plans:
                            rows: list[Any] = sent(first, LOADED_AT_ONCE, subscription=plan)
                            for number, row in enumerate(rows, first):
                                # Two months, one of which is requested.
                                row["timestamp"] = 1704067200 - 2_500_000 + number * 5_000_000 // size
                                row["properties"]["user"] = f"user-{number % 100}"
                            billing.events.ingest(rows)
                    times = filter_times(billing, tuple(plans))
                ratio = times["filtered"] / times["none"]
                print(
                    f"{aggregation.name:18}from {begins}{size:10,}{times['none'] * 1000:10.2f}"
                    f"{times['filtered'] * 1000:10.2f}{ratio:8.2f} {'OVER' if ratio > FILTER_RATIO else ''}",
                    flush=True,
                )


def filter_plans(billing: Billing, plans: Mapping[str, Sequence[Any]], begins: str) -> None:
    """A subscription to each plan, whose periods begin on that day of each month."""
    metric = billing.billable_metrics.get("api_calls")
    for code, charges in plans.items():
        plan_of(billing, metric.id, code, charges)
        billing.subscriptions.create(
            external_customer_id="acme",
            external_id=code,
            plan_code=code,
            billing_time="anniversary",
            subscription_at=f"{begins}T00:00:00Z",
        )


def filter_times(billing: Billing, plans: Sequence[str]) -> dict[str, float]:
    """The best CPU time of current usage by states, of each plan."""

    def ask(plan: str) -> object:
        options = UsageOptions(external_subscription_id=plan)
        return billing.reading(lambda work: current(work, "acme", options))

    for plan in plans:
        ask(plan)
    roll_up(billing)
    times = dict.fromkeys(plans, float("inf"))
    for _ in range(FILTERED_ROUNDS):
        for plan in plans:
            started = time.process_time()
            ask(plan)
            times[plan] = min(times[plan], time.process_time() - started)
    return times


def bare_seconds(path: Path, billing: Billing, plan: str, sql: str) -> float:
    """The seconds of a handwritten aggregate."""
    bare = sqlite3.connect(path)
    bare.execute("PRAGMA cache_size = -65536")
    bare.execute("PRAGMA mmap_size = 1073741824")
    start = int(START.timestamp()) * 1_000_000
    statement = (
        f"SELECT {sql} FROM events WHERE organization_id = ? AND external_subscription_id = ?"
        " AND code = 'api_calls' AND timestamp BETWEEN ? AND ?"
    )
    if plan != "alone":
        statement += " GROUP BY json_extract(properties, '$.zone')"
    bounds = (billing.organization.id, "alone", start, start + 31 * 86_400_000_000)
    seconds = best(lambda: bare.execute(statement, bounds).fetchall())
    bare.close()
    return seconds


def ingestion(folder: Path) -> None:
    """Processor time of the same requests to a file without states or triggers, and to one that keeps them up."""
    print(f"ingestion, us of CPU an event, best of rounds in turn: with states at most {INGEST_RATIO} times without")
    for name, declared in (("alone and by 10 groups", ()), ("by 9 filters", tuple(range(9)))):
        stated, plain = (prepared(folder / f"{name}-{kind}.db", 20_000) for kind in ("stated", "plain"))
        zones = FilterIndex([Priced(str(zone), {"zone": (f"zone-{zone}",)}) for zone in declared], {})
        for plan in PLANS:
            for aggregation in AGGREGATIONS[:2]:
                # Both check whether events have a number.
                for billing in (stated, plain):
                    count_by(billing, aggregation, plan)
                options = UsageOptions(external_subscription_id=plan)
                question = EventQuery(
                    code="api_calls",
                    external_subscription_id=plan,
                    aggregation_type=aggregation.aggregation_type,
                    field_name=aggregation.field,
                )
                if declared:
                    stated.reading(lambda work: work.tx.events.tallies_by_bucket(question, zones))  # noqa: B023
                else:
                    stated.reading(lambda work: current(work, "acme", options))  # noqa: B023
                roll_up(stated)
        plain.store.write(None, drop_triggers)
        first = 20_000
        for size in INGESTED:
            for by_worker in (False, True):
                first = print_ingestion(name, stated, plain, first, size, by_worker=by_worker)
        stated.close()
        plain.close()


def print_ingestion(name: str, stated: Billing, plain: Billing, first: int, size: int, *, by_worker: bool) -> int:
    """Measure requests of this many events from number `first` on, in rounds; returns the number after the last.

    Whoever stores events rolls them up, or a worker before they do.
    """
    requests: dict[Billing, list[float]] = {stated: [], plain: []}
    with_worker = []
    for number in range(INGEST_ROUNDS):
        spent, rolling_up = dict.fromkeys(requests, 0.0), 0.0
        for request in range(OF_ROUND // size):
            rows = events(first, size, "alone" if request % 2 else "by 10 groups")
            first += size
            for billing in (stated, plain) if (number + request) % 2 else (plain, stated):
                started = time.process_time()
                billing.events.ingest(rows)
                spent[billing] += time.process_time() - started
            if by_worker and (request + 1) * size % AT_ONCE == 0:
                started = time.process_time()
                roll_up(stated)
                rolling_up += time.process_time() - started
        for billing, times in requests.items():
            times.append(spent[billing])
        with_worker.append(spent[stated] + rolling_up)
    without = min(requests[plain])
    whole = min(with_worker) / without
    shown = f"requests {min(requests[stated]) / without:.2f}, with the worker " if by_worker else ""
    print(
        f"{name:24}{size:5} a request, rolled up by {'a worker' if by_worker else 'writers ':8}"
        f"{without / OF_ROUND * 1e6:8.1f} without; {shown}{whole:.2f} {'OVER' if whole > INGEST_RATIO else ''}",
        flush=True,
    )
    return first


def drop_triggers(tx: Any) -> None:
    for name in ("deleted", "changed"):
        tx._connection.execute(f"DROP TRIGGER usage_event_{name}")


def main() -> None:
    sizes = tuple(int(text) for text in sys.argv[1:]) or SIZES
    with tempfile.TemporaryDirectory() as folder:
        ingestion(Path(folder))
        by_filters(Path(folder), sizes[:1])
        growth(Path(folder), sizes)


if __name__ == "__main__":
    main()
