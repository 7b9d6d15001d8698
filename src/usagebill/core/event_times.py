"""Timestamps of files and messages that cannot be read, or are no Unix seconds: what is probably meant, in words."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from usagebill.core.events import JsonValue, parse_timestamp
from usagebill.core.numbers import parse_decimal

_LONGEST = 40
_WANTED: Final = "send Unix seconds or ISO 8601, such as 2026-11-05T10:00:00Z"
_DATE_AND_TIME: Final = r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)"
_ZONE_NAME = re.compile(rf"{_DATE_AND_TIME} ?(?:UTC|GMT)")
_BLANK_OFFSET = re.compile(rf"{_DATE_AND_TIME} +([+-]\d{{2}}):?(\d{{2}})")
_MONTH_ANYWHERE = re.compile(r"\d{1,4}/\d{1,2}\b.*|\d{1,2}[.-]\d{1,2}[.-]\d{2,4}.*", re.DOTALL)
# From here on Unix seconds are beyond the year 9999, so that a number is of a smaller unit.
_UNITS: Final = (("milliseconds", 10**15, 1_000), ("microseconds", 10**18, 1_000_000), ("nanoseconds", 10**21, 10**9))
# What else a number can be: the digits of a date, by their count, or the days since 1900 that spreadsheets store, here
# those of 1990 to 2099. As Unix seconds most would lie in 1970.
_DATES: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_YEARS: Final = range(1990, 2100)
_SERIAL_DATES: Final = (32_874, 73_051)


def timestamp_problem(sent: JsonValue) -> str | None:
    """Why a value is no Unix seconds: a sentence with the cause, or the code `value_is_mandatory`; None if it is."""
    if sent is None or sent == "":
        return "value_is_mandatory"
    text = str(sent)
    number = parse_decimal(text)
    if number is not None and (meant := _date_meant(text, number)) is not None:
        return meant
    if parse_timestamp(sent) is not None:
        return None
    if number is not None:
        for unit, end, factor in _UNITS:
            if 10**11 <= abs(number) < end:
                return f"{text} looks like {unit}; send Unix seconds: {int(number) // factor}"
        return f"{_shown(text)} is no time from the year 1 to 9999; {_WANTED}"
    named = _ZONE_NAME.fullmatch(text.strip())
    if named is not None:
        return f"{_shown(text)} names its time zone; write {named[1]}T{named[2]}Z"
    offset = _BLANK_OFFSET.fullmatch(text.strip())
    if offset is not None:
        return f"{_shown(text)} has a blank before its offset; write {offset[1]}T{offset[2]}{offset[3]}:{offset[4]}"
    if _MONTH_ANYWHERE.fullmatch(text.strip()):
        return f"{_shown(text)} leaves open which number is the month; {_WANTED}"
    return f"{_shown(text)} is no time; {_WANTED}"


def _date_meant(text: str, number: Decimal) -> str | None:
    """What a number that is a date says instead of seconds; None if it is none."""
    if text.isdecimal() and (form := _DATES.get(len(text))) is not None:
        try:
            meant = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            return None
        if meant.year in _YEARS:
            return f"{text} looks like a date; write {meant:%Y-%m-%dT%H:%M:%SZ}"
    if _SERIAL_DATES[0] <= number < _SERIAL_DATES[1]:
        return f"{_shown(text)} looks like a date as spreadsheets store it; {_WANTED}"
    return None


def _shown(text: str) -> str:
    return f"'{text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}'"
