"""The one currency of a customer: that of the first thing it gets, and of all that follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from usagebill.core.coupons import AppliedCoupon, CouponStatus
from usagebill.core.credit_notes import CreditNote, CreditStatus
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.subscriptions import HOLDING_ID, Subscription
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.queries.subscriptions import plan_of
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, within


def check_currency(customer: Customer, currency: str) -> None:
    """Raises `Invalid` for a currency that is not the customer's, if it has one: what is billed in one currency is
    never paid by a wallet, coupon or credit note in another.
    """
    if customer.currency is not None and customer.currency != currency:
        reason = f"{currency} is not the currency of customer {customer.external_id!r}, which is {customer.currency}"
        raise Invalid(currency="currencies_does_not_match", reasons={"currency": reason})


def bill_in(work: Work, customer: Customer, currency: str) -> Customer:
    """The customer, billed in `currency` from now on: one without a currency takes it. Raises `Invalid`."""
    check_currency(customer, currency)
    if customer.currency is not None:
        return customer
    changed = replace(customer, currency=currency, updated_at=work.now)
    work.tx.replace(changed)
    return changed


def with_kept_currency(reader: Reader, before: Customer, after: Customer) -> Customer:
    """The changed customer. Raises `Invalid` if it changes its currency while it has something in another one.

    Clients send null for every field that they do not set: while something is in the currency, null leaves it.
    """
    if after.currency == before.currency:
        return after
    held = next((what for what, currency in _held(reader, before) if currency != after.currency), None)
    if held is None:
        return after
    if after.currency is None:
        return replace(after, currency=before.currency)
    reason = f"customer {before.external_id!r} has {held}, which is not in {after.currency}"
    raise Invalid(currency="currency_not_editable", reasons={"currency": reason})


def _held(reader: Reader, customer: Customer) -> Iterator[tuple[str, str]]:
    """What still bills or pays, and its currency."""
    of_customer = eq("customer_id", customer.id)
    for subscription in reader.tx.find(Subscription, of_customer, within("status", HOLDING_ID)):
        yield f"subscription {subscription.external_id!r}", plan_of(reader, subscription).amount_currency
    for wallet in reader.tx.find(Wallet, of_customer, eq("status", WalletStatus.ACTIVE)):
        yield f"wallet {wallet.code!r}", wallet.currency
    for applied in reader.tx.find(AppliedCoupon, of_customer, eq("status", CouponStatus.ACTIVE)):
        if applied.amount_currency is not None:
            yield "a coupon of a fixed amount", applied.amount_currency
    for note in reader.tx.find(CreditNote, of_customer, eq("credit_status", CreditStatus.AVAILABLE)):
        if note.balance_amount_cents:
            yield f"credit note {note.number}", note.currency
