"""`usagebill lists`: the totals of lists."""

from __future__ import annotations

import click

from usagebill.cli.options import as_json, database, opened, print_json
from usagebill.operations import organizations


@click.group()
def lists() -> None:
    """Manage the kept totals of lists."""


@lists.command()
@click.option("--organization", envvar="USAGEBILL_ORGANIZATION", show_envvar=True, help="Its id (default: all).")
@database()
@as_json
def recount(organization: str | None, path: str, json_output: bool) -> None:
    """Recount the records of lists, and correct the totals that differ.

    Other writers wait while it counts. `usagebill audit` names the totals that differ.
    """
    corrected: dict[str, list[str]] = {}
    with opened(path, organization) as billing:
        chosen = [billing.organization] if organization else billing.store.read(None, organizations.find_all)
    for recounted in chosen:
        with opened(path, recounted.id) as billing:
            corrected[recounted.id] = billing.lists.recount()
    if json_output:
        print_json({"organizations": [{"id": id, "corrected": tables} for id, tables in corrected.items()]})
    else:
        for shown in chosen:
            click.echo(f"{shown.name}: {', '.join(corrected[shown.id]) or 'nothing'} corrected")
