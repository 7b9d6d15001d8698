"""Credit notes of drafts: a note follows the fees of its invoice, which change until it is finalized."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from usagebill.core.copies import replace
from usagebill.core.credit_notes import CreditNote, CreditNoteItem, Parts
from usagebill.core.fees import Fee
from usagebill.core.numbers import ZERO, divide, multiply, round_cents, round_to


def followed_parts(note: CreditNote, whole_cents: int) -> Parts:
    """The parts of a note whose total is now `whole_cents`: its refund and offset as far as the total allows, the rest
    as credit.

    A note without credit offsets everything. Rounding may make the total negative, but no part goes below zero.
    """
    whole_cents = max(0, whole_cents)
    refund = min(note.refund_amount_cents, whole_cents)
    only_settles = note.credit_amount_cents == 0 and note.offset_amount_cents > 0
    offset = whole_cents - refund if only_settles else min(note.offset_amount_cents, whole_cents - refund)
    return Parts(credit=whole_cents - refund - offset, refund=refund, offset=offset)


def followed_item(item: CreditNoteItem, before: Sequence[Fee], fees: Sequence[Fee]) -> CreditNoteItem | None:
    """The item after the fees `before` were replaced by `fees`: it keeps its part of its line. None if the line is
    gone.
    """
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
    """The subject of an invoice line, whatever its amount."""
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


def within_due(note: CreditNote, due_cents: int) -> CreditNote:
    """The note with any offset beyond the `due_cents` of its invoice turned into credit: other credits came first."""
    beyond = note.offset_amount_cents - max(0, due_cents)
    if beyond <= 0:
        return note
    return replace(
        note,
        offset_amount_cents=note.offset_amount_cents - beyond,
        credit_amount_cents=note.credit_amount_cents + beyond,
        balance_amount_cents=note.balance_amount_cents + beyond,
    )
