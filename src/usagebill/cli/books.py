"""`usagebill books`: closing months."""

from __future__ import annotations

import click

from usagebill.cli.options import as_json, database, opened, organization_option, print_json
from usagebill.core.errors import Invalid
from usagebill.queries.ledger import closed_until


@click.group()
def books() -> None:
    """Close the months of the ledger.

    `usagebill export ledger` writes it."""


@books.command()
@click.argument("month")
@organization_option
@database()
@as_json
def close(month: str, organization: str | None, path: str, json_output: bool) -> None:
    """Close MONTH (2024-03), and all before it: its movements never change any more.

    What comes later, such as a payment that arrived in MONTH and is recorded now, is dated the first open day; the day
    on which it happened stands beside it (document_date).
    """
    with opened(path, organization) as billing:
        try:
            closed = billing.ledger.close(month=month)
        except Invalid as problem:
            raise click.UsageError(f"{month} is not a month that is over, such as 2024-03") from problem
    if json_output:
        print_json({"last_day": closed.last_day.isoformat()})
    else:
        click.echo(f"closed until {closed.last_day}")


@books.command()
@organization_option
@database()
@as_json
def status(organization: str | None, path: str, json_output: bool) -> None:
    """Show until which day the books are closed."""
    with opened(path, organization, read_only=True) as billing:
        last_day = billing.reading(closed_until)
    if json_output:
        print_json({"last_day": None if last_day is None else last_day.isoformat()})
    else:
        click.echo("no month is closed" if last_day is None else f"closed until {last_day}")
