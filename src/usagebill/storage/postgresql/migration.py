"""Migration of a SQLite file into a PostgreSQL database: every row, then a comparison of every row.

Nobody else writes to the file meanwhile, and afterwards it is marked as moved. In the database each slice has its own
transaction. An interrupted migration resumes after the last row copied, table by table: rows are copied in order of
their ids, and nobody else writes to a database whose migration is not finished.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from usagebill.core.processes import listed
from usagebill.storage.addresses import shown
from usagebill.storage.event_rows import COLUMNS, event_of
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.engine import PostgresStore
from usagebill.storage.postgresql.events.dialect import DIALECT
from usagebill.storage.postgresql.events.rows import STORED, row_of
from usagebill.storage.postgresql.rows import rows_of
from usagebill.storage.record_sql import quoted
from usagebill.storage.sql.jobs import JOB_COLUMNS as _JOBS
from usagebill.storage.sql.processes import COLUMNS as _PROCESSES
from usagebill.storage.sql.usage_totals import MissingSeries, Shape, UsageTotals
from usagebill.storage.sqlite.rows import codec_of
from usagebill.storage.sqlite.schema import MovedFile, check_not_moved, mark_moved, seen
from usagebill.storage.tables import TABLES, Table, table_of, tables_in_order

_SLICE = 5_000
# For how long somebody else may be writing to the file.
_BUSY_SECONDS = 5.0

Row = tuple[Any, ...]


class MigrationFailed(Exception):
    """The database cannot take the file, or differs from it afterwards."""


def migrate(path: str | Path, target: PostgresStore, note: Callable[[str, int], None]) -> None:
    """Copy the file, which has this version's schema, and compare both sides; `note` gets each table and its row count.

    Raises `MigrationFailed` if others have the file open, if the database is not empty, or if anything differs: the
    database then stays unusable, the file unchanged.
    """
    file = Path(path).resolve()
    source = sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
    try:
        is_moved = _take(source, target)
        if _begin(target, str(file)):
            return
        for table in map(table_of, tables_in_order()):
            note(table.name, _copy_records(source, target, table))
        organizations = [row[0] for row in source.execute("SELECT id FROM organizations ORDER BY id").fetchall()]
        note("events", sum(_copy_events(source, target, organization_id) for organization_id in organizations))
        target.transact(lambda connection: _copy_rest(source, connection))
        target.transact(lambda connection: _begin_series(source, connection))
        differing = [name for name, rows, copies in _both(source, target, organizations) if not _same(rows, copies)]
        if differing:
            raise MigrationFailed(
                f"not the same on both sides: {', '.join(differing)}. Begin again with an empty database"
            )
        if not is_moved:
            # First of all: at no instant can both be opened.
            mark_moved(source, shown(target.url), datetime.now(UTC))
            source.execute("COMMIT")
        _finish(target)
        # Until totals are built, usage is counted from the events.
        while target.roll_up_usage():
            pass
        note("usage_totals", target.ask(lambda connection: _scalar(connection, "SELECT COUNT(*) FROM usage_totals")))
    finally:
        source.close()


def _take(source: sqlite3.Connection, target: PostgresStore) -> bool:
    """Exclude everybody else from writing to the file, in a transaction in which nobody has it open. Returns whether it
    is marked as moved to this target: then the migration was interrupted right before its end.
    """
    try:
        source.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as problem:
        if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise MigrationFailed("the file is locked by a process that writes to it: stop all that use it") from problem
    try:
        check_not_moved(source)
    except MovedFile as moved:
        if moved.target != shown(target.url):
            raise
        return True
    now = datetime.now(UTC)
    if others := seen(source, now):
        raise MigrationFailed(
            f"processes have the file open: {listed(others, now)}. Stop them, and run it again; one that was killed is"
            " seen for 30 seconds"
        )
    return False


def _begin(target: PostgresStore, name: str) -> bool:
    """Record that a migration is in progress; whether the file has already been copied completely."""

    def begin(connection: Connection) -> bool:
        row = connection.execute("SELECT source, finished FROM migration").fetchone()
        if row is None:
            if connection.execute("SELECT 1 FROM organizations LIMIT 1").fetchone():
                raise MigrationFailed("the database is in use: migrate into an empty one")
            connection.execute("INSERT INTO migration VALUES (1, ?, FALSE)", (name,))
            return False
        if row[0] != name:
            raise MigrationFailed(f"the database holds what was migrated from {row[0]}")
        return bool(row[1])

    return target.transact(begin)


def _finish(target: PostgresStore) -> None:
    target.transact(lambda connection: connection.execute("UPDATE migration SET finished = TRUE"))


def _slices(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while some := list(islice(rows, _SLICE)):
        yield some


def _append(target: str, rows: Sequence[Row], connection: Connection) -> None:
    connection.copy(target, rows)


def _records_sql(table: Table) -> str:
    return f"SELECT {codec_of(table.kind).names} FROM {quoted(table.name)} t"


def _copy_records(source: sqlite3.Connection, target: PostgresStore, table: Table) -> int:
    codec, rows = codec_of(table.kind), rows_of(table.kind)
    names = ", ".join(map(quoted, rows.columns))
    last = target.ask(lambda connection: _scalar(connection, f"SELECT MAX(id) FROM {quoted(table.name)}"))
    cursor = source.execute(f"{_records_sql(table)} WHERE t.id > ? ORDER BY t.id", (last or "",))
    for some in _slices(iter(cursor)):
        stored = [rows.row(codec.record(row)) for row in some]
        target.transact(partial(_append, f"{quoted(table.name)} ({names})", stored))
    return int(source.execute(f"SELECT COUNT(*) FROM {quoted(table.name)}").fetchone()[0])


def _copy_events(source: sqlite3.Connection, target: PostgresStore, organization_id: str) -> int:
    """Copy events with their sequence numbers, which other records refer to."""
    last = target.ask(
        lambda connection: _scalar(
            connection, "SELECT MAX(sequence) FROM events WHERE organization_id = ?", (organization_id,)
        )
    )
    cursor = source.execute(
        f"SELECT {COLUMNS}, sequence, in_advance, uncounted FROM events WHERE organization_id = ? AND sequence > ?"
        " ORDER BY sequence",
        (organization_id, last or 0),
    )
    for some in _slices(iter(cursor)):
        stored = [row_of(row[-3], event_of(row[:-3]), bool(row[-2]), bool(row[-1])) for row in some]
        target.transact(partial(_append, f"events ({STORED})", stored))
    counted = source.execute("SELECT COUNT(*) FROM events WHERE organization_id = ?", (organization_id,))
    return int(counted.fetchone()[0])


def _copy_rest(source: sqlite3.Connection, connection: Connection) -> None:
    """Copy sequences, the clock, processes and jobs: small enough for one transaction, rewritten on a repeated run."""
    for table in ("sequences", "clock", "processes", "jobs"):
        connection.execute(f"DELETE FROM {table}")
    connection.copy(
        "sequences (organization_id, name, value)",
        source.execute("SELECT organization_id, name, value FROM sequences"),
    )
    connection.execute(
        "INSERT INTO sequences (organization_id, name, value) SELECT organization_id, 'events', MAX(sequence)"
        " FROM events GROUP BY organization_id"
    )
    connection.copy("clock (session, newest)", source.execute("SELECT id, newest FROM clock"))
    # Without their home: this is a different database, not a copy of theirs.
    connection.copy(f"processes ({_PROCESSES})", _processes(source))
    connection.copy(f"jobs ({_JOBS})", _jobs(source, f"SELECT {_JOBS} FROM jobs ORDER BY sequence"))


def _begin_series(source: sqlite3.Connection, connection: Connection) -> None:
    """Begin the same series of running totals as in the file, to be built from the copied events."""
    connection.execute("DELETE FROM usage_series")
    connection.execute("DELETE FROM usage_totals")
    for row in source.execute(
        "SELECT organization_id, external_subscription_id, code, kind, field, keys FROM usage_series ORDER BY id"
    ).fetchall():
        UsageTotals(connection, DIALECT, row[0], MissingSeries()).begin(row[:3], Shape.of_columns(*row[3:]))


def _processes(source: sqlite3.Connection) -> Iterator[Row]:
    home = _PROCESSES.split(", ").index("home")
    for row in source.execute(f"SELECT {_PROCESSES} FROM processes"):
        yield *row[:home], None, *row[home + 1 :]


def _jobs(source: sqlite3.Connection, sql: str) -> Iterator[Row]:
    for row in source.execute(sql):
        yield *row[:8], bool(row[8]), *row[9:13], bool(row[13])


def _scalar(connection: Connection, sql: str, values: Sequence[Any] = ()) -> Any:
    row = connection.execute(sql, values).fetchone()
    return None if row is None else row[0]


# Comparing


def _same(rows: Iterator[object], copies: Iterator[object]) -> bool:
    nothing = object()
    return all(left == right for left, right in zip_longest(rows, copies, fillvalue=nothing))


def _both(
    source: sqlite3.Connection, target: PostgresStore, organizations: Sequence[str]
) -> Iterator[tuple[str, Iterator[object], Iterator[object]]]:
    """All rows of both sides in the same order, as exactly comparable records."""
    for table in TABLES:
        codec, rows = codec_of(table.kind), rows_of(table.kind)
        sql = f"{_records_sql(table)} ORDER BY t.id"
        yield (
            table.name,
            (codec.row(codec.record(row)) for row in source.execute(sql)),
            (codec.row(rows.codec.record(row)) for row in target.each_row(sql)),
        )
    for organization_id in organizations:
        sql = f"SELECT {COLUMNS}, sequence FROM events WHERE organization_id = ? ORDER BY sequence"
        yield (
            f"events of {organization_id}",
            iter(source.execute(sql, (organization_id,))),
            target.each_row(sql, (organization_id,)),
        )
    jobs = f"SELECT {_JOBS} FROM jobs ORDER BY id"
    yield "jobs", _jobs(source, jobs), target.each_row(jobs)
    numbers = "SELECT organization_id, name, value FROM sequences WHERE name <> 'events' ORDER BY organization_id, name"
    yield "sequences", iter(source.execute(numbers)), target.each_row(numbers)
