"""`usagebill sync-connections`: accounting systems and CRMs, and the documents pushed to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from usagebill.billing import Billing
from usagebill.cli.connections import (
    add_create,
    add_delete,
    add_list,
    add_update,
)
from usagebill.cli.options import as_json, database, named, opened, organization_option, print_json, print_table
from usagebill.core.statuses import SyncStatus
from usagebill.core.sync_connections import KINDS, TARGETED_OBJECTS

F = TypeVar("F", bound=Callable[..., Any])

_api_key = click.option(
    "--api-key", envvar="USAGEBILL_SYNC_API_KEY", show_envvar=True, help="The API key that we send to it."
)
_LISTED = 100


def _switches(command: F) -> F:
    for name in ("payments", "credit-notes", "invoices"):
        flag = f"--{name}/--no-{name}"
        command = click.option(
            flag, f"sync_{name.replace('-', '_')}", default=None, help=f"Push {name.replace('-', ' ')} (default: yes)."
        )(command)
    return click.option(
        "--targeted-object",
        "default_targeted_object",
        type=click.Choice(TARGETED_OBJECTS),
        help="HubSpot object for customers without a type (default: companies).",
    )(command)


def _operations(billing: Billing) -> Any:
    return billing.sync_connections


@click.group("sync-connections")
def sync_connections() -> None:
    """Connect to accounting systems and CRMs.

    They receive the customers linked to them, and their invoices."""


add_create(sync_connections, _operations, KINDS, "Connect to a system.", _api_key, _switches)
add_list(
    sync_connections,
    _operations,
    ("category", "kind", "code", "name", "url", "has_api_key"),
)


add_update(
    sync_connections,
    _operations,
    "Change a connection; options that are not given stay as they are.",
    _api_key,
    _switches,
)
add_delete(
    sync_connections,
    _operations,
    "Delete a connection: its customers are unlinked, and nothing more is pushed.",
)


@sync_connections.command()
@click.option("--status", type=click.Choice([status.value for status in SyncStatus]), help="Only those of this status.")
@click.option("--failed", is_flag=True, help="Only those that have failed: --status failed.")
@click.option("--page", type=click.IntRange(1), default=1, show_default=True, help=f"{_LISTED} documents are a page.")
@database()
@organization_option
@as_json
def documents(
    status: str | None, failed: bool, page: int, path: str, organization: str | None, json_output: bool
) -> None:
    """List the documents pushed, or to be pushed, newest first."""
    wanted = "failed" if failed else status
    with opened(path, organization) as billing:
        filters: dict[str, Any] = {} if wanted is None else {"status": wanted}
        listed = billing.synced_documents.list(page=page, per_page=_LISTED, **filters)
        rows = [dict(billing.view(document)) for document in listed.items]
    if json_output:
        print_json(rows)
        return
    for row in rows:
        row["error"] = row["error"] and f"{row['error']['error_code']}: {row['error']['message']}"
    columns = ("svc_id", "integration_code", "subject", "subject_id", "status", "attempts", "external_id", "error")
    print_table(columns, rows, "no synced documents")


@sync_connections.command()
@click.argument("document_ids", nargs=-1, metavar="[DOCUMENT_ID]...")
@click.option("--failed", is_flag=True, help="All that have failed.")
@database()
@organization_option
def resend(document_ids: tuple[str, ...], failed: bool, path: str, organization: str | None) -> None:
    """Queue documents to be pushed again by a worker or server."""
    if bool(document_ids) == failed:
        raise click.UsageError("name the documents to push again, or use --failed")
    with opened(path, organization) as billing:
        if failed:
            count = billing.synced_documents.resend_failed()
        else:
            for document_id in document_ids:
                with named(f"no document {document_id}: see `usagebill sync-connections documents`"):
                    billing.synced_documents.resend(document_id)
            count = len(document_ids)
    click.echo(f"{count} to be pushed again")


@sync_connections.command()
@click.argument("invoice_id")
@database()
@organization_option
def push(invoice_id: str, path: str, organization: str | None) -> None:
    """Push an invoice with its credit notes and payments, even if it is older than its customer's link."""
    with opened(path, organization) as billing, named(f"no invoice {invoice_id}"):
        invoice = billing.synced_documents.push_invoice(invoice_id)
    click.echo(f"{invoice.number} is to be pushed")
