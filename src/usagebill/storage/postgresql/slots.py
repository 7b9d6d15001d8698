"""Slots: the parts of a range by which records of lists are counted: days, or amounts with the same first two digits.

A slot is a text that sorts like the values in it. Slots that a bound cuts in two are counted in the table itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from usagebill.storage.conditions import Compare
from usagebill.storage.postgresql.rows import sql_value
from usagebill.storage.record_sql import quoted
from usagebill.storage.tables import Table

BOUNDS: Final = frozenset({"<", "<=", ">", ">="})
_DAY: Final = 10
_DIGITS: Final = 2
_MIDNIGHT: Final = "T00:00:00.000000+00:00"
# Sorts after the digits and the T of an instant's text, and before the next day.
_AFTER_DAY: Final = "U"
# Slots of amounts below zero, which all share one, begin with nothing; other slots begin with digits.
_NEGATIVE: Final = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a range: the first slot that is wholly within (None: any) and the first beyond it (None: none), and
    conditions for each slot that a bound cuts.
    """

    first: str | None
    end: str | None
    cuts: tuple[tuple[Compare, ...], ...]


def range_kind(table: Table, column: str) -> str:
    """What the column of a range holds: "cents", an "instant" or a "date"."""
    if column.endswith("_cents"):
        return "cents"
    hint = next(str(item.type) for item in fields(table.kind) if item.name == column)
    return "instant" if "datetime" in hint else "date"


def slot_sql(table: Table, column: str, row: str) -> str:
    """The slot of a column of a `row`; NULL without a value."""
    name = f"{row}.{quoted(column)}"
    if range_kind(table, column) == "cents":
        digits = f"trunc({name})::text"
        return (
            f"CASE WHEN {name} < 0 THEN '' ELSE lpad(length({digits})::text, 2, '0') || left({digits}, {_DIGITS}) END"
        )
    return f"left({name}, {_DAY})"


@dataclass(frozen=True, slots=True)
class _Slot:
    """The slot of a bound: its name, the values from `first` (None: no lowest) until `end` (not included)."""

    name: str
    first: Any
    end: Any

    def conditions(self, column: str) -> tuple[Compare, ...]:
        """The conditions for a value to be in the slot."""
        lowest = () if self.first is None else (Compare(column, ">=", self.first),)
        return (*lowest, Compare(column, "<", self.end))


def _slot_of(kind: str, value: Any) -> _Slot:
    if kind != "cents":
        day = value[:_DAY]
        return _Slot(day, day, day + _AFTER_DAY)
    cents = int(value)
    if cents < 0:
        return _Slot(_NEGATIVE, None, 0)
    digits = str(cents)
    step = 10 ** max(0, len(digits) - _DIGITS)
    first = cents // step * step
    return _Slot(f"{len(digits):02}{digits[:_DIGITS]}", first, first + step)


def _after(slot: _Slot) -> str:
    """Sorts after the slot and before the next one: no slot continues another's name."""
    return slot.name + " "


def span_of(table: Table, column: str, bounds: Sequence[Compare]) -> Span:
    """The span within these bounds of a column (at least one)."""
    kind = range_kind(table, column)
    firsts: list[str] = []
    ends: list[str] = []
    cuts: dict[str, tuple[Compare, ...]] = {}
    for bound in bounds:
        value = sql_value(bound.value)
        slot = _slot_of(kind, value)
        # A slot of dates is one day, so none is cut.
        is_first = kind == "date" or value == slot.first or (kind == "instant" and value[_DAY:] in ("", _MIDNIGHT))
        match bound.operator:
            case ">=" if is_first:
                firsts.append(slot.name)
            case "<" if is_first:
                ends.append(slot.name)
            case ">" if kind == "date":
                firsts.append(_after(slot))
            case "<=" if kind == "date":
                ends.append(_after(slot))
            case _:
                cuts[slot.name] = slot.conditions(column)
                (firsts if bound.operator in (">", ">=") else ends).append(
                    _after(slot) if bound.operator in (">", ">=") else slot.name
                )
    return Span(max(firsts, default=None), min(ends, default=None), tuple(cuts.values()))
