"""Holds of customers."""

from __future__ import annotations

from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.copies import replace
from usagebill.core.customers import Customer
from usagebill.core.errors import NotFound
from usagebill.core.holds import Hold, HoldStatus
from usagebill.core.numbers import ZERO
from usagebill.core.ongoing import expected_use, net_key, summed_nets
from usagebill.core.recurring_rules import RuleTrigger
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.queries.customers import customer_of
from usagebill.queries.wallets import active_wallets, running_rules
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, asc, eq, more


def are_open(reader: Reader) -> tuple[Condition, ...]:
    """Conditions for holds that count at the reader's instant."""
    return eq("status", HoldStatus.HELD), more("expires_at", reader.now)


def open_holds(reader: Reader, customer: Customer) -> list[Hold]:
    """The customer's holds that count now, oldest first."""
    return reader.tx.find(Hold, eq("customer_id", customer.id), *are_open(reader), order=[asc("created_at"), asc("id")])


def held_of_wallet(reader: Reader, wallet: Wallet) -> Decimal:
    """What the wallet would pay of its customer's open holds after the usage in its ongoing balance, at what they added
    with taxes when they were made: in (fractions of) cents.
    """
    customer = customer_of(reader, wallet) if wallet.status is WalletStatus.ACTIVE else None
    holds = [] if customer is None else open_holds(reader, customer)
    if not holds:
        return ZERO
    wallets = [wallet if one.id == wallet.id else one for one in active_wallets(reader, wallet.customer_id)]
    topped_up = {rule.wallet_id for rule in running_rules(reader, wallets) if rule.trigger == RuleTrigger.THRESHOLD}
    left = [replace(one, balance_cents=max(0, one.ongoing_balance_cents)) for one in wallets]
    due = [(net_key(hold.billable_metric_id, hold.currency, hold.properties), hold.total_cents) for hold in holds]
    # One that has just ended pays nothing, also where a log still looks at it as it was.
    return expected_use(summed_nets(due), left, topped_up).get(wallet.id, ZERO)


def hold_by_id(reader: Reader, hold_id: str) -> Hold:
    """The hold with this id. Raises `NotFound`."""
    hold = reader.tx.get(Hold, hold_id)
    if hold is None:
        raise NotFound("hold", hold_id)
    return hold


def metric_of_hold(reader: Reader, hold: Hold) -> BillableMetric | None:
    """The metric whose usage is held; None for a bare amount."""
    if hold.billable_metric_id is None:
        return None
    return reader.tx.get(BillableMetric, hold.billable_metric_id, deleted=True)
