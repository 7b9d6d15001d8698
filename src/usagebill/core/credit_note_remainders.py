"""Remainders: the creditable amount of an invoice, to the cent, so that a void never credits too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from usagebill.core.credit_notes import Credited, CreditNote, Parts
from usagebill.core.fees import AppliedTax

__all__ = ["Remainder", "remainder", "within", "within_parts"]


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
    used = sum(applied.amount_cents for note in notes for applied in note.applied_taxes if applied.code == line.code)
    return replace(line, amount_cents=max(0, line.amount_cents - used))


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


def within(parts: Parts, result: Credited, remainder: Remainder) -> Credited:
    """The amounts of items split into `parts` (at most the remainder), capped: the amount before taxes, the taxes and
    each tax line stay within the remainder. If `parts` use up the remainder, the amounts equal it.
    """
    taxes = max(min(result.taxes_cents, remainder.taxes_cents), parts.total - remainder.sub_total_cents)
    is_all = parts.total == remainder.total_cents
    remaining = {line.code: line.amount_cents for line in remainder.lines}
    lines = (
        replace(line, amount_cents=remaining[line.code] if is_all else min(line.amount_cents, remaining[line.code]))
        for line in result.lines
    )
    return replace(result, sub_total_cents=parts.total - taxes, taxes_cents=taxes, lines=tuple(lines))
