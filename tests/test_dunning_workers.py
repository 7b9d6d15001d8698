"""Dunning by worker processes: each attempt is made once, with two workers, and when one is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from usagebill import Billing
from usagebill.core.customers import Customer
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.fields import DunningThresholdFields
from usagebill.runtime.clock import ManualClock

pytestmark = pytest.mark.slow

START = datetime(2025, 1, 1, 10, tzinfo=UTC)
LATER = datetime(2025, 1, 20, tzinfo=UTC)
CUSTOMERS = 30
ATTEMPTS = 3
EXPECTED = ["2025-01-04 00:45", "2025-01-06 01:45", "2025-01-08 02:45"]

PROGRAM = """
import sys
from datetime import datetime
from usagebill import Billing
from usagebill.runtime.clock import ManualClock
with Billing(sys.argv[1], clock=ManualClock(datetime.fromisoformat(sys.argv[2])), deliver=False) as billing:
    print("ready", flush=True)
    sys.stdin.readline()
    billing.run_due(strict=True)
"""


@pytest.fixture
def neglected(database: str) -> str:
    """A database without a worker for weeks: customers with two overdue invoices each, and a campaign."""
    with Billing(database, clock=ManualClock(START), deliver=False) as billing:
        threshold: DunningThresholdFields = {"amount_cents": 2_000, "currency": "EUR"}
        billing.dunning_campaigns.create(
            name="Late", code="late", days_between_attempts=2, max_attempts=ATTEMPTS, thresholds=[threshold]
        )
        billing.billing_entities.update("default", applied_dunning_campaign_code="late", net_payment_term=2)
        billing.add_ons.create(name="Setup", code="setup", amount_cents=1_000, amount_currency="EUR")
        for number in range(CUSTOMERS):
            billing.customers.upsert(external_id=f"customer-{number}", currency="EUR")
            for _ in range(2):
                billing.invoices.create_one_off(
                    external_customer_id=f"customer-{number}", fees=[{"add_on_code": "setup"}]
                )
    return database


def worker(database: str) -> subprocess.Popen[str]:
    """A worker that has opened the database and waits for a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, database, LATER.isoformat()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def requests(database: str) -> list[PaymentRequest]:
    with Billing(database, clock=ManualClock(LATER), deliver=False, read_only=True) as billing:
        return billing.reading(lambda work: work.tx.find(PaymentRequest))


def check(database: str) -> None:
    """Every customer was asked at each instant at which it was to be asked, once, for both of its invoices."""
    with Billing(database, clock=ManualClock(LATER), deliver=False, read_only=True) as billing:
        customers = billing.reading(lambda work: [customer.id for customer in work.tx.find(Customer)])
        parts = billing.reading(
            lambda work: Counter(part.payment_request_id for part in work.tx.find(RequestedInvoice))
        )
        assert billing.audit().found == 0
    made = requests(database)
    by_customer = {
        id: sorted(f"{request.created_at:%Y-%m-%d %H:%M}" for request in made if request.customer_id == id)
        for id in customers
    }
    assert by_customer == dict.fromkeys(customers, EXPECTED)
    assert {request.amount_cents for request in made} == {2_000}
    assert parts == {request.id: 2 for request in made}


def test_two_workers_ask_each_customer_once_at_a_time(neglected: str) -> None:
    with worker(neglected) as first, worker(neglected) as second:
        begin(first)
        begin(second)
        assert (first.wait(timeout=120), second.wait(timeout=120)) == (0, 0)
    check(neglected)


def test_a_worker_that_is_killed_leaves_its_attempts_to_the_next_one(neglected: str) -> None:
    chance = random.Random(20250101)
    for _ in range(4):
        with worker(neglected) as process:
            begin(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=chance.uniform(0.02, 0.3))
            process.kill()
    with worker(neglected) as last:
        begin(last)
        assert last.wait(timeout=120) == 0
    check(neglected)
