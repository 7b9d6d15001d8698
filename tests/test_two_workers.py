"""Two worker processes on one database: each job is done once, and nothing is numbered or used up twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.postgresql import server_url
from tests.scenarios import plan_fields
from usagebill import Billing
from usagebill.core.coupons import AppliedCoupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.invoices.records import Invoice
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.postgresql.migration import migrate

pytestmark = pytest.mark.slow

START = datetime(2024, 1, 1, 9, tzinfo=UTC)
LATER = datetime(2024, 3, 5, tzinfo=UTC)
CUSTOMERS = 25

# A worker that waits for a line, so that both begin at once, and says how many jobs it did.
PROGRAM = """
import sys
from datetime import datetime
from usagebill import Billing
from usagebill.runtime.clock import ManualClock
with Billing(sys.argv[1], clock=ManualClock(datetime.fromisoformat(sys.argv[2])), deliver=False) as billing:
    print("ready", flush=True)
    sys.stdin.readline()
    failed = []
    print(billing.run_due(on_failure=lambda job, problem: failed.append(problem)), len(failed))
"""


def prepared(path: Path) -> int:
    """A file of two months in which nothing was billed, and how many invoices are due in it."""
    with Billing(path, clock=ManualClock(START), deliver=False) as billing:
        for code, interval in (("weekly", "weekly"), ("monthly", "monthly")):
            billing.plans.create(**plan_fields(code=code, interval=interval, amount_cents=1000))
        billing.add_ons.create(name="Setup", code="setup", amount_cents=5000, amount_currency="EUR")
        billing.coupons.create(
            name="25 off",
            code="off",
            coupon_type="fixed_amount",
            amount_cents=2500,
            amount_currency="EUR",
            frequency="once",
            expiration="no_expiration",
        )
        for number in range(CUSTOMERS):
            customer = f"customer-{number}"
            billing.customers.upsert(external_id=customer, currency="EUR")
            setup = billing.invoices.create_one_off(
                external_customer_id=customer, currency="EUR", fees=[{"add_on_code": "setup", "units": 1}]
            )
            (fee,) = (
                billing.fees.list().items if number == 0 else billing.fees.list(external_customer_id=customer).items
            )
            billing.credit_notes.create(
                invoice_id=setup.id,
                credit_amount_cents=3300,
                reason="other",
                items=[{"fee_id": fee.id, "amount_cents": 3300}],
            )
            billing.applied_coupons.apply(external_customer_id=customer, coupon_code="off")
            for plan in ("weekly", "monthly"):
                billing.subscriptions.create(
                    external_customer_id=customer, external_id=f"{plan}-{number}", plan_code=plan
                )
    # Mondays from 8 January to 4 March, 1 February and 1 March, and the invoice for the setup.
    return CUSTOMERS * (9 + 2 + 1)


def worked(path: Path | str, processes: int) -> list[tuple[int, int]]:
    """How many jobs each of the workers tried, and how many failed."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), LATER.isoformat()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(processes)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    answers = [worker.communicate()[0].split() for worker in workers]
    return [(int(tried), int(failed)) for tried, failed in answers]


def amounts(work: Reader) -> list[tuple[str, int]]:
    return sorted(
        (invoice.customer_id, invoice.total_amount_cents)
        for invoice in work.tx.find(Invoice, eq("status", "finalized"))
    )


@pytest.fixture(params=["file", "postgresql"])
def move(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Path | str]]:
    """Brings a file to where two workers are to work on it."""
    if request.param == "file":
        yield lambda file: file
        return
    with temporary_database(server_url()) as url:

        def moved(file: Path) -> str:
            store = PostgresStore(url, migrating=True)
            migrate(file, store, lambda table, count: None)
            store.close()
            return url

        yield moved


def test_two_workers_do_together_what_one_does(tmp_path: Path, move: Callable[[Path], Path | str]) -> None:
    alone = tmp_path / "alone.db"
    due = prepared(alone)
    copied = tmp_path / "billing.db"
    copied.write_bytes(alone.read_bytes())
    path = move(copied)
    (done,) = worked(alone, 1)
    counts_of_both = worked(path, 2)
    assert sum(tried for tried, _ in counts_of_both) == done[0]
    assert [failed for _, failed in counts_of_both] == [0, 0]
    with Billing(path, deliver=False) as billing, Billing(alone, deliver=False) as single:
        assert billing.audit().findings == ()
        assert billing.reading(lambda work: work.tx.count(Invoice, eq("status", "finalized"))) == due
        assert billing.reading(amounts) == single.reading(amounts)
        taken = {
            kind: billing.reading(
                lambda work, kind=kind: sum(  # type: ignore[misc]
                    line.amount_cents
                    for invoice in work.tx.find(Invoice)
                    for line in invoice.credits
                    if line.item_type == kind
                )
            )
            for kind in ("coupon", "credit_note")
        }
        assert taken == {"coupon": 2500 * CUSTOMERS, "credit_note": 3300 * CUSTOMERS}
        assert {note.balance_amount_cents for note in billing.reading(lambda work: work.tx.find(CreditNote))} == {0}
        assert {applied.status for applied in billing.reading(lambda work: work.tx.find(AppliedCoupon))} == {
            "terminated"
        }
