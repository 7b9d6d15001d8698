"""Queries about one customer, repeated for many similar ones.

`NotedSnapshot` records an operation's queries and their results. Repeating the queries with other customers' ids shows
which customers are alike: one with a record that the first lacks is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from usagebill.core.aggregation import AggregateResult
from usagebill.core.filters import FilterIndex
from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Has,
    Negate,
    Order,
    Related,
    Within,
)
from usagebill.storage.event_queries import EventQuery, Group
from usagebill.storage.ports import Observation, Snapshot

# Replacements for each id: by the id, or by column and id if the id may mean something else in another column.
Ids = Mapping[object, Sequence[object]]

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """A query of a snapshot: the records of a kind, the first `limit` of them, or how many (`counted`)."""

    kind: type
    conditions: tuple[Condition, ...]
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    deleted: bool = False
    counted: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the kind in its conditions."""
        return frozenset(getattr(condition, "column", "") for condition in self.conditions)

    def ask(self, tx: Snapshot) -> object:
        """Run the query on this snapshot."""
        if self.counted:
            return tx.count(self.kind, *self.conditions, deleted=self.deleted)
        return tx.find(
            self.kind, *self.conditions, order=self.order, limit=self.limit, offset=self.offset, deleted=self.deleted
        )

    def is_about(self, ids: Ids) -> bool:
        """Whether the query compares with one of the ids."""
        return any(_names(condition, ids) for condition in self.conditions)

    def is_for(self, ids: Ids) -> bool:
        """Whether the query only matches records with one of the ids."""
        return any(
            isinstance(condition, Compare) and condition.operator == "=" and condition.value in ids
            for condition in self.conditions
        )

    def about_all(self, ids: Ids) -> Question:
        """The same query for all replacement ids together, unordered."""
        conditions = tuple(_for_all(condition, ids) for condition in self.conditions)
        return replace(self, conditions=conditions, order=(), limit=None, offset=0, counted=False)


def _values(condition: Condition) -> tuple[object, ...]:
    match condition:
        case Compare(_, _, value):
            return (value,)
        case Within(_, values):
            return values
    return ()


def _replacements(column: str, value: object, ids: Ids) -> Sequence[object] | None:
    """The replacements for a value in this column; None if the value belongs to no particular customer."""
    return ids.get((column, value)) or ids.get(value) if isinstance(value, str) else None


def _names(condition: Condition, ids: Ids) -> bool:
    match condition:
        case AnyOf(conditions) | AllOf(conditions):
            return any(_names(inner, ids) for inner in conditions)
        case Related(_, _, conditions) | Has(_, _, conditions):
            return any(_names(inner, ids) for inner in conditions)
        case Negate(inner):
            return _names(inner, ids)
    column = getattr(condition, "column", "")
    return any(_replacements(column, value, ids) for value in _values(condition))


def _for_all(condition: Condition, ids: Ids) -> Condition:
    match condition:
        case Compare(column, "=", value) if replacements := _replacements(column, value, ids):
            return Within(column, tuple(replacements))
        case Compare(column, "!=", value) if replacements := _replacements(column, value, ids):
            return Negate(Within(column, tuple(replacements)))
        case Within(column, values):
            return Within(
                column, tuple(new for value in values for new in _replacements(column, value, ids) or (value,))
            )
        case AnyOf(conditions):
            return AnyOf(tuple(_for_all(inner, ids) for inner in conditions))
        case AllOf(conditions):
            return AllOf(tuple(_for_all(inner, ids) for inner in conditions))
        case Related(kind, column, conditions):
            return Related(kind, column, tuple(_for_all(inner, ids) for inner in conditions))
        case Has(kind, column, conditions):
            return Has(kind, column, tuple(_for_all(inner, ids) for inner in conditions))
        case Negate(inner):
            return Negate(_for_all(inner, ids))
    return condition


class Notes:
    """Recorded queries and results: records, counts and usage. `other_methods` are all other methods used."""

    def __init__(self) -> None:
        self.answers: dict[Question, Any] = {}
        self.usage: dict[str, tuple[EventQuery, dict[Group, AggregateResult]]] = {}
        self.other_methods: set[str] = set()

    def note(self, question: Question, answer: Any) -> None:
        """Record a query with its result; one that cannot be compared is noted by its kind in `other_methods`."""
        try:
            self.answers[question] = answer
        except TypeError:
            self.other_methods.add(question.kind.__name__)


class NotedSnapshot:
    """A snapshot that records queries and results; otherwise it behaves like the snapshot itself."""

    def __init__(self, snapshot: Snapshot, notes: Notes) -> None:
        self._snapshot = snapshot
        self._notes = notes
        self.jobs: Any = _Noted(snapshot.jobs, notes)
        self.events: Any = _NotedEvents(snapshot.events, notes)

    @property
    def organization_id(self) -> str | None:
        return self._snapshot.organization_id

    def observed(self, question: Callable[[Any], T]) -> tuple[T, Observation]:
        return self._snapshot.observed(lambda seen: question(NotedSnapshot(seen, self._notes)))

    def get(self, kind: type[R], id: str, *, deleted: bool = False) -> R | None:
        record = self._snapshot.get(kind, id, deleted=deleted)
        named = Question(kind, (Compare("id", "=", id),), deleted=deleted)
        self._notes.note(named, [] if record is None else [record])
        return record

    def first(
        self, kind: type[R], *conditions: Condition, order: Sequence[Order] = (), deleted: bool = False
    ) -> R | None:
        return next(iter(self.find(kind, *conditions, order=order, limit=1, deleted=deleted)), None)

    def find(
        self,
        kind: type[R],
        *conditions: Condition,
        order: Sequence[Order] = (),
        limit: int | None = None,
        offset: int = 0,
        deleted: bool = False,
        total: int | None = None,
    ) -> list[R]:
        records = self._snapshot.find(
            kind, *conditions, order=order, limit=limit, offset=offset, deleted=deleted, total=total
        )
        self._notes.note(Question(kind, conditions, tuple(order), limit, offset, deleted), records)
        return records

    def count(self, kind: type[Any], *conditions: Condition, deleted: bool = False) -> int:
        number = self._snapshot.count(kind, *conditions, deleted=deleted)
        self._notes.note(Question(kind, conditions, deleted=deleted, counted=True), number)
        return number

    def __getattr__(self, name: str) -> Any:
        self._notes.other_methods.add(name)
        return getattr(self._snapshot, name)


class _Noted:
    """Part of a snapshot, whose use is noted by method."""

    def __init__(self, noted: object, notes: Notes) -> None:
        self._noted = noted
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        self._notes.other_methods.add(name)
        return getattr(self._noted, name)


class _NotedEvents(_Noted):
    def announce(self, queries: Callable[[], Sequence[tuple[EventQuery, FilterIndex | None]]]) -> None:
        # The counts themselves are noted when they are asked for.
        self._noted.announce(queries)  # type: ignore[attr-defined]

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult]:
        tallies: dict[Group, AggregateResult] = self._noted.tallies(question)  # type: ignore[attr-defined]
        if question.code in self._notes.usage and self._notes.usage[question.code][0] != question:
            self._notes.other_methods.add("tallies")
        self._notes.usage[question.code] = question, tallies
        return tallies
