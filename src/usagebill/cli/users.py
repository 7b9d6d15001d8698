"""`usagebill users`: who signs in to the console."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

import click

from usagebill.cli.options import (
    as_json,
    database,
    named,
    opened,
    organization_option,
    print_json,
    print_table,
    settings_options,
)
from usagebill.core.users import Role, User
from usagebill.operations import users as operations
from usagebill.operations.users import SignInLink
from usagebill.process.settings import Settings
from usagebill.views.formats import instant_text

F = TypeVar("F", bound=Callable[..., object])


def _of_organization(command: F) -> F:
    return database()(as_json(organization_option(command)))


@click.group()
def users() -> None:
    """Add, list and remove users of the console. A link signs in once, within 24 hours."""


def _print_link(link: SignInLink, json_output: bool) -> None:
    if json_output:
        print_json({**_shown(link.user), "url": link.url, "url_expires_at": instant_text(link.expires_at)})
    else:
        click.echo(f"user  {link.user.email}  {link.user.role}\nlink  {link.url}  (signs in once, within 24 hours)")


def _shown(user: User) -> dict[str, object]:
    return {"id": user.id, "email": user.email, "role": user.role, "created_at": instant_text(user.created_at)}


@users.command()
@click.argument("address")
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True, help="What the user may do.")
@settings_options
@_of_organization
def add(address: str, role: str, path: str, organization: str | None, settings: Settings, json_output: bool) -> None:
    """Add a user, and show the link that signs in."""
    with opened(path, organization, settings=settings) as billing:
        link = billing.writing(lambda work: operations.add(work, operations.UserInput(email=address, role=role)))
    _print_link(link, json_output)


@users.command()
@click.argument("address")
@settings_options
@_of_organization
def link(address: str, path: str, organization: str | None, settings: Settings, json_output: bool) -> None:
    """Show a new link for a user; earlier ones that nobody opened end."""
    with opened(path, organization, settings=settings) as billing, _named(address):
        made = billing.writing(lambda work: operations.link(work, operations.named(work, address).id))
    _print_link(made, json_output)


@users.command("list")
@_of_organization
def list_all(path: str, organization: str | None, json_output: bool) -> None:
    """List the users, oldest first."""
    with opened(path, organization) as billing:
        rows = [_shown(user) for user in billing.reading(operations.everybody)]
    if json_output:
        print_json(rows)
    else:
        print_table(("id", "email", "role", "created_at"), rows, "no users; `usagebill users add` adds the first")


@users.command()
@click.argument("address")
@_of_organization
def remove(address: str, path: str, organization: str | None, json_output: bool) -> None:
    """Remove a user and end the user's sessions. The last administrator cannot be removed."""
    with opened(path, organization) as billing, _named(address):
        user = billing.writing(lambda work: operations.remove(work, operations.named(work, address).id))
    if json_output:
        print_json(_shown(user))
    else:
        click.echo(f"removed {user.email}")


def _named(address: str) -> AbstractContextManager[None]:
    return named(f"no user has the address {address}; `usagebill users list` shows them all")
