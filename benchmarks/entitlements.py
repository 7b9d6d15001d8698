"""The cost of reading a subscription's entitlements, against a bare dictionary and against one row of SQLite.

    python -m benchmarks.entitlements                        # 1,000 subscriptions, 10 features of 4 privileges
    python -m benchmarks.entitlements --subscriptions 20000

`billing.entitlements.of` may take 50 µs while nothing has changed since the last call. It is also measured right after
an event was ingested, which changes no entitlements, and right after a change, when it reads the file. The row is from
the same file, read by id with bare `sqlite3`. Times are CPU time, the best of several rounds.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from time import process_time
from typing import Any

from usagebill import Billing
from usagebill.fields import PrivilegeFields

MOST_MICROSECONDS = 50.0
ROUNDS = 5
FEATURES = 10


def microseconds(ask: Callable[[str], object], ids: list[str], before: Callable[[], object] | None = None) -> float:
    """CPU time of one call: the mean over `ids` in the best of several rounds. `before` runs before each and is not
    counted.
    """
    best = float("inf")
    for _ in range(ROUNDS):
        if before is None:
            start = process_time()
            for id in ids:
                ask(id)
            spent = process_time() - start
        else:
            spent = 0.0
            for id in ids:
                before()
                start = process_time()
                ask(id)
                spent += process_time() - start
        best = min(best, spent / len(ids))
    return best * 1e6


def fill(billing: Billing, external_ids: Iterable[str]) -> None:
    """A plan with features, and subscriptions on it; every tenth has a value of its own."""
    billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
    billing.plans.create(
        name="Pro", code="pro", interval="monthly", amount_cents=0, amount_currency="EUR", pay_in_advance=False
    )
    privileges: list[PrivilegeFields] = [
        {"code": "most", "value_type": "integer"},
        {"code": "on", "value_type": "boolean"},
        {"code": "note", "value_type": "string"},
        {"code": "level", "value_type": "select", "config": {"select_options": ["basic", "gold"]}},
    ]
    for number in range(FEATURES):
        billing.features.create(code=f"feature-{number}", privileges=privileges)
    values = {"most": 10, "on": True, "note": "as agreed", "level": "gold"}
    billing.entitlements.replace_of_plan(
        "pro", entitlements={f"feature-{number}": values for number in range(FEATURES)}
    )
    for number, external_id in enumerate(external_ids):
        billing.customers.upsert(external_id=external_id, currency="EUR")
        billing.subscriptions.create(external_customer_id=external_id, plan_code="pro", external_id=external_id)
        if number % 10 == 0:
            billing.entitlements.change_of_subscription(external_id, entitlements={"feature-0": {"most": 20}})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=1000)
    wanted = parser.parse_args()
    ids = [f"sub-{number}" for number in range(wanted.subscriptions)]
    with tempfile.TemporaryDirectory() as folder, Billing(Path(folder) / "billing.db") as billing:
        fill(billing, ids)
        values = {id: billing.entitlements.of(id) for id in ids}
        connection = sqlite3.connect(billing.store.path, isolation_level=None)  # type: ignore[attr-defined]
        row_ids = dict(connection.execute("SELECT external_id, id FROM subscriptions").fetchall())

        def read_row(id: str) -> object:
            return connection.execute("SELECT status FROM subscriptions WHERE id = ?", (row_ids[id],)).fetchone()

        numbers = count()

        def ingest() -> None:
            event: dict[str, Any] = {
                "transaction_id": f"t{next(numbers)}",
                "code": "calls",
                "external_subscription_id": ids[0],
            }
            billing.events.create(**event)

        def change() -> None:
            value = next(numbers)
            billing.entitlements.change_of_subscription(ids[0], entitlements={"feature-1": {"most": value}})

        few = ids[:100]
        dictionary = microseconds(values.__getitem__, ids * 10)
        row = microseconds(read_row, ids)
        of = billing.entitlements.of
        print(f"{'':34} {'µs':>8}  {'of a dictionary look-up':>24} {'of a row read':>14}")
        for name, spent in (
            ("bare dictionary look-up", dictionary),
            ("one row read with sqlite3", row),
            ("of(), nothing changed", microseconds(of, ids * 10)),
            ("of(), after an event was ingested", microseconds(of, few, ingest)),
            ("of(), after entitlements changed", microseconds(of, few, change)),
        ):
            print(f"{name:34} {spent:8.2f}  {spent / dictionary:24.1f} {spent / row:14.2f}")
        spent = microseconds(of, ids * 10)
        share = spent / MOST_MICROSECONDS
        print(f"\nunchanged: {spent:.2f} µs, {share:.3f} of the {MOST_MICROSECONDS:.0f} µs it may take")
        connection.close()


if __name__ == "__main__":
    main()
