"""`usagebill compare`: the cost of last month's usage under another price list."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import click

from usagebill.cli.options import database, opened, organization_option, print_table
from usagebill.cli.price_files import PriceFile, read_price_file
from usagebill.core.currencies import exponent, major_from_cents
from usagebill.core.formulas import escaped
from usagebill.core.numbers import decimal_text
from usagebill.core.plans import PlanDefinition
from usagebill.core.price_comparisons import (
    COLUMNS,
    ComparedLine,
    ComparedSubscription,
    LineKind,
    cells,
    last_month,
    summed,
)
from usagebill.operations.price_comparisons import comparisons, drafted_plan

_NAMES = {LineKind.PLAN: "plan", LineKind.MINIMUM_COMMITMENT: "minimum commitment"}


def _day(_: click.Context, __: click.Parameter, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as problem:
        raise click.BadParameter(f"{text!r} is not a date such as 2024-02-01") from problem


@click.command()
@click.argument("plan")
@click.argument("other")
@click.option("--from", "start", metavar="DATE", callback=_day, help="The first day.  [default: last month's]")
@click.option("--to", "end", metavar="DATE", callback=_day, help="The last day, included.  [default: last month's]")
@click.option("--format", "output", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@click.option("--raw", is_flag=True, help="CSV: texts exactly as they are, even if spreadsheets compute them.")
@organization_option
@database()
def compare(
    plan: str,
    other: str,
    start: date | None,
    end: date | None,
    output: str,
    raw: bool,
    organization: str | None,
    path: str,
) -> None:
    """Price the usage of PLAN's subscriptions under OTHER.

    OTHER is the code of a plan, or a JSON or YAML file of one.

    A file is a price list as `usagebill prices pull` prints it, with a plan of that code, or has the fields of POST
    /plans. Amounts are before taxes, coupons and credits. All usage is priced as one period in arrears, and amounts per
    interval by their share of days; trials are left out. Changes nothing, and reads from one snapshot.
    """
    if (start is None) != (end is None):
        raise click.UsageError("--from and --to go together")
    with opened(path, organization) as billing:
        first, last = last_month(billing.clock.now().date())
        period = (start or first, end or last)
        target: str | PlanDefinition = other
        if (file := Path(other)).suffix in (".json", ".yaml", ".yml"):
            fields = _fields(read_price_file(file), plan)
            target = billing.writing(lambda work: drafted_plan(work, fields))
        billing.reading(lambda reader: _write(comparisons(reader, plan, target, *period), output, *period, raw=raw))


def _fields(file: PriceFile, code: str) -> Mapping[str, Any]:
    """The plan in a file: the file itself, its `plan`, or that of a price list with this code."""
    content = file.content
    if isinstance(content.get("plans"), list):
        plans = [plan for plan in content["plans"] if isinstance(plan, Mapping) and plan.get("code") == code]
        if not plans:
            raise click.ClickException(f"{file.path} has no plan {code}")
        content = plans[0]
    elif isinstance(content.get("plan"), Mapping):
        content = content["plan"]
    return {name: value for name, value in content.items() if name != "entitlements"}


def _write(rows: Iterator[ComparedSubscription], output: str, start: date, end: date, *, raw: bool) -> None:
    if output == "csv":
        _csv(rows, str if raw else escaped)
    elif output == "json":
        _json(rows, start, end)
    else:
        _table(rows, start, end)


def _csv(rows: Iterator[ComparedSubscription], text: Callable[[str], str]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerows([text(cell) if isinstance(cell, str) else cell for cell in line] for line in cells(row))


def _json(rows: Iterator[ComparedSubscription], start: date, end: date) -> None:
    """One object, written subscription by subscription."""
    sums: dict[tuple[LineKind, str], ComparedLine] = {}
    click.echo(f'{{"from": "{start}", "to": "{end}", "subscriptions": [', nl=False)
    for position, row in enumerate(rows):
        sums = summed(sums, row.lines)
        shown = {
            "external_customer_id": row.external_customer_id,
            "external_subscription_id": row.external_subscription_id,
            "from": row.start.isoformat(),
            "to": row.end.isoformat(),
            "currency": row.currency,
            "own_prices": row.overridden,
            **_amounts(row),
            "lines": [_line(line) for line in row.lines],
        }
        click.echo(("," if position else "") + "\n" + json.dumps(shown, ensure_ascii=False), nl=False)
    totals: dict[str, Any] = {"lines": [_line(line) for line in sums.values()]}
    totals |= {
        "old_cents": sum(line.old_cents for line in sums.values()),
        "new_cents": sum(line.new_cents for line in sums.values()),
        "difference_cents": sum(line.difference_cents for line in sums.values()),
    }
    click.echo(f'\n], "total": {json.dumps(totals, ensure_ascii=False)}}}')


def _amounts(row: ComparedSubscription | ComparedLine) -> dict[str, Any]:
    return {"old_cents": row.old_cents, "new_cents": row.new_cents, "difference_cents": row.difference_cents}


def _line(line: ComparedLine) -> dict[str, Any]:
    return {"kind": str(line.kind), "code": line.code or None, "units": decimal_text(line.units), **_amounts(line)}


def _table(rows: Iterator[ComparedSubscription], start: date, end: date) -> None:
    sums: dict[tuple[LineKind, str], ComparedLine] = {}
    currency, listed, overridden = "", [], 0
    for row in rows:
        sums, currency = summed(sums, row.lines), row.currency
        overridden += row.overridden
        names = {"customer": row.external_customer_id, "subscription": row.external_subscription_id}
        listed.append({**names, **_shown(row, currency)})
    click.echo(f"{start} to {end}, before taxes, coupons and credits")
    print_table(("customer", "subscription", "old", "new", "difference"), listed, "no subscription was active then")
    if not listed:
        return
    click.echo()
    lines = [
        {"what": _NAMES.get(line.kind, line.code), "units": decimal_text(line.units), **_shown(line, currency)}
        for line in sums.values()
    ]
    lines = [{**line, "units": ""} if line["what"] in _NAMES.values() else line for line in lines]
    everything = ComparedLine(
        kind=LineKind.PLAN,
        code="",
        units=sum((line.units for line in sums.values()), start=next(iter(sums.values())).units * 0),
        old_cents=sum(line.old_cents for line in sums.values()),
        new_cents=sum(line.new_cents for line in sums.values()),
    )
    total = {"what": "total", "units": "", **_shown(everything, currency)}
    print_table(("what", "units", "old", "new", "difference"), [*lines, total], "")
    if overridden:
        click.echo(f"\n{overridden} of {len(listed)} subscriptions have prices of their own: those are the old ones")


def _shown(row: ComparedSubscription | ComparedLine, currency: str) -> dict[str, str]:
    amounts = {"old": row.old_cents, "new": row.new_cents, "difference": row.difference_cents}
    digits = exponent(currency)
    return {name: f"{major_from_cents(cents, currency):.{digits}f} {currency}" for name, cents in amounts.items()}
