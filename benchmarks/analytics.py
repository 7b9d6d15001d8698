"""CPU time of each analytics report over 100,000 invoices, against a plain SQL aggregate of the same rows.

    python -m benchmarks.analytics                          # 10,000 customers, ten months of each
    python -m benchmarks.analytics --customers 1000         # smaller
    python -m benchmarks.analytics --cache /var/tmp/reports # keep the file here for the next run

One customer is billed for ten months, with a monthly fee and usage of two metrics on most days; all others are copies,
written directly to the tables. One customer in ten is overdue. Times are CPU time, the best of several.

The five reports over invoices should take at most a second. Usage is counted again for each current period, and for
each day, week or month that a period is divided into; the cost is shown for one subscription. The floor is one
handwritten GROUP BY over the same invoices, fees or events, without time zones or prices.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from usagebill import Billing
from usagebill.fields import GraduatedRange
from usagebill.runtime.clock import ManualClock
from usagebill.storage.sqlite import schema
from usagebill.storage.sqlite.engine import functions
from usagebill.storage.tables import TABLES

# For a report over invoices.
MOST_SECONDS = 1.0
START = datetime(2024, 1, 1, tzinfo=UTC)
MONTHS = 10
NOW = datetime(2024, 11, 1, 6, tzinfo=UTC) + timedelta(days=17)
_TIMES = 3

_INVOICES = "SELECT substr(issuing_date, 1, 7), currency, {by} SUM(total_amount_cents), COUNT(*) FROM invoices {where}"
_FEES = "SELECT substr(created_at, 1, 7), currency, {by} SUM(amount_cents) FROM fees WHERE fee_type = '{type}'"
_EVENTS = "SELECT timestamp / {length}, code, COUNT(*) FROM events WHERE timestamp > :since GROUP BY 1, 2"
FLOORS = {
    "gross_revenue": _INVOICES.format(by="billing_entity_id,", where="GROUP BY 1, 2, 3"),
    "invoice_collection": _INVOICES.format(by="payment_status,", where="GROUP BY 1, 2, 3"),
    "invoiced_usage": _FEES.format(by="billable_metric_id,", type="charge") + " GROUP BY 1, 2, 3",
    "mrr": _FEES.format(by="", type="subscription") + " GROUP BY 1, 2",
    "overdue_balance": _INVOICES.format(by="", where="WHERE payment_overdue GROUP BY 1, 2"),
    "usage monthly": _FEES.format(by="billable_metric_id,", type="charge") + " GROUP BY 1, 2, 3",
    "usage weekly": _EVENTS.format(length=7 * 86_400_000_000),
    "usage daily": _EVENTS.format(length=86_400_000_000),
}


def one_life(path: Path) -> None:
    """A file with one customer, billed for all months."""
    clock = ManualClock(START)
    with Billing(path, clock=clock, deliver=False) as billing:
        calls = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        storage = billing.billable_metrics.create(
            name="Storage", code="storage", aggregation_type="sum_agg", field_name="gb"
        )
        ranges: list[GraduatedRange] = [
            {"from_value": 0, "to_value": 10, "per_unit_amount": "1", "flat_amount": "0"},
            {"from_value": 11, "to_value": None, "per_unit_amount": "0.5", "flat_amount": "1"},
        ]
        billing.plans.create(
            name="Basic",
            code="basic",
            interval="monthly",
            pay_in_advance=False,
            amount_cents=4900,
            amount_currency="EUR",
            charges=[
                {"billable_metric_id": calls.id, "charge_model": "standard", "properties": {"amount": "0.10"}},
                {
                    "billable_metric_id": storage.id,
                    "charge_model": "graduated",
                    "properties": {"graduated_ranges": ranges},
                },
            ],
        )
        billing.customers.upsert(external_id="acme", currency="EUR", name="Acme", net_payment_term=30)
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="acme")
        day = START
        while day < NOW:
            clock.set(day)
            billing.run_due()
            if day.day % 3:
                for code, properties in (("calls", {}), ("storage", {"gb": day.day % 5})):
                    billing.events.create(
                        transaction_id=f"{code}-{day.date()}",
                        code=code,
                        external_subscription_id="acme",
                        timestamp=int(day.timestamp()),
                        properties=properties,
                    )
            day += timedelta(days=1)
        clock.set(NOW)
        billing.run_due()


# By table: the columns with a different value in each copy.
_COPIED = {
    "customers": ("id", "external_id", "slug"),
    "subscriptions": ("id", "external_id", "customer_id"),
    "invoices": ("id", "customer_id", "number"),
    "billing_periods": ("id", "invoice_id", "subscription_id", "external_subscription_id"),
    "fees": ("id", "invoice_id", "customer_id", "subscription_id", "external_subscription_id"),
    "events": ("id", "transaction_id", "external_subscription_id"),
}


def _copy(name: str, own: bool) -> str:
    """The SQL of a column of the copy number `i`."""
    if name == "payment_overdue":
        return f"{name} AND i % 10 = 0"
    if name == "sequential_id":
        return f"{name} + i"
    return f"{name} || printf('-%07x', i)" if own else name


def multiply(path: Path, customers: int) -> None:
    """Copy the customer and its records until there are this many."""
    connection = sqlite3.connect(path, isolation_level=None)
    functions(connection)
    for setting in ("journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF", "cache_size = -262144"):
        connection.execute(f"PRAGMA {setting}")
    for kind, name in connection.execute(
        "SELECT type, name FROM sqlite_schema WHERE type = 'trigger' OR (type = 'index' AND sql IS NOT NULL)"
    ).fetchall():
        connection.execute(f'DROP {kind.upper()} "{name}"')
    for table, copied in _COPIED.items():
        names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")') if row[1] != "sequence"]
        chosen = ", ".join(_copy(name, name in copied) for name in names)
        connection.execute(
            "WITH RECURSIVE numbers (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM numbers WHERE i < :last)"
            f" INSERT INTO {table} ({', '.join(names)}) SELECT {chosen} FROM {table}, numbers",
            {"last": customers - 1},
        )
    for listed in TABLES:
        connection.execute(f'DROP TABLE IF EXISTS "{listed.name}_counts"')
    connection.execute(f"PRAGMA user_version = {schema.VERSION - 1}")
    schema.bring_forward(connection)
    connection.execute("ANALYZE")
    connection.close()


def _seconds(act: Callable[[], object]) -> float:
    times = []
    for _ in range(_TIMES):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
        if times[-1] > 5:
            break
    return min(times)


def _rows(connection: sqlite3.Connection, sql: str, values: dict[str, int]) -> list[object]:
    return connection.execute(sql, values).fetchall()


def measure(path: Path) -> bool:
    """Print a line for each report; returns whether all keep their limit."""
    good = True
    with Billing(path, clock=ManualClock(NOW), deliver=False) as billing:
        analytics = billing.analytics
        reports: dict[str, Callable[[], object]] = {
            "gross_revenue": analytics.gross_revenue,
            "invoice_collection": analytics.invoice_collection,
            "invoiced_usage": analytics.invoiced_usage,
            "mrr": analytics.mrr,
            "overdue_balance": analytics.overdue_balance,
            "usage monthly": lambda: analytics.usage(time_granularity="monthly"),
            "usage weekly": lambda: analytics.usage(time_granularity="weekly"),
            "usage daily": lambda: analytics.usage(time_granularity="daily"),
        }
        plain = sqlite3.connect(path)
        count = plain.execute("SELECT COUNT(*) FROM invoices").fetchone()[0]
        customers = plain.execute("SELECT COUNT(*) FROM subscriptions").fetchone()[0]
        print(f"{count:,} invoices of {customers:,} subscriptions")
        since = {"since": int((NOW - timedelta(days=90)).timestamp()) * 1_000_000}
        for name, report in reports.items():
            sql = FLOORS[name]
            floor = _seconds(partial(_rows, plain, sql, since if ":since" in sql else {}))
            ours = _seconds(report)
            line = f"{name:20} {ours:8.3f} s   plain SQL {floor:6.3f} s   {ours / floor:6.1f} times"
            if name.startswith("usage"):
                line += f"   {1000 * ours / customers:6.2f} ms a subscription"
            else:
                good &= ours <= MOST_SECONDS
            print(line)
    return good


def main() -> None:
    """Measure, and fail if a report exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--customers", type=int, default=10_000)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = options.cache or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"analytics-{options.customers}.db"
        if not path.exists():
            one_life(path)
            multiply(path, options.customers)
        if not measure(path):
            raise SystemExit(f"a report over invoices takes more than {MOST_SECONDS} s")


if __name__ == "__main__":
    main()
