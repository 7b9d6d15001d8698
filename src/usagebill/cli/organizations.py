"""`usagebill organizations`: the tenants of a file."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click
from click.core import ParameterSource

from usagebill.cli.options import (
    as_json,
    database,
    named,
    opened,
    organization_option,
    print_json,
    print_table,
    private_networks_option,
    refusals,
)
from usagebill.core.api_logs import without_signature
from usagebill.core.errors import NotAllowed
from usagebill.operations import api_keys, organizations as operations
from usagebill.operations.webhooks import endpoints_of_only_organization
from usagebill.outside.bounded_http import is_private
from usagebill.process.settings import Settings
from usagebill.storage.archives import UnusableArchive, contents_of, read_archive, rows_of, write_archive
from usagebill.storage.stores import store_at
from usagebill.views.formats import instant_text


@click.group()
def organizations() -> None:
    """Create, limit, export and delete organizations.

    Each has its own customers, plans, invoices and keys."""


@organizations.command()
@click.argument("name")
@private_networks_option
@database()
@as_json
def create(name: str, private_networks: Literal["auto", "allowed", "refused"], path: str, json_output: bool) -> None:
    """Create an organization with a first API key, which is shown only now.

    The second one of a file ends the first one's webhooks to private addresses, unless --private-networks allows them
    wherever webhooks are sent from. The command says which.
    """
    with opened(path, settings=Settings(private_networks=private_networks)) as billing:
        ended = [
            without_signature(endpoint.webhook_url)
            for endpoint in billing.reading(endpoints_of_only_organization)
            if is_private(endpoint.webhook_url)
        ]
        made = billing.store.write(None, lambda tx: operations.create(tx, billing.clock.now(), name))
        key, value = billing.writing(lambda work: api_keys.create(work), made)
    if json_output:
        shown = {"id": made.id, "name": made.name, "api_key": {"id": key.id, "value": value}}
        print_json({**shown, "webhooks_ended": ended})
        return
    click.echo(f"organization  {made.id}  {made.name}\nAPI key       {value}  (shown this once)")
    if ended:
        click.echo(
            "These webhooks are no longer sent, as a file of several organizations sends none to private addresses"
            " (`--private-networks allowed` of serve and work permits them):",
            err=True,
        )
    for url in ended:
        click.echo(f"  {url}", err=True)


class _Limit(click.ParamType[int | None]):
    """A number from 1 on, or `none`."""

    name = "number|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        return None if value == "none" else int(click.IntRange(1).convert(value, param, ctx))


@organizations.command()
@click.option("--requests-per-second", type=_Limit(), help="Of its API keys, at all processes together.")
@click.option("--events-per-day", type=_Limit(), help="That requests bring on a day of UTC.")
@click.option("--customers", type=_Limit(), help="At a time.")
@database()
@organization_option
@as_json
def limit(path: str, organization: str | None, json_output: bool, **limits: int | None) -> None:
    """Limit what an organization may do, or show its limits. `none` lifts one; by default there are none."""
    source_of = click.get_current_context().get_parameter_source
    sent = {name: value for name, value in limits.items() if source_of(name) is not ParameterSource.DEFAULT}
    with opened(path, organization) as billing:
        known = billing.organizations.set_limits(**sent) if sent else billing.organizations.get()
    shown = asdict(known.limits)
    if json_output:
        print_json(shown)
        return
    for name, value in shown.items():
        click.echo(f"{name.replace('_', ' '):20}  {'none' if value is None else value}")


@organizations.command("list")
@database()
@as_json
def list_all(path: str, json_output: bool) -> None:
    """List the organizations of a file, oldest first."""
    with opened(path) as billing:
        organizations = billing.store.read(None, operations.find_all)
    rows = [{"id": item.id, "name": item.name, "created_at": instant_text(item.created_at)} for item in organizations]
    if json_output:
        print_json(rows)
    else:
        print_table(("id", "name", "created_at"), rows, "no organizations")


@organizations.command()
@click.argument("id")
@database()
def disable(id: str, path: str) -> None:
    """Refuse the keys of the organization with this ID and every change of it; its jobs stand still.

    Answers that other services still owe are stored, and reading it here goes on.
    """
    with opened(path) as billing, _named(id):
        made = billing.store.write(None, lambda tx: operations.disable(tx, id, billing.clock.now()))
    click.echo(f"{made.name} is disabled; `usagebill organizations enable {id}` undoes it")


@organizations.command()
@click.argument("id")
@database()
def enable(id: str, path: str) -> None:
    """Undo `disable`: jobs that have become due meanwhile run, each as of the instant it was due."""
    with opened(path) as billing, _named(id):
        made = billing.store.write(None, lambda tx: operations.enable(tx, id, billing.clock.now()))
    click.echo(f"{made.name} is enabled")


@organizations.command()
@click.argument("id")
@click.option("--output", "-o", metavar="FILE", help="The file.  [default: ID.zip]")
@database()
def export(id: str, output: str | None, path: str) -> None:
    """Write everything of the organization with this ID to a ZIP file of JSON lines and documents.

    Secrets are in it: keep it as you keep the database. `usagebill organizations import` makes a system of it.
    """
    target = output or f"{id}.zip"
    part = f"{target}.part"
    with opened(path, read_only=True) as billing, _named(id):
        now = billing.clock.now()
        chosen = billing.store.read(None, lambda tx: operations.find(tx, id))
        try:
            with open(part, "wb") as file:
                os.chmod(part, 0o600)
                contents = billing.store.read(id, lambda tx: write_archive(tx, chosen, now, file))
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
    os.replace(part, target)
    click.echo(f"{sum(contents.rows.values()):,} rows: {target}", err=True)


@organizations.command("import")
@click.argument("archive", type=click.Path(dir_okay=False, exists=True))
@database(must_exist=False)
def import_archive(archive: str, path: str) -> None:
    """Store an ARCHIVE of `organizations export` in a new database: everything, so that it bills on."""
    with refusals(path):
        store = store_at(path)
        try:
            with open(archive, "rb") as file:
                contents = store.write(None, lambda tx: read_archive(tx, file))
        except UnusableArchive as problem:
            raise click.ClickException(f"{archive}: {problem}") from problem
        finally:
            store.close()
    click.echo(f"{contents.name}: {sum(contents.rows.values()):,} rows")


@organizations.command()
@click.argument("id")
@click.option("--export", "archive", required=True, type=click.Path(dir_okay=False, exists=True), help="Its archive.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@database()
def delete(id: str, archive: str, yes: bool, path: str) -> None:
    """Remove every row of the organization with this ID, for good.

    It must be disabled, and the archive one that was exported since: nothing can be missing in it.
    """
    with opened(path) as billing, _named(id):
        try:
            with open(archive, "rb") as file:
                contents = contents_of(file)
            if not yes:
                click.confirm(f"Delete {contents.name} and its {sum(contents.rows.values()):,} rows?", abort=True)
            billing.store.write(None, lambda tx: operations.delete(tx, id, contents, rows_of(tx.scoped(id))))
        except (UnusableArchive, NotAllowed) as problem:
            raise click.ClickException(f"{archive}: {problem}") from problem
    click.echo(f"{contents.name} is deleted")


def _named(id: str) -> AbstractContextManager[None]:
    return named(f"no organization has the id {id}: see `usagebill organizations list`")
