"""Running states of usage on PostgreSQL, by the rules of `storage.usage_series`.

Unlike in SQLite, sums and extremes are `numeric`, so that every number is kept in the same columns; each organization
has its own position up to which events are rolled up, as their order of arrival is its own; and whoever rolls up or
edits states holds the organization's lock, so that a writer never reads states of two moments.

An event that is deleted or changed by hand drops the organization's series (triggers), and events are counted until
the series are rebuilt. Events added by the product get places that nobody had before, so nothing has to watch them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import structlog

from usagebill.storage.event_queries import StateFault
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.events.sql_texts import Sql, number_sql, text_sql
from usagebill.storage.usage_series import (
    AGES,
    AT_ONCE,
    BUILDING,
    COUNT,
    DAY,
    DENSE,
    EDITED,
    EVENTS_PER_KEYED_STATE,
    EVENTS_PER_STATE,
    HOUR,
    MANY_MORE,
    MAX_SERIES,
    MAX_WAITING,
    MIN_WAITING,
    PRICED_NUMBERS,
    READY,
    USELESS,
    VALUES,
    WEIGHTED_NUMBERS,
    MissingSeries,
    Pair,
    Shape,
    counts_by_keys,
    days_of,
    min_events,
    narrower_than,
)

_log = structlog.get_logger("usagebill.usage")

# Raised whenever states of the same events would differ: series of another form are rebuilt.
FORM: Final = 2

_C: Final = 'text COLLATE "C"'
# Texts of properties may be longer than an index takes, so states and series are named by digests.
STATE_TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS usage_series (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, organization_id {_C} NOT NULL,
    external_subscription_id {_C} NOT NULL, code {_C} NOT NULL, digest {_C} NOT NULL, kind {_C} NOT NULL,
    field {_C} NOT NULL, keys {_C} NOT NULL, form integer NOT NULL, width bigint NOT NULL, stage integer NOT NULL,
    base bigint NOT NULL, built_to bigint, UNIQUE (organization_id, external_subscription_id, code, digest));
CREATE TABLE IF NOT EXISTS usage_slots (
    series bigint NOT NULL, slot bigint NOT NULL, organization_id {_C} NOT NULL, n bigint NOT NULL,
    first_at bigint NOT NULL, last_at bigint NOT NULL, received_at bigint NOT NULL, spoken boolean NOT NULL,
    PRIMARY KEY (series, slot)) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS usage_states (
    series bigint NOT NULL, slot bigint NOT NULL, digest bytea NOT NULL, organization_id {_C} NOT NULL,
    dims text[] NOT NULL, value text NOT NULL, n bigint NOT NULL, total numeric, top numeric, first_at bigint NOT NULL,
    first_sequence bigint NOT NULL, last_at bigint NOT NULL, moment numeric, paid numeric,
    PRIMARY KEY (series, slot, digest)) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS usage_rolled_up (
    organization_id {_C} PRIMARY KEY, sequence bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS usage_dropped (series bigint PRIMARY KEY, organization_id {_C} NOT NULL);
"""
_DROP_EDITED: Final = (
    "DELETE FROM usage_series s USING usage_rolled_up r"
    f" WHERE r.organization_id = s.organization_id AND r.sequence = {EDITED};"
)


def _trigger(name: str, fires: str, body: str) -> tuple[str, str]:
    """The statements for a trigger; its function finds our tables in any schema."""
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT"
        f" AS $$ BEGIN {body} RETURN NULL; END $$",
        f"CREATE OR REPLACE TRIGGER {name} {fires} EXECUTE FUNCTION {name}()",
    )


# None for inserts, which would slow down ingestion. Marks do not affect counts.
_COUNTED_COLUMNS: Final = (
    "sequence, id, organization_id, transaction_id, code, external_subscription_id, timestamp, properties,"
    " precise_total_amount_cents, created_at, texts, numbers"
)
STATE_STATEMENTS: Final = (
    # Databases before version 7 have the table without them.
    "ALTER TABLE usage_states ADD COLUMN IF NOT EXISTS moment numeric, ADD COLUMN IF NOT EXISTS paid numeric",
    *_trigger(
        "usage_events_deleted",
        "AFTER DELETE ON events REFERENCING OLD TABLE AS gone FOR EACH STATEMENT",
        f"UPDATE usage_rolled_up r SET sequence = {EDITED} FROM (SELECT organization_id, MIN(sequence) AS first"
        " FROM gone GROUP BY organization_id) g WHERE g.organization_id = r.organization_id AND g.first <= r.sequence;"
        f" {_DROP_EDITED}",
    ),
    *_trigger(
        "usage_event_changed",
        f"AFTER UPDATE OF {_COUNTED_COLUMNS} ON events FOR EACH ROW",
        f"UPDATE usage_rolled_up SET sequence = {EDITED} WHERE (organization_id = OLD.organization_id AND sequence >="
        " OLD.sequence) OR (organization_id = NEW.organization_id AND sequence >= NEW.sequence);"
        f" IF FOUND THEN {_DROP_EDITED} END IF;",
    ),
    *_trigger(
        "usage_events_truncated",
        "AFTER TRUNCATE ON events FOR EACH STATEMENT",
        f"UPDATE usage_rolled_up SET sequence = {EDITED}; {_DROP_EDITED}",
    ),
    # Their states are deleted later, some at a time. Ids of series are never reused.
    *_trigger(
        "usage_series_dropped",
        "AFTER DELETE ON usage_series FOR EACH ROW",
        "INSERT INTO usage_dropped (series, organization_id) VALUES (OLD.id, OLD.organization_id)"
        " ON CONFLICT DO NOTHING;",
    ),
)


@dataclass(frozen=True, slots=True)
class _Series:
    id: int
    pair: Pair
    shape: Shape
    width: int
    base: int
    built_to: int | None


_SERIES: Final = (
    "SELECT id, organization_id, external_subscription_id, code, kind, field, keys, width, base, built_to"
    " FROM usage_series"
)
_OF_PAIR: Final = "organization_id = ? AND external_subscription_id = ? AND code = ?"


def _series_of(row: tuple[Any, ...]) -> _Series:
    id, organization_id, external_subscription_id, code, kind, field, keys, width, base, built_to = row
    shape = Shape.of_columns(kind, field, keys)
    return _Series(id, (organization_id, external_subscription_id, code), shape, width, base, built_to)


def shape_digest(shape: Shape) -> str:
    """The name of a shape in an index."""
    return sha256(json.dumps(shape.columns).encode()).hexdigest()


def _scalar(connection: Connection, sql: str, values: tuple[Any, ...]) -> Any:
    row = connection.execute(sql, values).fetchone()
    return None if row is None else row[0]


def _rolled_up_to(connection: Connection, organization_id: str) -> int | None:
    """The place of the last event that is in the states of all series; None if the organization never had any."""
    sequence = _scalar(connection, "SELECT sequence FROM usage_rolled_up WHERE organization_id = ?", (organization_id,))
    return None if sequence is None else int(sequence)


def _last(connection: Connection, organization_id: str) -> int:
    values = (organization_id,)
    return int(
        _scalar(connection, "SELECT value FROM sequences WHERE organization_id = ? AND name = 'events'", values) or 0
    )


def _note(connection: Connection, organization_id: str, sequence: int) -> None:
    connection.execute(
        "INSERT INTO usage_rolled_up (organization_id, sequence) VALUES (?, ?)"
        " ON CONFLICT (organization_id) DO UPDATE SET sequence = excluded.sequence",
        (organization_id, sequence),
    )


# Making series


def _start_missing(connection: Connection, organization_id: str, missing: MissingSeries) -> None:
    """Start the series that were missing, for subscriptions with many events."""
    lacked = missing.take(organization_id)
    if lacked and _rolled_up_to(connection, organization_id) == EDITED:
        _log.warning(
            "usage_states_are_off",
            organization_id=organization_id,
            reason="events were edited",
            remedy="usagebill usage rebuild",
        )
        return
    for pair, shape, width in lacked:
        if width is not None:
            _narrow(connection, pair, shape, width)
            continue
        if not _is_dense(connection, pair, shape):
            continue
        if _is_worth_another_try(connection, pair, shape):
            _drop(connection, pair, shape)
        if (_scalar(connection, f"SELECT COUNT(*) FROM usage_series WHERE {_OF_PAIR}", pair) or 0) < MAX_SERIES:
            _begin(connection, pair, shape, HOUR)


def _drop(connection: Connection, pair: Pair, shape: Shape) -> None:
    connection.execute(f"DELETE FROM usage_series WHERE {_OF_PAIR} AND digest = ?", (*pair, shape_digest(shape)))


def _is_worth_another_try(connection: Connection, pair: Pair, shape: Shape) -> bool:
    """Whether there are many more events than when a series was given up; `built_to` has their number then."""
    least = _scalar(
        connection,
        f"SELECT {MANY_MORE} * built_to FROM usage_series WHERE {_OF_PAIR} AND digest = ? AND stage = {USELESS}",
        (*pair, shape_digest(shape)),
    )
    return least is not None and _count_up_to(connection, pair, least) >= least


def _narrow(connection: Connection, pair: Pair, shape: Shape, width: int) -> None:
    """Begin the series again with narrower slices, down to this width, if they still have enough events each."""
    row = connection.execute(
        f"SELECT id, width FROM usage_series WHERE {_OF_PAIR} AND digest = ? AND stage = {READY}",
        (*pair, shape_digest(shape)),
    ).fetchone()
    if row is None:
        return
    series_id, present = row
    events = int(_scalar(connection, "SELECT coalesce(SUM(n), 0) FROM usage_slots WHERE series = ?", (series_id,)))
    for narrower in narrower_than(present, width):
        parts = present // narrower
        states = _scalar(
            connection,
            "SELECT COUNT(*) FROM (SELECT 1 FROM usage_states WHERE series = ? LIMIT ?) looked_at",
            (series_id, events // parts + 1),
        )
        if int(states) * parts * _events_per_state(shape) <= events:
            _drop(connection, pair, shape)
            _begin(connection, pair, shape, narrower)
            return


def _events_per_state(shape: Shape) -> int:
    """The least number of events per state with which a series of the shape pays off."""
    return min(EVENTS_PER_STATE, EVENTS_PER_KEYED_STATE) if counts_by_keys(shape) else EVENTS_PER_STATE


def _is_dense(connection: Connection, pair: Pair, shape: Shape) -> bool:
    least = min_events(shape, DENSE)
    return _count_up_to(connection, pair, least) >= least


def _count_up_to(connection: Connection, pair: Pair, most: int) -> int:
    """The number of events of the pair, at most `most`."""
    return int(
        _scalar(
            connection,
            f"SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE {_OF_PAIR} LIMIT ?) looked_at",
            (*pair, most),
        )
    )


def _begin(connection: Connection, pair: Pair, shape: Shape, width: int) -> None:
    organization_id = pair[0]
    if not _scalar(
        connection, "SELECT EXISTS (SELECT 1 FROM usage_series WHERE organization_id = ?)", (organization_id,)
    ):
        # The first series: nothing was rolled up before.
        _note(connection, organization_id, _last(connection, organization_id))
    begin_again(connection, pair, shape.columns, width)


def begin_again(connection: Connection, pair: Pair, columns: tuple[str, str, str], width: int = HOUR) -> None:
    """Begin a series with a shape of these `columns`, unless it exists; the organization has a position.

    A shape that is keyed by positions of filters, as those of files are, becomes one by the properties that they name.
    """
    shape = Shape.of_columns(*columns).by_properties
    kind, field, keys = shape.columns
    digest = shape_digest(shape)
    connection.execute(
        "INSERT INTO usage_series (organization_id, external_subscription_id, code, digest, kind, field, keys, form,"
        f" width, stage, base) SELECT ?, ?, ?, ?, ?, ?, ?, ?::integer, ?::bigint, {BUILDING}, sequence"
        " FROM usage_rolled_up WHERE organization_id = ? ON CONFLICT DO NOTHING",
        (*pair, digest, kind, field, keys, FORM, width, pair[0]),
    )


def rebuild(connection: Connection, organization_id: str) -> int:
    """Drop all states of an organization and begin its series again; returns how many there are."""
    rows = connection.execute(f"{_SERIES} WHERE organization_id = ? ORDER BY id", (organization_id,)).fetchall()
    connection.execute("DELETE FROM usage_series WHERE organization_id = ?", (organization_id,))
    if rows or _rolled_up_to(connection, organization_id) is not None:
        _note(connection, organization_id, _last(connection, organization_id))
    for row in rows:
        series = _series_of(row)
        _begin(connection, series.pair, series.shape, HOUR)
    return len(rows)


# Rolling up


def keep_up(
    connection: Connection, organization_id: str, missing: MissingSeries | None, done: int | None, last: int
) -> None:
    """Roll up within the transaction that stores events, if nobody else has for long: of `last` events, `done` are
    rolled up.
    """
    if missing and organization_id in missing.organizations():
        _start_missing(connection, organization_id, missing)
    if done is not None and done != EDITED and last - done >= MAX_WAITING:
        _roll_window(connection, organization_id, last - done)


_BEHIND: Final = f"""
SELECT r.organization_id FROM usage_rolled_up r LEFT JOIN sequences q
ON q.organization_id = r.organization_id AND q.name = 'events'
WHERE EXISTS (SELECT 1 FROM usage_dropped d WHERE d.organization_id = r.organization_id)
OR EXISTS (SELECT 1 FROM usage_series s WHERE s.organization_id = r.organization_id
    AND (q.value - r.sequence >= ? OR s.stage = {BUILDING} OR s.form <> {FORM}))
ORDER BY q.value - r.sequence DESC NULLS LAST LIMIT 1
"""


def behind(connection: Connection, missing: MissingSeries) -> str | None:
    """An organization for which `roll_up` has something to do that is worth a transaction."""
    for organization_id in missing.organizations():
        return organization_id
    organization: str | None = _scalar(connection, _BEHIND, (MIN_WAITING,))
    return organization


def roll_up(connection: Connection, organization_id: str, missing: MissingSeries) -> None:
    """Do the next slice of work: start series, roll up new events, backfill series, delete states of dropped ones."""
    # Series of another version are rebuilt, as that version does with ours.
    outdated = connection.execute(
        f"{_SERIES} WHERE organization_id = ? AND form <> {FORM}", (organization_id,)
    ).fetchall()
    for series in map(_series_of, outdated):
        _drop(connection, series.pair, series.shape)
    _start_missing(connection, organization_id, missing)
    if _scalar(connection, "SELECT EXISTS (SELECT 1 FROM usage_series WHERE organization_id = ?)", (organization_id,)):
        _roll_window(connection, organization_id, AT_ONCE)
        row = connection.execute(
            f"{_SERIES} WHERE organization_id = ? AND stage = {BUILDING} ORDER BY id LIMIT 1", (organization_id,)
        ).fetchone()
        if row is not None:
            _build_slice(connection, _series_of(row))
    _drop_slice(connection, organization_id)


def _drop_slice(connection: Connection, organization_id: str) -> None:
    """Delete some states of a dropped series."""
    id = _scalar(connection, "SELECT series FROM usage_dropped WHERE organization_id = ? LIMIT 1", (organization_id,))
    if id is None:
        return
    at_once = 10 * AT_ONCE
    gone = connection.execute(
        "DELETE FROM usage_states WHERE ctid = ANY(ARRAY("
        "SELECT ctid FROM usage_states WHERE series IN (?, ?) LIMIT ?))",
        (id, days_of(id), at_once),
    )
    if gone.rowcount < at_once:
        connection.execute("DELETE FROM usage_slots WHERE series IN (?, ?)", (id, days_of(id)))
        connection.execute("DELETE FROM usage_dropped WHERE series = ?", (id,))


def _roll_window(connection: Connection, organization_id: str, at_most: int) -> None:
    """Roll up the next events that were stored."""
    done = _scalar(
        connection, "SELECT sequence FROM usage_rolled_up WHERE organization_id = ? FOR UPDATE", (organization_id,)
    )
    last = _last(connection, organization_id)
    if done is None or done == EDITED or done >= last:
        return
    top = min(done + at_most, last)
    window = organization_id, done, top
    # The bounds are applied first: nothing else limits the number of events.
    events = "(SELECT * FROM events WHERE organization_id = ? AND sequence > ? AND sequence <= ? OFFSET 0) e"
    present = connection.execute(
        "SELECT DISTINCT kind, field, keys FROM usage_series s JOIN (SELECT DISTINCT external_subscription_id, code"
        f" FROM {events}) e ON s.external_subscription_id = e.external_subscription_id AND s.code = e.code"
        f" WHERE s.organization_id = ? AND s.stage < {USELESS}",
        (*window, organization_id),
    ).fetchall()
    for kind, field, keys in present:
        shape = Shape(kind, json.loads(field), tuple(json.loads(keys)))
        source = Sql().add(
            f"{events} JOIN usage_series s ON s.organization_id = e.organization_id AND s.digest = ?"
            " AND s.external_subscription_id = e.external_subscription_id AND s.code = e.code"
            f" AND s.stage < {USELESS}",
            *window,
            shape_digest(shape),
        )
        _merge(connection, organization_id, shape, _fresh(shape, source, "s.id", "s.width"))
    _note(connection, organization_id, top)


def _build_slice(connection: Connection, series: _Series) -> None:
    """Add some of the events that were stored before the series was, in order of time."""
    begin = -(2**62) if series.built_to is None else series.built_to
    row = connection.execute(
        f"SELECT timestamp FROM events WHERE {_OF_PAIR} AND timestamp > ? ORDER BY timestamp LIMIT 1 OFFSET ?",
        (*series.pair, begin, AT_ONCE),
    ).fetchone()
    end = 2**62 if row is None else int(row[0])
    source = Sql().add(
        f"(SELECT * FROM events WHERE {_OF_PAIR} AND timestamp > ? AND timestamp <= ? AND sequence <= ?) e",
        *(*series.pair, begin, end, series.base),
    )
    fresh = _fresh(series.shape, source, str(int(series.id)), str(int(series.width)))
    _merge(connection, series.pair[0], series.shape, fresh)
    if row is not None:
        connection.execute("UPDATE usage_series SET built_to = ? WHERE id = ?", (end, series.id))
        return
    sizes = connection.execute(
        "SELECT (SELECT COUNT(*) FROM usage_states WHERE series = ?), (SELECT coalesce(SUM(n), 0) FROM usage_slots"
        " WHERE series = ?)",
        (series.id, series.id),
    ).fetchone()
    assert sizes is not None
    states, events = map(int, sizes)
    if states * _events_per_state(series.shape) <= events or states < DENSE // EVENTS_PER_STATE:
        connection.execute(f"UPDATE usage_series SET stage = {READY} WHERE id = ?", (series.id,))
        return
    # Slices too short for the number of combinations.
    _drop(connection, series.pair, series.shape)
    _begin(connection, series.pair, series.shape, DAY)
    if series.width == DAY or series.shape.kind == VALUES:
        connection.execute(
            f"UPDATE usage_series SET stage = {USELESS}, built_to = ? WHERE {_OF_PAIR} AND digest = ?",
            (events, *series.pair, shape_digest(series.shape)),
        )


def _fresh(shape: Shape, source: Sql, series: str, width: str) -> Sql:
    """The query for the states of the events of `source`, in slices of `width`."""
    sql = Sql().add(f"SELECT {series} AS series, {width} AS width, ")
    slot = f"(timestamp + {AGES}) / {width} - {AGES} / {width}"
    if shape.kind == VALUES:
        # Calendar months: a value counts once however often it occurs, so fewer slices are better.
        second = f"to_timestamp(((timestamp + {AGES}) / 1000000 - {AGES // 1_000_000})::double precision)"
        slot = (
            f"(extract(year FROM {second} AT TIME ZONE 'UTC') * 100"
            f" + extract(month FROM {second} AT TIME ZONE 'UTC'))::bigint"
        )
    sql.add(f"{slot} AS slot, ")
    keys = [f"key_{place}" for place in range(len(shape.keys))]
    for name, key in zip(keys, shape.keys, strict=True):
        text_sql(sql, key).add(f" AS {name}, ")
    if shape.kind == VALUES and shape.field is not None:
        text_sql(sql, shape.field).add(" AS value, NULL::numeric AS number, ")
        # The operation type, which hardly any event has.
        text_sql(sql, "operation_type").add(" IS NOT NULL AS spoken, ")
    else:
        number_sql(sql.add("''::text AS value, "), shape.field).add(" AS number, FALSE AS spoken, ")
    if shape.kind == PRICED_NUMBERS:
        sql.add("precise_total_amount_cents::numeric AS price, ")
    sql.add(f"timestamp, sequence, created_at FROM {source.text}", *source.values)
    counting = {COUNT: "TRUE", VALUES: "value IS NOT NULL"}.get(shape.kind, "number IS NOT NULL")
    moment = "SUM(number * timestamp)" if shape.kind == WEIGHTED_NUMBERS else "NULL::numeric"
    paid = "SUM(price)" if shape.kind == PRICED_NUMBERS else "NULL::numeric"
    dims = f"ARRAY[{', '.join(keys)}]::text[]"
    # Evaluated once per event, not at each use.
    text = (
        f"SELECT series, width, slot, sha256(convert_to(array_to_json(array_append({dims}, value))::text, 'UTF8'))"
        f" AS digest, {dims} AS dims, value, COUNT(*) AS n, SUM(number) AS total, MAX(number) AS top,"
        " MIN(timestamp) AS first_at, MIN(sequence) AS first_sequence, MAX(timestamp) AS last_at,"
        f" {moment} AS moment, {paid} AS paid, MAX(created_at) AS received_at, bool_or(spoken) AS spoken"
        f" FROM ({sql.text} OFFSET 0) rows WHERE {counting}"
        f" GROUP BY {', '.join(['series', 'width', 'slot', *keys, 'value'])}"
    )
    return Sql().add(text, *sql.values)


_STATE: Final = "series, slot, digest, dims, value, n, total, top, first_at, first_sequence, last_at, moment, paid"
_SLOT: Final = (
    "series, slot, SUM(n)::bigint AS n, MIN(first_at) AS first_at, MAX(last_at) AS last_at,"
    " MAX(received_at) AS received_at, bool_or(spoken) AS spoken"
)
_DAYS: Final = AGES // DAY
_PER_DAY: Final = f"({DAY}::bigint / width)"
# Narrower slices of the same day and properties, merged.
_BY_DAY: Final = (
    f"SELECT -series, {DAY}::bigint, (slot + {_DAYS} * {_PER_DAY}) / {_PER_DAY} - {_DAYS}, digest, dims, value,"
    " SUM(n)::bigint, SUM(total), MAX(top), MIN(first_at), MIN(first_sequence), MAX(last_at), SUM(moment), SUM(paid),"
    " MAX(received_at), bool_or(spoken)"
    f" FROM fresh WHERE width < {DAY} GROUP BY 1, 3, digest, dims, value"
)


def _merge(connection: Connection, organization_id: str, shape: Shape, fresh: Sql) -> None:
    """Merge fresh states into the stored ones, and into those of their days."""
    by_day = "" if shape.kind == VALUES else f" UNION ALL {_BY_DAY}"
    connection.execute(
        f"WITH fresh AS MATERIALIZED ({fresh.text}), both_widths AS MATERIALIZED (SELECT * FROM fresh{by_day}),"
        f" states AS (INSERT INTO usage_states (organization_id, {_STATE}) SELECT ?, {_STATE} FROM both_widths"
        " ON CONFLICT (series, slot, digest) DO UPDATE SET n = usage_states.n + excluded.n,"
        " total = usage_states.total + excluded.total, top = greatest(usage_states.top, excluded.top),"
        " first_at = least(usage_states.first_at, excluded.first_at),"
        " first_sequence = least(usage_states.first_sequence, excluded.first_sequence),"
        " last_at = greatest(usage_states.last_at, excluded.last_at), moment = usage_states.moment + excluded.moment,"
        " paid = coalesce(usage_states.paid + excluded.paid, usage_states.paid, excluded.paid))"
        " INSERT INTO usage_slots (organization_id, series, slot, n, first_at, last_at, received_at, spoken)"
        f" SELECT ?, {_SLOT} FROM both_widths GROUP BY series, slot ON CONFLICT (series, slot) DO UPDATE SET"
        " n = usage_slots.n + excluded.n, first_at = least(usage_slots.first_at, excluded.first_at),"
        " last_at = greatest(usage_slots.last_at, excluded.last_at),"
        " received_at = greatest(usage_slots.received_at, excluded.received_at),"
        " spoken = usage_slots.spoken OR excluded.spoken",
        (*fresh.values, organization_id, organization_id),
    )


# Checking


def faults(connection: Connection, organization_id: str) -> Iterator[StateFault]:
    """The series of an organization whose states differ from a full count of their events."""
    rows = connection.execute(
        f"{_SERIES} WHERE organization_id = ? AND stage = {READY} AND form = {FORM} ORDER BY id", (organization_id,)
    ).fetchall()
    done = _rolled_up_to(connection, organization_id) or 0
    for series in map(_series_of, rows):
        differing = _differing(connection, series, done, series.id, series.width)
        if series.width < DAY and series.shape.kind != VALUES:
            differing += _differing(connection, series, done, days_of(series.id), DAY)
        if differing:
            _, external_subscription_id, code = series.pair
            yield StateFault(
                external_subscription_id=external_subscription_id,
                code=code,
                kind=series.shape.kind,
                differing=differing,
            )


def _differing(connection: Connection, series: _Series, done: int, id: int, width: int) -> int:
    """The number of states and slots under this id that differ from a count of the events in slices of this width."""
    source = Sql().add(f"(SELECT * FROM events WHERE {_OF_PAIR} AND sequence <= ?) e", *series.pair, done)
    fresh = _fresh(series.shape, source, str(int(id)), str(int(width)))

    def unlike(kept: str, counted: str, key: str, columns: str) -> str:
        here, there = (", ".join(f"{side}.{name}" for name in columns.split(", ")) for side in ("k", "c"))
        return (
            f"(SELECT COUNT(*) FROM (SELECT * FROM {kept} WHERE series = {int(id)}) k FULL JOIN {counted} c"
            f" USING ({key}) WHERE ROW({here}) IS DISTINCT FROM ROW({there}))"
        )

    # As texts, sums are compared with their decimals.
    state = "n, total::text, top, first_at, first_sequence, last_at, moment::text, paid::text"
    return int(
        _scalar(
            connection,
            f"WITH fresh AS MATERIALIZED ({fresh.text}), slots AS (SELECT {_SLOT} FROM fresh GROUP BY series, slot)"
            f" SELECT {unlike('usage_states', 'fresh', 'slot, digest, dims, value', state)}"
            f" + {unlike('usage_slots', 'slots', 'slot', 'n, first_at, last_at, received_at, spoken')}",
            tuple(fresh.values),
        )
    )
