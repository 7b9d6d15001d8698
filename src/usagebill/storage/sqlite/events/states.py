"""Running states of usage: partial aggregates by slices of time, so that usage is not counted from the start.

A series (`storage.usage_series`) is kept for an external subscription and a code with many events, if queries could use
it. Its states are sums, extremes and counts, which can be merged in any order. Events are rolled up into them in the
order of storing, so that everything up to `usage_rolled_up` is in them and the rest is read as it is (`state_answers`).
A new series takes part from then on; what was stored before is added slice by slice, and until that is done the series
answers nothing.

Series by hours, or by quarters of them, are also kept by day, so that an answer need not add up a month of hours; keyed
series also by wider slices, so that it need not add up a month of days per key (`slices_of`). If many events are read
at the edges of queries, a series is begun again with narrower slices.

Events are only ever appended. If somebody deletes or changes one by hand, a trigger drops all series, and events are
counted until the series are rebuilt.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import structlog

from usagebill.storage.event_queries import StateFault
from usagebill.storage.sqlite.events.answers import EventSql
from usagebill.storage.sqlite.events.state_rows import Row, add_rows, merged, of_counts, slots_of, widened
from usagebill.storage.sqlite.events.state_sql import KEPT, STATE_COLUMNS, fresh_sql
from usagebill.storage.usage_series import (
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
    NUMBERS,
    PRICED_NUMBERS,
    READY,
    USELESS,
    VALUES,
    MissingSeries,
    Pair,
    Shape,
    days_of,
    min_events,
    narrower_than,
)

_log = structlog.get_logger("usagebill.usage")

# Raised whenever states of the same events would differ: series of another form are rebuilt.
FORM: Final = 6
# Wider slices of series that have keys, and of those by filters, whose slices have few states. Each width is a multiple
# of the one before.
_WIDER: Final = (8 * DAY, 64 * DAY)
_WIDER_BY_FILTERS: Final = (4 * DAY, 16 * DAY, 64 * DAY)
# Ids of series are below this. Wider slices are stored under the id plus this, twice this and so on.
_IDS: Final = 2**40
# Up to this many series of a shape each query the new events; with more, series are looked up per event.
_ONE_BY_ONE: Final = 4
_FEW_SERIES: Final = 8

STATE_TABLES: Final = """
CREATE TABLE IF NOT EXISTS usage_series (
    id INTEGER PRIMARY KEY AUTOINCREMENT, organization_id TEXT NOT NULL, external_subscription_id TEXT NOT NULL,
    code TEXT NOT NULL, kind TEXT NOT NULL, field TEXT NOT NULL, keys TEXT NOT NULL, form INTEGER NOT NULL,
    width INTEGER NOT NULL, stage INTEGER NOT NULL, base INTEGER NOT NULL, built_to INTEGER,
    UNIQUE (organization_id, external_subscription_id, code, kind, field, keys));
CREATE TABLE IF NOT EXISTS usage_slots (
    series INTEGER NOT NULL, slot INTEGER NOT NULL, n INTEGER NOT NULL, first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL, received_at INTEGER NOT NULL, spoken INTEGER NOT NULL,
    PRIMARY KEY (series, slot)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage_states (
    series INTEGER NOT NULL, slot INTEGER NOT NULL, dims TEXT NOT NULL, value TEXT NOT NULL, n INTEGER NOT NULL,
    low INTEGER NOT NULL, high INTEGER NOT NULL, top INTEGER, longs INTEGER NOT NULL, rest TEXT, long_top TEXT,
    first_at INTEGER NOT NULL, first_sequence INTEGER NOT NULL, last_at INTEGER NOT NULL, moment TEXT, paid TEXT,
    PRIMARY KEY (series, slot, dims, value)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage_rolled_up (id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL);
"""
# States of dropped series are deleted later, slice by slice. Ids of series are never reused.
_ROLLED_UP: Final = "(SELECT sequence FROM usage_rolled_up WHERE id = 1)"
# After events were edited, no position holds: freed sequence numbers may be reused unnoticed.
_DROP: Final = f"BEGIN DELETE FROM usage_series; UPDATE usage_rolled_up SET sequence = {EDITED}; END"
# There is none for inserts, which would cost 3 % of ingestion: sequence numbers only become free once events are
# deleted. Marks do not affect counts.
_COUNTED_COLUMNS: Final = (
    "sequence, id, organization_id, transaction_id, code, external_subscription_id, timestamp, properties,"
    " precise_total_amount_cents, created_at, texts, millionths, long_numbers"
)
STATE_TRIGGERS: Final = (
    f"CREATE TRIGGER IF NOT EXISTS usage_event_deleted AFTER DELETE ON events WHEN OLD.sequence <= {_ROLLED_UP}"
    f" {_DROP}",
    f"CREATE TRIGGER IF NOT EXISTS usage_event_changed AFTER UPDATE OF {_COUNTED_COLUMNS} ON events"
    f" WHEN OLD.sequence <= {_ROLLED_UP} OR NEW.sequence <= {_ROLLED_UP} {_DROP}",
)


@dataclass(frozen=True, slots=True)
class _Series:
    id: int
    pair: Pair
    shape: Shape
    width: int
    stage: int
    base: int
    built_to: int | None


_SERIES: Final = (
    "SELECT id, organization_id, external_subscription_id, code, kind, field, keys, width, stage, base, built_to"
    " FROM usage_series"
)


# One series, by its pair and the columns of its shape.
_NAMED: Final = (
    "WHERE organization_id = ? AND external_subscription_id = ? AND code = ? AND kind = ? AND field = ? AND keys = ?"
)


def _series_of(row: tuple[int, str, str, str, str, str, str, int, int, int, int | None]) -> _Series:
    id, organization_id, external_subscription_id, code, kind, field, keys, width, stage, base, built_to = row
    shape = Shape.of_columns(kind, field, keys)
    return _Series(id, (organization_id, external_subscription_id, code), shape, width, stage, base, built_to)


def slices_of(id: int, width: int, shape: Shape) -> list[tuple[int, int]]:
    """The numbers under which slices of a series are kept, with their widths, narrowest first."""
    slices = [(id, width)]
    if shape.kind == VALUES:
        return slices
    if width < DAY:
        slices.append((days_of(id), DAY))
    return slices + [(id + place * _IDS, wider) for place, wider in enumerate(_wider_of(shape), 1)]


def _wider_of(shape: Shape) -> Sequence[int]:
    if shape.filters is not None:
        return _WIDER_BY_FILTERS
    return _WIDER if shape.keys else ()


# The id of a series whose slices are kept under a number.
_ID_OF: Final = f"(abs(series) & {_IDS - 1})"


def rolled_up_to(connection: sqlite3.Connection) -> int:
    """The place of the last event that is in the states of all series."""
    row = connection.execute("SELECT sequence FROM usage_rolled_up").fetchone()
    return 0 if row is None else int(row[0])


def _last(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(MAX(sequence), 0) FROM events").fetchone()[0])


def _note(connection: sqlite3.Connection, sequence: int) -> None:
    connection.execute("INSERT OR REPLACE INTO usage_rolled_up (id, sequence) VALUES (1, ?)", (sequence,))


# Making series


def start_missing(connection: sqlite3.Connection, missing: MissingSeries) -> None:
    """Start the series that were missing, for subscriptions with many events."""
    if rolled_up_to(connection) == EDITED:
        if missing.take():
            _log.warning("usage_states_are_off", reason="events were edited", remedy="usagebill usage rebuild")
        return
    for pair, shape, width in missing.take():
        if width is not None:
            _narrow(connection, pair, shape, width)
            continue
        if not _is_dense(connection, pair, shape):
            continue
        if _is_worth_another_try(connection, pair, shape):
            connection.execute(f"DELETE FROM usage_series {_NAMED}", (*pair, *shape.columns))
        series_count = connection.execute(
            "SELECT COUNT(*) FROM usage_series WHERE organization_id = ? AND external_subscription_id = ? AND code = ?",
            pair,
        ).fetchone()[0]
        if series_count < MAX_SERIES or _makes_room(connection, pair):
            _begin(connection, pair, shape, HOUR)


def _makes_room(connection: sqlite3.Connection, pair: Pair) -> bool:
    """Whether the pair had a series to drop: its oldest by filters, as a charge may have others by now.

    Not before half as many events have been stored since it was begun as the pair has: series that replace one another
    all the time cost a few roll-ups for each event, however many events there are.
    """
    series_id, base = connection.execute(
        "SELECT MIN(id), base FROM usage_series WHERE organization_id = ? AND external_subscription_id = ? AND code = ?"
        " AND substr(keys, 1, 1) = '{'",
        pair,
    ).fetchone()
    if series_id is None:
        return False
    affordable = 2 * (_last(connection) - int(base))
    if _count_up_to(connection, pair, affordable + 1) > affordable:
        return False
    connection.execute("DELETE FROM usage_series WHERE id = ?", (series_id,))
    return True


def _is_worth_another_try(connection: sqlite3.Connection, pair: Pair, shape: Shape) -> bool:
    """Whether there are many more events than when a series was given up; `built_to` has their number then."""
    row = connection.execute(f"SELECT stage, built_to FROM usage_series {_NAMED}", (*pair, *shape.columns)).fetchone()
    if row is None or row[0] != USELESS:
        return False
    return _count_up_to(connection, pair, MANY_MORE * int(row[1])) >= MANY_MORE * int(row[1])


def _narrow(connection: sqlite3.Connection, pair: Pair, shape: Shape, width: int) -> None:
    """Begin the series again with narrower slices, down to this width, if they still have enough events each."""
    row = connection.execute(
        f"SELECT id, width FROM usage_series {_NAMED} AND stage = ?", (*pair, *shape.columns, READY)
    ).fetchone()
    if row is None:
        return
    series_id, present = row
    of_slots = "SELECT coalesce(SUM(n), 0) FROM usage_slots WHERE series = ?"
    (events,) = connection.execute(of_slots, (series_id,)).fetchone()
    for narrower in narrower_than(present, width):
        parts = present // narrower
        (states,) = connection.execute(
            "SELECT COUNT(*) FROM (SELECT 1 FROM usage_states WHERE series = ? LIMIT ?)",
            (series_id, events // parts + 1),
        ).fetchone()
        if states * parts * _events_per_state(shape) <= events:
            connection.execute("DELETE FROM usage_series WHERE id = ?", (series_id,))
            _begin(connection, pair, shape, narrower)
            return


def _events_per_state(shape: Shape) -> int:
    """The least number of events per state with which a series of the shape pays off."""
    # Series with keys answer mostly from wider slices.
    return min(EVENTS_PER_STATE, EVENTS_PER_KEYED_STATE) if shape.is_keyed else EVENTS_PER_STATE


def _is_dense(connection: sqlite3.Connection, pair: Pair, shape: Shape) -> bool:
    least = min_events(shape, DENSE)
    return _count_up_to(connection, pair, least) >= least


def _count_up_to(connection: sqlite3.Connection, pair: Pair, most: int) -> int:
    """The number of events of the pair, at most `most`."""
    count = connection.execute(
        "SELECT COUNT(*) FROM (SELECT 1 FROM events INDEXED BY events_usage WHERE organization_id = ?"
        " AND external_subscription_id = ? AND code = ? LIMIT ?)",
        (*pair, most),
    )
    return int(count.fetchone()[0])


def _begin(connection: sqlite3.Connection, pair: Pair, shape: Shape, width: int) -> None:
    if connection.execute("SELECT 1 FROM usage_series LIMIT 1").fetchone() is None:
        # The first series: nothing was rolled up before.
        _note(connection, _last(connection))
    connection.execute(
        "INSERT OR IGNORE INTO usage_series (organization_id, external_subscription_id, code, kind, field, keys, form,"
        " width, stage, base) VALUES (?,?,?,?,?,?,?,?,?,?)",
        (*pair, *shape.columns, FORM, width, BUILDING, rolled_up_to(connection)),
    )


def rebuild(connection: sqlite3.Connection, organization_id: str) -> int:
    """Drop all states of an organization and begin its series again; returns how many there are."""
    if rolled_up_to(connection) == EDITED:
        _note(connection, _last(connection))
    rows = connection.execute(f"{_SERIES} WHERE organization_id = ? ORDER BY id", (organization_id,)).fetchall()
    connection.execute("DELETE FROM usage_series WHERE organization_id = ?", (organization_id,))
    for row in rows:
        series = _series_of(row)
        _begin(connection, series.pair, series.shape, HOUR)
    return len(rows)


# Rolling up


def keep_up(connection: sqlite3.Connection, missing: MissingSeries | None) -> None:
    """Roll up within the transaction that stores events, if nobody else has for long."""
    if missing:
        start_missing(connection, missing)
    done = rolled_up_to(connection)
    waiting = _last(connection) - done
    if done != EDITED and waiting >= MAX_WAITING:
        _roll_window(connection, waiting)


def is_behind(connection: sqlite3.Connection, missing: MissingSeries) -> bool:
    """Whether `roll_up` has something to do that is worth a transaction."""
    if missing:
        return True
    row = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM usage_series), EXISTS (SELECT 1 FROM usage_series WHERE stage = ? OR form <> ?),"
        f" EXISTS (SELECT 1 FROM usage_slots WHERE {_ID_OF} NOT IN (SELECT id FROM usage_series))",
        (BUILDING, FORM),
    ).fetchone()
    has_any, is_building, has_left_over = row
    if is_building or has_left_over:
        return True
    return bool(has_any) and _last(connection) - rolled_up_to(connection) >= MIN_WAITING


def roll_up(connection: sqlite3.Connection, missing: MissingSeries) -> None:
    """Do the next slice of work: start series, roll up new events, backfill series, delete states of dropped ones."""
    connection.execute("DELETE FROM usage_series WHERE form <> ?", (FORM,))
    start_missing(connection, missing)
    if connection.execute("SELECT 1 FROM usage_series LIMIT 1").fetchone() is not None:
        if _last(connection) > rolled_up_to(connection):
            _roll_window(connection, AT_ONCE)
        row = connection.execute(f"{_SERIES} WHERE stage = ? ORDER BY id LIMIT 1", (BUILDING,)).fetchone()
        if row is not None:
            _build_slice(connection, _series_of(row))
    _drop_slice(connection)


def _drop_slice(connection: sqlite3.Connection) -> None:
    row = connection.execute(
        f"SELECT series, slot FROM usage_slots WHERE {_ID_OF} NOT IN (SELECT id FROM usage_series) LIMIT 1"
    ).fetchone()
    if row is None:
        return
    connection.execute(
        "DELETE FROM usage_states WHERE (series, slot, dims, value) IN (SELECT series, slot, dims, value"
        " FROM usage_states WHERE series = ? AND slot = ? LIMIT ?)",
        (*row, 10 * AT_ONCE),
    )
    left = connection.execute("SELECT 1 FROM usage_states WHERE series = ? AND slot = ? LIMIT 1", row).fetchone()
    if left is None:
        connection.execute("DELETE FROM usage_slots WHERE series = ? AND slot = ?", row)


def _roll_window(connection: sqlite3.Connection, at_most: int) -> None:
    """Roll up the next events that were stored."""
    done = rolled_up_to(connection)
    top = min(done + at_most, _last(connection))
    (has_many,) = connection.execute(_HAS_MANY).fetchone()
    rows = connection.execute(_PRESENT if has_many else _PRESENT_OF_FEW, {"done": done, "top": top})
    present = list(map(_series_of, rows))
    counts = _counted_together(present)
    counted_with_others = {count.id for count in counts.values()}
    shapes: dict[Shape, list[_Series]] = {}
    for series in present:
        if series.id not in counted_with_others:
            shapes.setdefault(series.shape, []).append(series)
    fresh: list[Row] = []
    for shape, alike in shapes.items():
        if len(alike) > _ONE_BY_ONE:
            query = EventSql()
            kind, field, keys = map(query.bind, shape.columns)
            source = (
                "events AS e NOT INDEXED JOIN usage_series AS s ON s.organization_id = e.organization_id"
                " AND s.external_subscription_id = e.external_subscription_id AND s.code = e.code"
                f" AND s.kind = {kind} AND s.field = {field} AND s.keys = {keys} AND s.stage < {USELESS}"
                f" WHERE e.sequence > {query.bind(done)} AND e.sequence <= {query.bind(top)}"
            )
            fresh += _fresh(connection, query, alike, source, ("s.id", "s.width"), counts)
            continue
        for series in alike:
            query = EventSql()
            window = f"sequence > {query.bind(done)} AND sequence <= {query.bind(top)}"
            source = f"events NOT INDEXED WHERE {window} AND {_of_pair(query, series.pair)}"
            fresh += _fresh(connection, query, [series], source, _sql_of(series), counts)
    add_rows(connection, fresh)
    _note(connection, top)


# The series of the events in a window: if there are few, each looks for its first event.
_PRESENT: Final = (
    f"{_SERIES} JOIN (SELECT DISTINCT organization_id, external_subscription_id, code FROM events NOT INDEXED"
    " WHERE sequence > :done AND sequence <= :top) USING (organization_id, external_subscription_id, code)"
    f" WHERE stage < {USELESS}"
)
_PRESENT_OF_FEW: Final = (
    f"{_SERIES} s WHERE stage < {USELESS} AND EXISTS (SELECT 1 FROM events e NOT INDEXED WHERE sequence > :done"
    " AND sequence <= :top AND e.organization_id = s.organization_id"
    " AND e.external_subscription_id = s.external_subscription_id AND e.code = s.code)"
)
_HAS_MANY: Final = f"SELECT COUNT(*) > {_FEW_SERIES} FROM (SELECT 1 FROM usage_series LIMIT {_FEW_SERIES + 1})"


def _counted_together(present: Sequence[_Series]) -> dict[int, _Series]:
    """The counts that can be rolled up along with the numbers of the same events by the same keys, by their id."""
    counts = {
        (series.pair, series.shape.keys, series.shape.filters, series.width): series
        for series in present
        if series.shape.kind == COUNT
    }
    together: dict[int, _Series] = {}
    for series in present:
        if series.shape.kind in (NUMBERS, PRICED_NUMBERS):
            count = counts.pop((series.pair, series.shape.keys, series.shape.filters, series.width), None)
            if count is not None:
                together[series.id] = count
    return together


def _of_pair(query: EventSql, pair: Pair) -> str:
    organization_id, external_subscription_id, code = map(query.bind, pair)
    return (
        f"organization_id = {organization_id} AND external_subscription_id = {external_subscription_id}"
        f" AND code = {code}"
    )


def _build_slice(connection: sqlite3.Connection, series: _Series) -> None:
    """Add some of the events that were stored before the series was, in order of time."""
    where = "organization_id = ? AND external_subscription_id = ? AND code = ?"
    begin = -(2**62) if series.built_to is None else series.built_to
    row = connection.execute(
        f"SELECT timestamp FROM events INDEXED BY events_usage WHERE {where} AND timestamp > ?"
        " ORDER BY timestamp LIMIT 1 OFFSET ?",
        (*series.pair, begin, AT_ONCE),
    ).fetchone()
    end = 2**62 if row is None else int(row[0])
    query = EventSql()
    source = (
        f"events INDEXED BY events_usage WHERE {_of_pair(query, series.pair)}"
        f" AND timestamp > {begin} AND timestamp <= {end} AND +sequence <= {int(series.base)}"
    )
    add_rows(connection, _fresh(connection, query, [series], source, _sql_of(series), {}))
    if row is not None:
        connection.execute("UPDATE usage_series SET built_to = ? WHERE id = ?", (end, series.id))
        return
    states, events = connection.execute(
        "SELECT (SELECT COUNT(*) FROM usage_states WHERE series = ?),"
        " (SELECT coalesce(SUM(n), 0) FROM usage_slots WHERE series = ?)",
        (series.id, series.id),
    ).fetchone()
    if states * _events_per_state(series.shape) <= events or states < DENSE // EVENTS_PER_STATE:
        connection.execute("UPDATE usage_series SET stage = ? WHERE id = ?", (READY, series.id))
        return
    # Slices too short for the number of combinations.
    connection.execute("DELETE FROM usage_series WHERE id = ?", (series.id,))
    is_last = series.width == DAY or series.shape.kind == VALUES
    _begin(connection, series.pair, series.shape, DAY)
    if is_last:
        connection.execute(
            f"UPDATE usage_series SET stage = ?, built_to = ? {_NAMED}",
            (USELESS, events, *series.pair, *series.shape.columns),
        )


def _sql_of(series: _Series) -> tuple[str, str]:
    """The id and the width of a series, as SQL."""
    return str(series.id), str(series.width)


def _fresh(
    connection: sqlite3.Connection,
    query: EventSql,
    alike: Sequence[_Series],
    source: str,
    columns: tuple[str, str],
    counts: Mapping[int, _Series],
) -> list[Row]:
    """The states of all widths of the events of `source`, in series of one shape with these `columns` of id and width.

    `counts` are series that count the same events: both are computed from one reading.
    """
    counts = {series.id: counts[series.id] for series in alike if series.id in counts}
    sql = fresh_sql(query, alike[0].shape, source, *columns, with_uncounted=bool(counts))
    rows = connection.execute(sql, query.values).fetchall()
    if not counts:
        return _of_all_widths(alike, rows)
    numbers = _of_all_widths(alike, [row[:18] for row in rows if row[19]])
    ids = {id: count.id for id, count in counts.items()}
    return [*numbers, *_of_all_widths(list(counts.values()), of_counts(rows, ids))]


def _of_all_widths(alike: Sequence[_Series], fresh: Iterable[Row]) -> list[Row]:
    """The states of all widths of series of one shape, from the fresh ones of their narrowest slices."""
    by_series: dict[int, list[Row]] = {series.id: [] for series in alike}
    # Events that the same filters price may have any values.
    for row in fresh if alike[0].shape.filters is None else merged(fresh):
        # Others are computed along with numbers.
        if row[0] in by_series:
            by_series[row[0]].append(row)
    every: list[Row] = []
    for series in alike:
        narrow, rows = series.width, by_series[series.id]
        every += rows
        for number, wider in slices_of(series.id, narrow, series.shape)[1:]:
            rows = widened(rows, number, narrow, wider)
            every += rows
            narrow = wider
    return every


# Checking


def faults(connection: sqlite3.Connection, organization_id: str) -> Iterator[StateFault]:
    """The series of an organization whose states differ from a full count of their events."""
    rows = connection.execute(
        f"{_SERIES} WHERE organization_id = ? AND stage = ? AND form = ? ORDER BY id", (organization_id, READY, FORM)
    ).fetchall()
    done = rolled_up_to(connection)
    for row in rows:
        series = _series_of(row)
        slices = slices_of(series.id, series.width, series.shape)
        differing = sum(_differing(connection, series, done, number, width) for number, width in slices)
        if differing:
            _, external_subscription_id, code = series.pair
            yield StateFault(
                external_subscription_id=external_subscription_id,
                code=code,
                kind=series.shape.kind,
                differing=differing,
            )


def _differing(connection: sqlite3.Connection, series: _Series, done: int, id: int, width: int) -> int:
    """The number of states and slots under this id that differ from a count of the events in slices of this width."""
    query = EventSql()
    source = f"events WHERE {_of_pair(query, series.pair)} AND +sequence <= {int(done)}"
    events = fresh_sql(query, series.shape, source, str(int(id)), str(int(width)))
    counted = merged(connection.execute(events, query.values))
    states = {row[:4]: _comparable(row[KEPT]) for row in counted}
    kept = connection.execute(f"SELECT {STATE_COLUMNS} FROM usage_states WHERE series = {id}").fetchall()
    differing = set(states.items()) ^ {(row[:4], _comparable(row[KEPT])) for row in kept}
    kept_slots = connection.execute(
        f"SELECT slot, n, first_at, last_at, received_at, spoken FROM usage_slots WHERE series = {id}"
    ).fetchall()
    slots = {(slot, tuple(columns)) for (_, slot), columns in slots_of(counted).items()}
    differing_slots = slots ^ {(row[0], row[1:]) for row in kept_slots}
    return len({key for key, _ in differing}) + len({slot for slot, _ in differing_slots})


def _comparable(columns: Sequence[int | str | None]) -> tuple[object, ...]:
    """Numbers by value, those stored as texts also by the decimals they show."""
    return tuple(Decimal(column).as_tuple() if isinstance(column, str) else column for column in columns)
