"""Rescheduling after a change of time zone, which moves the beginnings of days."""

from __future__ import annotations

from usagebill.core.customers import Customer
from usagebill.core.subscriptions import UNENDED, Subscription
from usagebill.core.tasks import RescheduleCustomer, RescheduleEntity
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.operations.subscriptions import reschedule_customer
from usagebill.operations.wallets.rules import watch_customer
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq, has, missing, within


def reschedule(work: Work, task: RescheduleCustomer) -> None:
    """Job: reschedule a customer after a change of its time zone."""
    reschedule_customer(work, task.customer_id)
    watch_customer(work, task.customer_id)


def reschedule_entity(work: Work, task: RescheduleEntity) -> None:
    """Job: reschedule the customers without their own time zone after a change of their billing entity's."""
    waiting = has(Subscription, "customer_id", within("status", UNENDED))
    inheriting = eq("billing_entity_id", task.billing_entity_id), missing("timezone")
    for customer in work.tx.find(Customer, *inheriting, waiting):
        reschedule_customer(work, customer.id)
    for customer in work.tx.find(Customer, *inheriting, has(Wallet, "customer_id", eq("status", WalletStatus.ACTIVE))):
        watch_customer(work, customer.id)
