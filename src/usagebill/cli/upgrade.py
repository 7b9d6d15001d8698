"""`usagebill upgrade`: the schema, as a step of its own."""

from __future__ import annotations

from time import monotonic

import click

from usagebill.cli.options import database, opened
from usagebill.process.logs import configure
from usagebill.storage.addresses import shown
from usagebill.storage.ports import Opening


@click.command()
@click.option(
    "--upgrade-anyway",
    is_flag=True,
    help="Upgrade also while processes of an older version are seen: they refuse every request until restarted.",
)
@database()
def upgrade(upgrade_anyway: bool, path: str) -> None:
    """Bring the database to the schema of this version.

    It is refused while processes are seen that could not go on beside the new schema: stop them first. Those of a
    version whose upgrade only adds something go on, and can be restarted one after the other.
    """
    configure()
    began = monotonic()
    opening = Opening(creates=False, beside_others=upgrade_anyway)
    with opened(path, deliver=False, opening=opening) as billing:
        click.echo(f"{shown(path)} has schema {billing.store.schema}, after {monotonic() - began:.1f} s")
