"""Lists on PostgreSQL: what is asked of one record is read for those that follow, with the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import PropertyMock, patch

import pytest
from tests.postgresql import server_url
from tests.storage.contract import NOW, Tenant, second

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.storage.conditions import Order, eq, has_item, within
from usagebill.storage.ports import Snapshot
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.postgresql.transaction import PostgresTransaction

pytestmark = pytest.mark.second_engine


@pytest.fixture
def tenant() -> Iterator[Tenant]:
    with temporary_database(server_url()) as url:
        store = PostgresStore(url)
        try:
            tenant, stranger = Tenant(store, "own"), Tenant(store, "stranger")
            for owner in (tenant, stranger):
                plans = [owner.plan() for _ in range(3)]
                # One with what looks like taxes, so that items of lists are found too.
                entity = replace(owner.entity(), tax_ids=(plans[0].id, plans[2].id))
                customers = [owner.customer(entity) for _ in range(6)]
                customers[4] = replace(customers[4], deleted_at=NOW)
                owner.insert(entity, *plans, *customers)
                owner.insert(
                    *(
                        owner.subscription(customer, plans[number % 3], created_at=second(-number))
                        for number, customer in enumerate([*customers, *customers[:3], customers[0]])
                    )
                )
            yield tenant
        finally:
            store.close()


def shown(tx: Snapshot) -> list[object]:
    """What a list of subscriptions asks for, record by record."""
    answers: list[object] = []
    for subscription in tx.find(Subscription, order=[Order("created_at")], limit=100):
        customer = tx.get(Customer, subscription.customer_id)
        newest = [Order("created_at", descending=True)]
        answers += [
            subscription,
            customer,
            tx.get(Plan, subscription.plan_id),
            tx.get(Customer, subscription.plan_id),
            tx.find(Subscription, eq("customer_id", subscription.customer_id), order=newest),
            tx.first(Subscription, eq("customer_id", subscription.customer_id), order=newest),
            tx.find(Subscription, within("status", ["active"]), eq("plan_id", subscription.plan_id), limit=2),
            tx.find(
                Subscription, eq("customer_id", subscription.customer_id), eq("external_id", subscription.external_id)
            ),
            tx.find(Subscription, eq("previous_subscription_id", subscription.id)),
            tx.find(Subscription, eq("customer_id", subscription.customer_id), eq("id", subscription.id)),
            tx.find(BillingEntity, has_item("tax_ids", subscription.plan_id)),
            tx.find(Customer, eq("id", subscription.customer_id)),
            tx.find(Customer, eq("id", subscription.customer_id), deleted=True),
        ]
        if customer is not None:
            answers.append(tx.get(BillingEntity, customer.billing_entity_id))
    return answers


@contextmanager
def counted() -> Iterator[list[str]]:
    """The statements that are sent meanwhile."""
    statements: list[str] = []
    execute = Connection.execute

    def noting(self: Connection, sql: str, values: Sequence[Any] = (), *, anew: bool = False) -> object:
        statements.append(sql)
        return execute(self, sql, values, anew=anew)

    with patch.object(Connection, "execute", noting):
        yield statements


def test_answers_are_those_of_asking_one_by_one(tenant: Tenant) -> None:
    with patch.object(PostgresTransaction, "_reads_ahead", new_callable=PropertyMock, return_value=False):
        one_by_one = tenant.read(shown)
    assert tenant.read(shown) == one_by_one


def test_what_belongs_to_a_list_is_read_at_once(tenant: Tenant) -> None:
    def show(tx: Snapshot) -> None:
        for subscription in tx.find(Subscription, order=[Order("created_at")], limit=100):
            assert tx.get(Customer, subscription.customer_id) or subscription.customer_id
            assert tx.get(Plan, subscription.plan_id)
            assert tx.find(Subscription, eq("customer_id", subscription.customer_id))

    with counted() as statements:
        tenant.read(show)
    # The list, its customers, the one that is deleted, plans, and subscriptions of customers.
    assert len(statements) <= 6


def test_what_names_a_record_twice_or_in_a_list_of_items_is_read_at_once(tenant: Tenant) -> None:
    def show(tx: Snapshot) -> list[int]:
        return [
            len(tx.find(Subscription, eq("customer_id", subscription.customer_id), eq("id", subscription.id)))
            + 10 * len(tx.find(BillingEntity, has_item("tax_ids", subscription.plan_id)))
            for subscription in tx.find(Subscription, order=[Order("created_at", descending=True)], limit=100)
        ]

    with counted() as statements:
        # Numbers 0 to 9 have the plans 0, 1, 2, 0, ...; only plans 0 and 2 are among the items.
        assert tenant.read(show) == [1 if number % 3 == 1 else 11 for number in (*range(6), *range(3), 0)]
    # The list, one query for the subscriptions and one for the entities.
    assert len(statements) == 3


def test_what_a_transaction_writes_is_seen_by_what_it_reads_afterwards(tenant: Tenant) -> None:
    def change(tx: PostgresTransaction) -> list[str]:
        names = []
        for subscription in tx.find(Subscription, order=[Order("created_at")]):
            plan = tx.get(Plan, subscription.plan_id)
            assert plan is not None
            tx.replace(replace(plan, name=f"{plan.name}*"))
            names.append(f"{plan.name}*")
        stored = tx.find(Plan)
        assert {plan.name for plan in stored} <= set(names)
        return [plan.name for plan in stored]

    names = tenant.write(change)  # type: ignore[arg-type]
    assert tenant.read(lambda tx: [plan.name for plan in tx.find(Plan)]) == names
