"""Unbilled events: lists, counts by kind, and the job that logs the counts once a day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, time
from itertools import islice

from usagebill.core.billable_metrics import BillableMetric, declared_values
from usagebill.core.days import next_time_of_day
from usagebill.core.events import Event, property_of
from usagebill.core.filters import undeclared_keys
from usagebill.core.monitoring_tasks import CountUnbilledEvents
from usagebill.core.unbilled import Reason, Stretch, UnbilledEvent, UnbilledTally
from usagebill.queries.unbilled import metric_by_code, stretches, unbilled, undone_events, why_unbilled
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, eq
from usagebill.storage.event_queries import EventFilter, EventRange, Lacking
from usagebill.storage.ports import Page

_COUNTED_AT = time(6, tzinfo=UTC)
# So many pairs of a subscription and a code are counted in about a second.
_COUNTED_WHILE_ONE_WAITS = 500
# Events of a metric that are searched for values that its filters do not declare, in about a second.
_LOOKED_THROUGH = 100_000


@Input
class UnbilledFilters:
    """Both timestamps are inclusive."""

    code: Maybe[str] = ABSENT
    external_subscription_id: Maybe[str] = ABSENT
    timestamp_from: Maybe[datetime] = ABSENT
    timestamp_to: Maybe[datetime] = ABSENT


def list_all(reader: Reader, options: UnbilledFilters, paging: Paging) -> Page[UnbilledEvent]:
    """The events that no charge currently counts, with their reasons, latest first, then by transaction id."""
    reasons = _ranges(reader, options)
    ranges = [event_range for event_range, _ in reasons]
    first = (paging.page - 1) * paging.per_page
    items: list[UnbilledEvent] = []
    for place, event in reader.tx.events.in_ranges(ranges, limit=paging.per_page, offset=first):
        reason = reasons[place][1] or why_unbilled(reader, event)
        if reason is not None:
            items.append(unbilled(reader, event, reason))
    total = sum(reader.tx.events.count_in_ranges(ranges))
    return Page(items=items, page=paging.page, per_page=paging.per_page, total_count=total)


def list_billed_by_default(reader: Reader, options: UnbilledFilters, paging: Paging) -> Page[Event]:
    """The events with a value that their metric's filters do not declare, latest first: a charge bills them at its
    default price. The newest 100,000 events of each metric with filters are looked through.
    """
    metrics = [metric for metric in reader.tx.find(BillableMetric, *_coded(options)) if metric.filters]
    found: list[Event] = []
    is_exact = True
    for metric in metrics:
        declared = declared_values(metric)
        wanted = EventFilter(
            code=metric.code,
            external_subscription_id=options.external_subscription_id or None,
            timestamp_from=options.timestamp_from or None,
            timestamp_to=options.timestamp_to or None,
        )
        newest = reader.tx.events.find(wanted, limit=_LOOKED_THROUGH)
        is_exact = is_exact and len(newest) < _LOOKED_THROUGH
        found += [event for event in newest if undeclared_keys(event, declared) and why_unbilled(reader, event) is None]
    found.sort(key=lambda event: event.transaction_id)
    found.sort(key=lambda event: event.timestamp, reverse=True)
    first = (paging.page - 1) * paging.per_page
    return Page(
        items=found[first : first + paging.per_page],
        page=paging.page,
        per_page=paging.per_page,
        total_count=len(found),
        total_count_is_exact=is_exact,
    )


def _coded(options: UnbilledFilters) -> list[Condition]:
    return [eq("code", options.code)] if options.code else []


def list_tallies(reader: Reader, options: UnbilledFilters) -> list[UnbilledTally]:
    """Counts of unbilled events by reason, external subscription id and code, the most first."""
    return tallies(reader, options)


def tallies(
    reader: Reader, options: UnbilledFilters | None = None, *, received_from: datetime | None = None
) -> list[UnbilledTally]:
    """Counts of unbilled events received at `received_from` or later.

    Events with uncountable properties are one tally per external subscription id and code, with the latest's reason.
    """
    ranges = _ranges(reader, options or UnbilledFilters())
    counts = reader.tx.events.count_in_ranges([event_range for event_range, _ in ranges], received_from=received_from)
    counted: Counter[tuple[Reason, str | None, str]] = Counter()
    for (event_range, reason), count in zip(ranges, counts, strict=True):
        if count:
            range_reason = reason or _reason_of_latest(reader, event_range)
            counted[range_reason, event_range.external_subscription_id, event_range.code] += count
    return [
        UnbilledTally(reason, external_id, code, count)
        for (reason, external_id, code), count in sorted(
            counted.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or "", item[0][2])
        )
    ]


def counted_now(reader: Reader) -> Counter[str] | None:
    """The number of unbilled events by reason; None if that takes longer than somebody waits for."""
    pairs = list(islice(reader.tx.events.senders(), _COUNTED_WHILE_ONE_WAITS + 1))
    if len(pairs) > _COUNTED_WHILE_ONE_WAITS:
        return None
    counted: Counter[str] = Counter()
    for tally in tallies(reader):
        counted[str(tally.reason)] += tally.events_count
    return counted


def _reason_of_latest(reader: Reader, event_range: EventRange) -> Reason:
    for _, event in reader.tx.events.in_ranges([event_range], limit=1):
        return why_unbilled(reader, event) or Reason.PROPERTY_MISSING
    return Reason.PROPERTY_MISSING


def _ranges(reader: Reader, options: UnbilledFilters) -> list[tuple[EventRange, Reason | None]]:
    """The ranges with unbilled events, and the reasons; None if each event's properties decide."""
    name, only = options.external_subscription_id or None, options.code or None
    log = reader.tx.events
    uncounted = set(log.senders(external_subscription_id=name, code=only, uncounted=True))
    ranges: list[tuple[EventRange, Reason | None]] = []
    for external_id, code in log.senders(external_subscription_id=name, code=only):
        for event in undone_events(reader, external_id, code):
            its_own = Stretch(Reason.PERIOD_ALREADY_BILLED, event.timestamp, event.timestamp)
            event_range = replace(_range(its_own, external_id, code, options), event_id=event.id)
            ranges.append((event_range, its_own.reason))
        for stretch in stretches(reader, external_id, code):
            whole = _range(stretch, external_id, code, options)
            if stretch.reason is not None:
                ranges.append((whole, stretch.reason))
                continue
            if (external_id, code) in uncounted:
                ranges.append((replace(whole, lacking=Lacking.COUNTABLE_PROPERTY), None))
            if stretch.by_event_prices:
                ranges.append((replace(whole, lacking=Lacking.AMOUNT), Reason.AMOUNT_MISSING))
                ranges.append((replace(whole, lacking=Lacking.READABLE_AMOUNT), Reason.AMOUNT_NOT_NUMERIC))
    return ranges


def _range(stretch: Stretch, external_id: str | None, code: str, options: UnbilledFilters) -> EventRange:
    earliest = [instant for instant in (stretch.earliest, options.timestamp_from or None) if instant is not None]
    latest = [instant for instant in (stretch.latest, options.timestamp_to or None) if instant is not None]
    return EventRange(
        external_subscription_id=external_id,
        code=code,
        earliest=max(earliest, default=None),
        latest=min(latest, default=None),
        received_from=stretch.received_from,
        received_before=stretch.received_before,
    )


def reasons_among(reader: Reader, events: Iterable[Event]) -> Counter[tuple[Reason, str | None, str]]:
    """The number of unbilled ones among these events, by reason, external subscription id and code."""
    counted: Counter[tuple[Reason, str | None, str]] = Counter()
    for event in events:
        reason = why_unbilled(reader, event)
        if reason is not None:
            counted[reason, event.external_subscription_id, event.code] += 1
    return counted


def undeclared_among(reader: Reader, events: Iterable[Event]) -> Counter[tuple[str, str, str]]:
    """The number of these events with a value that their metric's filters do not declare, by code, key and value.

    They are billed at the default price of their charge.
    """
    counted: Counter[tuple[str, str, str]] = Counter()
    for event in events:
        metric = metric_by_code(reader, event.code)
        if metric is not None and metric.filters:
            for key in undeclared_keys(event, declared_values(metric)):
                counted[event.code, key, property_of(event, key) or ""] += 1
    return counted


def schedule(work: Work, *, due_at: datetime | None = None, counted: Mapping[str, int] | None = None) -> None:
    """Schedule the daily count of unbilled events at the next 06:00 UTC.

    `due_at` is the instant at which the count that was just made was due, and `counted` its result by reason.
    """
    now = work.now if due_at is None else max(work.now, due_at)
    task = CountUnbilledEvents(
        organization_id=work.organization.id, counted=counted, counted_at=None if counted is None else work.now
    )
    work.schedule(task, next_time_of_day(_COUNTED_AT, now))
