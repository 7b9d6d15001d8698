"""Contents of e-mails, composed when they are sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.documents.content import Content
from usagebill.core.documents.credit_notes import credit_note_content
from usagebill.core.documents.invoices import invoice_content
from usagebill.core.documents.locales import language_of
from usagebill.core.documents.receipts import receipt_content
from usagebill.core.documents.words import words_of
from usagebill.core.email_texts import filled, own_text
from usagebill.core.emails import (
    WITH_LINK,
    Attachment,
    Email,
    EmailSubject,
    addresses,
    email_texts,
    file_name,
    gives_nothing,
    one_line,
)
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.tasks import SendEmail, payload_of
from usagebill.operations.documents.files import credit_note_pdf, invoice_pdf, receipt_pdf
from usagebill.operations.documents.orders import Documented
from usagebill.operations.documents.sources import credit_note_source, invoice_source, receipt_source
from usagebill.operations.emails.orders import customer_addresses, entity_of_subject, sender_of
from usagebill.operations.emails.overdue import (
    Unsent as Unsent,
    overdue_email,
)
from usagebill.operations.emails.sign_in import sign_in_email
from usagebill.operations.emails.usage_levels import level_email
from usagebill.queries.payments import paid_invoices, payment_of_receipt
from usagebill.runtime.work import Reader, Work
from usagebill.views.documents import document_url

_NOTED_WITHIN = timedelta(minutes=1)


def prepare(
    work: Work, job: Job, task: SendEmail, pay_url_of: Callable[[Work, PaymentRequest], str | None]
) -> Email | Unsent:
    """The e-mail of a job, with its PDFs, generated if missing. `Unsent` if it is not to be sent any more, which ends
    the job.

    The current addresses of billing entity and customer are used.
    """
    if task.subject in WITH_LINK:
        email = sign_in_email(work, task)
    elif task.subject is EmailSubject.USAGE_LEVEL:
        email = level_email(work, task)
    elif task.subject is EmailSubject.PAYMENT_REQUEST:
        email = overdue_email(work, task, pay_url_of)
    else:
        email = _email(work, task)
    if isinstance(email, Unsent):
        work.tx.jobs.complete(job)
    return email


def _email(work: Work, task: SendEmail) -> Email | Unsent:
    subject = _subject(work, task)
    if subject is None or not _still_stands(subject):
        return Unsent(reason="it is finalized no more")
    if not task.asked and isinstance(subject, CreditNote) and gives_nothing(subject):
        return Unsent(reason="what it gave was voided")
    entity = entity_of_subject(work, subject)
    sender = sender_of(work, entity)
    to = task.to or customer_addresses(work, subject)
    if sender is None or not to:
        return Unsent(reason="the billing entity or the customer has no address any more")
    if set(task.reached).issuperset((*to, *task.cc, *task.bcc)):
        return Unsent(reason="all that it is for have it")
    content, heading = _letter(work, subject)
    files = _files(work, subject)
    # Read again, as it has its PDF now.
    subject = _subject(work, task) or subject
    names = {"entity": entity.name, "number": subject.number}
    values = {**names, "customer": content.recipient.name, "amount": content.amount}
    own = filled(own_text(entity.email_texts, task.subject, language_of(content.locale)), values)
    title = one_line(own.subject or heading.format_map(names))
    url = document_url(work, subject.pdf_id)
    is_receipt = isinstance(subject, PaymentReceipt)
    text, page = email_texts(content, title, words_of(content.locale), url, own=own, is_receipt=is_receipt)
    return Email(
        id=task.message_id,
        sent_at=work.now,
        sender_name=one_line(entity.name),
        sender=sender,
        reply_to=addresses(entity.email),
        to=to,
        cc=task.cc,
        bcc=task.bcc,
        subject=title,
        text=text,
        html=page,
        language=language_of(content.locale),
        attachments=tuple(
            Attachment(name=name, content_type="application/pdf", content=pdf) for name, pdf in files.items()
        ),
        reached=task.reached,
    )


def _subject(reader: Reader, task: SendEmail) -> Documented | None:
    if task.subject is EmailSubject.INVOICE:
        return reader.tx.get(Invoice, task.subject_id)
    if task.subject is EmailSubject.CREDIT_NOTE:
        return reader.tx.get(CreditNote, task.subject_id)
    return reader.tx.get(PaymentReceipt, task.subject_id)


def _still_stands(subject: Documented) -> bool:
    if isinstance(subject, PaymentReceipt):
        return True
    is_invoice = isinstance(subject, Invoice)
    return subject.status == (InvoiceStatus.FINALIZED if is_invoice else CreditNoteStatus.FINALIZED)


def _letter(work: Work, subject: Documented) -> tuple[Content, str]:
    """The content of the subject's document, and the heading of its e-mail."""
    if isinstance(subject, Invoice):
        source = invoice_source(work, subject)
        return invoice_content(source), words_of(source.locale).invoice_email
    if isinstance(subject, CreditNote):
        of_note = credit_note_source(work, subject)
        return credit_note_content(of_note), words_of(of_note.invoice.locale).credit_note_email
    of_receipt = receipt_source(work, subject)
    return receipt_content(of_receipt), words_of(of_receipt.locale).receipt_email


def _files(work: Work, subject: Documented) -> dict[str, bytes]:
    """The PDFs attached for the subject, by file name; a receipt comes with those of the paid invoices."""
    if isinstance(subject, Invoice):
        return {file_name("invoice", subject.number): invoice_pdf(work, subject.id)}
    if isinstance(subject, CreditNote):
        return {file_name("credit_note", subject.number): credit_note_pdf(work, subject.id)}
    files = {file_name("receipt", subject.number): receipt_pdf(work, subject.id)}
    for invoice in paid_invoices(work, payment_of_receipt(work, subject)):
        if invoice.status == InvoiceStatus.FINALIZED:
            files[file_name("invoice", invoice.number)] = invoice_pdf(work, invoice.id)
    return files


def note_reached(work: Work, job: Job, task: SendEmail, reached: Sequence[str]) -> None:
    """Note the recipients who have been `reached`, so that a retry only sends to the others."""
    # The retry is scheduled when the failure is noted; if that never happens, the lease runs out.
    remaining = replace(task, reached=(*task.reached, *reached))
    waiting = replace(job, payload=payload_of(remaining), run_at=work.now + _NOTED_WITHIN)
    work.tx.jobs.complete(job)
    work.tx.jobs.add(waiting)
