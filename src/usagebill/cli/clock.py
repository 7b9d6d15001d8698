"""`usagebill clock`: a check of the machine's clock."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from usagebill.cli.options import as_json, database, opened, print_json, settings_options
from usagebill.core.invoices.records import BillingPeriod
from usagebill.process.logs import configure
from usagebill.process.settings import Settings
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import desc, more
from usagebill.views.formats import instant_text


@click.command()
@click.option(
    "--confirm",
    is_flag=True,
    help="Accept the machine's clock as it is, whatever the newest time in the database.",
)
@database()
@settings_options
@as_json
def clock(confirm: bool, path: str, settings: Settings, json_output: bool) -> None:
    """Compare the machine's clock with the database's.

    The database's is the newest instant in it.

    It also says if the database was billed ahead of the clock.

    If it is more than five minutes behind, or more than --clock-ahead-days ahead, nothing is written until it is
    accepted, and this command exits with 1.
    """
    configure(level="critical")
    with opened(path, settings=settings) as billing:
        watch = billing._system.clock_watch
        if confirm:
            watch.confirm()
        problem = watch.problem()
        newest = watch.newest()
        ahead = billing.reading(_billed_ahead)
        shown = {
            "clock": instant_text(billing.clock.now()),
            "newest": None if newest is None else instant_text(newest),
            "problem": None if problem is None else problem.code,
            "billed_ahead": None if ahead is None else instant_text(ahead),
        }
    if json_output:
        print_json(shown)
    else:
        click.echo(str(problem) if problem else f"the clock is right: {shown['clock']}")
        if ahead is not None:
            click.echo(
                f"the database is ahead of it: billed until {shown['billed_ahead']}; events of periods that are billed"
                " are listed by `usagebill events unbilled` (period_already_billed)"
            )
    sys.exit(1 if problem else 0)


def _billed_ahead(reader: Reader) -> datetime | None:
    """The latest instant as of which the organization was billed ahead of the clock; None if it was not."""
    last = reader.tx.first(BillingPeriod, more("created_at", reader.now), order=[desc("created_at")])
    return None if last is None else last.created_at
