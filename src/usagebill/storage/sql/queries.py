"""Conditions and orders of records as SQL.

A condition on another record can be tested in two ways: `gathered`, by the set of matching ids, which is fast if few
records match; or record by record while a list is walked in its order, which is fast if many do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

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
    Order,
    Related,
    SameText,
    Search,
    Within,
)
from usagebill.storage.record_sql import (
    alias_of,
    columns_sql,
    comparison_sql,
    has_sql,
    is_nullable,
    null_sql,
    quoted,
    scope_sql,
)


class RecordSql(ABC):
    """How an engine's SQL asks for records. Bound values are appended to `values`, in the order of their marks.

    `gathers_inside`: negations, and tests of records that name this one, may gather too. `gathers_groups`: groups find
    what their records refer to all at once, not record by record. `exact_sum` is that of a column of cents or decimals.
    """

    true: ClassVar[str]
    false: ClassVar[str]
    gathers_inside: ClassVar[bool]
    gathers_groups: ClassVar[bool]
    exact_sum: ClassVar[str]

    # What engines do in their own way; `name` is that of a column, with its table.

    @abstractmethod
    def value(self, value: object) -> Any:
        """A value as it is compared with a column."""

    @abstractmethod
    def within(self, name: str, options: Sequence[object], values: list[Any]) -> str:
        """Whether the column has one of the values, of which there is at least one."""

    @abstractmethod
    def contains(self, kind: type, table: str, column: str, text: str, values: list[Any]) -> str:
        """Whether the column contains the text, in any case."""

    @abstractmethod
    def same_text(self, kind: type, table: str, column: str, text: str, values: list[Any]) -> str:
        """Whether the column is the text, in any case."""

    @abstractmethod
    def like(self, name: str, pattern: str, values: list[Any]) -> str:
        """Whether the column matches the pattern, in which `*` stands for any text."""

    @abstractmethod
    def item(self, name: str, members: str | Sequence[tuple[str, object]], values: list[Any]) -> str:
        """Whether a list has this text, or an object with these members."""

    @abstractmethod
    def not_empty(self, name: str) -> str:
        """Whether a list has items."""

    @abstractmethod
    def negated(self, test: str) -> str:
        """Whether the test is false or unknown."""

    @abstractmethod
    def related(self, table: str, condition: Related, values: list[Any], gathered: bool) -> str:
        """Whether the record whose id is in a column meets the conditions."""

    @abstractmethod
    def sort_keys(self, name: str, *, descending: bool, nullable: bool) -> list[str]:
        """The sort keys of a column, whose absent values come last in either direction."""

    # The rest

    def condition(self, kind: type, condition: Condition, table: str, values: list[Any], gathered: bool) -> str:
        """The condition on the record of `kind` in `table`."""
        match condition:
            case Compare(column, operator, value):
                values.append(self.value(value))
                return comparison_sql(table, column, operator)
            case Columns():
                return columns_sql(table, condition)
            case Within(column, options):
                return self.within(f"{table}.{quoted(column)}", options, values) if options else self.false
            case Null():
                return null_sql(table, condition)
            case Search(columns, text):
                return f"({' OR '.join(self.contains(kind, table, column, text, values) for column in columns)})"
            case Like(column, pattern):
                return self.like(f"{table}.{quoted(column)}", pattern, values)
            case SameText(column, text):
                return self.same_text(kind, table, column, text, values)
            case Item(column, members):
                return self.item(f"{table}.{quoted(column)}", members, values)
            case NotEmpty(column):
                return self.not_empty(f"{table}.{quoted(column)}")
            case AnyOf(conditions):
                tests = [self.condition(kind, part, table, values, gathered) for part in conditions]
                return f"({' OR '.join(tests)})" if tests else self.false
            case AllOf(conditions):
                return self.every(kind, conditions, table, values, gathered)
            case Negate(inner):
                return self.negated(self.condition(kind, inner, table, values, gathered and self.gathers_inside))
            case Related():
                return self.related(table, condition, values, gathered)
            case Has(other, _, conditions):
                alias, gathered = alias_of(table, other), gathered and self.gathers_inside
                return has_sql(table, condition, self.every(other, conditions, alias, values, gathered))

    def every(self, kind: type, conditions: Sequence[Condition], table: str, values: list[Any], gathered: bool) -> str:
        """All of the conditions."""
        tests = [self.condition(kind, part, table, values, gathered) for part in conditions]
        return f"({' AND '.join(tests)})" if tests else self.true

    def literal(self, kind: type, condition: Condition) -> str:
        """The condition on `t` with its values written out, for a schema: texts, whole numbers, and lists of these."""
        values: list[Any] = []
        first, *parts = self.condition(kind, condition, "t", values, self.gathers_inside).split("?")
        return first + "".join(f"{literal(value)}{part}" for value, part in zip(values, parts, strict=True))

    def where(
        self,
        kind: type,
        conditions: Sequence[Condition],
        organization_id: str | None,
        deleted: bool,
        *,
        gathered: bool = True,
    ) -> tuple[str, list[Any]]:
        """The WHERE clause for records of `kind` (its table aliased `t`), and the values it binds."""
        tests, values = scope_sql(kind, organization_id, deleted)
        for condition in conditions:
            # Nearly all conditions are of this kind.
            if type(condition) is Compare:
                values.append(self.value(condition.value))
                tests.append(comparison_sql("t", condition.column, condition.operator))
            else:
                tests.append(self.condition(kind, condition, "t", values, gathered))
        return (" WHERE " + " AND ".join(tests) if tests else ""), values

    def order_terms(self, kind: type, order: Sequence[Order], prefix: str = "") -> list[str]:
        """The sort keys. The id comes last, which makes the order total."""
        terms: list[str] = []
        for item in order:
            nullable = is_nullable(kind, item.column)
            terms += self.sort_keys(prefix + quoted(item.column), descending=item.descending, nullable=nullable)
        if not any(item.column == "id" for item in order):
            terms.append(f'{prefix}"id"')
        return terms

    def order(self, kind: type, order: Sequence[Order]) -> str:
        """The ORDER BY clause of records of `kind`, whose table is aliased `t`."""
        return _order(self, kind, tuple(order))


@lru_cache(maxsize=1024)
def _order(sql: RecordSql, kind: type, order: tuple[Order, ...]) -> str:
    return " ORDER BY " + ", ".join(sql.order_terms(kind, order, "t."))


def literal(value: object) -> str:
    """A value written out in SQL."""
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(literal, value))}]"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
