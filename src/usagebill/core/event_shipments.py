"""Event shipments: how far an organization's events have been sent to an event store beside the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EventShipment:
    """How far one event store has an organization's events, by their positions in storing order.

    Everything up to `shipped_to` is there. The block behind it, up to `sending_to`, may have arrived in part: it is
    resent until it is acknowledged. `last_block` is the end of the last block with events of the organization.
    `generation` increases when everything is resent from the start. The event store is queried while `is_read` is set
    and there is no `fault`, a text that says why its content cannot be trusted.
    """

    id: str
    organization_id: str
    event_store_id: str
    shipped_to: int = 0
    sending_to: int = 0
    last_block: int = 0
    generation: int = 0
    is_read: bool = False
    fault: str | None = None
    leased_by: str | None = None
    leased_until: datetime | None = None
    created_at: datetime
    updated_at: datetime
