"""Ongoing balances: what wallets would have left if all usage so far were billed now."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from usagebill.core.copies import replace
from usagebill.core.fees import FeeType
from usagebill.core.grouping import TARGET_WALLET_KEY
from usagebill.core.numbers import ZERO, add, subtract, total, truncate_cents
from usagebill.core.wallets import Wallet, credits_of_cents, in_order_of_use, may_pay_type


@dataclass(frozen=True, slots=True, order=True)
class UnbilledKey:
    """The key of unbilled amounts: fee type, metric ("" for anything but usage), and target wallet ("" for any)."""

    fee_type: str
    billable_metric_id: str
    currency: str
    target_code: str = ""


def net_key(metric_id: str | None, currency: str, properties: Mapping[str, object]) -> UnbilledKey:
    """The key under which usage of a metric with these properties is unbilled."""
    target = properties.get(TARGET_WALLET_KEY)
    return UnbilledKey(FeeType.CHARGE, metric_id or "", currency, target if isinstance(target, str) else "")


def summed_nets(amounts: Iterable[tuple[UnbilledKey, Decimal]]) -> dict[UnbilledKey, Decimal]:
    """The amounts summed by key; negative if more is already billed."""
    nets: dict[UnbilledKey, Decimal] = {}
    for key, amount in amounts:
        nets[key] = add(nets.get(key, ZERO), amount)
    return nets


def expected_use(
    nets: Mapping[UnbilledKey, Decimal], wallets: Iterable[Wallet], topped_up: Container[str]
) -> dict[str, Decimal]:
    """The part of the unbilled amounts that each of a customer's wallets would pay, in (fractions of) cents, by wallet
    id.

    Wallets pay in order. Amounts that no balance covers go to the last wallet that may pay for them, or to the first
    that a threshold rule tops up (`topped_up`), and take it below zero.
    """
    ordered = in_order_of_use(wallets)
    use = {wallet.id: ZERO for wallet in ordered}
    budgets: dict[str, Decimal] = {}
    for currency in {key.currency for key in nets}:
        budgets[currency] = max(ZERO, total(net for key, net in nets.items() if key.currency == currency))
    due = [(key, net) for key, net in nets.items() if net > ZERO]
    for key, net in sorted(due, key=lambda pair: (-pair[1], pair[0])):
        uncovered = min(net, budgets[key.currency])
        payers = [
            wallet
            for wallet in ordered
            if wallet.currency == key.currency
            and may_pay_type(wallet, key.fee_type, key.billable_metric_id, key.target_code)
        ]
        for wallet in payers:
            takes_all = wallet is payers[-1] or wallet.id in topped_up
            held = subtract(Decimal(wallet.balance_cents), use[wallet.id])
            part = uncovered if takes_all else min(uncovered, held)
            if part > ZERO:
                use[wallet.id] = add(use[wallet.id], part)
                uncovered = subtract(uncovered, part)
                budgets[key.currency] = subtract(budgets[key.currency], part)
            if takes_all:
                break
    return use


def with_ongoing_usage(wallet: Wallet, use: Decimal, now: datetime) -> Wallet:
    """The wallet with its ongoing values: `use` is the part of the unbilled amounts that it would pay, in cents.

    The same wallet if nothing changes. It is depleted once its ongoing balance is no longer above zero.
    """
    remaining = subtract(Decimal(wallet.balance_cents), use)
    balance = truncate_cents(remaining)
    refreshed = replace(
        wallet,
        ongoing_usage_balance_cents=truncate_cents(use),
        ongoing_balance_cents=balance,
        credits_ongoing_usage_balance=credits_of_cents(use, wallet.rate_amount, wallet.currency),
        credits_ongoing_balance=credits_of_cents(remaining, wallet.rate_amount, wallet.currency),
        depleted_ongoing_balance=balance <= 0,
    )
    return wallet if refreshed == wallet else replace(refreshed, updated_at=now)
