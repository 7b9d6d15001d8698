"""What the billing runs of many customers read, read at once."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.coupons import AppliedCoupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.plans import FixedChargeUnits
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.wallets import Wallet
from usagebill.storage.conditions import eq, within
from usagebill.storage.ports import Snapshot

# A longer history of a subscription is asked for question by question.
_MOST_PERIODS = 16
_MOST_FEES = 16


def preload(tx: Snapshot, customer_ids: Sequence[str]) -> None:
    """Read what the next runs of these customers will ask for, one query a kind; each then asks the transaction.

    `tests/test_preloading.py` fails while a run asks for a record alone.
    """
    for kind in (AppliedCoupon, CreditNote, Wallet, Subscription):
        tx.preload(kind, "customer_id", customer_ids)
    tx.find(Customer, within("id", customer_ids), deleted=True)
    running = tx.find(Subscription, within("customer_id", customer_ids), eq("status", SubscriptionStatus.ACTIVE))
    ids = [subscription.id for subscription in running]
    tx.preload(Subscription, "previous_subscription_id", ids)
    tx.preload(Subscription, "external_id", list(dict.fromkeys(subscription.external_id for subscription in running)))
    tx.preload(FixedChargeUnits, "subscription_id", ids)
    tx.preload(BillingPeriod, "subscription_id", ids, at_most=_MOST_PERIODS)
    tx.preload(Fee, "subscription_id", ids, eq("fee_type", FeeType.SUBSCRIPTION), at_most=_MOST_FEES)
    # Of the invoices that these runs make.
    tx.preload(CreditNote, "invoice_id", [])
