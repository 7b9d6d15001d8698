"""Shared by the commands for tax, sync and payment connections: listing, deleting and printing connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import click

from usagebill.billing import Billing
from usagebill.cli.options import as_json, database, named, opened, organization_option, print_json, print_table

# The operations of one kind of connections, such as `billing.tax_connections`.
Operations = Callable[[Billing], Any]
# Adds an option to a command.
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def shown_connection(billing: Billing, connection: object) -> dict[str, Any]:
    """The connection as the API shows it, without secrets."""
    return dict(billing.view(connection))


def print_connection(shown: Mapping[str, Any], json_output: bool) -> None:
    """Print a connection as JSON, or field by field; mappings as `key=value` pairs."""
    if json_output:
        print_json(shown)
        return
    width = max(map(len, shown))
    for name, value in shown.items():
        text = " ".join(f"{key}={item}" for key, item in value.items()) if isinstance(value, Mapping) else value
        click.echo(f"{name:{width}}  {text}")


def named_connection(group: click.Group, code: str) -> AbstractContextManager[None]:
    """Report an unknown code in the words of the command line."""
    return named(f"no connection has the code {code}: see `usagebill {group.name} list`")


def sent_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options present on the command line."""
    return {name: value for name, value in options.items() if value is not None}


def add_create(group: click.Group, operations: Operations, kinds: Sequence[str], text: str, *options: Option) -> None:
    """Add the command `create` to the group, with the options of every connection and these."""

    @group.command("create", help=text)
    @click.option(
        "--kind", type=click.Choice(kinds), required=True, help="The `integration_type` of the customers' links."
    )
    @click.option("--code", required=True, help="Their `integration_code`.")
    @click.option("--name", help="Display name (default: its code).")
    @click.option("--url", required=True, help="The URL that documents are posted to: theirs, or a bridge's.")
    @_with(options)
    @database()
    @organization_option
    @as_json
    def create(path: str, organization: str | None, json_output: bool, **sent: Any) -> None:
        with opened(path, organization) as billing:
            shown = shown_connection(billing, operations(billing).create(**sent_options(sent)))
        print_connection(shown, json_output)


def add_update(group: click.Group, operations: Operations, text: str, *options: Option) -> None:
    """Add the command `update` to the group, with the options of every connection and these."""

    @group.command("update", help=text)
    @click.argument("code")
    @click.option("--name", help="Display name.")
    @click.option("--url", help="The URL that documents are posted to.")
    @_with(options)
    @database()
    @organization_option
    @as_json
    def update(code: str, path: str, organization: str | None, json_output: bool, **sent: Any) -> None:
        with opened(path, organization) as billing, named_connection(group, code):
            shown = shown_connection(billing, operations(billing).update(code, **sent_options(sent)))
        print_connection(shown, json_output)


def _with(options: Sequence[Option]) -> Option:
    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def add_list(group: click.Group, operations: Operations, columns: Sequence[str]) -> None:
    """Add the command `list` to the group; its table has these columns."""

    @group.command("list")
    @database()
    @organization_option
    @as_json
    def list_all(path: str, organization: str | None, json_output: bool) -> None:
        """List the connections, oldest first."""
        with opened(path, organization) as billing:
            rows = [shown_connection(billing, connection) for connection in operations(billing).list()]
        if json_output:
            print_json(rows)
        else:
            print_table(tuple(columns), rows, f"no {str(group.name).replace('-', ' ')}")


def add_delete(group: click.Group, operations: Operations, text: str) -> None:
    """Add the command `delete` to the group; `text` says what happens to the connection's customers."""

    @group.command("delete", help=text)
    @click.argument("code")
    @database()
    @organization_option
    @as_json
    def delete(code: str, path: str, organization: str | None, json_output: bool) -> None:
        with opened(path, organization) as billing, named_connection(group, code):
            deleted = operations(billing).delete(code)
            shown = shown_connection(billing, deleted)
        if json_output:
            print_json(shown)
        else:
            click.echo(f"deleted {deleted.kind} {deleted.code}")
