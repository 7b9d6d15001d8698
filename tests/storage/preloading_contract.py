"""The contract of every storage engine for records that are read together: questions have the answers they would have
had without that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from tests.storage.contract import NOW, Contract, Tenant

from usagebill.core.credit_notes import CreditNote
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.storage.conditions import (
    Condition,
    Order,
    asc,
    at_most,
    desc,
    eq,
    missing,
    more,
    ne,
    present,
    related,
    within,
)
from usagebill.storage.ports import Transaction

QUESTIONS: tuple[tuple[Sequence[Condition], Sequence[Order], int | None], ...] = (
    ((), (), None),
    ((eq("status", SubscriptionStatus.ACTIVE),), (asc("created_at"), asc("id")), None),
    ((ne("status", SubscriptionStatus.CANCELED),), (desc("created_at"),), 1),
    ((missing("ending_at"),), (desc("external_id"),), 2),
    ((present("ending_at"), at_most("ending_at", NOW + timedelta(days=2))), (), None),
    ((ne("ending_at", NOW),), (asc("ending_at"),), None),
    ((more("ending_at", NOW),), (desc("ending_at"),), None),
    ((within("status", (SubscriptionStatus.ACTIVE, SubscriptionStatus.PENDING)),), (desc("ending_at"),), 3),
    ((within("status", ()),), (), None),
)


class PreloadingContract(Contract):
    @pytest.mark.parametrize("place", range(len(QUESTIONS)))
    def test_what_was_read_together_is_answered_as_the_database_does(self, tenant: Tenant, place: int) -> None:
        acme, globex = self.filled(tenant)
        conditions, order, limit = QUESTIONS[place]

        def ask(tx: Transaction) -> list[object]:
            answers: list[object] = []
            for owner in (eq("customer_id", acme), within("customer_id", (globex, acme))):
                for deleted in (False, True):
                    find = partial(tx.find, Subscription, owner, *conditions, deleted=deleted)
                    answers += [find(order=order, limit=limit), find(order=order, limit=limit or 9, offset=1)]
                    answers.append(tx.count(Subscription, owner, *conditions, deleted=deleted))
            return answers

        def ask_preloaded(tx: Transaction) -> list[object]:
            tx.preload(Subscription, "customer_id", [acme, globex])
            return ask(tx)

        assert tenant.read(ask_preloaded) == tenant.read(ask)

    def test_a_transaction_s_own_writes_are_among_what_it_read_before(self, tenant: Tenant) -> None:
        acme, globex = self.filled(tenant)

        def change(tx: Transaction) -> list[Any]:
            tx.preload(Subscription, "customer_id", [acme, globex])
            first, second = self.named(tx, acme)[:2]
            tx.replace(replace(first, status=SubscriptionStatus.TERMINATED))
            tx.replace(replace(second, customer_id=globex))
            tx.delete(self.named(tx, globex)[0])
            tx.insert(replace(first, id="new", external_id="new"))
            return [self.named(tx, acme), self.named(tx, globex)]

        said = tenant.write(change)
        assert said == tenant.read(lambda tx: [self.named(tx, acme), self.named(tx, globex)])
        assert "new" in [subscription.id for subscription in said[0]]

    def test_what_was_undone_is_as_it_was(self, tenant: Tenant) -> None:
        acme, globex = self.filled(tenant)

        def fail(tx: Transaction) -> None:
            tx.replace(replace(self.named(tx, acme)[0], status=SubscriptionStatus.TERMINATED))
            raise LookupError("undone")

        def change(tx: Transaction) -> list[Subscription]:
            tx.preload(Subscription, "customer_id", [acme, globex])
            with pytest.raises(LookupError):
                tx.savepoint(partial(fail, tx))
            return self.named(tx, acme)

        before = tenant.read(lambda tx: self.named(tx, acme))
        assert tenant.write(change) == before

    def test_what_may_be_incomplete_is_asked_of_the_database(self, tenant: Tenant) -> None:
        acme, globex = self.filled(tenant)
        active = eq("status", SubscriptionStatus.ACTIVE)

        def ask(tx: Transaction) -> list[object]:
            return [
                tx.find(Subscription),
                tx.find(Subscription, active),
                tx.find(Subscription, eq("customer_id", globex)),
                tx.find(Subscription, eq("customer_id", acme)),
                tx.find(Subscription, eq("customer_id", acme), active),
                tx.find(Subscription, eq("customer_id", acme), related(*self.of_plan(tx))),
            ]

        def ask_preloaded(tx: Transaction, most: int | None) -> list[object]:
            tx.preload(Subscription, "customer_id", [acme], active, at_most=most)
            return ask(tx)

        plain = tenant.read(ask)
        assert tenant.read(partial(ask_preloaded, most=None)) == plain
        assert tenant.read(partial(ask_preloaded, most=1)) == plain

    def test_one_organization_s_records_answer_no_question_of_another(self, tenant: Tenant, other: Tenant) -> None:
        acme, _ = self.filled(tenant)
        (first,) = tenant.read(lambda tx: tx.find(Subscription, eq("customer_id", acme), limit=1))
        by_name = eq("external_id", first.external_id)

        def change(tx: Transaction) -> list[int]:
            own, foreign = tx.scoped(tenant.id), tx.scoped(other.id)
            own.count(Subscription), foreign.count(Subscription)
            own.preload(Subscription, "external_id", [first.external_id])
            return [own.count(Subscription, by_name), foreign.count(Subscription, by_name)]

        assert tenant.store.write(None, change) == [1, 0]

    def test_a_new_invoice_has_no_credit_notes_but_those_written_with_it(self, tenant: Tenant) -> None:
        entity = tenant.entity()
        acme = tenant.customer(entity)
        tenant.insert(entity, acme)
        invoice = tenant.invoice(acme, billing_entity_id=entity.id)

        def change(tx: Transaction) -> tuple[int, int]:
            tx.preload(CreditNote, "invoice_id", [])
            tx.insert(invoice)
            return tx.count(CreditNote, eq("invoice_id", invoice.id)), tx.count(CreditNote, eq("invoice_id", "another"))

        assert tenant.write(change) == (0, 0)

    @staticmethod
    def named(tx: Transaction, customer_id: str) -> list[Subscription]:
        return tx.find(Subscription, eq("customer_id", customer_id), order=[asc("created_at")])

    @staticmethod
    def of_plan(tx: Transaction) -> tuple[Any, ...]:
        (first,) = tx.find(Subscription, limit=1)
        return Plan, "plan_id", eq("id", first.plan_id)

    @staticmethod
    def filled(tenant: Tenant) -> tuple[str, str]:
        """Two customers, with subscriptions of several statuses and ends."""
        entity, plan = tenant.entity(), tenant.plan()
        acme, globex = tenant.customer(entity), tenant.customer(entity)
        tenant.insert(entity, plan, acme, globex)
        for customer in (acme, globex):
            for day, status in enumerate(("active", "pending", "active", "canceled", "terminated")):
                tenant.insert(
                    tenant.subscription(
                        customer,
                        plan,
                        status=SubscriptionStatus(status),
                        ending_at=None if day % 2 else NOW + timedelta(days=3 - day),
                        created_at=NOW + timedelta(seconds=day),
                    )
                )
        return acme.id, globex.id
