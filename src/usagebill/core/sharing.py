"""Which subscriptions share an invoice."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.contracts import Contract

__all__ = ["sharing"]


def sharing(contracts: Iterable[Contract], *, succeeding: bool = False) -> list[list[Contract]]:
    """The subscriptions of a customer by the invoices that they share, in the order they come.

    An invoice has one currency, billing entity and purchase order. In a run it also has one payment method, and a
    subscription that is not to be consolidated has an invoice of its own. With `succeeding`, the subscriptions follow
    each other in one change of plan: to the customer they are the same one, so neither of these two splits them.
    """
    invoices: dict[tuple[object, ...], list[Contract]] = {}
    for contract in contracts:
        subscription = contract.subscription
        key: tuple[object, ...] = (
            contract.plan.amount_currency,
            contract.parties.issuer.id,
            subscription.purchase_order_number,
        )
        if not succeeding:
            alone = None if subscription.consolidate_invoice else subscription.id
            key += (subscription.payment_method_type, subscription.payment_method_id, alone)
        invoices.setdefault(key, []).append(contract)
    return list(invoices.values())
