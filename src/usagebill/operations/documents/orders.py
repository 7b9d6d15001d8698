"""Orders: documents that are to be made next, outside the operation that asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.credit_notes import CreditNote
from usagebill.core.documents.files import DocumentKind, DocumentSubject
from usagebill.core.invoices.records import Invoice
from usagebill.core.tasks import GenerateDocuments
from usagebill.work import Work

__all__ = ["order", "order_on_issue"]


def order(work: Work, subject: Invoice | CreditNote, kinds: Sequence[DocumentKind]) -> None:
    """Have documents made by a job of their own."""
    of = DocumentSubject.INVOICE if isinstance(subject, Invoice) else DocumentSubject.CREDIT_NOTE
    work.schedule(GenerateDocuments(subject=of, subject_id=subject.id, kinds=tuple(kinds)), work.now)


def order_on_issue(work: Work, subject: Invoice | CreditNote) -> None:
    """Have the documents of what has just been issued made, unless the installation makes them on demand only."""
    if work.settings.documents == "at_once":
        order(work, subject, (DocumentKind.XML, DocumentKind.PDF))
