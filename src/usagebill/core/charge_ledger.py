"""Usage stored between periods and between events, for each charge, filter and group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """The state of a pay-in-advance charge after an event (`core.aggregation.LedgerRow`), by filter and group."""

    id: str
    organization_id: str
    subscription_id: str
    charge_id: str
    charge_filter_id: str | None
    group: str
    event_id: str
    timestamp: datetime
    event_created_at: datetime
    current: Decimal
    maximum: Decimal
    maximum_prorated: Decimal
    created_at: datetime
    updated_at: datetime
    paid_events: int = 0


def group_text(grouped_by: Mapping[str, str | None]) -> str:
    """A group as text; equal groups have equal texts."""
    return json.dumps(sorted(grouped_by.items()))


def group_pairs(text: str) -> dict[str, str | None]:
    """The group from which `group_text` made `text`."""
    return dict(json.loads(text))
