"""Conditions of queries, as values that every engine translates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compare:
    """`column operator value`, with operator one of = != < <= > >= (never true of an absent value)."""

    column: str
    operator: str
    value: object


@dataclass(frozen=True, slots=True)
class Columns:
    """`left operator right`: a column and the sum of others of the same record (never true if one is absent)."""

    left: str
    operator: str
    right: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """The column's value is one of `values`; nothing is within an empty list."""

    column: str
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Null:
    """The column is absent (`present` False) or present (True)."""

    column: str
    present: bool


@dataclass(frozen=True, slots=True)
class Search:
    """Any of `columns` contains `text`, ignoring case; `%` and `_` are ordinary characters."""

    columns: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Like:
    """The column's text is `pattern`, in which `*` stands for any text; upper and lower case differ."""

    column: str
    pattern: str


@dataclass(frozen=True, slots=True)
class SameText:
    """The column's text is `text`, ignoring case."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """The JSON list in `column` has an item whose members equal `members`; a plain value if `members` is a text."""

    column: str
    members: tuple[tuple[str, object], ...] | str


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """The JSON list in `column` has an item."""

    column: str


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of `conditions` holds; never true if there are none."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of `conditions` hold."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negate:
    """`condition` does not hold."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Related:
    """The record of `kind` whose id is in `column` satisfies `conditions` (deleted ones count too)."""

    kind: type
    column: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Has:
    """At least one live record of `kind`, whose `column` holds this record's id, satisfies `conditions`."""

    kind: type
    column: str
    conditions: tuple[Condition, ...]


Condition = (
    Columns
    | Compare
    | Within
    | Null
    | Search
    | Like
    | SameText
    | Item
    | NotEmpty
    | AnyOf
    | AllOf
    | Negate
    | Related
    | Has
)


@dataclass(frozen=True, slots=True)
class Order:
    """Sort by `column`; absent values come last in either direction."""

    column: str
    descending: bool = False


def eq(column: str, value: object) -> Condition:
    """`column` equals `value`; None matches absent values."""
    return Null(column, False) if value is None else Compare(column, "=", value)


def ne(column: str, value: object) -> Condition:
    """`column` is present and differs from `value`."""
    return Compare(column, "!=", value)


def less(column: str, value: object) -> Condition:
    """`column` is less than `value`."""
    return Compare(column, "<", value)


def less_than_column(column: str, *others: str) -> Condition:
    """`column` is less than the sum of `others` of the same record."""
    return Columns(column, "<", others)


def more(column: str, value: object) -> Condition:
    """`column` is more than `value`."""
    return Compare(column, ">", value)


def at_least(column: str, value: object) -> Condition:
    """`column` is `value` or more."""
    return Compare(column, ">=", value)


def at_most(column: str, value: object) -> Condition:
    """`column` is `value` or less."""
    return Compare(column, "<=", value)


def within(column: str, values: Iterable[object]) -> Condition:
    """`column` is one of `values`."""
    return Within(column, tuple(values))


def missing(column: str) -> Condition:
    """`column` is absent."""
    return Null(column, False)


def present(column: str) -> Condition:
    """`column` is present."""
    return Null(column, True)


def contains(columns: Iterable[str], text: str) -> Condition:
    """One of the columns contains `text`, ignoring case."""
    return Search(tuple(columns), text)


def like(column: str, pattern: str) -> Condition:
    """`column` is `pattern`, in which `*` stands for any text."""
    return Like(column, pattern) if "*" in pattern else eq(column, pattern)


def same_text(column: str, text: str) -> Condition:
    """`column` is `text`, ignoring case."""
    return SameText(column, text)


def has_item(column: str, members: str | None = None, **equal: object) -> Condition:
    """The list in `column` has the item."""
    return Item(column, members if members is not None else tuple(equal.items()))


def not_empty(column: str) -> Condition:
    """The list in `column` is not empty."""
    return NotEmpty(column)


def any_of(*conditions: Condition) -> Condition:
    """At least one of `conditions` holds."""
    return AnyOf(conditions)


def all_of(*conditions: Condition) -> Condition:
    """All of `conditions` hold."""
    return AllOf(conditions)


def negate(condition: Condition) -> Condition:
    """`condition` does not hold."""
    return Negate(condition)


def related(kind: type, column: str, *conditions: Condition) -> Condition:
    """The record whose id is in `column` satisfies `conditions`, deleted or not."""
    return Related(kind, column, conditions)


def has(kind: type, column: str, *conditions: Condition) -> Condition:
    """A live record of `kind`, whose `column` holds this record's id, satisfies `conditions`."""
    return Has(kind, column, conditions)


def asc(column: str) -> Order:
    """Smallest first."""
    return Order(column)


def desc(column: str) -> Order:
    """Largest first."""
    return Order(column, descending=True)
