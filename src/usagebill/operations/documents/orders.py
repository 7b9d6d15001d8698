"""Orders: documents that are to be made next, outside the operation that asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.credit_notes import CreditNote
from usagebill.core.documents.files import PDF, XML
from usagebill.core.invoices.records import Invoice
from usagebill.work import Work

__all__ = ["order", "order_on_issue"]


def order(work: Work, subject: Invoice | CreditNote, kinds: Sequence[str]) -> None:
    """Have documents made by a job of their own."""
    kind = "invoice" if isinstance(subject, Invoice) else "credit_note"
    work.schedule(
        "generate_documents",
        subject.id,
        work.now,
        key=f"generate_documents:{subject.id}:{'+'.join(kinds)}",
        payload={"subject": kind, "kinds": list(kinds)},
        leased=True,
    )


def order_on_issue(work: Work, subject: Invoice | CreditNote) -> None:
    """Have the documents of what has just been issued made, unless the installation makes them on demand only."""
    if work.settings.documents == "at_once":
        order(work, subject, (XML, PDF))
