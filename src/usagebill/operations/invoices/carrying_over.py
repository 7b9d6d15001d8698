"""What goes over from a voided invoice to the one that replaces it: its credit notes, and its purchase of credits."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.errors import Forbidden, Invalid
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import CREDITABLE, NOT_YET_ISSUED, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.invoices.regeneration import carried_note
from usagebill.core.wallet_transactions import WalletTransaction, WalletTransactionStatus
from usagebill.operations.credit_notes.creation import make
from usagebill.queries.credit_note_balance import balance_of
from usagebill.queries.credit_notes import given_notes
from usagebill.queries.wallets import transaction_of_invoice
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq


def carry_over(work: Work, voided: Invoice, invoice: Invoice) -> Invoice:
    """Make the credit notes of a voided invoice anew on the invoice regenerated from it, over the lines that it keeps.

    A note corrects a line, and the line stands again. Notes made by the void are not meant: they gave back what had
    been paid. Returns the invoice less what the notes offset.
    """
    given = [item for item in given_notes(work, voided) if not item.note.of_void]
    if not given or invoice.status not in (*CREDITABLE, *NOT_YET_ISSUED):
        return invoice
    first_ids = {fee.id: fee.original_fee_id or fee.id for fee in work.tx.find(Fee, eq("invoice_id", voided.id))}
    fees = work.tx.find(Fee, eq("invoice_id", invoice.id))
    for item in given:
        carried = carried_note(item, first_ids, fees)
        if carried is None:
            continue
        invoice = work.tx.get(Invoice, invoice.id) or invoice
        balance = balance_of(work, invoice)
        whole_cents = balance.worth(carried.items) if carried.whole_cents is None else carried.whole_cents
        if whole_cents <= 0:
            continue
        make(
            work,
            balance,
            carried.items,
            carried.parts(whole_cents, invoice.due_cents),
            reason=item.note.reason,
            description=item.note.description,
            metadata=item.note.metadata,
            automatic=item.note.automatic,
            checked=True,
        )
    return work.tx.get(Invoice, invoice.id) or invoice


def open_purchase(reader: Reader, voided: Invoice) -> WalletTransaction | None:
    """The purchase that a voided top-up invoice billed; None for any other invoice.

    Raises `Forbidden` if it was paid: its credits have come, and will not come again.
    """
    if voided.invoice_type != InvoiceType.CREDIT:
        return None
    purchase = transaction_of_invoice(reader, voided.id)
    if purchase is None or purchase.status == WalletTransactionStatus.SETTLED:
        raise Forbidden("feature_unavailable")
    return purchase


def move_purchase(work: Work, purchase: WalletTransaction, invoice: Invoice) -> None:
    """Have `invoice` bill the purchase, whose credits come once it is paid. Raises `Invalid` for another amount."""
    if invoice.fees_amount_cents != purchase.amount_cents:
        raise Invalid(fees="value_is_invalid")
    work.tx.replace(replace(purchase, invoice_id=invoice.id, updated_at=work.now))
