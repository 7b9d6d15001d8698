"""`usagebill webhooks`: messages, their delivery, and the key that signs them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import click

from usagebill.billing import Billing
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
from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.core.errors import NotAllowed
from usagebill.core.webhooks import MessageStatus

_COLUMNS = ("id", "webhook_type", "status", "attempts", "http_status", "last_attempt_at", "endpoint", "response")
# The length of an answer in a table.
_SHOWN_OF_RESPONSE = 60
_endpoint = click.option("--endpoint", help="Only messages to the endpoint with this id.")
_event_types = click.option(
    "--type", "event_types", multiple=True, metavar="TYPE", help="Only messages of this type; may be repeated."
)


@click.group()
def webhooks() -> None:
    """List and resend webhooks, rotate their secrets."""


def _row(shown: dict[str, Any]) -> dict[str, Any]:
    # A message that was never attempted has no last attempt.
    response = (shown["response"] or "").partition("\n")[0]
    succeeded = shown["status"] == MessageStatus.SUCCEEDED
    return {
        **shown,
        "id": shown["svc_id"],
        "attempts": shown["retries"] + succeeded,
        "last_attempt_at": shown["updated_at"] if succeeded else shown["last_retried_at"],
        "response": response[:_SHOWN_OF_RESPONSE],
    }


@webhooks.command("list")
@click.option("--failed", is_flag=True, help="Only messages that have failed for good.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([str(status) for status in MessageStatus]),
    help="Only messages with this status; may be repeated.",
)
@_endpoint
@_event_types
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="The most to list.")
@database()
@organization_option
@as_json
def list_all(
    failed: bool,
    statuses: tuple[str, ...],
    endpoint: str | None,
    event_types: tuple[str, ...],
    limit: int,
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """List messages, last changed first."""
    wanted = (*statuses, MessageStatus.FAILED) if failed else statuses
    with opened(path, organization) as billing:
        page = billing.webhooks.list(
            statuses=list(wanted), webhook_endpoint_id=endpoint, event_types=list(event_types), per_page=limit
        )
        rows = [dict(shown) for shown in billing.view(page)]
    if json_output:
        print_json(rows)
        return
    print_table(_COLUMNS, [_row(shown) for shown in rows], "no failed webhooks" if failed else "no webhooks")
    if page.total_count > len(rows):
        click.echo(f"{len(rows)} of {page.total_count}; --limit shows more")


@webhooks.command()
@click.argument("id", required=False)
@click.option("--all", "every", is_flag=True, help="Resend every message that has failed for good.")
@_endpoint
@_event_types
@database()
@organization_option
@as_json
def resend(
    id: str | None,
    every: bool,
    endpoint: str | None,
    event_types: tuple[str, ...],
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """Deliver one message again, or with --all every message that was given up (`--endpoint`, `--type` narrow it).

    The next worker, or `usagebill run-due`, sends it. If that fails too, it is not retried automatically.
    """
    if (id is None) != every:
        raise click.UsageError("name one message by its id, or all failed ones with --all")
    if not every and (endpoint or event_types):
        raise click.UsageError("--endpoint and --type need --all")
    with opened(path, organization) as billing:
        count = _resent(billing, id, endpoint, event_types)
    if json_output:
        print_json({"resent_count": count})
    else:
        click.echo(f"{count} to be delivered once more" if count else "no failed webhooks")


def _resent(billing: Billing, id: str | None, endpoint: str | None, event_types: tuple[str, ...]) -> int:
    if id is None:
        with named(f"no endpoint has the id {endpoint}"):
            return billing.webhooks.resend_failed(webhook_endpoint_id=endpoint, event_types=list(event_types)).count
    with named(f"no message has the id {id}: see `usagebill webhooks list`"):
        try:
            billing.webhooks.resend(id)
        except NotAllowed as problem:
            raise click.ClickException(f"{problem.code}: message {id} was delivered") from problem
    return 1


@webhooks.command()
@database()
@organization_option
@as_json
def endpoints(path: str, organization: str | None, json_output: bool) -> None:
    """List the endpoints that messages are sent to, and since when they fail."""
    with opened(path, organization) as billing:
        rows = [dict(shown) for shown in billing.view(billing.webhook_endpoints.list(per_page=1000))]
    if json_output:
        print_json(rows)
        return
    unset = {"old_secret_expires_at": None, "failing_since": None}
    table = [{**unset, **row, "id": row["svc_id"]} for row in rows]
    print_table(("id", "webhook_url", "signature_algo", *unset), table, "no endpoints")


def _known_endpoint(id: str) -> AbstractContextManager[None]:
    return named(f"no endpoint has the id {id}: see `usagebill webhooks endpoints`")


_old_expires_at = click.option(
    "--old-expires-at",
    type=instant,
    metavar="TIME",
    help="When the old one stops signing; until then both do (default: in 24 hours).",
)
_at_once = click.option("--at-once", is_flag=True, help="The old one stops signing now.")


def _end_of_old(name: str, old_expires_at: datetime | None, *, at_once: bool) -> dict[str, Any]:
    """What `--old-expires-at` and `--at-once` choose, as the field `name` of the request."""
    if at_once and old_expires_at is not None:
        raise click.UsageError("the old one ends --at-once or --old-expires-at a time")
    if at_once or old_expires_at is not None:
        return {name: None if old_expires_at is None else old_expires_at.isoformat()}
    return {}


def _signs_until(until: str | None) -> str:
    return f"signs too until {until}" if until else "signs no longer"


@webhooks.command("rotate-secret")
@click.argument("endpoint")
@_old_expires_at
@_at_once
@database()
@organization_option
@as_json
def rotate_secret(
    endpoint: str,
    old_expires_at: datetime | None,
    at_once: bool,
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """Give an `hmac` endpoint a new secret, and show it, this once."""
    chosen = _end_of_old("old_secret_expires_at", old_expires_at, at_once=at_once)
    with opened(path, organization) as billing, _known_endpoint(endpoint):
        shown = billing.view(billing.webhook_endpoints.rotate_secret(endpoint, **chosen))
    if json_output:
        print_json(shown)
        return
    click.echo(f"secret      {shown['secret']}  (shown this once)")
    click.echo(f"old secret  {_signs_until(shown.get('old_secret_expires_at'))}")


@webhooks.command("end-old-secret")
@click.argument("endpoint")
@database()
@organization_option
def end_old_secret(endpoint: str, path: str, organization: str | None) -> None:
    """End the older of an endpoint's two secrets at once."""
    with opened(path, organization) as billing, _known_endpoint(endpoint):
        billing.webhook_endpoints.end_old_secret(endpoint)
    click.echo("one secret signs")


@webhooks.command("rotate-key")
@_old_expires_at
@_at_once
@database()
@organization_option
@as_json
def rotate_key(
    old_expires_at: datetime | None, at_once: bool, path: str, organization: str | None, json_output: bool
) -> None:
    """Sign `jwt` messages with a new key pair, and show its public key."""
    chosen = _end_of_old("old_key_expires_at", old_expires_at, at_once=at_once)
    with opened(path, organization) as billing:
        shown = billing.view(billing.webhooks.rotate_key(**chosen))
    if json_output:
        print_json(shown)
        return
    click.echo(shown["public_key"], nl=False)
    click.echo(f"the old key {_signs_until(shown.get('old_key_expires_at'))}", err=True)


@webhooks.command("end-old-key")
@database()
@organization_option
def end_old_key(path: str, organization: str | None) -> None:
    """End the older of two key pairs at once."""
    with opened(path, organization) as billing:
        billing.webhooks.end_old_key()
    click.echo("one key signs")


@webhooks.command()
@click.option(
    "--hmac",
    "kind",
    flag_value="hmac_key",
    help="The organization's secret for `hmac` signatures instead: that of endpoints whose own was never rotated.",
)
@click.option("--bridge", "kind", flag_value="bridge_key", help="The secret of what is pushed to bridges instead.")
@database()
@organization_option
@as_json
def key(kind: str | None, path: str, organization: str | None, json_output: bool) -> None:
    """Show the public key with which `jwt` signatures are verified: the base64 of its PEM text."""
    with opened(path, organization) as billing:
        known = billing.organizations.get()
        match kind:
            case "hmac_key":
                text = known.hmac_key
            case "bridge_key":
                text = derived_key(known.root_key, Purpose.BRIDGE_CALL)
            case _:
                text = billing.webhooks.public_key()
    if json_output:
        print_json({kind or "public_key": text})
    else:
        click.echo(text, nl=kind is not None)
