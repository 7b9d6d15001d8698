"""Aggregations over the events of one external subscription id and code, exact to the last digit.

ClickHouse aggregates the events up to a sequence number, the database those after it; both become states of the core,
which are merged. With FINAL, duplicates count once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import reduce
from itertools import product
from math import prod
from typing import Any, Final, assert_never

import msgspec

from usagebill.core.aggregation import AggregateResult, Aggregation, counts, fold_events
from usagebill.core.aggregation.count import Count, Counted
from usagebill.core.aggregation.latest import Last, Latest
from usagebill.core.aggregation.max import Largest, Max
from usagebill.core.aggregation.sum import Sum, Summed
from usagebill.core.aggregation.unique_count import Active, Operation, UniqueCount
from usagebill.core.events import Event, property_of
from usagebill.core.filters import FilterIndex
from usagebill.core.numbers import CONTEXT, ZERO, add
from usagebill.storage.clickhouse.servers import EventServers, Shard, literal
from usagebill.storage.event_queries import Arrival, CountedAs, EventQuery, Group
from usagebill.storage.event_rows import instant, microseconds

Rows = Sequence[Sequence[Any]]

# All values of a key that no filter accepts count as one if at most this many are accepted; otherwise they stay
# distinct.
_ACCEPTED_AT_MOST: Final = 5_000
# Most combinations of an excluded filter's values that are looked up together.
_FEW: Final = 20
_PLACE: Final = "(timestamp, created_at, id)"

_AGGREGATIONS: Final[Mapping[str, Callable[[str | None], Aggregation[Any]]]] = {
    CountedAs.COUNT: lambda _: Count(),
    CountedAs.SUM: lambda field_name: Sum(field_name=field_name),
    CountedAs.MAX: lambda field_name: Max(field_name=field_name),
    CountedAs.LATEST: lambda field_name: Latest(field_name=field_name),
    CountedAs.UNIQUE_COUNT: lambda field_name: UniqueCount(field_name=field_name),
}
# The database answers weighted sums, from running totals.
ANSWERED: Final = frozenset(_AGGREGATIONS)


@dataclass(slots=True)
class _Cell:
    """A group of a bucket: the place of its first event, ClickHouse's aggregates, the events that ClickHouse does not
    have, and the number of active values besides those in the states.
    """

    first_at: int
    first_sequence: int
    states: list[Any] = field(default_factory=list)
    tail: list[Event] = field(default_factory=list)
    active: int = 0

    def begins(self, at: int, sequence: int) -> None:
        self.first_at = min(self.first_at, at)
        self.first_sequence = min(self.first_sequence, sequence)


def answers(
    servers: EventServers,
    organization_id: str,
    question: EventQuery,
    filters: FilterIndex | None,
    shipped_to: int,
    tail: Iterable[tuple[int, Event]],
    *,
    known: Rows | None = None,
) -> dict[int, dict[Group, AggregateResult]]:
    """The aggregate of each group of each bucket of `filters`, by position (0 without filters).

    `tail` are the query's events after `shipped_to`, each with its sequence number. `known` are the rows that
    `rows_together` returned for the query. Raises ValueError for an
    aggregation that is not in `ANSWERED`, and `Unreachable` if the server does not respond.
    """
    query = _ServerQuery(servers.of(organization_id, question.external_subscription_id), organization_id, question)
    query.filters, query.shipped_to, query.known = filters, shipped_to, known
    buckets = query.cells((sequence, (), event) for sequence, event in tail)
    return {
        position: {
            group: _result(query.aggregation, cell, with_amounts=question.amounts)
            for group, cell in sorted(bucket.items(), key=lambda item: (item[1].first_at, item[1].first_sequence))
        }
        for position, bucket in buckets.items()
    }


def answers_of(
    servers: EventServers,
    organization_id: str,
    question: EventQuery,
    external_ids: Sequence[str],
    shipped_to: int,
    tail: Sequence[tuple[int, Event]],
) -> dict[str, AggregateResult]:
    """The aggregate of each of these external subscription ids in place of the query's own, by one query to each server
    that has some of them. The query has no group keys.

    `tail` are the events of all these ids after `shipped_to`. Raises the errors of `answers`.
    """
    by_shard: dict[int, list[str]] = {}
    for id in dict.fromkeys(external_ids):
        by_shard.setdefault(servers.number_of(organization_id, id), []).append(id)
    results = {id: AggregateResult() for id in external_ids}
    for number, ids in by_shard.items():
        query = _ServerQuery(servers.shards[number], organization_id, question, ids)
        query.shipped_to = shipped_to
        names = frozenset(ids)
        behind = (
            (sequence, (event.external_subscription_id,), event)
            for sequence, event in tail
            if event.external_subscription_id in names
        )
        for group, cell in query.cells(behind).get(0, {}).items():
            results[group[0] or ""] = _result(query.aggregation, cell, with_amounts=question.amounts)
    return results


def rows_together(
    servers: EventServers,
    organization_id: str,
    queries: Sequence[tuple[EventQuery, FilterIndex | None]],
    shipped_to: int,
) -> list[Rows]:
    """The rows for each of these queries about one subscription, by a single query to its server.

    A unique count whose values have events after `shipped_to` needs other rows, see `answers`.
    """
    shard = servers.of(organization_id, queries[0][0].external_subscription_id)
    rows: list[list[Sequence[Any]]] = [[] for _ in queries]
    statements = []
    for number, (question, filters) in enumerate(queries):
        query = _ServerQuery(shard, organization_id, question)
        query.filters, query.shipped_to = filters, shipped_to
        if (statement := query.statement()) is not None:
            # Their columns differ, so each row is one text.
            statements.append(
                f"SELECT toUInt32({number}) AS number, toJSONString(tuple(*)) AS fields FROM ({statement})"
            )
    if statements:
        for number, fields in shard.rows(" UNION ALL ".join(statements)):
            rows[number].append(msgspec.json.decode(fields))
    return list(rows)


def _result(aggregation: Aggregation[Any], cell: _Cell, *, with_amounts: bool) -> AggregateResult:
    states = [*cell.states, fold_events(aggregation, cell.tail)]
    while len(states) > 1:
        # In halves: states of unique counts grow as they are merged.
        states = [reduce(aggregation.merge, states[start : start + 2]) for start in range(0, len(states), 2)]
    tally = aggregation.result(states[0])
    return AggregateResult(
        units=add(tally.units, Decimal(cell.active)),
        events_count=tally.events_count + cell.active,
        amount_cents=tally.amount_cents if with_amounts else ZERO,
    )


def _exact(number: str | None) -> Decimal:
    """A number as ClickHouse writes it, perhaps with trailing zeros."""
    if number is None:
        return ZERO
    return Decimal(number.rstrip("0").rstrip(".") if "." in number else number)


class _ServerQuery:
    """One query to one server: for the events of one subscription, or for those of each of `external_ids`."""

    filters: FilterIndex | None = None
    shipped_to: int = 0
    known: Rows | None = None

    def __init__(
        self, shard: Shard, organization_id: str, question: EventQuery, external_ids: Sequence[str] | None = None
    ) -> None:
        if question.aggregation_type not in ANSWERED:
            raise _unanswered(question)
        self.aggregation = _AGGREGATIONS[question.aggregation_type](question.field_name)
        self._counted_as = CountedAs(question.aggregation_type)
        self._shard = shard
        self._organization_id = organization_id
        self._question = question
        self._external_ids = external_ids

    @property
    def _deciding(self) -> tuple[str, ...]:
        """The properties that decide which buckets an event is in."""
        return () if self.filters is None else self.filters.keys

    def cells(self, tail: Iterable[tuple[int, Group, Event]]) -> dict[int, dict[Group, _Cell]]:
        """The cells of each bucket, by position and group; with several subscriptions, groups start with theirs.

        `tail` has events with their sequence numbers and the start of their groups.
        """
        question = self._question
        buckets: dict[int, dict[Group, _Cell]] = {}

        def cell_of(position: int, group: Group, at: int, sequence: int) -> _Cell:
            bucket = buckets.setdefault(position, {})
            if group not in bucket:
                bucket[group] = _Cell(at, sequence)
            bucket[group].begins(at, sequence)
            return bucket[group]

        values: set[str] = set()
        for sequence, leading, event in tail:
            if not counts(question.aggregation_type, question.field_name, event):
                continue
            if question.aggregation_type == CountedAs.UNIQUE_COUNT:
                values.add(property_of(event, question.field_name) or "")
            group = (*leading, *(property_of(event, key) or None for key in question.group_keys))
            for position in (0,) if self.filters is None else self.filters.of_event(event):
                cell_of(position, group, microseconds(event.timestamp), sequence).tail.append(event)
        groups = len(question.group_keys) + (self._external_ids is not None)
        decided: dict[tuple[str | None, ...], tuple[int, ...]] = {}
        for row in self.rows(values):
            decisive = tuple(row[groups : groups + len(self._deciding)])
            at, sequence, *columns = row[groups + len(self._deciding) :]
            if decisive not in decided:
                decided[decisive] = (0,) if self.filters is None else self.filters.of_values(decisive)
            for position in decided[decisive]:
                cell = cell_of(position, tuple(row[:groups]), at, sequence)
                state, active = self.state(columns)
                cell.states.append(state)
                cell.active += active
        return buckets

    def rows(self, values: set[str]) -> Rows:
        """Rows of group, deciding values, place of the first event, and the columns for `state`.

        The latest events of `values` may not be in ClickHouse yet.
        """
        question = self._question
        if not values or self.filters is not None:
            if self.known is not None:
                return self.known
            statement = self.statement()
            return () if statement is None else self._shard.rows(statement)
        if question.field_name is None:
            return ()
        listed = f"{_text(question.field_name)} IN {_listed(sorted(values))}"
        elsewhere = self._shard.rows(self._select(f" AND NOT {listed}"))
        return [*elsewhere, *self._shard.rows(self._values(f" AND {listed}"))]

    def statement(self) -> str | None:
        """The query for the rows, unless a value's latest event may not be in ClickHouse; None if there are none."""
        if self._counted_as == CountedAs.UNIQUE_COUNT:
            if self._question.field_name is None:
                return None
            if self.filters is not None:
                # A bucket may merge several rows with the same value.
                return self._values()
        return self._select()

    def state(self, columns: Sequence[Any]) -> tuple[Any, int]:
        """The row as a state of the core, and the number of active values that it counts without naming them."""
        count, amount, *values = columns
        amount_cents = _exact(amount)
        match self._counted_as:
            case CountedAs.COUNT:
                return Counted(events_count=count, amount_cents=amount_cents), 0
            case CountedAs.SUM:
                return Summed(units=_sum(*values), events_count=count, amount_cents=amount_cents), 0
            case CountedAs.MAX:
                return Largest(value=_largest(*values), events_count=count, amount_cents=amount_cents), 0
            case CountedAs.LATEST:
                order, text = values
                return Last(order=_order(order), value=Decimal(text), events_count=count, amount_cents=amount_cents), 0
            case CountedAs.UNIQUE_COUNT if len(values) == 1:
                return Active(amount_cents=amount_cents), values[0]
            case CountedAs.UNIQUE_COUNT:
                order, value, operation = values
                return Active(latest={value: (_order(order), Operation(operation))}, amount_cents=amount_cents), 0
            case CountedAs.WEIGHTED_SUM:
                raise _unanswered(self._question)
            case _:
                assert_never(self._counted_as)

    def _names(self) -> list[tuple[str, str]]:
        """The columns that rows are grouped by, with their names."""
        names = [] if self._external_ids is None else [("subscription", "external_subscription_id")]
        names += [(f"g{place}", f"nullIf({_text(key)}, '')") for place, key in enumerate(self._question.group_keys)]
        for place, key in enumerate(self._deciding):
            assert self.filters is not None
            accepted = self.filters.accepted_values(key)
            test = _has(key)
            if len(accepted) <= _ACCEPTED_AT_MOST:
                test = _among(key, accepted)
            names.append((f"f{place}", f"if({test}, {_text(key)}, NULL)"))
        return names

    def _source(self, further: str = "") -> str:
        return f"FROM {self._shard.table('events')} FINAL WHERE {self._where()}{further}"

    def _select(self, further: str = "") -> str:
        question = self._question
        names = self._names()
        amount = "toString(sum(amount))" if question.amounts else "NULL"
        common = f"min(timestamp), min(sequence), count(), {amount}"
        chosen = "".join(f"{sql} AS {name}, " for name, sql in names)
        by = f" GROUP BY {', '.join(name for name, _ in names)}" if names else ""
        key = question.field_name
        counted_as = self._counted_as
        match counted_as:
            case CountedAs.COUNT:
                return f"SELECT {chosen}{common} {self._source(further)}{by} HAVING count() > 0"
            case CountedAs.UNIQUE_COUNT:
                inner = f"{self._values(further, plain=True)}"
                totals = "NULL" if not question.amounts else "toString(sum(amounts))"
                outer = "".join(f"{name}, " for name, _ in names)
                return (
                    f"SELECT {outer}min(first_at), min(first_sequence), sum(n), {totals}, countIf(operation = 'add')"
                    f" FROM ({inner}){by} HAVING count() > 0"
                )
            case CountedAs.LATEST:
                columns = None if key is None else f"max({_PLACE}), argMax({_text(key)}, {_PLACE})"
            case CountedAs.SUM:
                columns = None if key is None else _number_columns("sum", key)
            case CountedAs.MAX:
                columns = None if key is None else _number_columns("max", key)
            case CountedAs.WEIGHTED_SUM:
                raise _unanswered(question)
            case _:
                assert_never(counted_as)
        if key is None:
            return f"SELECT {chosen}{common}{', NULL' * 3} {self._source(' AND 0')}{by} HAVING count() > 0"
        numbers = f" AND ({_has(key, 'millionths')} OR {_has(key, 'wide')} OR {_has(key, 'long')})"
        return f"SELECT {chosen}{common}, {columns} {self._source(further + numbers)}{by} HAVING count() > 0"

    def _values(self, further: str = "", *, plain: bool = False) -> str:
        """The query for a row per value, with the operation of its latest event."""
        question = self._question
        key = question.field_name
        assert key is not None
        names = self._names()
        chosen = "".join(f"{sql} AS {name}, " for name, sql in names)
        by = ", ".join([*(name for name, _ in names), "v"])
        operation = f"if({_has('operation_type')}, {_text('operation_type')}, 'add')"
        counting = f" AND {_has(key)} AND {operation} IN ('add', 'remove')"
        first = "min(timestamp) AS first_at, min(sequence) AS first_sequence, count() AS n"
        latest = f"argMax({operation}, {_PLACE})"
        if plain:
            amounts = "sum(amount) AS amounts" if question.amounts else "NULL AS amounts"
            columns = f"{amounts}, {_text(key)} AS v, {latest} AS operation"
        else:
            amounts = "toString(sum(amount))" if question.amounts else "NULL"
            columns = f"{amounts}, max({_PLACE}), {_text(key)} AS v, {latest}"
        return f"SELECT {chosen}{first}, {columns} {self._source(further + counting)} GROUP BY {by}"

    def _where(self) -> str:
        question = self._question
        parts = [
            f"organization_id = {literal(self._organization_id)}",
            f"external_subscription_id IN {_listed(self._external_ids or [question.external_subscription_id])}",
            "has_subscription",
            f"code = {literal(question.code)}",
            f"sequence <= {self.shipped_to}",
        ]
        if question.stored_after is not None:
            parts.append(f"sequence > {question.stored_after}")
        if question.earliest is not None:
            parts.append(f"timestamp >= {microseconds(question.earliest)}")
        if (latest := question.latest_timestamp) is not None:
            parts.append(f"timestamp <= {microseconds(latest)}")
        if question.up_to is not None:
            parts.append(f"{_PLACE} <= {_order_literal(question.up_to)}")
        if question.before is not None:
            parts.append(f"{_PLACE} < {_order_literal(question.before)}")
        if question.known_at is not None:
            parts.append(f"created_at <= {microseconds(question.known_at)}")
        if question.after is not None and question.first_end is not None:
            later = f"(created_at, id) > {_arrival(question.after)}"
            parts.append(f"(timestamp >= {microseconds(question.first_end)} OR {later})")
        if question.until is not None and question.last_start is not None:
            earlier = f"(created_at, id) <= {_arrival(question.until)}"
            parts.append(f"(timestamp < {microseconds(question.last_start)} OR {earlier})")
        parts += [_among(key, accepted) for key, accepted in question.bucket.matches.items()]
        parts += [f"NOT {test}" for test in _exclusions(question)]
        for key, values in question.only.items():
            present = [value for value in values if value is not None]
            among = f"({_text(key)} <> '' AND {_text(key)} IN {_listed(present)})" if present else "0"
            parts.append(f"({among} OR {_text(key)} = '')" if len(present) < len(values) else among)
        return " AND ".join(parts)


def _exclusions(question: EventQuery) -> list[str]:
    """Tests for events of excluded filters. Filters with the same keys are looked up together."""
    apart: list[str] = []
    combined: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    for exclude in question.bucket.excludes:
        keys = tuple(sorted(exclude))
        if exclude and (len(keys) == 1 or prod(len(accepted) for accepted in exclude.values()) <= _FEW):
            combined.setdefault(keys, {}).update(dict.fromkeys(product(*(exclude[key] for key in keys))))
        else:
            apart.append(f"({' AND '.join(_among(key, accepted) for key, accepted in exclude.items()) or '1'})")
    for keys, combinations in combined.items():
        if not combinations:
            continue
        present = " AND ".join(map(_has, keys))
        if len(keys) == 1:
            apart.append(f"({present} AND {_text(keys[0])} IN {_listed(value for (value,) in combinations)})")
        else:
            listed = ", ".join(map(_listed, combinations))
            apart.append(f"({present} AND ({', '.join(map(_text, keys))}) IN ({listed}))")
    return apart


def _unanswered(question: EventQuery) -> ValueError:
    return ValueError(f"no query answers {question.aggregation_type}")


def _number_columns(function: str, key: str) -> str:
    """The columns of the aggregate of a numeric property."""
    name = literal(key)
    short, wide = f"toInt256(millionths[{name}])", f"wide[{name}]"
    return ", ".join(
        (
            f"if(countIf({_has(key, 'millionths')}) = 0, NULL,"
            f" toString({function}If({short}, {_has(key, 'millionths')})))",
            f"if(countIf({_has(key, 'wide')}) = 0, NULL, toString({function}If({wide}, {_has(key, 'wide')})))",
            f"groupArrayIf(long[{name}], {_has(key, 'long')})",
        )
    )


def _has(key: str, column: str = "texts") -> str:
    return f"mapContains({column}, {literal(key)})"


def _text(key: str) -> str:
    """The text form of the property, '' if it has none."""
    return f"texts[{literal(key)}]"


def _listed(values: Iterable[str]) -> str:
    return f"({', '.join(map(literal, values))})"


def _among(key: str, accepted: Sequence[str]) -> str:
    return f"({_has(key)} AND {_text(key)} IN {_listed(accepted)})" if accepted else "0"


def _order_literal(event: Event) -> str:
    timestamp, created_at, id = event.order
    return f"({microseconds(timestamp)}, {microseconds(created_at)}, {literal(id)})"


def _arrival(arrival: Arrival) -> str:
    return f"({microseconds(arrival.at)}, {literal(arrival.id)})"


def _order(place: tuple[int, int, str]) -> tuple[datetime, datetime, str]:
    return instant(place[0]), instant(place[1]), place[2]


def _from_millionths(text: str) -> Decimal:
    return _exact(format(CONTEXT.scaleb(Decimal(text), -6), "f"))


def _sum(millionths: str | None, wide: str | None, long: Iterable[str]) -> Decimal:
    total = ZERO if millionths is None else _from_millionths(millionths)
    return reduce(add, map(Decimal, long), add(total, _exact(wide)))


def _largest(millionths: str | None, wide: str | None, long: Iterable[str]) -> Decimal:
    numbers = [*map(Decimal, long)]
    if millionths is not None:
        numbers.append(_from_millionths(millionths))
    if wide is not None:
        numbers.append(_exact(wide))
    return max(numbers)
