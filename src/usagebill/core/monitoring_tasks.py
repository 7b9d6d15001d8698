"""Tasks that monitor billing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usagebill.core.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class CountUnbilledEvents(Task):
    """Once a day, log how many events are not billed, and why. Leased, as counting may take long."""

    kind = "count_unbilled_events"
    subject_field = "organization_id"
    leased = True

    organization_id: str
    # The last count by reason, shown by monitoring until the next one. None before the first.
    counted: Mapping[str, int] | None = None
