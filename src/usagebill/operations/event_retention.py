"""Retention of events: those of billed periods are removed once nothing counts them again, by a job or a command.

What a period's bill was counted from stays with the period: the number, sum and digest of the removed events, and a
digest of the lines, which were recounted from them at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.counted_usage import CountedCharge
from usagebill.core.errors import NotAllowed
from usagebill.core.event_retention import COUNTING, Billed, months_before, removable_codes, settled_with
from usagebill.core.event_shipments import EventShipment
from usagebill.core.events import Event, cut_to_seconds
from usagebill.core.fees import Fee
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.organizations import Organization
from usagebill.core.plans import Charge
from usagebill.core.recounts import fees_digest
from usagebill.core.removed_events import RemovedEvents, with_removed
from usagebill.core.subscriptions import Subscription
from usagebill.core.tasks import RemoveEvents
from usagebill.process.logs import Log
from usagebill.rating.recounts import Recounts, recounted
from usagebill.rating.recounts.periods import counted_from
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, less, more, present, within
from usagebill.storage.event_queries import EventQuery

# Events that one transaction removes, so that nobody waits long for it.
_TOGETHER = 2_000
_DAY = timedelta(days=1)
_log = Log("usagebill.events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """How far a removal is: the periods that ended before `before`, in the order of their ends, up to `since`, and of
    that very instant those up to the period `after`. So many events were `removed`.

    Periods whose events a bill may still need are `kept`; the next removal begins before the first of them, at `again`.
    """

    before: datetime
    since: datetime | None = None
    after: str = ""
    removed: int = 0
    kept: int = 0
    again: datetime | None = None
    is_done: bool = False


def begin(reader: Reader, months: int, since: datetime | None = None, after: str = "") -> Removal:
    """A removal of the events of billed periods that ended that many months ago. Raises `NotAllowed` if an event store
    has the events too, and would count them still.
    """
    if reader.tx.count(EventShipment):
        raise NotAllowed("events_are_shipped")
    return Removal(before=months_before(reader.now, months), since=since, after=after)


def go_on(work: Work, removal: Removal) -> Removal:
    """Do the next step of a removal: the next period, or some events of a large one."""
    period = _next(work, removal)
    if period is None:
        if removal.removed:
            work.tx.events.rebuild_states()
        return replace(removal, is_done=True)
    if period.events_removed_at is None:
        marked = _marked(work, period)
        if marked is None:
            again = removal.again or removal.since or _before(period)
            return _past(replace(removal, kept=removal.kept + 1, again=again), period)
        for other in marked:
            work.tx.replace(other)
        period = next((other for other in marked if other.id == period.id), period)
    events = _some_events(work, period)
    if not events:
        return _past(removal, period)
    work.tx.events.remove(period.external_subscription_id, [event.transaction_id for event in events])
    for other in _of_window(work, period):
        work.tx.replace(replace(other, removed=tuple(_with(series, events) for series in other.removed)))
    return replace(removal, removed=removal.removed + len(events))


def _before(period: BillingPeriod) -> datetime | None:
    return None if period.charges_to_datetime is None else period.charges_to_datetime - MICROSECOND


def _past(removal: Removal, period: BillingPeriod) -> Removal:
    return replace(removal, since=period.charges_to_datetime, after=period.id)


def _with(series: RemovedEvents, events: list[Event]) -> RemovedEvents:
    return with_removed(series, [event for event in events if event.code == series.code])


def _next(reader: Reader, removal: Removal) -> BillingPeriod | None:
    counting = within("invoicing_reason", COUNTING)
    found = None
    if removal.since is not None:
        same = eq("charges_to_datetime", removal.since), more("id", removal.after)
        found = reader.tx.first(BillingPeriod, counting, *same, order=[asc("id")])
    if found is None:
        later = () if removal.since is None else (more("charges_to_datetime", removal.since),)
        order = [asc("charges_to_datetime"), asc("id")]
        before = less("charges_to_datetime", removal.before)
        found = reader.tx.first(BillingPeriod, counting, before, *later, order=order)
    return found


def _of_window(reader: Reader, period: BillingPeriod) -> list[BillingPeriod]:
    """The periods of the same subscription and window that were marked with this one."""
    return reader.tx.find(
        BillingPeriod,
        eq("external_subscription_id", period.external_subscription_id),
        eq("charges_from_datetime", period.charges_from_datetime),
        eq("charges_to_datetime", period.charges_to_datetime),
        present("events_removed_at"),
    )


def _marked(reader: Reader, period: BillingPeriod) -> list[BillingPeriod] | None:
    """The periods that counted the same window, marked as those whose events are removed: none if nothing can be. None
    while a bill may still need them, or if their lines are not what the events come to.
    """
    name = period.external_subscription_id
    others = reader.tx.find(BillingPeriod, eq("external_subscription_id", name), within("invoicing_reason", COUNTING))
    invoices = {
        invoice.id: invoice
        for invoice in reader.tx.find(Invoice, within("id", sorted({other.invoice_id for other in others})))
    }
    counting = settled_with(
        period,
        [Billed(other, invoices[other.invoice_id].status) for other in others if other.invoice_id in invoices],
        reader.tx.find(Subscription, eq("external_id", name)),
    )
    if not counting:
        return None
    codes = removable_codes(counting, _needed(reader, counting))
    marked = []
    for other in counting if codes else ():
        invoice = invoices[other.invoice_id]
        fees = reader.tx.find(Fee, eq("invoice_id", invoice.id))
        periods = reader.tx.find(BillingPeriod, eq("invoice_id", invoice.id))
        if next(recounted(reader, invoice, fees, periods, Recounts()), None) is not None:
            _log.warning("events_kept", invoice=invoice.number, reason="its lines are not what its events come to")
            return None
        own = [fee for fee in fees if fee.subscription_id == other.subscription_id]
        removed = tuple(
            RemovedEvents(
                code=code, field_name=_field(counting, code), fees=fees_digest(counted_from(other, code, own))
            )
            for code in codes
        )
        marked.append(replace(other, events_removed_at=reader.now, removed=removed))
    return marked


def _charges(periods: Sequence[BillingPeriod]) -> list[CountedCharge]:
    return [charge for period in periods if period.counted is not None for charge in period.counted.charges]


def _field(periods: Sequence[BillingPeriod], code: str) -> str | None:
    return next((charge.field_name for charge in _charges(periods) if charge.code == code), None)


def _needed(reader: Reader, periods: Sequence[BillingPeriod]) -> set[str]:
    """The codes of metrics that are recurring, or billed in advance, by now."""
    needed = set()
    codes = sorted({charge.code for charge in _charges(periods)})
    for metric in reader.tx.find(BillableMetric, within("code", codes)):
        in_advance = eq("billable_metric_id", metric.id), eq("pay_in_advance", True)
        if metric.recurring or reader.tx.first(Charge, *in_advance) is not None:
            needed.add(metric.code)
    return needed


def _some_events(reader: Reader, period: BillingPeriod) -> list[Event]:
    """The next events of the period to remove, in order of time: of those that its bill knew, without the newest of
    all, whose number would be given again.
    """
    start, end, counted = period.charges_from_datetime, period.charges_to_datetime, period.counted
    if start is None or end is None or counted is None:
        return []
    newest = {event.id for _, event in reader.tx.events.stored_since(reader.tx.events.latest() - 1)}
    for series in period.removed:
        question = EventQuery(
            code=series.code,
            external_subscription_id=period.external_subscription_id,
            earliest=cut_to_seconds(start),
            latest=end,
            known_at=counted.known_at,
        )
        there = (event for event in reader.tx.events.scan(question) if event.id not in newest)
        if events := [*islice(there, _TOGETHER)]:
            return events
    return []


# The job


def schedule(work: Work) -> None:
    """Schedule the removal by the organization's setting, from the beginning; none without one."""
    task = RemoveEvents(organization_id=work.organization.id)
    work.cancel(task)
    if _months(work) is not None:
        work.schedule(task, work.now)


def _months(reader: Reader) -> int | None:
    organization = reader.tx.get(Organization, reader.organization.id)
    return None if organization is None else organization.event_retention_months


def remove(work: Work, task: RemoveEvents) -> None:
    """Job: remove events by the organization's setting, step by step, and a day later those of what has ended since."""
    months = _months(work)
    if months is None:
        return
    removal = begin(work, months, task.since, task.after)
    if task.before is not None:
        removal = replace(removal, before=task.before, removed=task.removed, again=task.again)
    removal = go_on(work, removal)
    if removal.is_done:
        since, after = (removal.since, removal.after) if removal.again is None else (removal.again, "")
        work.schedule(RemoveEvents(organization_id=task.organization_id, since=since, after=after), work.now + _DAY)
        return
    further = RemoveEvents(
        organization_id=task.organization_id,
        before=removal.before,
        since=removal.since,
        after=removal.after,
        removed=removal.removed,
        again=removal.again,
    )
    work.schedule(further, work.now)
