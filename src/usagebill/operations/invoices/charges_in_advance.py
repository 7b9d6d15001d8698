"""Usage charges paid in advance: a fee per event, on its own invoice or, if not invoiceable, on none.

The price of an event depends on the events received before it, so neither later events nor late processing change it.
"""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.invoice_triggers import Trigger, of_event
from usagebill.core.periods.schedule import awaited_run
from usagebill.core.running_usage import RunningValue
from usagebill.core.subscriptions import Subscription, subscription_at
from usagebill.core.tasks import ProcessEvents
from usagebill.operations.backlog import catch_up_before, of_named_subscriptions
from usagebill.operations.invoices.record import record
from usagebill.operations.invoices.standalone_fees import keep_standalone
from usagebill.queries.events import events_of
from usagebill.queries.plans import plan_definition
from usagebill.queries.takeovers import takeovers
from usagebill.rating.events import advance_charges, event_price, ledger_entry
from usagebill.rating.fees.in_advance import advance_fee, event_billing
from usagebill.rating.invoice import event_bill
from usagebill.rating.running_usage import BroughtForward, Kept
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq


def process_events(work: Work, task: ProcessEvents) -> None:
    """Job: bill stored events under charges paid in advance, in the order of their timestamps.

    What else its customers' bills are made of and was due earlier comes first: an overdue run, start, plan change or
    end, and events received before these. Events since the midnight of a downgrade wait for the run that applies it.
    """
    _process(work, events_of(work, task))


def process_events_apart(work: Work, task: ProcessEvents) -> None:
    """Job: `process_events` after a failure. Each subscription's events get a job of their own, so that one failing
    subscription does not hold up others.
    """
    events = events_of(work, task)
    if not _split(work, events):
        _process(work, events)


def _process(work: Work, events: Sequence[Event]) -> None:
    if work.tx.jobs.overdue(None, work.now) is not None:
        names = {event.external_subscription_id for event in events if event.external_subscription_id is not None}
        customer_ids = of_named_subscriptions(work, names)
        catch_up_before(work, customer_ids)
    for event in _without_waiting(work, events):
        bill_event(work, event)


def _without_waiting(work: Work, events: Sequence[Event]) -> list[Event]:
    """The events that can be billed now. Those of a successor that is still pending are billed after its run."""
    names = [event.external_subscription_id for event in events if event.external_subscription_id is not None]
    begins = {due.current.external_id: due.at for due in takeovers(work, names)}
    ready: list[Event] = []
    waiting: dict[str, list[Event]] = {}
    for event in events:
        name = event.external_subscription_id
        if name is not None and name in begins and event.timestamp >= begins[name]:
            waiting.setdefault(name, []).append(event)
        else:
            ready.append(event)
    for name, together in waiting.items():
        task = ProcessEvents(event_id=together[0].id, events={name: tuple(event.transaction_id for event in together)})
        work.schedule(task, awaited_run(begins[name], work.now))
    return ready


def _split(work: Work, events: Sequence[Event]) -> bool:
    """Schedule one job per subscription; False if all events are of one."""
    by_subscription: dict[str, list[Event]] = {}
    for event in events:
        if event.external_subscription_id is not None:
            by_subscription.setdefault(event.external_subscription_id, []).append(event)
    if len(by_subscription) < 2:
        return False
    for name, together in by_subscription.items():
        names = {name: tuple(event.transaction_id for event in together)}
        work.schedule(ProcessEvents(event_id=together[0].id, events=names), work.now)
    return True


def bill_event(work: Work, event: Event) -> list[Fee]:
    """Bill `event` once under every charge paid in advance that prices it (idempotent).

    An event is not billed if no subscription was active at its timestamp.
    """
    if event.external_subscription_id is None:
        return []
    subscriptions = work.tx.find(Subscription, eq("external_id", event.external_subscription_id))
    subscription = subscription_at(subscriptions, event.timestamp, event.created_at)
    if subscription is None:
        return []
    if not advance_charges(plan_definition(work, subscription.plan_id), event):
        return []
    billing = event_billing(work, subscription, event.timestamp)
    definition = billing.definition
    charges = advance_charges(definition, event)
    billed = _billed_charges(work, event)
    fees: list[Fee] = []
    for charge in charges:
        if charge.id in billed:
            continue
        metric = definition.metrics[charge.billable_metric_id]
        priced = event_price(
            work,
            charge,
            metric,
            event,
            billing.window,
            currency=definition.plan.amount_currency,
            subscription=subscription,
            from_running_usage=True,
        )
        if priced.brought_forward is not None:
            _keep(work, priced.brought_forward)
        if of_event(invoiceable=charge.invoiceable, regroup_paid_fees=charge.regroup_paid_fees) is Trigger.EVENT:
            owed = event_bill(work, billing, priced, event)
            record(work, owed)
            fees += owed.fees
            continue
        entry = ledger_entry(work, priced, event, subscription.id)
        if entry is not None:
            work.tx.insert(entry)
        fees.append(keep_standalone(work, advance_fee(work, billing, priced, event)))
    return fees


def _keep(work: Work, brought_forward: BroughtForward) -> None:
    """Store the running usage after an event, replacing the previous one."""
    front, former_front = brought_forward.front, brought_forward.former_front
    if front is not None:
        if former_front is not None and former_front.id == front.id:
            work.tx.replace(front)
        else:
            if former_front is not None:
                work.tx.delete(former_front)
            work.tx.insert(front)
    for kept in brought_forward.kept:
        _keep_usage(work, kept)


def _keep_usage(work: Work, kept: Kept) -> None:
    if kept.is_fresh:
        if kept.former is not None:
            work.tx.delete(kept.former, *work.tx.find(RunningValue, eq("running_usage_id", kept.former.id)))
        work.tx.insert(kept.usage, *kept.values)
        return
    work.tx.replace(kept.usage)
    for value in kept.values:
        if value.id in kept.former_values:
            work.tx.replace(value)
        else:
            work.tx.insert(value)


def _billed_charges(reader: Reader, event: Event) -> set[str | None]:
    """The ids of charges that already have a fee for the event, deleted or not."""
    fees = reader.tx.find(
        Fee,
        eq("event_transaction_id", event.transaction_id),
        eq("external_subscription_id", event.external_subscription_id),
        deleted=True,
    )
    return {fee.charge_id for fee in fees}
