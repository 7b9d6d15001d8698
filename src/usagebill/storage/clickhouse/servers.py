"""The servers of an event store: shards, each a ClickHouse database with its tables and its identity."""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import clickhouse_connect
from clickhouse_connect.driver.exceptions import Error

from usagebill.storage.ports import UnusableServer

VERSION: Final = 1
# Counting fewer events than this in the database is as fast as a query to a server.
ASKED_FROM: Final = 5_000
_THIRTY_DAYS: Final = 30 * 86_400_000_000
_CLIENT: Final = {"autogenerate_session_id": False, "connect_timeout": 5, "send_receive_timeout": 120}
# Raises servers' default limits: a charge may have thousands of filters, and a block may have events of many months.
_SETTINGS: Final = {
    "max_query_size": 1_000_000_000,
    "max_ast_elements": 100_000_000,
    "max_expanded_ast_elements": 100_000_000,
    "max_ast_depth": 100_000,
    "max_partitions_per_insert_block": 0,
    # A column is not the alias that hides it.
    "prefer_column_name_to_alias": 1,
    # Duplicates are identical, so they are in the same partition.
    "do_not_merge_across_partitions_select_final": 1,
}
# `sequence` identifies an event within its organization. If sent twice, it is one row once parts are merged, and until
# then for queries with FINAL. Merged parts are synced to disk, as new ones are.
_DURABLE: Final = "fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1"
_TABLES: Final = {
    "event_store": "(id String, shard UInt32, shards UInt32, version UInt32) ENGINE = MergeTree ORDER BY id",
    "blocks": (
        "(organization_id String, generation UInt64, last Int64) ENGINE = MergeTree"
        f" ORDER BY (organization_id, generation, last) SETTINGS {_DURABLE}"
    ),
    "events": (
        "(organization_id LowCardinality(String), external_subscription_id String, has_subscription Bool,"
        " code LowCardinality(String), timestamp Int64 CODEC(Delta, ZSTD), sequence Int64 CODEC(Delta, ZSTD),"
        " created_at Int64 CODEC(Delta, ZSTD), id String CODEC(ZSTD), transaction_id String CODEC(ZSTD),"
        " properties String CODEC(ZSTD), texts Map(LowCardinality(String), String) CODEC(ZSTD),"
        " millionths Map(LowCardinality(String), Int64) CODEC(ZSTD),"
        " wide Map(LowCardinality(String), Decimal(76, 20)) CODEC(ZSTD),"
        " long Map(LowCardinality(String), String) CODEC(ZSTD), amount Nullable(Decimal(76, 20)) CODEC(ZSTD),"
        " amount_text Nullable(String) CODEC(ZSTD)) ENGINE = ReplacingMergeTree"
        f" PARTITION BY intDiv(timestamp, {_THIRTY_DAYS})"
        " ORDER BY (organization_id, external_subscription_id, code, timestamp, sequence)"
        f" SETTINGS non_replicated_deduplication_window = 1000, {_DURABLE}"
    ),
}


class UnusableEventStore(UnusableServer):
    """These servers cannot be the event store of this database or version."""


class Unreachable(Exception):
    """A server of the event store did not respond, or failed."""


def literal(value: str | int) -> str:
    """The value as a literal of ClickHouse's SQL."""
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def shown(urls: str) -> str:
    """The URLs for display, without user and password."""
    parts = map(urlsplit, urls.split(","))
    return ",".join(f"{part.scheme}://{part.netloc.rpartition('@')[2]}{part.path}" for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The location of a shard: the DSN of its server, and its database there."""

    dsn: str
    database: str
    asked_from: int


def _place_of(url: str) -> _Place:
    """`clickhouse://user:password@host:8123/database`, `clickhouses://` for TLS, `chdb:///folder?database=name`."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    asked_from = options.pop("asked_from", str(ASKED_FROM))
    named = options.pop("database", parts.path.strip("/") if parts.scheme.startswith("clickhouse") else "")
    place = partial(_Place, database=named or "usagebill", asked_from=int(asked_from) if asked_from.isdigit() else 0)
    is_understood = not options and asked_from.isdigit() and "`" not in named and "\\" not in named
    if is_understood and parts.scheme == "chdb" and not parts.netloc and parts.path.startswith("/"):
        return place(dsn=f"chdb://{parts.path}")
    if is_understood and parts.scheme in ("clickhouse", "clickhouses") and parts.hostname:
        scheme = "https" if parts.scheme == "clickhouses" else "http"
        port = parts.port or (8443 if scheme == "https" else 8123)
        address = f"{parts.netloc.rpartition(':')[0] if parts.port else parts.netloc}:{port}"
        return place(dsn=f"{scheme}://{address}")
    raise UnusableEventStore(
        f"{shown(url)} is not the URL of an event store: clickhouse://user:password@host:8123/database,"
        " clickhouses:// for TLS, or chdb:///folder?database=name; several are separated by commas"
    )


class Shard:
    """A client of one server. An embedded engine runs one query at a time."""

    def __init__(self, place: _Place) -> None:
        self._place = place
        is_embedded = place.dsn.startswith("chdb:")
        self._turn: AbstractContextManager[object] = threading.Lock() if is_embedded else nullcontext()
        options: Mapping[str, Any] = {} if is_embedded else _CLIENT
        try:
            self._client = clickhouse_connect.get_client(dsn=place.dsn, **options)
        except ImportError as problem:
            raise UnusableEventStore("chdb:// needs the package chdb: pip install chdb") from problem
        except Exception as problem:
            raise Unreachable(f"{shown(place.dsn)}: {problem}") from problem

    def _asked(self, call: Any) -> Any:
        try:
            with self._turn:
                return call()
        except (Error, OSError) as problem:
            raise Unreachable(f"{shown(self._place.dsn)}: {problem}") from problem

    def table(self, name: str) -> str:
        """The qualified name of one of our tables."""
        return f"`{self._place.database}`.usagebill_{name}"

    def run(self, sql: str, **settings: Any) -> None:
        """Run a statement without a result."""
        self._asked(lambda: self._client.command(sql, settings=settings))

    def rows(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of a query."""
        rows: Sequence[Sequence[Any]] = self._asked(lambda: self._client.query(sql, settings=_SETTINGS)).result_rows
        return rows

    def insert(self, table: str, lines: bytes, **settings: Any) -> None:
        """Append rows, each a line of JSON; they are on the server's disk once this returns."""
        self._asked(
            lambda: self._client.raw_insert(
                self.table(table), insert_block=lines, fmt="JSONEachRow", settings=_SETTINGS | settings
            )
        )

    def prepare(self, shard: int, shards: int, id: str) -> str:
        """Create missing tables; returns the identity of the event store."""
        # The user may not create databases, but has this one.
        with suppress(Unreachable):
            self.run(f"CREATE DATABASE IF NOT EXISTS `{self._place.database}`")
        for name, definition in _TABLES.items():
            self.run(f"CREATE TABLE IF NOT EXISTS {self.table(name)} {definition}")
        question = f"SELECT id, shard, shards, version FROM {self.table('event_store')}"
        identities = self.rows(question)
        if not identities:
            row = f'{{"id": "{id}", "shard": {shard}, "shards": {shards}, "version": {VERSION}}}'
            self.insert("event_store", row.encode())
            identities = self.rows(question)
        if len(identities) != 1 or tuple(identities[0][1:]) != (shard, shards, VERSION):
            raise UnusableEventStore(
                f"{shown(self._place.dsn)}: the database {self._place.database} is another part of an event store, or"
                f" another version's. It is asked to be number {shard + 1} of {shards} in version {VERSION}, and holds"
                f" {[tuple(row[1:]) for row in identities]}. Events do not move between servers: give the same URLs in"
                " the same order, or empty databases"
            )
        return str(identities[0][0])

    def close(self) -> None:
        with suppress(Error, OSError):
            self._client.close()


class EventServers:
    """The shards of one event store, by URLs separated by commas.

    All events of an external subscription id are in one shard, so that a query goes to one server. Servers are not used
    for fewer events than `asked_from`, which the first URL may set. Raises `UnusableEventStore` if a server cannot be
    reached, or is the store of another database.
    """

    def __init__(self, urls: str) -> None:
        places = [_place_of(url.strip()) for url in urls.split(",")]
        self.asked_from = places[0].asked_from
        if len({(place.dsn, place.database) for place in places}) < len(places):
            raise UnusableEventStore("the event store lists a server twice")
        self.shards = []
        try:
            for place in places:
                self.shards.append(Shard(place))
            ids: list[str] = []
            for number, shard in enumerate(self.shards):
                ids.append(shard.prepare(number, len(places), ids[0] if ids else str(uuid.uuid4())))
            if len(set(ids)) > 1:
                raise UnusableEventStore("these servers belong to different event stores")
        except Unreachable as problem:
            self.close()
            raise UnusableEventStore(f"the event store cannot be used: {problem}") from problem
        except BaseException:
            self.close()
            raise
        self.id = ids[0]

    def number_of(self, organization_id: str, external_subscription_id: str | None) -> int:
        """The index of the shard with these events."""
        if len(self.shards) == 1:
            return 0
        key = f"{organization_id}/{external_subscription_id or ''}".encode()
        return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % len(self.shards)

    def of(self, organization_id: str, external_subscription_id: str | None) -> Shard:
        return self.shards[self.number_of(organization_id, external_subscription_id)]

    def close(self) -> None:
        for shard in self.shards:
            shard.close()


@contextmanager
def temporary_database(url: str) -> Iterator[str]:
    """See `storage.stores.emptied_events`."""
    parts = urlsplit(url)
    name = f"usagebill_{uuid.uuid4().hex}"
    path = f"{parts.path}/{os.getpid()}" if parts.scheme == "chdb" else f"/{name}"
    made = f"{parts.scheme}://{parts.netloc}{path}?database={name}&asked_from=0"
    yield made
    shard = Shard(_place_of(made))
    shard.run(f"DROP DATABASE IF EXISTS `{name}`")
    shard.close()
