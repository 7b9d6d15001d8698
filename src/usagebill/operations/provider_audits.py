"""The daily comparison of payments and refunds with their providers' books: when it runs, and its last results."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from usagebill.core.days import next_time_of_day
from usagebill.core.monitoring_tasks import CompareWithProviders
from usagebill.core.payment_audit import Difference, ProviderAudit
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payments import LIVE, Payment, RefundAttempt
from usagebill.core.statuses import PaymentStatus
from usagebill.operations.payment_orders import order_look_up, order_refund_look_up
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, less, present, within
from usagebill.storage.jobs import task_of
from usagebill.storage.ports import Snapshot

# After the night's billing, before people look.
_COMPARED_AT = time(6, tzinfo=UTC)
# A notice may still be on its way.
_NEWS = timedelta(hours=1)
_MOST_LOOKED_UP = 1000


def schedule(work: Work, last: CompareWithProviders | None = None, *, due_at: datetime | None = None) -> None:
    """Schedule the next daily comparison, with the results of the `last`, which was due at `due_at`; none if that is
    switched off.
    """
    task = last or CompareWithProviders(organization_id=work.organization.id)
    if work.settings.provider_audit_days == 0:
        work.cancel(task)
    else:
        work.schedule(task, next_time_of_day(_COMPARED_AT, work.now if due_at is None else max(work.now, due_at)))


def compared(reader: Reader) -> tuple[list[PaymentConnection], timedelta]:
    """The connections whose provider has a list to compare with, and how far back that is done."""
    listing = [connection for connection in reader.tx.find(PaymentConnection) if connection.traits.lists]
    days = reader.settings.provider_audit_days
    return (listing if days else []), timedelta(days=days)


def standing_differences(reader: Reader, differences: list[Difference]) -> list[Difference]:
    """The differences but those of charges that were under way within the last hour: their notices may be too."""
    ids = [difference.payment_id for difference in differences if difference.payment_id is not None]
    new = {
        payment.id
        for payment in reader.tx.find(Payment, within("id", ids), within("payment_status", LIVE))
        if payment.updated_at > reader.now - _NEWS
    }
    return [difference for difference in differences if difference.payment_id not in new]


def order_look_ups(work: Work) -> None:
    """Have the providers asked about what has been under way for a day, should nobody have ordered that."""
    before = less("created_at", work.now - timedelta(days=1))
    oldest = [asc("created_at")]
    for payment in work.tx.find(
        Payment,
        present("connection_id"),
        within("payment_status", LIVE),
        before,
        order=oldest,
        limit=_MOST_LOOKED_UP,
    ):
        order_look_up(work, payment)
    for attempt in work.tx.find(
        RefundAttempt,
        present("provider_refund_id"),
        eq("refund_status", PaymentStatus.PENDING),
        before,
        order=oldest,
        limit=_MOST_LOOKED_UP,
    ):
        order_refund_look_up(work, attempt)


def comparisons(reader: Reader) -> list[ProviderAudit]:
    """The last comparison of each connection with its provider's list; none before the first."""
    return last_audits(reader.tx)


def last_audits(tx: Snapshot) -> list[ProviderAudit]:
    """The last comparisons of an organization, by connection."""
    job = tx.jobs.get(CompareWithProviders(organization_id=tx.organization_id or "").key)
    last = None if job is None else task_of(CompareWithProviders, job)
    if last is None or last.compared_at is None:
        return []
    return [
        ProviderAudit(
            organization_id=last.organization_id,
            connection_code=code,
            compared_at=last.compared_at,
            differences=last.differences.get(code, 0),
            failure=last.failures.get(code),
        )
        for code in sorted({*last.differences, *last.failures})
    ]
