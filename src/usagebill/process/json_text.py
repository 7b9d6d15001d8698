"""JSON as text: written and read without losing a digit, and with the installation's prefix of ids."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any

import msgspec

from usagebill.core.numbers import MOST_DIGITS, is_bounded, parse_json_fraction

Json = Any
JsonObject = dict[str, Any]

_encoder = msgspec.json.Encoder(decimal_format="number")

# Objects under these names belong to the callers: the prefix of ids is never renamed inside. (A list there holds items
# of ours, such as the metadata of customers and invoices.)
_CALLERS_OWN = frozenset(
    {"metadata", "properties", "grouped_by", "values", "presentation_by", "entitlements", "overrides"}
)


def encode_json(value: Json) -> bytes:
    """Compact JSON; decimals are printed as numbers with all their digits."""
    return _encoder.encode(value)


def with_prefix(value: Json, old: str, new: str) -> Json:
    """`value` with every key that starts with `old` starting with `new` instead."""
    if old == new:
        return value
    if isinstance(value, dict):
        return {
            (new + key[len(old) :] if key.startswith(old) else key): (
                item if key in _CALLERS_OWN and isinstance(item, Mapping) else with_prefix(item, old, new)
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [with_prefix(item, old, new) for item in value]
    return value


def parse_json(text: bytes) -> Json:
    """Parsed JSON, its fractions as `Decimal`.

    Raises `ValueError` for text that is not JSON, and for numbers too large to compute with (`numbers.is_bounded`).
    """
    try:
        parsed = _decoder.decode(text)
        if _has_long_integer(text):
            _check_integers(parsed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ValueError(str(problem)) from problem
    return parsed


class Nul(Enum):
    """What becomes of NUL characters in a body, which PostgreSQL does not store."""

    REFUSED = "refused"
    DROPPED = "dropped"
    NAMED = "named"
    """The operation refuses them itself, by field."""


def parse_body(text: bytes, nul: Nul = Nul.REFUSED, any_json: Collection[str] = ()) -> Json:
    """The parsed body of a request. Raises `ValueError` also for what no operation can be given: NUL characters, and
    values nested too deep, except under the members `any_json`, whose contents the operation checks itself.
    """
    if nul is not Nul.NAMED and _NUL.search(text):
        if nul is Nul.REFUSED:
            raise ValueError("texts have no NUL characters (\\u0000)")
        text = _NUL.sub(rb"\1", text)
    parsed = parse_json(text)
    _check_depth(parsed, any_json)
    return parsed


_decoder = msgspec.json.Decoder(float_hook=parse_json_fraction)
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_TOO_LONG = b"0" * (MOST_DIGITS + 1)
# Written as it is, a NUL is not JSON. An even number of backslashes before it are characters themselves.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
# Objects and lists inside each other. Python's own functions fail at 1,000, less the calls that led to them.
_MOST_NESTED = 100


def _has_long_integer(text: bytes) -> bool:
    # The decoder has no hook for integers. This search costs next to nothing, whatever the text.
    return len(text) > MOST_DIGITS and _TOO_LONG in text.translate(_DIGITS_AS_ZEROS)


def _check_integers(parsed: Json) -> None:
    pending = [parsed]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, int) and not is_bounded(item):
            raise ValueError(f"numbers have at most {MOST_DIGITS} digits")


def _check_depth(parsed: Json, unless_under: Collection[str]) -> None:
    level = [parsed]
    for _ in range(_MOST_NESTED):
        level = [
            inner
            for outer in level
            for inner in _members(outer, unless_under)
            if inner.__class__ is dict or inner.__class__ is list
        ]
        if not level:
            return
    raise ValueError(f"objects and lists are nested at most {_MOST_NESTED} deep")


def _members(outer: Json, unless_under: Collection[str]) -> Iterable[Json]:
    if outer.__class__ is dict:
        return (inner for name, inner in outer.items() if name not in unless_under)
    return outer if outer.__class__ is list else ()
