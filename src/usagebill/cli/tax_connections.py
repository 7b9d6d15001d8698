"""`usagebill tax-connections`: the tax providers that customers can be linked to."""

from __future__ import annotations

from typing import Any

import click

from usagebill.cli.connections import (
    add_delete,
    add_list,
    named_connection,
    print_connection,
    sent_options,
    shown_connection,
)
from usagebill.cli.options import as_json, database, opened, organization_option
from usagebill.core.tax_providers import KINDS

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
        shown = shown_connection(billing, made)
    print_connection(shown, json_output)


add_list(
    tax_connections,
    lambda billing: billing.tax_connections,
    ("kind", "code", "name", "url", "has_api_key"),
)


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
    sent = sent_options(options)
    with opened(path, organization) as billing, named_connection(tax_connections, code):
        shown = shown_connection(billing, billing.tax_connections.update(code, **sent))
    print_connection(shown, json_output)


add_delete(
    tax_connections,
    lambda billing: billing.tax_connections,
    "Delete a connection; its customers then pay the organization's own taxes again.",
)
