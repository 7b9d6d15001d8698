"""The balance of an invoice for credit notes: its fees, its notes, and the unused credits of a top-up."""

from __future__ import annotations

from collections.abc import Collection

from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_notes import CreditNote
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.wallets import WalletStatus
from usagebill.queries.wallets import transaction_of_invoice, wallet_of
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq


def balance_of(reader: Reader, invoice: Invoice, *, without: Collection[str] = ()) -> Balance:
    """The balance of `invoice`; the credit notes with the ids `without` do not count."""
    notes = reader.tx.find(CreditNote, eq("invoice_id", invoice.id), order=[asc("created_at")])
    return Balance(
        invoice=invoice,
        fees=tuple(reader.tx.find(Fee, eq("invoice_id", invoice.id), order=[asc("created_at")])),
        notes=tuple(note for note in notes if note.id not in without),
        unused_cents=_unused_cents(reader, invoice) if invoice.invoice_type == InvoiceType.CREDIT else None,
    )


def _unused_cents(reader: Reader, invoice: Invoice) -> int:
    """Cents of a paid top-up that its active wallet still holds; zero if the wallet has ended."""
    purchase = transaction_of_invoice(reader, invoice.id)
    if purchase is None or wallet_of(reader, purchase).status != WalletStatus.ACTIVE:
        return 0
    return purchase.remaining_amount_cents or 0
