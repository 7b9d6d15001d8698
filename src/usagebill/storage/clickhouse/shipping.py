"""Shipping: an organization's events are sent to the event store in blocks, in the order of their sequence numbers.

The end of a block is stored before it is sent, so that a retry sends the same block. The position up to which the event
store has everything (`EventShipment.shipped_to`) advances once all servers have acknowledged the block. Blocks have a
token and events their sequence numbers, so that duplicates count once.
"""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import msgspec

from usagebill.core.event_shipments import EventShipment
from usagebill.core.events import Event
from usagebill.core.organizations import Organization
from usagebill.process.logs import Log
from usagebill.storage.clickhouse.rows import lines_of
from usagebill.storage.clickhouse.servers import EventServers
from usagebill.storage.conditions import eq
from usagebill.storage.ports import Snapshot, Store, Transaction

_log = Log("usagebill.events")

BLOCK: Final = 20_000
# Longer than a server may take for a block. If a lease does end early, the same block is sent twice.
_LEASE: Final = timedelta(minutes=5)
# Once this many events of other organizations follow, which share the sequence, the position moves past them.
_OF_OTHERS: Final = 10_000


# Who sends which block.
_block_of = attrgetter("leased_by", "generation", "shipped_to", "sending_to")


def shipment_in(tx: Snapshot, event_store_id: str) -> EventShipment | None:
    """The state of shipping of the snapshot's organization; None if nothing was shipped."""
    return tx.first(EventShipment, eq("event_store_id", event_store_id))


class Shipping:
    """Sends the events of `records` to the servers."""

    def __init__(self, records: Store, servers: EventServers) -> None:
        self._records = records
        self._servers = servers
        self._name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4()}"

    def _now(self) -> datetime:
        clock = self._records.now
        return datetime.now(UTC) if clock is None else clock()

    def organizations(self) -> list[str]:
        return [organization.id for organization in self._records.read(None, lambda tx: tx.find(Organization))]

    def ship(self, organization_id: str) -> bool:
        """Send the next block of the organization's events, or finish the previous one; returns whether there was one.

        Raises `Unreachable` if a server does not acknowledge the block, which is then sent again next time.
        """
        if not self._records.read(organization_id, self._is_behind):
            return False
        taken = self._records.write(organization_id, self._lease)
        if taken is None:
            return False
        leased, is_repeated = taken
        fault = self._fault(leased, is_repeated=is_repeated)
        if fault is not None:
            _log.error("event_store_not_believed", organization=organization_id, fault=fault)
            self._records.write(organization_id, lambda tx: self._change(tx, leased, fault=fault, leased_until=None))
            return False
        block = self._records.read(
            organization_id,
            lambda tx: tx.events.stored_since(leased.shipped_to, up_to=leased.sending_to, at_most=BLOCK),
        )
        if block:
            self._send(leased, block)
        end = leased.sending_to
        arrived = {"shipped_to": end, "last_block": end if block else leased.last_block, "leased_until": None}
        self._records.write(organization_id, lambda tx: self._change(tx, leased, **arrived))
        return True

    def _is_behind(self, tx: Transaction) -> bool:
        shipment = shipment_in(tx, self._servers.id)
        if shipment is None:
            return True
        if shipment.fault is not None or (shipment.leased_until is not None and shipment.leased_until > self._now()):
            return False
        if shipment.sending_to > shipment.shipped_to or tx.events.latest() - shipment.shipped_to >= _OF_OTHERS:
            return True
        return bool(tx.events.stored_since(shipment.shipped_to, at_most=1))

    def _lease(self, tx: Transaction) -> tuple[EventShipment, bool] | None:
        """The shipment with the end of its next block, and whether that block may have been sent before; None if
        another process has the lease, or if there is nothing to send.
        """
        now = self._now()
        shipment = shipment_in(tx, self._servers.id)
        if shipment is None:
            shipment = EventShipment(
                id=str(uuid.uuid4()),
                organization_id=tx.organization_id or "",
                event_store_id=self._servers.id,
                # If there are events already, an operator compares both sides first.
                is_read=not tx.events.stored_since(0, at_most=1),
                created_at=now,
                updated_at=now,
            )
            tx.insert(shipment)
        if shipment.leased_until is not None and shipment.leased_until > now:
            return None
        is_repeated = shipment.sending_to > shipment.shipped_to
        if not is_repeated:
            latest = tx.events.latest()
            block = tx.events.stored_since(shipment.shipped_to, up_to=latest, at_most=BLOCK)
            end = block[-1][0] if len(block) == BLOCK else latest
            if end <= shipment.shipped_to:
                return None
            shipment = replace(shipment, sending_to=end)
        shipment = replace(shipment, leased_by=self._name, leased_until=now + _LEASE, updated_at=now)
        tx.replace(shipment)
        return shipment, is_repeated

    def _change(self, tx: Transaction, leased: EventShipment, **changes: Any) -> None:
        """Update the stored shipment, unless another process has continued it meanwhile."""
        shipment = shipment_in(tx, self._servers.id)
        if shipment is not None and _block_of(shipment) == _block_of(leased):
            tx.replace(replace(shipment, **changes, updated_at=self._now()))

    def _fault(self, shipment: EventShipment, *, is_repeated: bool) -> str | None:
        """A description of how the servers' contents differ from the shipped events; None if no difference shows."""
        for number, shard in enumerate(self._servers.shards, start=1):
            rows = shard.rows(
                f"SELECT max(last) FROM {shard.table('blocks')} WHERE organization_id = '{shipment.organization_id}'"
                f" AND generation = {shipment.generation}"
            )
            last = int(rows[0][0])
            found = f"server {number} of {len(self._servers.shards)} has blocks up to place {last}"
            if last < shipment.last_block:
                return f"{found} only, and had them up to {shipment.last_block}: part of what it held is gone"
            if last > shipment.last_block and not (is_repeated and last == shipment.sending_to):
                return (
                    f"{found}, and was sent them up to {shipment.last_block}: the database is an older state of itself,"
                    " or another copy of it sends events too"
                )
        return None

    def _send(self, shipment: EventShipment, block: list[tuple[int, Event]]) -> None:
        generation, end = shipment.generation, shipment.sending_to
        token = f"{shipment.id}/{generation}/{shipment.shipped_to}/{end}"
        mark = {"organization_id": shipment.organization_id, "generation": generation, "last": end}
        parts: list[list[tuple[int, Event]]] = [[] for _ in self._servers.shards]
        for sequence, event in block:
            number = self._servers.number_of(event.organization_id, event.external_subscription_id)
            parts[number].append((sequence, event))
        for shard, part in zip(self._servers.shards, parts, strict=True):
            # First, so that no event arrives without its block.
            shard.insert("blocks", msgspec.json.encode(mark))
            if part:
                shard.insert("events", lines_of(part), insert_deduplication_token=token)

    def begin_again(self, organization_id: str) -> None:
        """Delete the organization's events from the servers, and ship everything again."""

        def reset(tx: Transaction) -> None:
            shipment = shipment_in(tx, self._servers.id)
            if shipment is not None:
                anew = EventShipment(
                    id=shipment.id,
                    organization_id=organization_id,
                    event_store_id=shipment.event_store_id,
                    # So that tokens differ from those of the deleted blocks, which servers remember.
                    generation=shipment.generation + 1,
                    created_at=shipment.created_at,
                    updated_at=self._now(),
                )
                tx.replace(anew)

        # From here on nothing is read from the servers, and a block that is being sent will not be accepted.
        self._records.write(organization_id, reset)
        for shard in self._servers.shards:
            for table in ("events", "blocks"):
                shard.run(
                    f"ALTER TABLE {shard.table(table)} DELETE WHERE organization_id = '{organization_id}'",
                    mutations_sync=2,
                )

    def read_from(self, organization_id: str, *, event_store: bool) -> None:
        """Choose whether the event store or the database counts. LookupError if nothing was shipped yet."""

        def switch(tx: Transaction) -> None:
            shipment = shipment_in(tx, self._servers.id)
            if shipment is None:
                raise LookupError("no event of this organization has been sent to the event store yet")
            tx.replace(replace(shipment, is_read=event_store, updated_at=self._now()))

        self._records.write(organization_id, switch)
