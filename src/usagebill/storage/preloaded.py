"""Records that were read together for a batch, from which a transaction answers later questions about each of them.

`Preloaded` knows every record whose column has one of certain values, also those that the transaction writes itself. A
question with such a value is answered here; whatever else is asked goes to the database, so a set that is missing costs
a statement and never an answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from enum import Enum
from typing import Any

from usagebill.core.invoices.records import Invoice
from usagebill.storage.conditions import Compare, Condition, Null, Order, Within

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Engines compare columns of these types as Python does.
_COMPARABLE = (str, int, datetime, date, Enum)
# Records that name a new one are new too.
_NAMING: dict[type, str] = {Invoice: "invoice_id"}


class _Uncertain(Exception):
    """Only an engine knows how it compares these values."""


class _Set:
    """All records that meet `conditions` and whose `column` has one of the values in `rows`."""

    def __init__(self, column: str, conditions: Sequence[Condition]) -> None:
        self.column = column
        self.conditions = conditions
        self.rows: dict[object, dict[str, Any]] = {}
        self._values: dict[str, object] = {}

    def put(self, record: Any) -> None:
        """Know the record as it is now."""
        self.drop(record.id)
        value = getattr(record, self.column)
        if value in self.rows and all(_holds(condition, record) for condition in self.conditions):
            self.rows[value][record.id] = record
            self._values[record.id] = value

    def drop(self, id: str) -> None:
        """Forget the record with this id."""
        if id in self._values:
            del self.rows[self._values.pop(id)][id]

    def records(self, conditions: Sequence[Condition]) -> Iterable[Any] | None:
        """All records that can meet the conditions; None if there may be others."""
        if any(condition not in conditions for condition in self.conditions):
            return None
        for condition in conditions:
            values = _values_of(condition, self.column)
            if values is not None and all(value in self.rows for value in values):
                return [record for value in dict.fromkeys(values) for record in self.rows[value].values()]
        return None


class Preloaded:
    """The sets that a transaction has read of an organization, by kind of record."""

    def __init__(self) -> None:
        self._sets: dict[type, list[_Set]] = {}

    def clear(self) -> None:
        """Forget everything: the database may have changed otherwise than by the transaction's known writes."""
        self._sets.clear()

    def add(
        self,
        kind: type,
        column: str,
        values: Sequence[object],
        conditions: Sequence[Condition],
        records: Sequence[object],
    ) -> None:
        """Know all records of the kind that meet the conditions and whose column has one of the values."""
        added = _Set(column, conditions)
        added.rows = {value: {} for value in values}
        for record in records:
            added.put(record)
        self._sets.setdefault(kind, []).append(added)

    def wrote(self, record: Any, *, is_new: bool = False) -> None:
        """The transaction has written the record."""
        kind: Any = type(record)
        for known in self._sets.get(kind, ()):
            known.put(record)
        if is_new and kind in _NAMING:
            for sets in self._sets.values():
                for known in sets:
                    if known.column == _NAMING[kind]:
                        known.rows.setdefault(record.id, {})

    def deleted(self, record: Any) -> None:
        """The transaction has deleted the record."""
        for known in self._sets.get(type(record), ()):
            known.drop(record.id)

    def find(
        self,
        kind: type,
        conditions: Sequence[Condition],
        order: Sequence[Order] = (),
        limit: int | None = None,
        offset: int = 0,
        *,
        deleted: bool = False,
    ) -> list[Any] | None:
        """What the database would answer; None if that is not known here."""
        for known in self._sets.get(kind, ()):
            records = known.records(conditions)
            if records is None:
                continue
            try:
                met = [
                    record
                    for record in records
                    if (deleted or getattr(record, "deleted_at", None) is None)
                    and all(_holds(condition, record) for condition in conditions)
                ]
                met = _sorted(met, order)
            except _Uncertain:
                return None
            return met[offset:] if limit is None else met[offset : offset + limit]
        return None


def _values_of(condition: Condition, column: str) -> Sequence[object] | None:
    """The values to which the condition limits the column."""
    match condition:
        case Compare(name, "=", value) if name == column:
            return (value,)
        case Within(name, values) if name == column:
            return tuple(values)
    return None


def _holds(condition: Condition, record: object) -> bool:
    """Whether the record meets the condition, as an engine would decide."""
    match condition:
        case Compare(column, comparison, value):
            actual = getattr(record, column)
            if actual is None or value is None:
                return False
            _check_comparable(actual, value)
            return _OPERATORS[comparison](actual, value)
        case Within(column, values):
            actual = getattr(record, column)
            if actual is None:
                return False
            _check_comparable(actual, *values)
            return actual in values
        case Null(column, present):
            return (getattr(record, column) is not None) is present
    raise _Uncertain


def _check_comparable(*values: object) -> None:
    if not all(isinstance(value, _COMPARABLE) for value in values):
        raise _Uncertain


def _sorted(records: list[Any], order: Sequence[Order]) -> list[Any]:
    """In this order and then by id, absent values last."""
    if len(records) < 2:
        return records
    records = sorted(records, key=operator.attrgetter("id"))
    for item in reversed(order):
        present = [record for record in records if getattr(record, item.column) is not None]
        absent = [record for record in records if getattr(record, item.column) is None]
        _check_comparable(*(getattr(record, item.column) for record in present))
        # A stable sort keeps the order of equals either way.
        present.sort(key=operator.attrgetter(item.column), reverse=item.descending)
        records = [*present, *absent]
    return records
