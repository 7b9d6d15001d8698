"""`usagebill payment-connections`: the payment providers that customers can be linked to."""

from __future__ import annotations

import os
from pathlib import Path
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
from usagebill.cli.options import as_json, database, opened, organization_option, print_json, print_table
from usagebill.core.payment_providers import KINDS
from usagebill.core.payments import NoticeStatus

_ENVIRONMENT = "USAGEBILL_PAYMENT_"
_credentials = click.option(
    "--credential",
    "credentials",
    multiple=True,
    metavar="NAME=@FILE",
    help="A credential read from a file: secret_key, access_token, ... NAME= removes one. "
    f"Those not named are read from the environment ({_ENVIRONMENT}SECRET_KEY, ...).",
)
_redirect = click.option("--success-redirect-url", help="The page customers are sent to after paying.")
_live = click.option("--live/--test", default=None, help="Whether it moves real money (default: --test).")
_3ds = click.option(
    "--supports-3ds/--no-3ds", "supports_3ds", default=None, help="Whether customers may be asked to confirm charges."
)
_consent = click.option(
    "--require-consent/--no-consent",
    "require_terms_of_service_consent",
    default=None,
    help="Whether customers accept the terms of service on Stripe's pages.",
)
_prefix = click.option("--live-prefix", help="The prefix of Adyen's hosts for this account.")


@click.group("payment-connections")
def payment_connections() -> None:
    """Connect to payment providers.

    They collect the invoices of the customers linked to them."""


def _read(kind: str | None, texts: tuple[str, ...]) -> dict[str, str]:
    """The credentials from the options, else those of the kind from the environment."""
    names = {name for row in KINDS.values() for name in (*row.required, *row.optional)}
    sent: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in names or not equals or (value and not value.startswith("@")):
            raise click.UsageError("--credential takes NAME=@FILE, NAME one of " + ", ".join(sorted(names)))
        try:
            sent[name] = Path(value[1:]).read_text(encoding="utf-8").strip() if value else ""
        except OSError as problem:
            raise click.UsageError(f"--credential {name}: {problem.strerror}: {value[1:]}") from None
    wanted = names if kind is None else {*KINDS[kind].required, *KINDS[kind].optional}
    for name in wanted - set(sent):
        value = os.environ.get(f"{_ENVIRONMENT}{name.upper()}", "")
        if value:
            sent[name] = value
    return sent


@payment_connections.command()
@click.option("--kind", type=click.Choice(tuple(KINDS)), required=True, help="The customers' `payment_provider`.")
@click.option("--code", required=True, help="Their `payment_provider_code`.")
@click.option("--name", help="Display name (default: its code).")
@click.option("--url", help="The URL of its API (default: the provider's).")
@_redirect
@_live
@_3ds
@_consent
@_prefix
@_credentials
@database()
@organization_option
@as_json
def create(
    kind: str,
    code: str,
    name: str | None,
    credentials: tuple[str, ...],
    path: str,
    organization: str | None,
    json_output: bool,
    **settings: Any,
) -> None:
    """Connect to a provider."""
    sent = {**sent_options(settings), **_read(kind, credentials)}
    with opened(path, organization) as billing:
        made = billing.payment_connections.create(kind=kind, code=code, name=name or code, **sent)
        shown = shown_connection(billing, made)
    print_connection(shown, json_output)


add_list(
    payment_connections,
    lambda billing: billing.payment_connections,
    ("kind", "code", "name", "live", "accepts_notices", "notice_path"),
)


@payment_connections.command()
@click.argument("code")
@click.option("--name", help="Display name.")
@click.option("--url", help="The URL of its API.")
@_redirect
@_live
@_3ds
@_consent
@_prefix
@_credentials
@database()
@organization_option
@as_json
def update(
    code: str,
    credentials: tuple[str, ...],
    path: str,
    organization: str | None,
    json_output: bool,
    **settings: Any,
) -> None:
    """Change a connection; options that are not given stay as they are."""
    with opened(path, organization) as billing, named_connection(payment_connections, code):
        kind = billing.payment_connections.get(code).kind
        sent = {**sent_options(settings), **_read(kind, credentials)}
        shown = shown_connection(billing, billing.payment_connections.update(code, **sent))
    print_connection(shown, json_output)


add_delete(
    payment_connections,
    lambda billing: billing.payment_connections,
    "Delete a connection. Its customers then have no provider; payments stay.",
)


@payment_connections.command()
@click.option(
    "--status", type=click.Choice([status.value for status in NoticeStatus]), help="Only notices with this status."
)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="The most to list, newest first."
)
@database()
@organization_option
@as_json
def notices(status: str | None, limit: int, path: str, organization: str | None, json_output: bool) -> None:
    """List the notices of payment providers, newest first, with the outcome of each."""
    with opened(path, organization) as billing:
        rows = billing.view(billing.payment_connections.notices(per_page=limit, status=status))
    if json_output:
        print_json(rows)
    else:
        columns = ("created_at", "payment_provider_code", "type", "status", "reason")
        print_table(columns, rows, "no notices")
