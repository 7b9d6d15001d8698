"""Lost credits: credits that an ended wallet spent on invoices that are no longer to be paid, and did not get back."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.credit_notes import CreditNote
from usagebill.core.invoices.life_cycle import NOT_TO_BE_PAID
from usagebill.core.invoices.records import Invoice
from usagebill.core.wallet_transactions import WalletTransaction


def is_lost(spent: WalletTransaction, invoice: Invoice, notes: Sequence[CreditNote]) -> bool:
    """Whether credits that an ended wallet spent on the invoice are lost: it is not to be paid any more.

    Nothing is lost if its credit `notes` gave back as much, or one was issued with the void.
    """
    given_back = sum(note.total_amount_cents for note in notes)
    has_note_of_void = any(note.created_at == invoice.voided_at for note in notes)
    return invoice.status in NOT_TO_BE_PAID and given_back < spent.amount_cents and not has_note_of_void
