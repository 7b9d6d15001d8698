"""Tasks that monitor billing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from usagebill.core.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class CountUnbilledEvents(Task):
    """Once a day, log how many events are not billed, and why. Leased, as counting may take long."""

    kind = "count_unbilled_events"
    subject_field = "organization_id"
    leased = True

    organization_id: str
    # The last count by reason and its instant, shown by monitoring until the next one. None before the first.
    counted: Mapping[str, int] | None = None
    counted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareWithProviders(Task):
    """Once a day, compare payments and refunds with the lists of their providers.

    The last results are shown by monitoring until the next ones: when, and by the connection's code the number of
    differences, or why there was no comparison.
    """

    kind = "compare_with_providers"
    subject_field = "organization_id"
    leased = True

    organization_id: str
    compared_at: datetime | None = None
    differences: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
