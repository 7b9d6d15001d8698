"""Aggregations from running states, as `storage.sqlite.events.state_answers` makes them.

A single statement merges the states of whole slices with the events of other slices and those that are not rolled up
yet. If states cannot answer the query, or would save nothing, the result is None and the events are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from usagebill.core.aggregation import AggregateResult, Operation
from usagebill.core.filters import FilterIndex
from usagebill.storage.event_queries import CountedAs, EventQuery, Group
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.events.answers import (
    Buckets,
    grouped_by,
    held_at,
    latest_at,
    merged,
    names_sql,
    results,
)
from usagebill.storage.postgresql.events.sql_texts import (
    Sql,
    amount_sql,
    number_sql,
    properties_sql,
    text_sql,
    where_sql,
)
from usagebill.storage.postgresql.events.states import FORM, shape_digest
from usagebill.storage.usage_series import (
    COUNT,
    DAY,
    MAX_STRETCHES,
    READY,
    TOO_MANY_READ,
    VALUES,
    WORTH_A_SERIES,
    Bounds,
    MissingSeries,
    Shape,
    days_of,
    growing_stretches,
    min_events,
    shape_of,
    stretches_of,
)

# If more days than this need hourly states, all days use them.
_DAYS_AT_MOST: Final = 20


@dataclass(slots=True)
class KnownStates:
    """A transaction's knowledge of states: the series it lacked, and whether an organization has none at all."""

    missing_series: MissingSeries | None = None
    stateless: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Series:
    id: int
    width: int
    done: int


@dataclass(frozen=True, slots=True)
class _Whole:
    """The first and last slots of a series that can be used as stored."""

    series: int
    first: int
    last: int


class StateAnswers:
    """Queries over the states of one organization."""

    def __init__(self, connection: Connection, organization_id: str, known: KnownStates) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._known = known
        # Subscriptions without any series: if one is started meanwhile, counting their events is still correct.
        self._without: set[str] = set()

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult] | None:
        """See `storage.ports.EventLog.tallies`; None if the events are to be counted."""
        answers = self._answers(question, None)
        if answers is None:
            return None
        return answers.get(0) or {(None,) * len(question.group_keys): AggregateResult()}

    def tallies_by_bucket(
        self, question: EventQuery, filters: FilterIndex
    ) -> dict[int, dict[Group, AggregateResult]] | None:
        """See `storage.ports.EventLog.tallies_by_bucket`; None if the events are to be counted."""
        return self._answers(question, filters)

    def owners(self, external_ids: Sequence[str]) -> Set[str]:
        """Those of the subscriptions that have any series."""
        if self._has_none():
            return frozenset()
        rows = self._connection.execute(
            "SELECT DISTINCT external_subscription_id FROM usage_series WHERE organization_id = ?"
            " AND external_subscription_id = ANY(?::text[])",
            (self._organization_id, list(external_ids)),
        )
        owners = {row[0] for row in rows}
        self._without.update(set(external_ids) - owners)
        return owners

    def note(self, question: EventQuery, filters: FilterIndex | None, events: int) -> None:
        """Note that `events` were counted for a query that a series could have answered."""
        missing = self._known.missing_series
        shape = None if missing is None else shape_of(question, filters)
        if missing is not None and shape is not None and events >= min_events(shape, WORTH_A_SERIES):
            missing.note(self._organization_id, question.external_subscription_id, question.code, shape)

    def _has_none(self) -> bool:
        """Whether the organization has no series at all: then states are not queried again."""
        stateless = self._known.stateless.get(self._organization_id)
        if stateless is None:
            row = self._connection.execute(
                "SELECT EXISTS (SELECT 1 FROM usage_series WHERE organization_id = ?)", (self._organization_id,)
            ).fetchone()
            stateless = self._known.stateless[self._organization_id] = row is None or not row[0]
        return stateless

    def _series(self, question: EventQuery, shape: Shape) -> _Series | None:
        if question.external_subscription_id in self._without or self._has_none():
            return None
        rows = self._connection.execute(
            "SELECT s.digest, s.stage, s.form, s.code, s.id, s.width, r.sequence FROM usage_series s"
            " JOIN usage_rolled_up r ON r.organization_id = s.organization_id"
            " WHERE s.organization_id = ? AND s.external_subscription_id = ?",
            (self._organization_id, question.external_subscription_id),
        ).fetchall()
        if not rows:
            self._without.add(question.external_subscription_id)
        usable = shape_digest(shape), READY, FORM, question.code
        return next((_Series(*row[4:]) for row in rows if row[:4] == usable), None)

    def _answers(
        self, question: EventQuery, filters: FilterIndex | None
    ) -> dict[int, dict[Group, AggregateResult]] | None:
        shape = shape_of(question, filters)
        series = None if shape is None else self._series(question, shape)
        if shape is None or series is None:
            return None
        if shape.kind == VALUES:
            return self._unique(series, question, filters, shape)
        buckets = self._added(series, question, filters, shape)
        return None if buckets is None else results(question, buckets)

    # Counts, sums, extremes

    def _added(
        self, series: _Series, question: EventQuery, filters: FilterIndex | None, shape: Shape
    ) -> Buckets | None:
        bounds = Bounds(question)
        first, last = bounds.earliest // series.width, bounds.latest // series.width
        ranges = [(first, last)]
        whole: list[_Whole] = []
        # Partial days use hourly states; if there are many, all days do.
        days = self._partial(days_of(series.id), DAY, bounds) if series.width < DAY else None
        if days is not None and sum(days.values()) <= _DAYS_AT_MOST:
            in_day = DAY // series.width
            ranges = [
                (max(first, day * in_day), min(last, (day + 1) * in_day - 1))
                for day, reaches_in in days.items()
                if reaches_in
            ]
            whole += _without(days, days_of(series.id), bounds.earliest // DAY, bounds.latest // DAY)
        partial = self._partial(series.id, series.width, bounds) if ranges else {}
        stretches = stretches_of(
            [
                slot
                for slot, reaches_in in partial.items()
                if reaches_in and any(start <= slot <= end for start, end in ranges)
            ]
        )
        if len(stretches) > MAX_STRETCHES:
            return None
        self._note_narrower(series, question, shape, stretches)
        for start, end in ranges:
            whole += _without(partial, series.id, start, end)
        sql = Sql().add("SELECT ")
        names = self._states(sql, question, filters, shape, whole)
        width = series.width
        for source in self._read(
            series, question, [(start * width, (end + 1) * width - 1) for start, end in stretches]
        ):
            self._events(sql.add(" UNION ALL "), question, filters, shape, source)
        aggregate = {
            CountedAs.COUNT: "",
            CountedAs.SUM: ", SUM(total)",
            CountedAs.MAX: ", MAX(top)",
            CountedAs.LATEST: ", MAX(last_at), 0, '', 0::numeric",
            CountedAs.WEIGHTED_SUM: ", SUM(total), SUM(moment), MAX(last_at)",
        }[CountedAs(question.aggregation_type)]
        paid = "SUM(paid)" if question.amounts else "NULL::numeric"
        rows = self._connection.execute(
            f"SELECT {''.join(f'{name}, ' for name in names)}MIN(first_at), MIN(first_sequence), SUM(n)::bigint,"
            f" {paid}{aggregate} FROM ({sql.text}) rows{grouped_by(names)} HAVING SUM(n) > 0",
            sql.values,
        )
        buckets = merged(question, filters, rows, len(question.group_keys))
        if question.aggregation_type == CountedAs.LATEST:
            self._fill_in_latest(question, filters, buckets)
        return buckets

    def _note_narrower(
        self, series: _Series, question: EventQuery, shape: Shape, stretches: Sequence[tuple[int, int]]
    ) -> None:
        """Note that narrower slices would have answered the query without reading many events of these stretches,
        given by their first and last slots.
        """
        missing, bounds = self._known.missing_series, Bounds(question)
        if missing is None or not stretches or series.width <= bounds.narrowest:
            return
        row = self._connection.execute(
            "SELECT coalesce(SUM(n), 0) FROM usage_slots, unnest(?::bigint[], ?::bigint[]) AS part (begins, ends)"
            " WHERE series = ? AND slot BETWEEN begins AND ends AND received_at <= ?",
            ([first for first, _ in stretches], [last for _, last in stretches], series.id, bounds.known_at),
        ).fetchone()
        if row is not None and row[0] >= TOO_MANY_READ:
            narrower = bounds.narrowest
            missing.note(
                self._organization_id, question.external_subscription_id, question.code, shape, narrower=narrower
            )

    def _states(
        self, sql: Sql, question: EventQuery, filters: FilterIndex | None, shape: Shape, whole: Sequence[_Whole]
    ) -> list[str]:
        """Add the states of these slots to a SELECT; returns the names of their key columns."""
        sql.columns = _dimensions(shape)
        names = names_sql(sql, question, filters)
        sql.add(
            "s.n, s.total, s.top, s.first_at, s.first_sequence, s.last_at, s.moment, s.paid"
            " FROM unnest(?::bigint[], ?::bigint[], ?::bigint[]) AS part (series, begins, ends) CROSS JOIN LATERAL"
            " (SELECT * FROM usage_states u WHERE u.series = part.series AND u.slot BETWEEN part.begins AND part.ends)"
            " s WHERE TRUE",
            [part.series for part in whole],
            [part.first for part in whole],
            [part.last for part in whole],
        )
        properties_sql(sql, question)
        sql.columns = None
        return names

    def _events(self, sql: Sql, question: EventQuery, filters: FilterIndex | None, shape: Shape, source: Sql) -> None:
        """Add the events of `source` that count, each as a state of one event."""
        sql.add("SELECT ")
        rows = Sql().add("SELECT ")
        names = names_sql(rows, question, filters)
        number_sql(rows, shape.field).add(
            f" AS v, {amount_sql(question)} AS amount, timestamp, sequence FROM {source.text}", *source.values
        )
        where_sql(rows, question, self._organization_id)
        counting = "" if shape.kind == COUNT else " WHERE v IS NOT NULL"
        sql.add(
            f"{''.join(f'{name}, ' for name in names)}1, v, v, timestamp, sequence, timestamp,"
            f" v * {held_at(question)}, amount"
            f" FROM ({rows.text} OFFSET 0) e{counting}",
            *rows.values,
        )

    def _read(self, series: _Series, question: EventQuery, stretches: Sequence[tuple[int, int]]) -> Iterator[Sql]:
        """The events that are read one by one: those in partial slots, and all that are not rolled up.

        The index of each part is forced, whatever the planner expects.
        """
        if stretches:
            yield Sql().add(
                "(SELECT e.* FROM unnest(?::bigint[], ?::bigint[]) AS stretch (begins, ends) CROSS JOIN LATERAL"
                " (SELECT * FROM events WHERE organization_id = ? AND external_subscription_id = ? AND code = ?"
                " AND timestamp BETWEEN stretch.begins AND stretch.ends OFFSET 0) e WHERE e.sequence <= ? OFFSET 0)"
                " events",
                [start for start, _ in stretches],
                [end for _, end in stretches],
                *(self._organization_id, question.external_subscription_id, question.code, series.done),
            )
        yield Sql().add(
            "(SELECT * FROM events WHERE organization_id = ? AND sequence > ? OFFSET 0) events",
            self._organization_id,
            series.done,
        )

    def _partial(self, series: int, width: int, bounds: Bounds) -> dict[int, bool]:
        """The slots that cannot be used as stored, in order, and whether some of their events may count."""
        rows = self._connection.execute(
            "SELECT slot, last_at >= ? AND first_at <= ? FROM usage_slots WHERE series = ? AND slot BETWEEN ? AND ?"
            " AND NOT (first_at >= ? AND last_at <= ? AND received_at <= ?) ORDER BY slot",
            (
                *(bounds.earliest, bounds.latest, series, bounds.earliest // width, bounds.latest // width),
                *(bounds.whole_from, bounds.whole_to, bounds.known_at),
            ),
        )
        return {slot: bool(reaches_in) for slot, reaches_in in rows}

    def _fill_in_latest(self, question: EventQuery, filters: FilterIndex | None, buckets: Buckets) -> None:
        """Set the latest value of each tally, from an event at its latest instant."""
        tallies = [tally for bucket in buckets.values() for tally in bucket.values()]
        instants = sorted({tally.latest[0] for tally in tallies if tally.latest is not None})
        values = latest_at(self._connection, self._organization_id, question, filters, instants) if instants else {}
        for position, bucket in buckets.items():
            for group, tally in bucket.items():
                latest = values.get(position, {}).get(group)
                if latest is not None:
                    tally.units = latest.units

    # Unique values

    def _unique(
        self, series: _Series, question: EventQuery, filters: FilterIndex | None, shape: Shape
    ) -> dict[int, dict[Group, AggregateResult]] | None:
        bounds = Bounds(question)
        slots = self._connection.execute(
            "SELECT slot, first_at, last_at, received_at, spoken FROM usage_slots"
            " WHERE series = ? AND last_at >= ? AND first_at <= ? ORDER BY slot",
            (series.id, bounds.earliest, bounds.latest),
        ).fetchall()
        for _, first_at, last_at, received_at, spoken in slots:
            if spoken or received_at > bounds.known_at:
                return None
            if bounds.earliest < bounds.whole_from > first_at or bounds.latest > bounds.whole_to < last_at:
                return None
        chosen = series.id, [slot for slot, *_ in slots], bounds.earliest, bounds.latest
        inside = "series = ? AND slot = ANY(?::bigint[]) AND last_at >= ? AND first_at <= ?"
        is_in_order = True
        if any(first_at < bounds.earliest for _, first_at, *_ in slots):
            # The value occurred before and after; whether within is not known.
            row = self._connection.execute(
                f"SELECT EXISTS (SELECT 1 FROM usage_states WHERE {inside} AND first_at < ? AND last_at > ?)",
                (*chosen, bounds.earliest, bounds.latest),
            ).fetchone()
            if row is None or row[0]:
                return None
            # When it first occurred within is not known either.
            is_in_order = not question.group_keys
        sql = Sql().add("SELECT ")
        sql.columns = _dimensions(shape)
        names = names_sql(sql, question, filters)
        sql.add(
            f"s.value AS v, s.first_at, s.first_sequence, FALSE AS spoken FROM usage_states s WHERE {inside}", *chosen
        )
        properties_sql(sql, question)
        sql.columns = None
        listed = "".join(f"{name}, " for name in names)
        for source in self._read(series, question, []):
            rows = self._values(question, filters, source)
            sql.add(
                f" UNION ALL SELECT {listed}v, timestamp, sequence, spoken FROM ({rows.text} OFFSET 0) e"
                " WHERE v IS NOT NULL",
                *rows.values,
            )
        values_of = (
            f"SELECT {listed}v, MIN(first_at) AS first_at, MIN(first_sequence) AS first_sequence,"
            f" bool_or(spoken) AS spoken FROM ({sql.text}) rows{grouped_by([*names, 'v'])}"
        )
        if filters is None:
            counts = self._distinct(question, names, Sql().add(values_of, *sql.values))
            return counts if is_in_order or counts is None else self._by_first_event(counts, question, filters, bounds)
        value_rows = list(self._connection.stream(values_of, sql.values))
        if any(row[-1] for row in value_rows):
            return None
        added = (0, 0, "", Operation.ADD.value)
        placed = ((*row[: len(names)], *row[-3:-1], 1, None, *added, row[len(names)]) for row in value_rows)
        counts = results(question, merged(question, filters, placed, len(question.group_keys)))
        return counts if is_in_order else self._by_first_event(counts, question, filters, bounds)

    def _values(self, question: EventQuery, filters: FilterIndex | None, source: Sql) -> Sql:
        """A row for each event of `source`: its names, value, instant and place, and whether it has an operation."""
        rows = Sql().add("SELECT ")
        names_sql(rows, question, filters)
        text_sql(rows, question.field_name or "").add(" AS v, timestamp, sequence, ")
        text_sql(rows, "operation_type").add(f" IS NOT NULL AS spoken FROM {source.text}", *source.values)
        where_sql(rows, question, self._organization_id)
        return rows

    def _by_first_event(
        self,
        counts: dict[int, dict[Group, AggregateResult]],
        question: EventQuery,
        filters: FilterIndex | None,
        bounds: Bounds,
    ) -> dict[int, dict[Group, AggregateResult]]:
        """The counts with groups in the order of their first events, which are read from the earliest until all have
        one.
        """
        ordered: dict[int, dict[Group, AggregateResult]] = {position: {} for position in counts}
        for first, last in growing_stretches(bounds):
            if all(len(ordered[position]) == len(groups) for position, groups in counts.items()):
                break
            rows = self._values(question, filters, Sql().add("events")).add(
                " AND timestamp BETWEEN ? AND ?", first, last
            )
            names = names_sql(Sql(), question, filters)
            seen = self._connection.execute(
                f"SELECT {''.join(f'{name}, ' for name in names)}MIN(timestamp), MIN(sequence), 1, NULL::numeric, 0"
                f" FROM ({rows.text} OFFSET 0) e WHERE v IS NOT NULL{grouped_by(names)}",
                rows.values,
            )
            for position, groups in results(
                question, merged(question, filters, seen, len(question.group_keys))
            ).items():
                for group in groups:
                    if group in counts.get(position, {}):
                        ordered[position].setdefault(group, counts[position][group])
        return {position: {**ordered[position], **groups} for position, groups in counts.items()}

    def _distinct(
        self, question: EventQuery, names: Sequence[str], values: Sql
    ) -> dict[int, dict[Group, AggregateResult]] | None:
        """The number of values of each group."""
        rows = self._connection.execute(
            f"SELECT {''.join(f'{name}, ' for name in names)}COUNT(*), bool_or(spoken) FROM ({values.text}) counted"
            f"{grouped_by(names)} HAVING COUNT(*) > 0 ORDER BY MIN(first_at), MIN(first_sequence)",
            values.values,
        ).fetchall()
        if any(row[-1] for row in rows):
            return None
        groups = len(question.group_keys)
        return {0: {row[:groups]: AggregateResult(units=Decimal(row[-2]), events_count=row[-2]) for row in rows}}


def _dimensions(shape: Shape) -> dict[str, str]:
    return {key: f"s.dims[{place}]" for place, key in enumerate(shape.keys, 1)}


def _without(partial: dict[int, bool], series: int, first: int, last: int) -> Iterator[_Whole]:
    """The slots of a range without those that cannot be used as stored."""
    begins = first
    for slot in partial:
        if first <= slot <= last:
            if begins < slot:
                yield _Whole(series, begins, slot - 1)
            begins = slot + 1
    if begins <= last:
        yield _Whole(series, begins, last)
