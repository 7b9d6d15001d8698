"""Kept counts of lists, so that `total_count` is not counted record by record.

`list_counts` has a number for each combination of an organization's facets that occurs in a list (`storage.listings`).
Triggers update it with the records, however these are written: the organization's only writer holds its lock, so nobody
waits for such a row. Facets of other records, ranges, keys and searches are counted in the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from usagebill.storage.listings import CountFault, Joined, facets_name
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.queries import condition_sql
from usagebill.storage.postgresql.rows import rows_of, sql_value
from usagebill.storage.record_sql import can_be_deleted, implies, quoted
from usagebill.storage.tables import TABLES, Table, table_of

__all__ = ["COUNT_TABLE", "PostgresListCounts", "count_statements", "counted_sql", "recount"]

_C: Final = 'text COLLATE "C"'
COUNT_TABLE: Final = f"""
CREATE TABLE IF NOT EXISTS list_counts (
    organization_id {_C} NOT NULL, kind {_C} NOT NULL, facets text[] COLLATE "C" NOT NULL, n bigint NOT NULL,
    PRIMARY KEY (organization_id, kind, facets)) WITH (fillfactor = 50)
"""
# Index entries have a maximum size: facets are truncated to this length, and longer values are searched in the table.
_LONGEST: Final = 200
_ADD: Final = "ON CONFLICT (organization_id, kind, facets) DO UPDATE SET n = list_counts.n + excluded.n"


def _facets(table: Table) -> tuple[str | Condition, ...]:
    """The facets of the record's own columns."""
    facets = () if table.listing is None else table.listing.facets
    return tuple(facet for facet in facets if not isinstance(facet, (Joined, Related)))


def _literal(value: object) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _fixed_sql(kind: type, condition: Condition, row: str) -> str:
    """A condition on a `row` with its values written out."""
    values: list[Any] = []
    first, *parts = condition_sql(kind, condition, row, values).split("?")
    return first + "".join(chain.from_iterable(zip(map(_literal, values), parts, strict=True)))


def _shown_sql(table: Table, row: str) -> str:
    """Whether lists show the record of a `row`."""
    assert table.listing is not None
    tests = [f"{row}.deleted_at IS NULL"] if can_be_deleted(table.kind) else []
    if table.listing.shown is not None:
        tests.append(_fixed_sql(table.kind, table.listing.shown, row))
    return " AND ".join(tests) or "TRUE"


def _facets_sql(table: Table, row: str) -> str:
    """The facets of a `row` as they are kept."""
    parts = [
        f"left({row}.{quoted(facet)}::text, {_LONGEST})"
        if isinstance(facet, str)
        else f"CASE WHEN {_fixed_sql(table.kind, facet, row)} THEN '1' ELSE '0' END"
        for facet in _facets(table)
    ]
    return f"ARRAY[{', '.join(parts)}]::text[]"


def _columns(condition: str | Condition) -> Iterator[str]:
    """The columns that decide a facet."""
    match condition:
        case str():
            yield condition
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
    moved = " UNION ALL ".join(
        f"SELECT {row}.organization_id AS organization_id, {_facets_sql(table, row)} AS facets, {number} AS n"
        f" WHERE {_shown_sql(table, row)}"
        for row, number in (("OLD", -1), ("NEW", 1))
    )
    yield (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$"
        f" BEGIN IF TG_OP = 'TRUNCATE' THEN DELETE FROM list_counts WHERE kind = '{table.name}';"
        " ELSIF TG_OP = 'UPDATE' THEN INSERT INTO list_counts (organization_id, kind, facets, n)"
        f" SELECT organization_id, '{table.name}', facets, SUM(n) FROM ({moved}) r GROUP BY 1, 3 HAVING SUM(n) <> 0"
        f" {_ADD}; ELSE {_count_sql(table, 'changed', 'CASE TG_OP WHEN $q$INSERT$q$ THEN 1 ELSE -1 END * ')} {_ADD};"
        " END IF; RETURN NULL; END $$"
    )
    watched = ["organization_id", *(["deleted_at"] if can_be_deleted(table.kind) else [])]
    for condition in (*_facets(table), *([] if table.listing.shown is None else [table.listing.shown])):
        watched += _columns(condition)
    differs = " OR ".join(
        f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in map(quoted, dict.fromkeys(watched))
    )
    for suffix, fires in (
        ("inserted", f"AFTER INSERT ON {name} REFERENCING NEW TABLE AS changed FOR EACH STATEMENT"),
        ("deleted", f"AFTER DELETE ON {name} REFERENCING OLD TABLE AS changed FOR EACH STATEMENT"),
        ("updated", f"AFTER UPDATE ON {name} FOR EACH ROW WHEN ({differs})"),
        ("truncated", f"AFTER TRUNCATE ON {name} FOR EACH STATEMENT"),
    ):
        yield f'CREATE OR REPLACE TRIGGER "count_{suffix}" {fires} EXECUTE FUNCTION {function}()'


def _count_sql(table: Table, source: str, sign: str = "") -> str:
    """The INSERT that adds records of a table to the counts, without its ON CONFLICT clause."""
    return (
        "INSERT INTO list_counts (organization_id, kind, facets, n)"
        f" SELECT r.organization_id, '{table.name}', {_facets_sql(table, 'r')}, {sign}COUNT(*)"
        f" FROM {source} r WHERE {_shown_sql(table, 'r')} GROUP BY 1, 3"
    )


def count_statements() -> list[str]:
    """The statements that create the counts of all lists."""
    listed = [table for table in TABLES if table.listing is not None]
    return [statement for table in listed for statement in _statements_of(table)]


def recount(connection: Connection) -> None:
    """Count all records again."""
    connection.execute("DELETE FROM list_counts")
    for table in TABLES:
        if table.listing is not None:
            connection.execute(_count_sql(table, quoted(table.name)))


class PostgresListCounts:
    """See `storage.ports.KeptListCounts`."""

    def __init__(self, connection: Connection, organization_id: str | None) -> None:
        self._connection = connection
        self._organization_id = organization_id

    def faults(self, *, events: bool = True) -> Iterator[CountFault]:
        # Events are counted by each list: no number of them is kept.
        for table in TABLES:
            if table.listing is None:
                continue
            rows = self._connection.execute(
                "SELECT facets, SUM(kept)::bigint, SUM(counted)::bigint FROM ("
                "SELECT facets, n AS kept, 0 AS counted FROM list_counts WHERE organization_id = ? AND kind = ?"
                f' UNION ALL SELECT {_facets_sql(table, "r")} COLLATE "C", 0, COUNT(*) FROM {quoted(table.name)} r'
                f" WHERE r.organization_id = ? AND {_shown_sql(table, 'r')} GROUP BY 1) c"
                " GROUP BY facets HAVING SUM(kept) <> SUM(counted) ORDER BY facets",
                (self._organization_id, table.name, self._organization_id),
            )
            for facets, kept, counted in rows:
                yield CountFault(table.name, facets_name(_facets(table), facets) or "all", kept, counted)

    def recount(self) -> list[str]:
        differing = list(dict.fromkeys(fault.listed for fault in self.faults()))
        for table in TABLES:
            if table.name in differing:
                self._connection.execute(
                    "DELETE FROM list_counts WHERE organization_id = ? AND kind = ?",
                    (self._organization_id, table.name),
                )
                of_organization = f"(SELECT * FROM {quoted(table.name)} WHERE organization_id = ?)"
                self._connection.execute(_count_sql(table, of_organization), (self._organization_id,))
        return differing


# Querying


def counted_sql(
    kind: type, conditions: Sequence[Condition], organization_id: str | None
) -> tuple[str, list[Any]] | None:
    """The query that counts the records that meet the conditions, and its values; None if facets do not decide them."""
    table = table_of(kind)
    listing = table.listing
    if listing is None or organization_id is None or not implies(conditions, listing.shown):
        return None
    values: list[Any] = [organization_id, table.name]
    tests = ["organization_id = ? AND kind = ?"]
    for condition in conditions:
        if condition != listing.shown or isinstance(condition, Within):
            test = _test(table, condition, values)
            if test is None:
                return None
            tests.append(test)
    return f"SELECT coalesce(SUM(n), 0) FROM list_counts WHERE {' AND '.join(tests)}", values


def _test(table: Table, condition: Condition, values: list[Any]) -> str | None:
    """The condition in terms of facets; None if they do not decide it."""
    facets = _facets(table)
    if condition in facets:
        return f"facets[{facets.index(condition) + 1}] = '1'"
    match condition:
        case Null(column, present) if Null(column, not present) in facets:
            return f"facets[{facets.index(Null(column, not present)) + 1}] = '0'"
        case Compare(column, operator, value) if column in facets:
            return _compared(table, column, facets.index(column) + 1, operator, sql_value(value), values)
        case Within(column, options) if column in facets:
            texts = [str(sql_value(option)) for option in options if option is not None]
            if any(len(text) >= _LONGEST for text in texts):
                return None
            values.append(texts)
            return f"facets[{facets.index(column) + 1}] = ANY(?::text[])"
        case Null(column, present) if column in facets:
            return f"facets[{facets.index(column) + 1}] IS {'NOT ' if present else ''}NULL"
        case AnyOf(conditions) | AllOf(conditions):
            tests = [_test(table, inner, values) for inner in conditions]
            if not tests or any(test is None for test in tests):
                return None
            return "(" + (" OR " if isinstance(condition, AnyOf) else " AND ").join(map(str, tests)) + ")"
        case Negate(inner):
            test = _test(table, inner, values)
            return None if test is None else f"({test}) IS NOT TRUE"
    return None


def _compared(table: Table, column: str, place: int, operator: str, value: Any, values: list[Any]) -> str | None:
    is_text = next(item.sql_type is str for item in rows_of(table.kind).codec.columns if item.name == column)
    if value is None or operator not in {"=", "!=", "<", "<=", ">", ">="} or len(str(value)) >= _LONGEST:
        return None
    values.append(str(value) if is_text else value)
    return f"facets[{place}] {operator} ?" if is_text else f"facets[{place}]::numeric {operator} ?"
