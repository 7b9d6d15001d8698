"""The balance of an invoice: its fees, its credit notes, and the amounts that may still be credited, refunded or
offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from usagebill.core.credit_note_remainders import Remainder, capped, remainder
from usagebill.core.credit_notes import (
    Credited,
    CreditNote,
    CreditNoteItem,
    CreditNoteStatus,
    Parts,
    creditable_fee,
    creditable_invoice,
    credited,
    refundable_invoice,
)
from usagebill.core.fees import Fee, TaxKeys
from usagebill.core.invoices.life_cycle import NOT_YET_ISSUED, InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ZERO, divide, multiply, round_to, subtract, total, truncate_cents
from usagebill.core.statuses import PaymentStatus
from usagebill.core.taxes import tax_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """An invoice with its fees and all its notes, whatever their status.

    `unused_cents` is what the wallet still holds of a top-up; None for any other invoice.
    """

    invoice: Invoice
    fees: tuple[Fee, ...]
    notes: tuple[CreditNote, ...]
    unused_cents: int | None = None

    @property
    def items(self) -> list[CreditNoteItem]:
        """The items of all notes."""
        return [item for note in self.notes for item in note.items]

    def fee(self, fee_id: object) -> Fee | None:
        """The fee of the invoice with this id."""
        return next((fee for fee in self.fees if fee.id == fee_id), None)

    def creditable_cents_of(self, fee: Fee, pending: Sequence[CreditNoteItem] = ()) -> int:
        """The creditable amount of a fee, before taxes and coupons. `pending` items count as credited."""
        creditable_cents = creditable_fee(fee, [*self.items, *pending])
        return creditable_cents if self.unused_cents is None else min(creditable_cents, self.unused_cents)

    def creditable_cents_by_fee(self) -> dict[str, int]:
        """The creditable amount of each fee, by id."""
        return {fee.id: self.creditable_cents_of(fee) for fee in self.fees}

    def creditable(self, pending: Sequence[CreditNoteItem] = ()) -> Decimal:
        """The creditable amount of the invoice, taxes included; zero for a draft or a top-up."""
        invoice = self.invoice
        if invoice.status == InvoiceStatus.DRAFT or invoice.invoice_type == InvoiceType.CREDIT:
            return ZERO
        return self._creditable(pending)

    def _creditable(self, pending: Sequence[CreditNoteItem]) -> Decimal:
        invoice = self.invoice
        reductions = invoice.coupons_amount_cents + invoice.progressive_billing_credit_amount_cents
        return creditable_invoice(self.fees, [*self.items, *pending], reductions, invoice.fees_amount_cents)

    @property
    def refundable(self) -> int:
        """The refundable amount of the invoice, in cents."""
        invoice = self.invoice
        paid = invoice.total_paid_amount_cents
        if (
            invoice.status == InvoiceStatus.DRAFT
            or invoice.payment_dispute_lost_at is not None
            or (invoice.payment_status != PaymentStatus.SUCCEEDED and paid == invoice.total_amount_cents)
        ):
            return 0
        refunded = sum(note.refund_amount_cents for note in self.notes)
        if self.unused_cents is not None:
            return max(0, min(self.unused_cents, paid - refunded))
        return refundable_invoice(self.creditable(), paid, refunded)

    @property
    def next_position(self) -> int:
        """The place of the next note among the invoice's notes, from 1."""
        return max((note.sequential_id for note in self.notes), default=0) + 1

    @property
    def status_of_notes(self) -> CreditNoteStatus:
        """The status of new notes: a note of an invoice that is still to be issued is a draft, and issued with it."""
        return CreditNoteStatus.DRAFT if self.invoice.status in NOT_YET_ISSUED else CreditNoteStatus.FINALIZED

    @property
    def offsettable(self) -> int:
        """The amount of the invoice that credit notes may offset, in cents: at most the amount due."""
        invoice, due = self.invoice, self.invoice.due_cents
        if invoice.status == InvoiceStatus.VOIDED:
            return 0
        if invoice.invoice_type == InvoiceType.CREDIT:
            return invoice.total_amount_cents if due > 0 and invoice.payment_status != PaymentStatus.SUCCEEDED else 0
        return max(0, min(due, truncate_cents(self.creditable())))

    @property
    def remainder(self) -> Remainder:
        """The creditable amount of the invoice after all its notes, in whole cents."""
        invoice = self.invoice
        sub_total, taxes = invoice.sub_total_excluding_taxes_amount_cents, invoice.taxes_amount_cents
        return remainder(sub_total, taxes, invoice.applied_taxes, self.notes)

    def parts_of_notes(self, note_id: str | None = None) -> Parts:
        """The parts of the invoice's finalized notes, voided ones included, except one note."""
        counted = [note for note in self.notes if note.status == CreditNoteStatus.FINALIZED and note.id != note_id]
        return Parts(
            credit=sum(note.credit_amount_cents for note in counted),
            refund=sum(note.refund_amount_cents for note in counted),
            offset=sum(note.offset_amount_cents for note in counted),
        )

    def creditable_items(self) -> list[tuple[Fee, Decimal]]:
        """All creditable amounts of the invoice, as items."""
        return [(fee, Decimal(cents)) for fee in self.fees if (cents := self.creditable_cents_of(fee)) > 0]

    def spread(self, cents: int) -> list[tuple[Fee, Decimal]]:
        """Items worth `cents`, with taxes and less coupons: the same share of what is left of each fee; all of it, if
        no more than `cents` is left.
        """
        items = self.creditable_items()
        whole = self.credited(items, None, now=self.invoice.created_at, new_id=str)
        if cents >= min(whole.total_cents, self.remainder.total_cents) or whole.precise_total <= ZERO:
            return items
        share = divide(Decimal(cents), whole.precise_total)
        return [(fee, round_to(multiply(amount, share), 5)) for fee, amount in items]

    def worth(self, items: Sequence[tuple[Fee, Decimal]]) -> int:
        """The total of items in whole cents, with taxes and less coupons."""
        # The tax lines, which have ids and a date, are dropped.
        return self.credited(items, None, now=self.invoice.created_at, new_id=str).total_cents

    def credited(
        self,
        items: Sequence[tuple[Fee, Decimal]],
        pending: Sequence[CreditNoteItem] | None,
        *,
        now: datetime,
        new_id: Callable[[], str],
    ) -> Credited:
        """The amounts of items. `pending` are the same amounts as items of a new note, which is the remainder if it
        uses up the invoice; None for their worth by themselves.
        """
        excess = None
        uses_up = pending is not None and self._creditable(pending) == ZERO
        if uses_up:
            excess = total(
                subtract(Decimal(note.taxes_amount_cents), note.precise_taxes_amount_cents) for note in self.notes
            )
        result = credited(
            items,
            self.invoice.applied_taxes,
            last_note_excess=excess,
            currency=self.invoice.currency,
            now=now,
            new_id=new_id,
        )
        if pending is None or self.invoice.invoice_type == InvoiceType.CREDIT:
            return result
        return capped(
            result,
            self.remainder,
            uses_up=uses_up,
            used_up_taxes=self._used_up_taxes(pending),
            now=now,
            new_id=new_id,
        )

    def _used_up_taxes(self, pending: Sequence[CreditNoteItem]) -> TaxKeys:
        """The taxes that apply to nothing which is left to credit."""
        left = [fee for fee in self.fees if self.creditable_cents_of(fee, pending) > 0]
        return frozenset(line.key for line in self.invoice.applied_taxes).difference(*map(tax_keys, left))
