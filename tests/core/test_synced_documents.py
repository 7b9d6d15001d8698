"""What becomes of a synced document when it is ordered, accepted, refused or resent, in tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from usagebill.core.customers import IntegrationCategory
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.life_cycles import TransitionError
from usagebill.core.statuses import SyncStatus
from usagebill.core.sync_connections import UNSETTLED, Accepted, SyncedDocument, SyncSubject
from usagebill.core.synced_documents import (
    TRANSITIONS,
    SyncEvent,
    accepted,
    failed,
    is_pushed_again,
    is_released,
    lacking,
    ordered,
    renewed,
    resent,
    retried,
)
from usagebill.core.tax_providers import FailureKind, ProviderFailure

CREATED = datetime(2024, 5, 1, tzinfo=UTC)
NOW = datetime(2024, 5, 2, tzinfo=UTC)
PENDING, RETRYING, SYNCED, FAILED = SyncStatus
REFUSED = ProviderFailure(code="tax_code_missing", message="no tax code")
UNREACHABLE = ProviderFailure(code="network_error", message="no answer", kind=FailureKind.UNREACHABLE)


def document(status: SyncStatus = PENDING, **fields: Any) -> SyncedDocument:
    values: dict[str, Any] = {
        "id": "document",
        "organization_id": "organization",
        "connection_id": "connection",
        "customer_id": "customer",
        "subject": SyncSubject.INVOICE,
        "subject_id": "invoice",
        "status": status,
        "version": 3,
        "attempts": 2,
        "awaits_id": "parent",
        "error_code": "network_error",
        "error_message": "no answer",
        "created_at": CREATED,
        "updated_at": CREATED,
        **fields,
    }
    return SyncedDocument(**values)


@pytest.mark.parametrize(("status", "event"), [*product(SyncStatus, SyncEvent)])
def test_a_push_concludes_what_is_pushed_and_anything_can_be_ordered_or_resent(
    status: SyncStatus, event: SyncEvent
) -> None:
    always = event in (SyncEvent.ORDER, SyncEvent.RESEND)
    assert ((status, event) in TRANSITIONS) is (always or status in UNSETTLED)


@pytest.mark.parametrize(
    ("status", "becomes", "attempts", "error"),
    [
        (PENDING, PENDING, 0, None),
        (RETRYING, RETRYING, 2, "network_error"),  # its next attempt has the new version
        (SYNCED, PENDING, 0, None),
        (FAILED, PENDING, 0, None),
    ],
)
def test_an_order_is_a_new_version(status: SyncStatus, becomes: SyncStatus, attempts: int, error: str | None) -> None:
    again = ordered(document(status), None, NOW)
    assert (again.status, again.version, again.attempts, again.error_code) == (becomes, 4, attempts, error)
    assert (again.awaits_id, again.updated_at) == (None, NOW)
    released = renewed(document(status), NOW)
    assert (released.status, released.version, released.awaits_id) == (becomes, 3, "parent")


@pytest.mark.parametrize(("pushed", "becomes"), [(3, SYNCED), (2, PENDING)])
@pytest.mark.parametrize("status", UNSETTLED)
def test_what_was_accepted_of_an_older_version_is_pushed_again(
    status: SyncStatus, pushed: int, becomes: SyncStatus
) -> None:
    synced = accepted(document(status), Accepted(external_id="NS-7"), pushed, NOW)
    assert (synced.status, synced.version, synced.external_id, synced.synced_at) == (becomes, 3, "NS-7", NOW)
    assert (synced.attempts, synced.awaits_id, synced.error_code, synced.error_message) == (0, None, None, None)


@pytest.mark.parametrize(
    ("failure", "attempts", "pushed", "delay"),
    [
        (UNREACHABLE, 0, 3, timedelta(seconds=15)),
        (UNREACHABLE, 1, 3, timedelta(seconds=15 * 4)),
        (UNREACHABLE, 16, 3, timedelta(hours=6)),
        (UNREACHABLE, 17, 3, None),  # 18 attempts in all
        (REFUSED, 0, 3, None),
        (REFUSED, 0, 2, timedelta()),  # what was refused has changed meanwhile
        (REFUSED, 17, 2, timedelta()),
        (UNREACHABLE, 0, 2, timedelta(seconds=15)),
    ],
)
def test_a_push_that_failed_is_retried(
    failure: ProviderFailure, attempts: int, pushed: int, delay: timedelta | None
) -> None:
    retrying, waits = retried(document(attempts=attempts), failure, pushed, NOW)
    assert waits == delay
    assert (retrying.status, retrying.attempts, retrying.error_code) == (RETRYING, attempts + 1, failure.code)
    given_up = failed(retrying, failure, NOW)
    assert (given_up.status, given_up.attempts, given_up.error_message) == (FAILED, attempts + 1, failure.message)


@pytest.mark.parametrize("status", [SYNCED, FAILED])
def test_nothing_concludes_a_document_that_is_not_pushed(status: SyncStatus) -> None:
    with pytest.raises(TransitionError):
        accepted(document(status), Accepted(external_id="NS-7"), 3, NOW)
    with pytest.raises(TransitionError):
        failed(document(status), REFUSED, NOW)


@pytest.mark.parametrize(("status", "version"), [(PENDING, 3), (RETRYING, 3), (SYNCED, 4), (FAILED, 3)])
def test_a_resent_document_has_a_new_key_only_if_the_system_has_the_last_version(
    status: SyncStatus, version: int
) -> None:
    again = resent(document(status), NOW)
    assert (again.status, again.version) == (PENDING, version)
    assert (again.attempts, again.awaits_id, again.error_code) == (0, None, None)


@pytest.mark.parametrize(
    ("status", "error", "released"),
    [
        (PENDING, None, True),
        (RETRYING, "network_error", True),
        (FAILED, "invoice_missing", True),
        (FAILED, "customer_missing", True),
        (FAILED, "tax_code_missing", False),
        (SYNCED, None, False),
    ],
)
def test_what_waited_is_pushed_once_its_parent_is_there(status: SyncStatus, error: str | None, released: bool) -> None:
    assert is_released(document(status, error_code=error)) is released


def test_the_failure_of_a_child_names_its_parent() -> None:
    assert lacking(SyncSubject.INVOICE) == ProviderFailure(code="invoice_missing", message="the invoice is not there")


@pytest.mark.parametrize(
    ("category", "status", "pushed"),
    [
        (IntegrationCategory.ACCOUNTING, InvoiceStatus.FINALIZED, False),
        (IntegrationCategory.ACCOUNTING, InvoiceStatus.VOIDED, True),
        (IntegrationCategory.CRM, InvoiceStatus.FINALIZED, True),
        (IntegrationCategory.CRM, InvoiceStatus.VOIDED, True),
    ],
)
def test_accounting_systems_are_sent_a_changed_invoice_only_when_it_is_voided(
    category: IntegrationCategory, status: InvoiceStatus, pushed: bool
) -> None:
    assert is_pushed_again(category, status) is pushed
