"""Events: by transaction id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from usagebill.core.events import Event
from usagebill.core.jobs import Job
from usagebill.work import Reader

__all__ = ["events_of"]


def events_of(reader: Reader, job: Job) -> list[Event]:
    """The events that a `process_events` job is about, in order of time."""
    found: list[Event] = []
    names: Mapping[str, Sequence[str]] = job.payload["events"]  # type: ignore[assignment]
    for external_subscription_id, transaction_ids in names.items():
        found.extend(reader.tx.events.named(external_subscription_id, transaction_ids))
    return sorted(found, key=lambda event: event.order)
