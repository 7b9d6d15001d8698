"""The events behind an invoice line, looked up again, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from usagebill.core.aggregation import lower_bound
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargePart, charge_parts
from usagebill.core.errors import NotAllowed
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.filters import EventScope
from usagebill.core.invoices.explained import ExplainedEvent
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Charge
from usagebill.core.subscriptions import Subscription
from usagebill.queries.counted_usage import counted_by, period_of_fee
from usagebill.queries.fees import charge_billed, fee_by_id
from usagebill.queries.removed_events import removed_of
from usagebill.rating.handover import own_events
from usagebill.requests.inputs import Paging
from usagebill.runtime.work import Reader
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import Page


def events_of_fee(reader: Reader, fee_id: str, paging: Paging) -> Page[ExplainedEvent]:
    """The events that a usage fee counts, by timestamp: those received before it became final.

    Other fees and true-ups have none. Raises `NotFound`, and `NotAllowed` if they were removed.
    """
    fee = fee_by_id(reader, fee_id)
    if removed_of(reader, fee) is not None:
        raise NotAllowed("events_were_removed")
    reader = reader.as_of(fee.price_version)
    events: Sequence[Event] = ()
    count = 0
    charge = charge_billed(reader, fee)
    metric = reader.tx.get(BillableMetric, fee.billable_metric_id or "", deleted=True)
    first = (paging.page - 1) * paging.per_page
    if charge is None or metric is None or fee.true_up_parent_fee_id is not None:
        return Page(items=[], page=paging.page, per_page=paging.per_page, total_count=0)
    if fee.event_transaction_id is not None:
        named = events_paid_in_advance(reader, fee)
        events, count = named[first : first + paging.per_page], len(named)
    elif question := question_of(reader, fee, metric):
        group_query = replace(question, only={key: (value,) for key, value in fee.grouped_by.items()})
        events = list(islice(reader.tx.events.scan(group_query), first, first + paging.per_page))
        count = sum(tally.events_count for tally in reader.tx.events.tallies(group_query).values())
    items = [ExplainedEvent(event=event, metric=metric, charge=charge) for event in events]
    return Page(items=items, page=paging.page, per_page=paging.per_page, total_count=count)


def part_of(fee: Fee, charge: Charge, metric: BillableMetric) -> ChargePart | None:
    """The part of `charge` that the fee bills; None if its filter is gone."""
    parts = charge_parts(charge, metric)
    return next((part for part in parts if (part.filter.id if part.filter else None) == fee.charge_filter_id), None)


def events_paid_in_advance(reader: Reader, fee: Fee) -> list[Event]:
    """The event that the fee was charged for in advance."""
    if fee.external_subscription_id is None or fee.event_transaction_id is None:
        return []
    return reader.tx.events.named(fee.external_subscription_id, [fee.event_transaction_id])


def question_of(reader: Reader, fee: Fee, metric: BillableMetric) -> EventQuery | None:
    """The query for the events of the fee's period and filter, in all groups; None for a fee without a period.

    They are those that its billing period counted, with the charge, filters and metric as they were then.
    """
    external_id, start = fee.external_subscription_id, fee.charges_from_datetime
    period = period_of_fee(reader, fee)
    invoice = None if period is None else reader.tx.get(Invoice, period.invoice_id)
    if external_id is None or start is None or period is None or invoice is None:
        return None
    counted = counted_by(reader, period, invoice)
    charge = next((charge for charge in counted.charges if charge.id == fee.charge_id), None)
    scope = None if charge is None else charge.scope(fee.charge_filter_id)
    is_standalone = fee.pay_in_advance and not fee.invoiceable
    question = EventQuery(
        code=metric.code if charge is None else charge.code,
        external_subscription_id=external_id,
        earliest=lower_bound(
            metric.aggregation_type if charge is None else charge.aggregation_type,
            recurring=metric.recurring if charge is None else charge.recurring,
            start=start,
        ),
        latest=fee.charges_to_datetime,
        known_at=fee.created_at if is_standalone else counted.known_at,
        bucket=EventScope(matches=fee.filters or {}) if scope is None else scope,
    )
    subscription = reader.tx.get(Subscription, fee.subscription_id) if fee.subscription_id else None
    return question if subscription is None else own_events(reader, subscription, metric, question)
