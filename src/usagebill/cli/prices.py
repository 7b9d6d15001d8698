"""`usagebill prices`: everything that decides prices, as a file."""

from __future__ import annotations

from pathlib import Path

import click

from usagebill.cli.options import database, opened, organization_option, print_json
from usagebill.cli.price_files import price_text, read_price_file
from usagebill.core.currencies import exponent, major_from_cents
from usagebill.core.price_comparisons import ComparisonSummary
from usagebill.core.price_lists import PriceListChange, change_text
from usagebill.http.openapi import price_list_schema

_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_DELETE = click.option("--delete", is_flag=True, help="Delete records and charges that the file does not name.")


@click.group()
def prices() -> None:
    """Keep metrics, plans and all prices in a file.

    A price list has metrics, plans, add-ons, taxes, coupons and features, by code."""


@prices.command()
@organization_option
@database()
def pull(organization: str | None, path: str) -> None:
    """Print the price list as YAML, to be kept in a file: `usagebill prices pull > prices.yaml`."""
    with opened(path, organization, read_only=True) as billing:
        click.echo(price_text(billing.prices.pull()), nl=False)


@prices.command()
@_FILE
@_DELETE
@organization_option
@database()
def diff(file: Path, delete: bool, organization: str | None, path: str) -> None:
    """Say what `apply` would change, in words and in what last month would have cost. Changes nothing."""
    listed = read_price_file(file)
    with opened(path, organization) as billing, listed.refusals():
        _say(billing.prices.diff(listed.content, delete=delete), delete=delete)


@prices.command()
@_FILE
@click.option(
    "--effective",
    metavar="immediately|next_period|DATE",
    help="From when changed prices of plans count: for open periods too, from the next period of each subscription on, "
    "or from its first period that begins on the day or later.",
)
@_DELETE
@click.option("--cascade", is_flag=True, help="Also change subscriptions with prices of their own.")
@organization_option
@database()
def apply(file: Path, effective: str | None, delete: bool, cascade: bool, organization: str | None, path: str) -> None:
    """Make every record that FILE names what it says, all or nothing.

    Refused without --effective if any subscription would have paid more last month, or this month so far.
    """
    listed = read_price_file(file)
    with opened(path, organization) as billing, listed.refusals():
        made = billing.prices.apply(listed.content, effective=effective, delete=delete, cascade_updates=cascade)
        _say(made, delete=delete)


@prices.command()
def schema() -> None:
    """Print the JSON Schema of price lists, with which editors complete and check the file."""
    print_json(price_list_schema())


def _say(found: PriceListChange, *, delete: bool) -> None:
    for change in found.changes:
        click.echo(change_text(change))
    if not found.changes:
        click.echo("nothing changes")
    for section, code in () if delete else found.kept:
        click.echo(f"{section} {code}: not in the file, kept (--delete deletes it)")
    for code, total in found.effects.items():
        click.echo(_effect_text(code, total))


def _effect_text(code: str, total: ComparisonSummary) -> str:
    old, new, change = (
        f"{major_from_cents(cents, total.currency):.{exponent(total.currency)}f}"
        for cents in (total.old_cents, total.new_cents, total.difference_cents)
    )
    sign = "+" if total.difference_cents > 0 else ""
    text = (
        f"plan {code}, {total.start} to {total.end}: {old} -> {new} {total.currency} ({sign}{change}), "
        f"{total.more_count} of {total.subscriptions_count} subscriptions pay more, {total.less_count} less"
    )
    if total.fixed_terms:
        text += f"; {len(total.fixed_terms)} of them run until an agreed end"
    return text
