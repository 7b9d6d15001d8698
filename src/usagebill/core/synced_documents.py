"""The life of a synced document: ordered, pushed, retried, failed, resent. The whole machine is `TRANSITIONS`.

A document is pushed with the record's content at that moment. Each order is a new version; if a system has accepted an
older version, the document is pushed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum

from usagebill.core.customers import Customer, IntegrationCategory
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.life_cycles import following
from usagebill.core.statuses import SyncStatus
from usagebill.core.sync_connections import (
    PARENT_MISSING,
    UNSETTLED,
    Accepted,
    SyncedDocument,
    SyncSubject,
    retry_delay,
)
from usagebill.core.tax_providers import FailureKind, ProviderFailure


class SyncEvent(Enum):
    """Events in the life of a document."""

    ORDER = "order"  # its record is new, or has changed
    ACCEPT = "accept"  # the system has the current version
    ACCEPT_OLDER = "accept_older"  # the system has an older version: the record has changed since it was pushed
    RETRY = "retry"  # it was not accepted, and is pushed again
    FAIL = "fail"
    RESEND = "resend"  # somebody requests another push


_S, _E = SyncStatus, SyncEvent

TRANSITIONS: Mapping[tuple[SyncStatus, SyncEvent], SyncStatus] = {
    **{(status, _E.ORDER): _S.PENDING for status in (_S.PENDING, _S.SYNCED, _S.FAILED)},
    # It waits for its next attempt, which has the new version.
    (_S.RETRYING, _E.ORDER): _S.RETRYING,
    **{(status, _E.ACCEPT): _S.SYNCED for status in UNSETTLED},
    **{(status, _E.ACCEPT_OLDER): _S.PENDING for status in UNSETTLED},
    **{(status, _E.RETRY): _S.RETRYING for status in UNSETTLED},
    **{(status, _E.FAIL): _S.FAILED for status in UNSETTLED},
    **{(status, _E.RESEND): _S.PENDING for status in SyncStatus},
}


def _moved(document: SyncedDocument, event: SyncEvent, now: datetime) -> SyncedDocument:
    return replace(document, status=following(TRANSITIONS, document.status, event), updated_at=now)


def renewed(document: SyncedDocument, now: datetime) -> SyncedDocument:
    """The document when it is to be pushed: with all attempts available, unless it is being retried."""
    moved = _moved(document, SyncEvent.ORDER, now)
    if moved.status == SyncStatus.RETRYING:
        return moved
    return replace(moved, attempts=0, error_code=None, error_message=None)


def ordered(document: SyncedDocument, awaits_id: str | None, now: datetime) -> SyncedDocument:
    """The document after its record has changed; it waits for the document `awaits_id`."""
    return replace(renewed(document, now), version=document.version + 1, awaits_id=awaits_id)


def accepted(document: SyncedDocument, answer: Accepted, pushed_version: int, now: datetime) -> SyncedDocument:
    """The document after a system has accepted `pushed_version`; pending if there is a later version by now."""
    event = SyncEvent.ACCEPT if document.version == pushed_version else SyncEvent.ACCEPT_OLDER
    return replace(
        _moved(document, event, now),
        external_id=answer.external_id,
        attempts=0,
        awaits_id=None,
        error_code=None,
        error_message=None,
        synced_at=now,
    )


def retried(
    document: SyncedDocument, failure: ProviderFailure, pushed_version: int, now: datetime
) -> tuple[SyncedDocument, timedelta | None]:
    """The document after a push of `pushed_version` failed, and how long until the next one; None if that was the last.

    A refusal is final, unless the record has changed since: the new version is pushed at once.
    """
    attempts = document.attempts + 1
    retrying = replace(
        _moved(document, SyncEvent.RETRY, now),
        attempts=attempts,
        error_code=failure.code,
        error_message=failure.message,
    )
    if document.version != pushed_version and failure.kind is FailureKind.REFUSED:
        return retrying, timedelta()
    return retrying, retry_delay(failure, attempts)


def failed(document: SyncedDocument, failure: ProviderFailure, now: datetime) -> SyncedDocument:
    """The document when it is no longer pushed."""
    return replace(_moved(document, SyncEvent.FAIL, now), error_code=failure.code, error_message=failure.message)


def resent(document: SyncedDocument, now: datetime) -> SyncedDocument:
    """The document after somebody requested another push: of the last version if the system does not have it, else as a
    new version.
    """
    return replace(
        _moved(document, SyncEvent.RESEND, now),
        version=document.version + (document.status == SyncStatus.SYNCED),
        attempts=0,
        awaits_id=None,
        error_code=None,
        error_message=None,
    )


def is_released(document: SyncedDocument) -> bool:
    """Whether a document that awaits another is pushed as soon as that one is there."""
    return document.status in UNSETTLED or document.lacks_parent


def lacking(parent: SyncSubject) -> ProviderFailure:
    """The failure of a document whose parent is missing in the system."""
    return ProviderFailure(code=PARENT_MISSING[parent], message=f"the {parent} is not there")


def pushed_fields(customer: Customer) -> Customer:
    """The customer without the fields that no system is sent: a change of any other field is pushed."""
    return replace(
        customer, updated_at=customer.created_at, integration_customers=(), tax_error=None, provider_payment_methods=()
    )


def is_pushed_again(category: IntegrationCategory, invoice_status: InvoiceStatus) -> bool:
    """Whether a system of this category is sent an issued invoice again after it has changed.

    Accounting systems are sent voids only: they have the payments themselves.
    """
    return category is IntegrationCategory.CRM or invoice_status == InvoiceStatus.VOIDED
