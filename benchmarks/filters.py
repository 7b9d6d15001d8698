"""Current usage of a charge with 50 filters beside the same charge without, in every way it is requested: at most 3.

- In process without rendering (`rating`), through the library (`library`), through the API without a network (`api`)
  and over HTTP on a connection that is kept alive (`http`, with the client's time).
- From running totals and counted from events, of every aggregation.
- Filters of one, two and three keys. Events have 100 values of the first key, or 10,000, of which 50 are declared.
- Two months of events, of which one is requested; its first day is the 12th, so that several slices are cut.

CPU time of the process, so that load on the machine hardly matters: the best of several rounds that alternate between
the plans. Above 100,000 events, the first 100,000 are copied in SQL.

    python -m benchmarks.filters                                  # 10,000 and 100,000 events
    python -m benchmarks.filters 1000000 --only sum_agg           # more, of some aggregations
    python -m benchmarks.filters 30000 --values 100 --rounds 300  # one number of values, more exactly
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from benchmarks.event_rows import sent
from benchmarks.usage_growth import copy_events, opened, plan_of

from usagebill.billing import Billing
from usagebill.http.api import Api, Request
from usagebill.http.app import create_app, routes
from usagebill.operations import api_keys
from usagebill.rating.current_usage import UsageOptions, current
from usagebill.server import bind

FILTERS, ROUNDS, MOST_RATIO = 50, 25, 3
SIZES = (10_000, 100_000)
VALUES = (100, 10_000)
SENT_AT_MOST = 100_000
BATCH = 10_000
SOURCES = ("events", "states")
AGGREGATIONS = {
    "count_agg": None,
    "sum_agg": "amount",
    "max_agg": "amount",
    "latest_agg": "amount",
    "unique_count_agg": "user",
}
USERS = [f"user-{number}" for number in range(FILTERS)]
REGIONS, TIERS = ("eu", "us", "ap"), ("a", "b")
STANDARD: dict[str, Any] = {"charge_model": "standard", "properties": {"amount": "0.001"}}
# Half of the two months.
MONTH_SECONDS = 2_500_000

Act = Callable[[str], object]


def plans() -> dict[str, Any]:
    """The charge of each plan: without filters, and with 50 of one, two and three keys."""
    two = [{"user": USERS[place::17], "region": [region]} for place in range(17) for region in REGIONS]
    three = [
        {"user": USERS[place::9], "region": [region], "tier": [tier]}
        for place in range(9)
        for region in REGIONS
        for tier in TIERS
    ]
    values: dict[str, Sequence[Mapping[str, Sequence[str]]]] = {
        "one key": [{"user": [user]} for user in USERS],
        "two keys": two[:FILTERS],
        "three keys": three[:FILTERS],
    }
    priced = {
        code: [{"values": its, "properties": {"amount": "0.002"}} for its in filters]
        for code, filters in values.items()
    }
    return {"none": STANDARD, **{code: {**STANDARD, "filters": filters} for code, filters in priced.items()}}


def prepared(path: Path, aggregation_type: str, size: int, values: int) -> Billing:
    """A subscription to each plan, with this many events of as many users."""
    keys = {"user": USERS, "region": REGIONS, "tier": TIERS}
    metric = {
        "aggregation_type": aggregation_type,
        "field_name": AGGREGATIONS[aggregation_type],
        "filters": [{"key": key, "values": list(declared)} for key, declared in keys.items()],
    }
    billing = opened(path, metric, {})
    metric_id = billing.billable_metrics.get("api_calls").id
    count = min(size, SENT_AT_MOST)
    for code, charge in plans().items():
        plan_of(billing, metric_id, code, [charge])
        billing.subscriptions.create(
            external_customer_id="acme",
            external_id=code,
            plan_code=code,
            billing_time="anniversary",
            subscription_at="2023-12-12T00:00:00Z",
        )
        for first in range(0, count, BATCH):
            rows: list[Any] = sent(first, BATCH, subscription=code)
            for number, row in enumerate(rows, first):
                row["timestamp"] += number * 2 * MONTH_SECONDS // count - MONTH_SECONDS - number * 2
                row["properties"] |= {"user": f"user-{number % values}", "tier": TIERS[number % 7 % 2]}
            billing.events.ingest(rows)
    billing.store.write(None, lambda tx: copy_events(tx, size // count))
    return billing


@contextmanager
def served(billing: Billing, key: str) -> Iterator[Act]:
    """A function that requests the usage of a subscription over HTTP."""
    listener = bind("127.0.0.1", 0)
    listener.listen()
    server = uvicorn.Server(
        uvicorn.Config(create_app(billing), log_config=None, lifespan="off", timeout_keep_alive=3600)
    )
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    connection = HTTPConnection(*listener.getsockname())

    def ask(subscription: str) -> bytes:
        headers = {"Authorization": f"Bearer {key}"}
        connection.request("GET", f"/api/v1{path_of(subscription)}?{query_of(subscription)}", headers=headers)
        return connection.getresponse().read()

    try:
        yield ask
    finally:
        connection.close()
        server.should_exit = True
        thread.join()
        listener.close()


def path_of(_: str) -> str:
    return "/customers/acme/current_usage"


def query_of(subscription: str) -> str:
    return "external_subscription_id=" + subscription.replace(" ", "%20")


def ways(billing: Billing, key: str) -> dict[str, Act]:
    """The ways to request the usage of a subscription, without HTTP."""
    api = Api(billing, routes())

    def rated(subscription: str) -> object:
        options = UsageOptions(external_subscription_id=subscription)
        return billing.reading(lambda work: current(work, "acme", options))

    def answered(subscription: str) -> object:
        request = Request(
            method="GET",
            path=f"/api/v1{path_of(subscription)}",
            query=query_of(subscription),
            headers={"authorization": f"Bearer {key}"},
        )
        return api.answer(request).body

    return {
        "rating": rated,
        "library": lambda subscription: billing.usage.current("acme", external_subscription_id=subscription),
        "api": answered,
    }


def best_times(act: Act, subscriptions: Sequence[str], rounds: int) -> dict[str, float]:
    """Milliseconds of CPU time for each subscription."""
    times = dict.fromkeys(subscriptions, float("inf"))
    gc.collect()
    for _ in range(rounds):
        for subscription in subscriptions:
            started = time.process_time()
            act(subscription)
            times[subscription] = min(times[subscription], (time.process_time() - started) * 1000)
    return times


def measure(billing: Billing, title: str, rounds: int) -> None:
    """Print the ratios of all ways, from events and then from states."""
    key = billing.writing(lambda work: api_keys.create(work))[1]
    codes = list(plans())
    with served(billing, key) as over_http:
        acts = {**ways(billing, key), "http": over_http}
        body = acts["api"]("one key")
        assert isinstance(body, bytes)
        (charge_usage,) = json.loads(body)["customer_usage"]["charges_usage"]
        assert len(charge_usage["filters"]) == FILTERS + 1
        for source in SOURCES:
            for way, act in acts.items():
                times = best_times(act, codes, rounds)
                ratios = {code: times[code] / times["none"] for code in codes[1:]}
                over = "OVER" if max(ratios.values()) > MOST_RATIO else ""
                shown_ratios = "".join(f"{ratio:12.2f}" for ratio in ratios.values())
                print(f"{title} {source:8}{way:8}{times['none']:10.2f}{shown_ratios}   {over}", flush=True)
            while billing._system.roll_up_usage():
                pass


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="events")
    reader.add_argument("--only", nargs="*", default=tuple(AGGREGATIONS), help="only these aggregations")
    reader.add_argument("--values", nargs="*", type=int, default=VALUES, help="values of the first key")
    reader.add_argument("--rounds", type=int, default=ROUNDS)
    options = reader.parse_args()
    print(f"{'':18}{'events':>9}{'values':>8} {'':16}{'none, ms':>10}{'one key':>12}{'two keys':>12}{'three keys':>12}")
    for size in options.sizes:
        for aggregation_type in options.only:
            for values in options.values:
                with tempfile.TemporaryDirectory() as folder:
                    make = partial(prepared, Path(folder) / "filters.db", aggregation_type, size, values)
                    with make() as billing:
                        measure(billing, f"{aggregation_type:18}{size:9,}{values:8,}", options.rounds)


if __name__ == "__main__":
    main()
