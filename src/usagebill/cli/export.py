"""`usagebill export`: tables for spreadsheets, warehouses and FinOps tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from usagebill.billing import Billing
from usagebill.cli.accounts import read_accounts
from usagebill.cli.beancount import beancount, beancount_accounts
from usagebill.cli.export_files import FORMATS, Sink, plain, sink
from usagebill.cli.journals import PROGRAMS, journals
from usagebill.cli.options import database, instant, opened, organization_option
from usagebill.core.currencies import major_from_cents
from usagebill.core.export_rows import Row
from usagebill.core.export_sums import columns_of_sums, sums
from usagebill.operations.exports import EXPORTS, FOCUS, Export
from usagebill.runtime.work import Reader

_EACH = 500
_OF_LEDGER = ("beancount", *PROGRAMS)
_USAGE_COLUMNS: Mapping[str, type] = {
    "start_of_period_dt": str,
    "end_of_period_dt": str,
    "billable_metric_code": str,
    "units": Decimal,
    "amount_currency": str,
    "amount_cents": int,
    "amount": Decimal,
}


@click.command()
@click.argument("kind", type=click.Choice([*EXPORTS, "usage"]))
@click.option("--format", "file_format", type=click.Choice([*FORMATS, *_OF_LEDGER]), default="csv", show_default=True)
@click.option(
    "--output", "-o", metavar="FILE", help="The file; - is standard output (CSV only).  [default: KIND.FORMAT]"
)
@click.option("--from", "start", metavar="TIME", help="Only records created at this time or later (ISO 8601).")
@click.option("--to", "end", metavar="TIME", help="Only records created before this time.")
@click.option(
    "--columns",
    type=click.Choice(["own", "focus"]),
    default="own",
    show_default=True,
    help="fees: use the columns of the FinOps specification FOCUS 1.2.",
)
@click.option("--only", multiple=True, metavar="COLUMN=VALUE", help="Only rows with this value in this column.")
@click.option("--by", metavar="COLUMN,...", help="Sums of amounts by these columns and currency, instead of the rows.")
@click.option("--accounts", metavar="FILE", help="The ledger for another program: a TOML file with accounts by kind.")
@click.option("--raw", is_flag=True, help="CSV: texts exactly as they are, even if spreadsheets compute them.")
@organization_option
@database()
def export(
    kind: str,
    file_format: str,
    output: str | None,
    start: str | None,
    end: str | None,
    columns: str,
    only: Sequence[str],
    by: str | None,
    accounts: str | None,
    raw: bool,
    organization: str | None,
    path: str,
) -> None:
    """Write invoices, fees, the ledger or usage as a table.

    A row of KIND for each invoice, fee, event, payment, credit note, tax, credit, refund, requested invoice, wallet,
    debt, month of a fee in advance, movement of the ledger, or day of usage.

    Rows are read from one snapshot and written one by one, so a table may be larger than memory. A file appears under
    its name once it is complete. Changes nothing; a copy of the database works too.
    """
    if columns == "focus" and kind != "fees":
        raise click.UsageError("--columns focus is for fees")
    if file_format in _OF_LEDGER and (kind != "ledger" or by is not None):
        raise click.UsageError(f"--format {file_format} is for the ledger and its movements")
    if accounts is not None and file_format not in _OF_LEDGER:
        raise click.UsageError(f"--accounts is for --format {', '.join(_OF_LEDGER)}")
    if accounts is None and file_format in PROGRAMS:
        raise click.UsageError(f"--format {file_format} needs --accounts: numbers or names of your accounts")
    target = output or f"{kind}.{file_format}"
    if target == "-" and file_format != "csv":
        raise click.UsageError("only CSV goes to standard output")
    first, last = (None if text is None else instant(text) for text in (start, end))
    with opened(path, organization, read_only=True) as billing:
        table = _usage(billing, first, last) if kind == "usage" else FOCUS if columns == "focus" else EXPORTS[kind]
        part = target if target == "-" else f"{target}.part"
        table = _chosen(table, only, by)
        opening = _opened(part, file_format, table, accounts, raw=raw)
        try:
            written = billing.reading(lambda reader: _write(reader, table, opening, kind, first, last))
        except BaseException:
            if part != "-":
                Path(part).unlink(missing_ok=True)
            raise
        if part != "-":
            os.replace(part, target)
    click.echo(f"{written} rows: {'standard output' if target == '-' else target}", err=True)


def _opened(
    path: str, file_format: str, table: Export, accounts: str | None, *, raw: bool
) -> AbstractContextManager[Sink]:
    if file_format == "beancount":
        return beancount(path, list(table.columns), beancount_accounts(accounts))
    if accounts is not None:
        return journals(path, file_format, list(table.columns), read_accounts(accounts))
    return sink(path, file_format, table.columns, raw=raw)


def _chosen(table: Export, only: Sequence[str], by: str | None) -> Export:
    """The rows of the table that have these values, or their sums."""
    wanted = [tuple(text.partition("=")[::2]) for text in only]
    names = [name.strip() for name in by.split(",")] if by is not None else []
    for name in (*(column for column, _ in wanted), *names):
        if name not in table.columns:
            raise click.UsageError(f"no column {name}; there are {', '.join(table.columns)}")

    def rows(reader: Reader, start: datetime | None, end: datetime | None) -> Iterator[Row]:
        for row in table.rows(reader, start, end):
            if all(plain(row[column]) == value for column, value in wanted):
                yield row

    chosen = replace(table, rows=rows)
    if by is None:
        return chosen
    return replace(
        chosen,
        columns=columns_of_sums(table.columns, names),
        rows=lambda reader, start, end: sums(rows(reader, start, end), table.columns, names),
    )


def _write(
    reader: Reader,
    table: Export,
    opening: AbstractContextManager[Sink],
    kind: str,
    start: datetime | None,
    end: datetime | None,
) -> int:
    """Write all rows; returns their number."""
    rows = 0
    is_shown = sys.stderr.isatty()
    with (
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not is_shown,
        ) as progress,
        opening as file,
    ):
        task = progress.add_task(kind, total=table.count(reader, start, end) if is_shown else None)
        for row in table.rows(reader, start, end):
            file.write([row[name] for name in table.columns])
            rows += 1
            if rows % _EACH == 0:
                progress.update(task, completed=rows)
    return rows


def _usage(billing: Billing, start: datetime | None, end: datetime | None) -> Export:
    """Usage by day, as in `usagebill report usage`."""
    dates = {
        "from_date": start.date().isoformat() if start else None,
        "to_date": end.date().isoformat() if end else None,
    }
    bounds: dict[str, Any] = {name: day for name, day in dates.items() if day is not None}
    shown = [billing.view(row) for row in billing.analytics.usage(time_granularity="daily", **bounds)]

    def rows(*_: object) -> Iterator[Row]:
        for row in shown:
            more = {"amount": major_from_cents(row["amount_cents"], row["amount_currency"])}
            values = {**row, **more, "units": Decimal(row["units"])}
            yield {name: values[name] for name in _USAGE_COLUMNS}

    return Export(columns=_USAGE_COLUMNS, count=lambda *_: len(shown), rows=rows)
