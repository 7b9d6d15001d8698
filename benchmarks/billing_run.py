"""Invoices a second of a monthly billing run, on one core, and how that changes with the number of subscriptions.

    python -m benchmarks.billing_run                     # 1,000 and 10,000 subscriptions
    python -m benchmarks.billing_run 1000 10000 50000    # any number of subscriptions
    python -m benchmarks.billing_run --steps 1000        # where the time goes, by step
    python -m benchmarks.billing_run --workers 2 5000    # this many processes on one file, against a single one
    python -m benchmarks.billing_run --ingest 200000 500 # how long ingested events wait while a subscription with so
                                                         # many events of a weighted sum is terminated by a request,
                                                         # and while another one and 500 small ones are billed
    python -m benchmarks.billing_run --kinds 100         # customers of eight kinds, each against the bulk floor
    python -m benchmarks.billing_run --logs 1000         # what the activity log adds to a run
    python -m benchmarks.billing_run --against main 300  # against another commit, alternating in one run

Each subscription has a different customer, all are on one plan: a monthly fee, three usage charges (standard on a sum,
graduated on a count, package on a unique count), one fixed charge, and 100 events in the month.

An invoice should cost at most 1.2 times as much with ten times the subscriptions, memory should stay flat during a run,
and at most 5 statements of an invoice should read its plan and its customer. An invoice should hold the write lock for
0.5 ms at most (CPU time, commits included). Each figure is shown beside its floor from the same run: the same invoices
priced by the same core and inserted in bulk (`bulk_floor`). An invoice of any kind of
customer should take at most 4.5 times the floor of the plainest.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, cast

from benchmarks.bulk_floor import copied, floor_of_run

from usagebill import Billing
from usagebill.fields import ChargeFields, EventFields, GraduatedRange
from usagebill.operations import customers, events, subscriptions
from usagebill.process.settings import Settings
from usagebill.runtime.ahead import Ahead
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.storage.ports import Transaction
from usagebill.storage.sqlite import engine

EVENTS_EACH = 100
START = datetime(2024, 1, 1, tzinfo=UTC)
ENDS = datetime(2024, 1, 31, tzinfo=UTC)
BILLED = datetime(2024, 2, 1, 1, tzinfo=UTC)
MOST_GROWTH = 1.2
MOST_READS = 5
LONGEST_WAIT = 20  # milliseconds
MOST_FOR_LOGS = 1.05
LOG_ROUNDS = 7
ROUNDS = 5
MOST_LOCKED = 0.5  # milliseconds
MOST_TIMES_FLOOR = 4.5
WORKER_ROUNDS = 2
CHECKPOINT_AFTER = 8  # commits
SHARED = ("customers", "billing_entities", "plans", "charges", "fixed_charges", "billable_metrics", "add_ons", "taxes")


def open_billing(file: Path, now: datetime, settings: Settings | None = None) -> Billing:
    return Billing(file, clock=ManualClock(now), settings=settings)


def price_list(billing: Billing) -> None:
    metrics = [
        billing.billable_metrics.create(name="Storage", code="storage", aggregation_type="sum_agg", field_name="gb"),
        billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg"),
        billing.billable_metrics.create(
            name="Users", code="users", aggregation_type="unique_count_agg", field_name="user"
        ),
    ]
    ranges: list[GraduatedRange] = [
        {"from_value": 0, "to_value": 10, "per_unit_amount": "0.10", "flat_amount": "1"},
        {"from_value": 11, "to_value": 50, "per_unit_amount": "0.05", "flat_amount": "0"},
        {"from_value": 51, "to_value": None, "per_unit_amount": "0.01", "flat_amount": "0"},
    ]
    prices: list[ChargeFields] = [
        {"charge_model": "standard", "properties": {"amount": "0.031"}},
        {"charge_model": "graduated", "properties": {"graduated_ranges": ranges}},
        {"charge_model": "package", "properties": {"amount": "5", "package_size": 10, "free_units": 5}},
    ]
    billing.add_ons.create(name="Support", code="support", amount_cents=1000, amount_currency="EUR")
    billing.taxes.create(name="VAT", code="vat", rate=20, applied_to_organization=True)
    billing.plans.create(
        name="Basic",
        code="basic",
        interval="monthly",
        amount_cents=4900,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=[{"billable_metric_id": metric.id, **price} for metric, price in zip(metrics, prices, strict=True)],
        fixed_charges=[
            {"add_on_code": "support", "charge_model": "standard", "units": 2, "properties": {"amount": "3"}}
        ],
    )


def events_of(customer: str, seed: int) -> Iterator[dict[str, object]]:
    step = int(timedelta(days=31).total_seconds()) // EVENTS_EACH
    first = int(START.timestamp()) + 1
    for number in range(EVENTS_EACH):
        code = ("storage", "calls", "users")[number % 3]
        yield {
            "transaction_id": f"{customer}-{number}",
            "code": code,
            "external_subscription_id": customer,
            "timestamp": first + number * step,
            "properties": {
                "storage": {"gb": f"{(number * 37 + seed) % 1000}.{number % 10}"},
                "calls": {},
                "users": {"user": f"u{(number * 7 + seed) % 20}"},
            }[code],
        }


def fill(billing: Billing, count: int) -> None:
    """Create customers with one subscription each, and the events of their first month."""
    price_list(billing)

    def add(work: Work, numbers: range) -> None:
        for number in numbers:
            name = f"c{number}"
            customers.upsert(work, customers.CustomerInput(external_id=name, name=name, currency="EUR"))
            subscriptions.create(
                work,
                subscriptions.SubscriptionInput(external_customer_id=name, plan_code="basic", external_id=name),
            )
        events.ingest(work, [event for number in numbers for event in events_of(f"c{number}", number)])

    for first in range(0, count, 200):
        billing.writing(lambda work, first=first: add(work, range(first, min(first + 200, count))))  # type: ignore[misc]
    billing.run_due()


def run(billing: Billing) -> tuple[float, int]:
    """The CPU seconds of a whole run, and its number of jobs."""
    start = time.process_time()
    done = 0
    while some := billing._system.run_batch(BILLED):
        done += some
    return time.process_time() - start, done


class Lock:
    """The seconds that each commit of a store holds the write lock (CPU time) and has waited for it (wall time), from
    now on.

    SQLite checkpoints after it has released the lock. Here that happens after some commits, and is not counted.
    """

    def __init__(self, billing: Billing) -> None:
        self.held: list[float] = []
        self.waited = 0.0
        store: Any = billing.store
        self._commit, self._begin, self._writer = store._commit, engine._begin, store._writer
        self._began = 0.0
        store._commit, engine._begin = self._timed, self._waiting
        self._writer.execute("PRAGMA wal_autocheckpoint = 0")

    def _waiting(self, connection: Any) -> bool:
        start = time.perf_counter()
        has_waited = self._begin(connection)
        self.waited += time.perf_counter() - start
        self._began = time.thread_time()
        return has_waited

    def _timed(self, writes: list[Any]) -> None:
        try:
            self._commit(writes)
        finally:
            self.held.append(time.thread_time() - self._began)
            if len(self.held) % CHECKPOINT_AFTER == 0:
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def each(self, invoices: int) -> float:
        """The milliseconds that an invoice holds the lock."""
        return sum(self.held) / invoices * 1000


def own_mib() -> float:
    """The private memory of the process, without mapped pages of the file."""
    match = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None, "needs Linux 4.5 or later"
    return int(match[1]) / 1024


def invoices(billing: Billing) -> int:
    return billing.invoices.list(per_page=1).total_count


def statements_of_one_invoice(billing: Billing) -> Counter[str]:
    """The number of times that one invoice's job reads or writes each table."""
    seen: list[str] = []
    writer = billing.store._writer  # type: ignore[attr-defined]
    writer.set_trace_callback(seen.append)

    def two(tx: Transaction) -> None:
        # The jobs of a batch share a transaction: the second reuses what the first has read.
        for _ in range(2):
            seen.clear()
            job = tx.jobs.claim(BILLED)
            assert job is not None
            tx.savepoint(lambda job=job: billing._system._do(tx, job, Ahead()))  # type: ignore[misc]

    billing.store.write(None, two)
    writer.set_trace_callback(None)
    found: Counter[str] = Counter()
    for statement in seen:
        match = re.search(
            r'(SELECT).*? FROM "?(\w+)|(INSERT) INTO "?(\w+)|(UPDATE) "?(\w+)|(DELETE) FROM "?(\w+)', statement
        )
        words = [word for word in match.groups() if word] if match else [statement.split()[0], ""]
        found[" ".join(words)] += 1
    return found


STEPS = (
    ("usage fees: all", "rating/fees/usage.py", "period_usage"),
    ("  events counted by the store", "storage/sqlite/events", "tallies"),
    ("  pricing", "core/pricing/__init__.py", "price"),
    ("fixed charge fees", "fees/fixed_charges.py", "fixed_charge_fees"),
    ("subscription fee", "fees/subscription.py", "subscription_fee"),
    ("coupons, taxes, credits, totals", "rating/settlement.py", "settle"),
    ("issuing: number, dates, messages", "invoices/issue.py", "issue"),
    ("next run scheduled", "subscriptions/schedule.py", "schedule_billing"),
    ("records read", "sqlite/transaction.py", "_rows"),
    ("records written", "sqlite/transaction.py", "insert"),
    ("definitions read", "queries/plans.py", "plan_definition"),
)


def print_steps(count: int, functions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        billing = open_billing(Path(folder) / "billing.db", START)
        fill(billing, count)
        statements = statements_of_one_invoice(billing)
        for name, times in sorted(statements.items()):
            print(f"  {name:40} {times:4}")
        reads = sum(times for name, times in statements.items() if name.split(" ")[-1] in SHARED)
        kept = "keeps" if reads <= MOST_READS else "MISSES"
        print(f"statements of one invoice: {statements.total()}; of its plan and customer {reads}: {kept} {MOST_READS}")
        profile = cProfile.Profile()
        profile.enable()
        run(billing)
        profile.disable()
        stats = pstats.Stats(profile)
        total = stats.total_tt  # type: ignore[attr-defined]
        known = stats.stats  # type: ignore[attr-defined]
        print(f"{'step (within each other where indented)':44} {'share':>6}")
        for label, file, function in STEPS:
            rows = [row for (path, _, name), row in known.items() if name == function and file in path]
            if not rows:
                raise SystemExit(f"no step of the run is {function} of {file}")
            spent = sum(row[3] for row in rows)
            print(f"{label:44} {spent / total:6.1%}")
        if functions:
            stats.sort_stats("tottime").print_stats(functions)
            stats.sort_stats("cumtime").print_stats(functions * 2)


def measure(count: int) -> float:
    """Print the cost of a run over this many subscriptions; returns the seconds per invoice."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "billing.db"
        billing = open_billing(file, START)
        start = time.perf_counter()
        fill(billing, count)
        filled = time.perf_counter() - start
        copied(file, Path(folder) / "before.db")
        before = own_mib()
        lock = Lock(billing)
        spent, _ = run(billing)
        grown = own_mib() - before
        made = invoices(billing)
        assert made == count, f"{made} invoices for {count} subscriptions"
        size = file.stat().st_size / 2**20
        floor, floor_held = floor_of_run(billing, Path(folder) / "before.db", BILLED)
        billing.close()
    print(
        f"{count:8,} subscriptions  {made / spent:7,.0f} invoices/s  {spent / made * 1000:6.2f} ms each"
        f"  memory +{grown:.0f} MiB  (filled in {filled:.0f} s, file {size:,.0f} MiB)"
    )
    print(f"         an invoice in bulk takes {floor * 1000:.2f} ms: {spent / made / floor:.1f} times less")
    kept = "keeps" if lock.each(made) <= MOST_LOCKED else "MISSES"
    print(
        f"         an invoice holds the lock for {lock.each(made):.2f} ms, in bulk for {floor_held * 1000:.2f}:"
        f" {kept} {MOST_LOCKED}; load {os.getloadavg()[0]:.1f}"
    )
    return spent / made


KINDS = ("plain", "filters and groups", "coupon", "wallet", "webhook", "email", "grace period", "in advance")


def make_kind(billing: Billing, kind: str, count: int) -> None:
    """Make the customers of a filled file customers of this kind."""
    names = [f"c{number}" for number in range(count)]
    if kind == "filters and groups":
        metric = billing.billable_metrics.create(
            name="Traffic",
            code="calls-by-zone",
            aggregation_type="count_agg",
            filters=[{"key": "zone", "values": ["eu", "us"]}],
        )
        prices: list[dict[str, Any]] = [
            {"charge_model": "standard", "properties": {"amount": "0.2", "pricing_group_keys": ["zone"]}},
            {
                "charge_model": "standard",
                "properties": {"amount": "1"},
                "filters": [{"values": {"zone": ["eu"]}, "properties": {"amount": "0.5"}}],
            },
        ]
        for number, price in enumerate(prices):
            billing.plans.create_charge("basic", billable_metric_id=metric.id, code=f"zone-{number}", **price)
        for name in names:
            billing.events.ingest(
                [
                    {
                        "transaction_id": f"{name}-{zone}",
                        "code": "calls-by-zone",
                        "external_subscription_id": name,
                        "timestamp": START.timestamp() + 1,
                        "properties": {"zone": zone},
                    }
                    for zone in ("eu", "us")
                ]
            )
    elif kind == "coupon":
        billing.coupons.create(
            name="Off",
            code="off",
            coupon_type="percentage",
            percentage_rate="10",
            frequency="forever",
            expiration="no_expiration",
        )
        for name in names:
            billing.applied_coupons.apply(external_customer_id=name, coupon_code="off")
    elif kind == "wallet":
        for name in names:
            billing.wallets.create(external_customer_id=name, rate_amount="1", currency="EUR", granted_credits="10")
    elif kind == "webhook":
        billing.webhook_endpoints.create(webhook_url="https://acme.example/hooks")
    elif kind == "email":
        (entity,) = billing.billing_entities.list()
        billing.billing_entities.update(entity.code, email="b@lumen.example", email_settings=["invoice.finalized"])
        for name in names:
            billing.customers.upsert(external_id=name, email=f"{name}@acme.example")
    elif kind == "grace period":
        for name in names:
            billing.customers.upsert(external_id=name, billing_configuration={"invoice_grace_period": 3})
    elif kind == "in advance":
        billing.plans.update("basic", pay_in_advance=True)


def measure_kinds(count: int) -> None:
    """The cost of an invoice for each kind of customer, as a multiple of the bulk floor of the plainest kind."""
    floor = 0.0
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            file, mailer = Path(folder) / "billing.db", cast(Any, object())
            with Billing(file, clock=ManualClock(START), deliver=False, mailer=mailer) as billing:
                fill(billing, count)
                make_kind(billing, kind, count)
                while billing._system.run_batch():
                    pass
                copied(file, Path(folder) / "before.db")
                before, lock = invoices(billing), Lock(billing)
                spent, _ = run(billing)
                made = invoices(billing) - before
                if not floor:
                    floor = floor_of_run(billing, Path(folder) / "before.db", BILLED)[0]
        assert made >= count, f"{made} invoices of {count} customers"
        times = spent / made / floor
        print(
            f"{kind:20} {spent / made * 1000:6.2f} ms an invoice, {lock.each(made):6.2f} of them under the lock,"
            f" {times:5.1f} times the floor: {'keeps' if times <= MOST_TIMES_FLOOR else 'MISSES'} {MOST_TIMES_FLOOR}"
        )
    print(f"floor {floor * 1000:.2f} ms an invoice; load {os.getloadavg()[0]:.1f}")


def measure_against(commit: str, count: int) -> None:
    """The ratio of invoices a second to another commit's: rounds of both alternate, the best of each counts."""
    here = Path(__file__).parents[1]
    git = ["git", "-C", str(here), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "other"
        subprocess.run([*git, "add", "--quiet", "--detach", str(there), commit], check=True)
        try:
            spent: dict[str, list[float]] = {commit: [], "this": []}
            for _ in range(ROUNDS):
                for name, tree in ((commit, there), ("this", here)):
                    spent[name].append(_spent_in(tree, count))
        finally:
            subprocess.run([*git, "remove", "--force", str(there)], check=True)
    for name, each in spent.items():
        print(f"{name:12} best {min(each):5.2f} ms an invoice, median {median(each):5.2f}")
    print(f"{min(spent[commit]) / min(spent['this']):.2f} times the invoices a second; load {os.getloadavg()[0]:.1f}")


def _spent_in(tree: Path, count: int) -> float:
    """The milliseconds of CPU time that an invoice takes with the code of this tree."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree)))}
    command = [sys.executable, "-m", "benchmarks.billing_run", str(count)]
    shown = subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True, text=True).stdout
    match = re.search(r"([0-9.]+) ms each", shown)
    assert match is not None, shown
    return float(match[1])


def measure_logs(count: int) -> None:
    """The ratio of a run's time with the activity log to that without: rounds of both alternate, the median counts."""
    settings = {"without": Settings(activity_log_days=0), "with": Settings()}
    spent: dict[str, list[float]] = {name: [] for name in settings}
    for _ in range(LOG_ROUNDS):
        for name, chosen in settings.items():
            with (
                tempfile.TemporaryDirectory() as folder,
                open_billing(Path(folder) / "billing.db", START, chosen) as billing,
            ):
                fill(billing, count)
                spent[name].append(run(billing)[0])
                logged = billing.activity_logs.list(activity_types=["invoice.created"], per_page=1).total_count
                assert logged == (count if name == "with" else 0), f"{logged} of {count} invoices are logged"
    for name, seconds in spent.items():
        print(f"{name:8} the log: {median(seconds) / count * 1000:6.2f} ms an invoice")
    ratio = median(more / less for more, less in zip(spent["with"], spent["without"], strict=True))
    kept = "keeps" if ratio <= MOST_FOR_LOGS else "MISSES"
    print(f"the activity log makes a run cost {ratio:.3f} times as much: {kept} {MOST_FOR_LOGS}")


def started(file: Path, what: str = "--run") -> subprocess.Popen[bytes]:
    """A separate process that does the run, ends a subscription (`--end`), or waits for a line and then works
    (`--work`)."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, what, str(file)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def work(file: Path) -> None:
    """Do the run with others, from when a line is read; print the share of this process."""
    with open_billing(file, BILLED) as billing:
        lock = Lock(billing)
        print("ready", flush=True)
        sys.stdin.readline()
        spent, jobs = run(billing)
        print(json.dumps({"jobs": jobs, "spent": spent, "held": sum(lock.held), "waited": lock.waited}))


def measure_workers(filled: Path, count: int, workers: int) -> float:
    """This many processes on one file: invoices a second of wall time from when all are ready. Checks that no invoice
    comes twice.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "billing.db"
        copied(filled, file)
        running = [started(file, "--work") for _ in range(workers)]
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        start = time.perf_counter()
        for process in running:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
        shares = [json.loads(process.communicate()[0]) for process in running]
        taken = time.perf_counter() - start
        with open_billing(file, BILLED) as billing:
            made = invoices(billing)
    assert made == count, f"{made} invoices for {count} subscriptions"
    spent, held, waited = (sum(share[name] for share in shares) / made * 1000 for name in ("spent", "held", "waited"))
    print(
        f"{workers} workers: {made:,} invoices in {taken:.1f} s, {made / taken:,.0f}/s; an invoice takes {spent:.2f} ms"
        f" of CPU time, {held:.2f} of them under the lock, and waits {waited:.2f} ms for it;"
        f" jobs of each: {[share['jobs'] for share in shares]}; load {os.getloadavg()[0]:.1f}"
    )
    return made / taken


def print_gain(count: int, workers: int) -> None:
    """Print the gain of several workers over one, alternating on copies of one file; the best of each counts."""
    speeds: dict[int, list[float]] = {1: [], workers: []}
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / "filled.db"
        with open_billing(filled, START) as billing:
            fill(billing, count)
        for _ in range(WORKER_ROUNDS):
            for number in speeds:
                speeds[number].append(measure_workers(filled, count, number))
    gain = max(speeds[workers]) / max(speeds[1])
    print(f"{workers} workers do {gain:.2f} times what one does")


def fill_heavy(billing: Billing, count: int) -> None:
    """Two more customers, each with this many changes of a weighted sum: the most expensive aggregation."""
    level = billing.billable_metrics.create(
        name="Level", code="level", aggregation_type="weighted_sum_agg", field_name="value", weighted_interval="seconds"
    )
    billing.plans.create(
        name="Heavy",
        code="heavy",
        interval="monthly",
        amount_cents=0,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=[{"billable_metric_id": level.id, "charge_model": "standard", "properties": {"amount": "1"}}],
    )
    first = int(START.timestamp()) + 1
    for name in ("heavy", "leaving"):
        billing.customers.upsert(external_id=name, currency="EUR")
        billing.subscriptions.create(external_customer_id=name, plan_code="heavy", external_id=name)
        for start in range(0, count, 10_000):
            billing.events.ingest(
                {
                    "transaction_id": f"{name}-{number}",
                    "code": "level",
                    "external_subscription_id": name,
                    "timestamp": first + number * 2_500_000 // count,
                    "properties": {"value": 1 if number % 2 else -1},
                }
                for number in range(start, min(start + 10_000, count))
            )


def waits(billing: Billing, name: str, going_on: Callable[[int], bool]) -> list[float]:
    """The milliseconds per event, sent one after the other during other work."""
    taken: list[float] = []
    while going_on(len(taken)):
        event: EventFields = {
            "transaction_id": f"{name}-{len(taken)}",
            "code": "calls",
            "external_subscription_id": "c0",
            "timestamp": billing.clock.now().timestamp(),
        }
        start = time.perf_counter()
        billing.events.ingest([event])
        taken.append((time.perf_counter() - start) * 1000)
        time.sleep(0.002)
    return sorted(taken)


def print_waits(name: str, taken: list[float]) -> float:
    p99 = taken[min(len(taken) - 1, len(taken) * 99 // 100)]
    print(
        f"{name:18} {len(taken):6,} events: p50 {taken[len(taken) // 2]:6.2f} ms, p99 {p99:6.2f},"
        f" longest {taken[-1]:7.2f}"
    )
    return p99


def measure_ingest(count: int, heavy: int) -> None:
    """The time that an ingested event waits while another process terminates a subscription, and while it bills."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "billing.db"
        with open_billing(file, START) as billing:
            fill(billing, count)
            fill_heavy(billing, heavy)
        with open_billing(file, ENDS) as billing:
            print_waits("nothing goes on", waits(billing, "quiet", lambda sent: sent < 1_000))
            ending = started(file, "--end")
            end_p99 = print_waits("an end goes on", waits(billing, "end", lambda _: ending.poll() is None))
            made = invoices(billing)
            assert made == 1, f"{made} invoices for one end"
        with open_billing(file, BILLED) as billing:
            process = started(file)
            p99 = print_waits("a run goes on", waits(billing, "busy", lambda _: process.poll() is None))
            made = invoices(billing)
    assert made == count + 2, f"{made} invoices for {count + 2} subscriptions"
    for name, longest in (("a request", end_p99), ("a run", p99)):
        kept = "keeps" if longest <= LONGEST_WAIT else "MISSES"
        print(f"beside {name}, 99 of 100 events wait at most {longest:.1f} ms: {kept} {LONGEST_WAIT}")


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("counts", nargs="*", type=int, default=[1_000, 10_000])
    reader.add_argument("--steps", action="store_true", help="profile one run of the first count instead")
    reader.add_argument("--functions", type=int, default=0, help="with --steps: the functions that take longest")
    reader.add_argument("--workers", type=int, default=0, help="this many processes on one file instead")
    reader.add_argument(
        "--ingest", type=int, default=0, metavar="EVENTS", help="what ingestion waits for a run instead"
    )
    reader.add_argument("--kinds", action="store_true", help="customers of eight kinds instead")
    reader.add_argument("--logs", action="store_true", help="runs with the activity log and without, in turn, instead")
    reader.add_argument("--against", metavar="COMMIT", help="beside another commit, in turn, instead")
    reader.add_argument("--run", metavar="FILE", help=argparse.SUPPRESS)
    reader.add_argument("--end", metavar="FILE", help=argparse.SUPPRESS)
    reader.add_argument("--work", metavar="FILE", help=argparse.SUPPRESS)
    arguments = reader.parse_args()
    if arguments.run:
        with open_billing(Path(arguments.run), BILLED) as billing:
            print(run(billing)[1])
    elif arguments.work:
        work(Path(arguments.work))
    elif arguments.end:
        with open_billing(Path(arguments.end), ENDS) as billing:
            billing.subscriptions.terminate("leaving")
    elif arguments.steps:
        print_steps(arguments.counts[0], arguments.functions)
    elif arguments.workers:
        print_gain(arguments.counts[0], arguments.workers)
    elif arguments.against:
        measure_against(arguments.against, arguments.counts[0])
    elif arguments.kinds:
        measure_kinds(arguments.counts[0])
    elif arguments.logs:
        measure_logs(arguments.counts[0])
    elif arguments.ingest:
        measure_ingest(arguments.counts[0], arguments.ingest)
    else:
        each = [measure(count) for count in arguments.counts]
        growth = each[-1] / each[0]
        print(
            f"an invoice costs {growth:.2f} times as much with {arguments.counts[-1] // arguments.counts[0]} times the"
            f" subscriptions: {'keeps' if growth <= MOST_GROWTH else 'MISSES'} {MOST_GROWTH}"
        )


if __name__ == "__main__":
    main()
