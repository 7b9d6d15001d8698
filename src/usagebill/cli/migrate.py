"""`usagebill move-to-postgresql`: from a file to a PostgreSQL database."""

from __future__ import annotations

from contextlib import suppress

import click

from usagebill.cli.options import refusals
from usagebill.storage.addresses import in_schema, is_url
from usagebill.storage.ports import Opening
from usagebill.storage.sqlite import SqliteStore
from usagebill.storage.sqlite.schema import MovedFile


@click.command("move-to-postgresql")
@click.option("--from", "source", required=True, type=click.Path(dir_okay=False, exists=True), help="The SQLite file.")
@click.option("--to", "target", metavar="URL", help="An empty database: postgresql://...")
@click.option("--schema", metavar="NAME", help="The schema of that database for our tables, if it has others.")
@click.option(
    "--take-back",
    is_flag=True,
    help="Instead, open a file again that was moved. Nothing that the database has got since is in it.",
)
def move_to_postgresql(source: str, target: str | None, schema: str | None, take_back: bool) -> None:
    """Move a file into PostgreSQL, and compare every row.

    Stop the services and workers of the file first: it is refused while one is seen. Nobody can write to the file
    meanwhile, and nothing opens it afterwards. An interrupted migration continues when it is run again; until it is
    complete, nothing else can open the database.
    """
    if (target is None) is not take_back:
        raise click.UsageError("one of --to and --take-back is needed")
    if target is None:
        with refusals(source):
            SqliteStore(source, opening=Opening(takes_back=True)).close()
        click.echo(f"{source} can be opened again: nothing else may go on with what it was moved to")
        return
    if not is_url(target):
        raise click.BadParameter("the destination must be a URL: postgresql://...", param_hint="--to")
    if schema is not None:
        try:
            target = in_schema(target, schema)
        except ValueError as problem:
            raise click.BadParameter(str(problem), param_hint="--schema") from problem
    with refusals(source), suppress(MovedFile):
        # Upgrades it to the schema of this usagebill. One that was moved is asked where to.
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
            with refusals(source):
                run(source, store, _tell)
        except MigrationFailed as problem:
            raise click.ClickException(str(problem)) from problem
        finally:
            store.close()
    click.echo("moved, and the same on both sides")


def _tell(table: str, count: int) -> None:
    if count:
        click.echo(f"{table}: {count:,}")
