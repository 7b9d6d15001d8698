"""Writes the small file that stands for a schema version: run with the code of that version on the path.

    PYTHONPATH=src python tests/upgrades/make_file.py v31.db.gz

What a version does not have yet is left out.
"""

from __future__ import annotations

import gzip
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from usagebill import Billing
from usagebill.runtime.clock import ManualClock

BEGIN, END = datetime(2024, 1, 15, 12, tzinfo=UTC), datetime(2024, 2, 1, 3, tzinfo=UTC)
CHARGE = {"charge_model": "standard", "properties": {"amount": "2"}}


def fill(billing: Any, clock: ManualClock) -> None:
    """A customer with a plan, usage of half a month and its invoice, and one of whatever else there is."""

    def attempt(act: Callable[[], object]) -> Any:
        try:
            return act()
        except (AttributeError, TypeError):
            return None

    def use(first: int, last: int) -> None:
        seconds = int(clock.now().timestamp())
        mute = {"transaction_id": f"none{first}", "code": "gb", "external_subscription_id": "sub", "properties": {}}
        event = {"code": "gb", "external_subscription_id": "sub", "timestamp": seconds}
        events = [{**event, "transaction_id": f"t{n}", "properties": {"gb": n}} for n in range(first, last)]
        billing.events.ingest([*events, mute])

    billing.customers.upsert(external_id="acme", name="Acme", currency="EUR")
    billing.taxes.create(name="VAT", code="vat", rate="20")
    billing.webhook_endpoints.create(webhook_url="https://listener.example/hook")
    metric = billing.billable_metrics.create(name="GB", code="gb", aggregation_type="sum_agg", field_name="gb")
    billing.plans.create(
        name="Basic",
        code="basic",
        interval="monthly",
        amount_cents=1000,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=[{"billable_metric_id": metric.id, **CHARGE}],
    )
    billing.add_ons.create(name="Setup", code="setup", amount_cents=500, amount_currency="EUR")
    coupon = {"coupon_type": "percentage", "percentage_rate": "10", "frequency": "forever"}
    billing.coupons.create(name="Ten", code="ten", expiration="no_expiration", **coupon)
    billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
    billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])
    wallet = {"rate_amount": "1", "currency": "EUR", "granted_credits": "10"}
    attempt(lambda: billing.wallets.create(external_customer_id="acme", **wallet))
    use(1, 6)
    while (due := billing.next_due()) is not None and due <= END:
        clock.set(max(due, clock.now()))
        billing.run_due()
    clock.set(END)
    use(6, 9)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "billing.db"
        clock = ManualClock(BEGIN)
        with Billing(path, clock=clock, deliver=False) as billing:
            fill(billing, clock)
        connection = sqlite3.connect(path)
        # One file, and a small one.
        for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA page_size = 1024", "VACUUM"):
            # Indexes of version 7 use functions that a plain connection lacks.
            with suppress(sqlite3.OperationalError):
                connection.execute(statement)
        connection.close()
        with gzip.GzipFile(sys.argv[1], "wb", mtime=0) as file:
            file.write(path.read_bytes())


if __name__ == "__main__":
    main()
