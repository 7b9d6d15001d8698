"""Tables in CSV (RFC 4180): their header is checked once, and an error belongs to the row that has it.

A row ends with the line in which its last quote is closed. A quote that is never closed, or closed before something
other than a comma, belongs to a row of one line, which is refused: the lines that follow are rows of their own.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from usagebill.core.event_sources import LONGEST_PAYLOAD
from usagebill.core.formulas import unescaped
from usagebill.operations.event_sources import Arrival
from usagebill.sources.rows import (
    EXPORTED,
    NotAHeader as NotAHeader,
    check_columns,
    of_values,
)

_OPEN_QUOTE: Final = "a quote is opened in this line that is never closed, or closed before something else than a comma"
_SEPARATORS: Final = {";": "';'", "\t": "tabs", "|": "'|'"}


class Lines(Protocol):
    """The lines of a file, read ahead and taken."""

    def ahead(self, index: int) -> bytes | None:
        """The line that is `index` lines ahead; None if there is none yet."""

    def take(self, number: int) -> int:
        """Step over this many lines; returns the number of the first of them, from 1."""

    @property
    def is_complete(self) -> bool:
        """Whether the file's last line is there."""


class _Row(NamedTuple):
    """The values of a row, or what is wrong with it, and the lines that it takes."""

    text: str
    lines: int
    values: Sequence[str] = ()
    problem: str | None = None


def rows_of_table(lines: Lines, *, raw: bool = False) -> Iterator[Arrival | None]:
    """Arrivals row by row, None for an empty line; `lines` stands behind the row. Raises `NotAHeader`.

    Texts of an export lose the apostrophe that keeps spreadsheets from computing them, unless it was a `raw` one.
    """
    header = _next(lines)
    if header is None:
        return
    columns = _columns(header)
    lines.take(header.lines)
    text = str if raw or not EXPORTED.issubset(columns) else unescaped
    while (row := _next(lines)) is not None:
        position = lines.take(row.lines)
        if row.problem is not None:
            yield Arrival(position, row.text, problem={"line": [row.problem]})
        elif not row.values:
            yield None
        elif len(row.values) != len(columns):
            problem = f"not {len(columns)} values, as the header has, but {len(row.values)}"
            yield Arrival(position, row.text, problem={"line": [problem]})
        else:
            yield of_values(
                position, row.text, {name: text(value) or None for name, value in zip(columns, row.values, strict=True)}
            )


def _columns(header: _Row) -> Sequence[str]:
    text = header.text.removeprefix("\ufeff").strip()
    if text.casefold().startswith("sep="):
        raise NotAHeader("line 1 is for Excel, no header: remove it, and separate values with commas")
    if len(header.values) <= 1:
        for separator, name in _SEPARATORS.items():
            if separator in text:
                raise NotAHeader(
                    f"values are separated by {name}: write commas, and a point in numbers that have a comma"
                )
    if header.problem is not None:
        raise NotAHeader(f"the header: {header.problem}")
    if not any(value.strip() for value in header.values):
        raise NotAHeader("line 1 is empty: a table begins with its header")
    try:
        check_columns(header.values)
    except NotAHeader as problem:
        more = "; is line 1 a title? A table begins with its header" if len(header.values) == 1 else ""
        raise NotAHeader(f"{problem}{more}") from None
    return header.values


def _next(lines: Lines) -> _Row | None:
    """The next row; None at the end, or while its end is still being written."""
    first = lines.ahead(0)
    if first is None:
        return None
    raw, number = first, 1
    while raw.count(b'"') % 2:
        following = lines.ahead(number)
        if following is None and not lines.is_complete and len(raw) <= LONGEST_PAYLOAD:
            return None
        if following is None or len(raw) > LONGEST_PAYLOAD:
            return _Row(_text(first), 1, problem=_OPEN_QUOTE)
        raw, number = raw + following, number + 1
    text = _text(raw)
    try:
        decoded = raw.decode()
    except UnicodeDecodeError as problem:
        if number > 1:
            return (
                _Row(_text(first), 1, problem=_OPEN_QUOTE)
                if _is_broken(raw)
                else _Row(text, number, (), _byte(problem))
            )
        return _Row(text, 1, problem=_byte(problem))
    try:
        return _Row(text, number, next(csv.reader([decoded], strict=True), []))
    except csv.Error as problem:
        if number > 1 and "limit" not in str(problem):
            return _Row(_text(first), 1, problem=_OPEN_QUOTE)
        return _Row(text, number, problem=_worded(problem))


def _is_broken(raw: bytes) -> bool:
    """Whether the quotes of several lines that are not all text do not pair."""
    try:
        next(csv.reader([raw.decode(errors="replace")], strict=True), None)
    except csv.Error:
        return True
    return False


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace").rstrip("\r\n")


def _byte(problem: UnicodeDecodeError) -> str:
    return f"byte 0x{problem.object[problem.start]:02x} is not UTF-8: save the file as UTF-8"


def _worded(problem: csv.Error) -> str:
    text = str(problem)
    if "limit" in text:
        return f"a value has over {csv.field_size_limit()} characters"
    if "new-line" in text:
        return "lines end with CR alone: write LF or CRLF"
    return f"a quote is closed before something else than a comma ({text})"
