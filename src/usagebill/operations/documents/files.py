"""Files: documents generated, kept and handed out."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.core.documents.cii import cii_text
from usagebill.core.documents.credit_notes import credit_note_content
from usagebill.core.documents.electronic import credit_note_document, gaps, invoice_document, is_eligible
from usagebill.core.documents.files import (
    ALL_KINDS,
    Document,
    DocumentKind,
    DocumentSubject,
    document_token,
    id_of_token,
)
from usagebill.core.documents.invoices import invoice_content
from usagebill.core.documents.receipt_ubl import receipt_ubl_text
from usagebill.core.documents.receipts import receipt_content
from usagebill.core.documents.sources import CreditNoteSource, InvoiceSource, ReceiptSource
from usagebill.core.documents.ubl import ubl_text
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.tasks import GenerateDocuments
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.documents.orders import Documented, order, subject_of
from usagebill.operations.documents.sources import credit_note_source, invoice_source, receipt_source
from usagebill.process.logs import Log
from usagebill.queries.credit_notes import finalized_credit_note
from usagebill.queries.payments import receipt_by_id
from usagebill.runtime.work import Reader, Work
from usagebill.storage.ports import Transaction
from usagebill.views.credit_notes import credit_note_of_customer
from usagebill.views.invoices import invoice_webhook_view
from usagebill.views.payment_receipts import payment_receipt_view

_log = Log("usagebill.documents")

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
    if subject.xml_id is not None:
        return
    source = _source(reader, subject)
    if is_eligible(source.entity) and (lacking := gaps(source)):
        raise Invalid(lacking)


def _source(reader: Reader, subject: Invoice | CreditNote) -> InvoiceSource:
    if isinstance(subject, Invoice):
        return invoice_source(reader, subject)
    return credit_note_source(reader, subject).invoice


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
    pdf_id, xml_id = subject.pdf_id, subject.xml_id
    for kind in lacking:
        content = work.drawn((subject.id, kind), partial(_drawing, work, subject, kind))
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


def _drawing(reader: Reader, subject: Documented, kind: DocumentKind) -> Callable[[], bytes]:
    if isinstance(subject, Invoice):
        return partial(_drawn, invoice_source(reader, subject), kind)
    if isinstance(subject, CreditNote):
        return partial(_drawn, credit_note_source(reader, subject), kind)
    return partial(_drawn, receipt_source(reader, subject), kind)


def _drawn(source: InvoiceSource | CreditNoteSource | ReceiptSource, kind: DocumentKind) -> bytes:
    """The bytes of a document; empty for the XML of one that is no e-invoice."""
    if isinstance(source, ReceiptSource):
        if kind == DocumentKind.XML:
            return receipt_ubl_text(source).encode() if is_eligible(source.entity) else b""
        content, electronic = receipt_content(source), None
    elif isinstance(source, InvoiceSource):
        content = invoice_content(source)
        electronic = invoice_document(source) if _is_electronic(source, content.number) else None
    else:
        content = credit_note_content(source)
        electronic = credit_note_document(source) if _is_electronic(source.invoice, content.number) else None
    if kind == DocumentKind.XML:
        return b"" if electronic is None else ubl_text(electronic).encode()
    # The drawing code is imported on first use: most processes never draw.
    from usagebill.printing.pdf import pdf_bytes

    return pdf_bytes(content, None if electronic is None else cii_text(electronic))


def _is_electronic(source: InvoiceSource, number: str) -> bool:
    """Whether a document gets XML forms. For one that the rules would refuse it does not, and the log says why."""
    if not is_eligible(source.entity):
        return False
    lacking = gaps(source)
    if lacking:
        _log.warning("einvoice_left_out", document=number, billing_entity=source.entity.code, lacking=lacking)
    return not lacking


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
