"""`usagebill row-security`: a second barrier between the organizations of a PostgreSQL database."""

from __future__ import annotations

from typing import Any

import click

from usagebill.cli.options import database, refusals
from usagebill.storage.addresses import is_url
from usagebill.storage.stores import store_at


@click.command("row-security")
@click.argument("turned", required=False, type=click.Choice(["on", "off"]))
@database(must_exist=False)
def row_security(turned: str | None, path: str) -> None:
    """Show PostgreSQL's row security; turn it on or off.

    It protects each organization's rows from the others' sessions.

    Stop the services and workers of the database first, and start them again afterwards: they check only at start. The
    user must own the tables.
    """
    if not is_url(path):
        raise click.BadParameter("row security needs PostgreSQL: --db postgresql://...", param_hint="--db")
    with refusals(path):
        store: Any = store_at(path)
        try:
            changed, is_on, holds = store.turn_row_security(on=None if turned is None else turned == "on")
        finally:
            store.close()
    if changed:
        click.echo(f"turned {turned} for {len(changed)} tables")
    if not is_on:
        click.echo("row security is off")
    elif holds:
        click.echo("row security is on, and holds for this user")
    else:
        click.echo("row security is on, but does not hold for this user, who is a superuser or has BYPASSRLS")
