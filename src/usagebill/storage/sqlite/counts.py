"""Counts: the number of records in lists, kept by facet and range, so that no list counts its records one by one.

`<table>_counts` has a number for each combination of facets that occurs (`storage.listings`): one in total, one for
each slot of each range (a day, or amounts with the same first three digits), one for each record that a key names, and
one for each value of a valued column, in total and by day (`value_counts`). There are wider slots too (months and
years, amounts with the same first two digits or the same first one), so that a long range adds up few. Counts are
written with the records (`kept`). Slots that a bound cuts in two are counted in the table itself.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Columns,
    Compare,
    Condition,
    Has,
    Item,
    Like,
    Negate,
    NotEmpty,
    Null,
    Related,
    SameText,
    Search,
    Within,
)
from usagebill.storage.listings import Facet, Joined
from usagebill.storage.record_sql import can_be_deleted, implies, is_nullable, quoted
from usagebill.storage.sqlite.queries import condition_sql, literal_sql, order_terms
from usagebill.storage.sqlite.rows import sql_value
from usagebill.storage.sqlite.slots import (
    WIDEST,
    Span,
    counted_under,
    key_span,
    levels_sql,
    range_kind,
    range_span,
    slot_of_level,
)
from usagebill.storage.sqlite.value_counts import by_day, is_by_day, is_counted_value, value_slot_sql
from usagebill.storage.tables import Table, table_of

# Stands for absent values: it equals no text and no number.
_ABSENT = "x''"


def shown_sql(table: Table, row: str) -> str:
    """The condition for a `row` to be listed."""
    assert table.listing is not None
    tests = ["t.deleted_at IS NULL"] if can_be_deleted(table.kind) else []
    if table.listing.shown is not None:
        tests.append(_shown_sql(table.listing.shown))
    return _of_row(" AND ".join(tests) or "1", row)


def _shown_sql(shown: Condition) -> str:
    """The condition on `t`, value by value: for a list of values, SQLite would build a table for every row written.

    The pluses rule out partial indexes, for which SQLite looks at bound values and recompiles the statement each time.
    """
    match shown:
        case Compare(column, "=", value):
            values: tuple[object, ...] = (value,)
        case Within(column, values):
            pass
        case _:
            raise TypeError(shown)
    return (
        "("
        + " OR ".join(f"+t.{quoted(column)} = '{value}'" for value in sorted(str(sql_value(value)) for value in values))
        + ")"
    )


def _of_row(sql: str, row: str) -> str:
    """SQL about `t` as SQL about `row`; if that is empty, about the table of an index."""
    return re.sub(r"\bt\.", f"{row}." if row else "", sql)


def _own_facets(table: Table) -> list[tuple[int, Facet]]:
    """The facets of the record's own columns, with their places."""
    assert table.listing is not None
    return [
        (place, facet) for place, facet in enumerate(table.listing.facets) if not isinstance(facet, (Joined, Related))
    ]


def own_facet_values(table: Table, row: str) -> list[tuple[int, str]]:
    """The places of the facets of the record's own columns, and their values in a `row` as they are counted."""
    return [(place, _stored(table, facet, row)) for place, facet in _own_facets(table)]


def has_facets(table: Table) -> bool:
    """Whether there is an index from facets to records."""
    return bool(_own_facets(table))


def facet_names(table: Table) -> str:
    """The columns of the counts, as `c`, that `joined_facets` joins."""
    return ", ".join(("c.organization_id", *(f"c.f{place}" for place, _ in _own_facets(table))))


def joined_facets(table: Table, *, bound: bool = False) -> str:
    """The join of records, as `t`, and counts, as `c`, by the index of facets; `bound` to the values of `facet_names`
    instead.
    """
    tests = ["t.organization_id = " + ("?" if bound else "c.organization_id")]
    for place, facet in _own_facets(table):
        value = "?" if bound else f"c.f{place}"
        if isinstance(facet, str):
            nullable = is_nullable(table.kind, facet)
            tests.append(f"t.{quoted(facet)} " + (f"IS nullif({value}, {_ABSENT})" if nullable else f"= {value}"))
        else:
            tests.append(f"{_stored(table, facet, 't')} = {value}")
    return " AND ".join(tests)


def _stored(table: Table, facet: Facet, row: str) -> str:
    """The value of a facet as stored, which is never absent. `row` names the record, or is empty."""
    if isinstance(facet, str):
        column = f"{row}.{quoted(facet)}" if row else quoted(facet)
        return f"coalesce({column}, {_ABSENT})" if is_nullable(table.kind, facet) else column
    if isinstance(facet, Joined):
        referred = table_of(facet.kind).name
        return (
            f"coalesce((SELECT o.{quoted(facet.inner)} FROM {quoted(referred)} o"
            f" WHERE o.id = {row}.{quoted(facet.column)}), {_ABSENT})"
        )
    return f"coalesce({_of_row(literal_sql(table.kind, facet, 't'), row)}, 0)"


# Queries


@dataclass(frozen=True, slots=True)
class Counted:
    """A query on counts instead of the table. `facets` is SQL over the counts, aliased `c`."""

    facets: str
    values: tuple[Any, ...]
    conditions: tuple[Condition, ...]
    span: Span | None
    # Whether the record's own columns decide all facets in the query.
    own: bool
    # The bounds of the range, unless the span is a key's.
    bounds: tuple[Compare, ...] = ()
    # The condition on a valued column, which is among the conditions too. The span is of the list's order, if any.
    value: Compare | Within | None = None


# The counts of a list without filters.
UNFILTERED = Counted("1", (), (), None, True)


def _flat(conditions: Sequence[Condition], facets: Sequence[Facet]) -> Iterator[Condition]:
    for condition in conditions:
        if isinstance(condition, AllOf) and condition not in facets:
            yield from _flat(condition.conditions, facets)
        else:
            yield condition


def counted(kind: type, conditions: Sequence[Condition]) -> tuple[Counted, list[Condition]] | None:
    """The part of the conditions that counts can answer, and the other conditions; None if counts cannot answer any."""
    table = table_of(kind)
    listing = table.listing
    if listing is None or not implies(conditions, listing.shown):
        return None
    tests: list[str] = []
    values: list[Any] = []
    answered: list[Condition] = []
    remaining: list[Condition] = []
    bounds: dict[str, list[Compare]] = {}
    span: Span | None = None
    value: Compare | Within | None = None
    is_own = True
    for condition in _flat(conditions, listing.facets):
        sought: list[Any] = []
        sql = _facet_sql(table, condition, sought)
        if sql is not None:
            tests.append(sql)
            values.extend(sought)
            answered.append(condition)
            is_own = is_own and _is_own(table, condition)
        elif listing.shown is not None and not isinstance(listing.shown, Within) and condition == listing.shown:
            answered.append(condition)
        elif (
            isinstance(condition, Compare) and condition.column in listing.ranges and condition.operator in (">=", "<=")
        ):
            bounds.setdefault(condition.column, []).append(condition)
        elif span is None and isinstance(condition, (Compare, Within)) and condition.column in listing.keys:
            span = key_span(condition)
            remaining += [condition] if span is None else []
        elif value is None and isinstance(condition, (Compare, Within)) and is_counted_value(table, condition):
            value = condition
        else:
            remaining.append(condition)
    if len(bounds) > 1 or (bounds and span is not None):
        remaining += [bound for several in bounds.values() for bound in several]
    if value is not None and (remaining or span is not None):
        remaining.append(value)
        value = None
    answered += [] if value is None else [value]
    bounded: list[Compare] = []
    for column, several in bounds.items() if len(bounds) == 1 and span is None else ():
        span, bounded = range_span(table, column, several), several
    facets = " AND ".join(tests) or "1"
    return Counted(facets, tuple(values), tuple(answered), span, is_own, tuple(bounded), value), remaining


def _is_own(table: Table, condition: Condition) -> bool:
    """Whether the condition only depends on the record and its own facets."""
    assert table.listing is not None
    match condition:
        case Related(_, column, _):
            return condition not in table.listing.facets and column in table.listing.facets
        case AnyOf(several) | AllOf(several):
            return all(_is_own(table, inner) for inner in several)
        case Negate(inner):
            return _is_own(table, inner)
    return True


def _facet_sql(table: Table, condition: Condition, values: list[Any]) -> str | None:
    """The condition in terms of facets; None if they do not decide it."""
    assert table.listing is not None
    facets = table.listing.facets
    if condition in facets:
        return f"c.f{facets.index(condition)} = 1"
    match condition:
        case Null(column, present) if Null(column, not present) in facets:
            return f"c.f{facets.index(Null(column, not present))} = 0"
        case Compare(column, operator, _) if column in facets:
            return _test(table, column, facets.index(column), condition, values) if operator else None
        case Within(column, _) | Null(column, _) if column in facets:
            return _test(table, column, facets.index(column), condition, values)
        case AnyOf(several) | AllOf(several):
            parts = [_facet_sql(table, inner, values) for inner in several]
            if any(part is None for part in parts):
                return None
            joint = " OR " if isinstance(condition, AnyOf) else " AND "
            return "(" + joint.join(part for part in parts if part) + ")" if parts else str(int(joint == " AND "))
        case Negate(inner):
            inside = _facet_sql(table, inner, values)
            return None if inside is None else f"NOT {inside}"
        case Related(kind, column, conditions):
            if column in facets:
                other = table_of(kind).name
                tests = [condition_sql(kind, inner, "o", values, True) for inner in conditions]
                return (
                    f"c.f{facets.index(column)} IN (SELECT o.id FROM {quoted(other)} o"
                    f" WHERE o.organization_id = c.organization_id AND {' AND '.join(tests) or '1'})"
                )
            tests = []
            for inner in conditions:
                joined = Joined(kind, column, getattr(inner, "column", ""))
                if not isinstance(inner, (Compare, Within, Null)) or joined not in facets:
                    return None
                tests.append(_test(table, joined, facets.index(joined), inner, values))
            return "(" + " AND ".join(tests) + ")" if tests else None
    return None


def _test(table: Table, facet: str | Joined, place: int, condition: Condition, values: list[Any]) -> str:
    name = f"c.f{place}"
    match condition:
        case Compare(_, operator, value):
            values.append(sql_value(value))
            if operator == "=":
                return f"{name} = ?"
            return f"({name} {operator} ? AND {name} != {_ABSENT})"
        case Within(_, options):
            values.extend(map(sql_value, options))
            return f"{name} IN ({','.join('?' * len(options))})" if options else "0"
        case Null(_, present):
            return f"{name} {'!=' if present else '='} {_ABSENT}"
    raise TypeError(condition)


# The schema


def index_definitions(table: Table) -> Iterator[tuple[str, str]]:
    """Name and statement of the indexes of lists.

    `<table>_listed` is in list order and has the columns of filters; `<table>_facets` leads from facets to records,
    `<table>_ranged_<column>` from ranges, `<table>_having_<column>` from values of narrow columns.
    """
    listing = table.listing
    if listing is None:
        return
    order = order_terms(table.kind, listing.order)
    carried: list[str] = []
    for facet in listing.facets:
        carried += [facet] if isinstance(facet, str) else _columns(facet)
    carried += (*listing.ranges, *listing.valued)
    if listing.shown is not None:
        carried += _columns(listing.shown)
    sorted_by = {"id", *(item.column for item in listing.order)}
    more = [quoted(column) for column in dict.fromkeys(carried) if column not in sorted_by]
    shown = shown_sql(table, "")
    # A partial index has no deleted records, but SQLite tests the column: without it here, it would read the records.
    deleted = ['"deleted_at"'] if can_be_deleted(table.kind) else []
    yield _index(table, "listed", [*order, *more], shown)
    if listing.lead is not None:
        yield _index(table, "listed_by_lead", [quoted(listing.lead), *order, *more], shown)
    for column in listing.narrow:
        yield _index(table, f"having_{column}", [quoted(column), *order, *more, *deleted], shown)
    facets = [quoted(facet) if isinstance(facet, str) else _stored(table, facet, "") for _, facet in _own_facets(table)]
    if facets:
        yield _index(table, "facets", [*facets, *order], shown)
    for column in listing.ranges:
        if column != listing.order[0].column:
            present = f" AND {quoted(column)} IS NOT NULL" if is_nullable(table.kind, column) else ""
            yield _index(table, f"ranged_{column}", [quoted(column), *order, *deleted], shown + present)


def _index(table: Table, suffix: str, columns: Sequence[str], shown: str) -> tuple[str, str]:
    name = f"{table.name}_{suffix}"
    where = "" if shown == "1" else f" WHERE {shown}"
    return name, f'CREATE INDEX "{name}" ON "{table.name}" ("organization_id", {", ".join(columns)}){where}'


def count_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """Type, name and statement of all schema objects for the counts of a table, in order of creation."""
    listing = table.listing
    if listing is None:
        return
    name = f"{table.name}_counts"
    places = "".join(f", f{place}" for place in range(len(listing.facets)))
    declared = "".join(f", f{place} NOT NULL" for place in range(len(listing.facets)))
    yield (
        "table",
        name,
        (
            f'CREATE TABLE "{name}" (organization_id TEXT NOT NULL, ranged TEXT NOT NULL, slot NOT NULL{declared},'
            f" n INTEGER NOT NULL, PRIMARY KEY (organization_id, ranged, slot{places})) WITHOUT ROWID"
        ),
    )


def _ranges(table: Table) -> tuple[str, ...]:
    """The range keys of counts: each range, and '' unless a range covers all records."""
    assert table.listing is not None
    valued = [key for column in table.listing.valued for key in (column, by_day(column))]
    kept = (*table.listing.ranges, *table.listing.keys, *valued)
    return kept if whole_range(table) else ("", *kept)


def whole_range(table: Table) -> str:
    """The key under which all records are counted: the widest slots of the list's order if that is a range, otherwise
    ''.
    """
    assert table.listing is not None
    column = table.listing.order[0].column
    return counted_under(column, WIDEST) if column in table.listing.ranges else ""


def _is_counted(table: Table, row: str, ranged: str) -> str:
    assert table.listing is not None
    ranges = (*table.listing.ranges, *table.listing.keys)
    present = f" AND {row}.{quoted(ranged)} IS NOT NULL" if ranged in ranges and is_nullable(table.kind, ranged) else ""
    return shown_sql(table, row) + present


def _counted_columns(table: Table, row: str, number: str, ranged: str) -> str:
    assert table.listing is not None
    slots = "'', ''"
    if ranged in (*table.listing.keys, *table.listing.valued):
        slots = f"'{ranged}', {row}.{quoted(ranged)}"
    elif is_by_day(table, ranged):
        slots = f"'{ranged}', {value_slot_sql(table, ranged, row)}"
    elif ranged:
        slots = f"level.ranged, {slot_of_level(range_kind(table, ranged), f'{row}.{quoted(ranged)}')}"
    stored = "".join(f", {_stored(table, facet, row)}" for facet in table.listing.facets)
    return f"{row}.organization_id, {slots}{stored}, {number}"


def move_counts_sql(table: Table, tests: str, sign: str, source: str = "") -> Iterator[str]:
    """Statements that add the records, as `t`, that meet `tests` to the counts, or subtract them with a minus."""
    if table.listing is None:
        return
    places = ", ".join(str(place) for place in range(1, 4 + len(table.listing.facets)))
    for ranged in _ranges(table):
        levels = levels_sql(ranged) if ranged in table.listing.ranges else ""
        yield (
            f'INSERT INTO "{table.name}_counts" SELECT {_counted_columns(table, "t", f"{sign}COUNT(*)", ranged)}'
            f' FROM {source} "{table.name}" t{levels} WHERE {tests} AND {_is_counted(table, "t", ranged)}'
            f" GROUP BY {places} ON CONFLICT DO UPDATE SET n = n + excluded.n"
        )


def recount_sql(table: Table) -> Iterator[str]:
    """Queries that count the listed records of the organization bound: rows as the counts have them."""
    assert table.listing is not None
    places = ", ".join(str(place) for place in range(1, 4 + len(table.listing.facets)))
    for ranged in _ranges(table):
        levels = levels_sql(ranged) if ranged in table.listing.ranges else ""
        yield (
            f'SELECT {_counted_columns(table, "t", "COUNT(*)", ranged)} FROM "{table.name}" t{levels}'
            f" WHERE t.organization_id = ? AND {_is_counted(table, 't', ranged)} GROUP BY {places}"
        )


def widen_counts(connection: sqlite3.Connection, table: Table) -> None:
    """Add wide slots to counts that only have the narrowest."""
    if table.listing is None:
        return
    name = f"{table.name}_counts"
    facets = "".join(f", c.f{place}" for place in range(len(table.listing.facets)))
    places = ", ".join(str(place) for place in range(1, 4 + len(table.listing.facets)))
    for column in table.listing.ranges:
        connection.execute(f'DELETE FROM "{name}" WHERE ranged LIKE ?', (f"{column}/%",))
        connection.execute(
            f'INSERT INTO "{name}" SELECT c.organization_id, level.ranged,'
            f" {slot_of_level(range_kind(table, column), 'c.slot')}{facets}, SUM(c.n)"
            f' FROM "{name}" c{levels_sql(column, 1)} WHERE c.ranged = ? GROUP BY {places}',
            (column,),
        )


def add_counts_sql(table: Table) -> Iterator[str]:
    """Statements that add the records in a JSON list of ids to the counts."""
    return move_counts_sql(table, "t.id IN (SELECT value FROM json_each(?))", "")


def counted_columns(table: Table) -> list[str]:
    """The columns that counts depend on."""
    assert table.listing is not None
    return list(dict.fromkeys((*_watched(table), *table.listing.ranges, *table.listing.keys, *table.listing.valued)))


def _watched(table: Table) -> list[str]:
    """The columns that facets depend on, and those that decide whether a record is listed."""
    assert table.listing is not None
    columns = shown_columns(table)
    for facet in table.listing.facets:
        columns += [facet] if isinstance(facet, str) else _columns(facet)
    return list(dict.fromkeys(columns))


def shown_columns(table: Table) -> list[str]:
    """The columns that decide whether a record is listed."""
    assert table.listing is not None
    columns = ["deleted_at"] if can_be_deleted(table.kind) else []
    return columns if table.listing.shown is None else [*columns, *_columns(table.listing.shown)]


def _columns(facet: Joined | Condition) -> list[str]:
    match facet:
        case Joined(_, column, _) | Related(_, column, _):
            return [column]
        case Columns(left, _, right):
            return [left, right]
        case AnyOf(several) | AllOf(several):
            return [column for inner in several for column in _columns(inner)]
        case Negate(inner):
            return _columns(inner)
        case Search(columns, _):
            return list(columns)
        case Compare(column) | Within(column) | Null(column) | SameText(column) | Item(column) | NotEmpty(column):
            return [column]
        case Like(column):
            return [column]
        case Has():
            raise TypeError("a condition on records that refer to this one is no facet")


def referred_columns(table: Table) -> dict[tuple[type, str], set[str]]:
    """The counted columns of other records, by their kind and by the column with the record's id."""
    if table.listing is None:
        return {}
    columns: dict[tuple[type, str], set[str]] = {}
    for facet in table.listing.facets:
        match facet:
            case Joined(kind, column, inner):
                columns.setdefault((kind, column), set()).add(inner)
            case Related(kind, column, conditions):
                inner_columns = {name for inner in conditions for name in _columns(inner)}
                columns.setdefault((kind, column), set()).update(inner_columns)
    return columns
