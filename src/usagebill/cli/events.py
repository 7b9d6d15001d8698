"""`usagebill events import`: import a file of events, idempotently."""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from usagebill.billing import Billing
from usagebill.bindings import unix_seconds
from usagebill.cli.options import as_json, database, opened, organization_option, print_json
from usagebill.core.errors import Invalid
from usagebill.inputs import parse_instant
from usagebill.json_text import parse_json

__all__ = ["events"]

_BATCH = 1000
_FIELDS = ("transaction_id", "code", "external_subscription_id", "timestamp", "precise_total_amount_cents")
_DUPLICATE = {"transaction_id": ["value_already_exist"]}
_SHOWN = 20

Line = tuple[int, Mapping[str, object]]


@dataclass(slots=True)
class Outcome:
    """How many events were ingested, how many were duplicates, and the errors of the others, by line."""

    imported: int = 0
    duplicates: int = 0
    refused: dict[int, object] = field(default_factory=dict)


@click.group()
def events() -> None:
    """Import events."""


@events.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@organization_option
@database()
@as_json
def import_file(file: Path, organization: str | None, path: str, json_output: bool) -> None:
    """Import the events of FILE, one a line: JSON objects (.jsonl), or a table with a header (.csv).

    The columns of a table are transaction_id, code, external_subscription_id, timestamp and
    precise_total_amount_cents; every other column that is not empty becomes a property. Timestamps are Unix seconds
    or ISO 8601. An event whose transaction id is known for its subscription is skipped, so that the same file can be
    imported again. Exits with 1 if lines were refused.
    """
    if file.suffix not in (".csv", ".jsonl"):
        raise click.UsageError(f"{file.name} is neither .csv nor .jsonl")
    outcome = Outcome()
    with (
        opened(path, organization) as billing,
        file.open(encoding="utf-8-sig", newline="") as text,
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=json_output or not sys.stderr.isatty(),
        ) as progress,
    ):
        task = progress.add_task(file.name, total=_lines(file))
        lines = _table(text, outcome) if file.suffix == ".csv" else _objects(text, outcome)
        try:
            while batch := list(itertools.islice(lines, _BATCH)):
                _import(billing, batch, outcome)
                progress.update(task, completed=batch[-1][0])
        except (UnicodeDecodeError, csv.Error) as problem:
            _tell(outcome, json_output)
            raise click.ClickException(f"{file.name} cannot be read on: {problem}") from problem
    _tell(outcome, json_output)
    sys.exit(1 if outcome.refused else 0)


def _lines(file: Path) -> int:
    with file.open("rb") as raw:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: raw.read(1 << 20), b""))


def _objects(text: TextIO, outcome: Outcome) -> Iterator[Line]:
    for number, line in enumerate(text, start=1):
        if not line.strip():
            continue
        try:
            sent = parse_json(line.encode())
        except ValueError as problem:
            outcome.refused[number] = f"not JSON: {problem}"
            continue
        if isinstance(sent, Mapping):
            yield number, _timed(sent)
        else:
            outcome.refused[number] = "not a JSON object"


def _table(text: TextIO, outcome: Outcome) -> Iterator[Line]:
    rows = csv.DictReader(text)
    for row in rows:
        if None in row or None in row.values():
            outcome.refused[rows.line_num] = f"not {len(rows.fieldnames or ())} values, as the header has"
            continue
        event: dict[str, object] = {name: row[name] for name in _FIELDS if row.get(name)}
        event["properties"] = {name: value for name, value in row.items() if name not in _FIELDS and value}
        yield rows.line_num, _timed(event)


def _timed(event: Mapping[str, object]) -> Mapping[str, object]:
    """The event with its time in seconds, where it was written as a date."""
    timestamp = event.get("timestamp")
    instant = parse_instant(timestamp) if isinstance(timestamp, str) and "-" in timestamp[1:] else None
    return event if instant is None else {**event, "timestamp": unix_seconds(instant)}


def _import(billing: Billing, batch: list[Line], outcome: Outcome) -> None:
    """Ingest a batch; refused events are left out and noted in `outcome`."""
    while batch:
        try:
            billing.events.ingest([event for _, event in batch])
        except Invalid as problem:
            details = problem.details if isinstance(problem.details, Mapping) else {}
            for position, error in details.items():
                number, _ = batch[int(position)]
                if error == _DUPLICATE:
                    outcome.duplicates += 1
                else:
                    outcome.refused[number] = error
            if not details:
                raise
            batch = [line for position, line in enumerate(batch) if str(position) not in details]
        else:
            outcome.imported += len(batch)
            return


def _tell(outcome: Outcome, json_output: bool) -> None:
    if json_output:
        print_json(
            {
                "imported": outcome.imported,
                "duplicates": outcome.duplicates,
                "refused": [{"line": number, "problem": problem} for number, problem in outcome.refused.items()],
            }
        )
        return
    click.echo(
        f"{outcome.imported} imported, {outcome.duplicates} known already and skipped, {len(outcome.refused)} refused"
    )
    for number, problem in itertools.islice(outcome.refused.items(), _SHOWN):
        click.echo(f"  line {number}: {problem}", err=True)
    if len(outcome.refused) > _SHOWN:
        click.echo(f"  and {len(outcome.refused) - _SHOWN} more", err=True)
