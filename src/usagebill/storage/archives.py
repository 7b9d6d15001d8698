"""Archives of organizations: everything of one in a ZIP file of JSON lines, and the same rows again elsewhere.

`records/<table>.jsonl` has the rows of each table, as SQLite stores them, `events.jsonl` the events with their sequence
numbers, which other records refer to, `jobs.jsonl` the jobs, `numbers.json` the gapless sequences, and `files/` the
contents of documents. Totals, indexes and counts are not in it: they are made again.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import IO, Any, TypeVar

import msgspec

from usagebill.core.documents.files import Document
from usagebill.core.organizations import ArchiveContents, Organization
from usagebill.storage.event_rows import COLUMNS, encode_json, event_of, microseconds
from usagebill.storage.ports import StoredEvent, Transaction
from usagebill.storage.sql.jobs import JOB_COLUMNS, job_of, job_row
from usagebill.storage.sqlite.rows import codec_of
from usagebill.storage.sqlite.schema import VERSION
from usagebill.storage.tables import Table, table_of, tables_in_order

T = TypeVar("T")
_SLICE = 5_000
_CONTENTS, _EVENTS, _JOBS, _NUMBERS = "contents.json", "events.jsonl", "jobs.jsonl", "numbers.json"
_JOB_NAMES = JOB_COLUMNS.split(", ")
_EVENT_NAMES = COLUMNS.split(", ")
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class UnusableArchive(Exception):
    """The file is no whole archive of an organization, or cannot be used here; the text says why."""


def rows_of(tx: Transaction) -> dict[str, int]:
    """The number of rows of the organization in each table, and of its events and jobs."""
    records = {table.name: tx.count(table.kind, deleted=True) for table in map(table_of, tables_in_order())}
    return {**records, "events": sum(1 for _ in _events(tx)), "jobs": len(tx.jobs.every())}


def write_archive(tx: Transaction, organization: Organization, now: datetime, target: IO[bytes]) -> ArchiveContents:
    """Write everything of the organization that the transaction is within, as of its snapshot."""
    rows: dict[str, int] = {}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as files:
        for table in map(table_of, tables_in_order()):
            rows[table.name] = _write(files, f"records/{table.name}.jsonl", _record_lines(tx, table))
        for document in tx.each(Document):
            files.writestr(f"files/{document.id}", document.content)
        rows["events"] = _write(files, _EVENTS, map(_event_line, _events(tx)))
        jobs = tx.jobs.every()
        rows["jobs"] = _write(files, _JOBS, (dict(zip(_JOB_NAMES, job_row(job), strict=True)) for job in jobs))
        files.writestr(_NUMBERS, _encode(tx.numbers()))
        contents = ArchiveContents(
            organization_id=organization.id, name=organization.name, schema=VERSION, written_at=now, rows=rows
        )
        files.writestr(_CONTENTS, msgspec.json.encode(contents))
    return contents


def contents_of(source: IO[bytes]) -> ArchiveContents:
    """What a file has. Raises `UnusableArchive` if it is no whole archive."""
    try:
        with zipfile.ZipFile(source) as files:
            damaged = files.testzip()
            if damaged is not None:
                raise UnusableArchive(f"{damaged} is damaged")
            return msgspec.json.decode(files.read(_CONTENTS), type=ArchiveContents)
    except (zipfile.BadZipFile, KeyError, msgspec.DecodeError) as problem:
        raise UnusableArchive("it is no archive of an organization") from problem


def read_archive(tx: Transaction, source: IO[bytes]) -> ArchiveContents:
    """Store everything in an archive, in a database without organizations. Raises `UnusableArchive`."""
    contents = contents_of(source)
    if contents.schema != VERSION:
        raise UnusableArchive(
            f"it has schema version {contents.schema}, and this usagebill has {VERSION}: import it with the one that"
            " wrote it, then upgrade"
        )
    if tx.first(Organization) is not None:
        raise UnusableArchive("the database has an organization: import into a new one")
    own = tx.scoped(contents.organization_id)
    with zipfile.ZipFile(source) as files:
        for table in map(table_of, tables_in_order()):
            for some in _slices(_lines(files, f"records/{table.name}.jsonl")):
                own.insert(*(_record(files, table, line) for line in some))
        own.take_changes()
        own.events.restore(map(_event, _lines(files, _EVENTS)))
        for some in _slices(_lines(files, _JOBS)):
            own.jobs.add(*(job_of([line[name] for name in _JOB_NAMES]) for line in some))
        numbers: dict[str, int] = _decode(files.read(_NUMBERS))
        own.restore_numbers(numbers)
    found = rows_of(own)
    if found != contents.rows:
        differing = sorted(name for name in contents.rows if found.get(name) != contents.rows[name])
        raise UnusableArchive(f"not everything was stored: {', '.join(differing)}")
    return contents


def _write(files: zipfile.ZipFile, name: str, lines: Iterator[dict[str, Any]]) -> int:
    count = 0
    with files.open(name, "w", force_zip64=True) as file:
        for line in lines:
            file.write(_encode(line) + b"\n")
            count += 1
    return count


def _lines(files: zipfile.ZipFile, name: str) -> Iterator[dict[str, Any]]:
    with files.open(name) as file:
        for line in file:
            yield _decode(line)


def _slices(items: Iterator[T]) -> Iterator[list[T]]:
    while some := list(islice(items, _SLICE)):
        yield some


def _record_lines(tx: Transaction, table: Table) -> Iterator[dict[str, Any]]:
    codec = codec_of(table.kind)
    names = [column.name for column in codec.columns]
    record: Any
    for record in tx.each(table.kind, deleted=True):
        line = dict(zip(names, codec.row(record), strict=True))
        if table.kind is Document:
            # In a file of its own.
            del line["content"]
        yield line


def _record(files: zipfile.ZipFile, table: Table, line: dict[str, Any]) -> Any:
    codec = codec_of(table.kind)
    if table.kind is Document:
        line["content"] = files.read(f"files/{line['id']}")
    return codec.record(tuple(line[column.name] for column in codec.columns))


def _events(tx: Transaction) -> Iterator[StoredEvent]:
    last = 0
    while some := tx.events.exported(last, _SLICE):
        yield from some
        last = some[-1].sequence


def _event_line(stored: StoredEvent) -> dict[str, Any]:
    event = stored.event
    amount = event.precise_total_amount_cents
    shown = {
        **event._asdict(),
        "timestamp": microseconds(event.timestamp),
        "created_at": microseconds(event.created_at),
        "precise_total_amount_cents": None if amount is None else str(amount),
    }
    marks = {"sequence": stored.sequence, "in_advance": stored.in_advance, "uncounted": stored.uncounted}
    return {**shown, **marks}


def _event(line: dict[str, Any]) -> StoredEvent:
    row = tuple(encode_json(line[name]) if name == "properties" else line[name] for name in _EVENT_NAMES)
    return StoredEvent(line["sequence"], event_of(row), line["in_advance"], line["uncounted"])
