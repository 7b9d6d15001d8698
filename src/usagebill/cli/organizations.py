"""`usagebill organizations`: the tenants of a file."""

from __future__ import annotations

import click

from usagebill.cli.options import as_json, database, opened, print_json, print_table
from usagebill.operations import api_keys, organizations as operations
from usagebill.views.formats import instant_text


@click.group()
def organizations() -> None:
    """Create and list organizations: each has its own customers, plans, invoices and keys."""


@organizations.command()
@click.argument("name")
@database()
@as_json
def create(name: str, path: str, json_output: bool) -> None:
    """Create an organization with a first API key, which is shown only now."""
    with opened(path) as billing:
        made = billing.store.write(None, lambda tx: operations.create(tx, billing.clock.now(), name))
        key, value = billing.writing(lambda work: api_keys.create(work), made)
    if json_output:
        print_json({"id": made.id, "name": made.name, "api_key": {"id": key.id, "value": value}})
    else:
        click.echo(f"organization  {made.id}  {made.name}\nAPI key       {value}  (shown this once)")


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
