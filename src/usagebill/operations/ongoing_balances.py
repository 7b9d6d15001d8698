"""Ongoing balances of wallets, refreshed as usage comes in."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.customers import Customer
from usagebill.core.events import Event
from usagebill.core.subscriptions import UNENDED, Subscription
from usagebill.core.tasks import RefreshWallets
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.operations.alert_watch import watch_wallet
from usagebill.operations.backlog import catch_up_before
from usagebill.operations.wallet_ledger import tell_wallet, want_refresh
from usagebill.operations.wallets.rules import check_threshold
from usagebill.queries.alerts import alerts_of_wallets
from usagebill.queries.wallets import active_wallets, running_rules
from usagebill.rating.ongoing_usage import refreshed_wallets, unbilled_nets
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq, within


def follow_up(work: Work, events: Sequence[Event]) -> None:
    """Schedule a refresh of the wallets of the new events' customers."""
    if work.tx.first(Wallet, eq("status", WalletStatus.ACTIVE)) is None:
        return
    names = dict.fromkeys(event.external_subscription_id for event in events if event.external_subscription_id)
    # The start of one that is pending may be overdue: the refresh runs it first.
    subscriptions = work.tx.find(Subscription, within("external_id", names), within("status", UNENDED))
    for customer_id in dict.fromkeys(subscription.customer_id for subscription in subscriptions):
        want_refresh(work, customer_id)


def refresh(work: Work, task: RefreshWallets) -> None:
    """Job: refresh the ongoing values of all active wallets of a customer, and report those now depleted.

    The customer's backlog is settled first, because it decides which usage is billed and which is ongoing.
    """
    catch_up_before(work, (task.customer_id,))
    customer = work.tx.get(Customer, task.customer_id, deleted=True)
    wallets = active_wallets(work, task.customer_id)
    if customer is None or not wallets:
        return
    nets = work.computed(
        ("unbilled", customer.id),
        lambda reader: unbilled_nets(reader, customer),
        inputs=customer,
        customer_id=customer.id,
    )
    changed = [
        (before, after)
        for before, after in zip(wallets, refreshed_wallets(work, wallets, nets), strict=True)
        if after is not before
    ]
    alerts = alerts_of_wallets(work, [after.id for _, after in changed]) if changed else {}
    ruled = {rule.wallet_id for rule in running_rules(work, wallets)} if changed else set()
    for before, after in changed:
        work.tx.replace(after)
        watch_wallet(work, after, alerts.get(after.id, ()))
        if after.depleted_ongoing_balance and not before.depleted_ongoing_balance:
            tell_wallet(work, "wallet.depleted_ongoing_balance", after)
        if after.id in ruled and _ongoing(after) != _ongoing(before):
            check_threshold(work, after)


def _ongoing(wallet: Wallet) -> tuple[int, int]:
    return wallet.ongoing_balance_cents, wallet.ongoing_usage_balance_cents
