"""Connections to accounting systems and CRMs, managed by the operator of the installation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from usagebill.core.customers import without_links
from usagebill.core.errors import Invalid
from usagebill.core.sync_connections import KINDS, KINDS as SYNC_KINDS, TARGETED_OBJECTS, SyncConnection
from usagebill.core.tax_providers import connection_errors
from usagebill.operations import synced_documents
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.queries.connections import connection_by_code, connections_of, is_code_taken, linked_customers
from usagebill.requests.inputs import ABSENT, Input, Maybe, changes, described, value_or
from usagebill.runtime.work import Reader, Work

_SWITCHES = ("sync_invoices", "sync_credit_notes", "sync_payments")


@Input
class SyncConnectionInput:
    """`kind` is netsuite, xero, hubspot or salesforce. The `sync_` switches default to on."""

    kind: Maybe[str] = described("The kind of system.", values=SYNC_KINDS, required="create")
    code: Maybe[str] = described(required="create")
    name: Maybe[str] = ABSENT
    url: Maybe[str] = described("The URL of your bridge.", example="https://books.example", required="create")
    api_key: Maybe[str] = described(secret=True)
    sync_invoices: Maybe[bool] = described("Whether invoices are sent to it.", default="true")
    sync_credit_notes: Maybe[bool] = described("Whether credit notes are sent to it.", default="true")
    sync_payments: Maybe[bool] = described("Whether payments are sent to it.", default="true")
    default_targeted_object: Maybe[str] = described(
        "The HubSpot object of customers that are neither a person nor a company.", values=TARGETED_OBJECTS
    )


@without_backlog(Unrelated.CONNECTION)
def create(work: Work, request: SyncConnectionInput) -> SyncConnection:
    """A new connection. Raises `Invalid`, also if a connection of this kind has the code."""
    code = value_or(request.code, "")
    connection = SyncConnection(
        id=work.new_id(),
        organization_id=work.organization.id,
        kind=value_or(request.kind, ""),
        code=code,
        name=value_or(request.name, code),
        url=value_or(request.url, ""),
        api_key=value_or(request.api_key, None),
        sync_invoices=value_or(request.sync_invoices, True),
        sync_credit_notes=value_or(request.sync_credit_notes, True),
        sync_payments=value_or(request.sync_payments, True),
        default_targeted_object=value_or(request.default_targeted_object, "companies"),
        created_at=work.now,
        updated_at=work.now,
    )
    _check(connection)
    if is_code_taken(work, connection):
        raise Invalid(code="value_already_exist")
    work.tx.insert(connection)
    return connection


def _check(connection: SyncConnection) -> None:
    problems = connection_errors(connection, KINDS)
    if connection.default_targeted_object not in TARGETED_OBJECTS:
        problems["default_targeted_object"] = ["value_is_invalid"]
    if problems:
        raise Invalid(problems)


def list_all(reader: Reader) -> list[SyncConnection]:
    """All connections, oldest first."""
    return connections_of(reader, SyncConnection)


def get(reader: Reader, code: str) -> SyncConnection:
    """The connection with this code, the oldest if several kinds have it. Raises `NotFound`."""
    return connection_by_code(reader, SyncConnection, code)


@without_backlog(Unrelated.CONNECTION)
def update(work: Work, code: str, request: SyncConnectionInput) -> SyncConnection:
    """Change the name, address, key or switches of a connection; its kind and code stay.

    Switches apply to changes from now on. Raises `NotFound` and `Invalid`.
    """
    before = get(work, code)
    switches: dict[str, Any] = {name: bool(value) for name, value in changes(request, *_SWITCHES).items()}
    plain = changes(request, "name", "url", "api_key", "default_targeted_object")
    connection = replace(before, **plain, **switches, updated_at=work.now)
    _check(connection)
    work.tx.replace(connection)
    work.invalidate(("sync_connection", connection.id))
    return connection


@without_backlog(Unrelated.CONNECTION)
def delete(work: Work, code: str) -> SyncConnection:
    """Delete a connection, its customers' links to it, and its pending pushes."""
    connection = get(work, code)
    synced_documents.end(work, connection)
    deleted = replace(connection, deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    work.invalidate(("sync_connection", connection.id))
    for customer in linked_customers(work, connection.id):
        kept = without_links(customer, connection.id)
        work.tx.replace(replace(customer, integration_customers=kept, updated_at=work.now))
    return deleted
