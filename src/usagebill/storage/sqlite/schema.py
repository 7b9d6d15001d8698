"""The schema of a file: creation and migration.

The tables follow from the records (`storage.tables`). `VERSION` is raised whenever they change. Opening an older file
adds the tables, columns and indexes that it lacks, then runs the numbered steps that it has not run, all in one
transaction; what lists need is filled in afterwards, slice by slice. That is refused while processes of a version that
cannot go on beside the new schema have the file open. A newer file is refused, unless its version goes on beside it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, date, datetime
from functools import partial
from time import monotonic

import msgspec

from usagebill.core.aggregation import counts
from usagebill.core.errors import DatabaseMoved, SchemaIsNewer
from usagebill.core.events import Event
from usagebill.core.processes import Process, listed, live
from usagebill.process.logs import Log
from usagebill.storage.ports import AS_NEEDED, Opening
from usagebill.storage.record_sql import can_be_deleted
from usagebill.storage.sql import processes
from usagebill.storage.sqlite.events import SqliteEvents, dialect as usage
from usagebill.storage.sqlite.listed import (
    add_documents_sql,
    add_values_sql,
    count_definitions,
    counts_sql,
    document_definitions,
    index_definitions,
    value_definitions,
)
from usagebill.storage.sqlite.past_postings import post_past
from usagebill.storage.sqlite.row_steps import ROW_STEPS
from usagebill.storage.sqlite.rows import codec_of
from usagebill.storage.tables import TABLES, Table, table_of

_log = Log("usagebill.storage")

VERSION = 88
# Versions that only add what processes of the one before neither need nor have to keep up: new tables, or columns whose
# default is right for whatever they write. These processes go on beside it, so that such an upgrade can roll.
ROLLING: frozenset[int] = frozenset()
# Since this version lists are read from other tables.
_LISTS_REMADE = 56
# The tables beside a table of records from which lists of earlier versions were read; documents have triggers on the
# one that is searched.
_FORMER = (
    "documents",
    *("counts", "search", "short", "texts", "metadata", "metadata_counts", "sets", "set_bits", "profiles", "profiled"),
    *("common", "common_counts", "common_slots", "common_upto", "common_changed"),
)
# Since this version processes say that they have the file open.
_REGISTERED = 67
# Before this version decimals were stored in another form.
_OLDEST_READ = 2
# The version of a file that was moved into another database: so no usagebill opens it, those before this one neither,
# and whoever has it open is refused from the next transaction on.
_MOVED = 1_000_000


def _lanes(connection: sqlite3.Connection) -> None:
    """Jobs that call outside services get a lane; before they had a flag."""
    for index in ("jobs_due", "jobs_next", "jobs_immediate"):
        connection.execute(f"DROP INDEX IF EXISTS {index}")
    connection.execute("ALTER TABLE jobs ADD COLUMN lane TEXT NOT NULL DEFAULT ''")
    connection.execute("UPDATE jobs SET lane = kind WHERE leased = 1")
    connection.execute(
        "UPDATE jobs SET lane = kind || '/' || (SELECT webhook_endpoint_id FROM webhook_messages m"
        " WHERE m.id = subject_id) WHERE EXISTS (SELECT 1 FROM webhook_messages m WHERE m.id = subject_id)"
        " AND kind = 'deliver_webhook'"
    )
    # A deleted message is not delivered.
    connection.execute("DELETE FROM jobs WHERE lane = 'deliver_webhook'")
    connection.execute("ALTER TABLE jobs DROP COLUMN leased")


def _payments_of_anything(connection: sqlite3.Connection) -> None:
    """Payments through providers have no reference, and those of payment requests no invoice."""
    connection.execute("PRAGMA writable_schema = ON")
    for column in ("invoice_id", "reference"):
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name = 'payments'",
            (f'"{column}" TEXT NOT NULL', f'"{column}" TEXT'),
        )
    connection.execute("PRAGMA writable_schema = RESET")


def _refunds_without_note(connection: sqlite3.Connection) -> None:
    """A payment that was no longer due is refunded without a credit note."""
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name = 'refunds'",
        ('"credit_note_id" TEXT NOT NULL', '"credit_note_id" TEXT'),
    )
    connection.execute("PRAGMA writable_schema = RESET")


def _mark_in_advance(connection: sqlite3.Connection) -> None:
    """Only events billed in advance are in the index by sequence: others do not need it."""
    if "in_advance" not in {row[1] for row in connection.execute("PRAGMA table_info(events)")}:
        connection.execute("ALTER TABLE events ADD COLUMN in_advance INTEGER")
    connection.execute("DROP INDEX IF EXISTS events_stored")


def _add_uncounted(connection: sqlite3.Connection) -> None:
    """Events that their metric cannot count are marked."""
    if "uncounted" not in {row[1] for row in connection.execute("PRAGMA table_info(events)")}:
        connection.execute("ALTER TABLE events ADD COLUMN uncounted INTEGER")
    # The trigger is rebuilt for counted columns only, which marks are not.
    connection.execute("DROP TRIGGER IF EXISTS usage_event_changed")


def _mark_uncounted(connection: sqlite3.Connection) -> None:
    """Mark the events stored before."""
    _run(connection, _EVENTS_USAGE)
    metrics = connection.execute(
        "SELECT organization_id, code, aggregation_type, field_name FROM billable_metrics WHERE deleted_at IS NULL"
    ).fetchall()
    for organization_id, code, aggregation_type, field_name in metrics:
        SqliteEvents(connection, organization_id).mark(code, partial(_lacks, aggregation_type, field_name))


def _lacks(aggregation_type: str, field_name: str | None, event: Event) -> bool:
    return not counts(aggregation_type, field_name, event)


def _rebuild_events_by_time(connection: sqlite3.Connection) -> None:
    """The index of all events by time is rebuilt with their codes."""
    connection.execute("DROP INDEX IF EXISTS events_listed")


def _add_unread_amounts(connection: sqlite3.Connection) -> None:
    """Prices that are not numbers are kept as they were sent; before, they were stored as 0."""
    if "unread_amount" not in {row[1] for row in connection.execute("PRAGMA table_info(events)")}:
        connection.execute("ALTER TABLE events ADD COLUMN unread_amount TEXT")


def _begin_totals(connection: sqlite3.Connection) -> None:
    """Running totals of usage take the place of states by several widths, and of numbers for values of filters."""
    _run(connection, usage.FORMER)
    if "filter_values" in {row[1] for row in connection.execute("PRAGMA table_info(events)")}:
        connection.execute("ALTER TABLE events DROP COLUMN filter_values")
    _run(connection, usage.TABLES)


def _drop_former_lists(connection: sqlite3.Connection) -> None:
    """Lists are read from other tables, which are made and filled anew. First of all: triggers of the former ones call
    functions that are gone, so no table can be altered while they exist.
    """
    for table in TABLES:
        for suffix in _FORMER if table.listing is not None else ():
            connection.execute(f'DROP TABLE IF EXISTS "{table.name}_{suffix}"')


def _drop_former_states(connection: sqlite3.Connection) -> None:
    """Running states of versions before 33. The trigger of version 30 reads a column that is gone from its table, so no
    event could be stored.
    """
    connection.execute("DROP TRIGGER IF EXISTS usage_event_inserted")
    connection.execute("DROP TABLE IF EXISTS saved_levels")


def _drop_event_counts(connection: sqlite3.Connection) -> None:
    """Numbers of events by hour and code, from which lists of events were read."""
    for table in ("event_counts", "event_counts_made"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")


# version -> the migration of what no list is made of, for files older than that version.
_FIXED_STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {
    18: _mark_in_advance,
    32: _add_uncounted,
    35: _rebuild_events_by_time,
    52: _add_unread_amounts,
    55: _begin_totals,
    64: _drop_event_counts,
    **ROW_STEPS,
}
# version -> the migration of rows, for files older than that version, once their tables have all columns.
STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {
    3: _lanes,
    14: _payments_of_anything,
    28: _refunds_without_note,
    32: _mark_uncounted,
    60: post_past,
    63: _drop_former_states,
}


class NewerFile(Exception):
    """The file was written by a later version of usagebill."""

    def __init__(self, version: int, supported: int = VERSION) -> None:
        super().__init__(
            f"this database has schema version {version}; this usagebill knows versions up to {supported}. "
            "Open it with the usagebill that wrote it, or a later one."
        )
        self.found = version


class InUse(Exception):
    """Processes that cannot go on beside the new schema have the database open, so it was not upgraded."""

    def __init__(self, version: int, supported: int, others: Sequence[Process], now: datetime) -> None:
        super().__init__(
            f"this database has schema version {version}, which processes that have it open cannot leave:"
            f" {listed(others, now)}."
            f" Stop them, then it is brought to version {supported}; `usagebill upgrade --upgrade-anyway` does so at"
            " once, and they refuse every request until they are restarted"
        )
        self.processes = tuple(others)


class NoSystem(Exception):
    """The database is empty, and opened only if there is a system in it."""

    def __init__(self) -> None:
        super().__init__("there is no billing system in this database; `usagebill init` makes one")


class MovedFile(Exception):
    """The file was moved into another database, `target`, so it is history."""

    def __init__(self, target: str, moved_at: str) -> None:
        super().__init__(
            f"this file was moved to {target} at {moved_at}, which is used instead: both have the same API keys, and"
            " would give out the same invoice numbers. `usagebill move-to-postgresql --take-back` opens the file again"
        )
        self.target = target


class OlderFile(Exception):
    """The file is of an earlier version and opened for reading only, so it cannot be migrated."""

    def __init__(self, version: int, supported: int = VERSION) -> None:
        super().__init__(
            f"this database has schema version {version}, and is only read: any command that writes brings it"
            f" (or a copy of it) to version {supported}"
        )
        self.found = version


class NotUpgraded(OlderFile):
    """The file is of an earlier version, and opened only as it is."""

    def __init__(self, version: int, supported: int = VERSION) -> None:
        super().__init__(version, supported)
        self.args = (
            f"this database has schema version {version}, this usagebill needs {supported}, and is told to upgrade"
            " nothing: run `usagebill upgrade`",
        )


class EarlyFile(OlderFile):
    """The file is of a version too early to be migrated: its rows have another form."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.args = (
            f"this database has schema version {version}, and versions before {_OLDEST_READ} cannot be read any longer;"
            " it was left as it is",
        )


class UnfinishedFile(OlderFile):
    """A migration of the file is running or was interrupted, and the file is opened for reading only."""

    def __init__(self) -> None:
        super().__init__(VERSION)
        self.args = (
            "this database has not been brought forward to the end, and is only read: any command that writes goes on",
        )


class ForeignFile(Exception):
    """The file is a SQLite database of another application."""

    def __init__(self, tables: Sequence[str], advice: str = "") -> None:
        listed = ", ".join(tables[:5]) + (", ..." if len(tables) > 5 else "")
        super().__init__(
            f"this is a database of something else (its tables: {listed}); nothing was written into it{advice}"
        )


# Tables that every version has.
_OURS = {"jobs": {"organization_id", "kind", "due_at", "run_at"}, "events": {"organization_id", "transaction_id"}}


def check_ours(connection: sqlite3.Connection) -> None:
    """Raises `ForeignFile` for a database with tables of another application; `EarlyFile` for a version too early to be
    migrated.
    """
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    columns_by_table = {
        name: {row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')} for name in _OURS if name in tables
    }
    if tables and not all(columns <= columns_by_table.get(name, set()) for name, columns in _OURS.items()):
        raise ForeignFile(tables)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and version < _OLDEST_READ:
        raise EarlyFile(version)


def check_version(connection: sqlite3.Connection) -> None:
    """Raises `NewerFile` or `OlderFile` for a schema that this version cannot read, `MovedFile` for a file that was
    moved.
    """
    check_not_moved(connection)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not _goes_on(connection, version):
        raise NewerFile(version)
    if version < VERSION:
        raise OlderFile(version)
    if connection.execute("SELECT 1 FROM unfilled_lists LIMIT 1").fetchone():
        raise UnfinishedFile


def check_current(connection: sqlite3.Connection) -> None:
    """Raises `SchemaIsNewer` or `DatabaseMoved` in a transaction on a file that was upgraded, or moved, since this
    process opened it.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if _goes_on(connection, version):
        return
    try:
        check_not_moved(connection)
    except MovedFile as moved:
        raise DatabaseMoved(moved.target) from moved
    raise SchemaIsNewer(version, VERSION)


def check_not_moved(connection: sqlite3.Connection) -> None:
    """Raises `MovedFile` for a file that was moved into another database."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == _MOVED:
        raise MovedFile(*connection.execute("SELECT target, moved_at FROM moved").fetchone())


def mark_moved(connection: sqlite3.Connection, target: str, now: datetime) -> None:
    """Nobody opens the file from the end of this transaction on, until it is taken back."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute("CREATE TABLE moved (version INTEGER NOT NULL, target TEXT NOT NULL, moved_at TEXT NOT NULL)")
    connection.execute("INSERT INTO moved VALUES (?, ?, ?)", (version, target, now.isoformat(timespec="seconds")))
    _set_version(connection, _MOVED, _MOVED)


def _take_back(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("PRAGMA user_version").fetchone()[0] == _MOVED:
        (version,) = connection.execute("SELECT version FROM moved").fetchone()
        connection.execute("DROP TABLE moved")
        # Nobody has it open who could go on beside it.
        _set_version(connection, version, version)
    connection.execute("COMMIT")


def _set_version(connection: sqlite3.Connection, version: int, oldest: int) -> None:
    """The version of the schema, and the first whose processes go on beside it."""
    connection.execute("INSERT OR REPLACE INTO usagebill_schema VALUES (1, ?)", (oldest,))
    connection.execute(f"PRAGMA user_version = {int(version)}")


def _goes_on(connection: sqlite3.Connection, version: int) -> bool:
    """Whether this process can go on beside a schema of this version."""
    if version <= VERSION:
        return True
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'usagebill_schema'").fetchone():
        return False
    row = connection.execute("SELECT rolls_from FROM usagebill_schema").fetchone()
    return row is not None and row[0] <= VERSION


def rolls_from() -> int:
    """The first version whose processes go on beside this version's schema."""
    version = VERSION
    while version in ROLLING:
        version -= 1
    return version


_FIXED = """
CREATE TABLE IF NOT EXISTS usagebill_schema (id INTEGER PRIMARY KEY CHECK (id = 1), rolls_from INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sequences (
    organization_id TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (organization_id, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS window_counts (
    organization_id TEXT NOT NULL, name TEXT NOT NULL, began TEXT NOT NULL, n INTEGER NOT NULL,
    PRIMARY KEY (organization_id, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clock (id INTEGER PRIMARY KEY CHECK (id = 1), newest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS backups (id INTEGER PRIMARY KEY CHECK (id = 1), made_at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
    sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, organization_id TEXT NOT NULL, kind TEXT NOT NULL,
    subject_id TEXT NOT NULL, key TEXT NOT NULL, due_at TEXT NOT NULL, run_at TEXT NOT NULL, created_at TEXT NOT NULL,
    immediate INTEGER NOT NULL, lane TEXT NOT NULL DEFAULT '', payload TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, error TEXT, failed INTEGER NOT NULL DEFAULT 0, UNIQUE (organization_id, key));
CREATE TABLE IF NOT EXISTS events (
    sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, organization_id TEXT NOT NULL, transaction_id TEXT NOT NULL,
    code TEXT NOT NULL, external_subscription_id TEXT, timestamp INTEGER NOT NULL, properties TEXT NOT NULL,
    precise_total_amount_cents TEXT, created_at INTEGER NOT NULL, texts TEXT, millionths TEXT, long_numbers TEXT,
    in_advance INTEGER, uncounted INTEGER, unread_amount TEXT);
CREATE TABLE IF NOT EXISTS unfilled_lists (
    name TEXT NOT NULL, part TEXT NOT NULL, sequence INTEGER NOT NULL, PRIMARY KEY (name, part)) WITHOUT ROWID;
"""
_FIXED += f"{processes.table('TEXT')};{usage.TABLES}"
_EVENTS_USAGE = """
CREATE INDEX IF NOT EXISTS events_usage ON events (
    organization_id, external_subscription_id, code, timestamp, created_at);
"""
_FIXED_INDEXES = f"""{_EVENTS_USAGE}
CREATE UNIQUE INDEX IF NOT EXISTS jobs_id ON jobs (id);
CREATE INDEX IF NOT EXISTS jobs_ready ON jobs (lane, due_at, sequence) WHERE failed = 0 AND run_at = due_at;
CREATE INDEX IF NOT EXISTS jobs_held ON jobs (lane, run_at) WHERE failed = 0 AND run_at <> due_at;
CREATE INDEX IF NOT EXISTS jobs_immediate ON jobs (lane, due_at, sequence)
    WHERE immediate = 1 AND failed = 0 AND run_at = due_at;
CREATE INDEX IF NOT EXISTS jobs_failed ON jobs (due_at) WHERE failed = 1;
CREATE INDEX IF NOT EXISTS jobs_overdue ON jobs (organization_id, lane, due_at, sequence);
CREATE INDEX IF NOT EXISTS jobs_subject ON jobs (organization_id, subject_id, due_at);
CREATE UNIQUE INDEX IF NOT EXISTS events_transaction ON events (
    organization_id, transaction_id, external_subscription_id);
CREATE INDEX IF NOT EXISTS events_stored ON events (organization_id, external_subscription_id, code)
    WHERE in_advance = 1;
CREATE INDEX IF NOT EXISTS events_uncounted ON events (organization_id, external_subscription_id, code, timestamp)
    WHERE uncounted = 1;
CREATE INDEX IF NOT EXISTS events_listed ON events (organization_id, timestamp, code);
CREATE INDEX IF NOT EXISTS events_ahead ON events (
    organization_id, external_subscription_id, code, timestamp, created_at) WHERE timestamp > created_at;
"""


def default_of(kind: type, name: str) -> object:
    """The value of a new column in older rows: the field's default, as stored."""
    for item in fields(kind):
        if item.name != name:
            continue
        if item.default is not MISSING:
            value = item.default
        elif item.default_factory is not MISSING:
            value = item.default_factory()
        else:
            raise ValueError(f"{kind.__name__}.{name} was added without a default")
        if value is None or (isinstance(value, (int, str)) and not isinstance(value, bool)):
            return value
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, (datetime, date)):
            return value.isoformat()
        return getattr(value, "value", None) or msgspec.json.encode(value, order=None).decode()
    raise KeyError(name)


def default_sql(default: object) -> str:
    """The default of a new column: of older rows, and of those that processes write which do not know it."""
    if default is None:
        return ""
    text = str(default) if isinstance(default, int) else "'" + str(default).replace("'", "''") + "'"
    return f" DEFAULT {text}"


_SQL_TYPES: dict[type, str] = {int: "INTEGER", bytes: "BLOB"}


def _table_sql(table: Table) -> str:
    """The statement that creates the table of a kind of record: fields without a default are required."""
    required = {
        item.name
        for item in fields(table.kind)
        if item.default is MISSING and item.default_factory is MISSING and "None" not in str(item.type)
    }
    lines: list[str] = []
    for column in codec_of(table.kind).columns:
        line = f'   "{column.name}" {_SQL_TYPES.get(column.sql_type, "TEXT")}'
        if column.name == "id":
            line += " PRIMARY KEY"
        if column.name in required:
            line += " NOT NULL"
        if column.name in table.references:
            line += f' REFERENCES "{table_of(table.references[column.name]).name}"("id")'
        lines.append(line)
    return f'CREATE TABLE "{table.name}" (\n' + ",\n".join(lines) + "\n)"


def _make(db: sqlite3.Connection, table: Table) -> None:
    columns = {column.name: column.sql_type for column in codec_of(table.kind).columns}
    present = {name for _, name, *_ in db.execute(f'PRAGMA table_info("{table.name}")')}
    if not present:
        db.execute(_table_sql(table))
    else:
        for name, sql_type in columns.items():
            if name not in present:
                column = f'"{name}" {_SQL_TYPES.get(sql_type, "TEXT")}{default_sql(default_of(table.kind, name))}'
                db.execute(f'ALTER TABLE "{table.name}" ADD COLUMN {column}')
    live = " WHERE deleted_at IS NULL" if can_be_deleted(table.kind) else ""
    for rule, where in [(rule, live) for rule in table.unique] + [(rule, "") for rule in table.always_unique]:
        listed = ", ".join(f'"{column}"' for column in ("organization_id", *rule))
        db.execute(
            f'CREATE UNIQUE INDEX IF NOT EXISTS "{table.name}_unique_{"_".join(rule)}"'
            f' ON "{table.name}" ({listed}){where}'
        )
    indexes = dict(_indexes(table, "created_at" in columns))
    made = dict(
        db.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql NOT LIKE '%UNIQUE%'",
            [table.name],
        ).fetchall()
    )
    for name in made:
        if made[name] != indexes.get(name):
            db.execute(f'DROP INDEX "{name}"')
    for name, statement in indexes.items():
        if made.get(name) != statement:
            db.execute(statement)


def _indexes(table: Table, has_created_at: bool) -> Iterator[tuple[str, str]]:
    """Name and statement of every index that is not a uniqueness rule."""
    yield from index_definitions(table)
    by_time = has_created_at and (table.listing is None or table.listing.order[0].column != "created_at")
    others = [index for index in table.indexes if table.listing is None or index[0] not in table.listing.narrow]
    for index in (("created_at", "id"), *others) if by_time else others:
        words = [column.split(" ") for column in ("organization_id", *index)]
        listed = ", ".join(" ".join((f'"{column}"', *direction)) for column, *direction in words)
        if index[-1] == "id" and can_be_deleted(table.kind):
            # Lists are read from it in order, and skipped records only in the index.
            listed += ', "deleted_at"'
        name = f"{table.name}_{'_'.join(column for column, *_ in words[1:])}"
        yield name, f'CREATE INDEX "{name}" ON "{table.name}" ({listed})'


@dataclass(frozen=True, slots=True)
class _ListPart:
    """Tables and indexes that a table's lists need, with the statements that fill them with some of the records."""

    definitions: Callable[[Table], Iterator[tuple[str, str, str]]]
    fill: Callable[[Table, str], Iterable[str]]


def _fill_documents(table: Table, tests: str) -> list[str]:
    return [add_documents_sql(table, tests)] if table.listing is not None and table.listing.searched else []


_LIST_PARTS: dict[str, _ListPart] = {
    "counts": _ListPart(count_definitions, lambda table, tests: [counts_sql(table, tests)]),
    "documents": _ListPart(document_definitions, _fill_documents),
    "values": _ListPart(value_definitions, add_values_sql),
}
# Records filled in per transaction.
_FILLED_AT_ONCE = 20_000


def _make_lists(connection: sqlite3.Connection, table: Table, *, rebuilt: bool) -> None:
    """Create the tables and indexes that lists of the table need, empty, unless the file has exactly these, and note
    that they must be filled. With `rebuilt`, do so in any case, after a migration has changed rows.
    """
    if table.listing is None:
        return
    for name, part in _LIST_PARTS.items():
        definitions = list(part.definitions(table))
        made = dict(
            connection.execute(
                f"SELECT name, sql FROM sqlite_schema WHERE name IN ({','.join('?' * len(definitions))})",
                [name for _, name, _ in definitions],
            ).fetchall()
        )
        if not rebuilt and all(made.get(name) == statement for _, name, statement in definitions):
            continue
        for kind, definition, _ in definitions[::-1]:
            connection.execute(f'DROP {kind.upper()} IF EXISTS "{definition}"')
        for _, _, statement in definitions:
            connection.execute(statement)
        if definitions and connection.execute(f'SELECT 1 FROM "{table.name}" LIMIT 1').fetchone():
            connection.execute("INSERT OR REPLACE INTO unfilled_lists VALUES (?, ?, 0)", (table.name, name))


def fill_part(connection: sqlite3.Connection, table: Table, part: str, tests: str = "1") -> None:
    """Fill the "counts", "documents" or "values" of a table with the records, as `t`, that meet `tests`."""
    for statement in _LIST_PARTS[part].fill(table, tests):
        connection.execute(statement)


def fill_lists(connection: sqlite3.Connection) -> None:
    """Fill counts, documents and values from the records of older versions.

    It resumes after an interruption, in any process: each slice is one transaction.
    """
    tables = {table.name: table for table in TABLES}
    while connection.execute("SELECT 1 FROM unfilled_lists LIMIT 1").fetchone():
        connection.execute("BEGIN IMMEDIATE")
        try:
            rows = connection.execute("SELECT name, part, sequence FROM unfilled_lists").fetchall()
            if rows:
                parts = list(_LIST_PARTS)
                name, part, done = min(rows, key=lambda row: (row[0], parts.index(row[1])))
                _fill_slice(connection, tables[name], part, done)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _fill_slice(connection: sqlite3.Connection, table: Table, part: str, done: int) -> None:
    last = connection.execute(
        f'SELECT MAX(rowid) FROM (SELECT rowid FROM "{table.name}" WHERE rowid > ? ORDER BY rowid LIMIT ?)',
        (done, _FILLED_AT_ONCE),
    ).fetchone()[0]
    if last is None:
        connection.execute("DELETE FROM unfilled_lists WHERE name = ? AND part = ?", (table.name, part))
        return
    fill_part(connection, table, part, f"t.rowid > {int(done)} AND t.rowid <= {int(last)}")
    connection.execute("UPDATE unfilled_lists SET sequence = ? WHERE name = ? AND part = ?", (last, table.name, part))
    _log.info("lists_filled", table=table.name, part=part, up_to=last)


# The planner's assumptions: rows of a table, and rows with the same value of an id column.
_ROWS = 1_000_000
_EACH = 10
_EACH_OF_EVENTS = 1000
_COARSE = frozenset({"status", "fee_type", "credit_status", "lane", "recurring"})
_TIMES = frozenset({"created_at", "updated_at", "issuing_date", "timestamp", "due_at", "run_at"})


def _state_statistics(connection: sqlite3.Connection) -> None:
    """Set the query planner's statistics instead of measuring them, so that plans never change with the data.

    By default it assumes that an organization narrows a search, although most files have only one.
    """
    connection.execute("ANALYZE sqlite_schema")
    connection.execute("DELETE FROM sqlite_stat1")
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        if table.startswith("sqlite_"):
            continue
        for _, index, unique, *_ in connection.execute(f'PRAGMA index_list("{table}")').fetchall():
            columns = [row[2] for row in connection.execute(f'PRAGMA index_info("{index}")')]
            left, counts = _ROWS, []
            for column in columns:
                if column in _COARSE:
                    left = max(1, left // 4)
                elif column in _TIMES:
                    left = max(1, left // 1000)
                elif column != "organization_id":
                    left = min(_EACH_OF_EVENTS if table == "events" else _EACH, max(1, left // 2))
                counts.append(left)
            if unique:
                counts[-1] = 1
            numbers = " ".join(map(str, (_ROWS, *counts)))
            connection.execute("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)", (table, index, numbers))


def _run(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):
        if statement.strip():
            connection.execute(statement)


def bring_forward(connection: sqlite3.Connection, opening: Opening = AS_NEEDED, name: str = "") -> None:
    """Create the schema of a new file, or migrate an older one, which the log says with the file's `name`.

    Counts, documents and values are filled in afterwards, in slices; the next open of the file resumes it. Raises
    `NewerFile`, `InUse`, and whatever `opening` does not permit: `MovedFile`, `NoSystem`, `NotUpgraded`.
    """
    began = monotonic()
    if opening.takes_back:
        _take_back(connection)
    check_not_moved(connection)
    current = connection.execute("PRAGMA user_version").fetchone()[0]
    if not _goes_on(connection, current):
        raise NewerFile(current)
    if not current and not opening.creates:
        raise NoSystem
    if 0 < current < VERSION and not opening.upgrades:
        raise NotUpgraded(current)
    if current < VERSION:
        current = _bring_tables_forward(connection, opening)
    fill_lists(connection)
    if 0 < current < VERSION:
        seconds = round(monotonic() - began, 1)
        _log.info("schema_upgraded", database=name, former=current, schema=VERSION, seconds=seconds)


def seen(connection: sqlite3.Connection, now: datetime) -> list[Process]:
    """The processes that have the file open, as far as they said so."""
    return live(map(processes.process_of, connection.execute(processes.ALL)), now)


def _check_alone(connection: sqlite3.Connection, current: int) -> None:
    """Raises `InUse` if a process is seen that cannot go on beside the new schema."""
    now = datetime.now(UTC)
    others = [process for process in seen(connection, now) if process.schema < rolls_from()]
    if others:
        raise InUse(current, VERSION, others, now)


def _drop_folding_indexes(connection: sqlite3.Connection) -> None:
    """Version 7 had indexes over a Python function: no table can be altered while they exist."""
    indexes = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND (sql LIKE '%folded(%' OR sql LIKE '%casefold(%')"
    ).fetchall()
    for (name,) in indexes:
        connection.execute(f'DROP INDEX "{name}"')


def _bring_tables_forward(connection: sqlite3.Connection, opening: Opening) -> int:
    """Returns the version that the file had."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated the file while this one waited for the lock.
        current = connection.execute("PRAGMA user_version").fetchone()[0]
        if current < VERSION:
            if current >= _REGISTERED and not opening.beside_others:
                _check_alone(connection, current)
            _drop_folding_indexes(connection)
            if 0 < current < _LISTS_REMADE:
                _drop_former_lists(connection)
            _run(connection, _FIXED)
            for table in TABLES:
                _make(connection, table)
            for version in range(current + 1, VERSION + 1) if current else ():
                if version in _FIXED_STEPS:
                    _FIXED_STEPS[version](connection)
            steps = [STEPS[version] for version in range(current + 1, VERSION + 1) if current and version in STEPS]
            for step in steps:
                step(connection)
            for table in TABLES:
                _make_lists(connection, table, rebuilt=bool(steps))
            _run(connection, _FIXED_INDEXES)
            for trigger in usage.TRIGGERS:
                connection.execute(trigger)
            if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'workers'").fetchone():
                for statement in processes.FORMER:
                    connection.execute(statement)
            _state_statistics(connection)
            _set_version(connection, VERSION, rolls_from())
        connection.execute("COMMIT")
        # This connection loads the statistics now; later ones load them when they open the file.
        connection.execute("ANALYZE sqlite_schema")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return int(current)
