"""Drawing: what a document shows, and the bytes of its PDF or XML."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from usagebill.core.credit_notes import CreditNote
from usagebill.core.documents.cii import cii_text
from usagebill.core.documents.credit_notes import credit_note_content
from usagebill.core.documents.electronic import credit_note_document, gaps, invoice_document, is_eligible
from usagebill.core.documents.files import DocumentKind
from usagebill.core.documents.invoices import invoice_content
from usagebill.core.documents.receipt_ubl import receipt_ubl_text
from usagebill.core.documents.receipts import receipt_content
from usagebill.core.documents.sources import CreditNoteSource, InvoiceSource, ReceiptSource
from usagebill.core.documents.ubl import ubl_text
from usagebill.core.invoices.records import Invoice
from usagebill.operations.documents.orders import Documented
from usagebill.operations.documents.sources import credit_note_source, invoice_source, receipt_source
from usagebill.process.logs import Log
from usagebill.runtime.work import Reader

_log = Log("usagebill.documents")


def lacking(reader: Reader, subject: Invoice | CreditNote) -> dict[str, list[str]]:
    """What a document that is to be an e-invoice lacks, by field; empty for others."""
    source = (
        invoice_source(reader, subject) if isinstance(subject, Invoice) else credit_note_source(reader, subject).invoice
    )
    return gaps(source) if is_eligible(source.entity) else {}


def drawing(reader: Reader, subject: Documented, kind: DocumentKind) -> Callable[[], bytes]:
    """The function that draws a document from what was read of it now."""
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
    # XML needs no drawing.
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
