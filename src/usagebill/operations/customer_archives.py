"""Archives: everything about a customer in one file, to hand out to the person."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from itertools import groupby
from typing import IO, Any

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.documents.files import Document
from usagebill.core.errors import NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.subscriptions import Subscription
from usagebill.operations.documents.files import credit_note_pdf, invoice_pdf, receipt_pdf
from usagebill.process.json_text import encode_json
from usagebill.queries.belongings import belongings, event_queries
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq
from usagebill.storage.tables import table_of


def archive(reader: Reader, external_id: str) -> bytes:
    """Everything about the customer as a ZIP file: a file of JSON lines for each table with records of it, its events,
    what the activity log says, and its documents, as far as they have been made.

    Deleted customers that had the same external id are included. Raises `NotFound`.
    """
    target = BytesIO()
    write_archive(reader, external_id, target)
    return target.getvalue()


def write_archive(reader: Reader, external_id: str, target: IO[bytes]) -> None:
    """Write what `archive` returns to an open file."""
    customers = reader.tx.find(Customer, eq("external_id", external_id), order=[desc("created_at")], deleted=True)
    if not customers:
        raise NotFound("customer", external_id)
    subscriptions: list[Subscription] = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as files:
        records = belongings(reader, [customer.id for customer in customers])
        for kind, some in groupby(records, key=type):
            if kind is Document:
                for document in some:
                    files.writestr(f"documents/{document.subject_type}-{document.name}", document.content)
                continue
            found = [*some]
            if kind is Subscription:
                subscriptions += found
            _write(files, table_of(kind).name, found)
        activities = reader.tx.find(ActivityLog, eq("external_customer_id", external_id), order=[asc("logged_at")])
        _write(files, "activity_logs", activities)
        with files.open("events.jsonl", "w") as lines:
            for question in event_queries(reader, subscriptions):
                for event in reader.tx.events.scan(question):
                    lines.write(encode_json(event._asdict()) + b"\n")


def missing_documents(reader: Reader, external_id: str) -> list[tuple[Callable[[Work, str], bytes], str]]:
    """The functions that make the PDFs which the customer's archive lacks, each with the id of the document."""
    customers = reader.tx.find(Customer, eq("external_id", external_id), deleted=True)
    missing_pdfs: list[tuple[Callable[[Work, str], bytes], str]] = []
    for record in belongings(reader, [customer.id for customer in customers], _MADE):
        is_issued = getattr(record, "status", InvoiceStatus.FINALIZED) == InvoiceStatus.FINALIZED
        if is_issued and record.pdf_id is None:
            missing_pdfs.append((_MADE[type(record)], record.id))
    return missing_pdfs


_MADE: Mapping[type, Callable[[Work, str], bytes]] = {
    Invoice: invoice_pdf,
    CreditNote: credit_note_pdf,
    PaymentReceipt: receipt_pdf,
}


def _write(files: zipfile.ZipFile, name: str, records: Iterable[Any]) -> None:
    files.writestr(f"{name}.jsonl", b"".join(encode_json(record) + b"\n" for record in records))
