"""`usagebill keys`: API keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TypeVar

import click

from usagebill.cli.options import (
    as_json,
    database,
    instant,
    named,
    opened,
    organization_option,
    print_json,
    print_table,
)
from usagebill.core.api_keys import MODES, RESOURCES, ApiKey, all_permissions
from usagebill.operations import api_keys
from usagebill.requests.inputs import ABSENT
from usagebill.views.api_keys import masked_value
from usagebill.views.formats import instant_text

F = TypeVar("F", bound=Callable[..., object])

_EVERYTHING = "everything"


def _of_organization(command: F) -> F:
    return database()(as_json(organization_option(command)))


@click.group()
def keys() -> None:
    """Create, list, rotate and revoke API keys. Only hashes are kept: a key's value is shown once."""


def _permissions(texts: tuple[str, ...]) -> Mapping[str, tuple[str, ...]] | None:
    """`customer`, `event:write`, `invoice:read` as a map of permissions; None if there are none."""
    permissions: dict[str, tuple[str, ...]] = {}
    for text in texts:
        resource, colon, modes = text.partition(":")
        wanted = tuple(modes.split(",")) if colon else MODES
        if resource not in RESOURCES:
            raise click.UsageError(f"no resource {resource!r} of --permission {text}; there are {', '.join(RESOURCES)}")
        if not set(wanted) <= set(MODES):
            raise click.UsageError(f"no such modes of --permission {text}: read, write or read,write")
        permissions[resource] = tuple(dict.fromkeys((*permissions.get(resource, ()), *wanted)))
    return permissions or None


def _shown(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "value": masked_value(key),
        "permissions": _EVERYTHING
        if key.permissions == all_permissions()
        else {resource: list(modes) for resource, modes in key.permissions.items() if modes},
        "created_at": instant_text(key.created_at),
        "expires_at": instant_text(key.expires_at),
        "last_used_at": instant_text(key.last_used_at),
    }


def _print_new(key: ApiKey, value: str, json_output: bool) -> None:
    if json_output:
        print_json({**_shown(key), "value": value})
    else:
        click.echo(f"id       {key.id}\nAPI key  {value}  (shown this once)")


@keys.command()
@click.option("--name", help="What the key is for.")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    metavar="RESOURCE[:MODES]",
    help="What the key may do, such as event:write, invoice:read or customer:read,write; may be repeated."
    " Whatever is not named is denied. Without it the key may do everything.",
)
@click.option("--expires-at", type=instant, metavar="TIME", help="When the key expires (default: never).")
@_of_organization
def create(
    name: str | None,
    permissions: tuple[str, ...],
    expires_at: datetime | None,
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """Create a key and show its value, this once."""
    wanted = _permissions(permissions)
    with opened(path, organization) as billing:
        key, value = billing.writing(lambda work: api_keys.create(work, name, wanted, expires_at))
    _print_new(key, value, json_output)


@keys.command("list")
@_of_organization
def list_all(path: str, organization: str | None, json_output: bool) -> None:
    """List the valid keys, their values masked."""
    with opened(path, organization) as billing:
        keys = billing.reading(api_keys.list_live)
    rows = [_shown(key) for key in keys]
    if json_output:
        print_json(rows)
        return
    for row, key in zip(rows, keys, strict=True):
        if row["permissions"] != _EVERYTHING:
            row["permissions"] = _summary(key.permissions)
    print_table(("id", "name", "value", "permissions", "expires_at", "last_used_at"), rows, "no keys")


def _summary(permissions: Mapping[str, tuple[str, ...]]) -> str:
    return " ".join(f"{resource}:{','.join(modes)}" for resource, modes in permissions.items() if modes)


def _named(id: str) -> AbstractContextManager[None]:
    return named(f"no valid key has the id {id}; `usagebill keys list` shows those that are")


@keys.command()
@click.argument("id")
@click.option("--name", help="The new key's name (default: the old key's).")
@click.option(
    "--expires-at",
    type=instant,
    metavar="TIME",
    help="When the old key expires; until then both work (default: at once).",
)
@_of_organization
def rotate(
    id: str, name: str | None, expires_at: datetime | None, path: str, organization: str | None, json_output: bool
) -> None:
    """Replace a key by a new one with the same permissions."""
    with opened(path, organization) as billing, _named(id):
        key, value = billing.writing(lambda work: api_keys.rotate(work, id, name, expires_at))
    _print_new(key, value, json_output)


@keys.command()
@click.argument("id")
@click.option("--name", help="The new name.")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    metavar="RESOURCE[:MODES]",
    help="The key's new permissions, as in `create`; may be repeated.",
)
@_of_organization
def update(
    id: str,
    name: str | None,
    permissions: tuple[str, ...],
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """Rename a key, or replace its permissions."""
    wanted = _permissions(permissions)
    with opened(path, organization) as billing, _named(id):
        key = billing.writing(
            lambda work: api_keys.update(
                work,
                id,
                name=ABSENT if name is None else name,
                permissions=ABSENT if wanted is None else wanted,
            )
        )
    if json_output:
        print_json(_shown(key))
    else:
        click.echo(f"changed {key.id}")


@keys.command()
@click.argument("id")
@_of_organization
def revoke(id: str, path: str, organization: str | None, json_output: bool) -> None:
    """Revoke a key at once. The last key without an expiry cannot be revoked: create another first."""
    with opened(path, organization) as billing, _named(id):
        key = billing.writing(lambda work: api_keys.revoke(work, id))
    if json_output:
        print_json(_shown(key))
    else:
        click.echo(f"revoked {key.id}")
