"""JSON as text: written and read without losing a digit, and with the installation's prefix of ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from usagebill.core.numbers import MOST_DIGITS, is_bounded, parse_json_fraction

__all__ = ["Json", "JsonObject", "encode_json", "parse_json", "stored_json", "with_prefix"]

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
    """JSON that somebody else wrote, parsed, its fractions as `Decimal`.

    Raises `ValueError` for text that is not JSON, and for what nothing further in can be given: numbers too large to
    compute with (`numbers.is_bounded`), values nested too deep, and NUL characters, which PostgreSQL does not store.
    """
    try:
        parsed = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ValueError(str(problem)) from problem
    if _has_long_integer(text):
        _check_integers(parsed)
    if _NUL.search(text):
        raise ValueError("texts have no NUL characters (\\u0000)")
    _check_depth(parsed)
    return parsed


def stored_json(text: bytes | str) -> Json:
    """JSON that this service wrote, parsed, its fractions as `Decimal`."""
    return _decoder.decode(text)


_decoder = msgspec.json.Decoder(float_hook=parse_json_fraction)
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_TOO_LONG = b"0" * (MOST_DIGITS + 1)
# Written as it is, a NUL is not JSON. An even number of backslashes before it are characters themselves.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
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


def _check_depth(parsed: Json) -> None:
    level = [parsed]
    for _ in range(_MOST_NESTED):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if outer.__class__ is dict else outer if outer.__class__ is list else ())
            if inner.__class__ is dict or inner.__class__ is list
        ]
        if not level:
            return
    raise ValueError(f"objects and lists are nested at most {_MOST_NESTED} deep")
