"""Comparison of an event store with the database, by subscription, code and day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from usagebill.storage.clickhouse.rows import FINGERPRINT, fingerprint
from usagebill.storage.clickhouse.servers import EventServers
from usagebill.storage.clickhouse.shipping import BLOCK
from usagebill.storage.ports import Snapshot
from usagebill.storage.sqlite.events.rows import microseconds

__all__ = ["Difference", "differences"]

_DAY: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC).date()
_Key = tuple[str | None, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Events of one external subscription id, code and day (UTC) that are not the same on both sides."""

    external_subscription_id: str | None
    code: str
    day: date
    database_count: int
    event_store_count: int


def differences(tx: Snapshot, servers: EventServers, organization_id: str, shipped_to: int) -> Iterator[Difference]:
    """Where the events up to `shipped_to` differ, in number or content.

    Every event is read on both sides and sums of 64-bit fingerprints are compared, so that differences in several
    events stay unnoticed with a probability of 1 in 2**64.
    """
    here: dict[_Key, tuple[int, int]] = {}
    place = 0
    while block := tx.events.stored_since(place, shipped_to, at_most=BLOCK):
        for sequence, event in block:
            key = (event.external_subscription_id, event.code, microseconds(event.timestamp) // _DAY)
            count, total = here.get(key, (0, 0))
            here[key] = count + 1, total + fingerprint(sequence, event)
        place = block[-1][0]
    there: dict[_Key, tuple[int, int]] = {}
    for shard in servers.shards:
        rows = shard.rows(
            "SELECT has_subscription, external_subscription_id, code, toInt64(floor(timestamp / 86400000000)) AS day,"
            f" count(), toString(sum(toUInt128({FINGERPRINT}))) FROM {shard.table('events')} FINAL"
            f" WHERE organization_id = '{organization_id}' AND sequence <= {shipped_to}"
            " GROUP BY has_subscription, external_subscription_id, code, day"
        )
        for has_subscription, name, code, day, count, total in rows:
            there[name if has_subscription else None, code, day] = count, int(total)
    for key in sorted({*here, *there}, key=lambda key: (key[0] or "", key[1], key[2])):
        if here.get(key) != there.get(key):
            yield Difference(
                external_subscription_id=key[0],
                code=key[1],
                day=_EPOCH + timedelta(days=key[2]),
                database_count=here.get(key, (0, 0))[0],
                event_store_count=there.get(key, (0, 0))[0],
            )
