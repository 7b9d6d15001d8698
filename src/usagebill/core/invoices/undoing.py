"""Undoing an invoice: what it has received goes back, and what its credit notes gave is withdrawn.

The rule: when an invoice is voided, everything that paid it goes back where it came from, less what its credit notes
have given already. Money can only go back as the refund or credit that the void asks for; credit notes and wallets get
back theirs. What the invoice's own notes still hold beyond that is withdrawn. Otherwise the void is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from usagebill.core.credit_notes import CreditNote, Parts
from usagebill.core.currencies import major_from_cents, subunits
from usagebill.core.errors import NotAllowed
from usagebill.core.invoices.life_cycle import REFUSALS, InvoiceEvent, InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Credit, CreditType, Invoice
from usagebill.core.statuses import PaymentStatus
from usagebill.core.wallet_transactions import WalletTransaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenNote:
    """A credit note of the invoice itself, and the cents of it that other invoices have used."""

    note: CreditNote
    used_cents: int

    @property
    def forgone_cents(self) -> int:
        """The cents that a person has voided."""
        note = self.note
        return note.credit_amount_cents - self.used_cents - note.balance_amount_cents - note.withdrawn_amount_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What paid an invoice, and the credit notes that were made on it before it is undone.

    `wallets` are the transactions that paid it, with whether their wallet is still active.
    """

    invoice: Invoice
    wallets: Sequence[tuple[WalletTransaction, bool]]
    notes: Sequence[GivenNote]

    @property
    def lines(self) -> list[Credit]:
        """The credit notes that paid the invoice, as its credit lines."""
        return [line for line in self.invoice.credits if line.item_type == CreditType.CREDIT_NOTE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """The cents that go back: by credit line to its credit note, by transaction to its wallet; and those that are
    withdrawn, by id of the invoice's own credit note.
    """

    to_notes: Sequence[tuple[Credit, int]] = ()
    to_wallets: Sequence[tuple[WalletTransaction, int]] = ()
    withdrawn: Sequence[tuple[CreditNote, int]] = ()


def cash_cents(invoice: Invoice, notes: Sequence[CreditNote]) -> int:
    """The money received for an invoice, in cents, less what its credit `notes` refunded.

    An invoice that was set as paid by hand has received what was due.
    """
    received = invoice.total_paid_amount_cents
    if invoice.payment_status == PaymentStatus.SUCCEEDED:
        received = max(received, invoice.total_amount_cents - invoice.total_offset_amount_cents)
    return max(0, received - sum(note.refund_amount_cents for note in notes))


def used_cents(note_id: str, invoices: Sequence[Invoice]) -> int:
    """The cents of a credit note that `invoices` have used, and not given back since."""
    used = 0
    for invoice in invoices:
        if invoice.status in (InvoiceStatus.CLOSED, InvoiceStatus.DELETED):
            continue
        for line in invoice.credits:
            if line.item_type == CreditType.CREDIT_NOTE and line.source_id == note_id:
                used += line.used_cents
    return used


def undoing(received: Received, given: Parts) -> Undoing:
    """What goes back and what is withdrawn when the invoice is voided; the void itself gives `given`.

    Credits go back first to the notes, then to the wallets; the balances of the invoice's own notes are kept as far as
    they stand for money received. Raises `NotAllowed` if money received, or the credits of an ended wallet, would be
    lost, or other invoices have used more of its notes than was ever paid.
    """
    invoice, notes = received.invoice, received.notes
    money = cash_cents(invoice, [given_note.note for given_note in notes])
    credits = sum(line.amount_cents for line in received.lines)
    credits += sum(transaction.amount_cents for transaction, _ in received.wallets)
    used = sum(given_note.used_cents for given_note in notes)
    if used > money + credits:
        numbers = ", ".join(given_note.note.number for given_note in notes if given_note.used_cents)
        raise _refused(f"credited by {numbers}, of which other invoices have used {_shown(used, invoice)}")
    to_give = max(0, money + credits - used - given.total)
    back = min(credits, to_give)
    balances = sum(given_note.note.balance_amount_cents for given_note in notes)
    kept = min(balances, to_give - back)
    lost = to_give - back - kept
    if lost > 0:
        way = (
            "a credit note refunds them first"
            if invoice.invoice_type == InvoiceType.CREDIT
            else ("a void with generate_credit_note gives them back, as refund_amount and credit_amount")
        )
        raise _refused(f"paid: {_shown(lost, invoice)} came in and must go back; {way}")
    to_notes, back = _shared([(line, line.amount_cents) for line in received.lines], back)
    active = [(spent, spent.amount_cents) for spent, is_active in received.wallets if is_active]
    to_wallets, back = _shared(active, back)
    if back > 0:
        way = "a void with generate_credit_note gives them back, as credit_amount"
        raise _refused(f"paid with {_shown(back, invoice)} of a wallet that has ended; {way}")
    withdrawn, _ = _shared(
        [(given_note.note, given_note.note.balance_amount_cents) for given_note in reversed(notes)], balances - kept
    )
    return Undoing(to_notes=to_notes, to_wallets=to_wallets, withdrawn=withdrawn)


def whole(received: Received) -> Undoing:
    """Everything goes back: the invoice was never issued, so it has no credit notes of its own."""
    return Undoing(
        to_notes=[(line, line.amount_cents) for line in received.lines],
        to_wallets=[(spent, spent.amount_cents) for spent, _ in received.wallets],
    )


def _shared(most: Sequence[tuple[T, int]], cents: int) -> tuple[list[tuple[T, int]], int]:
    """`cents` shared out in order, each part up to its most; and the cents that are left."""
    shares = []
    for item, at_most in most:
        share = min(at_most, cents)
        if share > 0:
            shares.append((item, share))
            cents -= share
    return shares, cents


def _shown(cents: int, invoice: Invoice) -> str:
    decimals = len(str(subunits(invoice.currency))) - 1
    return f"{major_from_cents(cents, invoice.currency):.{decimals}f} {invoice.currency}"


def _refused(state: str) -> NotAllowed:
    return NotAllowed(REFUSALS[InvoiceEvent.VOID], state)
