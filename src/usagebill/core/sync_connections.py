"""Accounting systems and CRMs that documents are pushed to: the connections, and the state of each document there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from usagebill.core.customers import INTEGRATION_CATEGORIES, Customer, IntegrationCategory, IntegrationCustomer
from usagebill.core.error_details import NOT_PROVIDED, ErrorDetail
from usagebill.core.statuses import SyncStatus
from usagebill.core.tasks import Task
from usagebill.core.tax_providers import FailureKind, ProviderFailure

# The kinds of connection, by their names in `integration_type`.
KINDS = tuple(kind for kind, category in INTEGRATION_CATEGORIES.items() if category is not IntegrationCategory.TAX)
# HubSpot's objects for a person and a company.
TARGETED_OBJECTS = ("contacts", "companies")

_ATTEMPTS = 18
_FIRST_PAUSE = timedelta(seconds=15)
_LONGEST_PAUSE = timedelta(hours=6)
# Statuses by which a system rejects our key, whatever the document.
_REFUSED_ALTOGETHER = ("status_401", "status_403")


class SyncSubject(StrEnum):
    """The subjects of synced documents."""

    CUSTOMER = "customer"
    INVOICE = "invoice"
    CREDIT_NOTE = "credit_note"
    PAYMENT = "payment"


# Records that show that a system did not accept them.
SHOWING_ERRORS = (SyncSubject.INVOICE, SyncSubject.CREDIT_NOTE)
# The subjects that each category of system is sent.
SUBJECTS_OF_CATEGORIES: Mapping[IntegrationCategory, tuple[SyncSubject, ...]] = {
    IntegrationCategory.ACCOUNTING: tuple(SyncSubject),
    IntegrationCategory.CRM: (SyncSubject.CUSTOMER, SyncSubject.INVOICE),
}

# The failure code of a document whose parent is missing in the system.
PARENT_MISSING: Mapping[SyncSubject, str] = {
    SyncSubject.CUSTOMER: "customer_missing",
    SyncSubject.INVOICE: "invoice_missing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncConnection:
    """An accounting system or CRM, to which customers are linked by `kind` and `code`.

    Documents are posted to `url`, with `api_key`: those enabled by `sync_invoices`, `sync_credit_notes` and
    `sync_payments`. `default_targeted_object` is the HubSpot object for a customer that is neither a person nor a
    company.
    """

    id: str
    organization_id: str
    kind: str
    code: str
    name: str
    url: str
    created_at: datetime
    updated_at: datetime
    api_key: str | None = field(default=None, repr=False)
    sync_invoices: bool = True
    sync_credit_notes: bool = True
    sync_payments: bool = True
    default_targeted_object: str = "companies"
    deleted_at: datetime | None = None

    @property
    def category(self) -> IntegrationCategory:
        """Whether it is an accounting system or a CRM."""
        return INTEGRATION_CATEGORIES[self.kind]

    def takes(self, subject: SyncSubject) -> bool:
        """Whether documents about such records are pushed to it."""
        is_enabled = {
            SyncSubject.CUSTOMER: True,
            SyncSubject.INVOICE: self.sync_invoices,
            SyncSubject.CREDIT_NOTE: self.sync_credit_notes,
            SyncSubject.PAYMENT: self.sync_payments,
        }
        return is_enabled[subject] and subject in SUBJECTS_OF_CATEGORIES[self.category]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedDocument:
    """A record in a connection's system, or to be pushed to it; its id there is `external_id`.

    `version` increases whenever the content to be pushed changes; with the id it identifies one push, however often
    that is tried. `awaits_id` is the document that must be there first: an invoice's customer, a payment's invoice.
    `attempts` counts failures since the last success.
    """

    id: str
    organization_id: str
    connection_id: str
    customer_id: str
    subject: SyncSubject
    subject_id: str
    created_at: datetime
    updated_at: datetime
    status: SyncStatus = SyncStatus.PENDING
    version: int = 1
    attempts: int = 0
    awaits_id: str | None = None
    external_id: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    synced_at: datetime | None = None

    @property
    def lacks_parent(self) -> bool:
        """Whether it failed because the document that it awaits is missing."""
        return self.status == SyncStatus.FAILED and self.error_code in PARENT_MISSING.values()


# Statuses of documents that are still to be pushed.
UNSETTLED = (SyncStatus.PENDING, SyncStatus.RETRYING)


def awaited(parent: SyncedDocument | None) -> str | None:
    """The id of the document that must be there first, None if it is there."""
    return None if parent is None or parent.external_id is not None else parent.id


@dataclass(frozen=True, slots=True, kw_only=True)
class PushDocument(Task):
    """Push a synced document to its accounting system or CRM, with its current content."""

    kind = "push_document"
    subject_field = "document_id"
    leased = True

    document_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One document to post: `version` and `document_id` form its key. `body` is JSON."""

    document_id: str
    version: int
    subject: SyncSubject
    body: bytes
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The system has the document, under `external_id`."""

    external_id: str


def retry_delay(failure: ProviderFailure, attempts: int) -> timedelta | None:
    """How long to wait before the next try after `attempts` attempts; None if it has failed.

    A refusal is final. Otherwise there are 18 attempts within some three days: the first wait is 15 seconds, each
    further one four times as long, at most 6 hours.
    """
    if failure.kind is FailureKind.REFUSED or attempts >= _ATTEMPTS:
        return None
    pause: timedelta = _FIRST_PAUSE * 4 ** (attempts - 1)
    return min(_LONGEST_PAUSE, pause)


def is_refused_altogether(failure: ProviderFailure) -> bool:
    """Whether the system rejects our key, not the document."""
    return failure.code in _REFUSED_ALTOGETHER


def sync_error(link: IntegrationCustomer, document: SyncedDocument) -> ErrorDetail:
    """The failure of a document, as an error detail of its record."""
    kind = f"{link.category}_error"
    return ErrorDetail(
        id=document.id,
        error_code=NOT_PROVIDED,
        details={
            kind: document.error_code,
            f"{kind}_message": document.error_message or "",
            "integration_type": link.integration_type,
            "integration_code": link.integration_code,
        },
        created_at=document.updated_at,
    )


def targeted_object(connection: SyncConnection, customer: Customer, sent: str | None) -> str | None:
    """The HubSpot object for the customer; None for other systems."""
    if connection.kind != "hubspot":
        return None
    by_type = {"individual": "contacts", "company": "companies"}
    return sent or by_type.get(customer.customer_type or "", connection.default_targeted_object)
