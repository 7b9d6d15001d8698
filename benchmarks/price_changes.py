"""The cost of a preview of a change of a plan: every subscription's last month, priced twice.

    python -m benchmarks.price_changes                        # 1,000 subscriptions
    python -m benchmarks.price_changes --subscriptions 10000

A preview of 10,000 subscriptions may take a minute of CPU time. The floor is what `compare` takes to price them by one
plan, their own.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import process_time

from usagebill import Billing
from usagebill.fields import ChargeFields
from usagebill.runtime.clock import ManualClock

MOST_MILLISECONDS = 6.0
EVENTS = 5


def fill(billing: Billing, clock: ManualClock, subscriptions: int) -> None:
    """A plan with a fee and two charges, and a month of its subscriptions."""
    for code in ("calls", "storage"):
        billing.billable_metrics.create(name=code, code=code, aggregation_type="sum_agg", field_name="n")
    billing.plans.create(
        name="Pro",
        code="pro",
        interval="monthly",
        amount_cents=1000,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=[
            {"billable_metric_code": code, "charge_model": "standard", "properties": {"amount": "0.5"}}
            for code in ("calls", "storage")
        ],
    )
    names = [f"s{number}" for number in range(subscriptions)]
    for name in names:
        billing.customers.upsert(external_id=name, currency="EUR")
        billing.subscriptions.create(external_customer_id=name, plan_code="pro", external_id=name)
    clock.set(datetime(2024, 2, 20, tzinfo=UTC))
    for number in range(EVENTS):
        billing.events.ingest(
            {
                "transaction_id": f"{code} {name} {number}",
                "code": code,
                "external_subscription_id": name,
                "properties": {"n": number},
            }
            for name in names
            for code in ("calls", "storage")
        )
    clock.set(datetime(2024, 3, 5, tzinfo=UTC))
    billing.run_due(strict=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=1000)
    wanted = parser.parse_args()
    clock = ManualClock(datetime(2024, 2, 1, tzinfo=UTC))
    with (
        tempfile.TemporaryDirectory() as folder,
        Billing(Path(folder) / "billing.db", clock=clock, deliver=False) as billing,
    ):
        fill(billing, clock, wanted.subscriptions)
        charges: list[ChargeFields] = [
            {"id": charge.id, "charge_model": "standard", "properties": {"amount": "0.6"}}
            for charge in billing.plans.get("pro").charges
        ]
        start = process_time()
        billing.plans.compare("pro", "pro")
        floor = process_time() - start
        start = process_time()
        preview = billing.plans.preview_change("pro", amount_cents=1100, charges=charges)
        spent = process_time() - start
    assert preview.more_count == wanted.subscriptions
    each = spent / wanted.subscriptions * 1000
    print(f"{wanted.subscriptions:,} subscriptions: {spent:.1f} s, {each:.2f} ms each (target: {MOST_MILLISECONDS})")
    print(f"priced once: {floor:.1f} s; the preview takes {spent / floor:.2f} times as long")


if __name__ == "__main__":
    main()
