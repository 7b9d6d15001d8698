"""Wallets under concurrency: simultaneous clients, two workers, workers that die. No credit is lost or repeated."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenarios import charge_on, plan_fields
from tests.service import Service
from usagebill import Billing
from usagebill.core.invoices.records import Invoice
from usagebill.core.wallet_transactions import TransactionSource, WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.fields import RuleFields
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import ne

pytestmark = pytest.mark.slow

CLIENTS = 2
ROUNDS = 15


class Client(threading.Thread):
    """Grants, buys, pays for, uses and voids credits of one wallet, round by round."""

    def __init__(self, service: Service, name: str, wallet_id: str) -> None:
        super().__init__()
        headers = {"Authorization": f"Bearer {service.key}"}
        self._client = httpx.Client(base_url=service.announced["url"], headers=headers, timeout=60)
        self._name, self._wallet_id = name, wallet_id
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.balances: list[int] = []

    def run(self) -> None:
        with self._client:
            for number in range(ROUNDS):
                self._move("grant", granted_credits="3")
                self._move("buy", paid_credits="2")
                self._pay()
                self._use(f"{self._name}-{number}")
                self._move("void", voided_credits="1.5")
                wallet = self._ask("look", "GET", f"/wallets/{self._wallet_id}")["wallet"]
                self.balances.append(wallet["balance_cents"])

    def _ask(self, action: str, method: str, path: str, body: object = None) -> Any:
        answer = self._client.request(method, f"/api/v1{path}", json=body)
        self.statuses[action, answer.status_code] += 1
        return answer.json()

    def _move(self, action: str, **credits: str) -> None:
        body = {"wallet_transaction": {"wallet_id": self._wallet_id, **credits}}
        self._ask(action, "POST", "/wallet_transactions", body)

    def _pay(self) -> None:
        """Pay for what has been invoiced by now; both clients may pay the same invoice."""
        invoices = self._ask("list", "GET", "/invoices?invoice_type=credit&payment_status=pending")["invoices"]
        for invoice in invoices:
            self._ask("pay", "PUT", f"/invoices/{invoice['svc_id']}", {"invoice": {"payment_status": "succeeded"}})

    def _use(self, name: str) -> None:
        event = {"transaction_id": name, "code": "calls", "external_subscription_id": "sub"}
        self._ask("use", "POST", "/events", {"event": event})


def sell_calls(service: Service) -> str:
    """A customer who pays 5.00 for each call in advance, and the id of its wallet with 20.00."""

    def post(path: str, **body: object) -> Any:
        answer = service.client.post(f"/api/v1{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    post("/customers", customer={"external_id": "acme", "currency": "EUR"})
    metric = post("/billable_metrics", billable_metric={"name": "c", "code": "calls", "aggregation_type": "count_agg"})
    charge = charge_on(metric["billable_metric"]["svc_id"], amount="5", pay_in_advance=True)
    post("/plans", plan=plan_fields(charge))
    subscription = {"external_customer_id": "acme", "external_id": "sub", "plan_code": "basic"}
    post("/subscriptions", subscription=subscription)
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "20"}
    return str(post("/wallets", wallet=wallet)["wallet"]["svc_id"])


def test_clients_that_move_credits_at_once_lose_none_and_overdraw_nothing(database: str) -> None:
    with Service(database) as service:
        wallet_id = sell_calls(service)
        clients = [Client(service, f"client-{number}", wallet_id) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        service.stop()
    statuses = sum((client.statuses for client in clients), Counter[tuple[str, int]]())
    rounds = CLIENTS * ROUNDS
    assert {status for _, status in statuses} <= {200, 422}
    assert [statuses[action, 200] for action in ("grant", "buy", "use", "look")] == [rounds] * 4
    assert min(balance for client in clients for balance in client.balances) >= 0
    with Billing(database, deliver=False) as billing:
        billing.run_due()
        assert billing.audit().findings == ()
        wallet = billing.wallets.get(wallet_id)
        moved = billing.reading(cents_moved)
        # Every accepted request took effect once.
        assert moved["granted"] == 2000 + rounds * 300
        assert moved["voided"] == statuses["void", 200] * 150
        assert statuses["buy", 200] * 200 == moved["purchased"] + moved["unpaid"]
        assert moved["calls"] == rounds * 500
        assert wallet.balance_cents == moved["granted"] + moved["purchased"] - moved["voided"] - moved["invoiced"] >= 0


def cents_moved(reader: Reader) -> Counter[str]:
    """Cents by kind of transaction, of purchases not paid for, and of calls that were invoiced."""
    cents: Counter[str] = Counter()
    for transaction in reader.tx.find(WalletTransaction):
        is_unpaid = transaction.status != "settled"
        cents["unpaid" if is_unpaid else str(transaction.transaction_status)] += transaction.amount_cents
    for invoice in reader.tx.find(Invoice, ne("invoice_type", "credit")):
        cents["calls"] += invoice.total_amount_cents + invoice.prepaid_credit_amount_cents
    return cents


# Recurring rules

START = datetime(2024, 1, 1, 9, tzinfo=UTC)
LATER = datetime(2024, 3, 5, tzinfo=UTC)

# A worker that does what is due, and whose process dies before or after some of its commits.
PROGRAM = """
import os, random, signal, sys
from datetime import datetime
from tests.properties.strategies import CrashingStore
from usagebill import Billing
from usagebill.runtime.clock import ManualClock
chance = random.Random(int(sys.argv[3]))
def dies():
    if chance.random() < float(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    return False
with Billing(sys.argv[1], clock=ManualClock(datetime.fromisoformat(sys.argv[2])), deliver=False) as billing:
    billing._system.store = CrashingStore(billing.store, dies)
    billing.run_due(strict=True)
"""


def customers_of(database: str) -> int:
    """How many customers there are: fewer on a server, where each statement is a round trip."""
    return 3 if database.startswith("postgresql:") else 8


def prepared(path: str) -> None:
    """Two months in which nothing was done: each customer has a wallet of each kind of rule."""
    weekly: RuleFields = {"trigger": "interval", "interval": "weekly", "granted_credits": "4", "paid_credits": "1"}
    low: RuleFields = {"trigger": "threshold", "threshold_credits": "5", "granted_credits": "25"}
    with Billing(path, clock=ManualClock(START), deliver=False) as billing:
        billing.plans.create(**plan_fields(interval="weekly", amount_cents=1700))
        for number in range(customers_of(path)):
            customer = f"customer-{number}"
            billing.customers.upsert(external_id=customer, currency="EUR")
            billing.subscriptions.create(external_customer_id=customer, external_id=customer, plan_code="basic")
            for rule, priority in ((weekly, 1), (low, 2)):
                billing.wallets.create(
                    external_customer_id=customer,
                    rate_amount="1",
                    priority=priority,
                    granted_credits="10",
                    recurring_transaction_rules=[rule],
                )


def worker(path: str, seed: int = 0, death: float = 0) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [path, LATER.isoformat(), str(seed), str(death)]
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], env=environment)


def top_ups(path: str) -> Counter[tuple[object, ...]]:
    """All transactions, without their ids: when, of which customer and wallet, and how much."""

    def read(reader: Reader) -> Counter[tuple[object, ...]]:
        wallets = {wallet.id: wallet for wallet in reader.tx.find(Wallet)}
        return Counter(
            (
                wallets[transaction.wallet_id].customer_id,
                wallets[transaction.wallet_id].priority,
                transaction.source,
                transaction.transaction_status,
                transaction.amount_cents,
                transaction.created_at,
            )
            for transaction in reader.tx.find(WalletTransaction)
        )

    with Billing(path, deliver=False) as billing:
        assert billing.audit().findings == ()
        return billing.reading(read)


@contextmanager
def copied(database: str) -> Iterator[str]:
    """A copy of a file or database that nobody has open."""
    if database.startswith("postgresql:"):
        from tests.postgresql import copied_database

        with copied_database(database) as url:
            yield url
        return
    copy = f"{database}-copy"
    Path(copy).write_bytes(Path(database).read_bytes())
    yield copy


@pytest.fixture
def alone(database: str) -> tuple[str, Counter[tuple[object, ...]]]:
    """A database in which nothing was done since January, and the transactions of one worker that made up for all of
    it.
    """
    prepared(database)
    with copied(database) as done:
        assert worker(done).wait() == 0
        expected = top_ups(done)
    of_interval = {key: times for key, times in expected.items() if key[2] == TransactionSource.INTERVAL}
    # Mondays from 8 January to 4 March, granted and bought.
    assert len(of_interval) == customers_of(database) * 9 * 2
    assert any(key[2] == TransactionSource.THRESHOLD for key in expected)
    # Jobs ran in order of their due times: customers who are alike topped up at the same instants.
    assert set(Counter(moved[1:] for moved in expected.elements()).values()) == {customers_of(database)}
    return database, expected


def test_two_workers_carry_out_each_rule_once_for_its_moment(alone: tuple[str, Counter[tuple[object, ...]]]) -> None:
    path, expected = alone
    workers = [worker(path), worker(path)]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert top_ups(path) == expected


def test_a_worker_that_is_killed_again_and_again_carries_out_each_rule_once(
    alone: tuple[str, Counter[tuple[object, ...]]],
) -> None:
    path, expected = alone
    deaths = 0
    # A server takes a commit for each job, a file one for many.
    death = 0.1 if path.startswith("postgresql:") else 0.2
    while worker(path, seed=deaths, death=death).wait() != 0:
        deaths += 1
    assert deaths > 3
    assert top_ups(path) == expected
