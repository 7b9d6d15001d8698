"""Aggregations over events as single SQL queries, exact to the last digit.

Numbers are added up as whole millionths; the few that do not fit, by the aggregates below, which keep every digit.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any, Final

import msgspec

from usagebill.core.aggregation import AggregateResult
from usagebill.core.events import Event, EventOrder
from usagebill.core.filters import EventScope, FilterIndex
from usagebill.core.numbers import CONTEXT, ZERO, add, multiply, multiply_add_exactly
from usagebill.storage.event_queries import Arrival, Counted, CountedAs, EventQuery, Group
from usagebill.storage.event_rows import instant, microseconds
from usagebill.storage.sqlite.events.rows import member_in

MILLION: Final = 1_000_000
BILLION: Final = 10**9
# Up to this many values are bound one by one.
_FEW: Final = 20
# Microseconds from the year 1 to 1970: with them no instant is negative, and texts of them sort as they do.
_YEAR_1: Final = 62_135_596_800_000_000


class _ExactSum:
    def __init__(self) -> None:
        self._sum = ZERO

    def step(self, text: object) -> None:
        self._sum = add(self._sum, Decimal(str(text)))

    def finalize(self) -> str:
        return str(self._sum)


class _ExactWeights:
    """The sum of numbers, and of each times its instant in microseconds: a JSON array of two texts."""

    def __init__(self) -> None:
        self._change = self._moment = ZERO

    def step(self, text: str, at: int) -> None:
        value = Decimal(text)
        self._change = add(self._change, value)
        self._moment = multiply_add_exactly(value, at, self._moment)

    def finalize(self) -> str:
        return f'["{self._change}","{self._moment}"]'


class _ExactMax:
    def __init__(self) -> None:
        self._max: Decimal | None = None

    def step(self, text: object) -> None:
        value = Decimal(str(text))
        if self._max is None or value > self._max:
            self._max = value

    def finalize(self) -> str | None:
        return None if self._max is None else str(self._max)


def _exact_product(text: str | None, at: int) -> str | None:
    return None if text is None else str(multiply(Decimal(text), Decimal(at)))


def exact_added(text: str | None, other: str | None) -> str | None:
    """The sum of two numbers in text, with the decimals of both; of one if there is no other."""
    if text is None or other is None:
        return text or other
    return str(add(Decimal(text), Decimal(other)))


def exact_larger(text: str | None, other: str | None) -> str | None:
    """The larger of two numbers in text; the one if there is no other."""
    if text is None or other is None:
        return text or other
    return max(text, other, key=Decimal)


def prepare_numbers(connection: sqlite3.Connection) -> None:
    """Register the SQL functions of these queries on `connection`."""
    # The types of `sqlite3` know aggregates of integers only.
    connection.create_aggregate("exact_sum", 1, _ExactSum)  # type: ignore[arg-type]
    connection.create_aggregate("exact_weights", 2, _ExactWeights)  # type: ignore[arg-type]
    connection.create_aggregate("exact_max", 1, _ExactMax)  # type: ignore[arg-type]
    connection.create_function("member_in", 2, member_in, deterministic=True)
    connection.create_function("exact_product", 2, _exact_product, deterministic=True)
    connection.create_function("exact_added", 2, exact_added, deterministic=True)
    connection.create_function("exact_larger", 2, exact_larger, deterministic=True)


class EventSql:
    """The parts of one query, and the values that it binds."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._names: dict[Any, str] = {}
        # Filters that SQL functions look up by their numbers, as long as the query exists.
        self.filters: list[FilterIndex] = []

    def bind(self, value: Any) -> str:
        """A parameter for `value`; equal values share one."""
        name = self._names.get((type(value), value))
        if name is None:
            name = self._names[type(value), value] = f"v{len(self._names)}"
            self.values[name] = value
        return ":" + name

    def member(self, column: str, key: str) -> str:
        """The member `key` of the JSON object in `column`, a number or a text."""
        if not _has_path(key):
            return f"member_in({column}, {self.bind(key)})"
        return f"{column} ->> {self.bind(_json_path(key))}"

    def text(self, key: str) -> str:
        """The text form of the property `key` (`core.events.property_text`), NULL if it has none."""
        return self.member("coalesce(texts, properties)", key)

    def is_number(self, field: str | None) -> str:
        """Whether the field is a number, without parsing it: the JSON names the field, first or after a comma."""
        if field is None:
            return "0"
        named = f"{_json(field)}:"
        first, later = self.bind("{" + named), self.bind("," + named)
        tests = (
            f"instr({column}, {first}) = 1 OR instr({column}, {later}) > 0" for column in ("millionths", "long_numbers")
        )
        return f"({' OR '.join(tests)})"

    def number(self, field: str | None) -> str:
        """The text of the field if it is a number, with the decimals that were sent."""
        return "NULL" if field is None else f"CASE WHEN {self.is_number(field)} THEN {self.text(field)} END"

    def listed(self, values: Sequence[str]) -> str:
        """The operand of IN for `values`: one parameter for many, as SQLite resolves each name linearly."""
        if len(values) <= _FEW:
            # SQLite treats an empty list as a constant, and then cannot use a named index.
            return f"({', '.join(self.bind(value) for value in values) or 'NULL'})"
        return f"(SELECT value FROM json_each({self.json(values)}))"

    def json(self, values: object) -> str:
        """A parameter for the JSON of `values`."""
        return self.bind(_json(values))

    def listed_numbers(self, values: Sequence[int]) -> str:
        """The same for whole numbers."""
        return f"(SELECT value FROM json_each({self.json(values)}))"

    def among(self, key: str, accepted: Sequence[str]) -> str:
        return f"{self.text(key)} IN {self.listed(accepted)}"

    def matches(self, accepted_by_key: Mapping[str, Sequence[str]]) -> str:
        return " AND ".join(f"({self.among(key, accepted)})" for key, accepted in accepted_by_key.items()) or "1"

    def group(self, key: str) -> str:
        return f"nullif({self.text(key)}, '')"

    def is_one_of(self, key: str, values: Sequence[str | None]) -> str:
        present = [value for value in values if value is not None]
        inside = f"{self.group(key)} IN {self.listed(present)}"
        return f"({self.group(key)} IS NULL OR {inside})" if len(present) < len(values) else inside

    def place(self, event: Event) -> str:
        return self.order(event.order)

    def order(self, order: EventOrder) -> str:
        timestamp, created_at, id = order
        return f"({microseconds(timestamp)}, {microseconds(created_at)}, {self.bind(id)})"

    def arrival(self, arrival: Arrival) -> str:
        return f"({microseconds(arrival.at)}, {self.bind(arrival.id)})"


class _ColumnSql(EventSql):
    """Parts of the same query, for rows with the texts of properties in columns."""

    def __init__(self, shared: EventSql, columns: Mapping[str, str]) -> None:
        self.values, self._names, self.filters = shared.values, shared._names, shared.filters
        self._columns = columns

    def text(self, key: str) -> str:
        return self._columns[key]


def _has_path(key: str) -> bool:
    """Whether SQLite's JSON paths can name the property: no quotes, escapes or control characters."""
    return '"' not in key and "\\" not in key and key.isprintable()


def _json_path(key: str) -> str:
    """The path of the property, if `_has_path`."""
    return f'$."{key}"'


def _where(
    query: EventSql, question: EventQuery, organization_id: str, external_ids: Sequence[str] | None = None
) -> str:
    """The WHERE clause for the events of `question`, or of the same question about each of the subscriptions."""
    if external_ids is None:
        whose = f"= {query.bind(question.external_subscription_id)}"
    else:
        whose = f"IN (SELECT value FROM json_each({query.bind(_json(external_ids))}))"
    parts = [
        f"organization_id = {query.bind(organization_id)}",
        f"external_subscription_id {whose}",
        f"code = {query.bind(question.code)}",
    ]
    if question.earliest is not None:
        parts.append(f"timestamp >= {microseconds(question.earliest)}")
    if (latest := question.latest_timestamp) is not None:
        parts.append(f"timestamp <= {microseconds(latest)}")
    if question.up_to is not None:
        parts.append(f"(timestamp, created_at, id) <= {query.place(question.up_to)}")
    if question.before is not None:
        parts.append(f"(timestamp, created_at, id) < {query.place(question.before)}")
    if question.stored_after is not None:
        parts.append(f"sequence > {int(question.stored_after)}")
    if question.known_at is not None:
        parts.append(f"created_at <= {microseconds(question.known_at)}")
    if question.after is not None and question.first_end is not None:
        later = f"(created_at, id) > {query.arrival(question.after)}"
        parts.append(f"(timestamp >= {microseconds(question.first_end)} OR {later})")
    if question.until is not None and question.last_start is not None:
        earlier = f"(created_at, id) <= {query.arrival(question.until)}"
        parts.append(f"(timestamp < {microseconds(question.last_start)} OR {earlier})")
    parts.extend(_bucket(query, question.bucket))
    parts.extend(query.is_one_of(key, values) for key, values in question.only.items())
    return " WHERE " + " AND ".join(parts)


def _bucket(query: EventSql, bucket: EventScope) -> list[str]:
    parts = [query.among(key, accepted) for key, accepted in bucket.matches.items()]
    # Excludes of the same keys are looked up together, by all their combinations of values.
    combined: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    apart = []
    for exclude in bucket.excludes:
        if exclude and math.prod(len(accepted) for accepted in exclude.values()) <= _FEW:
            keys = tuple(sorted(exclude))
            combined.setdefault(keys, {}).update(dict.fromkeys(product(*(exclude[key] for key in keys))))
        else:
            apart.append(f"coalesce({query.matches(exclude)}, 0)")
    for keys, combinations in combined.items():
        texts = ", ".join(query.text(key) for key in keys)
        members = ", ".join(f"value ->> {place}" for place in range(len(keys)))
        listed = f"json_each({query.bind(_json(list(combinations)))})"
        parts.append(f"NOT coalesce(({texts}) IN (SELECT {members} FROM {listed}), 0)")
    if apart:
        parts.append(f"NOT {_any_of(apart)}")
    return parts


def _any_of(tests: Sequence[str]) -> str:
    """SQL that is true if any test is, as a balanced tree: SQLite limits the depth of expressions."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return f"({_any_of(tests[:half])} OR {_any_of(tests[half:])})"


def _json(values: object) -> str:
    return msgspec.json.encode(values).decode()


def _number(text: str | None) -> Decimal:
    return ZERO if text is None else Decimal(text)


def from_millionths(value: int | None) -> Decimal:
    """Convert whole millionths to a number; 0 for None."""
    if value is None:
        return ZERO
    whole, millionths = divmod(value, MILLION)
    return CONTEXT.normalize(CONTEXT.scaleb(Decimal(value), -6)) if millionths else Decimal(whole)


class Selection:
    """One query over the events of one organization."""

    # The FROM clause.
    source = "events"
    # The column with the text of the positions of filters, of rows that have them stored.
    positions: str | None = None

    def __init__(
        self,
        connection: sqlite3.Connection,
        organization_id: str,
        question: EventQuery,
        external_ids: Sequence[str] | None = None,
    ) -> None:
        """With several subscriptions, each is a group."""
        self._connection = connection
        self._question = question
        self.query = EventSql()
        self.keys = [self.query.group(key) for key in question.group_keys]
        if external_ids is not None:
            self.keys = ["external_subscription_id"]
        self.where = _where(self.query, question, organization_id, external_ids)

    def among_events(self, source: str, condition: str) -> Selection:
        """The same query over part of the events: those of `source` that also meet `condition`."""
        part = copy(self)
        part.source, part.where = source, f"{self.where} AND {condition}"
        return part

    def among_rows(self, source: str, columns: Mapping[str, str], positions: str | None = None) -> Selection:
        """The same query over rows that represent many events each, with their properties in `columns`.

        `source` selects them by time and arrival. `positions` is the column of the positions of filters, if there is
        one.
        """
        part = copy(self)
        part.source, part.positions, part.query = source, positions, _ColumnSql(self.query, columns)
        part.keys = [part.query.group(key) for key in self._question.group_keys]
        tests = [*_bucket(part.query, self._question.bucket)]
        tests += [part.query.is_one_of(key, values) for key, values in self._question.only.items()]
        part.where = f" WHERE {' AND '.join(tests) or '1'}"
        return part

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, self.query.values).fetchall()

    def each(self, sql: str) -> sqlite3.Cursor:
        return self._connection.execute(sql, self.query.values)

    def amounts(self, counted: str = "1") -> str:
        """SQL for the sum of the prices of events that meet `counted`."""
        if not self._question.amounts:
            return "NULL"
        return (
            "exact_sum(precise_total_amount_cents)"
            f" FILTER (WHERE precise_total_amount_cents IS NOT NULL AND ({counted}))"
        )

    def per_group(self, *columns: str, counting: str = "1") -> dict[Group, tuple[Any, ...]]:
        """The aggregates `columns` of each group, in the order of the groups' first events.

        Groups consist of the events that meet `counting`; without keys, `columns` must apply it themselves.
        """
        if not self.keys:
            return {(): self.rows(f"SELECT {', '.join(columns)} FROM events{self.where}")[0]}
        count = len(self.keys)
        rows = self.rows(
            f"SELECT {', '.join(self.keys)}, {', '.join(columns)} FROM events{self.where} AND ({counting})"
            f" GROUP BY {places_sql(count)} ORDER BY MIN(timestamp), MIN(sequence)"
        )
        return {tuple(row[:count]): row[count:] for row in rows}

    def numbers(self, field: str | None) -> tuple[str, str]:
        """The field as whole millionths, or as text if it is longer: at most one of them is not NULL."""
        if field is None:
            return "NULL", "NULL"
        return f"({self.query.member('millionths', field)})", f"({self.query.member('long_numbers', field)})"

    @property
    def held_at(self) -> str:
        """The instant from which an event's change of a weighted sum counts, as SQL."""
        held_from = self._question.held_from
        return "timestamp" if held_from is None else f"max(timestamp, {microseconds(held_from)})"


def weights_sql(aggregate: str) -> tuple[str, str]:
    """The columns of the change and of the moment, both of one `exact_weights`, which SQLite computes once."""
    return f"{aggregate} ->> 0", f"{aggregate} ->> 1"


def places_sql(count: int) -> str:
    """The first `count` columns of a query, by their places."""
    return ", ".join(str(place + 1) for place in range(count))


def rows_sql(columns: str, organization_id: str, question: EventQuery) -> tuple[str, dict[str, Any]]:
    """The query for `columns` of the events of `question`, in order of time, and the bound values."""
    query = EventSql()
    where = _where(query, question, organization_id)
    return f"SELECT {columns} FROM events{where} ORDER BY timestamp, created_at, id", query.values


def changes_sql(
    columns: str, organization_id: str, question: EventQuery, since: Counted | None, order: EventOrder, at_most: int
) -> tuple[str, dict[str, Any]]:
    """The query behind `storage.ports.EventLog.changes`, and the bound values."""
    query = EventSql()
    where = _where(query, question, organization_id)
    place = "(timestamp, created_at, id)"
    if since is None:
        timestamp = microseconds(order[0])
        # The few newest are found by sequence number, not among all of the subscription.
        source = "events" if question.stored_after is None else "events NOT INDEXED"
        sql = f"SELECT {columns} FROM {source}{where} AND timestamp <= {timestamp} AND {place} <= {query.order(order)}"
        return sql, query.values
    low, high = sorted((since.order, order))
    until_high = f"timestamp <= {microseconds(high[0])} AND {place} <= {query.order(high)}"
    # Each half is a search in its own index; the planner would not choose both.
    stored = (
        f"SELECT {columns} FROM events INDEXED BY events_stored{where} AND in_advance = 1"
        f" AND sequence > {int(since.sequence)}"
    )
    # With two lower bounds of the timestamp, the search would begin at either.
    earliest = low[0] if question.earliest is None else max(question.earliest, low[0])
    after_low = _where(query, replace(question, earliest=earliest), organization_id)
    between = (
        f"SELECT {columns} FROM events INDEXED BY events_usage{after_low} AND {place} > {query.order(low)}"
        f" AND +sequence <= {int(since.sequence)}"
    )
    return f"{stored} AND {until_high} UNION ALL {between} AND {until_high} LIMIT {int(at_most)}", query.values


def answer(connection: sqlite3.Connection, organization_id: str, question: EventQuery) -> dict[Group, AggregateResult]:
    """See `storage.ports.EventStore.tallies`."""
    ask = _ANSWERS.get(question.aggregation_type)
    if ask is None:
        raise ValueError(f"no query answers {question.aggregation_type}")
    by_group = ask(Selection(connection, organization_id, question), question.field_name)
    return by_group or {(None,) * len(question.group_keys): AggregateResult()}


def answer_of(
    connection: sqlite3.Connection, organization_id: str, question: EventQuery, external_ids: Sequence[str]
) -> dict[str, AggregateResult]:
    """See `storage.ports.EventStore.tallies_of`."""
    selection = Selection(connection, organization_id, question, external_ids)
    counted = _ANSWERS[question.aggregation_type](selection, question.field_name)
    return {id: counted.get((id,)) or AggregateResult() for id in external_ids}


def _count(selection: Selection, field: str | None) -> dict[Group, AggregateResult]:
    return {
        group: AggregateResult(units=Decimal(count), events_count=count, amount_cents=_number(amount))
        for group, (count, amount) in selection.per_group("COUNT(*)", selection.amounts()).items()
    }


def _sum(selection: Selection, field: str | None) -> dict[Group, AggregateResult]:
    short, long = selection.numbers(field)
    counting = f"{short} IS NOT NULL OR {long} IS NOT NULL"
    columns = (
        f"COUNT({short})",
        f"COUNT({long})",
        f"exact_sum({long}) FILTER (WHERE {long} IS NOT NULL)",
        selection.amounts(counting),
    )
    try:
        by_group = selection.per_group(*columns, f"SUM({short})", "0", counting=counting)
    except sqlite3.OperationalError as problem:
        if "overflow" not in str(problem):
            raise
        # To stay within 64 bits, billions and the remainder are summed separately.
        halves = (f"SUM({short} % {BILLION})", f"SUM({short} / {BILLION})")
        by_group = selection.per_group(*columns, *halves, counting=counting)
    return {
        group: AggregateResult(
            units=add(from_millionths((low or 0) + (high or 0) * BILLION), _number(rest)),
            events_count=count + long_count,
            amount_cents=_number(amount),
        )
        for group, (count, long_count, rest, amount, low, high) in by_group.items()
    }


def _max(selection: Selection, field: str | None) -> dict[Group, AggregateResult]:
    short, long = selection.numbers(field)
    counting = f"{short} IS NOT NULL OR {long} IS NOT NULL"
    by_group = selection.per_group(
        f"COUNT({short})",
        f"COUNT({long})",
        f"MAX({short})",
        f"exact_max({long}) FILTER (WHERE {long} IS NOT NULL)",
        selection.amounts(counting),
        counting=counting,
    )
    tallies = {}
    for group, (count, long_count, largest, longest, amount) in by_group.items():
        values = [from_millionths(largest)] if count else []
        values += [Decimal(longest)] if long_count else []
        tallies[group] = AggregateResult(
            units=max(values, default=ZERO), events_count=count + long_count, amount_cents=_number(amount)
        )
    return tallies


def _latest(selection: Selection, field: str | None) -> dict[Group, AggregateResult]:
    short, long = selection.numbers(field)
    is_number = f"{short} IS NOT NULL OR {long} IS NOT NULL"
    by_group = selection.per_group(f"COUNT({short}) + COUNT({long})", selection.amounts(is_number), counting=is_number)
    order = "timestamp DESC, created_at DESC, id DESC"
    where = f"{selection.where} AND ({is_number})"
    if selection.keys:
        names = [f"g{place}" for place in range(len(selection.keys))]
        keys = ", ".join(f"{key} AS {name}" for key, name in zip(selection.keys, names, strict=True))
        last = selection.rows(
            f"SELECT {', '.join(names)}, short, long FROM (SELECT {keys}, {short} AS short, {long} AS long,"
            f" row_number() OVER (PARTITION BY {', '.join(selection.keys)} ORDER BY {order}) AS place"
            f" FROM events{where}) WHERE place = 1"
        )
    else:
        last = selection.rows(f"SELECT {short}, {long} FROM events{where} ORDER BY {order} LIMIT 1")
    values = {tuple(row[:-2]): from_millionths(row[-2]) if row[-1] is None else Decimal(row[-1]) for row in last}
    return {
        group: AggregateResult(
            units=max(values.get(group, ZERO), ZERO), events_count=count, amount_cents=_number(amount)
        )
        for group, (count, amount) in by_group.items()
    }


def _unique_count(selection: Selection, field: str | None) -> dict[Group, AggregateResult]:
    value = "NULL" if field is None else f"({selection.query.text(field)})"
    # Few events have an operation type; others add their value.
    by_group = selection.per_group(
        f"COUNT(DISTINCT {value})",
        "MAX(instr(properties, '\"operation_type\"'))",
        selection.amounts(f"{value} IS NOT NULL"),
        counting=f"{value} IS NOT NULL",
    )
    if not any(spoken for _, spoken, _ in by_group.values()):
        return {
            group: AggregateResult(units=Decimal(units), events_count=units, amount_cents=_number(amount))
            for group, (units, _, amount) in by_group.items()
        }
    # A value counts if its latest event adds it.
    operation = f"coalesce({selection.query.text('operation_type')}, 'add')"
    counts = f"{value} IS NOT NULL AND {operation} IN ('add', 'remove')"
    names = [f"g{place}" for place in range(len(selection.keys))]
    keys = "".join(f"{key} AS {name}, " for key, name in zip(selection.keys, names, strict=True))
    chosen = "".join(f"{name}, " for name in names)
    by = f" GROUP BY {places_sql(len(names))}" if names else ""
    rows = selection.rows(
        f"SELECT {chosen}SUM(operation = 'add') FROM (SELECT {keys}{value} AS value, {operation} AS operation,"
        f" MAX(printf('%020d%020d', timestamp + {_YEAR_1}, created_at + {_YEAR_1}) || id) FROM events{selection.where}"
        f" AND {counts} GROUP BY {places_sql(len(names) + 1)}){by}"
    )
    units = {tuple(row[:-1]): row[-1] or 0 for row in rows}
    return {
        group: AggregateResult(
            units=Decimal(units.get(group, 0)), events_count=units.get(group, 0), amount_cents=_number(amount)
        )
        for group, (amount,) in selection.per_group(selection.amounts(counts), counting=counts).items()
    }


def _weighted_sum(selection: Selection, field: str | None) -> dict[Group, AggregateResult]:
    number, is_number = selection.query.number(field), selection.query.is_number(field)
    numbers = f"FILTER (WHERE {is_number})"
    by_group = selection.per_group(
        f"COUNT(*) {numbers}",
        *weights_sql(f"exact_weights({number}, {selection.held_at}) {numbers}"),
        f"MAX(timestamp) {numbers}",
        selection.amounts(is_number),
        counting=is_number,
    )
    return {
        group: AggregateResult(
            units=_number(change),
            events_count=count,
            amount_cents=_number(amount),
            last_at=instant(last_at),
            moment=_number(moment),
        )
        for group, (count, change, moment, last_at, amount) in by_group.items()
        if count
    }


_ANSWERS: Mapping[str, Callable[[Selection, str | None], dict[Group, AggregateResult]]] = {
    CountedAs.COUNT: _count,
    CountedAs.SUM: _sum,
    CountedAs.MAX: _max,
    CountedAs.LATEST: _latest,
    CountedAs.UNIQUE_COUNT: _unique_count,
    CountedAs.WEIGHTED_SUM: _weighted_sum,
}
