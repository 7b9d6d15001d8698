"""Wallets: prepaid credits of a customer, their worth in money, and the changes of balances.

A wallet has two balances that change in parallel: `credits_balance` by the credits of each transaction, `balance_cents`
by its money. Rounding makes them differ by fractions of a cent; the money pays for invoices.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from usagebill.core.copies import replace
from usagebill.core.currencies import major_from_cents, rounded_cents
from usagebill.core.fees import Fee, FeeType
from usagebill.core.grouping import target_wallet_code
from usagebill.core.life_cycles import following
from usagebill.core.metadata import Metadata
from usagebill.core.numbers import ZERO, add, divide, floor_to, multiply, round_to, subtract
from usagebill.core.payment_methods import PaymentMethodChoice

# The decimals of credits, and of a wallet's rate.
CREDIT_DECIMALS = 5
MOST_ACTIVE_WALLETS = 6
# The priority of wallets and transactions: 1 is used first.
LOWEST_PRIORITY = 50
# Types of fees that a wallet can be limited to, besides the charges of some metrics.
FEE_TYPES = ("charge", "add_on", "subscription", "credit", "commitment", "fixed_charge", "product")


class WalletStatus(StrEnum):
    """The state of a wallet."""

    ACTIVE = "active"
    TERMINATED = "terminated"


class WalletEvent(StrEnum):
    """Events that change its status."""

    TERMINATE = "terminate"


# A terminated wallet keeps its balance, and is never active again.
TRANSITIONS: Mapping[tuple[WalletStatus, WalletEvent], WalletStatus] = {
    (WalletStatus.ACTIVE, WalletEvent.TERMINATE): WalletStatus.TERMINATED,
}


def transition(status: WalletStatus, event: WalletEvent) -> WalletStatus:
    """The status that follows `event`; raises `TransitionError` if `TRANSITIONS` has none."""
    return following(TRANSITIONS, status, event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wallet:
    """Prepaid credits of a customer, each worth `rate_amount` major units of `currency`.

    `balance_cents` always equals the sum of its settled inbound transactions' `remaining_amount_cents`, and is never
    below zero. `consumed_credits` are all credits that went out, less those given back. The `ongoing` values are those
    after billing usage so far, as of the last refresh; they may be negative.

    `fee_types` and `billable_metric_ids` limit what it pays for; if both are empty, it pays for everything.
    `billing_entity_id` null means the customer's. `expiration_at` is the first instant at which it is no longer used.
    """

    id: str
    organization_id: str
    customer_id: str
    code: str
    currency: str
    rate_amount: Decimal
    created_at: datetime
    updated_at: datetime
    name: str | None = None
    status: WalletStatus = WalletStatus.ACTIVE
    priority: int = LOWEST_PRIORITY
    billing_entity_id: str | None = None
    purchase_order_number: str | None = None
    balance_cents: int = 0
    credits_balance: Decimal = ZERO
    consumed_credits: Decimal = ZERO
    ongoing_balance_cents: int = 0
    ongoing_usage_balance_cents: int = 0
    credits_ongoing_balance: Decimal = ZERO
    credits_ongoing_usage_balance: Decimal = ZERO
    depleted_ongoing_balance: bool = False
    expiration_at: datetime | None = None
    terminated_at: datetime | None = None
    # When the balance last changed, and when it last decreased.
    last_balance_sync_at: datetime | None = None
    last_consumed_credit_at: datetime | None = None
    invoice_requires_successful_payment: bool = False
    paid_top_up_min_amount_cents: int | None = None
    paid_top_up_max_amount_cents: int | None = None
    fee_types: tuple[str, ...] = ()
    billable_metric_ids: tuple[str, ...] = ()
    metadata: Metadata | None = None
    payment_method: PaymentMethodChoice | None = None
    skip_invoice_custom_sections: bool = False
    invoice_custom_section_ids: tuple[str, ...] = ()
    # Whether usage that its customer's credits cannot pay is refused, where callers ask before it happens.
    hard_stop: bool = False


def floored_credits(credits: Decimal) -> Decimal:
    """Credits as stored: cut to five decimals."""
    return floor_to(credits, CREDIT_DECIMALS)


def cents_of_credits(credits: Decimal, rate: Decimal, currency: str) -> int:
    """The value of credits in whole cents, half away from zero."""
    return rounded_cents(multiply(credits, rate), currency)


def exact_credits(cents: Decimal | int, rate: Decimal, currency: str) -> Decimal:
    """The credits equal to an amount in (fractions of) cents, unrounded."""
    return divide(major_from_cents(cents, currency), rate)


def credits_of_cents(cents: Decimal | int, rate: Decimal, currency: str) -> Decimal:
    """The credits equal to an amount in (fractions of) cents, with five decimals, half away from zero."""
    return round_to(exact_credits(cents, rate, currency), CREDIT_DECIMALS)


def whole_cent_credits(credits: Decimal, rate: Decimal, currency: str) -> tuple[int, Decimal]:
    """The price of a top-up of `credits` in whole cents, and the credits that price is worth.

    Nobody buys or is granted a fraction of a cent: 4.399999 credits of 0.01 EUR are 4 cents, and so 4 credits.
    """
    cents = cents_of_credits(floored_credits(credits), rate, currency)
    return cents, credits_of_cents(cents, rate, currency)


def taken_credits(wallet: Wallet, cents: int) -> Decimal:
    """The credits a wallet loses when it pays `cents`, at most those it has: rounding never overdraws it."""
    return min(credits_of_cents(cents, wallet.rate_amount, wallet.currency), wallet.credits_balance)


def increased(wallet: Wallet, cents: int, credits: Decimal, now: datetime) -> Wallet:
    """The wallet after credits came in."""
    return replace(
        wallet,
        balance_cents=wallet.balance_cents + cents,
        credits_balance=add(wallet.credits_balance, credits),
        last_balance_sync_at=now,
        updated_at=now,
    )


def given_back(wallet: Wallet, cents: int, credits: Decimal, now: datetime) -> Wallet:
    """The wallet after credits that an invoice had consumed came back."""
    consumed = max(ZERO, subtract(wallet.consumed_credits, credits))
    return replace(increased(wallet, cents, credits, now), consumed_credits=consumed)


def decreased(wallet: Wallet, cents: int, credits: Decimal, now: datetime) -> Wallet:
    """The wallet after credits went out. Raises `ValueError` if it has fewer: callers check before."""
    if cents > wallet.balance_cents or credits > wallet.credits_balance:
        raise ValueError(f"wallet {wallet.id} does not hold {cents} cents and {credits} credits")
    return replace(
        wallet,
        balance_cents=wallet.balance_cents - cents,
        credits_balance=subtract(wallet.credits_balance, credits),
        consumed_credits=add(wallet.consumed_credits, credits),
        last_balance_sync_at=now,
        last_consumed_credit_at=now,
        updated_at=now,
    )


def terminated(wallet: Wallet, now: datetime) -> Wallet:
    """The wallet as terminated, by request or because it expired. Its balance stays, and is no longer used."""
    status = transition(wallet.status, WalletEvent.TERMINATE)
    return replace(wallet, status=status, terminated_at=now, updated_at=now)


def in_order_of_use(wallets: Iterable[Wallet]) -> list[Wallet]:
    """The wallets in the order in which they pay: by priority, then oldest first."""
    return sorted(wallets, key=lambda wallet: (wallet.priority, wallet.created_at, wallet.id))


def may_pay(wallet: Wallet, fee: Fee) -> bool:
    """Whether the wallet pays for the fee: the fee's events named this wallet, or they named none and it is unlimited,
    or limited to the fee's type or its metric.
    """
    return may_pay_type(wallet, fee.fee_type, fee.billable_metric_id, target_of(fee))


def target_of(fee: Fee) -> str:
    """The code of the only wallet that may pay for the fee, as named by its events; empty if any wallet may."""
    return target_wallet_code(fee.grouped_by) if fee.fee_type == FeeType.CHARGE else ""


def may_pay_type(wallet: Wallet, fee_type: str, billable_metric_id: str | None, target_code: str = "") -> bool:
    """Whether the wallet pays for fees of this type and, for usage, of this metric.

    Usage for the wallet with `target_code` is paid by that wallet, whatever its limits, and by no other.
    """
    if target_code:
        return wallet.code == target_code
    if not wallet.fee_types and not wallet.billable_metric_ids:
        return True
    if fee_type in wallet.fee_types:
        return True
    return fee_type == FeeType.CHARGE and billable_metric_id in wallet.billable_metric_ids


def is_priority(number: int) -> bool:
    """Whether it is a valid priority of wallets and transactions, 1 to 50."""
    return 1 <= number <= LOWEST_PRIORITY


_RUN = re.compile(r"[^a-z0-9_-]+")


def code_of_name(name: str | None) -> str:
    """The code of a wallet that was sent without one: its name in plain lower case letters, `default` if nothing is
    left.
    """
    decomposed = unicodedata.normalize("NFKD", (name or "").lower())
    plain = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return _RUN.sub("_", plain).strip("_") or "default"
