"""Undoing invoices: what a voided or closed invoice has received goes back where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from usagebill.core.credit_notes import CreditNote, Parts, restored, withdrawn
from usagebill.core.invoices.records import Credit, Invoice
from usagebill.core.invoices.undoing import Received, undoing, whole
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import WalletStatus
from usagebill.operations import applied_coupons
from usagebill.operations.credit_notes.automatic import on_void
from usagebill.operations.wallet_ledger import return_prepaid, want_refresh
from usagebill.queries.credit_notes import given_notes
from usagebill.queries.wallets import transactions_paying, wallet_of
from usagebill.runtime.work import Reader, Work


def undo(work: Work, voided: Invoice, *, given: Parts | None) -> Invoice:
    """Give back what a voided invoice has received, as `core.invoices.undoing` decides; `given` are the parts that the
    void itself gives back, None without a credit note.

    Raises `NotAllowed` if something would be lost.
    """
    received = _received(work, voided)
    made = [] if given is None else on_void(work, voided, credit_cents=given.credit, refund_cents=given.refund)
    parts = Parts(
        credit=sum(note.balance_amount_cents for note in made), refund=sum(note.refund_amount_cents for note in made)
    )
    decided = undoing(received, parts)
    for note, cents in decided.withdrawn:
        work.tx.replace(withdrawn(note, cents, work.now))
    return _give_back(work, voided, decided.to_notes, decided.to_wallets)


def release(work: Work, closed: Invoice) -> Invoice:
    """Give back the credits that paid an invoice which was closed before it was ever issued."""
    decided = whole(_received(work, closed))
    return _give_back(work, closed, decided.to_notes, decided.to_wallets)


def _received(reader: Reader, invoice: Invoice) -> Received:
    wallets = [
        (spent, wallet_of(reader, spent).status == WalletStatus.ACTIVE)
        for spent in transactions_paying(reader, invoice.id)
    ]
    return Received(invoice=invoice, wallets=wallets, notes=given_notes(reader, invoice))


def _give_back(
    work: Work,
    undone: Invoice,
    to_notes: Sequence[tuple[Credit, int]],
    to_wallets: Sequence[tuple[WalletTransaction, int]],
) -> Invoice:
    applied_coupons.give_back(work, undone)
    want_refresh(work, undone.customer_id)
    returned = {line.id: cents for line, cents in to_notes}
    for line, cents in to_notes:
        note = work.tx.get(CreditNote, line.source_id or "")
        if note is None:
            raise LookupError(f"no credit note {line.source_id}")
        work.tx.replace(restored(note, cents, work.now))
    for spent, cents in to_wallets:
        return_prepaid(work, undone, spent, cents)
    lines = tuple(replace(line, returned_cents=returned.get(line.id, line.returned_cents)) for line in undone.credits)
    changed = replace(undone, credits=lines)
    work.tx.replace(changed)
    return changed
