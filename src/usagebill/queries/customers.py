"""Customers, their billing entities and their time zones."""

from __future__ import annotations

from typing import Protocol
from zoneinfo import ZoneInfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer, timezone
from usagebill.core.errors import NotFound
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq


class Owned(Protocol):
    @property
    def customer_id(self) -> str: ...


def customer_of(reader: Reader, owned: Owned) -> Customer:
    """The customer that a subscription, invoice, fee, ... belongs to, deleted or not."""
    customer = reader.tx.get(Customer, owned.customer_id, deleted=True)
    if customer is None:
        raise LookupError(f"no customer {owned.customer_id}")
    return customer


def entity_of(reader: Reader, customer: Customer) -> BillingEntity:
    """The billing entity that the customer belongs to."""
    entity = reader.tx.get(BillingEntity, customer.billing_entity_id, deleted=True)
    if entity is None:
        raise LookupError(f"no billing entity {customer.billing_entity_id}")
    return entity


def zone_of(reader: Reader, customer: Customer) -> ZoneInfo:
    """The time zone in which the customer's days begin and end."""
    return ZoneInfo(timezone(customer, entity_of(reader, customer)))


def customer_by_external_id(reader: Reader, external_id: str) -> Customer:
    """The customer with this external id. Raises `NotFound`."""
    customer = reader.tx.first(Customer, eq("external_id", external_id))
    if customer is None:
        raise NotFound("customer", external_id)
    return customer


def find_customer(reader: Reader, customer_id: str) -> Customer | None:
    """The customer with this id, deleted or not."""
    return reader.tx.get(Customer, customer_id, deleted=True)
