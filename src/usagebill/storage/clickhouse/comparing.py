"""Comparison of an event store with the database: events by subscription, code and day, and usage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from usagebill.core.aggregation import AggregateResult
from usagebill.core.billable_metrics import BillableMetric
from usagebill.storage.clickhouse.answers import ANSWERED, counted
from usagebill.storage.clickhouse.rows import FINGERPRINT, fingerprint
from usagebill.storage.clickhouse.servers import EventServers
from usagebill.storage.clickhouse.shipping import BLOCK
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.event_rows import microseconds
from usagebill.storage.ports import Snapshot
from usagebill.storage.sql.counting import results_of_all

_DAY: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC).date()
_WAITING_AT_MOST: Final = 50_000
_Key = tuple[str | None, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The events of an external subscription id, code and day (UTC), if they differ."""

    external_subscription_id: str | None
    code: str
    day: date
    database_count: int
    event_store_count: int


def differences(tx: Snapshot, servers: EventServers, organization_id: str, shipped_to: int) -> Iterator[Difference]:
    """The differences among the events up to `shipped_to`, in number or content.

    Every event is read on both sides, and sums of 64-bit fingerprints are compared: differences in several events stay
    unnoticed with a probability of 1 in 2**64.
    """
    in_database: dict[_Key, tuple[int, int]] = {}
    place = 0
    while block := tx.events.stored_since(place, up_to=shipped_to, at_most=BLOCK):
        for sequence, event in block:
            key = (event.external_subscription_id, event.code, microseconds(event.timestamp) // _DAY)
            count, total = in_database.get(key, (0, 0))
            in_database[key] = count + 1, total + fingerprint(sequence, event)
        place = block[-1][0]
    in_event_store: dict[_Key, tuple[int, int]] = {}
    for shard in servers.shards:
        rows = shard.rows(
            "SELECT has_subscription, external_subscription_id, code, toInt64(floor(timestamp / 86400000000)) AS day,"
            f" count(), toString(sum(toUInt128({FINGERPRINT}))) FROM {shard.table('events')} FINAL"
            f" WHERE organization_id = '{organization_id}' AND sequence <= {shipped_to}"
            " GROUP BY has_subscription, external_subscription_id, code, day"
        )
        for has_subscription, name, code, day, count, total in rows:
            in_event_store[name if has_subscription else None, code, day] = count, int(total)
    for key in sorted({*in_database, *in_event_store}, key=lambda key: (key[0] or "", key[1], key[2])):
        database, event_store = in_database.get(key, (0, 0)), in_event_store.get(key, (0, 0))
        if database != event_store:
            yield Difference(
                external_subscription_id=key[0],
                code=key[1],
                day=_EPOCH + timedelta(days=key[2]),
                database_count=database[0],
                event_store_count=event_store[0],
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDifference:
    """An external subscription id's usage of a metric over all its events, if it differs."""

    external_subscription_id: str
    metric_code: str
    database: AggregateResult
    event_store: AggregateResult


class TooFarBehind(Exception):
    """Too many events are not shipped yet to compare usage."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} events are not shipped yet: run `usagebill event-store ship` first")


def usage_differences(
    tx: Snapshot, servers: EventServers, organization_id: str, shipped_to: int
) -> Iterator[UsageDifference]:
    """The differences between usage counted by the database, from running totals if it has them, and by the event store
    together with the events after `shipped_to`.

    Metrics that the event store can count are compared over all events of their code. Raises `TooFarBehind` if there
    are too many events after `shipped_to` to read them for each.
    """
    waiting = tx.events.latest() - shipped_to
    if waiting > _WAITING_AT_MOST:
        raise TooFarBehind(waiting)
    for metric in tx.find(BillableMetric):
        if metric.aggregation_type not in ANSWERED:
            continue
        for id in sorted({name for name, _ in tx.events.senders(code=metric.code) if name is not None}):
            question = EventQuery(
                code=metric.code,
                external_subscription_id=id,
                aggregation_type=metric.aggregation_type,
                field_name=metric.field_name,
            )
            buckets = counted(servers, organization_id, question, None, shipped_to, tx.events)
            database, event_store = tx.events.tallies(question)[()], results_of_all(question, buckets)[()]
            if database != event_store:
                yield UsageDifference(
                    external_subscription_id=id, metric_code=metric.code, database=database, event_store=event_store
                )
