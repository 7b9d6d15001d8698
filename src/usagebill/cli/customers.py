"""`usagebill customers`: hand out what is known about a customer, and erase who it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from usagebill.billing import Billing
from usagebill.cli.options import as_json, database, named, opened, organization_option, print_json
from usagebill.operations.customer_archives import missing_documents, write_archive
from usagebill.runtime.work import Work


@click.group()
def customers() -> None:
    """Export what is known of customers, and erase it."""


@customers.command()
@click.argument("external_id")
@click.option(
    "--event-property",
    "event_properties",
    multiple=True,
    metavar="NAME",
    help="A property of its events that says who somebody is; repeatable.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@organization_option
@database()
@as_json
def anonymize(
    external_id: str,
    event_properties: Sequence[str],
    yes: bool,
    organization: str | None,
    path: str,
    json_output: bool,
) -> None:
    """Erase for good who the customer with EXTERNAL_ID is, and delete it.

    Refused while it has subscriptions, open invoices, payments under way or credits. Its amounts stay; invoices, credit
    notes and receipts show it for as long as the law wants (--document-years of `serve` and `work`). Logs, messages and
    events are erased by jobs, which a worker runs.
    """
    if not yes:
        click.confirm(f"Erase who {external_id} is? This cannot be undone", abort=True)
    with opened(path, organization) as billing, named(f"no customer has the external id {external_id}"):
        shown = billing.view(billing.customers.anonymize(external_id, event_properties=list(event_properties)))
    if json_output:
        print_json(shown)
    else:
        click.echo(f"anonymized; its external id is {shown['external_id']} now")


@customers.command()
@click.argument("external_id")
@click.option("--output", "-o", metavar="FILE", help="The file.  [default: EXTERNAL_ID.zip]")
@organization_option
@database()
def archive(external_id: str, output: str | None, organization: str | None, path: str) -> None:
    """Write everything about the customer with EXTERNAL_ID to a ZIP file, to hand out to the person.

    Its records, events and activities as JSON lines, and its documents; those that nobody has asked for yet are made.
    """
    target = output or f"{external_id.replace('/', '_')}.zip"
    part = f"{target}.part"
    with opened(path, organization) as billing, named(f"no customer has the external id {external_id}"):
        _make_documents(billing, external_id)
        try:
            with open(part, "wb") as file:
                billing.reading(lambda reader: write_archive(reader, external_id, file))
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
    os.replace(part, target)
    click.echo(target, err=True)


def _make_documents(billing: Billing, external_id: str) -> None:
    """Make the documents of the customer's issued invoices, credit notes and receipts that are missing."""
    for make, id in billing.reading(lambda reader: missing_documents(reader, external_id)):
        billing.writing(partial(_make, make, id))


def _make(make: Callable[[Work, str], bytes], id: str, work: Work) -> None:
    make(work, id)
