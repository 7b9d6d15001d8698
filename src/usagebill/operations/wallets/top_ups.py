"""Top-ups: credits purchased for a wallet, or granted to it, by request or by a recurring rule."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import msgspec

from usagebill.core.errors import Invalid
from usagebill.core.tasks import InvoiceTopUp, TopUpWallet
from usagebill.core.top_ups import TopUp, new_transaction
from usagebill.core.wallet_checks import limit_code
from usagebill.core.wallet_transactions import TransactionKind, TransactionSource, WalletTransaction
from usagebill.core.wallets import Wallet, WalletStatus, whole_cent_credits
from usagebill.operations.wallet_ledger import bring_in, keep, tell_transaction
from usagebill.process.logs import Log
from usagebill.queries.wallets import wallet_by_id
from usagebill.runtime.work import Work

_log = Log("usagebill.wallets")


def top_up(work: Work, wallet: Wallet, order: TopUp) -> list[WalletTransaction]:
    """Add credits to an active wallet: granted ones at once, purchased ones after payment; no transaction for zero.

    The invoice of purchased ones follows right after. Raises `Invalid` if they break the limits of the wallet.
    """
    transactions: list[WalletTransaction] = []
    paid_cents, paid_credits = whole_cent_credits(order.paid, wallet.rate_amount, wallet.currency)
    if paid_cents > 0:
        problem = None if order.ignore_limits else limit_code(wallet, order.paid)
        if problem is not None:
            raise Invalid(paid_credits=problem)
        purchase = new_transaction(
            wallet, order, TransactionKind.PURCHASED, paid_cents, paid_credits, id=work.new_id(), now=work.now
        )
        transactions.append(keep(work, replace(purchase, payment_method=order.payment_method)))
        tell_transaction(work, "wallet_transaction.created", transactions[-1])
        work.schedule(InvoiceTopUp(customer_id=wallet.customer_id, wallet_transaction_id=purchase.id), work.now)
    granted_cents, granted_credits = whole_cent_credits(order.granted, wallet.rate_amount, wallet.currency)
    if granted_cents > 0:
        grant = new_transaction(
            wallet, order, TransactionKind.GRANTED, granted_cents, granted_credits, id=work.new_id(), now=work.now
        )
        transactions.append(keep(work, grant))
        bring_in(work, grant)
    return transactions


def queue_top_up(work: Work, wallet: Wallet, order: TopUp, due_at: datetime) -> None:
    """Schedule a top-up of the wallet at `due_at`, unless one from the same source is pending."""
    work.schedule(_task(wallet, order), due_at)


def withdraw_top_up(work: Work, wallet: Wallet, source: TransactionSource) -> None:
    """Cancel the pending top-up from this source."""
    work.cancel(_task(wallet, TopUp(source=source)))


def _task(wallet: Wallet, order: TopUp) -> TopUpWallet:
    return TopUpWallet(
        customer_id=wallet.customer_id,
        wallet_id=wallet.id,
        source=order.source.value,
        top_up=msgspec.to_builtins(order),
    )


def perform_top_up(work: Work, task: TopUpWallet) -> None:
    """Job: top up a wallet, unless it has ended meanwhile."""
    top_up_if_possible(work, wallet_by_id(work, task.wallet_id), msgspec.convert(task.top_up, TopUp, strict=False))


def top_up_if_possible(work: Work, wallet: Wallet, order: TopUp) -> list[WalletTransaction]:
    """Top up a wallet in the background; if it breaks the limits, only the log says so."""
    if wallet.status != WalletStatus.ACTIVE:
        _log.warning("top_up_dropped", wallet_id=wallet.id, source=order.source, reason="wallet_is_terminated")
        return []
    try:
        return top_up(work, wallet, order)
    except Invalid as problem:
        # The limits were checked when it was ordered, but have changed since.
        _log.warning("top_up_dropped", wallet_id=wallet.id, source=order.source, reason=str(problem))
        return []
