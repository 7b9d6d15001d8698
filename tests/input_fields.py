"""The fields of requests: their places in bodies, and bodies with another value in one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

import attrs


def nested(hint: Any, many: bool = False) -> tuple[type, bool] | None:
    """The input class inside a type, and whether it is in a list."""
    if isinstance(hint, type) and attrs.has(hint):
        return hint, many
    for part in get_args(hint):
        if fields := nested(part, many or get_origin(hint) in (list, tuple)):
            return fields
    return None


def types(kind: type) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every field of an input class, nested ones included: its path and its type."""
    for field in attrs.fields(attrs.resolve_types(kind)):
        yield (field.name,), field.type
        if inner := nested(field.type):
            steps = (field.name, 0) if inner[1] else (field.name,)
            yield from (((*steps, *rest), hint) for rest, hint in types(inner[0]))


def places(kind: type) -> Iterator[tuple[str | int, ...]]:
    """The paths of all fields of an input class, nested ones included."""
    return (place for place, _ in types(kind))


def put(target: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """A copy of `target` with `value` at `place`."""
    if not place:
        return value
    step, rest = place[0], place[1:]
    if isinstance(step, int):
        items = list(target) if isinstance(target, list) and target else [{}]
        return [put(items[0], rest, value), *items[1:]]
    members = target if isinstance(target, dict) else {}
    return {**members, step: put(members.get(step), rest, value)}
