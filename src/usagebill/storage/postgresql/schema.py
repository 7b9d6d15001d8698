"""The schema of a database: creation and migration.

Tables of records are derived from the records (`storage.tables`), as in SQLite; SQLite's `VERSION`, which counts their
changes, is `RECORDS` here. `VERSION` is raised when any other table changes. Opening an older database adds missing
tables, columns and indexes, then runs the numbered steps that are due, all in one transaction; other processes that
open it, or write to it, wait. As with a file, that is refused while processes are seen that cannot go on beside it, and
a newer database is refused by versions that cannot. None can beside a newer `VERSION`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import Any

from usagebill.core.errors import SchemaIsNewer
from usagebill.core.processes import live
from usagebill.storage.addresses import is_schema_name
from usagebill.storage.ports import AS_NEEDED, Opening, UnusableServer
from usagebill.storage.postgresql import row_security
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.events import dialect as usage
from usagebill.storage.postgresql.listed import (
    ITEM_KEYS,
    TEXT,
    TYPES,
    count_all,
    drop_former,
    index_definitions,
    make_text_indexes,
)
from usagebill.storage.postgresql.locks import lock_key
from usagebill.storage.postgresql.rows import folded, folded_name, rows_of
from usagebill.storage.record_sql import can_be_deleted, is_nullable, quoted
from usagebill.storage.sql import processes
from usagebill.storage.sqlite.past_postings import post_past
from usagebill.storage.sqlite.row_steps import ROW_STEPS
from usagebill.storage.sqlite.schema import (
    VERSION as RECORDS,
    ForeignFile,
    InUse,
    NewerFile,
    NoSystem,
    NotUpgraded,
    OlderFile,
    default_of,
    default_sql,
    rolls_from,
)
from usagebill.storage.tables import TABLES, Table, table_of

VERSION = 18
# Since this version processes say that they have the database open.
_REGISTERED = 15
# What a transaction asks first, and `check_current` is told.
CURRENT = "SELECT version, records, rolls_from FROM usagebill_schema"
_LOCKED = "schema"
# Version of the records -> the migration of rows for older databases, once their tables have all columns.
STEPS: dict[int, Callable[[Connection], None]] = {**ROW_STEPS, 60: post_past}

FIXED = f"""
CREATE TABLE IF NOT EXISTS usagebill_schema (
    version integer NOT NULL, records integer NOT NULL, rolls_from integer NOT NULL);
CREATE TABLE IF NOT EXISTS migration (
    id integer PRIMARY KEY CHECK (id = 1), source {TEXT} NOT NULL, finished boolean NOT NULL);
CREATE TABLE IF NOT EXISTS sequences (
    organization_id {TEXT} NOT NULL, name {TEXT} NOT NULL, value bigint NOT NULL,
    PRIMARY KEY (organization_id, name)) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS window_counts (
    organization_id {TEXT} NOT NULL, name {TEXT} NOT NULL, began {TEXT} NOT NULL, n bigint NOT NULL,
    PRIMARY KEY (organization_id, name)) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS clock (session integer PRIMARY KEY, newest {TEXT} NOT NULL);
CREATE TABLE IF NOT EXISTS backups (id integer PRIMARY KEY CHECK (id = 1), made_at {TEXT} NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id {TEXT} NOT NULL UNIQUE,
    organization_id {TEXT} NOT NULL, kind {TEXT} NOT NULL, subject_id {TEXT} NOT NULL, key {TEXT} NOT NULL,
    due_at {TEXT} NOT NULL, run_at {TEXT} NOT NULL, created_at {TEXT} NOT NULL, immediate boolean NOT NULL,
    lane {TEXT} NOT NULL, payload {TEXT} NOT NULL, attempts integer NOT NULL, error {TEXT},
    failed boolean NOT NULL, UNIQUE (organization_id, key));
CREATE TABLE IF NOT EXISTS events (
    organization_id {TEXT} NOT NULL, sequence bigint NOT NULL, timestamp bigint NOT NULL, created_at bigint NOT NULL,
    in_advance boolean NOT NULL, uncounted boolean NOT NULL, id {TEXT} NOT NULL, transaction_id {TEXT} NOT NULL,
    code {TEXT} NOT NULL, external_subscription_id {TEXT}, properties json NOT NULL, texts json, numbers json,
    precise_total_amount_cents {TEXT}, unread_amount {TEXT}, PRIMARY KEY (organization_id, sequence));
{processes.table(TEXT)};
CREATE INDEX IF NOT EXISTS jobs_ready ON jobs (lane, due_at, sequence) WHERE NOT failed AND run_at = due_at;
CREATE INDEX IF NOT EXISTS jobs_held ON jobs (lane, run_at) WHERE NOT failed AND run_at <> due_at;
CREATE INDEX IF NOT EXISTS jobs_immediate ON jobs (lane, due_at, sequence)
    WHERE immediate AND NOT failed AND run_at = due_at;
CREATE INDEX IF NOT EXISTS jobs_error ON jobs (due_at) WHERE error IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_overdue ON jobs (organization_id, lane, due_at, sequence);
CREATE INDEX IF NOT EXISTS jobs_subject ON jobs (organization_id, subject_id, due_at);
CREATE UNIQUE INDEX IF NOT EXISTS events_transaction ON events (
    organization_id, transaction_id, external_subscription_id);
CREATE INDEX IF NOT EXISTS events_usage ON events (
    organization_id, external_subscription_id, code, timestamp, created_at);
CREATE INDEX IF NOT EXISTS events_listed ON events (organization_id, timestamp);
CREATE INDEX IF NOT EXISTS events_ahead ON events (
    organization_id, external_subscription_id, code, timestamp, created_at) WHERE timestamp > created_at;
CREATE INDEX IF NOT EXISTS events_stored ON events (organization_id, external_subscription_id, code, sequence)
    WHERE in_advance;
CREATE INDEX IF NOT EXISTS events_uncounted ON events (organization_id, external_subscription_id, code, timestamp)
    WHERE uncounted;
"""
# The number of changed rows after which the server analyzes a table again. By default it is a tenth of the table; until
# then the server assumes a single row for a new organization.
_LOOKED_AT_AFTER = 10_000
GROWING = ("events", "jobs", "customers", "subscriptions", "invoices", "fees", "billing_periods", "activity_logs")
SETTINGS = tuple(
    f"ALTER TABLE {name} SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = {_LOOKED_AT_AFTER})"
    for name in GROWING
)
# Tables that every version has.
_OURS = frozenset({"usagebill_schema", "jobs", "events", "organizations"})


def _columns(table: Table) -> Iterator[tuple[str, str, bool]]:
    """Name, type, and whether it is NOT NULL, of each column."""
    rows = rows_of(table.kind)
    required = {
        item.name
        for item in fields(table.kind)
        if item.default is MISSING and item.default_factory is MISSING and "None" not in str(item.type)
    }
    for column in rows.codec.columns:
        yield column.name, TYPES[column.sql_type], column.name in required
    for name in rows.searched:
        yield folded_name(name), TEXT, False


def _indexes(table: Table) -> Iterator[tuple[str, str]]:
    """Name and statement of every index but that of the id."""
    live = " WHERE deleted_at IS NULL" if can_be_deleted(table.kind) else ""
    for rule, where in [(rule, live) for rule in table.unique] + [(rule, "") for rule in table.always_unique]:
        listed = ", ".join(map(quoted, ("organization_id", *rule)))
        name = _name(table, "unique", *rule)
        yield name, f'CREATE UNIQUE INDEX IF NOT EXISTS "{name}" ON "{table.name}" ({listed}){where}'
    indexes = list(table.indexes)
    if any(item.name == "created_at" for item in fields(table.kind)):
        indexes.append(("created_at", "id"))
    for index in indexes:
        words = [column.split(" ") for column in index]
        listed = ", ".join(_indexed(table, column, bool(direction)) for column, *direction in words)
        name = _name(table, *(column for column, *_ in words))
        yield name, f'CREATE INDEX IF NOT EXISTS "{name}" ON "{table.name}" (organization_id, {listed})'
    yield from index_definitions(table)


def _indexed(table: Table, column: str, descending: bool) -> str:
    last = " NULLS LAST" if is_nullable(table.kind, column) else ""
    return f"{quoted(column)} DESC{last}" if descending else quoted(column)


def _name(table: Table, *words: str) -> str:
    name = "_".join((table.name, *words))
    # The server truncates longer names.
    return name if len(name) <= 63 else f"{name[:54]}_{lock_key(name) & 0xFFFFFFFF:08x}"


def definitions() -> list[str]:
    """The statements that create the schema, in executable order."""
    statements = [statement.strip() for statement in FIXED.split(";") if statement.strip()]
    for table in TABLES:
        columns = ", ".join(
            f"{quoted(name)} {sql_type}" + (" PRIMARY KEY" if name == "id" else " NOT NULL" if required else "")
            for name, sql_type, required in _columns(table)
        )
        statements.append(f'CREATE TABLE IF NOT EXISTS "{table.name}" ({columns})')
    statements.append(ITEM_KEYS)
    for table in TABLES:
        statements += [statement for _, statement in _indexes(table)]
        for column, kind in table.references.items():
            name = _name(table, column, "exists")
            statements.append(
                f'ALTER TABLE "{table.name}" ADD CONSTRAINT "{name}" FOREIGN KEY ({quoted(column)})'
                f' REFERENCES "{table_of(kind).name}" (id)'
            )
    totals = [statement.strip() for statement in usage.TABLES.split(";") if statement.strip()]
    return [*statements, *totals, *usage.TRIGGERS, *SETTINGS]


def _tables(connection: Connection) -> list[str]:
    rows = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
    ).fetchall()
    return [row[0] for row in rows]


def _versions(connection: Connection) -> tuple[int, int] | None:
    """`VERSION` and `RECORDS` of the schema, None if it is empty; raises `ForeignFile` for tables of another
    application.
    """
    tables = _tables(connection)
    if not tables:
        return None
    row = None
    if set(tables) >= _OURS:
        row = connection.execute("SELECT version, records FROM usagebill_schema").fetchone()
    if row is None:
        raise ForeignFile(tables, "; give ours a schema of its own in it: schema='billing', or --schema billing")
    return int(row[0]), int(row[1])


def _goes_on(version: int, records: int, oldest: int) -> bool:
    """Whether this process can go on beside a schema of these versions."""
    return version <= VERSION and (records <= RECORDS or oldest <= RECORDS)


def check_current(row: Sequence[Any] | None) -> None:
    """Raises `SchemaIsNewer` in a transaction that got this `row` from `CURRENT`, of a database that was upgraded since
    this process opened it.
    """
    if row is not None and not _goes_on(*map(int, row)):
        raise SchemaIsNewer(int(row[1]), RECORDS)


# A transaction that writes excludes upgrades until it has ended.
EXCLUDING_UPGRADES = f"SELECT pg_advisory_xact_lock_shared({lock_key(_LOCKED)})"


def _check_not_newer(connection: Connection, versions: tuple[int, int]) -> None:
    version, records = versions
    if version > VERSION:
        raise NewerFile(version, VERSION)
    if records > RECORDS:
        row = connection.execute(CURRENT).fetchone()
        if row is None or not _goes_on(*row):
            raise NewerFile(records, RECORDS)


def _check_alone(connection: Connection, current: tuple[int, int]) -> None:
    """Raises `InUse` if a process is seen that cannot go on beside the new schema."""
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    now: datetime = row[0].astimezone(UTC)
    oldest = RECORDS + 1 if current[0] < VERSION else rolls_from()
    seen = live(map(processes.process_of, connection.execute(processes.ALL)), now)
    others = [process for process in seen if process.schema < oldest]
    if others:
        raise InUse(current[1], RECORDS, others, now)


def identity_of(connection: Connection) -> str:
    """An identity of the database and the schema in it that differs from any other's and from a copy's."""
    row = connection.execute(
        "SELECT system_identifier, d.oid, current_schema() FROM pg_control_system(), pg_database d"
        " WHERE d.datname = current_database()"
    ).fetchone()
    assert row is not None
    return ":".join(map(str, row))


def search_path(connection: Connection) -> str:
    """The schemas in which the connection finds tables, as a setting has them."""
    row = connection.execute("SELECT current_setting('search_path')").fetchone()
    assert row is not None
    return str(row[0])


def make_schema(connection: Connection, opening: Opening) -> None:
    """Make the schema that the connection names if there is none of that name. Raises `NoSystem` if `opening` does not
    permit that.
    """
    row = connection.execute("SELECT current_schema()").fetchone()
    assert row is not None
    if row[0] is None:
        path = search_path(connection)
        if not is_schema_name(path):
            raise UnusableServer(f"none of the schemas that the connection searches for tables exists: {path}")
        if not opening.creates:
            raise NoSystem
        # Another process may make it too.
        connection.execute("SELECT pg_advisory_xact_lock(?)", (lock_key(_LOCKED),))
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(path)}")


def check_version(connection: Connection) -> None:
    """Raises `NewerFile` or `OlderFile` for a schema that is not this version's."""
    versions = _versions(connection) or (0, 0)
    _check_not_newer(connection, versions)
    if versions < (VERSION, RECORDS):
        raise OlderFile(versions[1], RECORDS)


def bring_forward(connection: Connection, opening: Opening = AS_NEEDED) -> int | None:
    """Bring the schema of an empty or older database to this version, in the transaction of `connection`. Returns the
    version of records that it had, None if nothing was upgraded.

    Raises `NewerFile` for a newer database, `ForeignFile` for one with other tables, `InUse`, and whatever `opening`
    does not permit: `NoSystem`, `NotUpgraded`.
    """
    current = _versions(connection)
    if current is None and not opening.creates:
        raise NoSystem
    if current is not None:
        _check_not_newer(connection, current)
        if current >= (VERSION, RECORDS):
            return None
        if not opening.upgrades:
            raise NotUpgraded(current[1], RECORDS)
    connection.execute("SELECT pg_advisory_xact_lock(?)", (lock_key(_LOCKED),))
    # Another process may have migrated it while this one waited.
    current = _versions(connection)
    if current is not None:
        _check_not_newer(connection, current)
        if current >= (VERSION, RECORDS):
            return None
        if current[0] >= _REGISTERED and not opening.beside_others:
            _check_alone(connection, current)
        if current[0] < _REGISTERED:
            connection.execute("ALTER TABLE usagebill_schema ADD COLUMN IF NOT EXISTS rolls_from integer")
        drop_former(connection)
        _change_columns(connection)
        if current[0] < 11:
            for statement in usage.FORMER:
                connection.execute(statement)
    constraints = {
        row[0]
        for row in connection.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace"
        ).fetchall()
    }
    for statement in definitions():
        if " ADD CONSTRAINT " not in statement or statement.split('"')[3] not in constraints:
            connection.execute(statement)
    for records in () if current is None else range(current[1] + 1, RECORDS + 1):
        if records in STEPS:
            STEPS[records](connection)
    make_text_indexes(connection)
    count_all(connection)
    if "workers" in _tables(connection):
        for statement in processes.FORMER:
            connection.execute(statement)
    # A log of changes that earlier versions kept.
    connection.execute("DROP TABLE IF EXISTS changes")
    connection.execute("DELETE FROM sequences WHERE name = 'changes'")
    if current is not None and row_security.is_on(connection):
        # New tables.
        row_security.turn(connection, on=True)
    connection.execute("DELETE FROM usagebill_schema")
    connection.execute(
        "INSERT INTO usagebill_schema (version, records, rolls_from) VALUES (?, ?, ?)", (VERSION, RECORDS, rolls_from())
    )
    return None if current is None else current[1]


def _change_columns(connection: Connection) -> None:
    """Add missing columns, with the records' defaults in existing rows; those of optional fields are nullable."""
    present: dict[str, dict[str, bool]] = {}
    for name, column, nullable in connection.execute(
        "SELECT table_name, column_name, is_nullable FROM information_schema.columns"
        " WHERE table_schema = current_schema()"
    ).fetchall():
        present.setdefault(name, {})[column] = nullable == "YES"
    if "unread_amount" not in present["events"]:
        connection.execute(f"ALTER TABLE events ADD COLUMN unread_amount {TEXT}")
    for table in TABLES:
        if table.name not in present:
            continue
        columns = present[table.name]
        fields_of = {column.name for column in rows_of(table.kind).codec.columns}
        for name, sql_type, required in _columns(table):
            if name in columns:
                if not columns[name] and not required and name != "id":
                    connection.execute(f'ALTER TABLE "{table.name}" ALTER COLUMN {quoted(name)} DROP NOT NULL')
                continue
            default = default_sql(default_of(table.kind, name)) if name in fields_of else ""
            connection.execute(f'ALTER TABLE "{table.name}" ADD COLUMN {quoted(name)} {sql_type}{default}')
            if name not in fields_of:
                _fold(connection, table, name)


def _fold(connection: Connection, table: Table, name: str) -> None:
    """Fill in the case-folded copy of a column that has just become searchable."""
    searched = next(column for column in rows_of(table.kind).searched if folded_name(column) == name)
    rows = connection.execute(f'SELECT id, {quoted(searched)} FROM "{table.name}"').fetchall()
    connection.executemany(
        f'UPDATE "{table.name}" SET {quoted(name)} = ? WHERE id = ?', [(folded(text), id) for id, text in rows]
    )
