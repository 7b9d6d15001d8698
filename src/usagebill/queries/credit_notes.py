"""Finalized credit notes by id."""

from __future__ import annotations

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.errors import NotFound
from usagebill.work import Reader

__all__ = ["finalized_credit_note"]


def finalized_credit_note(reader: Reader, credit_note_id: str) -> CreditNote:
    """The finalized credit note with this id. Raises `NotFound`."""
    note = reader.tx.get(CreditNote, credit_note_id)
    if note is None or note.status != CreditNoteStatus.FINALIZED:
        raise NotFound("credit_note", credit_note_id)
    return note
