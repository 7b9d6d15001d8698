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
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import desc, eq


def contract_of(reader: Reader, subscription: Subscription) -> Contract:
    """The subscription with everything that decides how it is billed now."""
    run = None if subscription.started_at is None else last_run(reader, subscription)
    return replace(contract_now(reader, subscription), last_run=run)


def contract_now(reader: Reader, subscription: Subscription) -> Contract:
    """The contract without the last run, which does not matter to what is current or to come."""
    parties = subscription_parties(reader, subscription)
    return Contract(
        subscription=subscription,
        plan=plan_of(reader, subscription),
        parties=parties,
        zone=ZoneInfo(parties.timezone),
    )


def refreshed(reader: Reader, contract: Contract) -> Contract:
    """The contract with its last run looked up again, as the subscription may have been billed since."""
    return replace(contract, last_run=last_run(reader, contract.subscription))


def contracts_of(reader: Reader, periods: Iterable[BillingPeriod]) -> list[Contract]:
    """The contracts billed by these billing periods, without repeats, in the order of the periods."""
    ids = dict.fromkeys(period.subscription_id for period in periods)
    subscriptions = (find_subscription(reader, id) for id in ids)
    return [contract_of(reader, subscription) for subscription in subscriptions if subscription is not None]


def last_run(reader: Reader, subscription: Subscription) -> BillingPeriod | None:
    """The billing period of the subscription's latest run, even if its draft was deleted: that is not billed again."""
    return reader.tx.first(
        BillingPeriod,
        eq("subscription_id", subscription.id),
        eq("recurring", True),
        order=[desc("timestamp")],
    )


def subscription_parties(reader: Reader, subscription: Subscription) -> Parties:
    """The parties of the subscription's invoices; the issuer is its own billing entity, else the customer's."""
    customer = customer_of(reader, subscription)
    entity = entity_of(reader, customer)
    return Parties(customer=customer, entity=entity, issuer=_entity(reader, subscription.billing_entity_id) or entity)


def parties_of(reader: Reader, invoice: Invoice, contracts: Sequence[Contract] = ()) -> Parties:
    """The parties of the invoice, deleted or not; taken from `contracts` (of the same customer) if these have them."""
    if contracts:
        parties = contracts[0].parties
        if parties.issuer.id == invoice.billing_entity_id:
            return parties
        customer, entity = parties.customer, parties.entity
    else:
        customer = customer_of(reader, invoice)
        entity = entity_of(reader, customer)
    issuer = entity if entity.id == invoice.billing_entity_id else _entity(reader, invoice.billing_entity_id)
    if issuer is None:
        raise LookupError(f"invoice {invoice.id} has lost its billing entity")
    return Parties(customer=customer, entity=entity, issuer=issuer)


def _entity(reader: Reader, entity_id: str | None) -> BillingEntity | None:
    return None if entity_id is None else reader.tx.get(BillingEntity, entity_id, deleted=True)
