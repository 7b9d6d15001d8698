"""Payment methods of customers, as reported by their providers."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.customers import Customer
from usagebill.core.errors import NotAllowed, NotFound
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payments import PaymentMethod
from usagebill.core.provider_requests import MethodDetails
from usagebill.operations.backlog import after_backlog, of_customer
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.payment_providers import methods_of
from usagebill.requests.inputs import Paging
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.storage.ports import Page


def keep_method(work: Work, customer: Customer, connection: PaymentConnection, details: MethodDetails) -> PaymentMethod:
    """Store the customer's method with this id at its provider, new or known, as the default."""
    existing = work.tx.first(
        PaymentMethod, eq("customer_id", customer.id), eq("provider_method_id", details.provider_method_id)
    )
    if existing is None:
        method = PaymentMethod(
            id=work.new_id(),
            organization_id=work.organization.id,
            customer_id=customer.id,
            connection_id=connection.id,
            provider_method_id=details.provider_method_id,
            details=details,
            created_at=work.now,
            updated_at=work.now,
        )
        work.tx.insert(method)
    else:
        method = replace(existing, details=details, is_usable=True, updated_at=work.now)
        work.tx.replace(method)
    return set_default(work, method)


def set_default(work: Work, method: PaymentMethod) -> PaymentMethod:
    """Make this method the customer's only default."""
    for sibling in methods_of(work, method.customer_id):
        if sibling.is_default and sibling.id != method.id:
            work.tx.replace(replace(sibling, is_default=False, updated_at=work.now))
    if method.is_default:
        return method
    chosen = replace(method, is_default=True, updated_at=work.now)
    work.tx.replace(chosen)
    return chosen


def clear_default(work: Work, customer_id: str) -> None:
    """Leave the customer without a default method."""
    for method in methods_of(work, customer_id):
        if method.is_default:
            work.tx.replace(replace(method, is_default=False, updated_at=work.now))


def forget_method(work: Work, connection_id: str, provider_method_id: str) -> bool:
    """Delete a method that its provider no longer has; False if it is unknown."""
    method = work.tx.first(
        PaymentMethod, eq("connection_id", connection_id), eq("provider_method_id", provider_method_id)
    )
    if method is None:
        return False
    work.tx.replace(replace(method, is_default=False, deleted_at=work.now, updated_at=work.now))
    return True


def stop_method(work: Work, connection_id: str, provider_method_id: str) -> bool:
    """Mark a method as unusable, though the customer still has it; False if it is unknown."""
    method = work.tx.first(
        PaymentMethod, eq("connection_id", connection_id), eq("provider_method_id", provider_method_id)
    )
    if method is None:
        return False
    work.tx.replace(replace(method, is_default=False, is_usable=False, updated_at=work.now))
    return True


def list_of_customer(reader: Reader, external_id: str, paging: Paging) -> Page[PaymentMethod]:
    """The customer's payment methods, newest first. Raises `NotFound`."""
    customer = customer_by_external_id(reader, external_id)
    return reader.page(PaymentMethod, eq("customer_id", customer.id), paging=paging)


@after_backlog(of_customer)
def set_as_default(work: Work, external_id: str, payment_method_id: str) -> PaymentMethod:
    """Make this method the customer's default. Raises `NotFound`, and `NotAllowed` if it can no longer be charged."""
    method = _method(work, external_id, payment_method_id)
    if not method.is_usable:
        raise NotAllowed("payment_method_not_usable")
    return set_default(work, method)


@after_backlog(of_customer)
def delete(work: Work, external_id: str, payment_method_id: str) -> PaymentMethod:
    """Delete this method; no other becomes the default in its place. Raises `NotFound`."""
    method = _method(work, external_id, payment_method_id)
    deleted = replace(method, is_default=False, deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    return deleted


def _method(reader: Reader, external_id: str, payment_method_id: str) -> PaymentMethod:
    customer = customer_by_external_id(reader, external_id)
    method = reader.tx.get(PaymentMethod, payment_method_id)
    if method is None or method.customer_id != customer.id:
        raise NotFound("payment_method", payment_method_id)
    return method
