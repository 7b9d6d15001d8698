"""`usagebill report`: revenue, collection and usage as tables with bars, as CSV or as JSON."""

from __future__ import annotations

import csv
import io
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from usagebill.billing import Billing
from usagebill.cli.export_files import harmless, make_private
from usagebill.cli.options import as_json, database, opened, organization_option, print_json
from usagebill.core.currencies import exponent, major_from_cents

# Cells of the longest bar, and the characters for parts of a cell.
_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# A pipe has no width: there, whole values matter more than lines that fit.
_PIPE_WIDTH = 10_000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Report:
    """A report, by its root in the API. `columns` maps headings of the table to fields of a row."""

    root: str
    title: str
    columns: Mapping[str, str]
    # The end of the rows to keep if not all are printed.
    newest_first: bool = False


REPORTS: Mapping[str, _Report] = {
    "gross_revenue": _Report(
        "gross_revenues",
        "Gross revenue",
        {"month": "month", "billing entity": "billing_entity_id", "invoices": "invoices_count"},
    ),
    "invoice_collection": _Report(
        "invoice_collections",
        "Invoices by payment status",
        {"month": "month", "status": "payment_status", "invoices": "invoices_count"},
    ),
    "invoiced_usage": _Report(
        "invoiced_usages", "Invoiced usage", {"month": "month", "metric": "code"}, newest_first=True
    ),
    "mrr": _Report("mrrs", "Monthly recurring revenue", {"month": "month"}),
    "overdue_balance": _Report(
        "overdue_balances",
        "Overdue balances, by the month in which they were due",
        {"month": "month", "billing entity": "billing_entity_id", "invoices": "svc_invoice_ids"},
    ),
    "usage": _Report(
        "usages",
        "Usage",
        {"from": "start_of_period_dt", "to": "end_of_period_dt", "metric": "billable_metric_code", "units": "units"},
    ),
}
# Option -> the API filter, and whether it is for usage alone, for all other reports, or for both.
_OF_USAGE = (
    "time_granularity",
    "from_date",
    "to_date",
    "external_subscription_id",
    "plan_code",
    "billable_metric_code",
)
_OF_MONTHS = ("months", "billing_entity_code")


@click.command()
@click.argument("name", required=False, type=click.Choice(list(REPORTS)), metavar="[REPORT]")
@click.option("--currency", help="One currency, such as EUR.")
@click.option("--months", type=click.IntRange(min=0, max=1200), help="How many months, including the current one.")
@click.option("--customer", "external_customer_id", metavar="ID", help="One customer, by its external id.")
@click.option("--billing-entity", "billing_entity_code", metavar="CODE", help="One billing entity.")
@click.option("--by", "time_granularity", type=click.Choice(["daily", "weekly", "monthly"]), help="usage: periods.")
@click.option("--from", "from_date", metavar="DATE", help="usage: the first day.")
@click.option("--to", "to_date", metavar="DATE", help="usage: the last day.")
@click.option("--subscription", "external_subscription_id", metavar="ID", help="usage: one subscription.")
@click.option("--plan", "plan_code", metavar="CODE", help="usage: the subscriptions of one plan.")
@click.option("--metric", "billable_metric_code", metavar="CODE", help="usage: one billable metric.")
@click.option(
    "--at-most", type=click.IntRange(min=1), default=100, show_default=True, help="How many rows of each to print."
)
@click.option("--csv", "csv_path", metavar="FILE", help="Write all rows of one report to a file; - is standard output.")
@click.option("--raw", is_flag=True, help="With --csv: texts exactly as they are, even if spreadsheets compute them.")
@database()
@organization_option
@as_json
def report(
    name: str | None,
    at_most: int,
    csv_path: str | None,
    raw: bool,
    path: str,
    organization: str | None,
    json_output: bool,
    **filters: str | int | None,
) -> None:
    """Print one report on invoices and usage, or all of them.

    The reports are gross_revenue, invoice_collection, invoiced_usage, mrr, overdue_balance and usage, the same as below
    /analytics in the API. Months are in UTC. Changes nothing; a copy of the database works too.
    """
    if csv_path is not None and name is None:
        raise click.UsageError("--csv writes a single report: name it")
    options = {option: value for option, value in filters.items() if value is not None}
    _check(name, options)
    with opened(path, organization, read_only=True) as billing:
        rows = {chosen: _rows(billing, chosen, options) for chosen in ([name] if name else REPORTS)}
        codes = {entity.id: entity.code for entity in billing.billing_entities.list()}
    if csv_path is not None and name is not None:
        _write_csv(csv_path, rows[name], raw)
    elif json_output:
        print_json({REPORTS[chosen].root: shown for chosen, shown in rows.items()})
    else:
        console = Console()
        if not console.is_terminal:
            console = Console(width=_PIPE_WIDTH)
        for chosen, shown in rows.items():
            _print(console, REPORTS[chosen], shown, at_most, codes)


def _check(name: str | None, options: Mapping[str, object]) -> None:
    """Refuse filters that the report does not know: they would be silently ignored."""
    unknown = _OF_MONTHS if name == "usage" else () if name is None else _OF_USAGE
    for option in unknown:
        if option in options:
            parameter = next(item for item in report.params if item.name == option)
            raise click.UsageError(f"{name} has no {parameter.opts[0]}")


def _rows(billing: Billing, name: str, options: Mapping[str, object]) -> list[Row]:
    left_out = _OF_MONTHS if name == "usage" else _OF_USAGE
    read: Callable[..., Sequence[object]] = getattr(billing.analytics, name)
    records = read(**{option: value for option, value in options.items() if option not in left_out})
    return [billing.view(row) for row in records]


def _write_csv(path: str, rows: Sequence[Row], raw: bool) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if rows:
        writer.writerow(rows[0])
        cells = ([_csv_value(name, value) for name, value in row.items()] for row in rows)
        writer.writerows(row if raw else [harmless(cell) for cell in row] for row in cells)
    if path == "-":
        # Written directly: `echo` strips control characters.
        sys.stdout.write(text.getvalue())
        return
    try:
        make_private(path)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
    except OSError as problem:
        raise click.ClickException(f"{path}: {problem.strerror}") from problem
    click.echo(f"{len(rows)} rows written to {path}", err=True)


def _csv_value(name: str, value: object) -> object:
    if name == "units":
        # A number, though the API has it as text.
        return Decimal(str(value))
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def _print(console: Console, about: _Report, rows: Sequence[Row], at_most: int, codes: Mapping[str, str]) -> None:
    console.print(Text(about.title, style="bold underline"))
    filled = [row for row in rows if _currency(row) is not None]
    if not filled:
        console.print(Text("nothing\n"))
        return
    shown = _outermost(rows, at_most, newest_first=about.newest_first)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading, column in about.columns.items():
        numbers = column in ("invoices_count", "svc_invoice_ids", "units")
        table.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    table.add_column("currency")
    table.add_column("amount", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    largest = _largest(shown)
    for row in shown:
        currency, cents = _currency(row), row["amount_cents"]
        cells = [_cell(column, row[column], codes) for column in about.columns.values()]
        if currency is None:
            table.add_row(*cells, *[Text("")] * 3)
            continue
        bar = _bar(cents, largest[currency])
        table.add_row(
            *cells, Text(currency), Text(_amount(cents, currency)), Text(bar, style="red" if cents < 0 else "")
        )
    console.print(table)
    left_out = len(filled) - sum(_currency(row) is not None for row in shown)
    if left_out:
        console.print(Text(f"and {left_out:,} {'more' if about.newest_first else 'before'}: --at-most, --csv"))
    console.print()


def _outermost(rows: Sequence[Row], at_most: int, *, newest_first: bool) -> Sequence[Row]:
    """At most this many rows from the end that matters most; empty months between them do not count."""
    inward = rows if newest_first else rows[::-1]
    filled = [place for place, row in enumerate(inward) if _currency(row) is not None]
    kept = inward if len(filled) <= at_most else inward[: filled[at_most - 1] + 1]
    return kept if newest_first else kept[::-1]


def _currency(row: Row) -> str | None:
    currency: str | None = row["amount_currency"] if "amount_currency" in row else row["currency"]
    return currency


def _largest(rows: Sequence[Row]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for row in rows:
        if (currency := _currency(row)) is not None:
            largest[currency] = max(largest.get(currency, 0), abs(row["amount_cents"]))
    return largest


def _cell(column: str, value: Any, codes: Mapping[str, str]) -> Text:
    if value is None:
        return Text("")
    if column == "month":
        return Text(str(value)[:7])
    if column == "svc_invoice_ids":
        return Text(f"{len(value):,}")
    if column == "invoices_count":
        return Text(f"{value:,}")
    return Text(_printable(codes.get(value, value) if column == "billing_entity_id" else str(value)))


def _printable(text: str) -> str:
    """`text` without control characters."""
    return "".join("�" if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") else letter for letter in text)


def _amount(cents: int, currency: str) -> str:
    """`1,234.50`: major units, with all decimals of the currency."""
    return f"{major_from_cents(cents, currency):,.{exponent(currency)}f}"


def _bar(cents: int, largest: int) -> str:
    """A bar for the amount, relative to the largest of its currency; a non-zero amount is always visible."""
    if not cents or not largest:
        return ""
    eighths = max(1, round(Fraction(abs(cents), largest) * _BAR * 8))
    if not _is_unicode():
        return "#" * max(1, eighths // 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _is_unicode() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        _EIGHTHS.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
