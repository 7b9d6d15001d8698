"""Events of charges paid in advance that never got a fee."""

from __future__ import annotations

from collections.abc import Iterator

from usagebill.core.aggregation import counts
from usagebill.core.audit import Finding
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import Event, cut_to_seconds
from usagebill.core.fees import Fee
from usagebill.core.instants import MICROSECOND
from usagebill.core.plans import Charge
from usagebill.core.recounts import is_alone
from usagebill.core.subscriptions import Subscription, bills_at_once_since
from usagebill.core.tasks import ProcessEvents
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq, present
from usagebill.storage.event_queries import EventQuery


def lost_events(reader: Reader, subscription: Subscription) -> Iterator[Finding]:
    """The subscription's events under charges paid in advance that have no fee, not even a deleted one.

    Only events received since the charge last changed are checked, and only those that no other subscription of the
    same id can have been billed for.
    """
    if subscription.started_at is None:
        return
    charges = reader.tx.find(Charge, eq("plan_id", subscription.plan_id), eq("pay_in_advance", True))
    if not charges:
        return
    of_same_id = reader.tx.find(Subscription, eq("external_id", subscription.external_id))
    billed = {
        (fee.charge_id, fee.event_transaction_id)
        for fee in reader.tx.each(
            Fee, eq("subscription_id", subscription.id), present("event_transaction_id"), deleted=True
        )
    }
    for charge in charges:
        metric = reader.tx.get(BillableMetric, charge.billable_metric_id)
        if metric is None:
            continue
        question = EventQuery(
            code=metric.code,
            external_subscription_id=subscription.external_id,
            earliest=cut_to_seconds(subscription.started_at),
            latest=subscription.terminated_at,
        )
        changed = max(charge.created_at, charge.updated_at, metric.updated_at)
        for event in reader.tx.events.scan(question):
            if (
                event.created_at > changed
                and event.created_at >= bills_at_once_since(subscription)
                and (charge.id, event.transaction_id) not in billed
                and counts(metric.aggregation_type, metric.field_name, event)
                and is_alone(of_same_id, subscription, event)
                and not _waits(reader, event)
            ):
                yield Finding(
                    check="fee_missing",
                    subject=f"subscription {subscription.external_id}",
                    subject_id=subscription.id,
                    detail=f"fee of event {event.transaction_id} ({metric.code}, charge {charge.code})",
                    expected="a fee in advance",
                    found="none",
                )


def _waits(reader: Reader, event: Event) -> bool:
    """Whether the job for the events received with this one is still pending; failed jobs are listed elsewhere."""
    together = reader.tx.events.received(event.created_at, event.created_at + MICROSECOND)
    return any(reader.tx.jobs.waiting(ProcessEvents.kind, received.id) is not None for received in list(together))
