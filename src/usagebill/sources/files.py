"""Files of events: tables (.csv), JSON lines (.jsonl, .ndjson) and Parquet (.parquet). Imports resume where they
stopped.

A line or row that is not an event is refused; the others are ingested. A file's progress is stored with the checksum of
what was read, in the transaction of its events: after a crash the import resumes there, unless the file has changed.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from usagebill.core.event_sources import EventSource
from usagebill.operations.event_sources import Arrival
from usagebill.sources.intake import Intake, Outcome
from usagebill.sources.parquet import (
    MissingPackage as MissingPackage,
    Unreadable as Unreadable,
    length_of_parquet,
    rows_of_parquet,
)
from usagebill.sources.payloads import arrival_of
from usagebill.sources.rows import NotAHeader
from usagebill.sources.tables import rows_of_table

SUFFIXES = (".csv", ".jsonl", ".ndjson", ".parquet")
_BATCH = 1000
_CHUNK = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OTHER_FORMATS = {
    b"\x1f\x8b": "it is compressed: unpack it",
    b"PK\x03\x04": "it is an Excel file or an archive: save it as CSV in UTF-8, or unpack it",
    b"\xd0\xcf\x11\xe0": "it is an Excel file: save it as CSV in UTF-8",
    b"PAR1": "it is Parquet: name it .parquet",
}


class _Row(NamedTuple):
    """A line or row, how many were read so far, and the checksum of all of them."""

    arrival: Arrival | None
    position: int
    checksum: str


def source_name(path: Path) -> str:
    """The name of a file in the list of sources."""
    return f"file:{path.resolve()}"


def suffix_of(path: Path) -> str:
    """The suffix of a file in lower case: some programs write `.CSV`."""
    return path.suffix.lower()


def length_of(path: Path) -> int:
    """The number of lines or rows of a file, for the progress bar."""
    if suffix_of(path) == ".parquet":
        return length_of_parquet(path)
    with path.open("rb") as raw:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: raw.read(_CHUNK), b""))


def take_file(
    intake: Intake,
    path: Path,
    outcome: Outcome,
    *,
    is_complete: bool = True,
    starts_over: bool = False,
    raw: bool = False,
    progress: Callable[[int], None] = lambda position: None,
) -> None:
    """Ingest what is new in a file, and count the results in `outcome`.

    Unless the file `is_complete`, a last line without a line end is left for later: it may still be being written.
    `starts_over`: once everything is ingested, the next import begins at the first line. `raw`: texts of an export are
    taken as they are. Raises `Unreadable` once all
    that precedes the unreadable part is ingested.
    """
    position = start = _start(path, intake.noted())
    rows = _rows(path, start) if suffix_of(path) == ".parquet" else _lines(path, start, is_complete, raw=raw)
    while batch := _batch(rows):
        arrivals = [row.arrival for row in batch if row.arrival is not None]
        position = batch[-1].position
        outcome.add(intake.take(arrivals, position=position, checksum=batch[-1].checksum))
        progress(position)
    if starts_over:
        intake.take((), position=position)


def _batch(rows: Iterator[_Row]) -> list[_Row]:
    try:
        return list(itertools.islice(rows, _BATCH))
    except NotAHeader as problem:
        raise Unreadable(str(problem)) from problem


def _start(path: Path, noted: EventSource | None) -> int:
    """The number of lines or rows ingested before; 0 if the file has changed before that place."""
    if noted is None or noted.checksum is None:
        return 0
    checksum = _whole_checksum(path) if suffix_of(path) == ".parquet" else _checksum_of_lines(path, noted.position)
    return noted.position if checksum == noted.checksum else 0


def _whole_checksum(path: Path) -> str:
    with path.open("rb") as raw:
        return hashlib.file_digest(raw, "sha256").hexdigest()


def _checksum_of_lines(path: Path, count: int) -> str | None:
    """The checksum of the first lines, None if there are fewer."""
    digest = hashlib.sha256()
    with path.open("rb") as raw:
        read = 0
        for line in itertools.islice(raw, count):
            digest.update(line)
            read += 1
    return digest.hexdigest() if read == count else None


# Text


class _Lines:
    """The lines of a file, read ahead and taken, with the number of those taken and their checksum.

    Unless the file `is_complete`, a last line without a line end is not there yet.
    """

    def __init__(self, raw: BinaryIO, is_complete: bool) -> None:
        self.count = 0
        self.is_complete = is_complete
        self._raw = raw
        self._ahead: deque[bytes] = deque()
        self._digest = hashlib.sha256()

    @property
    def checksum(self) -> str:
        return self._digest.hexdigest()

    def ahead(self, index: int) -> bytes | None:
        while len(self._ahead) <= index:
            line = self._raw.readline()
            if not line or not (self.is_complete or line.endswith(b"\n")):
                # Whoever asks again gets the same answer.
                self._raw.seek(-len(line), 1)
                return None
            self._ahead.append(line)
        line = self._ahead[index]
        return line.removeprefix(_BYTE_ORDER_MARK) if self.count + index == 0 else line

    def take(self, number: int) -> int:
        first = self.count + 1
        for _ in range(number):
            self._digest.update(self._ahead.popleft())
            self.count += 1
        return first


def _lines(path: Path, start: int, is_complete: bool, *, raw: bool) -> Iterator[_Row]:
    with path.open("rb") as file:
        _check_beginning(file.read(_CHUNK), is_complete, is_table=suffix_of(path) == ".csv")
        file.seek(0)
        lines = _Lines(file, is_complete)
        arrivals = rows_of_table(lines, raw=raw) if suffix_of(path) == ".csv" else _objects(lines)
        for arrival in arrivals:
            if lines.count > start:
                yield _Row(arrival, lines.count, lines.checksum)


def _check_beginning(begun: bytes, is_complete: bool, *, is_table: bool) -> None:
    """Raise `Unreadable` where a look at a file's beginning tells that it is no text, or no lines."""
    for beginning, cause in _OTHER_FORMATS.items():
        if begun.startswith(beginning):
            raise Unreadable(cause)
    if begun.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in begun[:4]:
        raise Unreadable("it is UTF-16 or no text at all: save it as UTF-8")
    if is_complete and not begun.removeprefix(_BYTE_ORDER_MARK).strip():
        raise Unreadable("it is empty")
    if not is_table and begun.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] == b"[":
        raise Unreadable("it is one JSON array: write an object a line, for example with `jq -c '.[]'`")


def _objects(lines: _Lines) -> Iterator[Arrival | None]:
    while (line := lines.ahead(0)) is not None:
        position = lines.take(1)
        yield arrival_of(position, line) if line.strip() else None


# Parquet


def _rows(path: Path, start: int) -> Iterator[_Row]:
    checksum = _whole_checksum(path)
    for arrival in rows_of_parquet(path, _BATCH):
        if arrival.position > start:
            yield _Row(arrival, arrival.position, checksum)
