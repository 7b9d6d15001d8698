"""Wallets, their transactions and recurring rules."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.errors import NotFound
from usagebill.core.invoices.life_cycle import NOT_TO_BE_PAID, InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.lost_credits import is_lost
from usagebill.core.numbers import ZERO, add
from usagebill.core.recurring_rules import RecurringTransactionRule, RuleStatus, is_running
from usagebill.core.wallet_transactions import (
    Draw,
    TransactionType,
    WalletConsumption,
    WalletTransaction,
    WalletTransactionStatus,
)
from usagebill.core.wallets import Wallet, WalletStatus, in_order_of_use
from usagebill.queries.billing_entities import find_entity
from usagebill.queries.customers import customer_of, entity_of
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, desc, eq, more, within


def wallet_by_id(reader: Reader, wallet_id: str) -> Wallet:
    """The wallet with this id, active or terminated. Raises `NotFound`."""
    wallet = reader.tx.get(Wallet, wallet_id)
    if wallet is None:
        raise NotFound("wallet", wallet_id)
    return wallet


def wallet_by_code(reader: Reader, customer: Customer, code: str) -> Wallet:
    """The customer's wallet with this code: the active one, else the one that ended last. Raises `NotFound`."""
    wallet = reader.tx.first(
        Wallet,
        eq("customer_id", customer.id),
        eq("code", code),
        order=[asc("status"), desc("terminated_at"), desc("created_at")],
    )
    if wallet is None:
        raise NotFound("wallet", code)
    return wallet


def wallets_of_customer(reader: Reader, customer_id: str) -> list[Wallet]:
    """All wallets of the customer, active and terminated, oldest first."""
    return reader.tx.find(Wallet, eq("customer_id", customer_id), order=[asc("created_at"), asc("id")])


def active_wallets(reader: Reader, customer_id: str) -> list[Wallet]:
    """The customer's active wallets, in the order in which they pay."""
    active = eq("status", WalletStatus.ACTIVE)
    return in_order_of_use(reader.tx.find(Wallet, eq("customer_id", customer_id), active))


def usable_wallets(reader: Reader, customer_id: str) -> list[Wallet]:
    """The customer's active wallets that have not expired, in the order in which they pay."""
    return [
        wallet
        for wallet in active_wallets(reader, customer_id)
        if wallet.expiration_at is None or reader.now < wallet.expiration_at
    ]


def wallet_of(reader: Reader, transaction: WalletTransaction) -> Wallet:
    """The current wallet of the transaction."""
    wallet = reader.tx.get(Wallet, transaction.wallet_id)
    if wallet is None:
        raise LookupError(f"no wallet {transaction.wallet_id}")
    return wallet


def wallet_entity(reader: Reader, wallet: Wallet) -> BillingEntity:
    """The issuer of the wallet's top-up invoices: its own billing entity, else its customer's."""
    entity = None if wallet.billing_entity_id is None else find_entity(reader, wallet.billing_entity_id)
    return entity_of(reader, customer_of(reader, wallet)) if entity is None else entity


def metrics_of(reader: Reader, wallet: Wallet) -> list[BillableMetric]:
    """The live metrics that the wallet is limited to, in the order in which they were sent."""
    metrics = {metric.id: metric for metric in reader.tx.find(BillableMetric, within("id", wallet.billable_metric_ids))}
    return [metrics[id] for id in wallet.billable_metric_ids if id in metrics]


def wallet_transaction_by_id(reader: Reader, transaction_id: str) -> WalletTransaction:
    """The transaction with this id. Raises `NotFound`."""
    transaction = reader.tx.get(WalletTransaction, transaction_id)
    if transaction is None:
        raise NotFound("wallet_transaction", transaction_id)
    return transaction


def drawable_transactions(reader: Reader, wallets: Sequence[Wallet]) -> list[WalletTransaction]:
    """The inbound transactions of these wallets with a remaining balance."""
    if not wallets:
        return []
    of_wallets = within("wallet_id", [wallet.id for wallet in wallets])
    return reader.tx.find(WalletTransaction, of_wallets, more("remaining_amount_cents", 0))


def draws_of(reader: Reader, outbound: WalletTransaction) -> list[Draw]:
    """The draws of an outbound transaction on inbound ones, in order."""
    rows = reader.tx.find(WalletConsumption, eq("outbound_id", outbound.id), order=[asc("created_at"), asc("id")])
    sources = {
        source.id: source
        for source in reader.tx.find(WalletTransaction, within("id", [row.inbound_id for row in rows]))
    }
    return [Draw(sources[row.inbound_id], row.amount_cents) for row in rows]


def pending_transactions(reader: Reader, wallet: Wallet) -> list[WalletTransaction]:
    """The wallet's pending purchases that may still be paid: their invoices, if there are any yet, are not voided."""
    waiting = reader.tx.find(
        WalletTransaction, eq("wallet_id", wallet.id), eq("status", WalletTransactionStatus.PENDING)
    )
    invoice_ids = [purchase.invoice_id for purchase in waiting if purchase.invoice_id is not None]
    if not invoice_ids:
        return waiting
    voided = reader.tx.find(Invoice, within("id", invoice_ids), eq("status", InvoiceStatus.VOIDED))
    unpayable = {invoice.id for invoice in voided}
    return [purchase for purchase in waiting if purchase.invoice_id not in unpayable]


def transaction_of_invoice(reader: Reader, invoice_id: str) -> WalletTransaction | None:
    """The purchase of credits that a top-up invoice bills."""
    inbound = eq("transaction_type", TransactionType.INBOUND)
    return reader.tx.first(WalletTransaction, eq("invoice_id", invoice_id), inbound)


def transactions_paying(reader: Reader, invoice_id: str) -> list[WalletTransaction]:
    """The outbound transactions that paid an invoice, in order."""
    outbound = eq("transaction_type", TransactionType.OUTBOUND)
    order = [asc("created_at"), asc("id")]
    return reader.tx.find(WalletTransaction, eq("invoice_id", invoice_id), outbound, order=order)


def lost_credits(reader: Reader, wallet: Wallet) -> Decimal:
    """The credits that an ended wallet spent on invoices voided, or closed unpaid, and did not get back."""
    if wallet.status == WalletStatus.ACTIVE:
        return ZERO
    transactions = reader.tx.find(WalletTransaction, eq("wallet_id", wallet.id))
    returned = {item.voided_invoice_id for item in transactions if item.voided_invoice_id is not None}
    lost = ZERO
    for spent in transactions:
        if spent.is_inbound or spent.invoice_id is None or spent.invoice_id in returned:
            continue
        invoice = reader.tx.get(Invoice, spent.invoice_id)
        if invoice is not None and invoice.status in NOT_TO_BE_PAID:
            notes = reader.tx.find(CreditNote, eq("invoice_id", invoice.id))
            lost = add(lost, spent.credit_amount) if is_lost(spent, invoice, notes) else lost
    return lost


def running_rule(reader: Reader, wallet: Wallet) -> RecurringTransactionRule | None:
    """The wallet's recurring rule if it is running (neither terminated nor expired); a wallet has at most one."""
    return next(iter(running_rules(reader, [wallet])), None)


def running_rules(reader: Reader, wallets: Sequence[Wallet]) -> list[RecurringTransactionRule]:
    """The wallets' running recurring rules. Cheap if there are no rules at all."""
    if reader.tx.first(RecurringTransactionRule) is None:
        return []
    of_wallets = within("wallet_id", [wallet.id for wallet in wallets])
    active = eq("status", RuleStatus.ACTIVE)
    rules = reader.tx.find(RecurringTransactionRule, of_wallets, active, order=[asc("created_at"), asc("id")])
    return [rule for rule in rules if is_running(rule, reader.now)]
