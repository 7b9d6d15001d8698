"""Long results are computed before the write lock is taken, and used only if they are still valid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.scenarios import charge_on, plan_fields
from usagebill import Billing
from usagebill.core.contracts import Contract
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.core.tasks import BillCustomer
from usagebill.core.wallets import Wallet
from usagebill.fields import EventFields
from usagebill.operations.subscriptions.schedule import schedule_billing
from usagebill.runtime import ahead
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import Store, Transaction
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.events import PostgresEvents
from usagebill.storage.sqlite.events import SqliteEvents

START = datetime(2024, 1, 1, 9, tzinfo=UTC)
LATER = datetime(2024, 2, 1, 1, tzinfo=UTC)


class InterruptedStore:
    """A store in which something happens once the first of the due jobs has had its results computed on a snapshot."""

    def __init__(self, store: Store, interrupt: Callable[[], None]) -> None:
        self._store = store
        self._interrupt: Callable[[], None] | None = interrupt
        self._has_computed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, organization_id: str | None, question: Callable[[Transaction], Any]) -> Any:
        self._has_computed |= organization_id is not None
        return self._store.read(organization_id, question)

    def write(self, organization_id: str | None, change: Callable[[Transaction], Any]) -> Any:
        interrupt = self._interrupt
        if organization_id is None and interrupt is not None and self._has_computed:
            self._interrupt = None
            interrupt()
        return self._store.write(organization_id, change)


@pytest.fixture(autouse=True)
def every_count_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_FEW", 0)


@pytest.fixture
def billing(empty_database: str) -> Iterator[Billing]:
    with Billing(empty_database, clock=ManualClock(START), deliver=False) as billing:
        metric = billing.billable_metrics.create(
            name="Calls", code="calls", aggregation_type="sum_agg", field_name="value"
        )
        billing.plans.create(**plan_fields(charge_on(metric.id, amount="2"), amount_cents=3100))
        for customer in ("acme", "globex"):
            billing.customers.upsert(external_id=customer, currency="EUR")
            billing.subscriptions.create(external_customer_id=customer, plan_code="basic", external_id=customer)
            use(billing, customer, 5)
        yield billing


def use(billing: Billing, subscription: str, value: int, at: datetime = START) -> None:
    event: EventFields = {
        "transaction_id": f"{subscription}-{value}",
        "code": "calls",
        "external_subscription_id": subscription,
        "timestamp": at.timestamp(),
        "properties": {"value": value},
    }
    billing.events.ingest([event])


def totals(billing: Billing) -> dict[str, int]:
    return {
        customer: sum(
            invoice.total_amount_cents
            for invoice in billing.invoices.list(external_customer_id=customer, per_page=100).items
        )
        for customer in ("acme", "globex")
    }


def interrupted(billing: Billing, interrupt: Callable[[Billing], object]) -> dict[str, int]:
    """The same, with something done by another process between working out and storing."""

    opened: Any = billing.store
    database = opened.url if isinstance(opened, PostgresStore) else opened.path

    def elsewhere() -> None:
        with Billing(database, clock=billing.clock, deliver=False) as other:
            interrupt(other)

    clock = billing.clock
    assert isinstance(clock, ManualClock)
    clock.set(LATER)
    store: Any = InterruptedStore(billing.store, elsewhere)
    billing._system.store = store
    billing.run_due(strict=True)
    return totals(billing)


# A month at 31.00 from its first day on, and 5 calls at 2.00.
BILLED = 3100 + 5 * 200


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each count of events, whether it was made on a snapshot, not under the lock of the writer."""
    return watch_counts(monkeypatch)


def watch_counts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    on_snapshots: list[bool] = []
    for kind, is_read_only in (
        (SqliteEvents, "PRAGMA query_only"),
        (PostgresEvents, "SELECT current_setting('transaction_read_only') = 'on'"),
    ):

        def watched(
            self: Any, question: EventQuery, count: Any = kind.tallies, is_read_only: str = is_read_only
        ) -> Any:
            on_snapshots.append(bool(self._connection.execute(is_read_only).fetchone()[0]))
            return count(self, question)

        monkeypatch.setattr(kind, "tallies", watched)
    return on_snapshots


def test_an_end_is_worked_out_on_a_snapshot(billing: Billing, counted: list[bool]) -> None:
    billing.subscriptions.update("acme", ending_at="2024-01-16T00:00:00Z")
    clock = billing.clock
    assert isinstance(clock, ManualClock)
    clock.set(datetime(2024, 1, 16, 1, tzinfo=UTC))
    billing.run_due(strict=True)
    # The sixteenth, on which it ends, is billed.
    assert totals(billing) == {"acme": 3100 * 16 // 31 + 5 * 200, "globex": 0}
    assert counted == [True]


def test_usage_that_passes_a_threshold_is_invoiced_from_a_snapshot(billing: Billing, counted: list[bool]) -> None:
    billing.plans.update("basic", usage_thresholds=[{"amount_cents": 2000}])
    use(billing, "acme", 10)
    billing.run_due(strict=True)
    (invoice,) = billing.invoices.list(invoice_type="progressive_billing").items
    assert invoice.fees_amount_cents == (5 + 10) * 200
    assert counted == [True], "once for the threshold and the invoice"


def test_usage_is_counted_on_a_snapshot(billing: Billing, counted: list[bool]) -> None:
    clock = billing.clock
    assert isinstance(clock, ManualClock)
    clock.set(LATER)
    billing.run_due(strict=True)
    assert totals(billing) == {"acme": BILLED, "globex": BILLED}
    assert len(counted) == 2, "each customer's usage is counted once"
    assert all(counted), "events were counted while the lock of the writer was held"


def test_usage_that_comes_meanwhile_has_nothing_counted_under_the_lock(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    billing.plans.update("basic", usage_thresholds=[{"amount_cents": 2000}])
    use(billing, "acme", 1)
    billing.run_due(strict=True)
    # With another plan, earlier counts are useless: everything has to be counted again.
    billing.plans.update("basic", name="Renamed")
    use(billing, "acme", 2)
    counted = watch_counts(monkeypatch)
    clock, store = billing.clock, billing.store
    assert isinstance(clock, ManualClock)

    def one_more() -> None:
        clock.set(START + timedelta(seconds=1))
        billing._system.store = store
        use(billing, "acme", 0, at=clock.now())

    interrupted_store: Any = InterruptedStore(store, one_more)
    billing._system.store = interrupted_store
    billing.run_due(strict=True)
    assert counted == [True]
    assert billing.invoices.list(invoice_type="progressive_billing").items == []
    # 5 + 1 + 2 calls at 2.00 are 16.00; three more make 22.00, which passes the threshold.
    use(billing, "acme", 3, at=clock.now())
    billing.run_due(strict=True)
    (invoice,) = billing.invoices.list(invoice_type="progressive_billing").items
    assert invoice.fees_amount_cents == (5 + 1 + 2 + 3) * 200


def test_a_price_that_changes_meanwhile_is_billed(billing: Billing) -> None:
    def dearer(other: Billing) -> None:
        def change(work: Work) -> None:
            plan = work.tx.first(Plan, eq("code", "basic"))
            assert plan is not None
            work.tx.replace(replace(plan, amount_cents=6200))

        other.writing(change)

    assert interrupted(billing, dearer) == {"acme": 6200 + 5 * 200, "globex": 6200 + 5 * 200}


def test_a_coupon_that_comes_meanwhile_is_not_of_the_invoice_that_was_due_before(billing: Billing) -> None:
    coupon: dict[str, Any] = {"name": "Off", "code": "off", "coupon_type": "fixed_amount", "amount_cents": 700}
    billing.coupons.create(**coupon, amount_currency="EUR", frequency="once", expiration="no_expiration")

    def apply(other: Billing) -> None:
        other.applied_coupons.apply(external_customer_id="acme", coupon_code="off")

    # What is overdue is billed before the coupon is applied, as if it had been billed on time.
    assert interrupted(billing, apply) == {"acme": BILLED, "globex": BILLED}
    assert billing.reading(lambda reader: reader.tx.count(Invoice)) == 2


def test_a_result_as_of_one_instant_is_not_one_as_of_another(billing: Billing) -> None:
    """As when a request runs two overdue jobs of a customer first, each as of its due instant."""
    customer, days = billing.customers.get("acme"), [START + timedelta(days=day) for day in range(3)]

    def change(work: Work) -> list[datetime]:
        return [
            work.at(day).computed(
                "day", lambda reader: reader.now, inputs=None, customer_id=customer.id, subscriptions=lambda: 99
            )
            for day in days
        ]

    assert billing.writing(change) == days


def test_a_subscription_of_somebody_else_that_follows_meanwhile_outdates_a_result(
    billing: Billing, empty_database: str
) -> None:
    """It shares the usage of a second with the one before it."""
    acme, others = billing.customers.get("acme"), [Billing(empty_database, clock=billing.clock, deliver=False)]
    billing.subscriptions.terminate("acme")
    question = EventQuery(code="calls", external_subscription_id="acme")

    def look(reader: Reader) -> int:
        reader.counted([question], lambda log: log.tallies(question), inputs=question)
        found = len(reader.tx.find(Subscription, eq("external_id", "acme")))
        while others:
            with others.pop() as other:
                other.subscriptions.create(external_customer_id="globex", plan_code="basic", external_id="acme")
        return found

    def change(work: Work) -> int:
        return work.computed("look", look, inputs=None, customer_id=acme.id)

    assert billing.writing(change) == 2


def test_what_another_worker_has_billed_meanwhile_is_billed_once(billing: Billing) -> None:
    def bill_all(other: Billing) -> None:
        other.run_due(strict=True)

    assert interrupted(billing, bill_all) == {"acme": BILLED, "globex": BILLED}
    assert billing.reading(lambda reader: reader.tx.count(Invoice)) == 2


def test_numbers_have_no_gap_when_two_workers_meet(billing: Billing) -> None:
    def bill_some(other: Billing) -> None:
        other._system.run_batch()

    interrupted(billing, bill_some)
    assert len({invoice.number for invoice in billing.invoices.list().items}) == 2
    assert list(billing.audit().findings) == []


def first_bill(billing: Billing) -> None:
    """Have the copy of the billing entity made that invoices share, which else the first one of a run makes."""
    billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
    billing.invoices.create_one_off(external_customer_id="acme", currency="EUR", fees=[{"add_on_code": "setup"}])
    # So that nothing but the run is due later.
    clock = billing.clock
    assert isinstance(clock, ManualClock)
    clock.set(START + timedelta(days=3))
    billing.run_due(strict=True)


def test_a_run_bills_each_customer_once(billing: Billing) -> None:
    first_bill(billing)
    clock = billing.clock
    assert isinstance(clock, ManualClock)
    clock.set(LATER)
    billing.run_due(strict=True)
    assert totals(billing) == {"acme": 100 + BILLED, "globex": BILLED}
    assert list(billing.audit().findings) == []


def test_an_invoice_takes_the_next_number_when_others_have_taken_what_it_was_to_have(billing: Billing) -> None:
    billing.billing_entities.update("default", document_numbering="per_billing_entity")
    first_bill(billing)

    def invoice(other: Billing) -> None:
        other.customers.upsert(external_id="initech", currency="EUR")
        other.invoices.create_one_off(external_customer_id="initech", currency="EUR", fees=[{"add_on_code": "setup"}])

    assert interrupted(billing, invoice) == {"acme": 100 + BILLED, "globex": BILLED}
    ours = billing.invoices.list().items
    assert sorted(invoice.number.split("-")[-1] for invoice in ours) == ["001", "002", "003", "004"]
    shown = {
        json.loads(log.activity_object)["number"]
        for log in billing.activity_logs.list(activity_types=["invoice.created"]).items
    }
    assert shown == {invoice.number for invoice in ours if invoice.invoice_type == "subscription"}
    assert list(billing.audit().findings) == []


def test_messages_of_a_planned_invoice_show_its_number(empty_database: str) -> None:
    messages: list[Any] = []
    with Billing(empty_database, clock=ManualClock(START), deliver=False, on_message=messages.append) as billing:
        fields: dict[str, Any] = {"interval": "monthly", "amount_currency": "EUR", "pay_in_advance": False}
        billing.plans.create(name="Basic", code="basic", amount_cents=3100, **fields)
        billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
        for customer in ("acme", "globex"):
            billing.customers.upsert(external_id=customer, currency="EUR")
            billing.subscriptions.create(external_customer_id=customer, plan_code="basic", external_id=customer)

        # Somebody who owes nothing yet takes the next number of all.
        billing.billing_entities.update("default", document_numbering="per_billing_entity")
        billing.customers.upsert(external_id="new", currency="EUR")

        def invoice(other: Billing) -> None:
            other.invoices.create_one_off(external_customer_id="new", currency="EUR", fees=[{"add_on_code": "setup"}])

        interrupted(billing, invoice)
        announced = [body["invoice"]["number"] for body in messages if body["webhook_type"] == "invoice.created"]
        assert sorted(announced) == sorted(
            invoice.number for invoice in billing.invoices.list(invoice_type="subscription").items
        )


def test_a_job_that_was_scheduled_again_is_done_once(billing: Billing) -> None:
    first_bill(billing)

    def reschedule(other: Billing) -> None:
        def change(work: Work) -> None:
            for subscription in work.tx.find(Subscription):
                run = BillCustomer(customer_id=subscription.customer_id)
                waiting = work.tx.jobs.waiting(run.kind, subscription.customer_id)
                assert waiting is not None
                work.tx.jobs.complete(waiting)
                assert work.schedule(run, waiting.due_at)

        other.writing(change)

    assert interrupted(billing, reschedule) == {"acme": 100 + BILLED, "globex": BILLED}
    assert list(billing.audit().findings) == []


def test_a_run_that_fails_fails_under_the_lock_alone(billing: Billing, monkeypatch: pytest.MonkeyPatch) -> None:
    first_bill(billing)

    def failing(work: Work, contract: Contract) -> None:
        schedule_billing(work, contract)
        if contract.customer.external_id == "acme":
            raise ArithmeticError

    monkeypatch.setattr("usagebill.operations.billing_run.schedule_billing", failing)
    clock = billing.clock
    assert isinstance(clock, ManualClock)
    clock.set(LATER)
    failures: list[Job] = []
    billing.run_due(on_failure=lambda job, _: failures.append(job))
    assert [job.kind for job in failures] == [BillCustomer.kind]
    assert totals(billing) == {"acme": 100, "globex": BILLED}


@pytest.mark.parametrize(
    "change",
    [
        lambda other, first, second: [
            other.wallets.update(wallet.id, priority=priority) for wallet, priority in ((first, 9), (second, 1))
        ],
        lambda other, first, _: other.wallets.terminate(first.id),
        lambda other, _, second: other.wallet_transactions.create(wallet_id=second.id, voided_credits="50"),
        lambda other, first, _: other.wallet_transactions.create(wallet_id=first.id, granted_credits="90"),
        lambda other, first, _: other.wallets.update(first.id, applies_to={"fee_types": ["commitment"]}),
    ],
    ids=["priorities", "end", "void", "grant", "limits"],
)
def test_a_change_of_wallets_meanwhile_comes_after_the_bill_that_was_due_before(
    billing: Billing, change: Callable[[Billing, Wallet, Wallet], object]
) -> None:
    first, second = (
        billing.wallets.create(
            external_customer_id="acme", rate_amount="1", code=code, priority=priority, granted_credits=credits
        )
        for code, priority, credits in (("first", 2, "10"), ("second", 5, "100"))
    )
    billing.run_due(strict=True)
    assert interrupted(billing, lambda other: change(other, first, second)) == {"acme": 0, "globex": BILLED}
    (invoice,) = billing.invoices.list(external_customer_id="acme").items
    paid = [
        (use.wallet_id, use.amount_cents)
        for wallet in (first, second)
        for use in billing.wallet_transactions.list_of_wallet(wallet.id, transaction_status="invoiced").items
    ]
    assert paid == [(first.id, 1000), (second.id, BILLED - 1000)]
    assert invoice.prepaid_credit_amount_cents == BILLED
    assert billing.audit().findings == ()
