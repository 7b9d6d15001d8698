"""Generation failures: a failing run is shown as a failed invoice with the reason, until it succeeds.

Such an invoice bills nothing and has no number. A draft that could not be finalized stays a draft, with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer, dating_settings, timezone
from usagebill.core.dates import InvoiceDates, Occasion, dates_at_creation
from usagebill.core.error_details import GENERATION_ERROR, ErrorDetail, without
from usagebill.core.invoices.life_cycle import InvoiceEvent, InvoiceStatus, InvoiceType, transition
from usagebill.core.invoices.opening import new_invoice
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.tasks import FinalizeInvoice, Task
from usagebill.queries.customers import entity_of
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq


def note(work: Work, job: Job, task: Task, reason: str) -> None:
    """Show the failure of the job, with the reason, if the job makes or finishes an invoice."""
    if isinstance(task, FinalizeInvoice):
        _note_on_draft(work, task, reason)
    elif task.makes_invoices:
        _note_in_place(work, job, reason)


def _detail(reader: Reader, reason: str) -> ErrorDetail:
    details = {GENERATION_ERROR: reason}
    return ErrorDetail(id=reader.new_id(), error_code=GENERATION_ERROR, details=details, created_at=reader.now)


def _note_on_draft(work: Work, task: FinalizeInvoice, reason: str) -> None:
    draft = work.tx.get(Invoice, task.invoice_id)
    if draft is not None and draft.status == InvoiceStatus.DRAFT:
        kept = without(draft.error_details, GENERATION_ERROR)
        work.tx.replace(replace(draft, error_details=(*kept, _detail(work, reason)), updated_at=work.now))


def _note_in_place(work: Work, job: Job, reason: str) -> None:
    standing = _in_place_of(work, job)
    if standing is None:
        customer = work.tx.get(Customer, job.subject_id, deleted=True)
        if customer is not None:
            work.tx.insert(_unmade(work, customer, job, reason))
        return
    status = standing.status
    if status == InvoiceStatus.PENDING:
        status = transition(status, InvoiceEvent.GENERATION_FAILED)
    work.tx.replace(replace(standing, status=status, error_details=(_detail(work, reason),), updated_at=work.now))


def _in_place_of(reader: Reader, job: Job) -> Invoice | None:
    """The invoice that shows the failure of the job."""
    of_customer = eq("customer_id", job.subject_id)
    return reader.tx.first(Invoice, of_customer, eq("failed_job_id", job.id))


def _unmade(reader: Reader, customer: Customer, job: Job, reason: str) -> Invoice:
    entity = entity_of(reader, customer)
    zone, term, dates = _dated(customer, entity, job)
    unmade = new_invoice(
        id=reader.new_id(),
        invoice_type=InvoiceType.SUBSCRIPTION,
        customer=customer,
        issuer=entity,
        currency=customer.currency or entity.default_currency,
        timezone=zone,
        dates=dates,
        net_payment_term=term,
        now=reader.now,
    )
    status = transition(unmade.status, InvoiceEvent.GENERATION_FAILED)
    return replace(unmade, status=status, failed_job_id=job.id, error_details=(_detail(reader, reason),))


def _dated(customer: Customer, entity: BillingEntity, job: Job) -> tuple[str, int, InvoiceDates]:
    """The time zone, payment term and dates of the invoice that shows a failure."""
    try:
        zone, settings = timezone(customer, entity), dating_settings(customer, entity)
        dates = dates_at_creation(Occasion.IMMEDIATE, settings, job.due_at, ZoneInfo(zone))
    except Exception:
        # The failure may come from the dates themselves; it must show all the same.
        day = job.due_at.date()
        return "UTC", 0, InvoiceDates(issuing=day, payment_due=day, expected_finalization=day)
    return zone, settings.net_payment_term, dates


def clear(work: Work, job: Job, task: Task) -> None:
    """Remove the invoice that showed the failure of the job, which has now succeeded."""
    standing = _in_place_of(work, job) if task.makes_invoices else None
    if standing is not None:
        _close(work, standing)


def _close(work: Work, standing: Invoice) -> Invoice:
    status = transition(standing.status, InvoiceEvent.CLOSE)
    closed = replace(standing, status=status, error_details=(), updated_at=work.now)
    work.tx.replace(closed)
    return closed


def retry(work: Work, invoice: Invoice) -> Invoice:
    """Retry the failed run at once. If its job is gone, the invoice is closed."""
    if invoice.failed_job_id is None or not work.tx.jobs.retry(invoice.failed_job_id, work.now):
        return _close(work, invoice)
    status = transition(invoice.status, InvoiceEvent.RETRY)
    waiting = replace(invoice, status=status, error_details=(), updated_at=work.now)
    work.tx.replace(waiting)
    return waiting
