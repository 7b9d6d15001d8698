"""Connections to tax providers, accounting systems, CRMs and payment providers, by kind and by code."""

from __future__ import annotations

from typing import TypeVar

from usagebill.core.customers import Customer
from usagebill.core.errors import NotFound
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.sync_connections import SyncConnection
from usagebill.core.tax_providers import TaxConnection
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, has_item

C = TypeVar("C", TaxConnection, SyncConnection, PaymentConnection)

_RESOURCES: dict[type, str] = {
    TaxConnection: "tax_connection",
    SyncConnection: "sync_connection",
    PaymentConnection: "payment_connection",
}
_OLDEST_FIRST = (asc("created_at"), asc("id"))


def connections_of(reader: Reader, kind: type[C]) -> list[C]:
    """All connections of this kind, oldest first."""
    return reader.tx.find(kind, order=_OLDEST_FIRST)


def connection_by_code(reader: Reader, kind: type[C], code: str) -> C:
    """The connection with this code, the oldest if several have it. Raises `NotFound`."""
    connection = reader.tx.first(kind, eq("code", code), order=_OLDEST_FIRST)
    if connection is None:
        raise NotFound(_RESOURCES[kind], code)
    return connection


def is_code_taken(reader: Reader, connection: TaxConnection | SyncConnection) -> bool:
    """Whether a connection to a system of the same kind has this one's code already."""
    alike = eq("kind", connection.kind), eq("code", connection.code)
    return reader.tx.first(type(connection), *alike) is not None


def linked_customers(reader: Reader, connection_id: str) -> list[Customer]:
    """The customers with a link to a tax provider, accounting system or CRM."""
    return reader.tx.find(Customer, has_item("integration_customers", connection_id=connection_id))
