"""Credit notes of draft invoices: they follow the draft until it is finalized, and are issued or deleted with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from zoneinfo import ZoneInfo

from usagebill.core.credit_notes import CreditNote, CreditNoteItem, CreditNoteStatus, Parts, fitted_to
from usagebill.core.days import local_date
from usagebill.core.errors import NotAllowed
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ZERO, divide, multiply, round_cents, round_to
from usagebill.operations.credit_notes.creation import note_number, settle_invoice, tell, with_amounts
from usagebill.operations.issuers import version_of
from usagebill.queries.contracts import parties_of
from usagebill.queries.credit_note_balance import balance_of
from usagebill.storage.conditions import asc, eq
from usagebill.views.customers import customer_summary
from usagebill.work import Reader, Work

__all__ = ["delete_drafts", "follow", "issue_drafts"]


def _drafts(reader: Reader, invoice: Invoice) -> list[CreditNote]:
    return reader.tx.find(
        CreditNote,
        eq("invoice_id", invoice.id),
        eq("status", CreditNoteStatus.DRAFT),
        order=[asc("created_at"), asc("id")],
    )


def follow(work: Work, invoice: Invoice, before: Sequence[Fee]) -> None:
    """Recompute the notes of a draft  after its fees have been: each item keeps its part of its fee.

    `before` are the fees as they were.
    """
    fees = work.tx.find(Fee, eq("invoice_id", invoice.id))
    for note in _drafts(work, invoice):
        items = tuple(moved for item in note.items if (moved := _moved(item, before, fees)) is not None)
        by_id = {fee.id: fee for fee in fees}
        # A note that comes to nothing does not take on the rounding of the others, though nothing is left to credit.
        credits_something = any(item.precise_amount_cents for item in items)
        result = balance_of(work, invoice, without=note.id).credited(
            work,
            [(by_id[item.fee_id], item.precise_amount_cents) for item in items],
            items if credits_something else None,
        )
        whole = max(0, result.sub_total_cents + result.taxes_cents)
        parts = _parts(note, whole)
        changed = with_amounts(note, parts, fitted_to(parts, result))
        work.tx.replace(replace(changed, items=items, updated_at=work.now))


def _parts(note: CreditNote, whole: int) -> Parts:
    """How a note that now comes to `whole` is given: what it refunds and settles, as far as it goes, else credit.

    One without credit settles whatever there is.
    """
    refund = min(note.refund_amount_cents, whole)
    only_settles = note.credit_amount_cents == 0 and note.offset_amount_cents > 0
    offset = whole - refund if only_settles else min(note.offset_amount_cents, whole - refund)
    return Parts(credit=whole - refund - offset, refund=refund, offset=offset)


def _moved(item: CreditNoteItem, before: Sequence[Fee], fees: Sequence[Fee]) -> CreditNoteItem | None:
    old = next((fee for fee in before if fee.id == item.fee_id), None)
    if old is None:
        return item if any(fee.id == item.fee_id for fee in fees) else None
    alike = next((fee for fee in fees if _line(fee) == _line(old)), None)
    new = next((fee for fee in fees if fee.id == old.id), alike)
    if new is None:
        return None
    amount = ZERO
    if old.amount_cents != 0:
        scaled = multiply(item.precise_amount_cents, Decimal(new.amount_cents))
        amount = round_to(divide(scaled, Decimal(old.amount_cents)), 5)
    return replace(item, fee_id=new.id, amount_cents=round_cents(amount), precise_amount_cents=amount)


def _line(fee: Fee) -> tuple[object, ...]:
    """The key of a line of an invoice, whatever its amount."""
    return (
        fee.fee_type,
        fee.subscription_id,
        fee.charge_id,
        fee.charge_filter_id,
        fee.fixed_charge_id,
        tuple(sorted(fee.grouped_by.items())),
        fee.true_up_parent_fee_id is not None,
        fee.event_transaction_id,
        fee.add_on_id,
    )


def issue_drafts(work: Work, invoice: Invoice) -> Invoice:
    """Issue the notes of a draft that has just been finalized; the invoice with what they settle of it."""
    notes = _drafts(work, invoice)
    if not notes:
        return invoice
    parties = parties_of(work, invoice)
    day = local_date(work.now, ZoneInfo(parties.timezone))
    for note in notes:
        issued = replace(
            note,
            status=CreditNoteStatus.FINALIZED,
            number=note_number(invoice, note.sequential_id),
            issuing_date=day,
            customer_snapshot=customer_summary(work, parties.customer, parties.entity),
            issuer_version_id=version_of(work, parties.issuer),
            updated_at=work.now,
        )
        issued = _within_due(issued, invoice)
        work.tx.replace(issued)
        invoice = settle_invoice(work, invoice, issued.offset_amount_cents)
        tell(work, issued)
    return invoice


def _within_due(note: CreditNote, invoice: Invoice) -> CreditNote:
    """The note with what it would settle above what is due of its invoice as credit: other credits came before it."""
    beyond = note.offset_amount_cents - max(0, invoice.due_cents)
    if beyond <= 0:
        return note
    return replace(
        note,
        offset_amount_cents=note.offset_amount_cents - beyond,
        credit_amount_cents=note.credit_amount_cents + beyond,
        balance_amount_cents=note.balance_amount_cents + beyond,
    )


def delete_drafts(work: Work, invoice: Invoice) -> None:
    """Let the notes of a draft go with it. Raises `NotAllowed` if one has been issued."""
    notes = work.tx.find(CreditNote, eq("invoice_id", invoice.id))
    if any(note.status == CreditNoteStatus.FINALIZED for note in notes):
        raise NotAllowed("credit_note_not_deletable")
    for note in notes:
        work.tx.replace(replace(note, status=CreditNoteStatus.DELETED, balance_amount_cents=0, updated_at=work.now))
