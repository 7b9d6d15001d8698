"""Customers: upsert by external id, read, list, delete."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.currencies import CURRENCIES
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound
from usagebill.inputs import ABSENT, Input, Maybe, Paging, changes
from usagebill.storage.conditions import asc, contains, eq, missing
from usagebill.storage.ports import Page
from usagebill.views.customers import customer_view
from usagebill.work import Work

__all__ = ["CustomerFilters", "CustomerInput", "delete", "get", "list_all", "upsert"]


@Input
class CustomerInput:
    external_id: Maybe[str] = ABSENT
    name: Maybe[str] = ABSENT
    currency: Maybe[str] = ABSENT
    email: Maybe[str] = ABSENT
    timezone: Maybe[str] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT


@Input
class CustomerFilters:
    search_term: Maybe[str] = ABSENT


def get(work: Work, external_id: str) -> Customer:
    """The customer with this external id. Raises `NotFound`."""
    found = work.tx.first(Customer, eq("external_id", external_id))
    if found is None:
        raise NotFound("customer")
    return found


def default_entity(work: Work) -> BillingEntity:
    """The oldest active billing entity."""
    found = work.tx.first(BillingEntity, missing("archived_at"), order=[asc("created_at")])
    if found is None:
        raise NotFound("billing_entity")
    return found


def upsert(work: Work, given: CustomerInput) -> Customer:
    """Create the customer with this external id, or change the one that has it."""
    external_id = given.external_id or None
    existing = work.tx.first(Customer, eq("external_id", external_id)) if external_id else None
    problems: dict[str, object] = {}
    if given.currency and given.currency not in CURRENCIES:
        problems["currency"] = ["value_is_invalid"]
    if external_id is None:
        problems["external_id"] = ["value_is_mandatory"]
    if problems or external_id is None:
        raise Invalid(problems)
    fields = changes(given, "name", "currency", "email", "timezone")
    if existing is not None:
        customer = replace(existing, updated_at=work.now, **fields)
        work.tx.replace(customer)
        work.emit("customer.updated", lambda: customer_view(work, customer), customer.id)
        return customer
    number = work.tx.next_number("customers")
    customer = Customer(
        id=work.new_id(),
        organization_id=work.organization.id,
        external_id=external_id,
        billing_entity_id=default_entity(work).id,
        sequential_id=number,
        slug=f"{work.organization.document_number_prefix}-{number:03d}",
        created_at=work.now,
        updated_at=work.now,
        **fields,
    )
    work.tx.insert(customer)
    work.emit("customer.created", lambda: customer_view(work, customer), customer.id)
    return customer


def list_all(work: Work, options: CustomerFilters, paging: Paging) -> Page[Customer]:
    conditions = []
    if options.search_term:
        conditions.append(contains(("name", "external_id", "email"), options.search_term.strip()))
    return work.page(Customer, *conditions, paging=paging)


def delete(work: Work, external_id: str) -> Customer:
    deleted = replace(get(work, external_id), deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    return deleted
