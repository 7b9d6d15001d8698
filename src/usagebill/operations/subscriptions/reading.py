"""Subscriptions by external id and status, and lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.errors import NotFound
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.operations.subscriptions.inputs import StatusOptions, SubscriptionFilters
from usagebill.requests.inputs import Paging
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import (
    Condition,
    all_of,
    any_of,
    desc,
    eq,
    missing,
    present,
    related,
    within,
)
from usagebill.storage.ports import Page

_STATUSES = frozenset(SubscriptionStatus)


def find_by_external_id(reader: Reader, external_id: str, *statuses: str) -> list[Subscription]:
    """Subscriptions with this external id and one of `statuses` (by default any), the most likely first: those that
    have not ended, then by end and start, latest first.
    """
    conditions: list[Condition] = [eq("external_id", external_id)]
    if statuses:
        conditions.append(within("status", statuses))
    subscriptions = reader.tx.find(
        Subscription, *conditions, order=[desc("started_at"), desc("created_at"), desc("id")]
    )
    ended = sorted(
        (subscription for subscription in subscriptions if subscription.terminated_at is not None),
        key=lambda subscription: subscription.terminated_at or subscription.created_at,
        reverse=True,
    )
    return [subscription for subscription in subscriptions if subscription.terminated_at is None] + ended


def get_of_status(reader: Reader, external_id: str, status: object = None) -> Subscription:
    """The subscription with this external id and status (by default active); of several phases to come the
    next. Raises `NotFound`.
    """
    wanted_status = status if isinstance(status, str) and status in _STATUSES else SubscriptionStatus.ACTIVE
    by_external_id = find_by_external_id(reader, external_id, wanted_status)
    if not by_external_id:
        raise NotFound("subscription", external_id)
    if wanted_status == SubscriptionStatus.PENDING:
        return min(by_external_id, key=lambda pending: pending.phase_from or date.min)
    return by_external_id[0]


def get(reader: Reader, external_id: str, options: StatusOptions) -> Subscription:
    """The subscription with this external id and status. Raises `NotFound`."""
    return get_of_status(reader, external_id, options.status)


def list_all(reader: Reader, options: SubscriptionFilters, paging: Paging) -> Page[Subscription]:
    """Subscriptions, latest `subscription_at` first. Raises `NotFound` for an unknown billing entity code."""
    conditions = _conditions(reader, options)
    if options.external_customer_id:
        conditions.append(related(Customer, "customer_id", eq("external_id", options.external_customer_id)))
    return reader.page(Subscription, *conditions, paging=paging, order=_ORDER)


def list_of_customer(
    reader: Reader, external_customer_id: str, options: SubscriptionFilters, paging: Paging
) -> Page[Subscription]:
    """The subscriptions of one customer. Raises `NotFound` for an unknown customer."""
    customer = reader.tx.first(Customer, eq("external_id", external_customer_id))
    if customer is None:
        raise NotFound("customer", external_customer_id)
    conditions = [*_conditions(reader, options), eq("customer_id", customer.id)]
    return reader.page(Subscription, *conditions, paging=paging, order=_ORDER)


_ORDER = (desc("subscription_at"), desc("created_at"))


def _conditions(reader: Reader, options: SubscriptionFilters) -> list[Condition]:
    conditions: list[Condition] = []
    statuses: Sequence[str] = options.status or ()
    if not statuses:
        conditions.append(eq("status", SubscriptionStatus.ACTIVE))
    elif all(status in _STATUSES for status in statuses):
        conditions.append(within("status", statuses))
    if options.external_id:
        conditions.append(eq("external_id", options.external_id))
    if options.plan_code:
        conditions.append(related(Plan, "plan_id", eq("code", options.plan_code)))
    if options.currency:
        conditions.append(related(Plan, "plan_id", eq("amount_currency", options.currency.upper())))
    overridden = options.overridden if isinstance(options.overridden, bool) else options.overriden
    if isinstance(overridden, bool):
        conditions.append(related(Plan, "plan_id", present("parent_id") if overridden else missing("parent_id")))
    if options.billing_entity_codes:
        conditions.append(_issued_by(reader, options.billing_entity_codes))
    return conditions


def _issued_by(reader: Reader, codes: Sequence[str]) -> Condition:
    entities = reader.tx.find(BillingEntity, within("code", codes))
    if {entity.code for entity in entities} != set(codes):
        known = {entity.code for entity in entities}
        raise NotFound("billing_entity", next(code for code in codes if code not in known))
    ids = [entity.id for entity in entities]
    return any_of(
        within("billing_entity_id", ids),
        all_of(missing("billing_entity_id"), related(Customer, "customer_id", within("billing_entity_id", ids))),
    )
