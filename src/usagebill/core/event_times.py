"""Timestamps that cannot be read: what is probably meant, in words."""

from __future__ import annotations

import re
from typing import Final

from usagebill.core.numbers import parse_decimal

_LONGEST = 40
_WANTED: Final = "send Unix seconds or ISO 8601, such as 2026-11-05T10:00:00Z"
_ZONE_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(?:UTC|GMT)")
# From here on Unix seconds are beyond the year 9999, so that a number is of a smaller unit.
_UNITS: Final = (("milliseconds", 10**15, 1_000), ("microseconds", 10**18, 1_000_000), ("nanoseconds", 10**21, 10**9))


def timestamp_problem(sent: object) -> str:
    """Why a value is no timestamp: a sentence with the cause, or the code `value_is_mandatory` where there is none."""
    if sent is None or sent == "":
        return "value_is_mandatory"
    text = str(sent)
    number = parse_decimal(text)
    if number is not None:
        for unit, end, factor in _UNITS:
            if 10**11 <= abs(number) < end:
                return f"{text} looks like {unit}; send Unix seconds: {int(number) // factor}"
        return f"{_shown(text)} is no time from the year 1 to 9999; {_WANTED}"
    named = _ZONE_NAME.fullmatch(text.strip())
    if named is not None:
        return f"{_shown(text)} names its time zone; write {named[1]}T{named[2]}Z"
    if "/" in text or re.fullmatch(r"\d{1,2}[.-]\d{1,2}[.-]\d{2,4}.*", text.strip()):
        return f"{_shown(text)} leaves open which number is the month; {_WANTED}"
    return f"{_shown(text)} is no time; {_WANTED}"


def _shown(text: str) -> str:
    return f"'{text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}'"
