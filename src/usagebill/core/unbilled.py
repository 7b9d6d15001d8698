"""Unbilled events: those that no charge bills or has billed, and why.

What a billing period counted decides for its time, and today's charges for the time that is still to be billed: an
event leaves the list as soon as it is counted, and never comes back. Values that no filter declares are no reason: such
an event is billed at its charge's default price.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, Operation, counts, operation_of
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import Event, cut_to_seconds, numeric_value, property_of
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import CLOSING_PERIODS, IN_ARREARS, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.periods import is_empty


class Reason(StrEnum):
    """Why an event is not billed."""

    SUBSCRIPTION_MISSING = "subscription_missing"  # the event has none
    SUBSCRIPTION_NOT_FOUND = "subscription_not_found"
    SUBSCRIPTION_NOT_ACTIVE = "subscription_not_active"  # not at the time of the event
    NOT_YET = "not_yet"  # it lies ahead of the clock, perhaps because its sender's is wrong
    METRIC_NOT_FOUND = "billable_metric_not_found"
    CHARGE_NOT_FOUND = "charge_not_found"  # the plan has none for the metric
    PERIOD_CLOSED = "period_closed"  # the missing record was added after its period had been billed
    PERIOD_ALREADY_BILLED = "period_already_billed"  # it arrived after its period had been billed
    PROPERTY_MISSING = "property_missing"
    PROPERTY_NOT_NUMERIC = "property_not_numeric"
    OPERATION_UNKNOWN = "operation_type_unknown"
    AMOUNT_MISSING = "amount_missing"  # a charge takes its price from the event
    AMOUNT_NOT_NUMERIC = "amount_not_numeric"


# These concern the code of an event, its property or its price, not its subscription.
ABOUT_CODES = (
    Reason.METRIC_NOT_FOUND,
    Reason.CHARGE_NOT_FOUND,
    Reason.PROPERTY_MISSING,
    Reason.PROPERTY_NOT_NUMERIC,
    Reason.OPERATION_UNKNOWN,
    Reason.AMOUNT_MISSING,
    Reason.AMOUNT_NOT_NUMERIC,
)


class Closing(NamedTuple):
    """A finally billed period of usage, both ends inclusive, which counted the events received up to `counted_at`.

    `is_counted`: its charges in arrears counted the metric in question; `by_event_prices`: one of them took its price
    from the events. `is_renewed`: a charge in advance went on from it with all that the metric had counted.
    """

    earliest: datetime
    latest: datetime
    counted_at: datetime
    is_counted: bool = True
    by_event_prices: bool = False
    is_renewed: bool = False


class Advance(NamedTuple):
    """A time in which a metric is or was charged in advance, until the second instant (None: still). Events from
    `caught_up_from` on had their fees though they came before it.

    `by_event_prices`: the charge takes its price from the events.
    """

    since: datetime
    until: datetime | None
    by_event_prices: bool = False
    caught_up_from: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The time of one subscription with an external id: from `start`, until `end` if it has one.

    `is_charged`: its plan charges for the metric in question in arrears, with `by_event_prices` one of these charges by
    the events' own prices. Events before `closed_before` were billed before that metric could be counted. `advance`:
    the times in which the metric is or was charged in advance; events received in none of them had no fee. `closings`:
    its billed periods. `billed_before`: the times in which plans that it followed charged in advance: events that lay
    ahead then had fees of those; `excluded_before`: what was received before then is not counted in arrears either.
    `opened_at`: when a change of plan that started it billed in advance all that the metric had counted before. Events
    in arrears from `ahead_from` on lie ahead of the clock.
    """

    start: datetime
    end: datetime | None = None
    is_charged: bool = True
    closed_before: datetime | None = None
    advance: tuple[Advance, ...] = ()
    closings: tuple[Closing, ...] = ()
    billed_before: tuple[Advance, ...] = ()
    excluded_before: datetime | None = None
    by_event_prices: bool = False
    opened_at: datetime | None = None
    ahead_from: datetime | None = None

    @property
    def is_charged_now(self) -> bool:
        """Whether its plan charges for the metric today, in arrears or in advance."""
        return self.is_charged or any(time.until is None for time in self.advance)

    @property
    def was_charged(self) -> bool:
        """Whether it charges for the metric or has ever done so."""
        return self.is_charged or bool(self.advance) or any(closing.is_counted for closing in self.closings)


class Stretch(NamedTuple):
    """A stretch of time, both ends inclusive (None: no bound), and why its events are not billed.

    If `received_from` or `received_before` is set, only events received from then on, or before, are meant. Without a
    reason, those events are billed that the metric counts (`counts`); with `by_event_prices`, those that have a price.
    """

    reason: Reason | None
    earliest: datetime | None = None
    latest: datetime | None = None
    received_from: datetime | None = None
    received_before: datetime | None = None
    by_event_prices: bool = False

    def holds(self, event: Event) -> bool:
        """Whether the event lies in the stretch."""
        return (
            (self.earliest is None or self.earliest <= event.timestamp)
            and (self.latest is None or event.timestamp <= self.latest)
            and (self.received_from is None or self.received_from <= event.created_at)
            and (self.received_before is None or event.created_at < self.received_before)
        )


@dataclass(frozen=True, slots=True)
class UnbilledEvent:
    """An event that is not billed, why, and a remedy.

    `period_is_open`: its period is still to be billed, so it would be counted if its reason went away in time; None if
    it lies in no subscription's time.
    """

    event: Event
    reason: Reason
    message: str
    period_is_open: bool | None


@dataclass(frozen=True, slots=True)
class UnbilledTally:
    """The number of unbilled events for one reason, external subscription id and code."""

    reason: Reason
    external_subscription_id: str | None
    code: str
    events_count: int


def closes_usage(period: BillingPeriod, invoice: Invoice, tz: tzinfo) -> bool:
    """Whether the invoice bills the usage of its billing period, with days in `tz`, for good."""
    start, end = period.charges_from_datetime, period.charges_to_datetime
    if start is None or end is None or invoice.status not in CLOSING_PERIODS:
        return False
    ends = period.invoicing_reason == InvoicingReason.TERMINATING
    return IN_ARREARS[period.invoicing_reason].usage and not is_empty(start, end, tz, ends=ends)


def without_overlaps(closings: Iterable[Closing]) -> tuple[Closing, ...]:
    """The closings, which come in the order of their starts, each without the time that an earlier one has closed.

    So the first of several that bill a period decides: one regenerated after a void counts nothing again.
    """
    tiled: list[Closing] = []
    for closing in closings:
        # The second in which a subscription starts is its own.
        start = cut_to_seconds(closing.earliest)
        if tiled and start <= tiled[-1].latest:
            start = tiled[-1].latest + MICROSECOND
        if start <= closing.latest:
            tiled.append(closing._replace(earliest=start))
    return tuple(tiled)


def open_from(
    started_at: datetime, *, ended_at: datetime | None, billed_until: datetime | None, billing_from: datetime | None
) -> datetime | None:
    """The first instant from which usage can still be billed; None if the end has been billed.

    `billed_until` is the last instant billed, `billing_from` where billing begins if that is after the start.
    """
    if billed_until is None:
        return billing_from or cut_to_seconds(started_at)
    if ended_at is not None and billed_until >= ended_at:
        return None
    return billed_until + MICROSECOND


def keeps_history(metric: BillableMetric) -> bool:
    """Whether events from any earlier time still count."""
    return metric.recurring and AGGREGATIONS[metric.aggregation_type].accumulation is not Accumulation.NOTHING


def undone(metric: BillableMetric, closings: Sequence[Closing], events: Iterable[Event]) -> list[Event]:
    """Of events that came after their periods had been billed, those of which nothing is left when a later one counts.

    A later period counts all history, but it only sees what is there when it begins: a unit or a value that was added
    and taken away again before counts nowhere. Both have to be known to the same bill; what one has billed is billed.
    """
    known = sorted(closing.counted_at for closing in closings)
    added: defaultdict[tuple[int, object], list[Event]] = defaultdict(list)
    pairs: list[Event] = []
    for event in sorted(events, key=lambda event: event.order):
        what, adds = _changed(metric, event)
        if what is None:
            continue
        # The number of bills that did not know of it.
        before = added[bisect_left(known, event.created_at), what]
        if adds:
            before.append(event)
        elif before:
            pairs += (before.pop(), event)
    return pairs


def _changed(metric: BillableMetric, event: Event) -> tuple[object, bool]:
    """The value or the number of units that the event changes, None if it does not count; and whether it adds them."""
    if is_uncounted(metric, event):
        return None, False
    if AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.VALUES:
        return property_of(event, metric.field_name), operation_of(event) is Operation.ADD
    number = numeric_value(event, metric.field_name)
    return (None, False) if number is None else (abs(number), number > 0)


def is_uncounted(metric: BillableMetric, event: Event) -> bool:
    """Whether the metric cannot count the event, whatever charges exist."""
    return not counts(metric.aggregation_type, metric.field_name, event)


def stretches_of(services: Iterable[Service], metric: BillableMetric | None) -> list[Stretch]:
    """All of time, in order, by the fate of events with one external id and the metric's code (None: no such
    metric).
    """
    ordered = sorted(services, key=lambda service: service.start)
    if not ordered:
        return [Stretch(Reason.SUBSCRIPTION_NOT_FOUND)]
    missing = Reason.CHARGE_NOT_FOUND if metric is not None else Reason.METRIC_NOT_FOUND
    if metric is None and not any(service.was_charged for service in ordered):
        return [Stretch(missing)]
    if metric is not None and keeps_history(metric):
        ordered = _with_history(ordered)
    stretches: list[Stretch] = []
    free_from: datetime | None = None
    for position, service in enumerate(ordered):
        start = None if position == 0 and _reaches_back(service) else cut_to_seconds(service.start)
        if start is not None and (free_from is None or free_from < start):
            stretches += _after(ordered[:position], free_from, start - MICROSECOND)
        earliest = free_from if start is None or (free_from is not None and free_from > start) else start
        latest = service.end
        stretches += _served_by(ordered[position:], earliest, latest, missing)
        if latest is None:
            return stretches
        free_from = latest + MICROSECOND
    return [*stretches, *_after(ordered, free_from, None)]


def _after(services: Sequence[Service], earliest: datetime | None, latest: datetime | None) -> list[Stretch]:
    """The fate of events in no service's time: those that came while the last one billed in advance had fees then."""
    if not services or (end := services[-1].end) is None:
        return [Stretch(Reason.SUBSCRIPTION_NOT_ACTIVE, earliest, latest)]
    service, ended = services[-1], end + MICROSECOND
    ahead = (
        time._replace(until=ended if time.until is None else min(time.until, ended))
        for time in service.advance
        if time.since < ended
    )
    return _by_receipt(replace(service, advance=tuple(ahead)), earliest, latest, Reason.SUBSCRIPTION_NOT_ACTIVE)


def _served_by(
    services: Sequence[Service], earliest: datetime | None, latest: datetime | None, missing: Reason
) -> list[Stretch]:
    """The fate of events in the time of the first of `services`. If the next one starts in the second in which it ends,
    events received after that start belong to the next one.
    """
    service, later = services[0], services[1:]
    if not later or latest is None or cut_to_seconds(later[0].start) > latest:
        return _within(service, earliest, latest, missing)
    shared = cut_to_seconds(later[0].start)
    shared = shared if earliest is None else max(earliest, shared)
    alone = [] if shared == earliest else _within(service, earliest, shared - MICROSECOND, missing)
    # What had come by the start of the next is the first one's, if the bill of its end had not been made before.
    counted = [closing.counted_at for closing in service.closings if closing.latest >= latest]
    since = min([later[0].start, *counted]) + MICROSECOND
    before = [_received(stretch, None, since) for stretch in _within(service, shared, latest, missing)]
    after = [_received(stretch, since, None) for stretch in _served_by(later, shared, latest, missing)]
    return [*alone, *(stretch for stretch in (*before, *after) if stretch is not None)]


def _received(stretch: Stretch, start: datetime | None, end: datetime | None) -> Stretch | None:
    """The part of the stretch with events received from `start` on and before `end`; None if there is none."""
    starts = [instant for instant in (stretch.received_from, start) if instant is not None]
    ends = [instant for instant in (stretch.received_before, end) if instant is not None]
    received_from, received_before = max(starts, default=None), min(ends, default=None)
    if received_from is not None and received_before is not None and received_from >= received_before:
        return None
    return stretch._replace(received_from=received_from, received_before=received_before)


_ALWAYS = datetime.min.replace(tzinfo=UTC)


def _reaches_back(service: Service) -> bool:
    return service.start == _ALWAYS


def _with_history(ordered: Sequence[Service]) -> list[Service]:
    """The services for a metric that counts all history: the last charged one covers all time before its end."""
    charged = [position for position, service in enumerate(ordered) if service.is_charged_now]
    if not charged:
        return list(ordered)
    last = charged[-1]
    if _left_history(ordered[last]):
        own = replace(ordered[last], closings=tuple(one._replace(is_renewed=False) for one in ordered[last].closings))
        return [*_with_history(ordered[:last]), own, *ordered[last + 1 :]]
    ending = replace(ordered[last], start=_ALWAYS, closed_before=None)
    # Events too late for their own period count in a later one, and those too early for a charge in advance are
    # renewed with it, as long as there is another period.
    ending = (
        replace(ending, is_charged=True, closings=())
        if ending.end is None
        else replace(ending, closings=_last_counts(ordered[last], ending.end))
    )
    return [ending, *ordered[last + 1 :]]


def _left_history(service: Service) -> bool:
    """Whether a service has ended without a bill of what its metric had counted before."""
    end = service.end
    if end is None or service.is_charged or service.opened_at is not None:
        return False
    return not any(one.is_counted or (one.is_renewed and one.latest < end) for one in service.closings)


def _last_counts(service: Service, end: datetime) -> tuple[Closing, ...]:
    """The last renewal before the end, or else the bill that the service opened with, and the period of the end: they
    have counted all time before them.
    """
    closings = service.closings
    # Nothing goes on after the period of the end.
    final = [closing._replace(is_renewed=False) for closing in closings if closing.latest >= end]
    renewals = [closing for closing in closings if closing.latest < end and closing.is_renewed]
    if not renewals and service.opened_at is not None:
        opening = service.start - MICROSECOND
        renewals = [Closing(_ALWAYS, opening, service.opened_at, is_counted=False, is_renewed=True)]
    if not renewals or any(closing.is_counted for closing in final):
        return tuple(closing._replace(earliest=_ALWAYS) for closing in final)
    return (renewals[-1]._replace(earliest=_ALWAYS), *final)


def _within(service: Service, earliest: datetime | None, latest: datetime | None, missing: Reason) -> list[Stretch]:
    """The fate of events in the time of a service; `missing` is the reason while nothing charges for them."""
    since = next((time.caught_up_from for time in service.advance if time.caught_up_from is not None), None)
    if since is not None:
        usual = replace(service, advance=tuple(time._replace(caught_up_from=None) for time in service.advance))
        caught_up = replace(
            service,
            advance=tuple(
                time._replace(since=_ALWAYS if time.caught_up_from else time.since, caught_up_from=None)
                for time in service.advance
            ),
        )
        if latest is not None and since > latest:
            return _within(usual, earliest, latest, missing)
        if earliest is not None and since <= earliest:
            return _within(caught_up, earliest, latest, missing)
        return [
            *_within(usual, earliest, since - MICROSECOND, missing),
            *_within(caught_up, since, latest, missing),
        ]
    closed = service.closed_before
    if closed is None or (earliest is not None and closed <= earliest):
        return _tiled(service, earliest, latest, missing)
    if latest is not None and closed > latest:
        return [Stretch(Reason.PERIOD_CLOSED, earliest, latest)]
    return [Stretch(Reason.PERIOD_CLOSED, earliest, closed - MICROSECOND), *_tiled(service, closed, latest, missing)]


def _tiled(service: Service, earliest: datetime | None, latest: datetime | None, missing: Reason) -> list[Stretch]:
    """Billed periods, in which what was counted decides, and open ones, in which today's charges do."""
    stretches: list[Stretch] = []
    free_from = earliest
    for closing in service.closings:
        start = closing.earliest if free_from is None else max(free_from, closing.earliest)
        end = closing.latest if latest is None else min(latest, closing.latest)
        if start > end:
            continue
        if start != free_from and start != _ALWAYS:
            stretches += _open(service, free_from, start - MICROSECOND, missing)
        first = None if start == _ALWAYS else start
        since = closing.counted_at + MICROSECOND
        if closing.is_counted:
            billed = _by_receipt(service, first, end, None, by_event_prices=closing.by_event_prices)
            in_time = (_received(stretch, None, since) for stretch in billed)
            stretches += [stretch for stretch in in_time if stretch is not None]
            stretches.append(Stretch(Reason.PERIOD_ALREADY_BILLED, first, end, received_from=since))
        else:
            uncounted = _by_receipt(service, first, end, Reason.PERIOD_CLOSED if service.is_charged_now else missing)
            if closing.is_renewed:
                late = (_received(stretch, since, None) for stretch in uncounted)
                uncounted = [
                    Stretch(None, first, end, received_before=since),
                    *(one for one in late if one is not None),
                ]
            stretches += uncounted
        if end == latest:
            return stretches
        free_from = end + MICROSECOND
    return [*stretches, *_open(service, free_from, latest, missing)]


def _open(service: Service, earliest: datetime | None, latest: datetime | None, missing: Reason) -> list[Stretch]:
    if service.is_charged:
        priced, ahead = service.by_event_prices, service.ahead_from
        if ahead is None or (latest is not None and latest < ahead):
            return _by_receipt(service, earliest, latest, None, by_event_prices=priced)
        if earliest is not None and earliest >= ahead:
            return _by_receipt(service, earliest, latest, Reason.NOT_YET, by_event_prices=priced)
        return [
            *_by_receipt(service, earliest, ahead - MICROSECOND, None, by_event_prices=priced),
            *_by_receipt(service, ahead, latest, Reason.NOT_YET, by_event_prices=priced),
        ]
    return _by_receipt(service, earliest, latest, Reason.PERIOD_CLOSED if service.is_charged_now else missing)


def _by_receipt(
    service: Service,
    earliest: datetime | None,
    latest: datetime | None,
    reason: Reason | None,
    *,
    by_event_prices: bool = False,
) -> list[Stretch]:
    """The fate of events by when they came: charges in advance billed them at once, all that there were together.

    The others are unbilled for `reason`, or billed without one; `by_event_prices` is of the charges in arrears.
    """
    times = (*service.advance, *service.billed_before)
    instants = {service.excluded_before, *(instant for time in times for instant in (time.since, time.until))}
    edges = sorted(instant for instant in instants if instant is not None and instant != _ALWAYS)
    stretches: list[Stretch] = []
    for start, end in pairwise([None, *edges, None]):
        at = _ALWAYS if start is None else start
        charged = [time for time in times if time.since <= at and (time.until is None or at < time.until)]
        excluded = service.excluded_before is not None and end is not None and end <= service.excluded_before
        because = None if charged else Reason.PERIOD_CLOSED if reason is None and excluded else reason
        priced = by_event_prices or any(time.by_event_prices for time in charged)
        last = stretches[-1] if stretches else None
        if last is not None and (last.reason, last.by_event_prices) == (because, priced):
            stretches[-1] = last._replace(received_before=end)
        else:
            stretches.append(Stretch(because, earliest, latest, start, end, priced))
    return stretches


def stretch_at(stretches: Sequence[Stretch], event: Event) -> Stretch:
    """The stretch that holds the event: searched from the end, since most events are recent."""
    return next((stretch for stretch in reversed(stretches) if stretch.holds(event)), Stretch(None))


def property_reason(metric: BillableMetric, event: Event) -> Reason:
    """Why the metric cannot count the event."""
    if property_of(event, metric.field_name) is None:
        return Reason.PROPERTY_MISSING
    numeric = AGGREGATIONS[metric.aggregation_type].numeric
    return Reason.PROPERTY_NOT_NUMERIC if numeric else Reason.OPERATION_UNKNOWN


def amount_reason(event: Event) -> Reason | None:
    """Why a charge that takes its price from the event has none; None if it has."""
    if event.precise_total_amount_cents is not None:
        return None
    return Reason.AMOUNT_MISSING if event.unread_amount is None else Reason.AMOUNT_NOT_NUMERIC


def message_of(reason: Reason, event: Event, field_name: str | None = None, near: str | None = None) -> str:
    """The reason in words for people; `near` is a name that may have been meant."""
    texts = {
        Reason.SUBSCRIPTION_MISSING: "the event names no subscription",
        Reason.SUBSCRIPTION_NOT_FOUND: f"no subscription has the external id {event.external_subscription_id!r}",
        Reason.SUBSCRIPTION_NOT_ACTIVE: (
            f"the subscription {event.external_subscription_id!r} had not started, or had ended, at that time"
        ),
        Reason.NOT_YET: "it lies ahead of the clock, and is billed once its period is over",
        Reason.METRIC_NOT_FOUND: f"no billable metric has the code {event.code!r}",
        Reason.CHARGE_NOT_FOUND: (
            f"the plan of {event.external_subscription_id!r} has no charge on the metric {event.code!r}"
        ),
        Reason.PERIOD_CLOSED: "its period had been billed before the event could be counted",
        Reason.PERIOD_ALREADY_BILLED: "the event came after its period had been billed",
        Reason.PROPERTY_MISSING: f"the metric {event.code!r} needs the property {field_name!r}"
        + (", which is null or empty" if field_name in event.properties else ""),
        Reason.PROPERTY_NOT_NUMERIC: (
            f"the property {field_name!r} of the metric {event.code!r} is not a number such as 12.5:"
            f" {property_of(event, field_name) or ''!s:.64}"
        ),
        Reason.AMOUNT_MISSING: f"a charge on the metric {event.code!r} needs a price: 'precise_total_amount_cents'",
        Reason.AMOUNT_NOT_NUMERIC: (
            f"the price {event.unread_amount!r} in 'precise_total_amount_cents' is no number of cents, such as 1250.5"
        ),
        Reason.OPERATION_UNKNOWN: "the property 'operation_type' is neither 'add' nor 'remove'",
    }
    return texts[reason] + (f"; was {near!r} meant?" if near else "")
