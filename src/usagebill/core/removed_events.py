"""Removed events: what is kept of the events of a billed period once they are removed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

from usagebill.core.events import Event, numeric_value
from usagebill.core.numbers import ZERO, add


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedEvents:
    """The events with one code that a billing period counted: how many were removed, the `total` of their numbers and a
    `digest` of them all. `field_name` is the property that has the number, None for events that are only counted.

    `fees` is the digest of the period's lines that were counted from them (`core.recounts.fees_digest`).
    """

    code: str
    fees: str
    field_name: str | None = None
    events_count: int = 0
    total: Decimal = ZERO
    digest: str = ""


def with_removed(series: RemovedEvents, events: Iterable[Event]) -> RemovedEvents:
    """The series after the removal of further events, in order of time."""
    for event in events:
        number = None if series.field_name is None else numeric_value(event, series.field_name)
        series = replace(
            series,
            events_count=series.events_count + 1,
            total=series.total if number is None else add(series.total, number),
            digest=hashlib.sha256(series.digest.encode() + event_text(event).encode()).hexdigest(),
        )
    return series


def event_text(event: Event) -> str:
    """An event as text, of which the digest is made: the same whatever engine kept it."""
    return json.dumps(
        [
            event.transaction_id,
            event.code,
            event.external_subscription_id,
            event.timestamp.isoformat(),
            event.created_at.isoformat(),
            event.properties,
            event.precise_total_amount_cents,
        ],
        sort_keys=True,
        default=str,
    )
