"""The audit of wallets: balances follow from transactions, and every credit spent leads back to a grant or purchase."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.audit import Finding
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ZERO, subtract, total
from usagebill.core.statuses import PaymentStatus
from usagebill.core.wallet_transactions import (
    KINDS,
    TransactionKind,
    TransactionType,
    WalletConsumption,
    WalletTransaction,
    WalletTransactionStatus,
)
from usagebill.core.wallets import Wallet, credits_of_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletLedger:
    """A wallet with every transaction that moved its balance. `invoices` are those of its transactions, by id."""

    wallet: Wallet
    transactions: Sequence[WalletTransaction]
    consumptions: Sequence[WalletConsumption]
    invoices: Mapping[str, Invoice]


def _finding(check: str, subject: str, id: str, detail: str, expected: object, actual: object) -> Finding:
    return Finding(
        check=check, subject=subject, subject_id=id, detail=detail, expected=str(expected), found=str(actual)
    )


def audited_wallet(ledger: WalletLedger) -> Iterator[Finding]:
    """A wallet's balance is its inbound less its outbound credits, equals the remainders of its grants, and is never
    negative.
    """
    yield from _balances(ledger)
    for transaction in ledger.transactions:
        yield from _transaction(ledger, transaction)
    yield from _fundings(ledger)


def _balances(ledger: WalletLedger) -> Iterator[Finding]:
    wallet = ledger.wallet
    settled = [
        transaction for transaction in ledger.transactions if transaction.status == WalletTransactionStatus.SETTLED
    ]
    came = [transaction for transaction in settled if transaction.is_inbound]
    went = [transaction for transaction in settled if not transaction.is_inbound]
    credits_out = total(transaction.credit_amount for transaction in went)
    returned = total(transaction.credit_amount for transaction in came if transaction.voided_invoice_id is not None)
    cents = sum(transaction.amount_cents for transaction in came) - sum(spent.amount_cents for spent in went)
    expected: list[tuple[str, object, object]] = [
        ("balance_cents", cents, wallet.balance_cents),
        (
            "balance_cents",
            sum(transaction.remaining_amount_cents or 0 for transaction in ledger.transactions),
            wallet.balance_cents,
        ),
        (
            "credits_balance",
            subtract(total(transaction.credit_amount for transaction in came), credits_out),
            wallet.credits_balance,
        ),
        ("consumed_credits", max(ZERO, subtract(credits_out, returned)), wallet.consumed_credits),
    ]
    for detail, computed, stored in expected:
        if computed != stored:
            yield _finding("wallet", f"wallet {wallet.code}", wallet.id, detail, computed, stored)
    for detail, balance in (("balance_cents", wallet.balance_cents), ("credits_balance", wallet.credits_balance)):
        if balance < 0:
            yield _finding("wallet", f"wallet {wallet.code}", wallet.id, detail, "at least 0", balance)


def _transaction(ledger: WalletLedger, transaction: WalletTransaction) -> Iterator[Finding]:
    """A transaction has one direction, is worth its credits, and has the remainder that others have not taken."""
    subject = f"transaction of wallet {ledger.wallet.code}"

    def differs(detail: str, expected: object, actual: object) -> Iterator[Finding]:
        if expected != actual:
            yield _finding("wallet_transaction", subject, transaction.id, detail, expected, actual)

    kinds = KINDS[transaction.transaction_type]
    if transaction.transaction_status not in kinds:
        yield from differs("transaction_status", " or ".join(kinds), transaction.transaction_status)
    if transaction.amount_cents < 0 or transaction.credit_amount < ZERO:
        amount = f"{transaction.amount_cents} cents, {transaction.credit_amount} credits"
        yield from differs("amount", "at least 0", amount)
    worth = credits_of_cents(transaction.amount_cents, ledger.wallet.rate_amount, ledger.wallet.currency)
    if transaction.is_inbound and transaction.voided_invoice_id is None:
        yield from differs("credit_amount", worth, transaction.credit_amount)
    elif transaction.transaction_status == TransactionKind.INVOICED and transaction.credit_amount > worth:
        # Fewer are taken if the wallet has no more: cents and credits are rounded separately.
        yield from differs("credit_amount", f"at most {worth}", transaction.credit_amount)
    is_settled = transaction.status == WalletTransactionStatus.SETTLED
    if not is_settled and transaction.transaction_status != TransactionKind.PURCHASED:
        yield from differs("status", "settled", transaction.status)
    remaining_cents: int | None = None
    if transaction.is_inbound and is_settled:
        used = sum(row.amount_cents for row in ledger.consumptions if row.inbound_id == transaction.id)
        remaining_cents = transaction.amount_cents - used
        if remaining_cents < 0:
            yield from differs("used", f"at most {transaction.amount_cents}", used)
    yield from differs("remaining_amount_cents", remaining_cents, transaction.remaining_amount_cents)
    if transaction.customer_id != ledger.wallet.customer_id:
        yield from differs("customer", ledger.wallet.customer_id, transaction.customer_id)
    if is_settled and transaction.settled_at is None:
        yield from differs("settled_at", "an instant", None)
    # A purchase has its invoice right after its request, and is settled by it.
    is_invoiced = transaction.transaction_status == TransactionKind.INVOICED
    is_bought = transaction.transaction_status == TransactionKind.PURCHASED and is_settled
    invoice = ledger.invoices.get(transaction.invoice_id or "")
    if (is_invoiced or is_bought) and (invoice is None or invoice.customer_id != ledger.wallet.customer_id):
        yield from differs("invoice", "one of the customer", transaction.invoice_id)
    top_up = invoice if transaction.is_inbound else None
    if top_up is not None:
        yield from differs("type of its invoice", str(InvoiceType.CREDIT), str(top_up.invoice_type))
        yield from differs("amount of its invoice", transaction.amount_cents, top_up.fees_amount_cents)
        if transaction.status == WalletTransactionStatus.PENDING and top_up.payment_status == PaymentStatus.SUCCEEDED:
            yield from differs("status", "settled, or failed: its invoice is paid", transaction.status)


def _fundings(ledger: WalletLedger) -> Iterator[Finding]:
    """Every outbound credit was drawn, once and in full, from inbound ones of the same wallet."""
    by_id = {transaction.id: transaction for transaction in ledger.transactions}
    subject = f"transaction of wallet {ledger.wallet.code}"
    for row in ledger.consumptions:
        source, use = by_id.get(row.inbound_id), by_id.get(row.outbound_id)
        if source is None or not source.is_inbound or source.status != WalletTransactionStatus.SETTLED:
            expected = "a settled inbound transaction of the wallet"
            yield _finding("wallet_funding", subject, row.outbound_id, "drawn from", expected, row.inbound_id)
        if use is None or use.is_inbound:
            expected = "an outbound transaction of the wallet"
            yield _finding("wallet_funding", subject, row.inbound_id, "used by", expected, row.outbound_id)
        if row.amount_cents <= 0:
            yield _finding("wallet_funding", subject, row.outbound_id, "drawn", "more than 0", row.amount_cents)
    for transaction in ledger.transactions:
        drawn = sum(row.amount_cents for row in ledger.consumptions if row.outbound_id == transaction.id)
        if not transaction.is_inbound and drawn != transaction.amount_cents:
            yield _finding("wallet_funding", subject, transaction.id, "drawn", transaction.amount_cents, drawn)


def audited_prepaid(
    invoice: Invoice,
    fees_cents: Mapping[str, Decimal],
    transactions: Sequence[WalletTransaction],
    consumptions: Sequence[WalletConsumption],
) -> Iterator[Finding]:
    """The prepaid amount of an invoice is what wallets paid for it, for its own fees, and no more is given back.

    `fees_cents` is the amount of each of its fees with taxes. `transactions` are those that paid for it, those that
    gave it back and those that `consumptions` drew on.
    """
    by_id = {transaction.id: transaction for transaction in transactions}
    paying = [
        transaction
        for transaction in transactions
        if not transaction.is_inbound and transaction.invoice_id == invoice.id
    ]
    split = dict.fromkeys(KINDS[TransactionType.INBOUND], 0)
    ids = {transaction.id for transaction in paying}
    for row in consumptions:
        source = by_id.get(row.inbound_id)
        if row.outbound_id in ids and source is not None and source.transaction_status in split:
            split[source.transaction_status] += row.amount_cents
    # Zero amounts are not reported.
    expected: list[tuple[str, object, object]] = [
        (
            "prepaid_credit_amount_cents",
            sum(transaction.amount_cents for transaction in paying),
            invoice.prepaid_credit_amount_cents,
        ),
        (
            "prepaid_granted_credit_amount_cents",
            split[TransactionKind.GRANTED] or None,
            invoice.prepaid_granted_credit_amount_cents,
        ),
        (
            "prepaid_purchased_credit_amount_cents",
            split[TransactionKind.PURCHASED] or None,
            invoice.prepaid_purchased_credit_amount_cents,
        ),
    ]
    subject = f"invoice {invoice.number}"
    for detail, computed, stored in expected:
        if computed != stored:
            yield _finding("prepaid", subject, invoice.id, detail, computed, stored)
    of_fees: dict[str, int] = {}
    for transaction in paying:
        listed = sum(part.amount_cents for part in transaction.paid_fees)
        if listed != transaction.amount_cents:
            detail = f"fees paid by transaction {transaction.id}"
            yield _finding("prepaid", subject, invoice.id, detail, transaction.amount_cents, listed)
        for part in transaction.paid_fees:
            of_fees[part.fee_id] = of_fees.get(part.fee_id, 0) + part.amount_cents
    for fee_id, cents in of_fees.items():
        # Rounding may move cents between the fees, at most one per fee.
        most = fees_cents.get(fee_id, Decimal(0)) + len(fees_cents) if fee_id in fees_cents else Decimal(0)
        if cents > most:
            yield _finding("prepaid", subject, invoice.id, f"paid of fee {fee_id}", f"at most {most}", cents)
    for wallet_id in dict.fromkeys(transaction.wallet_id for transaction in transactions):
        took = sum(transaction.amount_cents for transaction in paying if transaction.wallet_id == wallet_id)
        back = sum(
            transaction.amount_cents
            for transaction in transactions
            if transaction.wallet_id == wallet_id and transaction.voided_invoice_id == invoice.id
        )
        if back > took:
            detail = f"given back to wallet {wallet_id}"
            yield _finding("prepaid", subject, invoice.id, detail, f"at most {took}", back)


def audited_strays(
    customer_ids: Container[str],
    wallets: Iterable[Wallet],
    transactions: Iterable[WalletTransaction],
    consumptions: Iterable[WalletConsumption],
) -> Iterator[Finding]:
    """Wallets without a customer, and transactions and fundings without a wallet: no other audit reaches them."""
    wallet_ids: set[str] = set()
    for wallet in wallets:
        wallet_ids.add(wallet.id)
        if wallet.customer_id not in customer_ids:
            yield _finding("wallet", f"wallet {wallet.code}", wallet.id, "customer", "a customer", wallet.customer_id)
    for transaction in transactions:
        if transaction.wallet_id not in wallet_ids:
            yield _finding("wallet_transaction", "transaction", transaction.id, "wallet", "one", transaction.wallet_id)
    for row in consumptions:
        if row.wallet_id not in wallet_ids:
            yield _finding("wallet_funding", "funding", row.id, "wallet", "one", row.wallet_id)
