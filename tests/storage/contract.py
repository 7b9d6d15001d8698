"""The contract of every storage engine for transactions, and the base of its other contracts. Engines subclass them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import Tax
from usagebill.storage.ports import Duplicate, Store, Transaction

T = TypeVar("T")
NOW = datetime(2024, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
# A property is tried on several engines in one process, each with its own store.
ENGINES = [HealthCheck.differing_executors]
NUMBERS = count(1)  # unique among the records of a store


def second(number: float) -> datetime:
    return NOW + timedelta(seconds=number)


@dataclass(frozen=True)
class Tenant:
    """One organization of a store, and the records that tests make for it."""

    store: Store
    id: str

    def write(self, change: Callable[[Transaction], T]) -> T:
        return self.store.write(self.id, change)

    def read(self, question: Callable[[Transaction], T]) -> T:
        return self.store.read(self.id, question)

    def insert(self, *records: object) -> None:
        self.write(lambda tx: tx.insert(*records))

    def tax(self, code: str = "vat", **fields: Any) -> Tax:
        return Tax(
            **{
                "id": f"tax-{next(NUMBERS):06}",
                "organization_id": self.id,
                "name": code,
                "code": code,
                "rate": Decimal("20.5"),
                "created_at": NOW,
                "updated_at": NOW,
                **fields,
            }
        )

    def entity(self, **fields: Any) -> BillingEntity:
        id = f"entity-{next(NUMBERS)}"
        return BillingEntity(
            **{
                "id": id,
                "organization_id": self.id,
                "code": id,
                "name": id,
                "created_at": NOW,
                "updated_at": NOW,
                "document_number_prefix": "E",
                **fields,
            }
        )

    def customer(self, entity: BillingEntity, **fields: Any) -> Customer:
        number = next(NUMBERS)
        return Customer(
            **{
                "id": f"customer-{number:06}",
                "organization_id": self.id,
                "external_id": f"external-{number}",
                "billing_entity_id": entity.id,
                "sequential_id": number,
                "slug": f"C-{number}",
                "created_at": NOW,
                "updated_at": NOW,
                **fields,
            }
        )

    def plan(self, **fields: Any) -> Plan:
        id = f"plan-{next(NUMBERS)}"
        return Plan(
            **{
                "id": id,
                "organization_id": self.id,
                "name": id,
                "code": id,
                "interval": "monthly",
                "amount_cents": 100,
                "amount_currency": "EUR",
                "pay_in_advance": False,
                "created_at": NOW,
                "updated_at": NOW,
                **fields,
            }
        )

    def subscription(self, customer: Customer, plan: Plan, **fields: Any) -> Subscription:
        id = f"subscription-{next(NUMBERS)}"
        return Subscription(
            **{
                "id": id,
                "organization_id": self.id,
                "external_id": id,
                "customer_id": customer.id,
                "plan_id": plan.id,
                "status": "active",
                "billing_time": "calendar",
                "subscription_at": NOW,
                "created_at": NOW,
                "updated_at": NOW,
                **fields,
            }
        )

    def invoice(self, customer: Customer, **fields: Any) -> Invoice:
        id = f"invoice-{next(NUMBERS)}"
        return Invoice(
            **{
                "id": id,
                "organization_id": self.id,
                "customer_id": customer.id,
                "billing_entity_id": customer.billing_entity_id,
                "invoice_type": "subscription",
                "status": "finalized",
                "currency": "EUR",
                "number": id,
                "issuing_date": NOW.date(),
                "payment_due_date": NOW.date(),
                "net_payment_term": 0,
                "created_at": NOW,
                "updated_at": NOW,
                **fields,
            }
        )

    def fee(self, customer: Customer, **fields: Any) -> Fee:
        id = f"fee-{next(NUMBERS)}"
        return Fee(
            **{
                "id": id,
                "organization_id": self.id,
                "customer_id": customer.id,
                "fee_type": "charge",
                "item": FeeItem(type=FeeType.CHARGE, item_type="BillableMetric", id="metric", code="gb", name="Gb"),
                "amount_cents": 100,
                "precise_amount_cents": Decimal(100),
                "currency": "EUR",
                "units": Decimal(1),
                "created_at": NOW,
                "updated_at": NOW,
                **fields,
            }
        )

    def job(self, key: str = "", **fields: Any) -> Job:
        id = f"job-{next(NUMBERS)}"
        at = fields.pop("at", NOW)
        return Job(
            **{
                "id": id,
                "organization_id": self.id,
                "kind": "test",
                "subject_id": "subject",
                "key": key or id,
                "due_at": at,
                "run_at": at,
                "created_at": NOW,
                **fields,
            }
        )


def new_tenant(store: Store) -> Tenant:
    return Tenant(store, f"tenant-{next(NUMBERS)}")


class Contract:
    """Subclasses define the class-scoped fixture `store`."""

    @pytest.fixture
    def tenant(self, store: Store) -> Tenant:
        return new_tenant(store)

    @pytest.fixture
    def other(self, store: Store) -> Tenant:
        return new_tenant(store)


class TransactionsContract(Contract):
    def test_what_belongs_to_a_transaction_goes_through_it(self, tenant: Tenant) -> None:
        """A second one in the same thread would not see the changes of the first, or wait for its end for ever."""

        def write_within(tx: Transaction) -> None:
            tx.insert(tenant.tax("undone"))
            tenant.insert(tenant.tax("second"))

        for within in (tenant.write, tenant.read):
            with pytest.raises(RuntimeError, match="this thread has an open transaction"):
                within(lambda tx: tenant.insert(tenant.tax("second")))
            with pytest.raises(RuntimeError, match="this thread has an open transaction"):
                within(lambda tx: tenant.read(lambda inner: inner.count(Tax)))
        with pytest.raises(RuntimeError, match="this thread has an open transaction"):
            tenant.write(write_within)
        assert tenant.read(lambda tx: tx.find(Tax)) == []
        tenant.insert(tenant.tax("after"))
        assert tenant.read(lambda tx: tx.count(Tax)) == 1

    def test_a_read_writes_nothing(self, tenant: Tenant) -> None:
        job = tenant.job("k")
        tenant.write(lambda tx: tx.jobs.add(job))
        changes: list[Callable[[Transaction], object]] = [
            lambda tx: tx.insert(tenant.tax()),
            lambda tx: tx.next_number("n"),
            lambda tx: tx.jobs.complete(job),
        ]
        for change in changes:
            with pytest.raises(Exception, match=r"read-?only"):
                tenant.read(change)
        assert tenant.read(lambda tx: (tx.count(Tax), tx.last_numbers("n")[0], tx.jobs.get("k"))) == (0, 0, job)
        assert tenant.write(lambda tx: tx.next_number("n")) == 1

    def test_a_failed_write_leaves_nothing(self, tenant: Tenant) -> None:
        def fail(tx: Transaction) -> None:
            tx.insert(tenant.tax())
            tx.jobs.add(tenant.job("k"))
            tx.next_number("n")
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            tenant.write(fail)
        assert tenant.read(lambda tx: (tx.find(Tax), tx.jobs.get("k"))) == ([], None)
        assert tenant.write(lambda tx: tx.next_number("n")) == 1

    def test_a_failed_attempt_undoes_itself_only(self, tenant: Tenant) -> None:
        kept, undone = tenant.tax("kept"), tenant.tax("undone")

        def change(tx: Transaction) -> None:
            tx.insert(kept)

            def fail() -> None:
                tx.insert(undone)
                tx.replace(replace(kept, name="undone"))
                tx.jobs.add(tenant.job("k"))
                tx.savepoint(lambda: tx.next_number("n"))
                raise ArithmeticError

            with pytest.raises(ArithmeticError):
                tx.savepoint(fail)
            assert tx.get(Tax, undone.id) is None
            assert tx.get(Tax, kept.id) == kept
            assert tx.savepoint(lambda: tx.next_number("n")) == 1

        tenant.write(change)
        assert tenant.read(lambda tx: (tx.find(Tax), tx.jobs.get("k"))) == ([kept], None)

    def test_writes_that_arrive_together_all_happen_and_fail_alone(self, tenant: Tenant) -> None:
        numbers: list[int] = []
        failures: list[int] = []

        def run(place: int) -> None:
            def change(tx: Transaction) -> int:
                tx.insert(tenant.tax(f"t{place}"))
                number = tx.next_number("n")
                if place % 5 == 0:
                    raise ArithmeticError
                return number

            for _ in range(2):
                try:
                    numbers.append(tenant.write(change))
                except ArithmeticError:
                    failures.append(place)
                except Duplicate:
                    pass

        threads = [threading.Thread(target=run, args=(place,)) for place in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == list(range(1, 33))
        assert sorted(failures) == sorted([*range(0, 40, 5)] * 2)
        assert {tax.code for tax in tenant.read(lambda tx: tx.find(Tax))} == {f"t{n}" for n in range(40) if n % 5}
