"""Calls to providers: many at once, with short, shared transactions, and none open during a call."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from tests.example_tasks import Talk
from tests.payment_provider import UnsteadyProvider
from tests.scenarios import plan_fields
from usagebill import Billing
from usagebill.core.jobs import Job
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import CollectPayment
from usagebill.core.payments import Payment
from usagebill.core.provider_requests import Charge, MethodDetails, Request
from usagebill.fields import BillingConfigurationFields
from usagebill.operations.payment_methods import keep_method
from usagebill.outside.calls import Call, Calls
from usagebill.outside.job_host import JobHost
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.worker import Worker

A = TypeVar("A")
START = datetime(2024, 3, 31, 12, tzinfo=UTC)
# Five seconds before March is billed.
BEFORE = datetime(2024, 4, 1, 0, 9, 55, tzinfo=UTC)
# No test waits so long unless it fails.
PATIENCE = 60.0
AWAITED = ("invoice.created", "invoice.one_off_created", "invoice.payment_status_updated")


class HeldProvider(UnsteadyProvider):
    """A provider that answers charges only once a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Semaphore(0)
        self.answers = threading.Semaphore(0)
        self._turn = threading.Lock()

    def ask(self, connection: PaymentConnection, request: Request[A]) -> A:
        if isinstance(request, Charge):
            self.asked.release()
            assert self.answers.acquire(timeout=PATIENCE)
        with self._turn:
            return super().ask(connection, request)

    def await_asked(self, times: int) -> None:
        for _ in range(times):
            assert self.asked.acquire(timeout=PATIENCE)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def provider() -> HeldProvider:
    return HeldProvider()


@pytest.fixture
def news() -> threading.Semaphore:
    """Released when an invoice was made, or its payment status has changed."""
    return threading.Semaphore(0)


@pytest.fixture
def billing(tmp_path: Path, clock: ManualClock, provider: HeldProvider, news: threading.Semaphore) -> Iterator[Billing]:
    """A file with a customer, acme, who has a card."""

    def listen(message: Any) -> None:
        if message["webhook_type"] in AWAITED:
            news.release()

    file = tmp_path / "billing.db"
    with Billing(file, clock=clock, payment_providers=provider, deliver=False, on_message=listen) as billing:
        account: BillingConfigurationFields = {
            "payment_provider": "stripe",
            "payment_provider_code": "main",
            "provider_customer_id": "cus_1",
        }
        connection = billing.payment_connections.create(kind="stripe", code="main", secret_key="sk", webhook_secret="w")
        customer = billing.customers.upsert(external_id="acme", currency="EUR", billing_configuration=account)
        card = MethodDetails(provider_method_id="pm_1")
        billing.writing(lambda work: keep_method(work, customer, connection, card))
        billing.run_due()
        billing.add_ons.create(name="Setup", code="setup", amount_cents=1000, amount_currency="EUR")
        yield billing


def bill(billing: Billing, times: int = 1, customer: str = "acme") -> None:
    for _ in range(times):
        billing.invoices.create_one_off(external_customer_id=customer, currency="EUR", fees=[{"add_on_code": "setup"}])


def payments(billing: Billing) -> list[Payment]:
    return billing.store.read(None, lambda tx: tx.find(Payment))


def counted_writes(billing: Billing, monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released after each transaction that may write."""
    writes = threading.Semaphore(0)
    write = billing.store.write

    def noted(organization_id: str | None, change: Callable[[Any], Any]) -> Any:
        try:
            return write(organization_id, change)
        finally:
            writes.release()

    monkeypatch.setattr(billing.store, "write", noted)
    return writes


def taken(semaphore: threading.Semaphore) -> int:
    """How often it was released since it was taken last."""
    times = 0
    while semaphore.acquire(blocking=False):
        times += 1
    return times


def note_all(calls: Calls) -> None:
    """Let the calls under way come back, and note them."""
    while calls.is_busy:
        calls.wait(None)
        calls.step()


def test_billing_goes_on_while_a_provider_takes_ten_seconds_and_no_transaction_is_open(
    tmp_path: Path, billing: Billing, clock: ManualClock, provider: HeldProvider, news: threading.Semaphore
) -> None:
    billing.customers.upsert(external_id="other", currency="EUR")
    billing.plans.create(**plan_fields(amount_cents=900))
    billing.subscriptions.create(external_customer_id="other", plan_code="basic", external_id="s1")
    billing.run_due()
    clock.set(BEFORE)
    bill(billing, 2)
    for _ in range(2):
        assert news.acquire(timeout=PATIENCE)
    with Worker(billing, outside_threads=2, poll_seconds=0.01):
        provider.await_asked(2)
        clock.set(BEFORE + timedelta(seconds=10))
        # A month is billed meanwhile, and something else.
        assert news.acquire(timeout=PATIENCE)
        bill(billing, customer="other")
        assert news.acquire(timeout=PATIENCE)
        assert billing.invoices.list(external_customer_id="other").total_count == 2
        # Neither a read nor a write is open: the whole log can be checkpointed and truncated.
        with sqlite3.connect(tmp_path / "billing.db", timeout=PATIENCE) as outsider:
            assert outsider.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
        outsider.close()
        assert [payment.unanswered for payment in payments(billing)] == [True, True]
        provider.answers.release(2)
        for _ in range(2):
            assert news.acquire(timeout=PATIENCE)
    assert [payment.payment_status for payment in payments(billing)] == ["succeeded", "succeeded"]
    assert {payment.updated_at for payment in payments(billing)} == {BEFORE + timedelta(seconds=10)}
    assert len(provider.charges) == 2


def test_due_charges_share_the_transactions_that_begin_them_and_those_that_note_them(
    billing: Billing, provider: HeldProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    bill(billing, 8)
    writes = counted_writes(billing, monkeypatch)
    calls = billing._system.calls(CollectPayment.kind, 4)
    assert calls.step() == 8
    provider.await_asked(4)
    # Four are asked, four are ready, and all eight are stored as sent.
    assert (taken(writes), len(payments(billing))) == (1, 8)
    provider.answers.release(8)
    note_all(calls)
    calls.close()
    assert taken(writes) <= 8
    assert {payment.payment_status for payment in payments(billing)} == {"succeeded"}
    assert len(provider.charges) == 8


def test_what_was_not_asked_when_a_worker_stops_is_left_to_the_next_at_once(
    billing: Billing, provider: HeldProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    bill(billing, 6)
    calls = billing._system.calls(CollectPayment.kind, 2)
    calls.step()
    provider.await_asked(2)
    written = counted_writes(billing, monkeypatch)
    closing = threading.Thread(target=calls.close)
    closing.start()
    # The two that were ready are given back before the others are answered.
    assert written.acquire(timeout=PATIENCE)
    provider.answers.release(6)
    closing.join(PATIENCE)
    assert (len(provider.charges), len(payments(billing))) == (2, 4)
    billing.run_due()
    assert (len(provider.charges), len(payments(billing))) == (6, 6)
    assert {payment.payment_status for payment in payments(billing)} == {"succeeded"}


def test_an_answer_that_cannot_be_noted_does_not_spoil_the_others(billing: Billing) -> None:
    noted: list[str] = []

    def conclude(work: Work, job: Job, task: Talk, prepared: str, answer: str) -> None:
        work.tx.jobs.complete(job)
        if answer == "answer to 2":
            raise ValueError("no room for it")
        noted.append(answer)

    def answer(host: JobHost, name: str) -> str:
        if name == "3":
            raise ConnectionError("nobody there")
        return f"answer to {name}"

    billing.writing(lambda work: [work.schedule(Talk(name=str(number)), work.now) for number in range(5)])
    call = Call(Talk, lambda work, job, task: task.name, answer, conclude)
    calls = Calls(billing._system, cast(Any, call), at_once=5)
    assert calls.step() == 5
    note_all(calls)
    calls.close()
    assert {*noted} == {"answer to 0", "answer to 1", "answer to 4"}
    failures = {(job.subject_id, str(problem)) for job, problem in calls.failures}
    assert failures == {("2", "no room for it"), ("3", "nobody there")}
    stored = billing.store.read(None, lambda tx: tx.jobs.failures())
    assert {job.subject_id for job in stored} == {"2", "3"}


def test_a_question_that_cannot_be_put_together_waits_for_another_try(billing: Billing) -> None:
    def prepare(work: Work, job: Job, task: Talk) -> str | None:
        if task.name == "1":
            raise ValueError("nobody knows what to ask")
        if task.name == "2":
            work.tx.jobs.complete(job)
            return None
        return task.name

    answers: list[str] = []

    def conclude(work: Work, job: Job, task: Talk, prepared: str, answer: str) -> None:
        work.tx.jobs.complete(job)
        answers.append(answer)

    billing.writing(lambda work: [work.schedule(Talk(name=str(number)), work.now) for number in range(4)])
    calls = Calls(billing._system, cast(Any, Call(Talk, prepare, lambda host, name: name, conclude)), at_once=4)
    calls.step()
    note_all(calls)
    calls.close()
    assert sorted(answers) == ["0", "3"]
    (failed,) = billing.store.read(None, lambda tx: tx.jobs.failures())
    assert (failed.subject_id, failed.error) == ("1", "ValueError: nobody knows what to ask")
