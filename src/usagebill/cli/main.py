"""The root of the command line, and `version`."""

from __future__ import annotations

import platform
import sqlite3

import click

from usagebill import __version__
from usagebill.cli.audit import audit
from usagebill.cli.backup import backup
from usagebill.cli.books import books
from usagebill.cli.clock import clock
from usagebill.cli.compare import compare
from usagebill.cli.customers import customers
from usagebill.cli.demo import demo
from usagebill.cli.dunning_campaigns import dunning_campaigns
from usagebill.cli.event_sources import COMMANDS as SOURCE_COMMANDS
from usagebill.cli.event_store import event_store
from usagebill.cli.events import events
from usagebill.cli.export import export
from usagebill.cli.init import init
from usagebill.cli.jobs import jobs, run_due
from usagebill.cli.keys import keys
from usagebill.cli.lists import lists
from usagebill.cli.migrate import move_to_postgresql
from usagebill.cli.options import as_json, print_json
from usagebill.cli.organizations import organizations
from usagebill.cli.payment_connections import payment_connections
from usagebill.cli.payments import payments
from usagebill.cli.prices import prices
from usagebill.cli.report import report
from usagebill.cli.row_security import row_security
from usagebill.cli.sections import SectionedGroup
from usagebill.cli.serve import serve, work
from usagebill.cli.simulate import simulate
from usagebill.cli.status import status
from usagebill.cli.sync_connections import sync_connections
from usagebill.cli.tax_connections import tax_connections
from usagebill.cli.upgrade import upgrade
from usagebill.cli.usage import usage
from usagebill.cli.users import users
from usagebill.cli.webhooks import webhooks


@click.group(cls=SectionedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="usagebill %(version)s")
def main() -> None:
    """Usage events in, exact invoices out: the service, its workers and its keys."""


@click.command()
@as_json
def version(json_output: bool) -> None:
    """Show the versions of usagebill and of what it runs on."""
    known = {"usagebill": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    if json_output:
        print_json(known)
    else:
        click.echo(" ".join(f"{name} {number}" for name, number in known.items()))


for command in SOURCE_COMMANDS:
    events.add_command(command)


@click.group()
def repair() -> None:
    """Rebuild kept totals, should the audit find one off."""


repair.add_command(usage.commands["rebuild"], "usage")
repair.add_command(lists.commands["recount"], "lists")

main.add_sections(
    {
        "Start": (demo, init, serve, work, version),
        "Bill and report": (
            prices,
            events,
            compare,
            report,
            export,
            books,
            customers,
            payments,
            dunning_campaigns,
            payment_connections,
            tax_connections,
            sync_connections,
        ),
        "Operate": (
            status,
            jobs,
            run_due,
            webhooks,
            keys,
            users,
            organizations,
            backup,
            upgrade,
            clock,
            move_to_postgresql,
            row_security,
            event_store,
        ),
        "Repair": (audit, repair, simulate),
    }
)
for former, name in ((move_to_postgresql, "migrate"), (usage, "usage"), (lists, "lists")):
    main.add_former(former, name)
