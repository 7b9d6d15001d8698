"""Contracts: a subscription with its plan and its parties, looked up in one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.contracts import Contract, Parties
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.subscriptions import Subscription
from usagebill.queries.customers import customer_of, entity_of
from usagebill.queries.subscriptions import find_subscription, plan_of
from usagebill.storage.conditions import desc, eq
from usagebill.work import Reader

__all__ = ["contract_of", "contracts_of", "last_run", "parties_of", "refreshed", "subscription_parties"]


def contract_of(reader: Reader, subscription: Subscription) -> Contract:
    """The subscription with everything that decides how it is billed, as it is now."""
    parties = subscription_parties(reader, subscription)
    return Contract(
        subscription=subscription,
        plan=plan_of(reader, subscription),
        parties=parties,
        zone=ZoneInfo(parties.timezone),
        last_run=None if subscription.started_at is None else last_run(reader, subscription),
    )


def refreshed(reader: Reader, contract: Contract) -> Contract:
    """The contract after the subscription may have been billed."""
    return replace(contract, last_run=last_run(reader, contract.subscription))


def contracts_of(reader: Reader, periods: Iterable[BillingPeriod]) -> list[Contract]:
    """The contracts that an invoice with these billing periods bills, each once, in the order of the periods."""
    ids = dict.fromkeys(period.subscription_id for period in periods)
    subscriptions = (find_subscription(reader, id) for id in ids)
    return [contract_of(reader, subscription) for subscription in subscriptions if subscription is not None]


def last_run(reader: Reader, subscription: Subscription) -> BillingPeriod | None:
    """The billing period of the subscription's latest run, including that of a deleted draft, which is not made
    again."""
    return reader.tx.first(
        BillingPeriod,
        eq("subscription_id", subscription.id),
        eq("recurring", True),
        order=[desc("timestamp")],
    )


def subscription_parties(reader: Reader, subscription: Subscription) -> Parties:
    """Who is invoiced for the subscription, and who invoices: its own billing entity, else the customer's."""
    customer = customer_of(reader, subscription)
    entity = entity_of(reader, customer)
    return Parties(customer=customer, entity=entity, issuer=_entity(reader, subscription.billing_entity_id) or entity)


def parties_of(reader: Reader, invoice: Invoice, contracts: Sequence[Contract] = ()) -> Parties:
    """Who is invoiced and who invoices, deleted or not. `contracts`, of the same customer, are asked first."""
    if contracts:
        known = contracts[0].parties
        if known.issuer.id == invoice.billing_entity_id:
            return known
        customer, entity = known.customer, known.entity
    else:
        customer = customer_of(reader, invoice)
        entity = entity_of(reader, customer)
    issuer = entity if entity.id == invoice.billing_entity_id else _entity(reader, invoice.billing_entity_id)
    if issuer is None:
        raise LookupError(f"invoice {invoice.id} has lost its billing entity")
    return Parties(customer=customer, entity=entity, issuer=issuer)


def _entity(reader: Reader, entity_id: str | None) -> BillingEntity | None:
    return None if entity_id is None else reader.tx.get(BillingEntity, entity_id, deleted=True)
