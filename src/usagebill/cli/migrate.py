"""`usagebill migrate`: from a file to a PostgreSQL database."""

from __future__ import annotations

import click

from usagebill.cli.options import refusals
from usagebill.storage.addresses import is_url
from usagebill.storage.sqlite import SqliteStore


@click.command()
@click.option("--from", "source", required=True, type=click.Path(dir_okay=False, exists=True), help="The SQLite file.")
@click.option("--to", "target", required=True, metavar="URL", help="An empty database: postgresql://...")
def migrate(source: str, target: str) -> None:
    """Move a file into a PostgreSQL database, and compare every row of both.

    Stop the services and workers of the file first: anything they write meanwhile is not moved. The file is only read.
    An interrupted migration continues when it is run again; until it is complete, nothing else can open the database.
    """
    if not is_url(target):
        raise click.BadParameter("the destination must be a URL: postgresql://...", param_hint="--to")
    with refusals(source):
        # Upgrades it to the schema of this usagebill.
        SqliteStore(source).close()
    with refusals(target):
        try:
            from usagebill.storage.postgresql import PostgresStore
            from usagebill.storage.postgresql.migration import MigrationFailed, migrate as run
        except ImportError as problem:
            raise click.ClickException(
                "the PostgreSQL driver is missing: pip install 'usagebill[postgresql]'"
            ) from problem
        store = PostgresStore(target, migrating=True)
        try:
            run(source, store, _tell)
        except MigrationFailed as problem:
            raise click.ClickException(str(problem)) from problem
        finally:
            store.close()
    click.echo("moved, and the same on both sides")


def _tell(table: str, count: int) -> None:
    if count:
        click.echo(f"{table}: {count:,}")
