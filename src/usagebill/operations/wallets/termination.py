"""Ends of wallets: by request, by expiry, and with their customer."""

from __future__ import annotations

from usagebill.core.tasks import ExpireWallet
from usagebill.core.wallets import Wallet, WalletStatus, terminated
from usagebill.operations.backlog import after_backlog, of_customer, of_record
from usagebill.operations.wallet_ledger import tell_wallet, want_refresh
from usagebill.operations.wallets.rules import end_rules
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.wallets import active_wallets, wallet_by_code, wallet_by_id
from usagebill.runtime.work import Work


@after_backlog(of_record(Wallet))
def terminate(work: Work, wallet_id: str) -> Wallet:
    """End a wallet and its rules. Its credits stay, but are not used any more; an ended one is left unchanged.

    Raises `NotFound`.
    """
    return end_wallet(work, wallet_by_id(work, wallet_id))


@after_backlog(of_customer)
def terminate_of_customer(work: Work, external_id: str, code: str) -> Wallet:
    """End the customer's wallet with this code. Raises `NotFound`."""
    return terminate(work, wallet_by_code(work, customer_by_external_id(work, external_id), code).id)


def end_wallet(work: Work, wallet: Wallet) -> Wallet:
    """End an active wallet; an ended one is left unchanged."""
    if wallet.status == WalletStatus.TERMINATED:
        return wallet
    ended = terminated(wallet, work.now)
    work.tx.replace(ended)
    work.cancel(_expiration(wallet))
    end_rules(work, ended)
    tell_wallet(work, "wallet.terminated", ended)
    want_refresh(work, ended.customer_id)
    return ended


def end_wallets(work: Work, customer_id: str) -> None:
    """End all active wallets of a customer that was deleted."""
    for wallet in active_wallets(work, customer_id):
        end_wallet(work, wallet)


def _expiration(wallet: Wallet) -> ExpireWallet:
    return ExpireWallet(customer_id=wallet.customer_id, wallet_id=wallet.id)


def watch_expiration(work: Work, wallet: Wallet) -> None:
    """Reschedule the end of the wallet to its expiry."""
    work.cancel(_expiration(wallet))
    if wallet.expiration_at is not None:
        work.schedule(_expiration(wallet), max(wallet.expiration_at, work.now))


def expire(work: Work, task: ExpireWallet) -> None:
    """Job: end a wallet at its expiry."""
    end_wallet(work, wallet_by_id(work, task.wallet_id))
