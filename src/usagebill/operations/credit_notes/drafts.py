"""Credit notes of draft invoices: recomputed with the draft, and issued or deleted with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus, fitted_to, note_number, with_amounts
from usagebill.core.days import local_date
from usagebill.core.draft_credit_notes import followed_item, followed_parts, within_due
from usagebill.core.errors import NotAllowed
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.operations.credit_notes.creation import settle_invoice, tell
from usagebill.operations.issuers import version_of
from usagebill.queries.contracts import parties_of
from usagebill.queries.credit_note_balance import balance_of
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq
from usagebill.views.customers import customer_summary


def _drafts(reader: Reader, invoice: Invoice) -> list[CreditNote]:
    return reader.tx.find(
        CreditNote,
        eq("invoice_id", invoice.id),
        eq("status", CreditNoteStatus.DRAFT),
        order=[asc("created_at"), asc("id")],
    )


def follow(work: Work, invoice: Invoice, before: Sequence[Fee]) -> None:
    """Recompute the notes of a draft whose fees were recomputed: each item keeps its share of its fee.

    `before` are the previous fees.
    """
    fees, drafts = work.tx.find(Fee, eq("invoice_id", invoice.id)), _drafts(work, invoice)
    for place, note in enumerate(drafts):
        items = tuple(moved for item in note.items if (moved := followed_item(item, before, fees)) is not None)
        by_id = {fee.id: fee for fee in fees}
        # A note of zero does not absorb the rounding of the other notes, though nothing is left to credit.
        credits_something = any(item.precise_amount_cents for item in items)
        # The notes after it still have the amounts of the fees before, which would leave it too little.
        yet_to_follow = {later.id for later in drafts[place:]}
        result = balance_of(work, invoice, without=yet_to_follow).credited(
            [(by_id[item.fee_id], item.precise_amount_cents) for item in items],
            items if credits_something else None,
            now=work.now,
            new_id=work.new_id,
        )
        parts = followed_parts(note, result.sub_total_cents + result.taxes_cents)
        changed = with_amounts(note, parts, fitted_to(parts, result))
        work.tx.replace(replace(changed, items=items, updated_at=work.now))


def issue_drafts(work: Work, invoice: Invoice) -> Invoice:
    """Issue the notes of a draft that has just been finalized. Returns the invoice less their offsets."""
    notes = _drafts(work, invoice)
    if not notes:
        return invoice
    parties = parties_of(work, invoice)
    day = local_date(work.now, ZoneInfo(parties.timezone))
    for note in notes:
        issued = replace(
            note,
            status=CreditNoteStatus.FINALIZED,
            number=note_number(invoice.number, note.sequential_id),
            issuing_date=day,
            customer_snapshot=customer_summary(work, parties.customer, parties.entity),
            issuer_version_id=version_of(work, parties.issuer),
            updated_at=work.now,
        )
        issued = within_due(issued, invoice.due_cents)
        work.tx.replace(issued)
        invoice = settle_invoice(work, invoice, issued.offset_amount_cents)
        tell(work, issued)
    return invoice


def delete_drafts(work: Work, invoice: Invoice) -> None:
    """Delete the notes of a draft with it. Raises `NotAllowed` if one has been issued."""
    notes = work.tx.find(CreditNote, eq("invoice_id", invoice.id))
    if any(note.status == CreditNoteStatus.FINALIZED for note in notes):
        raise NotAllowed("credit_note_not_deletable")
    for note in notes:
        work.tx.replace(replace(note, status=CreditNoteStatus.DELETED, balance_amount_cents=0, updated_at=work.now))
