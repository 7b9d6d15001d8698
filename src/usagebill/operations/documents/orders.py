"""Orders: documents to generate by a job, outside the operation that orders them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from usagebill.core.credit_notes import CreditNote
from usagebill.core.documents.files import ALL_KINDS, DocumentKind, DocumentSubject
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.tasks import GenerateDocuments
from usagebill.runtime.work import Work

Documented: TypeAlias = Invoice | CreditNote | PaymentReceipt
_SUBJECTS: Mapping[type, DocumentSubject] = {
    Invoice: DocumentSubject.INVOICE,
    CreditNote: DocumentSubject.CREDIT_NOTE,
    PaymentReceipt: DocumentSubject.PAYMENT_RECEIPT,
}


def subject_of(record: Documented) -> DocumentSubject:
    """The name of the record's kind in jobs about its documents."""
    return _SUBJECTS[type(record)]


def order(work: Work, subject: Documented, kinds: Sequence[DocumentKind]) -> None:
    """Schedule a job that generates documents."""
    task = GenerateDocuments(subject=subject_of(subject), subject_id=subject.id, kinds=tuple(kinds))
    work.schedule(task, work.now)


def order_on_issue(work: Work, subject: Documented) -> None:
    """Schedule the documents of a record that was just issued, unless the installation generates them on demand."""
    if work.settings.documents == "at_once":
        order(work, subject, ALL_KINDS)
