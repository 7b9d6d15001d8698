"""Usage counted from events: one query for each aggregation, exact to the last digit. No event becomes an object.

Every aggregation works alike. SQL groups events by the query's group keys and by the values that decide which filter of
a charge prices them (and unique counts by value); each row has the instant of its first event, how many events it
stands for, the sum of their prices, and what the aggregation needs. Rows are then merged by bucket and group. So rows
of parts of the events may come from anywhere: `usage_totals` adds those that it keeps.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import product
from math import prod
from typing import Any, ClassVar, Final, TypeAlias, assert_never

from usagebill.core.aggregation import AggregateResult, Operation
from usagebill.core.events import EventOrder
from usagebill.core.filters import FilterIndex, Matches
from usagebill.core.grouping import place_of
from usagebill.core.numbers import ZERO, add
from usagebill.storage.event_queries import COUNTED, Arrival, Counted, CountedAs, EventQuery, Group
from usagebill.storage.event_rows import instant, microseconds
from usagebill.storage.sql.statements import Runner, Statement

# Values of a key that no filter accepts count as one, if at most this many are accepted; with more they stay distinct.
_ACCEPTED_AT_MOST: Final = 5_000
# Most combinations of values of an excluded filter that are looked up together.
_FEW: Final = 20
_PLACE_COLUMNS: Final = ("timestamp", "created_at", "id")
_PLACE: Final = f"({', '.join(_PLACE_COLUMNS)})"
_ADD, _REMOVE = Operation.ADD.value, Operation.REMOVE.value
# The column with the value, behind the deciding ones, in a row of a unique count.
VALUE: Final = 4
_LATEST: Final = "timestamp DESC, created_at DESC, id DESC"

Row: TypeAlias = tuple[Any, ...]
# SQL for the text of a property.
TextOf: TypeAlias = Callable[[str], str]


class Dialect(ABC):
    """How an engine keeps events, and what its SQL says otherwise."""

    # Whether each organization numbers its own events, in place of all together.
    numbers_by_organization: ClassVar[bool]
    # Keeps a sub-query from being merged into the outer one, so that its columns are computed once a row.
    apart: ClassVar[str]
    # Events by code and time, those of the query's subscription billed in advance, and the last ones stored.
    by_time: str
    in_advance: ClassVar[str]
    newest: ClassVar[str]
    is_in_advance: ClassVar[str]
    # Further conditions on events, and the sequence number in one that is not to be searched by.
    further_tests: ClassVar[Sequence[str]] = ()
    sequence: ClassVar[str] = "+sequence"
    # No number, and no text.
    no_number: ClassVar[str] = "CAST(NULL AS numeric)"
    no_text: ClassVar[str] = "CAST(NULL AS text)"
    # Functions: the texts of a JSON array as rows, a JSON array, and the smaller and larger of two.
    texts_in: ClassVar[str]
    array: ClassVar[str]
    least: ClassVar[str]
    greatest: ClassVar[str]
    # The price sent with an event, as a number.
    price: ClassVar[str]
    # The number of the columns `numbers`: whether there is one, itself, and the sum and the largest of all.
    is_number: ClassVar[str]
    number: ClassVar[str]
    total: ClassVar[str]
    largest: ClassVar[str]
    # The same of the column `weighted`, and the sum of each times `held_at`.
    change: ClassVar[str]
    moment: ClassVar[str]
    # Whether an event names an operation.
    names_operation: ClassVar[str]
    # The year and month of `timestamp`, as 202401.
    month: ClassVar[str]

    @abstractmethod
    def text(self, statement: Statement, key: str) -> str:
        """The text form of the property `key` (`core.events.property_text`), NULL if it has none."""

    @abstractmethod
    def numbers(self, statement: Statement, key: str) -> Mapping[str, str]:
        """The columns, by name, from which `is_number`, `number`, `total` and `largest` read the property `key`."""

    @abstractmethod
    def weighted(self, statement: Statement, key: str) -> str:
        """The property `key` as a number with all decimals that were sent, NULL if it is not one."""

    @abstractmethod
    def is_one_of(self, statement: Statement, column: str, numbers: Sequence[int]) -> str:
        """Whether a column of whole numbers is one of these."""

    @abstractmethod
    def is_one_of_rows(self, statement: Statement, texts: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Whether some texts together are one of these rows; NULL if any has none."""

    def ranked(self, events: str, names: Sequence[str]) -> str:
        """The query for `events` from which `of_latest` takes the latest of each group by `names`."""
        by = f"PARTITION BY {', '.join(names)} ORDER BY {_LATEST}"
        return f"SELECT e.*, row_number() OVER ({by}) AS place FROM ({events}) e"

    def of_latest(self, column: str) -> str:
        """A column of the latest event of a group."""
        return f"MAX(CASE WHEN place = 1 THEN {column} END)"

    @abstractmethod
    def sum_of(self, column: str) -> str:
        """The sum of a column of exact numbers, some of them NULL."""

    @abstractmethod
    def largest_of(self, column: str) -> str:
        """The largest of a column of exact numbers, some of them NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of the events of a query: those `between` two instants (in microseconds, inclusive) or `at` any of these,
    and by their sequence numbers those `stored_up_to` one, or `stored_after` it; of a unique count, those with some
    `values`, or `without` them.
    """

    between: tuple[int, int] | None = None
    at: Sequence[int] | None = None
    stored_up_to: int | None = None
    stored_after: int | None = None
    values: Sequence[str] | None = None
    without: Sequence[str] | None = None


ALL: Final = Part()


@dataclass(slots=True)
class PartialAggregate:
    """The aggregate of one group of one bucket; `first_at` is the instant of its first event."""

    first_at: int
    count: int = 0
    units: Decimal = ZERO
    amount: Decimal = ZERO
    largest: Decimal | None = None
    # The place of the event that set `units`, for latest values.
    latest: tuple[int, int, str] | None = None
    last_at: int | None = None
    moment: Decimal = ZERO
    # Value -> the place of its latest event (empty if none names an operation), and whether that event adds it.
    values: dict[str, tuple[Row, bool]] = field(default_factory=dict)
    # Values that are added, counted by SQL.
    distinct: int = 0

    def came(self, place: tuple[int, int, str], value: Decimal) -> None:
        """Take the value of an event, if it is the latest so far."""
        if self.latest is None or place > self.latest:
            self.latest, self.units = place, value


# By bucket and group.
Buckets: TypeAlias = dict[int, dict[Group, PartialAggregate]]


def merged(question: EventQuery, filters: FilterIndex | None, rows: Iterable[Row], groups: int) -> Buckets:
    """Rows merged by bucket and group: the first `groups` columns are the group, the next the filters' deciding
    values.
    """
    aggregation = CountedAs(question.aggregation_type)
    deciding = groups + (0 if filters is None else len(filters.keys))
    buckets: Buckets = {}
    positions: dict[Row, tuple[int, ...]] = {}
    for row in rows:
        group, decisive = row[:groups], row[groups:deciding]
        first_at, count, *columns = row[deciding:]
        if not count:
            continue
        if decisive not in positions:
            positions[decisive] = (0,) if filters is None else filters.of_values(decisive)
        for position in positions[decisive]:
            bucket = buckets.setdefault(position, {})
            partial = bucket.get(group)
            if partial is None:
                partial = bucket[group] = PartialAggregate(first_at)
            else:
                partial.first_at = min(partial.first_at, first_at)
            partial.count += count
            _merge(aggregation, partial, columns)
    return buckets


def _merge(aggregation: CountedAs, partial: PartialAggregate, columns: Sequence[Any]) -> None:
    amount, *values = columns
    if amount is not None:
        partial.amount = add(partial.amount, Decimal(amount))
    match aggregation:
        case CountedAs.COUNT:
            pass  # the count is all
        case CountedAs.SUM:
            partial.units = add(partial.units, Decimal(values[0]))
        case CountedAs.MAX:
            largest = Decimal(values[0])
            partial.largest = largest if partial.largest is None else max(partial.largest, largest)
        case CountedAs.LATEST:
            partial.last_at = values[0] if partial.last_at is None else max(partial.last_at, values[0])
        case CountedAs.WEIGHTED_SUM:
            change, moment, last_at = values
            partial.units, partial.moment = add(partial.units, Decimal(change)), add(partial.moment, Decimal(moment))
            partial.last_at = last_at if partial.last_at is None else max(partial.last_at, last_at)
        case CountedAs.UNIQUE_COUNT:
            added, value, *order = values
            place = tuple(order)
            if value is None:
                partial.distinct += added
            elif value not in partial.values or place > partial.values[value][0]:
                partial.values[value] = place, bool(added)
        case _:
            assert_never(aggregation)


def results(question: EventQuery, buckets: Buckets) -> dict[int, dict[Group, AggregateResult]]:
    """See `storage.ports.EventLog.tallies_by_bucket`: groups are in the order of `place_of`."""
    aggregation = CountedAs(question.aggregation_type)
    return {
        position: {
            group: _result(aggregation, partial)
            for group, partial in sorted(bucket.items(), key=lambda item: place_of(item[1].first_at, item[0]))
        }
        for position, bucket in buckets.items()
    }


def results_of_all(question: EventQuery, buckets: Buckets) -> dict[Group, AggregateResult]:
    """See `storage.ports.EventLog.tallies`."""
    return results(question, buckets).get(0) or {(None,) * len(question.group_keys): AggregateResult()}


def _result(aggregation: CountedAs, partial: PartialAggregate) -> AggregateResult:
    units, count, last_at = partial.units, partial.count, None
    match aggregation:
        case CountedAs.COUNT:
            units = Decimal(count)
        case CountedAs.MAX:
            units = ZERO if partial.largest is None else partial.largest
        case CountedAs.LATEST:
            units = max(units, ZERO)
        case CountedAs.UNIQUE_COUNT:
            count = partial.distinct + sum(adds for _, adds in partial.values.values())
            units = Decimal(count)
        case CountedAs.WEIGHTED_SUM:
            last_at = None if partial.last_at is None else instant(partial.last_at)
        case CountedAs.SUM:
            pass  # the units are merged already
        case _:
            assert_never(aggregation)
    return AggregateResult(
        units=units, events_count=count, amount_cents=partial.amount, last_at=last_at, moment=partial.moment
    )


class Scope:
    """A query's conditions and the columns that decide on buckets and groups, for rows with texts of properties."""

    def __init__(
        self,
        dialect: Dialect,
        statement: Statement,
        question: EventQuery,
        filters: FilterIndex | None,
        text: TextOf,
    ) -> None:
        self._dialect = dialect
        self._statement = statement
        self._question = question
        self._filters = filters
        self.text = text

    def deciding(self) -> dict[str, str]:
        """The group, then the values that decide on the filter."""
        columns = {f"g{place}": f"nullif({self.text(key)}, '')" for place, key in enumerate(self._question.group_keys)}
        if self._filters is not None:
            for place, key in enumerate(self._filters.keys):
                accepted = self._filters.accepted_values(key)
                text = self.text(key)
                if len(accepted) <= _ACCEPTED_AT_MOST:
                    text = f"CASE WHEN {self.among(text, accepted)} THEN {text} END"
                columns[f"f{place}"] = text
        return columns

    def of_properties(self) -> list[str]:
        """The conditions on properties."""
        bucket = self._question.bucket
        tests = [self.among(self.text(key), accepted) for key, accepted in bucket.matches.items()]
        # Excluded filters of the same keys are looked up together, by all combinations of their values.
        combined: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
        apart = []
        for exclude in bucket.excludes:
            if not all(exclude.values()):
                continue  # a key with no accepted value: it excludes nothing
            if exclude and prod(len(accepted) for accepted in exclude.values()) <= _FEW:
                keys = tuple(sorted(exclude))
                combined.setdefault(keys, {}).update(dict.fromkeys(product(*(exclude[key] for key in keys))))
            else:
                apart.append(f"coalesce({self._matches(exclude)}, 1 = 0)")
        for keys, combinations in combined.items():
            texts = [self.text(key) for key in keys]
            among = self._dialect.is_one_of_rows(self._statement, texts, list(combinations))
            tests.append(f"NOT coalesce({among}, 1 = 0)")
        if apart:
            tests.append(f"NOT {_any_of(apart)}")
        for key, values in self._question.only.items():
            present = [value for value in values if value is not None]
            among = self.among(f"nullif({self.text(key)}, '')", present)
            is_missing = f"coalesce({self.text(key)}, '') = ''"
            tests.append(f"({is_missing} OR {among})" if len(present) < len(values) else among)
        return tests

    def _matches(self, accepted_by_key: Matches) -> str:
        tests = [self.among(self.text(key), accepted) for key, accepted in accepted_by_key.items()]
        return f"({' AND '.join(tests) or '1 = 1'})"

    def among(self, text: str, accepted: Sequence[str]) -> str:
        """Whether a text is one of these; NULL if there is none."""
        return f"{text} IN (SELECT value FROM {self._dialect.texts_in.format(self._json(list(accepted)))})"

    def _json(self, value: object) -> str:
        return self._statement.bind(json.dumps(value, ensure_ascii=False))


def _any_of(tests: Sequence[str]) -> str:
    """SQL that is true if any test is, as a balanced tree: SQLite limits the depth of expressions."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return f"({_any_of(tests[:half])} OR {_any_of(tests[half:])})"


class EventCounts:
    """Queries over the events of one organization."""

    def __init__(self, connection: Runner, dialect: Dialect, organization_id: str) -> None:
        self._connection = connection
        self._dialect = dialect
        self._organization_id = organization_id

    def counted(self, question: EventQuery, filters: FilterIndex | None = None) -> Buckets:
        """The aggregates of the query's events.

        Raises ValueError for an aggregation that is not in `COUNTED`.
        """
        if question.aggregation_type not in COUNTED:
            raise ValueError(f"no query answers {question.aggregation_type}")
        groups = len(question.group_keys)
        if question.aggregation_type == CountedAs.UNIQUE_COUNT:
            rows, names_operations = self.unique(question, filters)
            if names_operations:
                rows = self.active(question, filters)
            return merged(question, filters, rows, groups)
        buckets = merged(question, filters, self.rows(question, filters), groups)
        if question.aggregation_type == CountedAs.LATEST:
            self.fill_in_latest(question, filters, buckets)
        return buckets

    def rows(self, question: EventQuery, filters: FilterIndex | None, part: Part = ALL) -> list[Row]:
        """Rows for `merged`, of any aggregation but unique counts."""
        statement = Statement()
        names, events = self._each(statement, question, filters, part)
        columns = ", ".join([*names, "MIN(timestamp)", "COUNT(*)", self._paid(question), *self._columns(question)])
        return self._run(statement, f"SELECT {columns} FROM ({events}) e{self._counting(question)}{_grouped(names)}")

    def fill_in_latest(
        self, question: EventQuery, filters: FilterIndex | None, buckets: Buckets, part: Part = ALL
    ) -> None:
        """Set the latest values, which are those of the few events (of the part) at the instants `last_at`."""
        partials = [partial for bucket in buckets.values() for partial in bucket.values()]
        instants = sorted({partial.last_at for partial in partials if partial.last_at is not None})
        if not instants:
            return
        statement = Statement()
        names, events = self._each(statement, question, filters, replace(part, at=instants))
        columns = ", ".join([*names, "timestamp", "created_at", "id", f"{self._dialect.number} AS value"])
        rows = self._run(statement, f"SELECT {columns} FROM ({events}) e{self._counting(question)}")
        groups = len(names) - (0 if filters is None else len(filters.keys))
        for *decisive, timestamp, created_at, id, value in rows:
            place = timestamp, created_at, id
            for position in (0,) if filters is None else filters.of_values(decisive[groups:]):
                buckets[position][tuple(decisive[:groups])].came(place, Decimal(value))

    def unique(
        self,
        question: EventQuery,
        filters: FilterIndex | None,
        part: Part = ALL,
        also: Callable[[Statement], str] | None = None,
    ) -> tuple[list[Row], bool]:
        """Rows for `merged` of a unique count, as if every event added its value, and whether any names an operation.

        `also` makes a query for further rows: the deciding columns, the value, the instant of its first event, a price
        and whether an operation was named.
        """
        statement = Statement()
        names, events = self._each(statement, question, filters, part)
        chosen = "".join(f"{name}, " for name in names)
        every = (
            f"SELECT {chosen}value, timestamp AS first_at, price,"
            f" CASE WHEN spoken THEN 1 ELSE 0 END AS spoken FROM ({events}) e WHERE value IS NOT NULL"
        )
        if also is not None:
            every = f"{also(statement)} UNION ALL {every}"
        by_value = (
            f"SELECT {chosen}MIN(first_at) AS first_at, COUNT(*) AS n,"
            f" {self._paid(question)} AS price, 1 AS added, value, MAX(spoken) AS spoken FROM ({every}) v"
            f"{_grouped([*names, 'value'])}"
        )
        rows = self._run(statement, by_value if filters is not None else self._distinct(question, names, by_value))
        return [row[:-1] for row in rows], any(row[-1] for row in rows)

    def _distinct(self, question: EventQuery, names: Sequence[str], by_value: str) -> str:
        """The rows of values counted: all events of a value are in one bucket, so the values need no names."""
        chosen = "".join(f"{name}, " for name in names)
        return (
            f"SELECT {chosen}MIN(first_at), CAST(SUM(n) AS bigint), {self._paid(question)},"
            f" CAST(SUM(added) AS bigint), NULL, MAX(spoken) FROM ({by_value}) v{_grouped(names)}"
        )

    def active(self, question: EventQuery, filters: FilterIndex | None, part: Part = ALL) -> list[Row]:
        """Rows for `merged` of a unique count: a value counts if its latest event adds it. With filters, a bucket may
        merge several rows of a value, so these have the place of that event; so have those of the part's `values`, and
        those `stored_after` others.
        """
        statement = Statement()
        names, events = self._each(statement, question, filters, part, with_operations=True)
        chosen = "".join(f"{name}, " for name in names)
        ranked = self._dialect.ranked(
            f"SELECT * FROM ({events}) e WHERE value IS NOT NULL AND operation IN ('{_ADD}', '{_REMOVE}')",
            [*names, "value"],
        )
        of_latest = self._dialect.of_latest
        by_value = (
            f"SELECT {chosen}MIN(timestamp) AS first_at, COUNT(*) AS n,"
            f" {self._paid(question)} AS price, CASE WHEN {of_latest('operation')} = '{_ADD}' THEN 1 ELSE 0 END AS"
            f" added, value, {{}} FROM ({ranked}) r{_grouped([*names, 'value'])}"
        )
        if filters is not None or part.values is not None or part.stored_after is not None:
            return self._run(statement, by_value.format(", ".join(map(of_latest, _PLACE_COLUMNS))))
        counted = self._distinct(question, names, by_value.format("0 AS spoken"))
        return [row[:-1] for row in self._run(statement, counted)]

    def _each(
        self,
        statement: Statement,
        question: EventQuery,
        filters: FilterIndex | None,
        part: Part,
        *,
        with_operations: bool = False,
    ) -> tuple[list[str], str]:
        """The names of the deciding columns, and the query for a row of each event with all that aggregations read."""
        dialect, field_name = self._dialect, question.field_name
        scope = self._scope(statement, question, filters)
        deciding = scope.deciding()
        columns = {**deciding, "timestamp": "timestamp", "sequence": "sequence", "price": dialect.no_number}
        if question.amounts:
            columns["price"] = dialect.price
        match CountedAs(question.aggregation_type):
            case CountedAs.COUNT:
                pass
            case CountedAs.UNIQUE_COUNT:
                columns["value"] = dialect.no_text if field_name is None else scope.text(field_name)
                if with_operations:
                    columns |= {name: name for name in _PLACE_COLUMNS}
                    columns["operation"] = f"coalesce({scope.text('operation_type')}, '{_ADD}')"
                else:
                    columns["spoken"] = dialect.names_operation
            case CountedAs.WEIGHTED_SUM:
                columns["weighted"] = (
                    dialect.no_number if field_name is None else dialect.weighted(statement, field_name)
                )
                columns["held_at"] = "timestamp"
                if question.held_from is not None:
                    held_from = statement.number(microseconds(question.held_from))
                    columns["held_at"] = f"{dialect.greatest}(timestamp, {held_from})"
            case CountedAs.SUM | CountedAs.MAX | CountedAs.LATEST:
                columns |= dialect.numbers(statement, field_name or "")
                columns |= {name: name for name in _PLACE_COLUMNS} if part.at is not None else {}
        tests = self._tests(statement, question, part) + scope.of_properties()
        if field_name is not None and part.values is not None:
            tests.append(scope.among(scope.text(field_name), part.values))
        if field_name is not None and part.without is not None:
            tests.append(f"NOT coalesce({scope.among(scope.text(field_name), part.without)}, 1 = 0)")
        if field_name is None and question.aggregation_type != CountedAs.COUNT:
            tests.append("1 = 0")
        source = dialect.by_time
        if part.stored_after is not None:
            of_organization = ""
            if dialect.numbers_by_organization:
                of_organization = f" AND organization_id = {statement.bind(self._organization_id)}"
            source = (
                f"(SELECT * FROM {dialect.newest} WHERE sequence > {statement.number(part.stored_after)}"
                f"{of_organization}{dialect.apart}) events"
            )
        # Plain columns may as well be merged into the outer query.
        apart = "" if columns.keys() <= {"timestamp", "sequence", "price"} else dialect.apart
        named = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        return list(deciding), f"SELECT {named} FROM {source} WHERE {' AND '.join(tests)}{apart}"

    def _scope(self, statement: Statement, question: EventQuery, filters: FilterIndex | None) -> Scope:
        return Scope(self._dialect, statement, question, filters, lambda key: self._dialect.text(statement, key))

    def _tests(self, statement: Statement, question: EventQuery, part: Part = ALL) -> list[str]:
        """The conditions on columns."""
        tests = [
            f"organization_id = {statement.bind(self._organization_id)}",
            f"external_subscription_id = {statement.bind(question.external_subscription_id)}",
            f"code = {statement.bind(question.code)}",
            *self._dialect.further_tests,
        ]
        earliest = None if question.earliest is None else microseconds(question.earliest)
        latest = None if question.latest_timestamp is None else microseconds(question.latest_timestamp)
        if part.between is not None:
            first, last = part.between
            earliest = first if earliest is None else max(earliest, first)
            latest = last if latest is None else min(latest, last)
        if part.at is not None:
            tests.append(self._dialect.is_one_of(statement, "timestamp", part.at))
        else:
            tests += [] if earliest is None else [f"timestamp >= {statement.number(earliest)}"]
            tests += [] if latest is None else [f"timestamp <= {statement.number(latest)}"]
        if question.up_to is not None:
            tests.append(f"{_PLACE} <= {_order(statement, question.up_to.order)}")
        if question.before is not None:
            tests.append(f"{_PLACE} < {_order(statement, question.before.order)}")
        if part.stored_up_to is not None:
            # The plus keeps SQLite from searching by the sequence number.
            tests.append(f"{self._dialect.sequence} <= {statement.number(part.stored_up_to)}")
        if question.known_at is not None:
            tests.append(f"created_at <= {statement.number(microseconds(question.known_at))}")
        for one in question.excluded:
            later = f"(created_at, id) > {_arrival(statement, one.received_to)}"
            if one.start is not None:
                later = f"{later} OR timestamp < {statement.number(microseconds(one.start))}"
            tests.append(f"(timestamp >= {statement.number(microseconds(one.end))} OR {later})")
        if question.until is not None and question.last_start is not None:
            earlier = f"(created_at, id) <= {_arrival(statement, question.until)}"
            tests.append(f"(timestamp < {statement.number(microseconds(question.last_start))} OR {earlier})")
        return tests

    def _columns(self, question: EventQuery) -> Sequence[str]:
        """What the aggregation needs of the events of a row."""
        match CountedAs(question.aggregation_type):
            case CountedAs.SUM:
                return (self._dialect.total,)
            case CountedAs.MAX:
                return (self._dialect.largest,)
            case CountedAs.LATEST:
                return ("MAX(timestamp)",)
            case CountedAs.WEIGHTED_SUM:
                return (self._dialect.change, self._dialect.moment, "MAX(timestamp)")
            case CountedAs.COUNT | CountedAs.UNIQUE_COUNT:
                return ()

    def _counting(self, question: EventQuery) -> str:
        """The condition for events that count."""
        match CountedAs(question.aggregation_type):
            case CountedAs.COUNT | CountedAs.UNIQUE_COUNT:
                return ""
            case CountedAs.WEIGHTED_SUM:
                return " WHERE weighted IS NOT NULL"
            case CountedAs.SUM | CountedAs.MAX | CountedAs.LATEST:
                return f" WHERE {self._dialect.is_number}"

    def _paid(self, question: EventQuery, over: str = "") -> str:
        return f"{self._dialect.sum_of('price')}{over}" if question.amounts else self._dialect.no_number

    def _run(self, statement: Statement, sql: str) -> list[Row]:
        return self._connection.execute(*statement.finished(sql)).fetchall()

    # Single events

    def scan(self, columns: str, question: EventQuery) -> tuple[str, list[Any]]:
        """The query for `columns` of the query's events, in order of time."""
        statement = Statement()
        where = self._where(statement, question)
        return statement.finished(f"SELECT {columns} FROM events{where} ORDER BY timestamp, created_at, id")

    def changes(
        self, columns: str, question: EventQuery, since: Counted | None, order: EventOrder, at_most: int
    ) -> tuple[str, list[Any]]:
        """The query behind `storage.ports.EventLog.changes`."""
        statement, dialect = Statement(), self._dialect

        def until(end: EventOrder) -> str:
            at = statement.number(microseconds(end[0]))
            return f"timestamp <= {at} AND {_PLACE} <= {_order(statement, end)}"

        if since is None:
            where = self._where(statement, question)
            return statement.finished(f"SELECT {columns} FROM events{where} AND {until(order)}")
        low, high = sorted((since.order, order))
        # Each half is a search in its own index.
        stored = (
            f"SELECT {columns} FROM {dialect.in_advance}{self._where(statement, question)} AND {dialect.is_in_advance}"
            f" AND sequence > {statement.number(since.sequence)} AND {until(high)}"
        )
        # With two lower bounds of the timestamp, the search would begin at either.
        earliest = low[0] if question.earliest is None else max(question.earliest, low[0])
        between = (
            f"SELECT {columns} FROM {dialect.by_time}{self._where(statement, replace(question, earliest=earliest))}"
            f" AND {_PLACE} > {_order(statement, low)} AND +sequence <= {statement.number(since.sequence)}"
            f" AND {until(high)}"
        )
        return statement.finished(f"{stored} UNION ALL {between} LIMIT {statement.number(at_most)}")

    def _where(self, statement: Statement, question: EventQuery) -> str:
        scope = self._scope(statement, question, None)
        return f" WHERE {' AND '.join([*self._tests(statement, question), *scope.of_properties()])}"


def _order(statement: Statement, order: EventOrder) -> str:
    timestamp, created_at, id = order
    numbers = (statement.number(microseconds(at)) for at in (timestamp, created_at))
    return f"({', '.join(numbers)}, {statement.bind(id)})"


def _arrival(statement: Statement, arrival: Arrival) -> str:
    return f"({statement.number(microseconds(arrival.at))}, {statement.bind(arrival.id)})"


def _grouped(names: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(names)}" if names else ""
