"""Tasks that watch over what is billed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usagebill.core.tasks import Task

__all__ = ["CountUnbilledEvents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountUnbilledEvents(Task):
    """Once a day, the log says how many events are not billed, and why. Leased, as counting may take long."""

    kind = "count_unbilled_events"
    subject_field = "organization_id"
    leased = True

    organization_id: str
    # What the last count came to, by reason: what monitoring shows until the next one. None before the first.
    counted: Mapping[str, int] | None = None
