"""The audit of voided invoices: what had paid them went back, and what they gave beyond that was withdrawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from usagebill.core.audit import Finding
from usagebill.core.credit_notes import CreditNote
from usagebill.core.invoices.records import CreditType, Invoice
from usagebill.core.statuses import PaymentStatus


def audited_void(
    invoice: Invoice,
    *,
    paid_cents: int,
    wallets_paid_cents: int,
    wallets_returned_cents: int,
    notes: Sequence[tuple[CreditNote, int]],
) -> Iterator[Finding]:
    """Money, credit notes and wallets got back what they had paid, or credit notes of the invoice stand for it; and no
    more was given back, unless the void was asked to.

    `paid_cents` is the money that came in before the void; `notes` are the invoice's own, each with the cents that
    other invoices have used of it.
    """
    lines = [line for line in invoice.credits if line.item_type == CreditType.CREDIT_NOTE]
    money = paid_cents
    if invoice.payment_status == PaymentStatus.SUCCEEDED:
        money = max(money, invoice.total_amount_cents - invoice.total_offset_amount_cents)
    paid = money + sum(line.amount_cents for line in lines) + wallets_paid_cents
    refunded = sum(note.refund_amount_cents for note, _ in notes)
    asked = sum(note.credit_amount_cents - note.withdrawn_amount_cents for note, _ in notes if note.of_void)
    standing = sum(used + note.balance_amount_cents for note, used in notes if not note.of_void)
    # A person gave it, and took it away again.
    forgone = sum(
        note.credit_amount_cents - used - note.balance_amount_cents - note.withdrawn_amount_cents
        for note, used in notes
        if not note.of_void
    )
    returned = sum(line.returned_cents for line in lines) + wallets_returned_cents
    back = refunded + asked + standing + returned
    if back < paid - forgone:
        yield _finding(invoice, "given back", f"at least {paid - forgone}", back)
    most = max(0, paid - refunded - asked)
    if standing + returned > most:
        yield _finding(invoice, "given back beside what the void was asked for", f"at most {most}", standing + returned)


def _finding(invoice: Invoice, detail: str, expected: object, found: object) -> Finding:
    return Finding(
        check="invoice_voided",
        subject=f"invoice {invoice.number}",
        subject_id=invoice.id,
        detail=detail,
        expected=str(expected),
        found=str(found),
    )
