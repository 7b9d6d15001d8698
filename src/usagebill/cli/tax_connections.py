"""`usagebill tax-connections`: the tax providers that customers can be linked to."""

from __future__ import annotations

from typing import Any

import click

from usagebill.billing import Billing
from usagebill.cli.connections import (
    add_create,
    add_delete,
    add_list,
    add_update,
)
from usagebill.core.tax_providers import KINDS


def _item_codes(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    item_codes = {}
    for text in texts:
        code, equals, theirs = text.partition("=")
        if not code or not equals or not theirs:
            raise click.UsageError(f"--item takes OUR_CODE=THEIR_CODE, not {text}")
        item_codes[code] = theirs
    return item_codes or None


_api_key = click.option(
    "--api-key", envvar="USAGEBILL_TAX_API_KEY", show_envvar=True, help="The API key that we send to it."
)
_items = click.option(
    "--item",
    "item_codes",
    multiple=True,
    callback=_item_codes,
    metavar="CODE=CODE",
    help="Our code of a billable metric, add-on or plan, and the provider's; may be repeated.",
)


def _operations(billing: Billing) -> Any:
    return billing.tax_connections


@click.group("tax-connections")
def tax_connections() -> None:
    """Connect to tax providers.

    They calculate the taxes of the customers linked to them."""


add_create(tax_connections, _operations, KINDS, "Connect to a provider.", _api_key, _items)
add_list(
    tax_connections,
    _operations,
    ("kind", "code", "name", "url", "has_api_key"),
)


add_update(
    tax_connections,
    _operations,
    "Change a connection; options that are not given stay as they are. `--item` replaces all items.",
    _api_key,
    _items,
)
add_delete(
    tax_connections,
    _operations,
    "Delete a connection; its customers then pay the organization's own taxes again.",
)
