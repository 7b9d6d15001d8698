"""`usagebill tax-connections`: the tax providers that customers can be linked to."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import click

from usagebill.billing import Billing
from usagebill.cli.options import as_json, database, named, opened, organization_option, print_json, print_table
from usagebill.core.tax_providers import KINDS, TaxConnection

__all__ = ["tax_connections"]

_api_key = click.option(
    "--api-key", envvar="USAGEBILL_TAX_API_KEY", show_envvar=True, help="The API key that we send to it."
)
_items = click.option(
    "--item",
    "items",
    multiple=True,
    metavar="CODE=CODE",
    help="Our code of a billable metric, add-on or plan, and the provider's; may be repeated.",
)


@click.group("tax-connections")
def tax_connections() -> None:
    """Connect to tax providers, which calculate the taxes of the customers linked to them."""


def _item_codes(texts: tuple[str, ...]) -> dict[str, str]:
    item_codes = {}
    for text in texts:
        code, equals, theirs = text.partition("=")
        if not code or not equals or not theirs:
            raise click.UsageError(f"--item takes OUR_CODE=THEIR_CODE, not {text}")
        item_codes[code] = theirs
    return item_codes


def _shown(billing: Billing, connection: TaxConnection) -> dict[str, Any]:
    return dict(billing.view(connection))


def _print(shown: dict[str, Any], json_output: bool) -> None:
    if json_output:
        print_json(shown)
        return
    for name, value in shown.items():
        if name == "item_codes":
            value = " ".join(f"{code}={theirs}" for code, theirs in value.items())
        click.echo(f"{name:12}  {value}")


def _named(code: str) -> AbstractContextManager[None]:
    return named(f"no connection has the code {code}: see `usagebill tax-connections list`")


@tax_connections.command()
@click.option("--kind", type=click.Choice(KINDS), required=True, help="The `integration_type` of the customers' links.")
@click.option("--code", required=True, help="Their `integration_code`.")
@click.option("--name", help="Display name (default: its code).")
@click.option("--url", required=True, help="The URL that documents are posted to: the provider, or a bridge to it.")
@_api_key
@_items
@database()
@organization_option
@as_json
def create(
    kind: str,
    code: str,
    name: str | None,
    url: str,
    api_key: str | None,
    items: tuple[str, ...],
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """Connect to a provider."""
    codes = _item_codes(items)
    with opened(path, organization) as billing:
        made = billing.tax_connections.create(
            kind=kind, code=code, name=name or code, url=url, api_key=api_key, item_codes=codes
        )
        shown = _shown(billing, made)
    _print(shown, json_output)


@tax_connections.command("list")
@database()
@organization_option
@as_json
def list_all(path: str, organization: str | None, json_output: bool) -> None:
    """List the connections, oldest first."""
    with opened(path, organization) as billing:
        rows = [_shown(billing, connection) for connection in billing.tax_connections.list()]
    if json_output:
        print_json(rows)
    else:
        print_table(("kind", "code", "name", "url", "has_api_key"), rows, "no tax connections")


@tax_connections.command()
@click.argument("code")
@click.option("--name", help="Display name.")
@click.option("--url", help="The URL that documents are posted to.")
@_api_key
@_items
@database()
@organization_option
@as_json
def update(
    code: str,
    name: str | None,
    url: str | None,
    api_key: str | None,
    items: tuple[str, ...],
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """Change a connection; options that are not given stay as they are. `--item` replaces all items."""
    options: dict[str, Any] = {"name": name, "url": url, "api_key": api_key, "item_codes": _item_codes(items) or None}
    sent = {field: value for field, value in options.items() if value is not None}
    with opened(path, organization) as billing, _named(code):
        shown = _shown(billing, billing.tax_connections.update(code, **sent))
    _print(shown, json_output)


@tax_connections.command()
@click.argument("code")
@database()
@organization_option
@as_json
def delete(code: str, path: str, organization: str | None, json_output: bool) -> None:
    """Delete a connection; its customers then pay the organization's own taxes again."""
    with opened(path, organization) as billing, _named(code):
        ended = billing.tax_connections.delete(code)
        shown = _shown(billing, ended)
    if json_output:
        print_json(shown)
    else:
        click.echo(f"deleted {ended.kind} {ended.code}")
