"""Files: documents generated, kept and handed out. What draws them (`drawing`) is imported with the first one: most
processes draw none.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.core.documents.files import (
    ALL_KINDS,
    Document,
    DocumentKind,
    DocumentSubject,
    document_token,
    id_of_token,
)
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.tasks import GenerateDocuments
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.documents.orders import Documented, order, subject_of
from usagebill.queries.credit_notes import finalized_credit_note
from usagebill.queries.payments import receipt_by_id
from usagebill.runtime.work import Reader, Work
from usagebill.storage.ports import Transaction
from usagebill.views.credit_notes import credit_note_of_customer
from usagebill.views.invoices import invoice_webhook_view
from usagebill.views.payment_receipts import payment_receipt_view

S = TypeVar("S", Invoice, CreditNote, PaymentReceipt)


# Requests


@without_backlog(Unrelated.STORED)
def download_invoice(work: Work, invoice_id: str) -> Invoice | None:
    """The invoice with the URL of its PDF; None while that is being generated. Raises `NotFound`."""
    return _downloaded(work, _invoice(work, invoice_id), DocumentKind.PDF)


@without_backlog(Unrelated.STORED)
def download_invoice_xml(work: Work, invoice_id: str) -> Invoice | None:
    """The invoice with the URL of its XML; None if there is none (yet). Raises `NotFound`, and `Invalid` if it lacks
    fields that e-invoices require."""
    invoice = _invoice(work, invoice_id)
    _check_complete(work, invoice)
    return _downloaded(work, invoice, DocumentKind.XML)


@without_backlog(Unrelated.STORED)
def download_credit_note(work: Work, credit_note_id: str) -> CreditNote | None:
    """The credit note with the URL of its PDF; None while that is being generated. Raises `NotFound`."""
    return _downloaded(work, finalized_credit_note(work, credit_note_id), DocumentKind.PDF)


@without_backlog(Unrelated.STORED)
def download_credit_note_xml(work: Work, credit_note_id: str) -> CreditNote | None:
    """The credit note with the URL of its XML; None if there is none (yet). Raises as for invoices."""
    note = finalized_credit_note(work, credit_note_id)
    _check_complete(work, note)
    return _downloaded(work, note, DocumentKind.XML)


@without_backlog(Unrelated.STORED)
def download_receipt(work: Work, payment_receipt_id: str) -> PaymentReceipt | None:
    """The receipt with the URL of its PDF; None while that is being generated. Raises `NotFound`."""
    return _downloaded(work, receipt_by_id(work, payment_receipt_id), DocumentKind.PDF)


@without_backlog(Unrelated.STORED)
def invoice_pdf(work: Work, invoice_id: str) -> bytes:
    """The PDF of an invoice, generated now if it does not exist. Raises `NotFound` unless it is finalized."""
    return _content(work, _made(work, _invoice(work, invoice_id), ALL_KINDS).pdf_id)


@without_backlog(Unrelated.STORED)
def invoice_xml(work: Work, invoice_id: str) -> bytes:
    """The XML (UBL) of an e-invoice. Raises `NotFound` also if its billing entity issues none, and `Invalid` if it
    lacks fields that e-invoices require."""
    invoice = _invoice(work, invoice_id)
    _check_complete(work, invoice)
    return _content(work, _made(work, invoice, (DocumentKind.XML,)).xml_id)


@without_backlog(Unrelated.STORED)
def credit_note_pdf(work: Work, credit_note_id: str) -> bytes:
    """The PDF of a credit note, generated now if it does not exist. Raises `NotFound`."""
    return _content(work, _made(work, finalized_credit_note(work, credit_note_id), ALL_KINDS).pdf_id)


@without_backlog(Unrelated.STORED)
def credit_note_xml(work: Work, credit_note_id: str) -> bytes:
    """The XML (UBL) of a credit note. Raises as for invoices."""
    note = finalized_credit_note(work, credit_note_id)
    _check_complete(work, note)
    return _content(work, _made(work, note, (DocumentKind.XML,)).xml_id)


@without_backlog(Unrelated.STORED)
def receipt_pdf(work: Work, payment_receipt_id: str) -> bytes:
    """The PDF of a payment receipt, generated now if it does not exist. Raises `NotFound`."""
    return _content(work, _made(work, receipt_by_id(work, payment_receipt_id), ALL_KINDS).pdf_id)


def by_token(tx: Transaction, token: str) -> Document:
    """The document that a token names, in any organization. Raises `NotFound`, also for a bad signature."""
    document = tx.get(Document, id_of_token(token))
    organization = None if document is None else tx.get(Organization, document.organization_id)
    if document is None or organization is None:
        raise NotFound("document")
    key = derived_key(organization.root_key, Purpose.DOCUMENT_LINK)
    if not hmac.compare_digest(document_token(key, document.id).encode(), token.encode()):
        raise NotFound("document")
    return document


def _invoice(reader: Reader, invoice_id: str) -> Invoice:
    invoice = reader.tx.get(Invoice, invoice_id)
    if invoice is None or invoice.status != InvoiceStatus.FINALIZED:
        raise NotFound("invoice", invoice_id)
    return invoice


def _downloaded(work: Work, subject: S, kind: DocumentKind) -> S | None:
    if (subject.pdf_id if kind == DocumentKind.PDF else subject.xml_id) is not None:
        return subject
    order(work, subject, ALL_KINDS if kind == DocumentKind.PDF else (DocumentKind.XML,))
    return None


def _content(reader: Reader, document_id: str | None) -> bytes:
    document = None if document_id is None else reader.tx.get(Document, document_id)
    if document is None:
        raise NotFound("document", document_id)
    return document.content


def _check_complete(reader: Reader, subject: Invoice | CreditNote) -> None:
    """Raises `Invalid` for a document that is to be an e-invoice but cannot be a valid one."""
    from usagebill.operations.documents.drawing import lacking

    if subject.xml_id is None and (missing := lacking(reader, subject)):
        raise Invalid(missing)


# Generation


def generate(work: Work, job: Job, task: GenerateDocuments) -> None:
    """Job: generate the documents that an issued invoice, credit note or receipt still lacks."""
    work.tx.jobs.complete(job)
    if task.subject is DocumentSubject.INVOICE:
        invoice = work.tx.get(Invoice, task.subject_id)
        if invoice is not None and invoice.status == InvoiceStatus.FINALIZED:
            _made(work, invoice, task.kinds)
    elif task.subject is DocumentSubject.CREDIT_NOTE:
        note = work.tx.get(CreditNote, task.subject_id)
        if note is not None and note.status == CreditNoteStatus.FINALIZED:
            _made(work, note, task.kinds)
    else:
        receipt = work.tx.get(PaymentReceipt, task.subject_id)
        if receipt is not None:
            _made(work, receipt, task.kinds)


def _made(work: Work, subject: S, kinds: Sequence[DocumentKind]) -> S:
    """The record with those of these documents that it is to have; each is generated once."""
    lacking = [kind for kind in kinds if (subject.pdf_id if kind == DocumentKind.PDF else subject.xml_id) is None]
    if not lacking:
        return subject
    from usagebill.operations.documents.drawing import drawing

    pdf_id, xml_id = subject.pdf_id, subject.xml_id
    for kind in lacking:
        content = work.drawn((subject.id, kind), partial(drawing, work, subject, kind))
        if content:
            id = _kept(work, subject, kind, content)
            pdf_id, xml_id = (id, xml_id) if kind == DocumentKind.PDF else (pdf_id, id)
    complete = replace(subject, pdf_id=pdf_id, xml_id=xml_id)
    work.tx.replace(complete)
    if pdf_id != subject.pdf_id:
        _tell(work, complete)
    return complete


def _tell(work: Work, made: Documented) -> None:
    if isinstance(made, Invoice):
        work.emit("invoice.generated", lambda: invoice_webhook_view(work, "invoice.generated", made), made.id)
    elif isinstance(made, CreditNote):
        work.emit("credit_note.generated", lambda: credit_note_of_customer(work, made), made.id)
    else:
        work.emit("payment_receipt.generated", lambda: payment_receipt_view(work, made), made.id)


def _kept(work: Work, subject: Documented, kind: DocumentKind, content: bytes) -> str:
    document = Document(
        id=work.new_id(),
        organization_id=work.organization.id,
        subject_type=subject_of(subject),
        subject_id=subject.id,
        kind=kind,
        name=f"{subject.number}.{kind}",
        content=content,
        created_at=work.now,
        updated_at=work.now,
    )
    work.tx.insert(document)
    return document.id
