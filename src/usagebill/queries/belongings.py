"""Belongings: every record of a customer, found by walking the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any

from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.payments import Payment
from usagebill.core.running_usage import RunningUsage
from usagebill.core.subscriptions import Subscription
from usagebill.core.wallets import Wallet
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import any_of, eq, within
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.tables import TABLES

# A column with the id of a record that belongs to a customer, and the kinds of that record.
OWNERS: Mapping[str, tuple[type, ...]] = {
    "customer_id": (Customer,),
    "subscription_id": (Subscription,),
    "invoice_id": (Invoice,),
    "credit_note_id": (CreditNote,),
    "payment_id": (Payment,),
    "payment_request_id": (PaymentRequest,),
    "wallet_id": (Wallet,),
    "running_usage_id": (RunningUsage,),
    "subject_id": (Invoice, CreditNote, PaymentReceipt),
}
_OWNING = frozenset(kind for kinds in OWNERS.values() for kind in kinds)
_TOGETHER = 500


def belongings(reader: Reader, customer_ids: Collection[str], kinds: Collection[type] | None = None) -> Iterator[Any]:
    """The customers' records, deleted ones too, and the customers themselves: kind by kind, owners first; of some
    `kinds` only, if requested.
    """
    ids: dict[type, list[str]] = {Customer: [*customer_ids]}
    for table in TABLES:
        if table.kind is Customer:
            if kinds is None or Customer in kinds:
                yield from reader.tx.find(Customer, within("id", [*customer_ids]), deleted=True)
            continue
        if kinds is not None and table.kind not in kinds and table.kind not in _OWNING:
            continue
        columns = OWNERS.keys() & {item.name for item in fields(table.kind)}
        found: dict[str, Any] = {}
        for column in sorted(columns):
            for kind in OWNERS[column]:
                for some in _some_at_a_time(ids.get(kind, ())):
                    record: Any
                    for record in reader.tx.find(table.kind, any_of(within(column, some)), deleted=True):
                        found[record.id] = record
        ids[table.kind] = [*found]
        if kinds is None or table.kind in kinds:
            yield from found.values()


def event_queries(reader: Reader, subscriptions: Collection[Subscription]) -> list[EventQuery]:
    """Queries of the events of these subscriptions, by subscription id and code.

    These are all events of an external id, also those before the start and after the end of the subscription, unless
    others have had a subscription of that id.
    """
    queries: list[EventQuery] = []
    for external_id in dict.fromkeys(subscription.external_id for subscription in subscriptions):
        own = [subscription for subscription in subscriptions if subscription.external_id == external_id]
        is_shared = reader.tx.count(Subscription, eq("external_id", external_id)) > len(own)
        spans = [(item.started_at or item.subscription_at, item.terminated_at) for item in own]
        for _, code in [*reader.tx.events.senders(external_subscription_id=external_id)]:
            for start, end in spans if is_shared else [(None, None)]:
                queries.append(EventQuery(code=code, external_subscription_id=external_id, earliest=start, latest=end))
    return queries


def _some_at_a_time(ids: Collection[str]) -> Iterator[list[str]]:
    left = iter(ids)
    while some := list(islice(left, _TOGETHER)):
        yield some
