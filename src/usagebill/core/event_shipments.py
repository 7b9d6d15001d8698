"""Event shipments: how far the events of an organization have been sent on to an event store beside the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["EventShipment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventShipment:
    """How far one event store has an organization's events, by their places in the order of storing.

    Everything up to `shipped_to` is there. The block behind it, up to `sending_to`, may be there in part: it is sent
    again until it is acknowledged. `last_block` is where the last block ended that had events of the organization.
    `generation` goes up when everything is sent again from the start. Questions are put to the event store while
    `is_read`, and while there is no `fault`, which says in words why what is there cannot be believed.
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
