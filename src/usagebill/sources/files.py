"""Files of events: tables (.csv), JSON lines (.jsonl) and Parquet (.parquet). Imports resume where they stopped.

A line or row that is not an event is refused; the others are ingested. A file's progress is stored with the checksum of
what was read, in the transaction of its events: after a crash the import resumes there, unless the file has changed.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from usagebill.bindings import unix_seconds
from usagebill.core.event_sources import EventSource
from usagebill.operations.event_sources import Arrival
from usagebill.sources.intake import Intake, Outcome
from usagebill.sources.payloads import arrival_of, timed

__all__ = ["SUFFIXES", "MissingPackage", "Unreadable", "length_of", "source_name", "take_file"]

SUFFIXES = (".csv", ".jsonl", ".parquet")
_BATCH = 1000
_FIELDS = ("transaction_id", "code", "external_subscription_id", "timestamp", "precise_total_amount_cents")
_CHUNK = 1 << 20


class Unreadable(Exception):
    """The rest of a file cannot be parsed: it is not text, not a table or not Parquet."""


class MissingPackage(Exception):
    """Parquet needs a package that is not installed."""


class _Row(NamedTuple):
    """A line or row, how many were read so far, and the checksum of all of them."""

    arrival: Arrival | None
    position: int
    checksum: str


def source_name(path: Path) -> str:
    """The name of a file in the list of sources."""
    return f"file:{path.resolve()}"


def length_of(path: Path) -> int:
    """The number of lines or rows of a file, for the progress bar."""
    if path.suffix == ".parquet":
        return int(_parquet(path).metadata.num_rows)
    with path.open("rb") as raw:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: raw.read(_CHUNK), b""))


def take_file(
    intake: Intake,
    path: Path,
    outcome: Outcome,
    *,
    is_complete: bool = True,
    starts_over: bool = False,
    progress: Callable[[int], None] = lambda position: None,
) -> None:
    """Ingest what is new in a file, and count the results in `outcome`.

    Unless the file `is_complete`, a last line without a line end is left for later: it may still be being written.
    `starts_over`: once everything is ingested, the next import begins at the first line. Raises `Unreadable` once all
    that precedes the unreadable part is ingested.
    """
    position = start = _start(path, intake.noted())
    rows = _rows(path, start) if path.suffix == ".parquet" else _lines(path, start, is_complete)
    while batch := list(itertools.islice(rows, _BATCH)):
        arrivals = [row.arrival for row in batch if row.arrival is not None]
        position = batch[-1].position
        outcome.add(intake.take(arrivals, position=position, checksum=batch[-1].checksum))
        progress(position)
    if starts_over:
        intake.take((), position=position)


def _start(path: Path, noted: EventSource | None) -> int:
    """The number of lines or rows ingested before; 0 if the file has changed before that place."""
    if noted is None or noted.checksum is None:
        return 0
    checksum = _whole_checksum(path) if path.suffix == ".parquet" else _checksum_of_lines(path, noted.position)
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


class _Text:
    """The lines of a file as text, with their number so far and their checksum."""

    def __init__(self, raw: BinaryIO, is_complete: bool) -> None:
        self.count = 0
        self._raw = raw
        self._is_complete = is_complete
        self._digest = hashlib.sha256()

    @property
    def checksum(self) -> str:
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[str]:
        for line in self._raw:
            if not (self._is_complete or line.endswith(b"\n")):
                return
            text = line.decode("utf-8-sig" if self.count == 0 else "utf-8")
            self.count += 1
            self._digest.update(line)
            yield text


def _lines(path: Path, start: int, is_complete: bool) -> Iterator[_Row]:
    with path.open("rb") as raw:
        text = _Text(raw, is_complete)
        try:
            yield from _table(text, start, is_complete) if path.suffix == ".csv" else _objects(text, start)
        except (UnicodeDecodeError, csv.Error) as problem:
            raise Unreadable(str(problem)) from problem


def _objects(text: _Text, start: int) -> Iterator[_Row]:
    for line in text:
        if text.count > start:
            arrival = arrival_of(text.count, line.encode()) if line.strip() else None
            yield _Row(arrival, text.count, text.checksum)


def _table(text: _Text, start: int, is_complete: bool) -> Iterator[_Row]:
    # While a table is still being written, a quoted value without its end is incomplete.
    rows = csv.DictReader(text, strict=not is_complete)
    try:
        for row in rows:
            if rows.line_num > start:
                yield _Row(_table_row(rows, row), rows.line_num, text.checksum)
    except csv.Error:
        if is_complete:
            raise


def _table_row(rows: csv.DictReader[str], row: dict[str, Any]) -> Arrival:
    payload = ",".join(str(value) for value in row.values())
    if None in row or None in row.values():
        problem = f"not {len(rows.fieldnames or ())} values, as the header has"
        return Arrival(rows.line_num, payload, problem={"line": [problem]})
    event: dict[str, object] = {name: row[name] for name in _FIELDS if row.get(name)}
    event["properties"] = {name: value for name, value in row.items() if name not in _FIELDS and value}
    return Arrival(rows.line_num, payload, timed(event))


# Parquet


def _parquet(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as problem:
        raise MissingPackage("Parquet needs the package pyarrow: pip install 'usagebill[export]'") from problem
    from pyarrow import ArrowException

    try:
        return parquet.ParquetFile(path)
    except (ArrowException, OSError) as problem:
        raise Unreadable(str(problem)) from problem


def _rows(path: Path, start: int) -> Iterator[_Row]:
    checksum = _whole_checksum(path)
    table = _parquet(path)
    position = 0
    from pyarrow import ArrowException

    try:
        for batch in table.iter_batches(batch_size=_BATCH):
            for row in batch.to_pylist():
                position += 1
                if position > start:
                    yield _Row(_parquet_row(position, row), position, checksum)
    except (ArrowException, OSError) as problem:
        raise Unreadable(str(problem)) from problem


def _parquet_row(position: int, row: Mapping[str, Any]) -> Arrival:
    """Properties come from a column `properties` (a struct or a map) and from every column that is not a field."""
    values = {name: _as_json(value) for name, value in row.items() if value is not None}
    nested = row.get("properties")
    event: dict[str, object] = {name: values.pop(name) for name in _FIELDS if name in values}
    if isinstance(nested, (dict, list)):
        del values["properties"]
        members = nested.items() if isinstance(nested, dict) else nested
        values |= {str(name): _as_json(value) for name, value in members if value is not None}
    event["properties"] = values
    if isinstance(row.get("timestamp"), datetime):
        event["timestamp"] = unix_seconds(row["timestamp"])
    return Arrival(position, str(dict(row)), timed(event))


def _as_json(value: object) -> object:
    """A value as JSON; bytes as hexadecimal digits."""
    match value:
        case bool() | int() | str() | Decimal():
            return value
        case float():
            return Decimal(repr(value))
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case dict():
            return {str(name): _as_json(item) for name, item in value.items()}
        case list() | tuple():
            return [_as_json(item) for item in value]
        case _:
            return str(value)
