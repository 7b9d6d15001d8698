"""`usagebill clock`: a check of the machine's clock."""

from __future__ import annotations

import sys

import click

from usagebill.cli.options import as_json, database, opened, print_json, settings_options
from usagebill.logs import configure
from usagebill.settings import Settings
from usagebill.views.formats import instant_text

__all__ = ["clock"]


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
    """Compare this machine's clock with the newest instant in the database.

    If it is more than five minutes behind, or more than --clock-ahead-days ahead, nothing is written until it is
    accepted, and this command exits with 1.
    """
    configure(level="critical")
    with opened(path, settings=settings) as billing:
        watch = billing.clock_watch
        if confirm:
            watch.confirm()
        problem = watch.problem()
        newest = watch.newest()
        shown = {
            "clock": instant_text(billing.clock.now()),
            "newest": None if newest is None else instant_text(newest),
            "problem": None if problem is None else problem.code,
        }
    if json_output:
        print_json(shown)
    else:
        click.echo(str(problem) if problem else f"the clock is right: {shown['clock']}")
    sys.exit(1 if problem else 0)
