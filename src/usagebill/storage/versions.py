"""Versions: a number for each customer, and one for what all customers share, such as plans and taxes.

Each commit raises those whose records it has written, so what was computed on a snapshot holds while they are the same.
They are sequences of the organization.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.api_logs import ApiLog
from usagebill.core.customers import Customer
from usagebill.core.documents.files import Document
from usagebill.core.event_shipments import EventShipment
from usagebill.core.event_sources import EventSource, RefusedEvent
from usagebill.core.holds import Hold
from usagebill.core.idempotency import IdempotentAnswer
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.payments import ProviderNotice
from usagebill.core.running_usage import RunningFront, RunningUsage, RunningValue
from usagebill.core.security_logs import SecurityLog
from usagebill.core.spend_limits import ReachedLimit
from usagebill.core.subscriptions import Subscription
from usagebill.core.usage_ceiling import NewUsage, UsageCount
from usagebill.core.users import User, UserSession
from usagebill.core.wallets import Wallet
from usagebill.core.webhooks import WebhookEndpoint, WebhookMessage
from usagebill.storage.ports import Snapshot

# The version of a customer, and that of what all share.
Versions = tuple[int, int]

SHARED = "version"
# The sequence that counts changes of an organization's entitlements.
ENTITLEMENTS = "entitlements"
# No result depends on logs, on what is sent where, on answers kept for repeated requests, on who signs in, on
# holds, which reserve and bill nothing, on limits that were told to be reached, or on counts of events that are kept to
# save a recount.
_BESIDE = frozenset(
    {
        *(
            ActivityLog,
            ApiLog,
            SecurityLog,
            WebhookEndpoint,
            WebhookMessage,
            IdempotentAnswer,
            Document,
            ProviderNotice,
        ),
        *(EventShipment, EventSource, RefusedEvent, User, UserSession),
        *(Hold, ReachedLimit, NewUsage, UsageCount, RunningFront, RunningUsage, RunningValue),
    }
)
# Whose customer a record without one of its own is of.
_PARENTS: tuple[tuple[str, type], ...] = (
    ("subscription_id", Subscription),
    ("invoice_id", Invoice),
    ("wallet_id", Wallet),
    ("payment_request_id", PaymentRequest),
)


def series_of(customer_id: str) -> str:
    """The sequence of a customer's version."""
    return f"{SHARED}/{customer_id}"


def versions_of(tx: Snapshot, customer_id: str) -> Versions:
    """The versions of the customer, and of what all customers share, as of the last commit."""
    own, shared = tx.last_numbers(series_of(customer_id), SHARED)
    return own, shared


@cache
def _parent(kind: Any) -> tuple[str, type] | None:
    names = {item.name for item in fields(kind)}
    return next((parent for parent in _PARENTS if parent[0] in names), None)


def entitlements_version(tx: Snapshot) -> int:
    """A number that changes with every record that determines the entitlements of the organization's subscriptions
    (`Table.entitles`); 0 before the first change.
    """
    return tx.last_numbers(ENTITLEMENTS)[0]


def raised_by(record: Any, get: Callable[[type, str], Any]) -> str | None:
    """The sequence that a write of the record raises, if any; `get` looks up what it belongs to."""
    kind: Any = type(record)
    if kind in _BESIDE:
        return None
    if kind is Customer:
        return series_of(record.id)
    customer_id = getattr(record, "customer_id", None)
    if customer_id is None:
        parent = _parent(kind)
        id = None if parent is None else getattr(record, parent[0])
        owner = None if parent is None or id is None else get(parent[1], id)
        customer_id = None if owner is None else owner.customer_id
    return SHARED if customer_id is None else series_of(customer_id)
