"""Kept counts of lists, so that `total_count` is not counted record by record.

`list_counts` has a number for each combination of an organization's facets that occurs in a list (`storage.listings`),
and one for each slot of each range and combination (`slots`). Triggers update it with the records, however these are
written, and with the records that facets are taken from: the organization's only writer holds its lock, so nobody waits
for such a row. Two ranges at once, keys and searches are counted in the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Columns,
    Compare,
    Condition,
    Negate,
    NotEmpty,
    Null,
    Related,
    Within,
)
from usagebill.storage.listings import CountFault, Flag, Joined, facets_name
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.queries import condition_sql, where_sql
from usagebill.storage.postgresql.rows import rows_of, sql_value
from usagebill.storage.postgresql.slots import BOUNDS, slot_sql, span_of
from usagebill.storage.record_sql import can_be_deleted, implies, quoted
from usagebill.storage.tables import TABLES, Table, table_of

_C: Final = 'text COLLATE "C"'
COUNT_TABLE: Final = f"""
CREATE TABLE IF NOT EXISTS list_counts (
    organization_id {_C} NOT NULL, kind {_C} NOT NULL, facets text[] COLLATE "C" NOT NULL, n bigint NOT NULL,
    PRIMARY KEY (organization_id, kind, facets)) WITH (fillfactor = 50)
"""
# Index entries have a maximum size: facets are truncated to this length, and longer values are searched in the table.
LONGEST: Final = 200
_ADD: Final = "ON CONFLICT (organization_id, kind, facets) DO UPDATE SET n = list_counts.n + excluded.n"


@dataclass(frozen=True, slots=True)
class _Referred:
    """A trigger's row (OLD or NEW) of `kind`, instead of the one that a record names in `column`."""

    kind: type
    column: str
    row: str


Facet = str | Joined | Condition


def _facets(table: Table) -> tuple[Facet, ...]:
    if table.listing is None:
        return ()
    return tuple(facet.condition if isinstance(facet, Flag) else facet for facet in table.listing.facets)


def literal(value: object) -> str:
    """A value written out in SQL."""
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(literal, value))}]"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def fixed_sql(kind: type, condition: Condition, row: str) -> str:
    """A condition on a `row` with its values written out."""
    values: list[Any] = []
    first, *parts = condition_sql(kind, condition, row, values).split("?")
    return first + "".join(chain.from_iterable(zip(map(literal, values), parts, strict=True)))


def _shown_sql(table: Table, row: str) -> str:
    """Whether lists show the record of a `row`."""
    assert table.listing is not None
    tests = [f"{row}.deleted_at IS NULL"] if can_be_deleted(table.kind) else []
    if table.listing.shown is not None:
        tests.append(fixed_sql(table.kind, table.listing.shown, row))
    return " AND ".join(tests) or "TRUE"


def _facet_sql(table: Table, facet: Facet, row: str, referred: _Referred | None) -> str:
    """The facet of a `row` as it is kept."""
    if isinstance(facet, str):
        return f"left({row}.{quoted(facet)}::text, {LONGEST})"
    is_referred = (
        isinstance(facet, (Joined, Related))
        and referred is not None
        and (facet.kind, facet.column) == (referred.kind, referred.column)
    )
    if isinstance(facet, Joined):
        if is_referred and referred is not None:
            return f"left({referred.row}.{quoted(facet.inner)}::text, {LONGEST})"
        return (
            f"(SELECT left(o.{quoted(facet.inner)}::text, {LONGEST}) FROM {quoted(table_of(facet.kind).name)} o"
            f" WHERE o.id = {row}.{quoted(facet.column)})"
        )
    if is_referred and referred is not None and isinstance(facet, Related):
        test = " AND ".join(fixed_sql(facet.kind, condition, referred.row) for condition in facet.conditions)
    else:
        test = fixed_sql(table.kind, facet, row)
    return f"CASE WHEN {test} THEN '1' ELSE '0' END"


@dataclass(frozen=True, slots=True)
class _Series:
    """The counts of a list's records by facets or, with a `column`, by its slots and facets."""

    table: Table
    column: str | None = None

    @property
    def name(self) -> str:
        return self.table.name if self.column is None else f"{self.table.name} {self.column}"

    def facets_sql(self, row: str, referred: _Referred | None = None) -> str:
        """The facets of a `row` as they are kept, after the slot."""
        parts = [] if self.column is None else [slot_sql(self.table, self.column, row)]
        parts += [_facet_sql(self.table, facet, row, referred) for facet in _facets(self.table)]
        return f"ARRAY[{', '.join(parts)}]::text[]"

    def shown_sql(self, row: str) -> str:
        """Whether the record of a `row` is counted."""
        shown = _shown_sql(self.table, row)
        return shown if self.column is None else f"{shown} AND {row}.{quoted(self.column)} IS NOT NULL"

    def count_sql(self, source: str, sign: str = "") -> str:
        """The INSERT that adds records of a table to the counts, without its ON CONFLICT clause."""
        return (
            "INSERT INTO list_counts (organization_id, kind, facets, n)"
            f" SELECT r.organization_id, '{self.name}', {self.facets_sql('r')}, {sign}COUNT(*)"
            f" FROM {source} r WHERE {self.shown_sql('r')} GROUP BY 1, 3"
        )

    def move_sql(self, moved: str) -> str:
        """The INSERT that adds rows of `organization_id`, `facets` and the change `n` to the counts."""
        return (
            "INSERT INTO list_counts (organization_id, kind, facets, n)"
            f" SELECT organization_id, '{self.name}', facets, SUM(n) FROM ({moved}) r GROUP BY 1, 3"
            f" HAVING SUM(n) <> 0 {_ADD};"
        )


def _series(table: Table) -> Iterator[_Series]:
    """All series of a list."""
    assert table.listing is not None
    yield _Series(table)
    for column in table.listing.ranges:
        yield _Series(table, column)


def _columns(condition: Facet) -> Iterator[str]:
    """The columns of the record that decide a facet."""
    match condition:
        case str():
            yield condition
        case Joined(_, column) | Related(_, column):
            yield column
        case Columns(left, _, right):
            yield from (left, right)
        case AnyOf(conditions) | AllOf(conditions):
            for inner in conditions:
                yield from _columns(inner)
        case Negate(inner):
            yield from _columns(inner)
        case Compare(column) | Within(column) | Null(column) | NotEmpty(column):
            yield column
        case _:
            raise TypeError(condition)


def _statements_of(table: Table) -> Iterator[str]:
    """The statements that keep the counts of one table."""
    assert table.listing is not None
    name, function = quoted(table.name), quoted(f"count_{table.name}")
    series = list(_series(table))
    moves = "".join(
        counts.move_sql(
            " UNION ALL ".join(
                f"SELECT {row}.organization_id AS organization_id, {counts.facets_sql(row)} AS facets, {number} AS n"
                f" WHERE {counts.shown_sql(row)}"
                for row, number in (("OLD", -1), ("NEW", 1))
            )
        )
        for counts in series
    )
    sign = "CASE TG_OP WHEN $q$INSERT$q$ THEN 1 ELSE -1 END * "
    additions = " ".join(f"{counts.count_sql('changed', sign)} {_ADD};" for counts in series)
    yield (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$"
        " BEGIN IF TG_OP = 'TRUNCATE' THEN DELETE FROM list_counts"
        f" WHERE kind IN ({', '.join(literal(counts.name) for counts in series)});"
        f" ELSIF TG_OP = 'UPDATE' THEN {moves}"
        f" ELSE {additions}"
        " END IF; RETURN NULL; END $$"
    )
    watched = ["organization_id", *(["deleted_at"] if can_be_deleted(table.kind) else []), *table.listing.ranges]
    for condition in (*_facets(table), *([] if table.listing.shown is None else [table.listing.shown])):
        watched += _columns(condition)
    differs = _differs_sql(watched)
    for suffix, fires in (
        ("inserted", f"AFTER INSERT ON {name} REFERENCING NEW TABLE AS changed FOR EACH STATEMENT"),
        ("deleted", f"AFTER DELETE ON {name} REFERENCING OLD TABLE AS changed FOR EACH STATEMENT"),
        ("updated", f"AFTER UPDATE ON {name} FOR EACH ROW WHEN ({differs})"),
        ("truncated", f"AFTER TRUNCATE ON {name} FOR EACH STATEMENT"),
    ):
        yield f'CREATE OR REPLACE TRIGGER "count_{suffix}" {fires} EXECUTE FUNCTION {function}()'


def _differs_sql(columns: Sequence[str]) -> str:
    """Whether a trigger's row has changed in one of the columns."""
    return " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in map(quoted, dict.fromkeys(columns)))


def _statements_of_referred(kind: type) -> Iterator[str]:
    """The statements that move counts when a record changes from which others take facets."""
    watched: list[str] = []
    moves: list[str] = []
    for table in _listed():
        columns = dict.fromkeys(
            facet.column for facet in _facets(table) if isinstance(facet, (Joined, Related)) and facet.kind is kind
        )
        for facet in _facets(table):
            if isinstance(facet, Joined) and facet.kind is kind:
                watched.append(facet.inner)
            elif isinstance(facet, Related) and facet.kind is kind:
                watched += [column for condition in facet.conditions for column in _columns(condition)]
        for column in columns:
            for counts in _series(table):
                moved = " UNION ALL ".join(
                    f"SELECT r.organization_id, {counts.facets_sql('r', _Referred(kind, column, row))} AS facets,"
                    f" {number} AS n FROM {quoted(table.name)} r WHERE r.organization_id = NEW.organization_id"
                    f" AND r.{quoted(column)} = NEW.id AND {counts.shown_sql('r')}"
                    for row, number in (("OLD", -1), ("NEW", 1))
                )
                moves.append(counts.move_sql(moved))
    if not moves:
        return
    name, function = quoted(table_of(kind).name), quoted(f"count_by_{table_of(kind).name}")
    yield (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$"
        f" BEGIN {' '.join(moves)} RETURN NULL; END $$"
    )
    yield (
        f'CREATE OR REPLACE TRIGGER "count_referring" AFTER UPDATE ON {name} FOR EACH ROW'
        f" WHEN ({_differs_sql(watched)}) EXECUTE FUNCTION {function}()"
    )


def _listed() -> list[Table]:
    return [table for table in TABLES if table.listing is not None]


def count_statements() -> list[str]:
    """The statements that create the counts of all lists."""
    return [
        *(statement for table in _listed() for statement in _statements_of(table)),
        *(statement for table in TABLES for statement in _statements_of_referred(table.kind)),
    ]


def recount(connection: Connection) -> None:
    """Count all records again."""
    connection.execute("DELETE FROM list_counts")
    for table in _listed():
        for series in _series(table):
            connection.execute(series.count_sql(quoted(table.name)))


class PostgresListCounts:
    """See `storage.ports.KeptListCounts`."""

    def __init__(self, connection: Connection, organization_id: str | None) -> None:
        self._connection = connection
        self._organization_id = organization_id

    def faults(self, *, events: bool = True) -> Iterator[CountFault]:
        # Events are counted by each list: no number of them is kept.
        for table in _listed():
            for series in _series(table):
                rows = self._connection.execute(
                    "SELECT facets, SUM(kept)::bigint, SUM(counted)::bigint FROM ("
                    "SELECT facets, n AS kept, 0 AS counted FROM list_counts WHERE organization_id = ? AND kind = ?"
                    f' UNION ALL SELECT {series.facets_sql("r")} COLLATE "C", 0, COUNT(*) FROM {quoted(table.name)} r'
                    f" WHERE r.organization_id = ? AND {series.shown_sql('r')} GROUP BY 1) c"
                    " GROUP BY facets HAVING SUM(kept) <> SUM(counted) ORDER BY facets",
                    (self._organization_id, series.name, self._organization_id),
                )
                for facets, kept, counted in rows:
                    yield CountFault(table.name, _slot_name(series, facets), kept, counted)

    def recount(self) -> list[str]:
        differing = list(dict.fromkeys(fault.listed for fault in self.faults()))
        for table in _listed():
            for series in _series(table) if table.name in differing else ():
                self._connection.execute(
                    "DELETE FROM list_counts WHERE organization_id = ? AND kind = ?",
                    (self._organization_id, series.name),
                )
                of_organization = f"(SELECT * FROM {quoted(table.name)} WHERE organization_id = ?)"
                self._connection.execute(series.count_sql(of_organization), (self._organization_id,))
        return differing


def _slot_name(series: _Series, facets: Sequence[str | None]) -> str:
    """A number of a series in words."""
    if series.column is None:
        return facets_name(_facets(series.table), facets) or "all"
    return facets_name((series.column, *_facets(series.table)), facets)


# Querying


def counted_sql(
    kind: type, conditions: Sequence[Condition], organization_id: str | None
) -> tuple[str, list[Any]] | None:
    """The query that counts the records that meet the conditions, and its values; None if facets do not decide them."""
    table = table_of(kind)
    listing = table.listing
    if listing is None or organization_id is None or not implies(conditions, listing.shown):
        return None
    bounds = [
        condition
        for condition in conditions
        if isinstance(condition, Compare)
        and condition.column in listing.ranges
        and condition.operator in BOUNDS
        and condition.value is not None
    ]
    columns = {bound.column for bound in bounds}
    if len(columns) > 1:
        return None
    column = next(iter(columns), None)
    series = _Series(table, column)
    # The slot comes before the facets.
    facets = (*([] if column is None else [""]), *_facets(table))
    values: list[Any] = [organization_id, series.name]
    tests = ["organization_id = ? AND kind = ?"]
    for condition in conditions:
        if condition not in bounds and (condition != listing.shown or isinstance(condition, Within)):
            test = _test(table, facets, condition, values)
            if test is None:
                return None
            tests.append(test)
    if column is None:
        return f"SELECT coalesce(SUM(n), 0) FROM list_counts WHERE {' AND '.join(tests)}", values
    span = span_of(table, column, bounds)
    for slot, operator in ((span.first, ">="), (span.end, "<")):
        if slot is not None:
            values.append(slot)
            tests.append(f"facets {operator} ARRAY[?]::text[]")
    counts = [f"(SELECT coalesce(SUM(n), 0) FROM list_counts WHERE {' AND '.join(tests)})"]
    for cut in span.cuts:
        where, bound = where_sql(kind, [*conditions, *cut], organization_id, False)
        counts.append(f"(SELECT COUNT(*) FROM {quoted(table.name)} t{where})")
        values += bound
    return f"SELECT {' + '.join(counts)}", values


def _inner(condition: Condition, column: str) -> Condition | None:
    """A condition on the record that `column` names as one on a joined facet; None if there is no such facet."""
    match condition:
        case Compare(inner) | Within(inner) | Null(inner):
            return replace(condition, column=_joined_name(column, inner))
        case AnyOf(conditions) | AllOf(conditions):
            renamed = [_inner(part, column) for part in conditions]
            return None if None in renamed else replace(condition, conditions=tuple(renamed))  # type: ignore[arg-type]
        case Negate(part):
            other = _inner(part, column)
            return None if other is None else Negate(other)
    return None


def _joined_name(column: str, inner: str) -> str:
    return f"{column}.{inner}"


def _place(facets: Sequence[Facet], column: str) -> int | None:
    """The place of the facet of a column, or of a joined one, counted from 1."""
    for place, facet in enumerate(facets, 1):
        if facet == column or (isinstance(facet, Joined) and _joined_name(facet.column, facet.inner) == column):
            return place
    return None


def _test(table: Table, facets: Sequence[Facet], condition: Condition, values: list[Any]) -> str | None:
    """The condition in terms of facets; None if they do not decide it."""
    if condition in facets:
        return f"facets[{facets.index(condition) + 1}] = '1'"
    match condition:
        case Null(column, present) if Null(column, not present) in facets:
            return f"facets[{facets.index(Null(column, not present)) + 1}] = '0'"
        case Compare(column, operator, value) if place := _place(facets, column):
            return _compared(table, facets[place - 1], place, operator, sql_value(value), values)
        case Within(column, options) if place := _place(facets, column):
            texts = [str(sql_value(option)) for option in options if option is not None]
            if any(len(text) >= LONGEST for text in texts):
                return None
            values.append(texts)
            return f"facets[{place}] = ANY(?::text[])"
        case Null(column, present) if place := _place(facets, column):
            return f"facets[{place}] IS {'NOT ' if present else ''}NULL"
        case AnyOf(conditions) | AllOf(conditions):
            tests = [_test(table, facets, part, values) for part in conditions]
            if not tests or any(test is None for test in tests):
                return None
            return "(" + (" OR " if isinstance(condition, AnyOf) else " AND ").join(map(str, tests)) + ")"
        case Negate(part):
            test = _test(table, facets, part, values)
            return None if test is None else f"({test}) IS NOT TRUE"
        case Related(_, column, conditions):
            joined = _inner(AllOf(tuple(conditions)), column)
            return None if joined is None else _test(table, facets, joined, values)
    return None


def _compared(table: Table, facet: Facet, place: int, operator: str, value: Any, values: list[Any]) -> str | None:
    kind, name = (facet.kind, facet.inner) if isinstance(facet, Joined) else (table.kind, facet)
    is_text = next(item.sql_type is str for item in rows_of(kind).codec.columns if item.name == name)
    if value is None or operator not in {"=", "!=", "<", "<=", ">", ">="} or len(str(value)) >= LONGEST:
        return None
    values.append(str(value) if is_text else value)
    return f"facets[{place}] {operator} ?" if is_text else f"facets[{place}]::numeric {operator} ?"
