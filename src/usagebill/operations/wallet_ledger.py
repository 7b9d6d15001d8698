"""The ledger of wallets: the one place where credits enter and leave a wallet.

A movement stores the transaction, its draws and the wallet's balance together, so that balances always agree with
transactions; `usagebill audit` checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from usagebill.core.alerts import Alert
from usagebill.core.invoices.records import Invoice
from usagebill.core.tasks import RefreshWallets
from usagebill.core.wallet_transactions import (
    TransactionType,
    WalletConsumption,
    WalletTransaction,
    after_draw,
    drawn,
    refunding,
    returned,
)
from usagebill.core.wallets import (
    Wallet,
    WalletStatus,
    credits_of_cents,
    decreased,
    given_back,
    increased,
    taken_credits,
)
from usagebill.operations.alert_watch import watch_wallet
from usagebill.process.logs import Log
from usagebill.queries.alerts import alerts_of_wallets
from usagebill.queries.wallets import active_wallets, drawable_transactions, wallet_of
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq
from usagebill.views.wallet_transactions import wallet_transaction_message
from usagebill.views.wallets import wallet_message

_log = Log("usagebill.wallets")

_CREATED = "wallet_transaction.created"


def bring_in(work: Work, transaction: WalletTransaction, *, webhook_type: str = _CREATED) -> Wallet:
    """Add the credits of a settled inbound transaction, stored already, to its wallet.

    `webhook_type` is the message about the transaction.
    """
    wallet = wallet_of(work, transaction)
    want_refresh(work, wallet.customer_id)
    moved = increased(wallet, transaction.amount_cents, transaction.credit_amount, work.now)
    return _moved(work, moved, transaction, webhook_type)


def give_back(work: Work, transaction: WalletTransaction) -> Wallet:
    """Add credits that a settled inbound transaction gives back after an invoice had consumed them."""
    wallet = wallet_of(work, transaction)
    want_refresh(work, wallet.customer_id)
    moved = given_back(wallet, transaction.amount_cents, transaction.credit_amount, work.now)
    return _moved(work, moved, transaction, _CREATED)


def take_out(
    work: Work,
    transaction: WalletTransaction,
    *,
    source: WalletTransaction | None = None,
    webhook_type: str | None = _CREATED,
) -> Wallet:
    """Take the credits of an outbound transaction, stored already, out of its wallet.

    They are drawn from its inbound transactions in the order of consumption, or from `source` alone. `webhook_type` is
    the message about the transaction, None for none. Raises `ValueError` if less is left: callers check before.
    """
    wallet = wallet_of(work, transaction)
    inbound = drawable_transactions(work, [wallet]) if source is None else [source]
    want_refresh(work, wallet.customer_id)
    return _drawn(work, transaction, wallet, inbound, webhook_type)


def _drawn(
    work: Work,
    transaction: WalletTransaction,
    wallet: Wallet,
    inbound: Iterable[WalletTransaction],
    webhook_type: str | None = _CREATED,
    alerts: Iterable[Alert] | None = None,
) -> Wallet:
    if transaction.transaction_type != TransactionType.OUTBOUND:
        raise ValueError(f"transaction {transaction.id} brings credits in")
    draws = drawn(inbound, transaction.amount_cents)
    for id, draw in zip(work.new_ids(len(draws)), draws, strict=True):
        work.tx.replace(after_draw(draw, work.now))
        work.tx.insert(
            WalletConsumption(
                id=id,
                organization_id=work.organization.id,
                wallet_id=wallet.id,
                inbound_id=draw.inbound.id,
                outbound_id=transaction.id,
                amount_cents=draw.amount_cents,
                created_at=work.now,
            )
        )
    moved = decreased(wallet, transaction.amount_cents, transaction.credit_amount, work.now)
    return _moved(work, moved, transaction, webhook_type, alerts)


def pay(work: Work, transactions: Sequence[WalletTransaction]) -> None:
    """Pay for an invoice with new outbound transactions, one per wallet.

    The caller, which stores the invoice, refreshes ongoing balances, for all of the customer's wallets at once.
    """
    if not transactions:
        return
    paying = {transaction.wallet_id for transaction in transactions}
    wallets = {wallet.id: wallet for wallet in active_wallets(work, transactions[0].customer_id) if wallet.id in paying}
    inbound: dict[str, list[WalletTransaction]] = {id: [] for id in wallets}
    for source in drawable_transactions(work, list(wallets.values())):
        inbound[source.wallet_id].append(source)
    alerts = alerts_of_wallets(work, wallets)
    for transaction in transactions:
        id = transaction.wallet_id
        keep(work, transaction)
        _drawn(work, transaction, wallets[id], inbound[id], alerts=alerts.get(id, ()))


def return_prepaid(work: Work, undone: Invoice, outbound: WalletTransaction, cents: int) -> None:
    """Give back `cents` of a wallet's payment for an invoice that was undone, as granted credits.

    A terminated wallet gets nothing back, because its credits can no longer be used; the log has the amount.
    """
    wallet = wallet_of(work, outbound)
    if wallet.status != WalletStatus.ACTIVE:
        _log.warning(
            "credits_not_given_back",
            invoice=undone.number,
            wallet_id=outbound.wallet_id,
            amount_cents=outbound.amount_cents,
            credits=str(outbound.credit_amount),
            reason="wallet_is_terminated",
        )
        return
    credits = outbound.credit_amount
    if cents < outbound.amount_cents:
        credits = min(credits, credits_of_cents(cents, wallet.rate_amount, wallet.currency))
    back = returned(outbound, cents, credits, voided_invoice_id=undone.id, id=work.new_id(), now=work.now)
    give_back(work, keep(work, back))


def refund(work: Work, purchase: WalletTransaction, credit_note_id: str, cents: int) -> WalletTransaction:
    """Take out purchased credits that a credit note refunds, from that purchase alone.

    Raises `ValueError` if less is left of it: callers check before.
    """
    credits = taken_credits(wallet_of(work, purchase), cents)
    void = refunding(purchase, cents, credits, credit_note_id=credit_note_id, id=work.new_id(), now=work.now)
    work.tx.insert(void)
    take_out(work, void, source=purchase, webhook_type=None)
    return void


def _moved(
    work: Work,
    wallet: Wallet,
    transaction: WalletTransaction,
    webhook_type: str | None,
    alerts: Iterable[Alert] | None = None,
) -> Wallet:
    """Store the wallet after a movement, then send the messages, so that the transaction's shows the new balance."""
    work.tx.replace(wallet)
    if webhook_type is not None:
        tell_transaction(work, webhook_type, transaction)
    tell_wallet(work, "wallet.updated", wallet)
    watch_wallet(work, wallet, alerts)
    return wallet


def want_refresh(work: Work, customer_id: str) -> None:
    """Schedule a refresh of the customer's active wallets at once, because their usage or invoices have changed."""
    wallet = work.tx.first(Wallet, eq("customer_id", customer_id), eq("status", WalletStatus.ACTIVE))
    if wallet is None:
        return
    task = RefreshWallets(wallet_id=wallet.id, customer_id=customer_id)
    if work.schedule(task, work.now):
        return
    waiting = work.tx.jobs.get(task.key)
    if waiting is not None and waiting.due_at > work.now:
        # After downtime, a top-up rule must see the balance of this instant, not only the latest one.
        work.schedule(replace(task, as_of=work.now), work.now)


def keep(work: Work, transaction: WalletTransaction) -> WalletTransaction:
    """Store a new transaction."""
    work.tx.insert(transaction)
    return transaction


def tell_transaction(work: Work, webhook_type: str, transaction: WalletTransaction) -> None:
    """Send a message about a transaction."""
    work.emit(webhook_type, partial(wallet_transaction_message, work, transaction), transaction.id)


def tell_wallet(work: Work, webhook_type: str, wallet: Wallet) -> None:
    """Send a message about a wallet."""
    work.emit(webhook_type, partial(wallet_message, work, wallet), wallet.id)
