"""Unbilled events: which stretches of time bill the events of an external subscription id and code, and why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from usagebill.core.aggregation import counts_history
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.counted_usage import CountedUsage
from usagebill.core.events import Event
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import WHOLE_REASONS, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.near_names import near_name
from usagebill.core.periods import Succession
from usagebill.core.plans import Charge, Plan
from usagebill.core.pricing import MODELS
from usagebill.core.subscriptions import (
    ACTIVATED,
    Subscription,
    begins_at,
    bills_at_once_since,
    known_since,
    subscription_at,
)
from usagebill.core.unbilled import (
    Advance,
    Closing,
    Reason,
    Service,
    Stretch,
    UnbilledEvent,
    amount_reason,
    closes_usage,
    is_uncounted,
    message_of,
    open_from,
    property_reason,
    stretch_at,
    stretches_of,
    undone,
    without_overlaps,
)
from usagebill.queries.billing_periods import cycle_at, running_boundaries
from usagebill.queries.contracts import contract_of
from usagebill.queries.counted_usage import counted_by
from usagebill.queries.past_starts import caught_up_from
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import paid_in_advance_until
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, asc, desc, eq, ne, present, related, within
from usagebill.storage.event_queries import EventRange

# Near names are suggested only if there are at most this many to compare.
_NAMES = 2000
# The most late events of a recurring metric, of one subscription, that are looked through.
_LATE = 10_000
# Clocks differ: an event that is no further ahead than this is no finding.
_AHEAD = timedelta(minutes=5)


def metric_by_code(reader: Reader, code: str) -> BillableMetric | None:
    """The live metric with this code."""
    return reader.cached(("metric by code", code), lambda: reader.tx.first(BillableMetric, eq("code", code)))


def stretches(reader: Reader, external_subscription_id: str | None, code: str) -> list[Stretch]:
    """All of time as stretches, in order, in which events of this external id and code are billed or not."""
    return reader.cached(
        ("stretches", external_subscription_id, code), lambda: _stretches(reader, external_subscription_id, code)
    )


def _stretches(reader: Reader, external_subscription_id: str | None, code: str) -> list[Stretch]:
    if external_subscription_id is None:
        return [Stretch(Reason.SUBSCRIPTION_MISSING)]
    services = _services(reader, external_subscription_id, code)
    if not services and _subscriptions(reader, external_subscription_id):
        # Pending, or waiting for a payment.
        return [Stretch(Reason.SUBSCRIPTION_NOT_ACTIVE)]
    return stretches_of(services, metric_by_code(reader, code))


def _services(reader: Reader, external_subscription_id: str, code: str) -> list[Service]:
    metric = metric_by_code(reader, code)
    return [
        _service(reader, subscription, code, metric)
        for subscription in _subscriptions(reader, external_subscription_id)
        if _is_served(subscription)
    ]


def undone_events(reader: Reader, external_subscription_id: str | None, code: str) -> list[Event]:
    """The events of a recurring metric that came too late for their period, and leave nothing for a later one."""
    metric = metric_by_code(reader, code)
    if external_subscription_id is None or metric is None:
        return []
    if not counts_history(metric.aggregation_type, recurring=metric.recurring):
        return []
    services = [one for one in _services(reader, external_subscription_id, code) if not one.advance]
    # What came after the bill of an end is unbilled in any case.
    over = all(one.end is not None for one in services)
    closings = [closing for one in services for closing in one.closings if closing.is_counted]
    last = max((closing.counted_at for closing in closings), default=None)
    late = [
        EventRange(
            external_subscription_id=external_subscription_id,
            code=code,
            earliest=closing.earliest,
            latest=closing.latest,
            received_from=closing.counted_at + MICROSECOND,
            received_before=last + MICROSECOND if over and last is not None else None,
        )
        for closing in closings
    ]
    return undone(metric, closings, (event for _, event in reader.tx.events.in_ranges(late, limit=_LATE)))


def _subscriptions(reader: Reader, external_subscription_id: str) -> list[Subscription]:
    return reader.cached(
        ("subscriptions by external id", external_subscription_id),
        lambda: reader.tx.find(Subscription, eq("external_id", external_subscription_id)),
    )


def _is_served(subscription: Subscription) -> bool:
    return subscription.started_at is not None and subscription.status in ACTIVATED


def _service(reader: Reader, subscription: Subscription, code: str, metric: BillableMetric | None) -> Service:
    started_at = subscription.started_at or subscription.created_at
    charges = [] if metric is None else _charges(reader, subscription.plan_id, metric)
    is_charged = any(not charge.pay_in_advance for charge in charges)
    advance = _in_advance(reader, subscription, code)
    is_level = metric is not None and counts_history(metric.aggregation_type, recurring=metric.recurring)
    free_from = _free_from(reader, subscription) if is_level and not advance else None
    return Service(
        start=begins_at(subscription) or started_at,
        end=_end(reader, subscription) if free_from is None else free_from - MICROSECOND,
        is_charged=is_charged,
        by_event_prices=any(_takes_event_prices(charge) and not charge.pay_in_advance for charge in charges),
        closed_before=_billing_from(reader, subscription) if is_charged else None,
        advance=advance,
        opened_at=_opened_at(subscription, advance) if is_level else None,
        billed_before=_billed_before(reader, subscription, code),
        excluded_before=None
        if metric is None or metric.recurring
        else paid_in_advance_until(reader, subscription, metric),
        ahead_from=reader.now + _AHEAD,
        closings=without_overlaps(
            closing._replace(
                is_counted=counted.in_arrears(code) is not None,
                by_event_prices=_counted_by_event_prices(reader, counted, code),
                is_renewed=is_level and counted.renews(code),
            )
            for closing, counted in reader.cached(
                ("closings", subscription.id), lambda: list(_closings(reader, subscription))
            )
        ),
    )


def _takes_event_prices(charge: Charge) -> bool:
    return MODELS[charge.charge_model].by_event_prices


def _counted_by_event_prices(reader: Reader, counted: CountedUsage, code: str) -> bool:
    """Whether a charge in arrears that counted this code took its price from the events."""
    ids = sorted(its.id for its in counted.charges if its.code == code and not its.pay_in_advance)
    if not ids:
        return False
    charges = reader.cached(("counted charges", *ids), lambda: reader.tx.find(Charge, within("id", ids), deleted=True))
    return any(map(_takes_event_prices, charges))


def _end(reader: Reader, subscription: Subscription) -> datetime | None:
    """The last instant that is the subscription's: before a downgrade that of the last day, not of the run."""
    if subscription.succession == Succession.DOWNGRADE:
        for other in _subscriptions(reader, subscription.external_id):
            if other.previous_subscription_id == subscription.id and other.billed_from is not None:
                return other.billed_from - MICROSECOND
    return subscription.terminated_at


def _free_from(reader: Reader, subscription: Subscription) -> datetime | None:
    """The midnight from which the day of the subscription's end is free but for what was used (`last_day_from`); no
    level is billed for it.
    """
    if subscription.terminated_at is None:
        return None
    last = reader.cached(
        ("period of the end", subscription.id),
        lambda: reader.tx.first(
            BillingPeriod,
            eq("subscription_id", subscription.id),
            eq("invoicing_reason", InvoicingReason.TERMINATING),
            order=[asc("created_at"), asc("id")],
        ),
    )
    return None if last is None else last.last_day_from


def _charges(reader: Reader, plan_id: str, metric: BillableMetric) -> list[Charge]:
    return [charge for charge in plan_definition(reader, plan_id).charges if charge.billable_metric_id == metric.id]


def _in_advance(reader: Reader, subscription: Subscription, code: str) -> tuple[Advance, ...]:
    """The times in which events of the subscription with this code had fees when they came.

    An override takes over from the plan that it was made of. What came at the very instant of a change came before it.
    """
    begun = bills_at_once_since(subscription)
    plan = reader.tx.get(Plan, subscription.plan_id, deleted=True)
    plans: list[tuple[str, datetime | None]] = [(subscription.plan_id, None)]
    if plan is not None and plan.parent_id is not None and plan.created_at > begun:
        plans.append((plan.parent_id, plan.created_at))
    times = []
    for plan_id, replaced_at in plans:
        charges = reader.tx.find(Charge, eq("plan_id", plan_id), eq("pay_in_advance", True), deleted=True)
        for charge in charges:
            metric = reader.tx.get(BillableMetric, charge.billable_metric_id, deleted=True)
            if metric is None or metric.code != code:
                continue
            if charge.deleted_at is not None and charge.deleted_at < known_since(subscription):
                continue  # It was gone when the first events of the subscription were billed.
            added = max(metric.created_at, charge.created_at)
            since = max(begun, added + MICROSECOND)
            ends = [instant + MICROSECOND for instant in (charge.deleted_at, replaced_at) if instant is not None]
            caught_up = caught_up_from(reader, subscription) if since == begun else None
            times.append(Advance(since, min(ends, default=None), _takes_event_prices(charge), caught_up))
    return tuple(times)


def _opened_at(subscription: Subscription, advance: Sequence[Advance]) -> datetime | None:
    """When a change of plan billed in advance what the metric had counted before."""
    was_there = any(time.since <= bills_at_once_since(subscription) for time in advance)
    return known_since(subscription) if subscription.origin is not None and was_there else None


def _billed_before(reader: Reader, subscription: Subscription, code: str) -> tuple[Advance, ...]:
    """The times before the subscription in which events with this code had fees of the plans that it followed."""
    times: list[Advance] = []
    following = subscription
    while following.previous_subscription_id is not None:
        before = reader.tx.get(Subscription, following.previous_subscription_id)
        if before is None:
            break
        until = bills_at_once_since(following)
        times += [
            time._replace(until=until if time.until is None else min(time.until, until), caught_up_from=None)
            for time in _in_advance(reader, before, code)
            if time.since < until
        ]
        following = before
    return tuple(times)


def _closings(reader: Reader, subscription: Subscription) -> Iterator[tuple[Closing, CountedUsage]]:
    """The periods of the subscription whose usage is billed for good, in order, each with what it counted."""
    periods = reader.tx.find(
        BillingPeriod,
        eq("subscription_id", subscription.id),
        within("invoicing_reason", WHOLE_REASONS),
        present("charges_to_datetime"),
        order=[asc("charges_from_datetime"), asc("created_at")],
    )
    ids = {period.invoice_id for period in periods}
    invoices = {invoice.id: invoice for invoice in reader.tx.find(Invoice, within("id", sorted(ids)))} if ids else {}
    for period in periods:
        invoice = invoices.get(period.invoice_id)
        start, end = period.charges_from_datetime, period.charges_to_datetime
        if (
            invoice is not None
            and start is not None
            and end is not None
            and closes_usage(period, invoice, ZoneInfo(period.timezone))
        ):
            counted = counted_by(reader, period, invoice)
            yield Closing(start, end, counted.known_at), counted


def _billing_from(reader: Reader, subscription: Subscription) -> datetime | None:
    """The instant at which billing begins for a subscription that was created with a start in the past, else None.

    That is the period of the day it was created on, or the one before it if that day was a billing day.
    """
    begun = subscription.activated_at or subscription.created_at
    started_at = subscription.started_at or subscription.created_at
    if started_at >= begun:
        return None
    contract = contract_of(reader, subscription)
    charges = running_boundaries(reader, contract, cycle_at(contract, begun), begun).charges
    first = reader.tx.first(
        BillingPeriod,
        eq("subscription_id", subscription.id),
        present("charges_from_datetime"),
        # What is billed in advance at a start bills no usage.
        ne("invoicing_reason", InvoicingReason.STARTING),
        order=[asc("charges_from_datetime")],
    )
    starts = [] if charges is None else [charges.start]
    if first is not None and first.charges_from_datetime is not None:
        starts.append(first.charges_from_datetime)
    billing_from = min(starts, default=started_at)
    return billing_from if billing_from > started_at else None


def _billed_until(reader: Reader, subscription: Subscription, finalized: Condition) -> datetime | None:
    """The last instant of usage that invoices of which `finalized` holds have billed, None if there is none."""
    last = reader.tx.first(
        BillingPeriod,
        eq("subscription_id", subscription.id),
        within("invoicing_reason", WHOLE_REASONS),
        present("charges_to_datetime"),
        related(Invoice, "invoice_id", finalized),
        order=[desc("charges_to_datetime")],
    )
    return None if last is None else last.charges_to_datetime


def why_unbilled(reader: Reader, event: Event) -> Reason | None:
    """The reason for which the event is not billed; None if it is, or will be."""
    stretch = stretch_at(stretches(reader, event.external_subscription_id, event.code), event)
    if stretch.reason is not None:
        return stretch.reason
    metric = metric_by_code(reader, event.code)
    if metric is not None and is_uncounted(metric, event):
        return property_reason(metric, event)
    return amount_reason(event) if stretch.by_event_prices else None


def unbilled(reader: Reader, event: Event, reason: Reason) -> UnbilledEvent:
    """The event, unbilled for this reason, with a message that says how to fix it."""
    metric = metric_by_code(reader, event.code)
    field_name = None if metric is None else metric.field_name
    if reason is Reason.OPERATION_UNKNOWN:
        near = None
    elif reason is Reason.PROPERTY_MISSING:
        near = None if field_name in event.properties else near_name(field_name or "", event.properties)
    else:
        near = _near(reader, event, reason)
    return UnbilledEvent(event, reason, message_of(reason, event, field_name, near), _period_is_open(reader, event))


def _near(reader: Reader, event: Event, reason: Reason) -> str | None:
    if reason is Reason.METRIC_NOT_FOUND:
        return near_name(event.code, _names(reader, BillableMetric, "code"))
    if reason is Reason.SUBSCRIPTION_NOT_FOUND and event.external_subscription_id:
        return near_name(event.external_subscription_id, _names(reader, Subscription, "external_id"))
    return None


def _names(reader: Reader, kind: type[BillableMetric] | type[Subscription], column: str) -> Sequence[str]:
    def names() -> Sequence[str]:
        records: Sequence[object] = reader.tx.find(kind, limit=_NAMES + 1)
        return [] if len(records) > _NAMES else sorted({getattr(record, column) for record in records})

    return reader.cached(("names of", kind), names)


def _period_is_open(reader: Reader, event: Event) -> bool | None:
    """Whether the event's charges period is still to be billed; None if the event is in no subscription's time."""
    if event.external_subscription_id is None:
        return None
    served = [
        subscription
        for subscription in _subscriptions(reader, event.external_subscription_id)
        if _is_served(subscription)
    ]
    subscription = subscription_at(served, event.timestamp, event.created_at)
    if subscription is None:
        return None
    opening = reader.cached(("open from", subscription.id), lambda: _open_from(reader, subscription))
    return opening is not None and event.timestamp >= opening


def _open_from(reader: Reader, subscription: Subscription) -> datetime | None:
    """The first instant from which usage of the subscription can still be billed; None if its end has been billed."""
    billed_until = _billed_until(reader, subscription, present("finalized_at"))
    return open_from(
        begins_at(subscription) or subscription.created_at,
        ended_at=_end(reader, subscription),
        billed_until=billed_until,
        billing_from=None if billed_until is not None else _billing_from(reader, subscription),
    )
