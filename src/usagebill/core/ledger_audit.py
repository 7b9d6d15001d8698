"""The audit of the ledger: every group of movements sums to zero, and the balances are what the documents say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from usagebill.core.audit import Finding
from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.ledger import DEBTS, Account, Movement
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.core.wallets import Wallet, WalletStatus

_PREPAID = (Account.PREPAID_PURCHASED, Account.PREPAID_GRANTED)
_TAXES = (Account.TAX, Account.INPUT_TAX, Account.ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """A customer's movements, and the documents that they come from."""

    customer_id: str
    external_customer_id: str
    movements: Sequence[Movement]
    invoices: Sequence[Invoice]
    notes: Sequence[CreditNote]
    payments: Sequence[Payment]
    refunds: Sequence[RefundAttempt]
    wallets: Sequence[Wallet]


def audited_ledger(books: Books) -> Iterator[Finding]:
    """The findings about a customer's movements, each balance computed from the documents' own totals."""
    subject = f"ledger of customer {books.external_customer_id}"

    def differs(detail: str, expected: int, found: int, id: str = books.customer_id) -> Iterator[Finding]:
        if expected != found:
            yield Finding(
                check="ledger",
                subject=subject,
                subject_id=id,
                detail=detail,
                expected=str(expected),
                found=str(found),
            )

    groups: Counter[str] = Counter()
    based: Counter[str] = Counter()
    debts: Counter[str] = Counter()
    worth: dict[str, dict[str | None, int]] = {}
    balances: Counter[tuple[str, str]] = Counter()
    for movement in books.movements:
        groups[movement.group_id] += movement.amount_cents
        based[movement.group_id] += movement.base_amount_cents or 0
        balances[_title(movement), movement.currency] += movement.amount_cents
        if movement.account in DEBTS and movement.invoice_id is not None:
            debts[movement.invoice_id] += movement.amount_cents
            known = worth.setdefault(movement.invoice_id, {})
            currency = None if movement.base_amount_cents is None else movement.base_currency
            known[currency] = known.get(currency, 0) + (movement.base_amount_cents or 0)
        if movement.base_currency == movement.currency:
            detail = f"{movement.account} in the books' own currency"
            yield from differs(detail, movement.amount_cents, movement.base_amount_cents or 0, movement.id)
    for group_id, cents in groups.items():
        yield from differs("debits less credits of a group", 0, cents, group_id)
        yield from differs("debits less credits of a group in the books' own currency", 0, based[group_id], group_id)
    for invoice_id, known in worth.items():
        # A debt that is known in one other currency throughout.
        if not debts[invoice_id] and len(known) == 1 and None not in known:
            yield from differs("what a settled debt is worth", 0, sum(known.values()), invoice_id)
    for invoice in books.invoices:
        if invoice.status == InvoiceStatus.FINALIZED:
            due = -invoice.due_cents if invoice.self_billed else invoice.due_cents
            yield from differs(f"due on invoice {invoice.number}", due, debts[invoice.id], invoice.id)
    expected = _balances(books)
    for title, currency in sorted(expected.keys() | balances.keys()):
        if title in _CHECKED:
            yield from differs(f"{title} in {currency}", expected[title, currency], balances[title, currency])


_CREDIT, _WALLETS, _TAX, _CASH = "balances of credit notes", "balances of wallets", "taxes", "cash"
_FEES = "fees of providers"
_CHECKED = (_CREDIT, _WALLETS, _TAX, _CASH, _FEES)
_TITLES: Mapping[Account, str] = {
    Account.CUSTOMER_CREDIT: _CREDIT,
    Account.CASH: _CASH,
    Account.PROVIDER_FEES: _FEES,
    **dict.fromkeys(_PREPAID, _WALLETS),
    **dict.fromkeys(_TAXES, _TAX),
}


def _title(movement: Movement) -> str:
    return _TITLES.get(movement.account, movement.account.value)


def _balances(books: Books) -> Counter[tuple[str, str]]:
    """The balances of the accounts that are checked, by their titles and currency."""
    balances: Counter[tuple[str, str]] = Counter()
    invoices = {invoice.id: invoice for invoice in books.invoices}
    for invoice in books.invoices:
        if invoice.status == InvoiceStatus.FINALIZED:
            balances[_TAX, invoice.currency] -= _signed(invoice, invoice.taxes_amount_cents)
    for note in books.notes:
        credited = invoices.get(note.invoice_id)
        if note.status == CreditNoteStatus.FINALIZED:
            balances[_CREDIT, note.currency] -= _signed(credited, note.balance_amount_cents)
            if credited is not None and credited.status == InvoiceStatus.FINALIZED:
                balances[_TAX, note.currency] += _signed(credited, note.taxes_amount_cents)
            # A part may be paid back before the whole; by hand it is the whole that is.
            parts = [refund for refund in books.refunds if refund.credit_note_id == note.id]
            back = sum(part.amount_cents for part in parts if part.refund_status == PaymentStatus.SUCCEEDED)
            if note.refund_status == PaymentStatus.SUCCEEDED:
                back = note.refund_amount_cents
            balances[_CASH, note.currency] -= _signed(credited, back)
    for payment in books.payments:
        if payment.payment_status == ChargeStatus.SUCCEEDED:
            paid = invoices.get(payment.invoice_id or "")
            balances[_CASH, payment.amount_currency] += _signed(paid, payment.amount_cents)
        if payment.provider_fee_amount_cents and payment.provider_fee_currency:
            balances[_FEES, payment.provider_fee_currency] += payment.provider_fee_amount_cents
            balances[_CASH, payment.provider_fee_currency] -= payment.provider_fee_amount_cents
    for refund in books.refunds:
        if refund.credit_note_id is None and refund.refund_status == PaymentStatus.SUCCEEDED:
            balances[_CASH, refund.currency] -= _signed(invoices.get(refund.invoice_id), refund.amount_cents)
    for movement in books.movements:
        if movement.account == Account.LOST_DISPUTES:
            balances[_CASH, movement.currency] -= movement.amount_cents
    for wallet in books.wallets:
        if wallet.status == WalletStatus.ACTIVE:
            balances[_WALLETS, wallet.currency] -= wallet.balance_cents
    return balances


def _signed(invoice: Invoice | None, cents: int) -> int:
    return -cents if invoice is not None and invoice.self_billed else cents
