"""Wallets: refreshes of ongoing balances against `current_usage` of the same subscription, and invoices paid from them.

1,000 customers, each with 3 wallets and 2 subscriptions of 5 charges that had 1,000 events in the period. Measured are
refreshes a second, the time from an event to its fresh balance, how a refresh grows with the events of a subscription,
and the cost of an invoice paid from 3 wallets beside one paid from none.

    python -m benchmarks.wallets [customers]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from usagebill.billing import Billing
from usagebill.core.customers import Customer
from usagebill.fields import ChargeFields, EventFields
from usagebill.operations.wallet_ledger import want_refresh
from usagebill.rating.current_usage import UsageOptions, current
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work

START = datetime(2024, 3, 1, tzinfo=UTC)
LATER = datetime(2024, 4, 1, 1, tzinfo=UTC)
CUSTOMERS = 1000
EVENTS = 1000
CHARGES = 5
SIZES = (1000, 10_000, 100_000)
LOADED_AT_ONCE = 10_000
ROUNDS = 5
SAMPLE = 200
MOST_INVOICE_RATIO = 1.3


def events(subscription: str, count: int, first: int = 0) -> Iterable[EventFields]:
    """`count` events of a subscription, spread over its metrics and the month."""
    for number in range(first, first + count):
        yield {
            "transaction_id": f"{subscription}-{number}",
            "code": f"metric-{number % CHARGES}",
            "external_subscription_id": subscription,
            "timestamp": (START + timedelta(minutes=number % 40_000)).timestamp(),
            "properties": {"amount": number % 97},
        }


def sell(billing: Billing) -> None:
    """A plan of 5 charges: sums and counts at plain prices."""
    charges: list[ChargeFields] = []
    for number in range(CHARGES):
        counts = number % 2 == 0
        metric = billing.billable_metrics.create(
            name=f"Metric {number}",
            code=f"metric-{number}",
            aggregation_type="count_agg" if counts else "sum_agg",
            field_name=None if counts else "amount",
        )
        charges.append({"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "0.013"}})
    plan: dict[str, Any] = {
        "interval": "monthly",
        "amount_cents": 1000,
        "amount_currency": "EUR",
        "pay_in_advance": False,
    }
    billing.plans.create(name="Plan", code="plan", **plan, charges=charges)


def add_customer(billing: Billing, name: str, *, wallets: int, events_each: int, credits: str = "1000") -> None:
    """A customer with 2 subscriptions, and wallets with this many credits each."""
    billing.customers.upsert(external_id=name, currency="EUR")
    for priority in range(1, wallets + 1):
        billing.wallets.create(
            external_customer_id=name, rate_amount="1", currency="EUR", priority=priority, granted_credits=credits
        )
    for number in range(2):
        subscription = f"{name}-{number}"
        billing.subscriptions.create(external_customer_id=name, external_id=subscription, plan_code="plan")
        for first in range(0, events_each, LOADED_AT_ONCE):
            billing.events.ingest(events(subscription, min(LOADED_AT_ONCE, events_each - first), first))


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def best(act: Callable[[], object]) -> float:
    return min(timed(act) for _ in range(ROUNDS))


def usage_seconds(billing: Billing, customer: str) -> float:
    """Seconds that `current_usage` of both subscriptions takes."""

    def ask() -> None:
        for number in range(2):
            options = UsageOptions(external_subscription_id=f"{customer}-{number}")
            billing.reading(lambda reader, options=options: current(reader, customer, options))  # type: ignore[misc]

    return best(ask)


def fresh_seconds(billing: Billing, customer: str, number: int) -> float:
    """The seconds from an event until the worker has stored balances that include it."""
    (event,) = events(f"{customer}-0", 1, 1_000_000 + number)

    def follow() -> None:
        billing.events.ingest([event])
        billing.run_due(immediate=True)

    return timed(follow)


def refreshes(folder: Path, customers: int) -> None:
    with Billing(folder / "many.db", clock=ManualClock(START), deliver=False) as billing:
        sell(billing)
        for number in range(customers):
            add_customer(billing, f"customer-{number}", wallets=3, events_each=EVENTS)
        billing.run_due()
        names = [f"customer-{number % customers}" for number in range(SAMPLE)]
        usage = statistics.median(usage_seconds(billing, name) for name in names[:20])
        fresh = sorted(fresh_seconds(billing, name, number) for number, name in enumerate(names))
        p50, p99 = fresh[len(fresh) // 2], fresh[len(fresh) * 99 // 100]
        print(
            f"{customers:,} customers with 3 wallets and 2 subscriptions of {CHARGES} charges, {EVENTS:,} events each"
        )
        print(f"  current usage of both subscriptions   {usage * 1000:7.1f} ms")
        print(f"  event to fresh balances, p50          {p50 * 1000:7.1f} ms   ratio {p50 / usage:5.2f}")
        print(f"  event to fresh balances, p99          {p99 * 1000:7.1f} ms   ratio {p99 / usage:5.2f}")
        for number in range(customers):
            billing.events.ingest(events(f"customer-{number}-1", 1, 2_000_000))
        took = timed(lambda: billing.run_due(immediate=True))
        print(
            f"  refreshes a second, one worker        {customers / took:7.0f}   ratio {took / customers / usage:5.2f}"
        )


def growth(folder: Path) -> None:
    with Billing(folder / "growth.db", clock=ManualClock(START), deliver=False) as billing:
        sell(billing)
        print("a refresh after one event, by the events before it in each subscription")
        for size in SIZES:
            name = f"with-{size}"
            add_customer(billing, name, wallets=3, events_each=size)
            billing.run_due()
            usage = usage_seconds(billing, name)
            fresh = min(fresh_seconds(billing, name, number) for number in range(ROUNDS))
            print(
                f"  {size:9,} events   refresh {fresh * 1000:8.1f} ms   current usage {usage * 1000:8.1f} ms"
                f"   ratio {fresh / usage:5.2f}"
            )


def billed(folder: Path, wallets: int, customers: int, attempt: int) -> tuple[float, float]:
    """CPU seconds of an invoice that the customer's wallets do not cover, including the refresh that follows, and of
    that refresh.
    """
    clock = ManualClock(START)
    path = folder / f"invoices-{wallets}-{attempt}.db"
    with Billing(path, clock=clock, deliver=False) as billing:
        sell(billing)
        for number in range(customers):
            add_customer(billing, f"customer-{number}", wallets=wallets, events_each=100, credits="8")
        # The very first invoice stores the seller's copy for all others.
        billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
        billing.customers.upsert(external_id="first", currency="EUR")
        billing.invoices.create_one_off(external_customer_id="first", currency="EUR", fees=[{"add_on_code": "setup"}])
        billing.run_due()
        clock.set(LATER)
        started = time.process_time()
        billing.run_due()
        done = time.process_time()
        billing.writing(refresh_all)
        refreshing = time.process_time()
        billing.run_due()
        return (done - started) / customers, (time.process_time() - refreshing) / customers


def refresh_all(work: Work) -> None:
    for customer in work.tx.find(Customer):
        want_refresh(work, customer.id)


def invoices(folder: Path, customers: int) -> None:
    without, _ = min(billed(folder, 0, customers, attempt) for attempt in range(2))
    followed, refresh = min(billed(folder, 3, customers, attempt) for attempt in range(2))
    paid = followed - refresh
    print(f"an invoice over 2 subscriptions, processor time, {customers:,} customers (at most {MOST_INVOICE_RATIO})")
    print(
        f"  without wallets {without * 1000:6.2f} ms   paid by 3 wallets {paid * 1000:6.2f} ms"
        f"   ratio {paid / without:5.2f}"
        f"   with the refresh that follows {followed * 1000:6.2f} ms   ratio {followed / without:5.2f}"
    )


def main() -> None:
    customers = int(sys.argv[1]) if len(sys.argv) > 1 else CUSTOMERS
    with tempfile.TemporaryDirectory() as folder:
        invoices(Path(folder), min(customers, 200))
        refreshes(Path(folder), customers)
        growth(Path(folder))


if __name__ == "__main__":
    main()
