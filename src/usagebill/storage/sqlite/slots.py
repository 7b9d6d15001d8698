"""Slots: the parts of a range by which records are counted: days, or amounts with the same first three digits.

Wider slots are counted as well: months and years, amounts of the same first two digits and of the same first. So a span
is a few wide slots, some narrower ones, and the slots that its bounds cut in two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Any

from usagebill.storage.conditions import Compare, Within
from usagebill.storage.sqlite.rows import sql_value
from usagebill.storage.tables import Table

_DIGITS = 3
# The largest integer of a column.
_LONGEST = 19
# The largest amount that still fits once rounded up.
_ROUND = 10**18
_DAY = 10
_MONTH = 7
_YEAR = 4
_TEN_DAYS = 9
# The number of leading digits, or characters of the date, that values of a slot share, from narrow to wide.
_CENTS_LEVELS = (_DIGITS, 2, 1)
# The last one is for sets only (`set_levels`).
_DATE_LEVELS = (_DAY, _MONTH, _YEAR, _TEN_DAYS)
WIDEST = len(_CENTS_LEVELS) - 1


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a range: tests of its whole slots and, for each slot that a bound cuts, tests of the column."""

    column: str
    slots: tuple[tuple[str, object], ...]
    cuts: tuple[tuple[tuple[str, object], ...], ...]


def range_kind(table: Table, column: str) -> str:
    if column.endswith("_cents"):
        return "cents"
    hint = next(str(item.type) for item in fields(table.kind) if item.name == column)
    return "instant" if "datetime" in hint else "date"


def slot_sql(kind: str, name: str, level: int) -> str:
    """The slot of the level (0: the narrowest) that holds a value, as SQL."""
    if kind != "cents":
        return name if kind == "date" and not level else f"substr({name}, 1, {_DATE_LEVELS[level]})"
    digits = _CENTS_LEVELS[level]
    most = _LONGEST - digits
    steps = " ".join(
        f"WHEN {name} < {step * 10**digits} THEN {name} / {step} * {step}"
        for step in (10**zeros for zeros in range(1, most))
    )
    return (
        f"CASE WHEN typeof({name}) != 'integer' OR {name} < {10**digits} THEN {name} {steps}"
        f" ELSE {name} / {10**most} * {10**most} END"
    )


def _cents_slot(cents: int, digits: int = _DIGITS) -> int:
    """The first amount of the slot that holds `cents`."""
    step = _step_of(cents, digits)
    return cents // step * step


def _step_of(cents: int, digits: int = _DIGITS) -> int:
    """The number of amounts in the slot of `cents`."""
    step: int = 10 ** max(0, len(str(max(cents, 0))) - digits)
    return step


def set_levels(kind: str) -> tuple[int, ...]:
    """The levels of slots with sets of records, from wide to narrow: those counted except the narrowest, and for dates
    the days of a month with the same first digit.
    """
    return (2, 1) if kind == "cents" else (2, 1, 3)


def counted_under(column: str, level: int) -> str:
    """The key under which the slots of a level are counted."""
    return f"{column}/{level}" if level else column


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound of a range in two parts: the slots within it, and the slot that it cuts (None: none), as SQL tests of
    `slot` and of the column, each with one or two values.
    """

    slots: tuple[str, object]
    cut: tuple[tuple[str, object], ...] = ()
    # The slot that is cut.
    at: object = None


def _lower(kind: str, value: Any) -> _Bound:
    stored: Any = sql_value(value)
    if kind == "date" or (kind == "cents" and not isinstance(stored, int)):
        return _Bound(("slot >= ?", stored))
    if kind == "cents":
        slot = _cents_slot(stored)
        if slot == stored:
            return _Bound(("slot >= ?", stored))
        end = sql_value(slot + _step_of(stored))
        # Longer amounts are texts, with their own slots: numbers sort before any text.
        end = end if isinstance(end, int) else ""
        return _Bound(("slot > ?", slot), ((">= ?", stored), ("< ?", end)), slot)
    day = stored[:_DAY]
    if stored == _midnight(day):
        return _Bound(("slot >= ?", day))
    return _Bound(("slot > ?", day), ((">= ?", stored), ("< ?", _next_day(day))), day)


def _upper(kind: str, value: Any) -> _Bound:
    stored: Any = sql_value(value)
    if kind == "date" or (kind == "cents" and not isinstance(stored, int)):
        return _Bound(("slot <= ?", stored))
    if kind == "cents":
        slot = _cents_slot(stored)
        if _cents_slot(stored + 1) != slot:
            return _Bound(("slot <= ?", stored))
        return _Bound(("slot < ?", slot), ((">= ?", slot), ("<= ?", stored)), slot)
    day = stored[:_DAY]
    return _Bound(("slot < ?", day), ((">= ?", _midnight(day)), ("<= ?", stored)), day)


def _midnight(day: str) -> str:
    return f"{day}T00:00:00.000000+00:00"


def _next_day(day: str) -> str:
    # The last possible day includes everything later.
    return "~" if day == date.max.isoformat() else _midnight((date.fromisoformat(day) + timedelta(days=1)).isoformat())


def span_parts(table: Table, span: Span) -> list[tuple[str, list[tuple[str, object]]]]:
    """The slots of a span, as wide as possible: the key they are counted under, and tests."""
    assert table.listing is not None
    narrow = [(span.column, list(span.slots))]
    if span.column in table.listing.keys:
        return narrow
    kind = range_kind(table, span.column)
    begin: Any = None
    end: Any = None
    for test, value in span.slots:
        if not _has_levels(kind, value):
            return narrow
        match test:
            case "slot >= ?":
                begin = value
            case "slot > ?":
                begin = _after(kind, value)
            case "slot < ?":
                end = value
            case "slot <= ?":
                end = value + 1 if isinstance(value, int) else _after(kind, value)
            case _:
                raise ValueError(f"not a test of slots: {test!r}")
    parts = []
    for level, first, last in _levels(kind, begin, end, WIDEST):
        tests: list[tuple[str, object]] = []
        if first is not None:
            tests.append(("slot >= ?", _cut_to(kind, first, level)))
        if last is not None:
            tests.append(("slot < ?", _cut_to(kind, last, level)))
        parts.append((counted_under(span.column, level), tests))
    return parts


def _has_levels(kind: str, value: object) -> bool:
    if kind == "cents":
        return isinstance(value, int) and abs(value) < _ROUND
    # No year follows the last one, and a bound that nothing satisfies is empty.
    return isinstance(value, str) and len(value) == _DAY and value[:_YEAR] != str(date.max.year)


def _after(kind: str, slot: Any) -> Any:
    """The next of the narrowest slots."""
    if kind == "cents":
        return slot + _step_of(slot)
    return (date.fromisoformat(slot) + timedelta(days=1)).isoformat()


def _levels(kind: str, begin: Any, end: Any, level: int) -> Iterator[tuple[int, Any, Any]]:
    """Slots from `begin` up to, but not including, `end` (None: no bound), by level."""
    if begin is not None and end is not None and begin >= end:
        return
    first = None if begin is None else _opens(kind, begin, level)
    last = None if end is None else _opens(kind, end, level)
    if begin is not None and first != begin:
        first = _next_opens(kind, first, level)
    if first is not None and last is not None and first >= last:
        if level:
            yield from _levels(kind, begin, end, level - 1)
        return
    yield level, first, last
    if begin is not None:
        yield from _levels(kind, begin, first, level - 1)
    if end is not None:
        yield from _levels(kind, last, end, level - 1)


def _opens(kind: str, value: Any, level: int) -> Any:
    """The first value in the slot of `value`."""
    if kind == "cents":
        return _cents_slot(value, _CENTS_LEVELS[level])
    opens = value[: _DATE_LEVELS[level]] + "0000-01-01"[_DATE_LEVELS[level] :]
    # The first ten days have no day 0, and the others begin with it.
    return f"{opens[:-1]}0" if _DATE_LEVELS[level] == _TEN_DAYS and opens[-2] != "0" else opens


def _next_opens(kind: str, opens: Any, level: int) -> Any:
    """The first value of the slot after the one that begins with `opens`."""
    if kind == "cents":
        return opens + _step_of(opens, _CENTS_LEVELS[level])
    days = {_DAY: 1, _MONTH: 31, _YEAR: 366}[_DATE_LEVELS[level]]
    return _opens(kind, (date.fromisoformat(opens) + timedelta(days=days)).isoformat(), level)


def _cut_to(kind: str, value: Any, level: int) -> object:
    return value if kind == "cents" else value[: _DATE_LEVELS[level]]


def slot_bounds(table: Table, column: str, lowest: object, highest: object) -> tuple[tuple[str, object], ...]:
    """Tests of the column that hold from the first to the last of these slots, of days."""
    if range_kind(table, column) == "date":
        return (">= ?", lowest), ("<= ?", highest)
    return (">= ?", _midnight(str(lowest))), ("< ?", _next_day(str(highest)))


def wide_slot(kind: str, slot: Any, level: int) -> object:
    """The slot of the level that holds a narrower one."""
    if kind == "cents":
        return _cents_slot(slot, _CENTS_LEVELS[level]) if isinstance(slot, int) else slot
    return slot[: _DATE_LEVELS[level]]


def slot_within(kind: str, slot: Any, level: int, bound: Compare) -> bool | None:
    """Whether a bound holds for all values of a slot of the level (True), for none (False), or for some (None)."""
    stored: Any = sql_value(bound.value)
    lower = bound.operator == ">="
    if kind == "cents":
        if not isinstance(slot, int) or not isinstance(stored, int):
            return None
        last = slot + _step_of(slot, _CENTS_LEVELS[level]) - 1
        whole, none = (slot >= stored, last < stored) if lower else (last <= stored, slot > stored)
        return True if whole else False if none else None
    part = stored[: _DATE_LEVELS[level]]
    if slot != part:
        return bool(slot > part) is lower
    if kind != "date":
        return None
    following = _next_day(stored)[: _DATE_LEVELS[level]]
    return True if (_opens(kind, stored, level) == stored if lower else following != part) else None


def key_span(condition: Compare | Within) -> Span | None:
    if isinstance(condition, Compare) and condition.operator != "=":
        return None
    values = condition.values if isinstance(condition, Within) else (condition.value,)
    listed = json.dumps([sql_value(value) for value in values])
    return Span(condition.column, (("slot IN (SELECT item.value FROM json_each(?) item)", listed),), ())


def range_span(table: Table, column: str, bounds: Sequence[Compare]) -> Span:
    """The span that all of these bounds leave."""
    kind = range_kind(table, column)
    lowest: Any = max((bound.value for bound in bounds if bound.operator == ">="), default=None)  # type: ignore[type-var]
    highest: Any = min((bound.value for bound in bounds if bound.operator == "<="), default=None)  # type: ignore[type-var]
    nothing = (("slot < ?", ""), ("slot > ?", ""))
    if lowest is not None and highest is not None and lowest > highest:
        return Span(column, nothing, ())
    lower = None if lowest is None else _lower(kind, lowest)
    upper = None if highest is None else _upper(kind, highest)
    if lower and upper and lower.cut and upper.cut and lower.at == upper.at:
        # Both cut the same slot, so none is between them.
        return Span(column, nothing, ((lower.cut[0], upper.cut[1]),))
    several = [bound for bound in (lower, upper) if bound is not None]
    return Span(column, tuple(bound.slots for bound in several), tuple(bound.cut for bound in several if bound.cut))


def slot_of_level(kind: str, name: str) -> str:
    """The slot that holds a value, as SQL, at the joined level (`levels_sql`)."""
    cases = " ".join(f"WHEN {level} THEN {slot_sql(kind, name, level)}" for level in range(WIDEST + 1))
    return f"CASE level.width {cases} END"


def levels_sql(column: str, narrowest: int = 0) -> str:
    """A join that gives each row once for each level of a range."""
    selects = " UNION ALL ".join(
        f"SELECT '{counted_under(column, level)}' AS ranged, {level} AS width" for level in range(narrowest, WIDEST + 1)
    )
    return f" CROSS JOIN ({selects}) level"
