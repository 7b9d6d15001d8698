"""Price lists as files: what differs between two of them, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from usagebill.core.numbers import decimal_text, parse_decimal
from usagebill.core.price_comparisons import ComparisonSummary

# What names an item of a list; items of other lists are named by their position.
_NAMES = ("code", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedChange:
    """A field of a record with another value, or a whole record that is new (`before` is None) or gone (`after` is).

    `section` and `code` name the record, `path` the field (`charges[storage].properties.amount`); empty for the record.
    """

    section: str
    code: str
    path: str
    before: object
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceListChange:
    """What a file changes. `kept` are the records and charges that it does not name, as (section, code); `effects` is
    what last month of each changed plan with subscriptions would have cost, by its code.
    """

    changes: tuple[ListedChange, ...]
    kept: tuple[tuple[str, str], ...]
    effects: Mapping[str, ComparisonSummary]


def differences(before: object, after: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """The fields that differ, each with both values; None is the value of a field that is not there, which is another
    one than false.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            place = f"{path}.{name}" if path else str(name)
            old, new = before.get(name), after.get(name)
            if (name in before) == (name in after) or isinstance(before.get(name, new), list | tuple):
                yield from differences(old, new, place)
            else:
                yield place, old, new
        return
    old, new = _by_name(before), _by_name(after)
    if old is not None and new is not None and (old or new):
        for name in dict.fromkeys((*old, *new)):
            yield from differences(old.get(name), new.get(name), f"{path}[{name}]")
    elif not is_same(before, after):
        yield path, before, after


def _by_name(value: object) -> Mapping[str, object] | None:
    """The items of a list of objects by their names; None for anything else. Nothing is an empty list."""
    if value is None:
        return {}
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str)
        or not all(isinstance(item, Mapping) for item in value)
    ):
        return None
    named = {}
    for position, item in enumerate(value):
        name = next((item[field] for field in _NAMES if field in item), position)
        named[str(name)] = item
    return named


def is_same(left: object, right: object) -> bool:
    """Whether two values of a price list mean the same: numbers whether they are texts or not, lists of texts in any
    order, and nothing is as good as false, or as an empty list or object.
    """
    if _is_empty(left) or _is_empty(right):
        return _is_empty(left) and _is_empty(right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return not any(
            _is_one_sided(left, right, name) or not is_same(left.get(name), right.get(name)) for name in {*left, *right}
        )
    if isinstance(left, Sequence) and isinstance(right, Sequence) and not isinstance(left, str):
        if len(left) != len(right):
            return False
        if all(isinstance(item, str) for item in (*left, *right)):
            return sorted(left) == sorted(right)
        return all(is_same(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, bool) or isinstance(right, bool):
        return str(left).lower() == str(right).lower()
    numbers = parse_decimal(str(left)), parse_decimal(str(right))
    return str(left) == str(right) or (numbers[0] is not None and numbers[0] == numbers[1])


def _is_one_sided(left: Mapping[str, object], right: Mapping[str, object], name: str) -> bool:
    """Whether a name by itself says something on one side: a feature without values."""
    return (name in left) != (name in right) and (left.get(name) == {} or right.get(name) == {})


def _is_empty(value: object) -> bool:
    return (
        value is None
        or value is False
        or (isinstance(value, Mapping | Sequence) and not isinstance(value, str) and not value)
    )


def change_text(change: ListedChange) -> str:
    """The change in words: `plans pro: amount_cents 4900 -> 5900`."""
    name = f"{change.section} {change.code}"
    if not change.path:
        return f"{name}: {'new' if change.before is None else 'deleted'}"
    if change.before is None or change.after is None:
        word, value = ("added", change.after) if change.before is None else ("removed", change.before)
        return f"{name}: {change.path} {word}" + ("" if isinstance(value, Mapping) else f": {_text(value)}")
    return f"{name}: {change.path} {_text(change.before)} -> {_text(change.after)}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    number = parse_decimal(value) if isinstance(value, str) else None
    if number is not None:
        return decimal_text(number)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_text, value)) or "nothing"
    return str(value)
