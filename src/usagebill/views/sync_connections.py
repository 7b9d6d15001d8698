"""Connections to accounting systems and CRMs as JSON, their synced documents and errors."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.customers import Customer
from usagebill.core.sync_connections import SyncConnection, SyncedDocument
from usagebill.core.tax_providers import ProviderFailure
from usagebill.queries.sync_connections import find_connection
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class SyncConnectionView(TypedDict):
    svc_id: Id
    kind: str
    category: str
    code: str
    name: str
    url: str
    has_api_key: bool
    sync_invoices: bool
    sync_credit_notes: bool
    sync_payments: bool
    default_targeted_object: str
    created_at: Instant


class SyncErrorView(TypedDict):
    message: str
    error_code: str


class SyncedDocumentView(TypedDict):
    """`version` counts the ordered pushes; `attempts` those that failed since the last success."""

    svc_id: Id
    svc_customer_id: Id
    subject: str
    subject_id: Id
    integration_type: str | None
    integration_code: str | None
    status: str
    version: int
    attempts: int
    external_id: str | None
    error: SyncErrorView | None
    synced_at: Instant | None
    created_at: Instant
    updated_at: Instant


class CustomerSyncErrorView(TypedDict):
    """The two fields of the accounting provider have these names for CRMs too."""

    svc_customer_id: Id
    external_customer_id: str
    accounting_provider: str
    accounting_provider_code: str
    provider_error: SyncErrorView


class IntegrationErrorView(TypedDict):
    svc_integration_id: Id
    provider: str
    provider_code: str
    provider_error: SyncErrorView


def sync_connection_view(_: Reader, connection: SyncConnection) -> SyncConnectionView:
    """A connection to an accounting system or CRM, without its key."""
    return {
        "svc_id": connection.id,
        "kind": connection.kind,
        "category": connection.category.value,
        "code": connection.code,
        "name": connection.name,
        "url": connection.url,
        "has_api_key": connection.api_key is not None,
        "sync_invoices": connection.sync_invoices,
        "sync_credit_notes": connection.sync_credit_notes,
        "sync_payments": connection.sync_payments,
        "default_targeted_object": connection.default_targeted_object,
        "created_at": instant_text(connection.created_at),
    }


def synced_document_view(reader: Reader, document: SyncedDocument) -> SyncedDocumentView:
    """The state of a record in an accounting system or CRM; the connection is null once deleted."""
    connection = find_connection(reader, document.connection_id)
    return {
        "svc_id": document.id,
        "svc_customer_id": document.customer_id,
        "subject": document.subject.value,
        "subject_id": document.subject_id,
        "integration_type": None if connection is None else connection.kind,
        "integration_code": None if connection is None else connection.code,
        "status": document.status.value,
        "version": document.version,
        "attempts": document.attempts,
        "external_id": document.external_id,
        "error": None
        if document.error_code is None
        else {"message": document.error_message or "", "error_code": document.error_code},
        "synced_at": None if document.synced_at is None else instant_text(document.synced_at),
        "created_at": instant_text(document.created_at),
        "updated_at": instant_text(document.updated_at),
    }


def _error(failure: ProviderFailure) -> SyncErrorView:
    return {"message": failure.message, "error_code": failure.code}


def customer_sync_error(
    customer: Customer, connection: SyncConnection, failure: ProviderFailure
) -> CustomerSyncErrorView:
    """The message that a system refused the customer, or one of its documents."""
    return {
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "accounting_provider": connection.kind,
        "accounting_provider_code": connection.code,
        "provider_error": _error(failure),
    }


def integration_error(connection: SyncConnection, failure: ProviderFailure) -> IntegrationErrorView:
    """The message that a system refuses all requests."""
    return {
        "svc_integration_id": connection.id,
        "provider": connection.kind,
        "provider_code": connection.code,
        "provider_error": _error(failure),
    }
