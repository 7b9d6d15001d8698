"""Starts in the past: what the time before the creation of a subscription is billed at once, as `bill_from` wishes."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from usagebill.core.contracts import Contract
from usagebill.core.errors import Invalid
from usagebill.core.events import Event, cut_to_seconds
from usagebill.core.invoice_triggers import Trigger
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.limits import MOST_PAST_EVENTS, MOST_PAST_RUNS
from usagebill.core.past_starts import TooManyRuns, open_since, past_billings
from usagebill.core.subscriptions import BillFrom
from usagebill.operations.invoices.charges_in_advance import bill_event
from usagebill.operations.invoices.subscription import bill
from usagebill.operations.subscriptions.schedule import schedule
from usagebill.operations.subscriptions.start import bill_start
from usagebill.operations.subscriptions.trial import bill_trial_end, pass_trial
from usagebill.queries.contracts import refreshed
from usagebill.queries.plans import plan_definition
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.rating.invoice import Entry
from usagebill.runtime.work import Reader, Work
from usagebill.storage.event_queries import EventQuery


def bill_past(work: Work, contract: Contract) -> Contract:
    """Bill what a subscription that has just been started in the past owes until now, as its `bill_from` says.

    Invoices are issued today, one for each billing day. Usage paid in advance is billed in between, event by event.
    Raises `Invalid` if that is too much for one request.
    """
    subscription = contract.subscription
    started_at, bill_from = subscription.started_at, subscription.bill_from
    if started_at is None or bill_from is BillFrom.NOW:
        return contract
    trial_end = end_of_trial(work, subscription, contract.plan.trial_period)
    try:
        billings = past_billings(contract.cycle(), work.now, bill_from=bill_from, trial_end=trial_end)
    except TooManyRuns as problem:
        reason = f"it is more than {MOST_PAST_RUNS} billing days in the past, which are billed at once: start it later"
        raise Invalid(subscription_at="value_is_out_of_range", reasons={"subscription_at": reason}) from problem
    since = started_at if bill_from is BillFrom.START else open_since(contract.cycle(), work.now)
    events = _paid_in_advance(work, contract, since)
    for billing in billings:
        while billing.trigger is not Trigger.START and events and events[0].timestamp < billing.at:
            bill_event(work, events.pop(0))
        if billing.trigger is Trigger.START:
            bill_start(work, contract, at=billing.at, dated=work.now)
        elif billing.trigger is Trigger.TRIAL_END:
            contract = bill_trial_end(work, contract, billing.at, at=billing.at, dated=work.now)
        else:
            entries = [Entry(contract=contract, reason=InvoicingReason.PERIODIC)]
            bill(work, entries, at=billing.at, trigger=Trigger.RUN, dated=work.now)
        contract = refreshed(work, contract)
    for event in events:
        bill_event(work, event)
    if trial_end is not None and trial_end <= work.now and contract.subscription.trial_ended_at is None:
        contract = pass_trial(work, contract, trial_end)
    schedule(work, contract)
    return contract


def _paid_in_advance(reader: Reader, contract: Contract, since: datetime) -> list[Event]:
    """The stored events from `since` on that the plan's charges in advance may price, in order of time."""
    definition = plan_definition(reader, contract.plan.id, contract.plan)
    codes = {
        definition.metrics[charge.billable_metric_id].code for charge in definition.charges if charge.pay_in_advance
    }
    external_id = contract.subscription.external_id
    events: list[Event] = []
    for code in sorted(codes):
        question = EventQuery(code=code, external_subscription_id=external_id, earliest=cut_to_seconds(since))
        events += islice(reader.tx.events.scan(question), MOST_PAST_EVENTS + 1)
    if len(events) > MOST_PAST_EVENTS:
        reason = f"more than {MOST_PAST_EVENTS:,} events would be paid in advance at once: send them once it is created"
        raise Invalid(bill_from="too_many_events", reasons={"bill_from": reason})
    return sorted(events, key=lambda event: event.order)
