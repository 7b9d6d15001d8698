"""Events: by transaction id."""

from __future__ import annotations

from usagebill.core.events import Event
from usagebill.core.tasks import ProcessEvents
from usagebill.runtime.work import Reader


def events_of(reader: Reader, task: ProcessEvents) -> list[Event]:
    """The task's events, by timestamp."""
    events: list[Event] = []
    for external_subscription_id, transaction_ids in task.events.items():
        events.extend(reader.tx.events.named(external_subscription_id, transaction_ids))
    return sorted(events, key=lambda event: event.order)
