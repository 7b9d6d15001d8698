"""Remainders: the creditable amount of an invoice, to the cent, so that a void never credits too much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from usagebill.core.credit_notes import Credited, CreditNote, Parts
from usagebill.core.fees import AppliedTax, TaxKeys
from usagebill.core.numbers import ZERO, add, round_cents, subtract, total
from usagebill.core.taxes import lines_in_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """The creditable amount of an invoice: before taxes (coupons taken off), its taxes, and their lines, in cents."""

    sub_total_cents: int
    taxes_cents: int
    lines: tuple[AppliedTax, ...]

    @property
    def total_cents(self) -> int:
        """The whole remainder, taxes included."""
        return self.sub_total_cents + self.taxes_cents


def remainder(
    sub_total_cents: int, taxes_cents: int, lines: Sequence[AppliedTax], notes: Sequence[CreditNote]
) -> Remainder:
    """The creditable amount before taxes, taxes and tax lines of an invoice after all `notes`; never below zero.

    If a note's rounding moved cents between them, the remaining total is shared out.
    """
    remaining_cents = max(0, sub_total_cents + taxes_cents - sum(note.total_amount_cents for note in notes))
    taxes = min(remaining_cents, max(0, taxes_cents - sum(note.taxes_amount_cents for note in notes)))
    return Remainder(
        sub_total_cents=remaining_cents - taxes,
        taxes_cents=taxes,
        lines=tuple(_left_of_line(line, notes) for line in lines),
    )


def _left_of_line(line: AppliedTax, notes: Sequence[CreditNote]) -> AppliedTax:
    alike = [applied for note in notes for applied in note.applied_taxes if applied.key == line.key]
    return replace(
        line,
        amount_cents=max(0, line.amount_cents - sum(applied.amount_cents for applied in alike)),
        base_amount_cents=max(0, line.base_amount_cents - sum(applied.base_amount_cents for applied in alike)),
    )


def capped(
    result: Credited,
    remainder: Remainder,
    *,
    uses_up: bool,
    used_up_taxes: TaxKeys,
    now: datetime,
    new_id: Callable[[], str],
) -> Credited:
    """The amounts of a note's items, so that all notes of an invoice add up to it: before taxes, in taxes and in each
    tax line none is above the remainder, the note that `uses_up` the invoice is the remainder, and the note over the
    last of what a tax applies to (`used_up_taxes`) takes the remainder of that tax and of its base.
    """
    left = {line.key: line.amount_cents for line in remainder.lines}
    exact = [
        Decimal(left[line.key]) if line.key in used_up_taxes else line.precise_amount_cents for line in result.lines
    ]
    whole = total(line.precise_amount_cents for line in result.lines)
    sub_total, taxes = remainder.sub_total_cents, remainder.taxes_cents
    if not uses_up:
        most = min(taxes, sum(left[line.key] for line in result.lines))
        sub_total = min(result.sub_total_cents, sub_total)
        taxes = min(most, round_cents(add(result.taxes_precise, subtract(total(exact), whole))))
    bases = {line.key: line.base_amount_cents for line in remainder.lines}
    lines = tuple(
        # A tax provider may tax a part of a fee, which is the base of a note, and all of it that of the invoice.
        line
        if line.tax_id is None
        else replace(
            line,
            base_amount_cents=bases[line.key]
            if line.key in used_up_taxes
            else min(line.base_amount_cents, bases[line.key]),
        )
        for line in _lines_of(result.lines, exact, taxes, remainder, now, new_id)
    )
    limited = uses_up or (sub_total, taxes) != (result.sub_total_cents, result.taxes_cents)
    return replace(result, sub_total_cents=sub_total, taxes_cents=taxes, lines=lines, limited=limited)


def _lines_of(
    lines: Sequence[AppliedTax],
    exact: Sequence[Decimal],
    taxes_cents: int,
    remainder: Remainder,
    now: datetime,
    new_id: Callable[[], str],
) -> tuple[AppliedTax, ...]:
    """The tax lines of a note with these taxes: they add up to them, as far as the remainder has lines for them."""
    left = {line.key: line.amount_cents for line in remainder.lines}
    most = [left.pop(line.key) for line in lines]
    own = lines_in_cents(exact, min(taxes_cents, sum(most)), most)
    result = [replace(line, amount_cents=cents) for line, cents in zip(lines, own, strict=True)]
    rest = taxes_cents - sum(own)
    for line in remainder.lines:
        # Cents that roundings have left of taxes on fees which other notes credit.
        cents = min(rest, left.get(line.key, 0))
        if cents > 0:
            made = replace(line, id=new_id(), created_at=now, amount_cents=cents)
            result.append(replace(made, base_amount_cents=0, precise_amount_cents=ZERO))
            rest -= cents
    return tuple(result)


def within_parts(parts: Parts, remainder: Remainder) -> Parts:
    """`parts` capped at the remainder: an excess rounding cent is taken off the credit, then off the offset and the
    refund.
    """
    excess = max(0, parts.total - remainder.total_cents)
    credit = max(0, parts.credit - excess)
    excess -= parts.credit - credit
    offset = max(0, parts.offset - excess)
    excess -= parts.offset - offset
    return Parts(credit=credit, refund=parts.refund - excess, offset=offset)


def within(
    parts: Parts, result: Credited, remainder: Remainder, *, now: datetime, new_id: Callable[[], str]
) -> Credited:
    """The amounts of items split into `parts` (at most the remainder), capped: the amount before taxes, the taxes and
    each tax line stay within the remainder. If `parts` use up the remainder, the amounts equal it.
    """
    taxes = max(min(result.taxes_cents, remainder.taxes_cents), parts.total - remainder.sub_total_cents)
    exact = [Decimal(line.amount_cents) for line in result.lines]
    lines = _lines_of(result.lines, exact, taxes, remainder, now, new_id)
    return replace(result, sub_total_cents=parts.total - taxes, taxes_cents=taxes, lines=lines)
