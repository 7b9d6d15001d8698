"""What planned work reads of its own writes is what it would read had they been stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import given, strategies as st
from tests.postgresql import copied_database

from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.tasks import BillCustomer
from usagebill.storage.conditions import (
    Condition,
    Order,
    asc,
    at_least,
    at_most,
    desc,
    eq,
    less,
    missing,
    more,
    ne,
    present,
    within,
)
from usagebill.storage.jobs import job_of
from usagebill.storage.plans import Planning, Writes
from usagebill.storage.ports import Snapshot, Store, Transaction
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.rehearsal import RehearsalEnds
from usagebill.storage.sqlite.engine import SqliteStore

R = TypeVar("R", bound=Store)

NOW = datetime(2024, 2, 1, tzinfo=UTC)
OWNER = Organization(
    id="org",
    organization_id="org",
    name="Org",
    hmac_key="key",
    created_at=NOW,
    updated_at=NOW,
    document_number_prefix="ORG",
)


def period(number: int, *, subscription: str, days: int, recurring: bool, charges: int | None) -> BillingPeriod:
    start = NOW + timedelta(days=days)
    return BillingPeriod(
        id=f"p{number}",
        organization_id=OWNER.id,
        invoice_id=f"i{number}",
        subscription_id=subscription,
        external_subscription_id=subscription,
        plan_id="plan",
        timestamp=start,
        invoicing_reason=InvoicingReason.PERIODIC if recurring else InvoicingReason.STARTING,
        created_at=NOW,
        recurring=recurring,
        charges_from_datetime=None if charges is None else NOW + timedelta(days=charges),
    )


days = st.integers(0, 3)
subscriptions = st.sampled_from(["a", "b"])
periods = st.builds(
    period,
    st.integers(0, 7),
    subscription=subscriptions,
    days=days,
    recurring=st.booleans(),
    charges=st.none() | days,
)
instants = days.map(lambda some: NOW + timedelta(days=some))
conditions: st.SearchStrategy[Condition] = st.one_of(
    st.builds(eq, st.just("subscription_id"), subscriptions),
    st.builds(within, st.just("subscription_id"), st.lists(subscriptions, max_size=2)),
    st.builds(eq, st.just("recurring"), st.booleans()),
    st.builds(ne, st.just("invoicing_reason"), st.sampled_from(list(InvoicingReason))),
    st.sampled_from([missing("charges_from_datetime"), present("charges_from_datetime")]),
    *(
        st.builds(comparison, st.sampled_from(["timestamp", "charges_from_datetime"]), instants)
        for comparison in (eq, less, more, at_least, at_most)
    ),
)
orders = st.lists(
    st.builds(
        lambda column, order: order(column),
        st.sampled_from(["timestamp", "subscription_id", "charges_from_datetime", "id"]),
        st.sampled_from([asc, desc]),
    ),
    max_size=2,
)


@contextmanager
def in_memory() -> Iterator[SqliteStore]:
    store = SqliteStore(":memory:")
    # Whose invoices and subscriptions they are is not the point here.
    store._writer.execute("PRAGMA foreign_keys = OFF")
    yield store
    store.close()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def empty_store(request: pytest.FixtureRequest) -> Iterator[Callable[[], AbstractContextManager[Store]]]:
    """Opens a store without rows, and without references."""
    if request.param == "sqlite":
        yield in_memory
        return
    with copied_database(request.getfixturevalue("database_with_tables")) as url:
        store = PostgresStore(url)
        references = "ALTER TABLE billing_periods " + ", ".join(
            f'DROP CONSTRAINT "{name}"'
            for (name,) in store.ask(
                lambda connection: connection.execute(
                    "SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = 'billing_periods'::regclass"
                ).fetchall()
            )
        )
        store.transact(lambda connection: connection.execute(references))

        @contextmanager
        def emptied() -> Iterator[Store]:
            yield store
            for table in ("billing_periods", "jobs", "changes", "organizations"):
                store.transact(lambda connection, table=table: connection.execute(f"DELETE FROM {table}"))  # type: ignore[misc]

        yield emptied
        store.close()


def with_store(opened: AbstractContextManager[R], stored: Sequence[BillingPeriod], act: Callable[[R], object]) -> None:
    with opened as store:
        store.write(None, lambda tx: tx.insert(OWNER))
        store.write(OWNER.id, lambda tx: tx.insert(*stored))
        act(store)


def planned(store: Store, act: Callable[[Planning], Any]) -> Any:
    def plan(tx: Snapshot) -> Any:
        return tx.observed(lambda seen: act(Planning(tx, seen, lambda _: 1)))[0]

    return store.read(OWNER.id, plan)


def bill(customer: str, due_at: datetime) -> Job:
    return job_of(
        BillCustomer(customer_id=customer),
        id=f"{customer}-{due_at}",
        organization_id=OWNER.id,
        due_at=due_at,
        created_at=NOW,
    )


@given(
    stored=st.lists(periods, max_size=6, unique_by=lambda period: period.id),
    written=st.lists(periods, min_size=1, max_size=4),
    wanted=st.lists(conditions, max_size=3),
    order=orders,
    limit=st.none() | st.integers(1, 4),
    offset=st.integers(0, 2),
)
def test_planned_work_reads_what_it_has_written(
    empty_store: Callable[[], AbstractContextManager[Store]],
    stored: list[BillingPeriod],
    written: list[BillingPeriod],
    wanted: list[Condition],
    order: list[Order],
    limit: int | None,
    offset: int,
) -> None:
    there = {record.id for record in stored}

    def write(tx: Any) -> list[BillingPeriod]:
        known = set(there)
        for record in written:
            (tx.replace if record.id in known else tx.insert)(record)
            known.add(record.id)
        skipped = 0 if limit is None else offset
        periods: list[BillingPeriod] = tx.find(BillingPeriod, *wanted, order=order, limit=limit, offset=skipped)
        return periods

    def compare(store: Store) -> None:
        foreseen = planned(store, write)
        assert foreseen == store.write(OWNER.id, write)

    with_store(empty_store(), stored, compare)


def test_writes_are_stored_as_they_were_in_the_end(
    empty_store: Callable[[], AbstractContextManager[Store]],
) -> None:
    first = period(1, subscription="a", days=0, recurring=True, charges=None)
    second = period(2, subscription="a", days=1, recurring=True, charges=None)
    job = bill("acme", NOW)

    def write(tx: Planning) -> Writes | None:
        tx.jobs.complete(job)
        tx.insert(second)
        tx.replace(replace(second, timezone="Asia/Tokyo"))
        tx.replace(replace(first, timezone="Asia/Tokyo"))
        assert tx.jobs.add(bill("acme", NOW + timedelta(days=30)))
        assert not tx.jobs.add(bill("acme", NOW + timedelta(days=30)))
        return tx.writes()

    def check(store: Store) -> None:
        store.write(OWNER.id, lambda tx: tx.jobs.add(job))
        writes = planned(store, write)

        def keep(tx: Transaction) -> None:
            writes.store(tx)
            assert [record.timezone for record in tx.find(BillingPeriod)] == ["Asia/Tokyo", "Asia/Tokyo"]
            assert tx.jobs.next_due() == NOW + timedelta(days=30)
            with pytest.raises(LookupError):
                # Somebody else has added the next job by now.
                replace(writes, inserted=()).store(tx)

        store.write(OWNER.id, keep)

    with_store(empty_store(), [first], check)


def test_a_planned_change_writes_no_column_that_stays_as_it_was() -> None:
    stored = period(1, subscription="a", days=0, recurring=True, charges=2)
    job = bill("acme", NOW)

    def write(tx: Planning) -> Writes | None:
        tx.jobs.complete(job)
        record = tx.get(BillingPeriod, stored.id)
        assert record is not None
        tx.replace(replace(record, timezone="Asia/Tokyo"))
        return tx.writes()

    def check(store: SqliteStore) -> None:
        store.write(OWNER.id, lambda tx: tx.jobs.add(job))
        writes = planned(store, write)
        statements: list[str] = []
        store._writer.set_trace_callback(statements.append)
        store.write(OWNER.id, writes.store)
        updates = [statement for statement in statements if statement.startswith('UPDATE "billing_periods"')]
        assert updates == ["""UPDATE "billing_periods" SET "timezone"='Asia/Tokyo' WHERE id = 'p1'"""]

    with_store(in_memory(), [stored], check)


@pytest.mark.parametrize(
    "ask",
    [
        lambda tx: tx.delete(period(1, subscription="a", days=0, recurring=True, charges=None)),
        lambda tx: tx.next_number("receipts"),
        lambda tx: tx.count(BillingPeriod),
        lambda tx: tx.jobs.waiting("bill_customer", "acme"),
        lambda tx: tx.savepoint(lambda: None),
        lambda tx: tx.insert(replace(OWNER, id="other", organization_id="other")),
    ],
)
def test_planned_work_ends_at_what_it_cannot_answer(ask: Callable[[Any], object]) -> None:
    def act(tx: Planning) -> None:
        tx.insert(period(2, subscription="a", days=1, recurring=True, charges=None))
        with pytest.raises(RehearsalEnds):
            ask(tx)

    with_store(in_memory(), [], lambda store: planned(store, act))


@pytest.mark.parametrize(("others", "is_planned"), [(["globex"], True), (["acme"], False)])
def test_a_job_is_planned_unless_another_of_its_subject_is_overdue(
    empty_store: Callable[[], AbstractContextManager[Store]], others: list[str], is_planned: bool
) -> None:
    """The planned job itself no longer waits; whether another is overdue is asked again under the lock."""
    job, later = bill("acme", NOW - timedelta(days=1)), NOW + timedelta(days=1)
    overdue = [bill(subject, NOW) for subject in others]

    def check(store: Store) -> None:
        store.write(OWNER.id, lambda tx: tx.jobs.add(job, *overdue))

        def ask(tx: Planning) -> Writes | None:
            tx.jobs.complete(job)
            assert tx.jobs.overdue(("acme",), NOW) == (None if is_planned else overdue[0])
            return tx.writes()

        def plan(tx: Snapshot) -> Any:
            return tx.observed(lambda seen: ask(Planning(tx, seen, lambda _: 1)))

        writes, observation = store.read(OWNER.id, plan)
        assert (writes is not None) == is_planned
        store.write(OWNER.id, lambda tx: tx.jobs.add(bill("globex", later)))
        assert store.write(OWNER.id, lambda tx: tx.still_holds(observation))
        store.write(OWNER.id, lambda tx: tx.jobs.add(bill("acme", NOW - timedelta(hours=1))))
        assert not store.write(OWNER.id, lambda tx: tx.still_holds(observation))

    with_store(empty_store(), [], check)
