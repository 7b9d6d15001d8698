"""Regeneration: the lines of a voided invoice and its credit notes, as those of the invoice that replaces it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from usagebill.core.credit_notes import Parts
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.invoices.undoing import GivenNote
from usagebill.core.numbers import ZERO, divide, multiply, round_to
from usagebill.core.statuses import PaymentStatus

_ITEM_DECIMALS = 5


def copied_line(fee: Fee, invoice: Invoice, *, id: str, now: datetime) -> Fee:
    """A copy of the line for another invoice, without discounts, taxes and payments."""
    return replace(
        fee,
        id=id,
        invoice_id=invoice.id,
        self_billed=invoice.self_billed,
        original_fee_id=fee.original_fee_id or fee.id,
        payment_status=PaymentStatus.PENDING,
        succeeded_at=None,
        failed_at=None,
        refunded_at=None,
        applied_taxes=(),
        taxes_amount_cents=0,
        taxes_precise_amount_cents=ZERO,
        taxes_rate=ZERO,
        precise_coupons_amount_cents=ZERO,
        precise_credit_notes_amount_cents=ZERO,
        created_at=now,
        updated_at=now,
    )


def relinked(lines: Sequence[tuple[str | None, Fee]]) -> list[Fee]:
    """The lines, with true-ups to minimums and their parents linked to each other's copies.

    Each line comes with the id of the line it copies, None for a new one. A link to a line without a copy is dropped.
    """
    copies = {id: fee.id for id, fee in lines if id}
    return [
        replace(
            fee,
            true_up_fee_id=copies.get(fee.true_up_fee_id or ""),
            true_up_parent_fee_id=copies.get(fee.true_up_parent_fee_id or ""),
        )
        for _, fee in lines
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedNote:
    """A credit note of a voided invoice as it is to be made on the regenerated one.

    `whole_cents` is its total; None if lines are gone or smaller, so that the items decide. `settles_cents` of it had
    been refunded, offset or used, so they settle the regenerated invoice as far as something is due; the rest is
    credit.
    """

    items: Sequence[tuple[Fee, Decimal]]
    whole_cents: int | None
    settles_cents: int

    def parts(self, whole_cents: int, due_cents: int) -> Parts:
        """The parts of the note, whose total is `whole_cents`, on an invoice with `due_cents` due."""
        offset = max(0, min(self.settles_cents, whole_cents, due_cents))
        return Parts(credit=whole_cents - offset, offset=offset)


def carried_note(given: GivenNote, first_ids: Mapping[str, str], fees: Sequence[Fee]) -> CarriedNote | None:
    """The note over those of `fees` that copy its lines; None if nothing is left of it.

    `first_ids` maps the note's lines to the ids of the lines that they copy themselves (or their own). What a person
    voided of the note is not carried over.
    """
    note = given.note
    kept_cents = note.total_amount_cents - given.forgone_cents
    if kept_cents <= 0:
        return None
    copies = {fee.original_fee_id: fee for fee in fees}
    items = []
    is_whole = True
    for item in note.items:
        fee = copies.get(first_ids.get(item.fee_id, item.fee_id))
        amount = item.precise_amount_cents
        if given.forgone_cents:
            amount = round_to(
                divide(multiply(amount, Decimal(kept_cents)), Decimal(note.total_amount_cents)), _ITEM_DECIMALS
            )
        most = ZERO if fee is None else min(amount, Decimal(fee.amount_cents))
        is_whole = is_whole and most == amount
        if fee is not None and most > ZERO:
            items.append((fee, most))
    if not items:
        return None
    return CarriedNote(
        items=items,
        whole_cents=kept_cents if is_whole else None,
        settles_cents=note.offset_amount_cents + note.refund_amount_cents + given.used_cents,
    )
