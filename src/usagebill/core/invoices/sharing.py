"""Which subscriptions share an invoice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from usagebill.core.subscriptions import Subscription

__all__ = ["Billable", "sharing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Billable:
    """A subscription to be billed, with the currency of its plan and the billing entity that invoices it."""

    subscription: Subscription
    currency: str
    billing_entity_id: str


def sharing(billables: Iterable[Billable], *, succeeding: bool = False) -> list[list[Subscription]]:
    """The subscriptions of a customer by the invoices that they share, in the order they come.

    An invoice has one currency, billing entity and purchase order. In a run it also has one payment method, and a
    subscription that is not to be consolidated has an invoice of its own. With `succeeding`, the subscriptions follow
    each other in one change of plan: to the customer they are the same one, so neither of these two splits them.
    """
    invoices: dict[tuple[object, ...], list[Subscription]] = {}
    for billable in billables:
        subscription = billable.subscription
        key: tuple[object, ...] = (
            billable.currency,
            billable.billing_entity_id,
            subscription.purchase_order_number,
        )
        if not succeeding:
            alone = None if subscription.consolidate_invoice else subscription.id
            key += (subscription.payment_method_type, subscription.payment_method_id, alone)
        invoices.setdefault(key, []).append(subscription)
    return list(invoices.values())
