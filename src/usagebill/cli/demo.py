"""`usagebill demo`: a year of real usage, billed while you watch."""

from __future__ import annotations

import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from usagebill.cli.options import refusals
from usagebill.demo.flights import NoFlights, airlines, read_flights
from usagebill.demo.quarter import Quarter
from usagebill.demo.year import PREPAID, YEAR, ZONE, Year

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SHOWN_MONTH = 7


@click.command()
@click.option(
    "--db",
    "path",
    default="demo.db",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The database file to create; it can be served afterwards.",
)
@click.option("--replace", is_flag=True, help="Delete the file first if it exists.")
@click.option(
    "--books", is_flag=True, help="A quarter of a seller in the EU instead, whose last month is to be closed."
)
def demo(path: Path, replace: bool, books: bool) -> None:
    """Bill the 336,776 flights that left New York in 2013.

    Every airline is a customer with a monthly subscription, every flight one event at its own time. The price list has
    a charge of every charge model, over every aggregation. One airline buys credits, and pays with them.
    """
    if path.exists() and not replace:
        raise click.ClickException(
            f"{path} already exists: name another file with --db, or overwrite it with --replace"
        )
    for part in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        part.unlink(missing_ok=True)
    console = Console()
    if not console.is_terminal:
        console = Console(width=170)
    with refusals(str(path)):
        try:
            if books:
                _run_quarter(path)
            else:
                _run(path, console)
        except NoFlights as problem:
            raise click.ClickException(str(problem)) from problem


def _run_quarter(path: Path) -> None:
    quarter = Quarter(path)
    try:
        quarter.live()
    finally:
        quarter.close()
    click.echo(f"January to March 2024 of Lumen GmbH, a seller in Berlin: {path}")


def _run(path: Path, console: Console) -> None:
    start = time.perf_counter()
    console.print(f"Reading the flights of {YEAR} ...")
    flights = read_flights()
    year = Year(path)
    try:
        key = year.begin()
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("flights taken in and billed by the month"),
            TimeElapsedColumn(),
            console=console,
        ) as progress:
            task = progress.add_task(str(YEAR), total=len(flights))
            year.live(flights, lambda count: progress.advance(task, count))
        year.end()
        _print_revenue(year, console)
        _print_invoice(year, console)
        _print_credits(year, console)
    finally:
        year.close()
    spent = time.perf_counter() - start
    console.print(f"{len(flights):,} flights, 16 airlines, 12 months: {spent:.0f} seconds, all of it in {path}.\n")
    console.print("Look at it in a browser: this prints a link to the console, and serves the API too:")
    click.echo(f"  {_program()} serve --db {path}")
    console.print("Ask the API (its reference is http://127.0.0.1:8000/docs):")
    click.echo(
        f'  curl -H "Authorization: Bearer {key}"'
        " 'http://127.0.0.1:8000/api/v1/invoices?external_customer_id=UA&per_page=1'"
    )


def _program() -> str:
    """The name under which this program was called."""
    called = sys.argv[0]
    return "python -m usagebill" if called.endswith("__main__.py") else called


def _money(cents: int) -> str:
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02d}"


def _print_revenue(year: Year, console: Console) -> None:
    table = Table(title=f"Billed for each month of {YEAR}, in USD, tax included", header_style="bold", box=None)
    table.add_column("airline")
    for name in (*_MONTHS, "year"):
        table.add_column(name, justify="right")
    revenue = year.revenue()
    for carrier, months in revenue.items():
        cells = [f"{months.get(month, 0) // 100:,}" for month in range(1, 13)]
        table.add_row(carrier, *cells, f"{sum(months.values()) // 100:,}")
    totals = [sum(months.get(month, 0) for months in revenue.values()) for month in range(1, 13)]
    table.add_section()
    table.add_row("all", *[f"{cents // 100:,}" for cents in totals], f"{sum(totals) // 100:,}", style="bold")
    console.print(table)
    console.print()


def _print_invoice(year: Year, console: Console) -> None:
    billing, month, revenue = year.billing, _SHOWN_MONTH, year.revenue()
    carrier = max(revenue, key=lambda carrier: revenue[carrier][month])
    shown: dict[str, Any] = next(
        billing.view(billing.invoices.get(invoice.id))
        for invoice in year.invoices()
        if billing.customers.get(carrier).id == invoice.customer_id and invoice.issuing_date.month == month + 1
    )
    title = f"Invoice {shown['number']} of {shown['issuing_date']} to {airlines()[carrier]}"
    table = Table(title=title, header_style="bold", box=None)
    table.add_column("what")
    for name in ("units", "events", "amount"):
        table.add_column(name, justify="right")
    for fee in shown["fees"]:
        item = fee["item"]
        groups = ", ".join(f"{name} {value}" for name, value in (item["grouped_by"] or {}).items() if value)
        name = item["filter_invoice_display_name"] or item["invoice_display_name"] or item["name"]
        table.add_row(
            f"{name} ({groups})" if groups else name,
            f"{Decimal(fee['units']):,f}".removesuffix(".0"),
            "" if fee["events_count"] is None else f"{fee['events_count']:,}",
            _money(fee["amount_cents"]),
        )
    table.add_section()
    table.add_row("without tax", "", "", _money(shown["sub_total_excluding_taxes_amount_cents"]))
    for tax in shown["applied_taxes"]:
        table.add_row(f"{tax['tax_name']}, {tax['tax_rate']} %", "", "", _money(tax["amount_cents"]))
    table.add_row("total", "", "", f"{shown['currency']} {_money(shown['total_amount_cents'])}", style="bold")
    console.print(table)
    console.print()


def _print_credits(year: Year, console: Console) -> None:
    name = airlines()[PREPAID]
    table = Table(title=f"Prepaid credits of {name}, worth USD 1 each", header_style="bold", box=None)
    table.add_column("on")
    table.add_column("what")
    for column in ("credits", "left", "still to pay"):
        table.add_column(column, justify="right")
    for move, invoice, balance in year.credits():
        day = (move.settled_at or move.created_at).astimezone(ZONE).date()
        number = "" if invoice is None else invoice.number
        what = f"bought with {number}" if move.is_inbound else f"used for {number}"
        sign = "" if move.is_inbound else "-"
        due = "" if invoice is None or move.is_inbound else _money(invoice.total_amount_cents)
        table.add_row(str(day), what, f"{sign}{move.credit_amount:,.2f}", f"{balance:,.2f}", due)
    console.print(table)
    console.print()
