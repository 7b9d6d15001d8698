"""`usagebill usage`: running totals of usage."""

from __future__ import annotations

import click

from usagebill.cli.options import as_json, database, opened, print_json
from usagebill.operations import organizations


@click.group()
def usage() -> None:
    """Manage the running totals of usage."""


@usage.command()
@click.option("--organization", envvar="USAGEBILL_ORGANIZATION", show_envvar=True, help="Its id (default: all).")
@database()
@as_json
def rebuild(organization: str | None, path: str, json_output: bool) -> None:
    """Drop the running totals of usage and rebuild them from the events.

    Until they are rebuilt, usage is counted from the events, with the same results. `usagebill audit` checks them.
    """
    rebuilt: dict[str, int] = {}
    with opened(path, organization) as billing:
        chosen = [billing.organization] if organization else billing.store.read(None, organizations.find_all)
    for rebuilt_organization in chosen:
        with opened(path, rebuilt_organization.id) as billing:
            rebuilt[rebuilt_organization.id] = billing.usage.rebuild()
    if json_output:
        print_json({"organizations": [{"id": id, "series": series} for id, series in rebuilt.items()]})
    else:
        for shown in chosen:
            click.echo(f"{shown.name}: {rebuilt[shown.id]} series rebuilt")
