"""Finalized credit notes by id, and what invoices have used of them."""

from __future__ import annotations

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.errors import NotFound
from usagebill.core.invoices.records import Invoice
from usagebill.core.invoices.undoing import GivenNote, used_cents
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, has_item


def finalized_credit_note(reader: Reader, credit_note_id: str) -> CreditNote:
    """The finalized credit note with this id. Raises `NotFound`."""
    note = reader.tx.get(CreditNote, credit_note_id)
    if note is None or note.status != CreditNoteStatus.FINALIZED:
        raise NotFound("credit_note", credit_note_id)
    return note


def given_notes(reader: Reader, invoice: Invoice) -> list[GivenNote]:
    """The invoice's own finalized credit notes, in order, with what other invoices have used of them."""
    notes = reader.tx.find(
        CreditNote,
        eq("invoice_id", invoice.id),
        eq("status", CreditNoteStatus.FINALIZED),
        order=[asc("sequential_id"), asc("id")],
    )
    return [GivenNote(note=note, used_cents=used_cents(note.id, _users(reader, note))) for note in notes]


def _users(reader: Reader, note: CreditNote) -> list[Invoice]:
    used = has_item("credits", source_id=note.id, item_type="credit_note")
    return reader.tx.find(Invoice, eq("customer_id", note.customer_id), used)
