"""The subscriptions that share an invoice, and the fees paid one by one that do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from usagebill.core.contracts import Contract
from usagebill.core.fees import Fee
from usagebill.core.subscriptions import Subscription


def sharing(contracts: Iterable[Contract], *, succeeding: bool = False) -> list[list[Contract]]:
    """The subscriptions of a customer grouped by the invoices that they share, in their given order.

    An invoice has one currency, billing entity and purchase order. In a run it also has one payment method, and a
    subscription that is not to be consolidated has an invoice of its own. With `succeeding`, the subscriptions follow
    each other in one plan change: to the customer they are the same one, so neither of these two rules splits them.
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


def sharing_fees(fees: Iterable[Fee], owners: Mapping[str, Subscription]) -> dict[tuple[str | None, str], list[Fee]]:
    """Fees paid one by one, grouped by the invoices that they share: by purchase order and currency, in their given
    order.

    `owners` are the subscriptions of the fees, by id.
    """
    invoices: dict[tuple[str | None, str], list[Fee]] = {}
    for fee in fees:
        order = owners[fee.subscription_id or ""].purchase_order_number
        invoices.setdefault((order, fee.currency), []).append(fee)
    return invoices
