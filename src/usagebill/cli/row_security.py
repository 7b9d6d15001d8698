"""`usagebill row-security`: a second barrier between the organizations of a PostgreSQL database."""

from __future__ import annotations

from typing import Any

import click

from usagebill.cli.options import refusals
from usagebill.storage.addresses import is_url
from usagebill.storage.stores import store_at


@click.command("row-security")
@click.argument("turned", required=False, type=click.Choice(["on", "off"]))
@click.option("--db", required=True, envvar="USAGEBILL_DB", metavar="URL", help="The database: postgresql://...")
def row_security(turned: str | None, db: str) -> None:
    """Show whether PostgreSQL's row security protects each organization's rows; turn it on or off.

    Stop the services and workers of the database first, and start them again afterwards: they check only at start. The
    user must own the tables.
    """
    if not is_url(db):
        raise click.BadParameter("row security needs PostgreSQL: --db postgresql://...", param_hint="--db")
    with refusals(db):
        store: Any = store_at(db)
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
