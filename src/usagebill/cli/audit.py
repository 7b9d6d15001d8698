"""`usagebill audit`: a check of everything that was billed."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import timedelta
from typing import NoReturn

import click

from usagebill.cli.options import as_json, database, named, opened, print_json
from usagebill.core.organizations import Organization
from usagebill.core.provider_requests import ProviderFailed
from usagebill.core.recounts import KINDS
from usagebill.operations import organizations
from usagebill.operations.audit import AuditReport
from usagebill.outside.provider_calls import compared_with_provider


@click.command()
@click.option("--organization", envvar="USAGEBILL_ORGANIZATION", show_envvar=True, help="Its id (default: all).")
@click.option(
    "--at-most", type=click.IntRange(min=1), default=1000, show_default=True, help="How many findings to print."
)
@click.option(
    "--recount/--no-recount",
    default=True,
    show_default=True,
    help="Also recount each fee from its events, its plan and its days, and the running totals of usage; this reads all"
    " events.",
)
@click.option(
    "--provider",
    metavar="CODE",
    help="Compare payments and refunds with the provider's list for this connection instead.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3660),
    default=90,
    show_default=True,
    help="With --provider: how many days.",
)
@database()
@as_json
def audit(
    organization: str | None,
    at_most: int,
    recount: bool,
    provider: str | None,
    days: int,
    path: str,
    json_output: bool,
) -> None:
    """Recompute issued invoices and report what disagrees.

    Every issued invoice is recomputed from its own records.

    It checks the cents of invoices, fees and taxes; gaps and repeats in invoice numbers; periods billed twice or never;
    the amounts of coupons and credit notes; that every wallet credit leads from a grant to an invoice or is still
    there; that every payment has its receipt and every payment request its cents; that refunds match their credit
    notes; that no payment or refund was lost; and each fee against a recount of its events and days. Reports how many
    fees were recounted, and how many were not and why. Changes nothing. Exits with 1 if it finds anything.
    """
    if provider is not None:
        _compare(path, organization, provider, days, json_output)
    reports = reports_of(path, organization, at_most=at_most, recount=recount)
    if json_output:
        print_json({"organizations": [{"id": audited.id, **asdict(report)} for audited, report in reports]})
    else:
        for audited, report in reports:
            print_report(audited.name, report)
    sys.exit(1 if any(report.found for _, report in reports) else 0)


def reports_of(
    path: str, organization: str | None = None, *, at_most: int = 1000, recount: bool = True
) -> list[tuple[Organization, AuditReport]]:
    """The audit of an organization, or of all, with at most so many findings each."""
    reports: list[tuple[Organization, AuditReport]] = []
    with opened(path, organization, read_only=True) as billing:
        chosen = [billing.organization] if organization else billing.store.read(None, organizations.find_all)
        for audited in chosen:
            with opened(path, audited.id, read_only=True) as audited_billing:
                reports.append((audited, audited_billing.audit(at_most=at_most, recount=recount)))
    return reports


def _compare(path: str, organization: str | None, code: str, days: int, json_output: bool) -> NoReturn:
    missing = f"no connection has the code {code}: see `usagebill payment-connections list`"
    with opened(path, organization, read_only=True) as billing, named(missing):
        since = billing.clock.now() - timedelta(days=days)
        try:
            differing = compared_with_provider(billing._system, billing.organization, code, since)
        except ProviderFailed as problem:
            raise click.ClickException(f"the provider gives no list of charges: {problem.failure.message}") from None
    if json_output:
        print_json([asdict(difference) for difference in differing])
    else:
        click.echo(f"{code}: {len(differing)} found")
        for difference in differing:
            click.echo(f"  {difference}")
    sys.exit(1 if differing else 0)


def print_report(name: str, report: AuditReport) -> None:
    """Print what an audit has found in an organization."""
    click.echo(
        f"{name}: {report.found} found in {report.invoices} invoices, {report.subscriptions} subscriptions, "
        f"{report.credit_notes} credit notes, {report.coupons} applied coupons, "
        f"{report.wallets} wallets"
    )
    if report.recounted:
        counts = ", ".join(
            f"{report.recounted[kind]} {name}" for kind, name in KINDS.items() if kind in report.recounted
        )
        click.echo(f"  recounted: {counts}")
    for left in report.not_recounted:
        click.echo(f"  not recounted: {left.count} {KINDS[left.kind]} ({left.reason})")
    for finding in report.findings:
        click.echo(f"  {finding}")
    if report.found > len(report.findings):
        click.echo(f"  and {report.found - len(report.findings)} more")
