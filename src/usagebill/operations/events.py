"""Events: ingest them, list them, and schedule follow-ups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.checks import Admitted, SkippedEvent
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.event_batches import (
    ALREADY_STORED,
    Problems,
    event_key,
    events_of,
    names_by_subscription,
    next_round,
    received_problems,
    uncounted_ids,
)
from usagebill.core.events import Event, cut_to_seconds, property_of, repeated_positions
from usagebill.core.grouping import TARGET_WALLET_KEY
from usagebill.core.ingestion import Received, receive
from usagebill.core.organizations import OrganizationLimits, check_events
from usagebill.core.plans import Charge
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import CheckReceivedEvents, ProcessEvents
from usagebill.core.unbilled import UnbilledEvent
from usagebill.operations import ongoing_balances, progressive_billing, unbilled_events
from usagebill.operations.admission import admit
from usagebill.operations.alert_watch import watch_events
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.checks import payment_required
from usagebill.operations.limit_watch import watch_limits
from usagebill.queries.organizations import limits_now
from usagebill.queries.plans import plan_definition
from usagebill.queries.removed_events import may_be_gone, removed_in
from usagebill.queries.unbilled import unbilled, why_unbilled
from usagebill.queries.wallets import active_wallets
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, changes, described, is_given
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import desc, eq, present, within
from usagebill.storage.event_queries import EventFilter
from usagebill.storage.ports import Page
from usagebill.views.events import EventsErrors, event_error_view

_HOUR = timedelta(hours=1)
# Events that a list counts, in some 50 ms.
MOST_COUNTED = 500_000
# The minute of the hour at which the events of the hour before are checked.
_CHECKED_AT = timedelta(minutes=5)
# The newest events that are shown, and how far back in the order of arrival they are looked for: further if too few of
# them are this organization's.
_NEWEST = 25
_REACHES = (_NEWEST, 1_000, 10_000)


@Input
class EventInput:
    """`timestamp` is in Unix seconds, as a number or text, by default now."""

    transaction_id: Maybe[object] = ABSENT
    code: Maybe[object] = described("The billable metric, by code.", example="storage")
    external_subscription_id: Maybe[object] = ABSENT
    timestamp: Maybe[object] = ABSENT
    precise_total_amount_cents: Maybe[object] = ABSENT
    properties: Maybe[object] = described("Values for the metric, filters and groups.", example={"gb": 1.5}, most=None)


@Input
class EventsInput:
    """`events` are as in `EventInput`."""

    events: Maybe[tuple[object, ...]] = described("The events, up to 100; all are stored, or none.", most=None)


@Input
class EventFilters:
    """Both timestamps are inclusive. `timestamp_from_started_at` starts at the start of the latest subscription."""

    code: Maybe[str] = ABSENT
    external_subscription_id: Maybe[str] = ABSENT
    timestamp_from: Maybe[datetime] = ABSENT
    timestamp_to: Maybe[datetime] = ABSENT
    timestamp_from_started_at: Maybe[bool] = ABSENT


@Input
class EventListFilters(EventFilters):
    """As in `EventFilters`; `unbilled` selects events that no charge currently counts, each with the reason, and
    `billed_by_default` those with a value that no filter of their metric declares.
    """

    unbilled: Maybe[bool] = described(
        "Only events that no charge bills at present, each with the reason.", default="false"
    )
    billed_by_default: Maybe[bool] = described(
        "Only events with a value that no filter of their metric declares: they are billed at the default price.",
        default="false",
    )


class OnDuplicate(StrEnum):
    """What becomes of an event whose subscription has one with its transaction id already."""

    REFUSE = "refuse"
    SKIP = "skip"


@Input
class IngestOptions:
    enforce: Maybe[bool] = described(
        "Whether an event that would pass a spend limit, a quota or prepaid credits is refused.", default="false"
    )
    on_duplicate: Maybe[str] = described(
        "Whether an event that is stored already refuses the request, or is skipped.",
        values=tuple(OnDuplicate),
        default="refuse",
    )


_STORE_ALL = IngestOptions()


@without_backlog(Unrelated.OWN_INSTANT)
def create(work: Work, request: EventInput, options: IngestOptions = _STORE_ALL) -> Event:
    """Ingest one event. Raises `Invalid`: a failed expression is a plain text, not codes by field; `PaymentRequired` if
    it is beyond a limit that `enforce` asks for. With `on_duplicate=skip` one that is stored already is returned as it
    was stored.
    """
    if _skips(options):
        admitted = _without_duplicates(work, [changes(request)], options)
        if admitted.skipped:
            return _stored(work, request)
        for refused in admitted.refused or ():
            raise payment_required(refused.standing)
        return admitted.events[0]
    if options.enforce is True:
        admitted = _admitted(work, [changes(request)])
        for refused in admitted.refused or ():
            raise payment_required(refused.standing)
        return admitted.events[0]
    _count_today(work, 1)
    return _one(work, request)


def record_happened(work: Work, request: EventInput) -> Event:
    """Ingest the event of usage that was permitted before it happened: it counts as one of the organization's events of
    the day, and is stored also beyond their limit. Raises `Invalid`.
    """
    _events_today(work, limits_now(work), 1)
    return _one(work, request)


def _one(work: Work, request: EventInput) -> Event:
    events, problems = _store(work, [changes(request)])
    if problems:
        raise Invalid(problems[0])
    return events[0]


@without_backlog(Unrelated.OWN_INSTANT)
def create_batch(work: Work, request: EventsInput, options: IngestOptions = _STORE_ALL) -> Admitted:
    """Ingest a batch of events: all or none, but with `enforce` only those that no limit refuses, and with
    `on_duplicate=skip` only those that are not stored yet and stand first in the batch. Raises `Invalid`, its details
    by the position of each event that is wrong.
    """
    sent = events_sent(work, request.events)
    if _skips(options):
        return _without_duplicates(work, [_members(item) for item in sent], options)
    if options.enforce is True:
        return _admitted(work, [_members(item) for item in sent])
    _count_today(work, len(sent))
    return Admitted(events=ingest(work, sent))


def _skips(options: IngestOptions) -> bool:
    """Raises `Invalid` if neither skipping nor refusing is asked for."""
    chosen = options.on_duplicate or OnDuplicate.REFUSE
    if chosen not in tuple(OnDuplicate):
        raise Invalid(on_duplicate="value_is_invalid")
    return chosen == OnDuplicate.SKIP


def _without_duplicates(work: Work, sent: Sequence[Mapping[str, object]], options: IngestOptions) -> Admitted:
    """The events stored of those that are not stored yet. Raises `Invalid` if any is wrong: then none is stored."""
    enforces = options.enforce is True
    tried = work.dry_run(lambda trial: ingest_each(trial, sent)) if enforces else ingest_each(work, sent)
    if tried.problems:
        raise Invalid(
            tried.problems[0] if len(sent) == 1 else {str(place): tried.problems[place] for place in tried.problems}
        )
    skipped = [
        SkippedEvent(position=place, transaction_id=receive(sent[place], work.now).transaction_id)
        for place in tried.duplicates
    ]
    if not enforces:
        _count_today(work, len(tried.events))
        return Admitted(events=tried.events, skipped=skipped)
    left = sorted(set(range(len(sent))) - set(tried.duplicates))
    admitted = _admitted(work, [sent[place] for place in left]) if left else Admitted(events=[])
    refused = [replace(one, position=left[one.position]) for one in admitted.refused or ()]
    return replace(admitted, refused=refused, skipped=skipped)


def _stored(reader: Reader, request: EventInput) -> Event:
    """The event of that subscription and transaction id, as it was stored."""
    received = receive(changes(request), reader.now)
    name = received.external_subscription_id
    known = [] if name is None else reader.tx.events.named(name, [received.transaction_id])
    return known[0] if known else get(reader, received.transaction_id)


def _admitted(work: Work, sent: Sequence[Mapping[str, object]]) -> Admitted:
    """The events stored, and those that limits refuse. Raises `Invalid` if any is wrong: then none is stored.

    What is wrong comes before what is too much, so an event that is sent again is never refused by itself.
    """
    _, problems = work.dry_run(lambda trial: _store(trial, sent))
    if problems:
        if len(sent) == 1:
            raise Invalid(problems[0])
        raise Invalid({str(position): problems[position] for position in sorted(problems)})
    admitted = admit(work, [receive(item, work.now) for item in sent], lambda chosen: _store_chosen(work, sent, chosen))
    _count_today(work, len(admitted.events))
    return admitted


def _store_chosen(work: Work, sent: Sequence[Mapping[str, object]], chosen: Sequence[int]) -> list[Event]:
    events, problems = _store(work, [sent[position] for position in chosen])
    if problems:
        raise Invalid({str(chosen[place]): problem for place, problem in problems.items()})
    return events


def events_sent(reader: Reader, events: Maybe[tuple[object, ...]]) -> tuple[object, ...]:
    """The events of a request. Raises `Invalid` if there are none, or more than one request may bring."""
    if not events:
        raise Invalid(events="no_events")
    most = reader.settings.events_per_batch
    if len(events) > most:
        reason = f"has {len(events):,} events, and one request may bring {most:,}; send several"
        raise Invalid(events="too_many_events", reasons={"events": reason})
    return events


@without_backlog(Unrelated.OWN_INSTANT)
def ingest(work: Work, request: Iterable[object]) -> list[Event]:
    """Ingest any number of events, all or none: `EventInput`s, or mappings with their keys.

    Raises `Invalid`, its details by the position (as text) of each event refused.
    """
    events, problems = _store(work, [_members(item) for item in request])
    if problems:
        raise Invalid({str(position): problems[position] for position in sorted(problems)})
    return events


@dataclass(frozen=True, slots=True)
class Ingested:
    """The outcome of a batch: the events stored, and by position the duplicates and the problems of refused ones."""

    events: Sequence[Event]
    duplicates: Sequence[int]
    problems: Mapping[int, Problems]


def ingest_each(work: Work, request: Sequence[Mapping[str, object]]) -> Ingested:
    """Ingest the valid ones of these events, for sources that cannot send a batch again without the invalid ones.

    An event is a duplicate if its subscription and transaction id are stored already. Several subscriptions may use
    the same transaction id, as in separate batches.
    """
    keys = [event_key(sent) for sent in request]
    waiting = list(range(len(request)))
    events: list[Event] = []
    duplicates: list[int] = []
    problems: dict[int, Problems] = {}
    stored: set[tuple[str, str]] = set()
    while waiting:
        step = next_round(waiting, keys, stored)
        batch = step.batch
        batch_events, refused = _store(work, [request[position] for position in batch])
        for index, problem in refused.items():
            if problem == ALREADY_STORED:
                duplicates.append(batch[index])
            else:
                problems[batch[index]] = problem
        settled = {*step.duplicates, *(batch[index] for index in refused or range(len(batch)))}
        duplicates += step.duplicates
        if not refused:
            events += batch_events
            stored |= {keys[position] for position in batch}
        waiting = [position for position in waiting if position not in settled]
    return Ingested(events, sorted(duplicates), problems)


def _count_today(work: Work, events: int) -> None:
    """Count events that a request brings, if the organization may only send so many a day. Raises `Forbidden`.

    Those of refused requests are not counted: the count is undone with everything else.
    """
    limits = limits_now(work)
    check_events(limits, _events_today(work, limits, events))


def _events_today(work: Work, limits: OrganizationLimits, events: int) -> int:
    """The organization's events of today with these; 0 if it may send any number, and none are counted."""
    if limits.events_per_day is None:
        return 0
    today = work.now.replace(hour=0, minute=0, second=0, microsecond=0)
    return work.tx.count_up(work.organization.id, "events", today, events)


def _members(request: object) -> Mapping[str, object]:
    if isinstance(request, (dict, Mapping)):
        return request
    return changes(request) if isinstance(request, EventInput) else {}


def _store(work: Work, sent: Sequence[Mapping[str, object]]) -> tuple[list[Event], dict[int, Problems]]:
    """The events stored; or, with nothing stored, the problems by position."""
    received = [receive(item, work.now) for item in sent]
    metrics = _metrics(work, {item.code for item in received if not item.problems})
    ids = work.new_ids(len(received))
    events, problems = events_of(received, ids, metrics, organization_id=work.organization.id, now=work.now)
    problems = {**_gone(work, received), **_too_far_ahead(work, received), **problems}
    if not problems:
        repeated = repeated_positions(item.transaction_id for item in received)
        # If there are duplicates, the append is undone, and those stored before are looked up.
        in_advance = {code for code, metric in metrics.items() if _is_billed_in_advance(work, metric)}
        uncounted = uncounted_ids(events, metrics)
        append = partial(work.tx.events.append, events, in_advance=in_advance, uncounted=uncounted)
        stored_before = work.dry_run(lambda _: append()) if repeated else append()
        problems = dict.fromkeys((*repeated, *stored_before), ALREADY_STORED)
    if not problems:
        follow_up(work, events, metrics, in_advance)
    return events, problems


def _gone(reader: Reader, received: Sequence[Received]) -> dict[int, Problems]:
    """By position, the events of periods whose events were removed: whether one was billed then is no longer known."""
    old = {place: event for place, event in enumerate(received) if may_be_gone(reader, event.timestamp)}
    names = {event.external_subscription_id for event in old.values() if event.external_subscription_id is not None}
    if not names:
        return {}
    instants = [event.timestamp for event in old.values()]
    periods = removed_in(reader, names, min(instants), max(instants))
    return {
        place: {"timestamp": ["events_were_removed"]}
        for place, event in old.items()
        if any(period.has_removed(event.external_subscription_id, event.code, event.timestamp) for period in periods)
    }


def _too_far_ahead(reader: Reader, received: Sequence[Received]) -> dict[int, Problems]:
    """By position, the events that lie further ahead of the clock than the settings allow."""
    days = reader.settings.events_ahead_days
    if days is None:
        return {}
    latest = reader.now + timedelta(days=days)
    return {place: {"timestamp": ["too_far_ahead"]} for place, event in enumerate(received) if event.timestamp > latest}


def _metrics(reader: Reader, codes: Iterable[str]) -> dict[str, BillableMetric]:
    return {metric.code: metric for metric in reader.tx.find(BillableMetric, within("code", sorted(codes)))}


# Follow-ups


def follow_up(
    work: Work, events: Sequence[Event], metrics: Mapping[str, BillableMetric], in_advance: Collection[str]
) -> None:
    """Schedule the follow-ups of new events; `metrics` are theirs, by code.

    Charges paid in advance, thresholds and ongoing balances of wallets are processed by jobs at once; alerts are
    and limits are checked some seconds later, and if an endpoint subscribes to it, the events of each hour are checked
    after it.
    """
    if in_advance:
        names = names_by_subscription(events, in_advance)
        if names:
            work.schedule(ProcessEvents(event_id=events[0].id, events=names), work.now)
    progressive_billing.follow_up(work, events)
    ongoing_balances.follow_up(work, events)
    _tell_of_unknown_wallets(work, events, metrics)
    watch_events(work, events, metrics)
    watch_limits(work, events)
    if work.is_heard("events.errors"):
        hour = work.now.replace(minute=0, second=0, microsecond=0) + _HOUR
        work.schedule(CheckReceivedEvents(organization_id=work.organization.id, hour=hour), hour + _CHECKED_AT)


def _tell_of_unknown_wallets(work: Work, events: Sequence[Event], metrics: Mapping[str, BillableMetric]) -> None:
    """Report events for a wallet that the customer does not have: they are billed, but no wallet pays for them."""
    targeted = [event for event in events if event.code in metrics and property_of(event, TARGET_WALLET_KEY)]
    if not targeted or not work.is_heard("event.error"):
        return
    names = {event.external_subscription_id for event in targeted if event.external_subscription_id}
    active = eq("status", SubscriptionStatus.ACTIVE)
    running = {known.external_id: known for known in work.tx.find(Subscription, within("external_id", names), active)}
    for event in targeted:
        subscription = running.get(event.external_subscription_id or "")
        if subscription is None or not _accepts_target_wallet(work, subscription, metrics[event.code]):
            continue
        code = property_of(event, TARGET_WALLET_KEY)
        if all(wallet.code != code for wallet in active_wallets(work, subscription.customer_id)):
            problem = {TARGET_WALLET_KEY: ["target_wallet_code_not_found"]}
            work.emit("event.error", partial(event_error_view, work, event, problem))


def _accepts_target_wallet(reader: Reader, subscription: Subscription, metric: BillableMetric) -> bool:
    charges = plan_definition(reader, subscription.plan_id).charges
    return any(charge.accepts_target_wallet and charge.billable_metric_id == metric.id for charge in charges)


def _is_billed_in_advance(reader: Reader, metric: BillableMetric) -> bool:
    charge = reader.tx.first(Charge, eq("billable_metric_id", metric.id), eq("pay_in_advance", True))
    return charge is not None


def check_received(work: Work, task: CheckReceivedEvents) -> None:
    """Job: report events received in the task's hour that no aggregation can use."""
    metrics = {metric.code: metric for metric in work.tx.find(BillableMetric)}
    problems = received_problems(work.tx.events.received(task.hour - _HOUR, task.hour), metrics)
    if problems:
        errors: EventsErrors = {
            "invalid_code": list(problems.unknown_code),
            "missing_aggregation_property": list(problems.missing_property),
            "missing_group_key": None,
            "invalid_filter_values": list(problems.undeclared_values),
        }
        work.emit("events.errors", lambda: errors)


# Lists


def get(reader: Reader, transaction_id: str) -> Event:
    """The event with this transaction id, the first received if several subscriptions have one. Raises `NotFound`."""
    event = reader.tx.events.get(transaction_id)
    if event is None:
        raise NotFound("event", transaction_id)
    return event


def list_or_unbilled(reader: Reader, options: EventListFilters, paging: Paging) -> Page[Event] | Page[UnbilledEvent]:
    """Events, or only those that are not billed: by timestamp, latest first, then by transaction id."""
    if options.unbilled and options.billed_by_default:
        raise Invalid(billed_by_default="incompatible_params")
    if not options.unbilled and not options.billed_by_default:
        return list_all(reader, options, paging)
    wanted = unbilled_events.UnbilledFilters(
        code=options.code,
        external_subscription_id=options.external_subscription_id,
        timestamp_from=_earliest(reader, options),
        timestamp_to=options.timestamp_to,
    )
    if options.billed_by_default:
        return unbilled_events.list_billed_by_default(reader, wanted, paging)
    return unbilled_events.list_all(reader, wanted, paging)


def list_all(reader: Reader, options: EventFilters, paging: Paging) -> Page[Event]:
    """Events by timestamp, latest first, then by transaction id."""
    event_filter = EventFilter(
        code=options.code or None,
        external_subscription_id=options.external_subscription_id or None,
        timestamp_from=_earliest(reader, options),
        timestamp_to=options.timestamp_to or None,
    )
    offset = (paging.page - 1) * paging.per_page
    items = reader.tx.events.find(event_filter, limit=paging.per_page, offset=offset)
    is_last = len(items) < paging.per_page and (offset == 0 or bool(items))
    count = offset + len(items) if is_last else reader.tx.events.count(event_filter, at_most=MOST_COUNTED + 1)
    return Page(
        items=items,
        page=paging.page,
        per_page=paging.per_page,
        total_count=count if is_last else min(count, MOST_COUNTED),
        total_count_is_exact=is_last or count <= MOST_COUNTED,
    )


def newest(reader: Reader) -> list[Event | UnbilledEvent]:
    """The 25 events received last, the newest first, whatever their timestamps; the unbilled ones with the reason.

    Only the last 10,000 events of the database are looked through, those of all organizations together.
    """
    log = reader.tx.events
    latest = log.latest()
    found: list[tuple[int, Event]] = []
    for reach in _REACHES:
        found = log.stored_since(latest - reach)
        if len(found) >= _NEWEST:
            break
    items: list[Event | UnbilledEvent] = []
    for _, event in reversed(found[-_NEWEST:]):
        reason = why_unbilled(reader, event)
        items.append(event if reason is None else unbilled(reader, event, reason))
    return items


def _earliest(reader: Reader, options: EventFilters) -> datetime | None:
    if not options.timestamp_from_started_at:
        return options.timestamp_from or None
    if not options.external_subscription_id:
        raise Invalid(external_subscription_id="required with timestamp_from_started_at")
    if is_given(options.timestamp_from) and options.timestamp_from is not None:
        raise Invalid(timestamp_from="cannot be used with timestamp_from_started_at")
    latest = reader.tx.first(
        Subscription,
        eq("external_id", options.external_subscription_id),
        present("started_at"),
        order=[desc("started_at")],
    )
    return None if latest is None or latest.started_at is None else cut_to_seconds(latest.started_at)
