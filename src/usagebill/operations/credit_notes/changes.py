"""Changes of credit notes: their refund status, their metadata, and voiding their balance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from usagebill.core.credit_notes import CreditNote, CreditStatus, voided
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.metadata import Metadata, merged_metadata
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES, PaymentStatus
from usagebill.operations.backlog import Unrelated, after_backlog, of_record, without_backlog
from usagebill.operations.credit_notes.creation import sent_metadata
from usagebill.operations.refunds import deny_unknown
from usagebill.queries.credit_notes import finalized_credit_note
from usagebill.requests.inputs import ABSENT, Input, Maybe, is_given
from usagebill.runtime.work import Work


@Input
class CreditNoteUpdate:
    refund_status: Maybe[str] = ABSENT
    metadata: Maybe[Mapping[str, object]] = ABSENT


@Input
class MetadataInput:
    metadata: Maybe[Mapping[str, object]] = ABSENT


@after_backlog(of_record(CreditNote))
def update(work: Work, credit_note_id: str, request: CreditNoteUpdate) -> CreditNote:
    """Set the refund status, and merge metadata. Raises `NotFound` and `Invalid`.

    Who sets it says so of a refund of unknown outcome as well: if it failed, it can be ordered again.
    """
    note = finalized_credit_note(work, credit_note_id)
    if is_given(request.refund_status):
        if request.refund_status not in INVOICE_PAYMENT_STATUSES:
            raise Invalid(refund_status="value_is_invalid")
        refund_status = PaymentStatus(request.refund_status)
        refunded_at = work.now if refund_status is PaymentStatus.SUCCEEDED else note.refunded_at
        note = replace(note, refund_status=refund_status, refunded_at=refunded_at)
        if refund_status is PaymentStatus.FAILED:
            deny_unknown(work, "credit_note_id", note.id)
    sent = sent_metadata(request.metadata)
    if sent is not None:
        note = replace(note, metadata=sent_metadata(merged_metadata(note.metadata, sent)))
    changed = replace(note, updated_at=work.now)
    work.tx.replace(changed)
    return changed


@after_backlog(of_record(CreditNote))
def void(work: Work, credit_note_id: str) -> CreditNote:
    """Void the remaining balance of a note. Raises `NotFound`, and `NotAllowed` if there is none."""
    note = finalized_credit_note(work, credit_note_id)
    if note.credit_status == CreditStatus.VOIDED or note.balance_amount_cents == 0:
        raise NotAllowed("no_voidable_amount", note.credit_status)
    changed = voided(note, work.now)
    work.tx.replace(changed)
    return changed


def _stored(work: Work, note: CreditNote, metadata: Metadata | None) -> Metadata | None:
    work.tx.replace(replace(note, metadata=metadata, updated_at=work.now))
    return metadata


@without_backlog(Unrelated.NOT_BILLED)
def replace_metadata(work: Work, credit_note_id: str, request: MetadataInput) -> Metadata | None:
    """Replace the metadata with that sent; without any it becomes empty. Raises `NotFound` and `Invalid`."""
    return _stored(work, finalized_credit_note(work, credit_note_id), sent_metadata(request.metadata) or {})


@without_backlog(Unrelated.NOT_BILLED)
def merge_metadata(work: Work, credit_note_id: str, request: MetadataInput) -> Metadata | None:
    """Set the keys that are sent, and keep the others. Raises `NotFound` and `Invalid`."""
    note = finalized_credit_note(work, credit_note_id)
    merged = merged_metadata(note.metadata, sent_metadata(request.metadata) or {})
    return _stored(work, note, sent_metadata(merged))


@without_backlog(Unrelated.NOT_BILLED)
def delete_metadata(work: Work, credit_note_id: str) -> None:
    """Remove the metadata. Raises `NotFound`."""
    _stored(work, finalized_credit_note(work, credit_note_id), None)


@without_backlog(Unrelated.NOT_BILLED)
def delete_metadata_key(work: Work, credit_note_id: str, key: str) -> Metadata | None:
    """Remove one key, if present. Raises `NotFound` for the note, or if it has no metadata."""
    note = finalized_credit_note(work, credit_note_id)
    if note.metadata is None:
        raise NotFound("metadata", key)
    return _stored(work, note, {name: value for name, value in note.metadata.items() if name != key})
